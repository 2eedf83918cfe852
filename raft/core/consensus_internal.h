/* The inside of struct consensus, shared by the consensus*.c files.
 *
 * Flow     every call into libraft is bracketed by core_enter() and core_leave(). Work that libraft
 *          may not see from inside its own calls (completed sends, dropped tags, role changes,
 *          reads) is done in the outermost core_leave().
 * Shapes   one per member. consensus.c opens, closes, proposes; consensus_io.c is libraft's struct
 *          raft_io; consensus_snapshot.c its struct raft_fsm; consensus_election.c settles, ticks
 *          and elects; consensus_read.c reads; consensus_member.c changes the members,
 *          consensus_peers.c knows where they are.
 * Units    names say it: _us, _ms, _bytes; log indexes and terms have none.
 * Errors   an error that cannot be returned through libraft goes to core_fail(). From then on
 *          nothing is sent, written or applied, and hooks.fatal() is called once.
 * Absent   decisions of Raft: they are libraft's. Whatever is changed in its fields from here is a
 *          rule of raft/RULES.md or a trap of raft/README.md.
 */
#ifndef CKPT_RAFT_CONSENSUS_INTERNAL_H
#define CKPT_RAFT_CONSENSUS_INTERNAL_H

#include <raft.h>

#include "raft/core/consensus.h"
#include "raft/core/safety.h"
#include "raft/log/book.h"
#include "raft/log/folder.h"
#include "raft/log/founding.h"
#include "raft/log/vote.h"
#include "raft/log/wal.h"
#include "raft/net/probe.h"
#include "raft/net/transport.h"
#include "raft/snap/snapshot.h"
#include "raft/snap/snapshot_take.h"
#include "raft/snap/snapshot_transfer.h"
#include "src/base/list.h"

enum {
    CORE_TICKS_PER_HEARTBEAT = 4,
    CORE_TICK_MIN_MS = 5,
    CORE_HANG_UPS = 3,    /* S11: on the question, which is asked again, and then is enough */
    CORE_STAGGER_MS = 15, /* S11: between the ranks that follow a dead leader */
    CORE_RANKS_PER_ELECTION = 20, /* S21: part of the election timeout between the ranks' timers */
    CORE_RETRY_MS = 50, /* S11: times rank + 1, from an election that elected nobody to the next */
    CORE_RETRIES_TWICE = 2, /* so many, and the next wait is twice as long: messages may be slow */
    /* term and vote on the candidate and on a voter, and some more: an election's answers take so
     * many */
    CORE_VOTE_WRITES = 6,
    CORE_CAMPAIGN_MS = CONSENSUS_TRANSFER_MS / 2, /* from a question to its answer */
    CORE_TRANSFER_ASK_MS = 50, /* from a question to the next, while nobody has taken over */
    CORE_RETRIES_MAX = 8,      /* then libraft's own timeout counts again */
    /* election timeouts for which who gave leadership up does not campaign */
    CORE_GAVE_UP_ELECTIONS = 5,
    CORE_RELUCTANT_ELECTIONS = 5, /* ... for which who is reluctant leaves it to others */
    CORE_NOTE_MS = 500,
    CORE_SPACE_CHECK_MS = 1000,
    CORE_BOOK_RETRY_MS = 1000,
    CORE_FORMER_MS = 3000,
    CORE_SNAPSHOT_RETRY_MS = 10000,  /* after a failed one */
    CORE_INSTALL_TIMEOUT_MS = 10000, /* after the last byte was sent */
    /* times what is due of a small state: so much log is kept for a member that gets a snapshot */
    CORE_SNAPSHOT_HELD = 4,
    CORE_TRAILING_BYTES_MAX = 16 << 20,
    CORE_TRAILING_ENTRIES_MAX = 100000,
    CORE_TRAILING_ENTRIES_LOADED = 1024,
    CORE_CLOSE_POLL_MS = 5,
};

#define CORE_JOINING_FILE "joining" /* until this member is a voter: its log may be empty */

enum deferred_kind { DEFERRED_SEND, DEFERRED_GET };
/* A callback that libraft must not see inside its own call: its memory may be freed by it. */
struct deferred {
    struct list node;
    enum deferred_kind kind;
    int status;
    struct raft_io_send *send;
    raft_io_send_cb sent;
    struct raft_io_snapshot_get *get;
    raft_io_snapshot_get_cb got;
};

