/* The inside of struct replica, shared by replica.c, which changes it, and levels.c,
 * replica_clock.c and replica_status.c, which look at it. */
#ifndef CKPT_BROKER_REPLICA_INTERNAL_H
#define CKPT_BROKER_REPLICA_INTERNAL_H

#include "src/broker/replica/replica.h"
#include "src/broker/replica/state_clock.h"

enum { REPLICA_LEVEL_TEXT_BYTES = 512 };

/* A hand-over of leadership; done is NULL when there is none. It outlives the leadership until it
 * is known who has that. */
struct replica_transfer {
    replica_done_fn *done;
    void *data;
    uint64_t member_id; /* 0: whichever voter has caught up */
    uint64_t until_us;  /* monotonic: for catching up, then for taking over (replica.h) */
    bool asked;         /* the other member was told to campaign */
};

/* leading begins with the election, serving when the first entry of this leadership is applied;
 * between the two, commands and reads collect in `queued` and `reads`. */
struct replica {
    struct consensus *consensus;
    struct fsm *fsm; /* the same object for life: a snapshot changes what is in it */
    struct clock_ops clock;
    struct state_clock state_clock;            /* what stamps of commands come from */
    struct clock_timer *flush_timer;           /* replica_flush(), never inside of consensus */
    const Ckpt__Log__V1__ClusterInit *initial; /* the caller's; NULL: this member founds nothing */
    const Ckpt__Log__V1__MemberFacts *facts;   /* the caller's; NULL: it tells none */
    void (*fatal)(void *context, const struct err *err); /* ends the process */
    void *fatal_context;
    void (*closed)(void *context);
    void *closed_context;

    struct list observers; /* in the order of subscription, which is that of telling */
    struct list queued;    /* batches, oldest first; the last one takes more commands */
    struct list spare;     /* cleared batches for what comes next, REPLICA_SPARE_BATCHES at most */
    size_t spare_count;
    struct list reads; /* that wait for serving */
    struct replica_transfer transfer;
    size_t in_flight_count; /* entries that raft has and that came to no end yet */
    size_t waiting_count;   /* commands in queued and in flight */

    char cluster_id[CONSENSUS_NAME_BYTES];
    uint64_t member_id;
    uint64_t term;      /* of the present leadership of this member */
    uint64_t leader_id; /* last told */
    bool leading;
    bool first_proposed; /* the own entry of this leadership is on its way, or applied */
    bool serving;
    bool passive;         /* the state was, after the last entry */
    bool closing;         /* nothing is taken any more */
    bool flush_scheduled; /* for the next turn of the loop */

    uint64_t applied_at_us; /* 0: nothing since start */
    struct replica_stats stats;
    struct replica_hash hashes[REPLICA_HASHES];
    size_t hash_count;       /* ever written since the last snapshot that was adopted */
    uint64_t replayed_index; /* the log's end when this process began */
    const char *data_dir;    /* the configuration's */
    struct replica_words words;
    char level_text[REPLICA_LEVEL_TEXT_BYTES]; /* of the last refusal, for its outcome */
};

static inline uint64_t replica_now_us(const struct replica *replica)
{
    return replica->clock.monotonic_us(replica->clock.context);
}

/* levels.c. The build as this member tells it. */
void level_own(struct consensus_build *ret_build);
/* The lowest level of all members' builds. */
uint32_t level_of_all(const struct replica *replica);
/* FEATURE_LEVEL, with the members that are behind: the command needs a level that the cluster has
 * not, or sets one that a member's build does not know. */
enum fsm_status level_check(struct replica *replica, const Ckpt__Log__V1__Command *command,
                            struct fsm_outcome *outcome);
/* This member met what its build does not know (fsm_newer_index()): it is told, and stops. */
void level_newer_entry(struct replica *replica);
/* ERR_NEWER. text: what the state machine said. */
int level_newer_snapshot(struct err *err, const char *text);

/* replica_clock.c: consensus_hooks.note and noted. */
size_t replica_clock_note(void *context, uint64_t to, uint8_t bytes[CONSENSUS_NOTE_MAX_BYTES]);
void replica_clock_noted(void *context, uint64_t from, bool leads, const uint8_t *bytes,
                         size_t length);

#endif
