/* The inside of struct replica, shared by replica.c, which changes it, and replica_clock.c and
 * replica_status.c, which look at it. */
#ifndef CKPT_BROKER_REPLICA_INTERNAL_H
#define CKPT_BROKER_REPLICA_INTERNAL_H

#include "src/broker/replica/replica.h"
#include "src/broker/replica/state_clock.h"

/* A hand-over of leadership; done is NULL when there is none. It outlives the leadership until it
 * is known who has that. */
struct replica_transfer {
    replica_done_fn *done;
    void *data;
    uint64_t member_id;
    uint64_t until_us;
    bool asked; /* the other member was told to campaign */
};

struct replica {
    struct consensus *consensus;
    struct fsm *fsm;
    struct clock_ops clock;
    struct state_clock state_clock;
    struct clock_timer *flush_timer;
    const Ckpt__Log__V1__ClusterInit *initial;
    const Ckpt__Log__V1__MemberFacts *facts;
    void (*fatal)(void *context, const struct err *err);
    void *fatal_context;
    void (*closed)(void *context);
    void *closed_context;

    struct list observers;
    struct list queued; /* batches, oldest first; the last one takes more commands */
    struct list spare;  /* cleared batches for what comes next, REPLICA_SPARE_BATCHES at most */
    size_t spare_count;
    struct list reads; /* that wait for serving */
    struct replica_transfer transfer;
    size_t in_flight_count;
    size_t waiting_count; /* commands in queued and in flight */

    char cluster_id[CONSENSUS_NAME_BYTES];
    uint64_t member_id;
    uint64_t term;      /* of the present leadership of this member */
    uint64_t leader_id; /* last told */
    bool leading;
    bool first_proposed;
    bool serving;
    bool closing;
    bool flush_scheduled; /* for the next turn of the loop */

    uint64_t applied_at_us; /* 0: nothing since start */
    struct replica_stats stats;
    struct replica_hash hashes[REPLICA_HASHES];
    size_t hash_count;       /* ever written since the last snapshot that was adopted */
    uint64_t replayed_index; /* the log's end when this process began */
    const char *data_dir;    /* the configuration's */
};

static inline uint64_t replica_now_us(const struct replica *replica)
{
    return replica->clock.monotonic_us(replica->clock.context);
}

/* replica_clock.c: consensus_hooks.note and noted. */
size_t replica_clock_note(void *context, uint64_t to, uint8_t bytes[CONSENSUS_NOTE_MAX_BYTES]);
void replica_clock_noted(void *context, uint64_t from, bool leads, const uint8_t *bytes,
                         size_t length);

#endif