/* An entry of this leader that waits for its commit, with the tag of who proposed it. */
struct proposal {
    struct raft_apply request;
    struct list node;
    struct consensus *consensus;
    void *tag;
    bool applied; /* and the tag handed over */
};

/* Committed, and not yet given to the state machine: until libraft's call is over. */
struct noted {
    struct list node;
    uint64_t index, term;
    const uint8_t *bytes; /* libraft's */
    size_t length;
    void *tag;
};

/* A linearizable read that waits (consensus_read.c). */
struct read {
    struct list node;
    void (*done)(void *data, int status, const struct err *err);
    void *data;
    uint64_t index; /* must be applied first */
};

/* Entries beyond next_index were not sent: told to libraft when its call has ended. */
struct send_limit {
    uint64_t peer; /* 0: none */
    uint64_t next_index;
};

/* consensus_founding.c: the first start. Each founder asks every other one at least once in
 * TRANSPORT_BACKOFF_MAX_MS. */
enum {
    FOUNDING_HEARD_MS = 5 * TRANSPORT_BACKOFF_MAX_MS, /* so long an answer counts */
    FOUNDING_ALONE_MS = 2 * TRANSPORT_BACKOFF_MAX_MS, /* so long a founder without others listens */
};
struct founding {
    struct founding_record record; /* number 0: there is none, or it is not needed any more */
    struct founding_record taken;  /* as another founder told it, and not written yet */
    bool under_way;                /* this folder is no member yet: libraft was not started */
    uint64_t basis;
    uint64_t drawer; /* the founder that draws the incarnation */
    uint64_t begun_us;
    uint64_t heard[CONSENSUS_MEMBERS_MAX]; /* numbers, by place in the list of members; 0: none */
    uint64_t heard_us[CONSENSUS_MEMBERS_MAX];   /* when, last */
    const char *differs[CONSENSUS_MEMBERS_MAX]; /* why its answer does not count; NULL: it does */
    bool arrived[CONSENSUS_MEMBERS_MAX];        /* by place in record.founders: it is a member */
    char text[CONSENSUS_FOUNDING_BYTES];        /* the awaited founders, as told last */
};

enum change_kind { CHANGE_NONE, CHANGE_PROBE, CHANGE_ADD, CHANGE_PROMOTE, CHANGE_REMOVE };
enum change_stage {
    CHANGE_PROBING,
    CHANGE_READY,     /* to be given to libraft, outside of its own calls */
    CHANGE_UNDER_WAY, /* libraft has it */
    CHANGE_COMMITTED, /* libraft says so; an add has two steps */
    CHANGE_OVER       /* done() is next */
};

/* The one change of the members that is asked for here. */
struct change {
    enum change_kind kind;
    enum change_stage stage;
    struct consensus_member member;
    struct raft_change request;
    consensus_change_fn
        *done; /* NULL: asked for by nobody, an add of a former leader is finished */
    void *data;
    struct err err; /* ERR_NONE: it worked */
};

/* consensus_note.c: of one member, what it was told and what it told. */
struct note_peer {
    uint64_t id; /* 0: none yet */
    uint64_t said_us;
    bool said;
    enum consensus_unfit said_unfit; /* of this member */
    bool said_others;
    enum consensus_unfit unfit;
};

/* One member. Flags that may not stand together are listed in consensus_check.c. */
struct consensus {
    struct consensus_config config;
    struct consensus_hooks hooks;
    struct consensus_member members[CONSENSUS_MEMBERS_MAX];
    char cluster_id[FRAME_CLUSTER_BYTES];
    struct folder folder;
    struct vote_store vote;
    struct wal wal;
    struct transport transport;
    struct transfer transfer;
    struct safety safety;
    struct raft raft;
    struct raft_io io;
    struct raft_fsm fsm;
    raft_io_tick_cb tick;
    struct clock_timer *tick_timer;
    struct clock_timer *eof_timer;
    struct clock_timer *read_timer;
    uint64_t last_tick_us, space_checked_us;
    uint64_t woke_us;        /* of the last late tick: this process had stood still; 0: never */
    bool tick_stalled;       /* the last one was passed over */
    uint64_t book_failed_us; /* 0: it could be saved */

    unsigned depth; /* of core_enter() */
    bool wal_opened, vote_opened, core_started, listening;
    bool failed;  /* fatal() was called */
    bool closing; /* nothing new is taken */
    bool closed_core;
    struct err failure; /* the first one; code ERR_NONE: none yet */
    void (*closed)(void *context);
    void *closed_context;

    struct list deferred;
    struct send_limit limits[CONSENSUS_MEMBERS_MAX];
    bool limited; /* there may be one */

    struct list noted;     /* by index; empty outside of libraft's calls */
    struct list proposals; /* by index */
    size_t proposal_count;
    uint64_t proposed_term; /* of the last proposal that was taken */
    struct list dropped;
    struct raft_barrier barrier;

    /* The values of the last hooks.role_changed(). */
    enum consensus_role role;
    uint64_t role_term;
    uint64_t role_leader;
    uint64_t leader_last; /* the last known one, to count changes */
    uint64_t leader_changes_total;
    uint64_t eof_leader;  /* the leader whose connection ended; 0: none did */
    unsigned eof_hung_up; /* so often since then it has hung up on the question */
    uint64_t eof_term;
    struct probe eof_probe; /* S11: asks it whether it lives */
    /* The hand-over that this leader asked for last, and the one that this member asked about, as
     * it was asked to take over. */
    uint64_t transfer_round, transfer_member, transfer_term, transfer_us;
    uint64_t transfer_asked_us; /* last */
    uint64_t campaign_term, campaign_round, campaign_us;
    uint64_t gave_up_us; /* this member gave leadership up, and nobody leads yet; else 0 */
    struct note_peer notes[CONSENSUS_MEMBERS_MAX]; /* by place in the configuration */
    bool reluctant;
    bool others_fit;        /* as the leader said: whom this member may leave elections to */
    unsigned retries;       /* of elections since a leader was known */
    uint64_t vote_write_us; /* of the last term or vote */

    struct snapshot_name snapshot; /* the newest one here; index 0: none */
    uint64_t snapshot_previous_index;
    struct snapshot_take take;
    struct snapshot_meta taking; /* while a snapshot of ours is in work */
    struct disk_job keep_job;
    bool keep_running;
    bool keep_installs;
    int keep_status;
    struct err keep_err;
    struct snapshot_name keeping;
    void *loaded; /* a state that waits for its installation to end */
    struct disk_job discard_job;
    void *discarded;     /* a state that is being freed off the loop */
    bool discard_worked; /* of the job: it is freed, the loop does not know yet */
    struct raft_io_snapshot_put *put;
    raft_io_snapshot_put_cb put_done;
    /* of an installation: libraft forgets to free it when cancelled */
    struct raft_buffer *put_bufs;
    struct snapshot_meta received; /* a snapshot that waits for libraft to be free */
    uint64_t received_from, received_term;
    bool received_waiting;
    uint64_t snapshot_begun_us, snapshot_failed_us;
    uint64_t snapshot_count, snapshot_ms_last, snapshot_failures_total;
    struct err snapshot_err;      /* of the last failure of an own one */
    uint64_t snapshot_file_bytes; /* of the last own one; 0: none was taken in this life */
    uint64_t bytes_since_snapshot;
    uint64_t bytes_before_take; /* bytes_since_snapshot when the one at work was begun */
    uint64_t snapshot_bytes;    /* content of the newest one; 0: not known */
    uint64_t loaded_bytes;      /* content of the loaded one */

    struct list reads_waiting, reads_round, reads_confirmed, reads_refused;
    uint64_t read_round, read_term, read_sent_us;
    uint64_t read_voters[CONSENSUS_MEMBERS_MAX]; /* ids that have confirmed; 0: free */

    struct founding founding;
    struct book book;
    struct probe probe;
    struct probe former; /* consensus_former.c */
    uint64_t former_asked_us;
    size_t former_next;
    struct change change;
    bool joining; /* the folder was made by config.join, and this member was no voter since */
    /* The values of the last hooks.members_changed(). */
    uint64_t told_committed, told_uncommitted;
    bool moved; /* some member is elsewhere now */
};

/* The monotonic clock of the config table: never set back, not the time of day. */
uint64_t core_now_us(const struct consensus *consensus);
uint64_t core_now_ms(const struct consensus *consensus);
/* By libraft's word; a leader that was deposed meanwhile does not know it yet. */
bool core_is_leader(const struct consensus *consensus);
/* consensus_status.c: since a majority, this member included, was heard; UINT64_MAX: never. And
 * whether the leader of that term has applied an entry of its own, and with it all before. */
uint64_t core_quorum_age_ms(const struct consensus *consensus);
bool core_applied_own(const struct consensus *consensus, uint64_t term);
/* For texts: by the configuration, the peers or the book; "unknown" else. Valid until one of them
 * changes. */
const char *core_member_name(const struct consensus *consensus, uint64_t id);
/* Place of a member in libraft's configuration, or its size. */
unsigned core_server_place(const struct consensus *consensus, uint64_t id);
/* Of the configuration in use, this member included. */
size_t core_voter_count(const struct consensus *consensus);
/* Connected, and heard of lately. This member itself is. */
bool core_reachable(const struct consensus *consensus, uint64_t id);
uint64_t core_contact_age_ms(const struct consensus *consensus,
                             uint64_t id); /* UINT64_MAX: never */
/* An entry of this leader's own term is committed: before that it may change no members (S16) and
 * answer no read. */
bool core_term_committed(const struct consensus *consensus);

/* consensus.c: libraft starts with what the folder holds, whose log and vote are open. Once. */
int core_begin(struct consensus *consensus, struct err *err);

/* consensus_founding.c: begins the first start, or goes on with one. On 0 either the folder is a
 * member's, or founding.under_way says that others are waited for, and each tick goes on. */
int core_founding_open(struct consensus *consensus, struct err *err);
void core_founding_tick(struct consensus *consensus);
/* Answers a hello of which one side is no member yet (transport_events.founder). */
void core_on_founder(void *context, const struct frame_hello *hello,
                     struct frame_hello_reply *ret_reply);
/* Notes a founder's answer to our hello; does nothing while no founding is under way. */
void core_founder_answers(struct consensus *consensus, uint64_t peer,
                          const struct frame_hello_reply *reply);
/* Somebody else answers at that founder's address, so what was heard from there does not count. */
void core_founder_is_other(struct consensus *consensus, uint64_t peer);
/* It has said hello as a member, or this one is: when all have, the record of the founding goes. */
void core_founder_arrived(struct consensus *consensus, uint64_t id);

/* consensus_check.c: stops the program when parts of the member contradict each other. Between the
 * last settling and the end of the outermost call. */
void core_check(const struct consensus *consensus);

/* consensus_election.c: around every call into libraft, in pairs; they nest. The outermost
 * core_leave() settles everything that the call has left behind, runs hooks, and checks. */
void core_enter(struct consensus *consensus);
void core_leave(struct consensus *consensus);
/* Remembers the first failure, and lets nothing more reach the disk; the outermost core_leave() or
 * the caller reports it. */
void core_fail(struct consensus *consensus, const struct err *err);
/* Calls hooks.fatal() once, when there is a failure. While consensus_open() runs it is not called:
 * that returns the error. */
void core_report_failure(struct consensus *consensus);
/* Four times per heartbeat; starts its own timer again. */
void core_tick(void *data);
/* S11: the turn of this rank has come, after the leader's connection ended. */
void core_eof_fire(void *data);
/* Begins an election at once that may disturb the given leader. A follower only. */
void core_campaign(struct consensus *consensus, uint64_t leader);
/* The callbacks of the transport (transport_events). The message is closed, or libraft has taken
 * its entries. */
void core_on_message(void *context, uint64_t from, struct frame_message *message);
void core_on_greeted(void *context, uint64_t peer);
void core_on_inbound_lost(void *context, uint64_t peer);
void core_on_outbound_lost(void *context, uint64_t peer);
/* Whoever waits for a snapshot that is not under way is asked again at once. */
void core_installs_expire(struct consensus *consensus);
/* Tells who proposed what libraft gave up; true: there was something. */
bool core_dropped_settle(struct consensus *consensus);

/* consensus_io.c: fills the table that libraft calls. */
void core_io_init(struct consensus *consensus);
/* sent(status) runs when libraft's call is over. */
void core_defer_send(struct consensus *consensus, struct raft_io_send *send, raft_io_send_cb sent,
                     int status);
/* Runs what was deferred, and what that defers. */
void core_deferred_run(struct consensus *consensus);
void core_wal_failed(void *context, const struct err *err);

/* consensus_snapshot.c: hands what is committed to hooks.apply(), in log order. */
void core_apply_noted(struct consensus *consensus);
void core_fsm_init(struct consensus *consensus);
void core_fsm_close(struct consensus *consensus);
/* Of struct raft_io, in consensus_load.c: what libraft starts with. */
int core_io_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
                 struct raft_snapshot **snapshot, raft_index *start_index,
                 struct raft_entry *entries[], size_t *n_entries);
/* Of struct raft_io: keeps an own snapshot that is being written, or installs one that was
 * received. */
int core_io_snapshot_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *req,
                         const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb);
/* The state of the newest one here, for the restore that follows; err is set when it is not 0. */
int core_snapshot_load(struct consensus *consensus, struct err *err);
/* NULL: there is none, or it could not be read; then err is set. */
struct raft_snapshot *core_snapshot_token(const struct consensus *consensus, struct err *err);
/* A verified snapshot of the leader of that term has arrived (struct transfer). Takes the meta. */
void core_snapshot_received(void *context, uint64_t from, uint64_t term,
                            struct snapshot_meta *take_meta);
/* Gives libraft the one that waits, as soon as it would take it; nothing otherwise. */
void core_snapshot_deliver(struct consensus *consensus);
/* The next snapshot is due after so many bytes of log, or so many entries: at least as configured,
 * and as many bytes as the state has. So the cost of snapshots per entry does not grow with the
 * state. */
uint64_t core_snapshot_after_bytes(const struct consensus *consensus);
uint64_t core_snapshot_after_entries(const struct consensus *consensus);

/* consensus_member.c: questions to new members, and adds that a former leader left half done. */
void core_members_tick(struct consensus *consensus);
/* consensus_former.c: asks one of those that are in the configuration file alone. */
void core_former_tick(struct consensus *consensus);
/* Takes the change of members one stage further, outside of libraft's calls. True when something
 * was done: settling goes round again. */
bool core_change_settle(struct consensus *consensus);
/* Tells who asked for a change that this member stops. Nothing else may follow. */
void core_change_drop(struct consensus *consensus);

/* consensus_note.c: what goes along with a frame of this type to that member. */
void core_note_fill(struct consensus *consensus, uint64_t to, enum frame_type type,
                    struct frame_note *ret_note);
/* Takes the note that came along, before libraft gets the message. */
void core_note_take(struct consensus *consensus, uint64_t from,
                    const struct frame_message *message);
/* The member's last word about its fitness; fit when it has said nothing. */
enum consensus_unfit core_unfit(const struct consensus *consensus, uint64_t id);

/* consensus_peers.c: reads the book. */
void core_peers_open(struct consensus *consensus);
/* Saves the book when it is dirty. */
void core_peers_tick(struct consensus *consensus);
/* After each call into libraft. True when members_changed() was told. */
bool core_peers_settle(struct consensus *consensus);
/* Judges a member that calls and fills the reply (transport_events.hello). */
void core_on_hello(void *context, const struct frame_hello *hello,
                   struct frame_hello_reply *ret_reply);
/* I11: it has joined anew under the id of a voter, and must not be filled. */
bool core_voter_answers_empty(const struct consensus *consensus, uint64_t from,
                              const struct raft_append_entries_result *result);
/* A peer does not welcome this member: it may have been removed, or hold an old copy, and stops
 * then. */
void core_on_refused(void *context, uint64_t peer, const struct frame_hello_reply *reply);
const char *core_peer_address(const struct consensus *consensus, uint64_t id); /* "": unknown */

/* consensus_status.c has consensus_get_status() */

/* Asks the member again that leadership is handed to, while that is on. */
void core_transfer_tick(struct consensus *consensus);
/* One of the frames of a hand-over; what is late or fits none is dropped. */
void core_on_campaign(struct consensus *consensus, uint64_t from, const struct frame_read *asked);
/* This member does not campaign now: it has given leadership up or is reluctant, nobody else leads
 * yet, and the others have had little time. */
bool core_lets_others_win(const struct consensus *consensus);

/* consensus_read.c: finishes what was refused, and lets waiting reads begin their round. */
void core_reads_fire(void *data);
/* After each call into libraft: begins a round, confirms, finishes. */
void core_reads_progress(struct consensus *consensus);
/* Repeats the pings of a round, of which some may have been lost. */
void core_reads_tick(struct consensus *consensus);
/* Refuses these reads; done(-1) comes in the next turn of the loop. */
void core_reads_fail(struct consensus *consensus, struct list *reads);
/* Answers with the own term, whatever it is: the leader judges. */
void core_on_ping(struct consensus *consensus, uint64_t from, const struct frame_read *ping);
/* An answer of an older round or term counts for nothing. */
void core_on_pong(struct consensus *consensus, uint64_t from, const struct frame_read *pong);

#endif
