/* The replicated state machine: allocations, checkpoints, nodes, targets, queues, sessions, events.
 *
 * Flow     fsm_apply_entry() decodes one committed log entry and applies its commands in order;
 *          each has an outcome. What agents must do is derived from the state by
 *          fsm_orders_for_node(); nothing else has effects.
 * Order    fsm_new(), then fsm_snapshot_read() where the member has a snapshot, then
 *          fsm_apply_entry() for each entry behind it, index by index. Everything else reads, and
 *          may be called between any two of these. The first command that most others need is
 *          cluster_init.
 * Shapes   one struct fsm owns everything; const pointers handed out live until the next apply,
 *          restore or swap, and nobody frees or changes what they point to. Texts are never NULL
 *          unless it is said. Limits: fsm/limits.h.
 * Units    milliseconds since the epoch (the leader's stamps), bytes, GPU-milliseconds, parts per
 *          million. Integers only. An instant or an id of 0 means that there is none.
 * Errors   business refusals are outcomes (fsm/status.h); stored bytes that do not decode are
 *          ERR-like results of restore; anything else is a bug (CHECK). Memory that runs out ends
 *          the program.
 * Threads  no locks: one thread calls everything of one struct fsm. fsm_snapshot_load() makes a
 *          state of its own, so it alone may run elsewhere.
 * Absent   no I/O, no clock, no randomness, no floating point, no logging. Same entries, same
 *          bytes: same state, same hash. Nothing is proposed here: the state says what is due, and
 *          the leader's parts in src/broker propose it.
 * Source   requirement rows S1-050.., P-*, F-*. Why each rule is as it is: RULES.md.
 */
#ifndef CKPT_FSM_FSM_H
#define CKPT_FSM_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "ckpt/v1/common.pb-c.h"
#include "fsm/limits.h"
#include "fsm/names.h"
#include "fsm/records/allocation.h"
#include "fsm/records/checkpoint.h"
#include "fsm/records/cluster.h"
#include "fsm/records/preemption.h"
#include "fsm/status.h"

struct fsm;

/* A new state is not initialised: it has the default policy, no cluster, and index 0. It refuses
 * most commands until cluster_init. */
struct fsm *fsm_new(void);
/* NULL is allowed. Snapshots that are still at work stay valid, fail from then on, and are ended by
 * their owner. */
void fsm_free(struct fsm *fsm);

/* ---- apply ---- */

/* One allocation that a preemption takes, as its requester is told. */
struct fsm_victim {
    char allocation_id[FSM_ID_BYTES];
    uint64_t checkpoint_id; /* 0: terminated without a checkpoint */
    uint32_t node_count;
};

/* What a command came to. Kept per request id, so a repeat gets the same one with repeated = true.
 * A status other than FSM_OK is a refusal: what was asked for was not done. Two kinds of commands
 * are more than one question: the items of a batch (decisions, grants, collected checkpoints) stand
 * alone, and a report whose content is refused has used up its number all the same. */
struct fsm_outcome {
    enum fsm_status status;
    bool repeated;
    uint64_t index;         /* where it first took effect */
    uint64_t checkpoint_id; /* created or concerned; 0: none */
    uint64_t preemption_id;
    /* numbers for the refusal's text: what is ... (OK batches: how many were taken) */
    uint64_t current;
    uint64_t limit; /* ... and what would be allowed */
    /* whose numbers these are, a static text; NULL: the status says it. Not remembered for
     * retries */
    const char *subject;
    uint32_t victim_count;
    struct fsm_victim victims[FSM_VICTIMS_MAX];
};

/* Called once per command of the entry, in order. The outcome is valid during the call. The
 * function may read the state, as it is right after that command, but must not change it. */
typedef void fsm_outcome_fn(void *context, size_t command_index, const struct fsm_outcome *outcome);

/* One committed entry. bytes are a ckpt.log.v1.Entry and stay the caller's; ones that do not decode
 * are counted and change nothing else, on every member alike: a member that stopped at them would
 * stop again after each restart. */
struct fsm_entry {
    uint64_t index, term;
    const uint8_t *bytes;
    size_t length;
};
/* Indexes strictly increase, else it is a bug. Each command moves the state's clock forward to its
 * own stamp, never back, so that a leader whose clock is behind cannot undo a deadline. on_outcome
 * may be NULL. Time is in proportion to the commands and to the records that they concern; a
 * preemption that may choose among all jobs looks at all of them, and new_epoch visits
 * everything. */
void fsm_apply_entry(struct fsm *fsm, const struct fsm_entry *entry, fsm_outcome_fn *on_outcome,
                     void *context);

/* What ends an entry (Entry.checked_index and checked_hash): the state hash that the leader had at
 * an earlier index. Each member that applies the entry compares it with its own, which is how a
 * member whose state differs finds out (I10). put() fills the bytes that are appended behind the
 * packed commands; check() reads them back from a whole entry, false: it has none. The state
 * machine itself skips them. */
enum { FSM_ENTRY_CHECK_BYTES = 18 };
void fsm_entry_check_put(uint8_t bytes[FSM_ENTRY_CHECK_BYTES], uint64_t index, uint64_t hash);
bool fsm_entry_check(const uint8_t *bytes, size_t length, uint64_t *ret_index, uint64_t *ret_hash);

/* Checks a command before it is proposed: shape, ids, limits, unknown fields. OK, or the refusal's
 * status with the numbers in outcome; of the outcome only status, current, limit and subject are
 * set, so the caller clears it first. The check depends on the command alone, so any member may
 * make it at any time; whether the state takes the command is for apply, which makes this check
 * again. */
enum fsm_status fsm_validate_command(const Ckpt__Log__V1__Command *command,
                                     struct fsm_outcome *ret_outcome);
/* The same, for one whose packed size is known: counting it costs as much as packing. */
enum fsm_status fsm_validate_packed(const Ckpt__Log__V1__Command *command, size_t packed_bytes,
                                    struct fsm_outcome *ret_outcome);

/* What an earlier build took, and its log and snapshots may have, but no new command may say. For
 * who proposes, after the check above; apply does not ask it. */
enum fsm_status fsm_validate_new(const Ckpt__Log__V1__Command *command,
                                 struct fsm_outcome *ret_outcome);

/* What a request id came to: the answer for a client that lost its connection and asks another
 * member. */
struct fsm_request {
    struct fsm_outcome outcome;
    uint32_t command; /* number of the body in ckpt.log.v1.Command */
    uint64_t at_ms;   /* when it was applied first */
};
/* false: no such id is remembered. It was never applied here, or is older than the policy's
 * session_ttl_ms, or had to make room. */
bool fsm_request_find(const struct fsm *fsm, const char *request_id,
                      struct fsm_request *ret_request);

/* One line for people: the status' text with the outcome's numbers and the next step. Returns text,
 * which is always terminated and cut off where size ends. */
char *fsm_outcome_text(const struct fsm_outcome *outcome, char *text, size_t size);

/* ---- read-only view ---- */

/* Where held GPU time went: causes of loss, as in metrics. What each means: RULES.md. */
#define FSM_LOSSES(X)                                                                              \
    X(FAILURE, failure)                                                                            \
    X(CHECKPOINT, checkpoint)                                                                      \
    X(RESTART, restart) X(PREEMPTION, preemption) X(WALLTIME, walltime) X(STOP, stop)
enum fsm_loss {
#define X(upper, lower) FSM_LOSS_##upper,
    FSM_LOSSES(X)
#undef X
        FSM_LOSS_COUNT
};
/* GPU time of one allocation, tenant or cluster. held = useful + pending + all of lost, at any
 * instant (I42); no GPU-millisecond is in two of them. */
struct fsm_account {
    uint64_t held_gpu_ms; /* the sum of all others */
    uint64_t useful_gpu_ms;
    uint64_t pending_gpu_ms; /* since the last complete checkpoint */
    uint64_t lost_gpu_ms[FSM_LOSS_COUNT];
};
const char *fsm_loss_name(enum fsm_loss cause); /* "failure"; one that is none is a bug */

/* What one node has of an allocation: what the scheduler said (SPEC), and the node's slot and run
 * (KEPT). Rows: fsm/records/allocation.h. */
struct fsm_node_share {
    FSM_SHARE_SPEC(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_SHARE_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* What its own checkpoints taught: moving means that grow with each complete one. The rates of the
 * whole fleet are fsm_learned(). */
struct fsm_learned {
    FSM_ALLOCATION_LEARNED(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* A job's nodes and what is known of the job. What the scheduler registered, what everybody may
 * see, and what the broker needs besides are rows of fsm/records/allocation.h. The struct lies
 * inside the state's own record, and some functions here go from one to the other: a copy of it is
 * for reading alone. */
struct fsm_allocation {
    /* Stable while it exists; another allocation may have it afterwards. */
    uint32_t slot;
    uint32_t node_count;
    const char *id;
    /* node_count of them, in the order of the registration. */
    const struct fsm_node_share *nodes;
    FSM_ALLOCATION_SPEC(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_ALLOCATION_STATUS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_ALLOCATION_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    struct fsm_learned learned;
    uint32_t gpu_count; /* sum over nodes */
    uint32_t borrowed_count;
    uint64_t active_checkpoint_id;     /* 0: none. PAUSED counts as active */
    uint64_t preemption_id;            /* that it is a victim of now; 0: none */
    const struct fsm_node_share *next; /* what it keeps after a scale-down */
    uint32_t next_count;               /* not 0: a scale-down waits for its checkpoint */
};

/* One node's files of a checkpoint. Verified means that they lie at the destination and were read
 * back with this manifest. */
struct fsm_shard {
    FSM_SHARD(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint32_t place_count;                  /* of a verified one: where it lies */
    uint64_t places[FSM_SHARD_PLACES_MAX]; /* fsm_place_make() */
    uint8_t manifest_sha256[32];
};

/* Where a part of a checkpoint lies: on a target, or as a copy on a node, by its slot. */
enum fsm_place_kind { FSM_PLACE_TARGET = 1, FSM_PLACE_NODE = 2 };
static inline uint64_t fsm_place_make(enum fsm_place_kind kind, uint32_t slot)
{
    return (uint64_t)kind << 32 | slot;
}

/* What the model read beside each job's own inputs; opaque numbers (command.proto, DecisionBasis).
 * Equal ones are one, since all decisions of a cycle share it. */
struct fsm_basis {
    uint32_t slot;
    uint32_t revision;
    uint64_t member_id;
    const char *names;
    uint32_t policy_count;
    const uint64_t *policy;
};

/* What a decision was made from (command.proto, DecisionInputs): enough to compute it once more,
 * bit by bit, and to explain it later. */
struct fsm_inputs {
    const struct fsm_basis *basis;
    uint64_t index, term; /* of the log entry that took the decision */
    uint64_t evaluated_at_ms;
    uint64_t result_digest;
    uint32_t flags;
    uint32_t column_count, source_count;
    const uint64_t *columns;
    const uint32_t *source_age_ms; /* UINT32_MAX: it said nothing */
};

/* A complete checkpoint that a node is reading again, part by part. */
struct fsm_verification {
    uint64_t checkpoint_id;
    FSM_VERIFICATION(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* One checkpoint of a whole allocation. The id holds the epoch and a sequence, so that ids only
 * grow, over restores as well. Rows: fsm/records/checkpoint.h. */
struct fsm_checkpoint {
    uint64_t id;
    uint32_t allocation_slot;
    uint32_t shard_count;
    FSM_CHECKPOINT_STATUS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_CHECKPOINT_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    const char *detail; /* what the agent says of `reason`, printable ASCII; "": nothing */
    const struct fsm_shard *shards;       /* one per node of the allocation at creation */
    const Ckpt__V1__DecisionTerms *terms; /* NULL: not the evaluator's */
    const struct fsm_inputs *inputs; /* of terms; NULL: none, or it is over and has no folder */
};

/* A node that an allocation named or an agent reported. Rows: fsm/records/cluster.h. */
struct fsm_node {
    uint32_t slot;
    uint32_t allocation_count; /* not ended ones */
    const char *id;
    FSM_NODE(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* A destination that an operator registered. Rows: fsm/records/cluster.h. */
struct fsm_target {
    uint32_t slot;
    uint32_t paused_count;
    const char *id;
    FSM_TARGET_SPEC(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_TARGET_STATUS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    bool is_default;
    uint64_t made; /* by which command: the slot of a removed one may be another one's later */
    uint64_t granted_bytes_per_s;                      /* sum over DISPATCHED and WRITING */
    uint32_t writing_count;                            /* their parts */
    uint32_t reading_count, waiting_count, line_count; /* parts that read there, wait; their jobs */
    uint64_t read_granted_bytes_per_s;                 /* sum over those that read */
    uint64_t budget_bytes_per_s; /* of write_bytes_per_s what staging leaves, at most measured; 0
                                     when unavailable */
};

/* One allocation that gives nodes up for a preemption. It keeps its row, WITHDRAWN, when another
 * one is taken in its place. */
struct fsm_preemption_victim {
    FSM_VICTIM(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint32_t node_count;
    const uint32_t *node_slots; /* of use, that it gives up */
};

/* A request for nodes and those who give them up. The one who waits gets nothing before all victims
 * let go (P-024): a part of the nodes would be of no use to it. */
struct fsm_preemption {
    uint64_t id;
    FSM_PREEMPTION(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    const Ckpt__V1__RequestPreemptionRequest *request;
    uint8_t acting_class; /* with which classes are compared */
    uint32_t victim_count;
    struct fsm_preemption_victim victims[FSM_VICTIMS_MAX];
};

/* The folder of an expired checkpoint that could not be removed so far. */
struct fsm_undeleted {
    uint32_t place; /* while it is one */
    uint32_t target_slot;
    uint64_t checkpoint_id;
    FSM_UNDELETED(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_UNDELETED_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    bool listed; /* its job's list still has it */
};

/* Of those that were tried: what waits for its first try is no trouble yet. */
struct fsm_undeleted_sum {
    uint64_t count, bytes;
    const struct fsm_undeleted *oldest;  /* NULL: none */
    uint64_t forgotten, forgotten_bytes; /* ever: for want of a place */
};

/* What a vCluster's scheduler said last of its queue. It is not forgotten when it grows old: who
 * uses it looks at reported_at_ms (the policy's queue_max_age_ms). */
struct fsm_queue {
    const char *vcluster;
    uint64_t reported_at_ms;
    uint64_t queued_gpu_ms, running_gpu_ms;
    size_t waiting_count;
    const Ckpt__V1__WaitingJob *const *waiting;
};

/* The state as a whole: for status pages and metrics, and for a member to compare with another. The
 * arrays have the numbers of the states as their index. */
struct fsm_summary {
    bool initialised;
    const char *cluster_id;
    uint64_t epoch;
    uint64_t now_ms; /* the state's clock */
    uint64_t applied_index, applied_term;
    uint64_t state_hash;
    uint64_t command_count;
    uint64_t next_event_sequence;
    uint32_t allocation_count;
    uint32_t allocations_by_state[8];
    uint32_t checkpoint_count;
    uint32_t checkpoints_by_state[16];
    uint64_t checkpoints_total[16]; /* ever entered, by state */
    /* Counted since the cluster began; a restore goes on from what the snapshot says. */
    FSM_COUNTERS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint64_t oldest_paused_since_ms; /* 0: none */
    uint32_t session_count;
};
/* A copy but for cluster_id, which is the state's. Takes time in proportion to the targets, not to
 * the records. */
void fsm_get_summary(const struct fsm *fsm, struct fsm_summary *ret_summary);
/* Never NULL; the defaults before cluster_init. */
const Ckpt__V1__Policy *fsm_policy(const struct fsm *fsm);
/* What `zeros` has to be for its zeros to be taken as such. Proto3 leaves a zero out of the
 * message, where it would mean that the field stays as it is. */
uint64_t fsm_policy_zeros(const Ckpt__V1__Policy *policy);

/* Accounts as of at_ms, or of the state's clock when that is later: of an allocation; of a tenant
 * (0 .. count-1; returns its id, NULL: no such one); of all tenants together. An account grows
 * while nothing is applied, so a reader passes the wall clock. Tenants keep what allocations that
 * left had; the last of FSM_TENANTS_MAX stands for all that came later. */
void fsm_allocation_account(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            uint64_t at_ms, struct fsm_account *ret_account);
uint32_t fsm_tenant_count(const struct fsm *fsm);
const char *fsm_tenant_account(const struct fsm *fsm, uint32_t i, uint64_t at_ms,
                               struct fsm_account *ret_account);
void fsm_cluster_account(const struct fsm *fsm, uint64_t at_ms, struct fsm_account *ret_account);
/* Predicted beside actual, as of at_ms or of the state's clock when that is later. */
#define FSM_RATIOS(X) X(SIZE, size) X(WRITE, write) X(PAUSE, pause)
enum fsm_ratio {
#define X(upper, lower) FSM_RATIO_##upper,
    FSM_RATIOS(X)
#undef X
        FSM_RATIO_COUNT
};
enum { FSM_RATIO_BINS = 66, FSM_SUCCESS_BINS = 20 };
/* Counts since the cluster began, of decisions of the evaluator alone: people's requests predict
 * nothing. How they are taken: fsm/books/calibration.c. */
struct fsm_calibration {
    uint64_t ratios[FSM_RATIO_COUNT]
                   [FSM_RATIO_BINS]; /* of actual / predicted: fsm_ratio_end_ppm() */
    /* By the chance of success that was known when the checkpoint was made, in twentieths: how many
     * ended, how many of these completed, and the sum of the chances. */
    uint64_t ended[FSM_SUCCESS_BINS], completed[FSM_SUCCESS_BINS], ended_ppm[FSM_SUCCESS_BINS];
    /* Losses that the hazards let expect, in millionths of a loss, and ... */
    uint64_t expected_losses_e6, expected_rest_e15; /* the rest is less than one of the former */
    /* ... those that came: with a node, and those stopped for others without a checkpoint. */
    uint64_t node_losses, kill_losses;
    /* What checkpoints were to save, what they saved at failures of nodes, and at deaths of
     * applications, which no hazard counts. */
    uint64_t saved_predicted_gpu_ms, saved_gpu_ms, saved_other_gpu_ms, saved_count, checkpoints;
    uint64_t pause_predicted_gpu_ms, pause_gpu_ms;
};
void fsm_get_calibration(const struct fsm *fsm, uint64_t at_ms,
                         struct fsm_calibration *ret_calibration);
/* Borrows the arrays: the message is valid as long as *calibration is, and is not freed. */
void fsm_calibration_to_message(struct fsm_calibration *calibration,
                                Ckpt__V1__Calibration *ret_message);
/* The rows of a record's table as a message of the API (fsm/records); what follows from other
 * records is left out, for the caller to add. Texts are borrowed from the state: the message is
 * packed before the next apply, and never freed with its own free function. */
void fsm_spec_to_message(const struct fsm_allocation *allocation,
                         Ckpt__V1__AllocationSpec *ret_message);
void fsm_allocation_to_message(const struct fsm_allocation *allocation,
                               Ckpt__V1__Allocation *ret_message); /* without spec */
void fsm_checkpoint_to_message(const struct fsm_checkpoint *checkpoint,
                               Ckpt__V1__Checkpoint *ret_message);
void fsm_target_spec_to_message(const struct fsm_target *target, Ckpt__V1__TargetSpec *ret_message);
void fsm_account_to_message(const struct fsm_account *account, Ckpt__V1__GpuAccount *ret_message);
/* The highest ratio that the bin takes; UINT64_MAX: the last one. Eighths of an octave from 1/16 to
 * 16. */
uint64_t fsm_ratio_end_ppm(size_t bin);

/* Computed in vain: what restarts had to repeat. The sum of failure, preemption, walltime and stop;
 * a pause and a restart are time in which nothing was computed. */
uint64_t fsm_account_repeated(const struct fsm_account *account);

/* What members said of themselves, in order of first appearance; NULL: no more. Raft alone says who
 * votes; this list is for people, and for the ids. */
const Ckpt__Log__V1__MemberFacts *fsm_member_at(const struct fsm *fsm, size_t i);
/* Ids of removed members, and lower ones that are not known (any more), are not given out again:
 * Raft would take an empty member under an old id for the old one, whose votes and entries it does
 * not have. */
bool fsm_member_was_removed(const struct fsm *fsm, uint64_t member_id);
/* The highest id of any member there ever was, in this epoch. */
uint64_t fsm_member_id_max(const struct fsm *fsm);
/* The log index at which they changed last; also another one after a snapshot was read. Readers
 * compare it with the one that they saw, in place of the whole list. */
uint64_t fsm_members_index(const struct fsm *fsm);

/* Records by their id or by their slot. x_find() and x_find_slot() return NULL when there is none;
 * x_at() is for a slot that must hold one, because another record names it, and stops the program
 * when it does not. Slots run 0 .. x_slots()-1 and may be empty; a removed node or target counts as
 * absent here. A look-up by id is one of a hash table, or of at most FSM_TARGETS_MAX targets in
 * turn. */
uint32_t fsm_allocation_slots(const struct fsm *fsm);
const struct fsm_allocation *fsm_allocation_at(const struct fsm *fsm, uint32_t slot);
const struct fsm_allocation *fsm_allocation_find(const struct fsm *fsm, const char *id);
const struct fsm_allocation *fsm_allocation_find_slot(const struct fsm *fsm, uint32_t slot);
/* The state waits for the start of its part on the node, and what runs there in that run is that
 * part: then the report of the start was lost, and the leader says what a heartbeat told
 * (NodeRunning). */
bool fsm_part_awaits(const struct fsm_allocation *allocation, uint32_t node_slot, uint64_t run);
uint32_t fsm_node_slots(const struct fsm *fsm);
const struct fsm_node *fsm_node_at(const struct fsm *fsm, uint32_t slot);
/* Also of one that was removed, while a record names it; "": none. For what is shown of old
 * checkpoints, whose nodes may be gone. */
const char *fsm_node_name(const struct fsm *fsm, uint32_t slot);
const struct fsm_node *fsm_node_find(const struct fsm *fsm, const char *id);
const struct fsm_node *fsm_node_find_slot(const struct fsm *fsm, uint32_t slot);
uint32_t fsm_target_slots(const struct fsm *fsm);
const struct fsm_target *fsm_target_at(const struct fsm *fsm, uint32_t slot);
/* Also of one that was removed, while a record names it; "": none. */
const char *fsm_target_name(const struct fsm *fsm, uint32_t slot);
const struct fsm_target *fsm_target_find(const struct fsm *fsm, const char *id);
/* Checkpoints, and folders that could not be removed, that keep a target from being removed. */
uint32_t fsm_target_records(const struct fsm *fsm, uint32_t slot);
const struct fsm_target *fsm_target_find_slot(const struct fsm *fsm, uint32_t slot);
/* Where the checkpoint goes that the job writes now; else where its next one will: to the target of
 * its nodes' domain, else to the one that it was registered with. NULL: it has ended, and that one
 * was removed. */
const struct fsm_target *fsm_destination(const struct fsm *fsm,
                                         const struct fsm_allocation *allocation);
bool fsm_destination_available(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* Of the target that its last complete checkpoint lies on; "": none is complete, or that target has
 * none. fits: the node is of it, or it is none. allows: the job may be placed there by its rule. */
const char *fsm_bound_domain(const struct fsm *fsm, const struct fsm_allocation *allocation);
bool fsm_domain_fits(const struct fsm *fsm, const struct fsm_allocation *allocation,
                     const struct fsm_node *node);
bool fsm_domain_allows(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const struct fsm_node *node);
/* That all of its nodes have in common; "": they have none, or differ. */
const char *fsm_nodes_domain(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* Its budget but for an outage: of the configured bandwidth what staging leaves, at most what is
 * measured. */
uint64_t fsm_target_budget_when_up(const struct fsm_target *target);
/* Slots of the not ended allocations that have the node; returns how many there are, writes at most
 * max. */
size_t fsm_allocations_on_node(const struct fsm *fsm, uint32_t node_slot, uint32_t *ret_slots,
                               size_t max);
/* Smallest id greater than `after` among those kept, or NULL. 0 starts. */
const struct fsm_preemption *fsm_preemption_next(const struct fsm *fsm, uint64_t after);
/* No checkpoint is to be hoped for: its strategy is NONE, or it did not answer the last time. */
bool fsm_checkpoints_nothing(const struct fsm_allocation *allocation);
/* A node's architecture, or its operating system, as its agent may tell it; "": it does not. */
bool fsm_platform_valid(const char *text);
/* It can be restored there, as far as both are known. */
bool fsm_platform_fits(const struct fsm_checkpoint *checkpoint, const struct fsm_node *node);
/* What it computes now could go on there, likewise. */
bool fsm_platform_may_move(const struct fsm *fsm, const struct fsm_allocation *allocation,
                           const struct fsm_node *node);
/* Between the end of an attempt, whatever it came to, and the next one that the broker begins for
 * its own sake. One that did not answer is left alone for as long as it had not been saved when it
 * was asked last, so that the pause doubles each time, up to the longest interval. */
uint64_t fsm_attempt_interval_ms(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* It did not answer, and that pause has not passed. */
bool fsm_silence_lasts(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* No preemption takes it, whoever asks and for what: as it is registered and placed. Time, state
 * and storage, which pass, do not count here; fsm_victim_hint() has those. */
bool fsm_victim_never(const struct fsm_allocation *allocation);
/* Whether and why the allocation cannot be a victim now, whoever asks: OK, or the rule's status.
 * *ret_cost_gpu_ms: what stopping it would cost, as victims are compared. */
enum fsm_status fsm_victim_hint(const struct fsm *fsm, const struct fsm_allocation *allocation,
                                uint64_t *ret_cost_gpu_ms);
/* What those that write to the target were granted together, without those that have not begun.
 * Looks at the 4,096 oldest active ones, as the two below. */
uint64_t fsm_target_writing_rate(const struct fsm *fsm, uint32_t slot);
/* Nothing tells that it answers: it has completed no checkpoint, or did not answer the last
 * time. */
bool fsm_allocation_unproven(const struct fsm_allocation *allocation);
/* What such jobs hold of the target's bandwidth, and with how many parts, from dispatch on. */
uint64_t fsm_target_unproven_rate(const struct fsm *fsm, uint32_t slot, uint32_t *ret_parts);
/* What those that write to the target have left to write, at their granted rates. */
uint64_t fsm_target_writing_bytes(const struct fsm *fsm, uint32_t slot, uint64_t now_ms);
size_t fsm_queue_count(const struct fsm *fsm);
/* i is below fsm_queue_count(). Places change when a queue is withdrawn. */
void fsm_queue_at(const struct fsm *fsm, size_t i, struct fsm_queue *ret_queue);
/* NULL: there never was one, or its record gave way to younger ones of its job. Its folder may be
 * among the undeleted ones then. */
const struct fsm_checkpoint *fsm_checkpoint_find(const struct fsm *fsm, uint64_t id);
/* Smallest id greater than `after`, or NULL. 0 starts. The walk goes on by the last id seen, so
 * that entries may be applied in between. */
const struct fsm_checkpoint *fsm_checkpoint_next(const struct fsm *fsm, uint64_t after);
/* The same among one allocation's. */
const struct fsm_checkpoint *fsm_checkpoint_next_of(const struct fsm *fsm, uint32_t allocation_slot,
                                                    uint64_t after);

/* Value per byte of a waiting checkpoint by the state's clock: what was decided, grown with the
 * square of the age since. Without the growth large jobs would starve behind small ones that come
 * again and again. */
uint64_t fsm_grant_priority(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint);
/* Its priority is what it would gain: neither was it asked for, nor has it a deadline. Only these
 * say what bandwidth is worth. */
bool fsm_grant_weighed(const struct fsm_checkpoint *checkpoint);
/* It has a deadline: it is to stop a victim, or was decided for the last safe slot before the
 * walltime, whatever follows it now. */
bool fsm_grant_urgent(const struct fsm_checkpoint *checkpoint);
/* REQUESTED checkpoints that may be granted now, in the order of granting: resumed ones by
 * recompute_saved, then by priority. Writes at most max ids, returns how many. */
size_t fsm_grantable(const struct fsm *fsm, uint64_t *ret_ids, size_t max);
/* The same in steps, for a loop that may not be held by a million of them: each step visits at most
 * visits_max; true: done, the scan's `best` are in order. Entries may be applied between steps, so
 * what was found is asked again by fsm_grant_possible(). */
struct fsm_waiting {
    uint64_t id;
    uint64_t value;
    bool resumed; /* from an outage */
};
struct fsm_waiting_sum {
    uint64_t count, bytes;        /* of their allocations' sizes, saturated */
    uint64_t price_gpu_ms_per_gb; /* the highest priority of those that were weighed */
};
struct fsm_grantable_scan {
    struct fsm_waiting *best; /* the caller's, room for max of each target */
    size_t max, count;
    size_t base; /* of this target's */
    uint32_t target_slot;
    uint64_t after_id;
    struct fsm_waiting_sum sums[FSM_TARGETS_MAX]; /* of all that were visited, by target */
};
/* best has room for max_per_target of each target and stays the caller's; scan is the caller's too,
 * and nothing has to be closed. */
void fsm_grantable_begin(struct fsm_grantable_scan *scan, struct fsm_waiting *best,
                         size_t max_per_target);
bool fsm_grantable_step(const struct fsm *fsm, struct fsm_grantable_scan *scan, size_t visits_max);
/* Whether a grant of it would be taken now, but for the budget. */
bool fsm_grant_possible(const struct fsm *fsm, uint64_t id);
/* Checkpoints whose folder may be removed at `at_ms` (or the state's clock when that is later):
 * expired complete ones (never the last of a restartable allocation) and what failed attempts left.
 * Once listed, listed until collected, but for a wait of 1 to 60 min after each failure; expiry
 * needs a Tick. What failed before takes a quarter at most while others wait. At most
 * FSM_COLLECTABLE_MAX. The caller removes the folder first and proposes checkpoints_collected then:
 * the other way round a crash in between would leave a folder that nobody knows of. */
size_t fsm_collectable(const struct fsm *fsm, uint64_t at_ms, uint64_t *ret_ids, size_t max);
/* Such a checkpoint's target and folder, as fsm_checkpoint_path(); 0: there is nothing to be
 * removed, or size is too small. */
size_t fsm_collectable_path(const struct fsm *fsm, uint64_t id, uint32_t *ret_target_slot,
                            char *ret_path, size_t size);
/* Whether an operator may let it go now: nothing but its age keeps it. */
bool fsm_may_expire(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint);
/* The first at that place or behind it; NULL: no more. The next call passes its place + 1. */
const struct fsm_undeleted *fsm_undeleted_next(const struct fsm *fsm, uint32_t place);
/* NULL: no folder of that checkpoint is among them. */
const struct fsm_undeleted *fsm_undeleted_find(const struct fsm *fsm, uint64_t checkpoint_id);
/* Looks at all FSM_UNDELETED_MAX places. */
void fsm_undeleted_sum(const struct fsm *fsm, struct fsm_undeleted_sum *ret_sum);
uint64_t fsm_undeleted_due_ms(const struct fsm_undeleted *undeleted); /* when it is tried next */
/* Its folder, as fsm_checkpoint_path(), also when its job has left. */
size_t fsm_undeleted_path(const struct fsm *fsm, const struct fsm_undeleted *undeleted,
                          char *ret_path, size_t size);
/* Complete checkpoints to be read again, by id behind *after, which moves on; 0: all were looked
 * at. Those asked for, and the last one of each job that may be started again when the interval is
 * over; none that a node reads, on a target that is away, or from copies of which a run begins. */
size_t fsm_verify_due(const struct fsm *fsm, uint64_t at_ms, size_t visits, uint64_t *after,
                      uint64_t *ret_ids, size_t max);
uint32_t fsm_verification_count(const struct fsm *fsm); /* that nodes are reading */
/* The newest COMPLETE one that is neither collectable nor damaged, with an id below `before` (0:
 * any); NULL: none. Only these are ever restored from. */
const struct fsm_checkpoint *fsm_restart_point(const struct fsm *fsm, const char *allocation_id,
                                               uint64_t before);
/* Its newest COMPLETE one is damaged: what the next one would take over from there is not whole. */
bool fsm_newest_damaged(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* What the parts of the run that is to start begin from; of a job of which none is to start, what a
 * start now would begin from. NULL: from scratch. */
const struct fsm_checkpoint *fsm_begin_point(const struct fsm *fsm,
                                             const struct fsm_allocation *allocation);
/* How parts of the run that is to start have restored, and which said so; false: none has yet. */
bool fsm_begin_restored_as(const struct fsm *fsm, const struct fsm_allocation *view,
                           Ckpt__V1__RestoreMode *ret_mode, uint32_t *ret_part);
/* id: what a part of it begins from that is started now; 0: from scratch. of_part: the same; NULL
 * also when that has gone, of a run that had begun from it. */
uint64_t fsm_begin_id(const struct fsm *fsm, const struct fsm_allocation *view);
const struct fsm_checkpoint *fsm_begin_of_part(const struct fsm *fsm,
                                               const struct fsm_allocation *view);
struct fsm_part; /* for fsm_begin_shard() */
uint32_t fsm_begin_shard(const struct fsm *fsm, const struct fsm_part *part,
                         const struct fsm_checkpoint *point);
/* Folder of a checkpoint: {prefix}/{tenant}/{project}/{allocation}/checkpoints/{checkpoint}; the
 * one above, of all that the job has at a target. Returns the length or 0 when too small. */
size_t fsm_checkpoint_path(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                           char *ret_path, size_t size);
size_t fsm_checkpoints_path(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            const struct fsm_target *target, char *ret_path, size_t size);
/* The earliest instant at which a Tick would change something; UINT64_MAX: none. The leader
 * proposes one then: without it nothing times out, since the state has no clock of its own. */
uint64_t fsm_next_deadline_ms(const struct fsm *fsm);

/* ---- what is learned ---- */

/* Counted since the cluster began. Rates need the time between the entries, which the state does
 * not look at: the leader makes them (src/broker/decide/learner.c). */
struct fsm_losses {
    uint64_t node_failures[FSM_AGE_BINS]; /* by fsm_age_bin() */
    uint64_t kills[FSM_GROUPS];           /* allocations stopped for others without a checkpoint */
    uint64_t demands[FSM_GROUPS];         /* victims of preemption */
};
void fsm_get_losses(const struct fsm *fsm, struct fsm_losses *ret_losses); /* a copy */
/* What leaders learned of the fleet; NULL: nothing yet. A new leader goes on from here and adds the
 * difference between the counts then and fsm_get_losses() now. */
const Ckpt__Log__V1__SetLearned *fsm_learned(const struct fsm *fsm);
/* By class and nodes, and by whether the queue of its vCluster is busy: more waits than half of
 * what runs, or jobs wait by name, and the report is not too old. Most demands come then. */
uint32_t fsm_group(const struct fsm_allocation *allocation, bool queue_busy);
/* Of the i-th queue; and of the one of this name (a text of the state), if it has one. */
bool fsm_queue_busy(const struct fsm *fsm, size_t i);
bool fsm_vcluster_busy(const struct fsm *fsm, const char *vcluster);
/* Ends at 1 h, 4 h, 1 d, 4 d, 16 d, 64 d since the node's last failure. */
uint32_t fsm_age_bin(uint64_t age_ms);
/* That a checkpoint of it completes; 980,000 without history. */
uint32_t fsm_success_ppm(const struct fsm_learned *learned);

/* ---- orders: derived, never stored ---- */

/* CHECKPOINT: ask the application, move what it wrote and report. TERMINATE: SIGTERM, then SIGKILL
 * when the grace is over, and report. A node may have both for one allocation, in the grace after
 * its walltime. */
enum fsm_order_kind { FSM_ORDER_CHECKPOINT = 1, FSM_ORDER_TERMINATE = 2 };
/* What one node must do for one allocation. An agent does it once per (checkpoint, attempt) or run,
 * however often the set is sent. */
struct fsm_order {
    enum fsm_order_kind kind;
    const struct fsm_allocation *allocation;
    const struct fsm_checkpoint *checkpoint; /* NULL for TERMINATE */
    uint64_t timeout_ms;
    uint64_t max_deferral_ms; /* CHECKPOINT: of this attempt */
    uint64_t deferred_ms;     /* likewise; timeout_ms has it */
    uint64_t grace_ms;
    Ckpt__V1__Reason reason;
    uint64_t run;  /* of the part; TERMINATE: of this one and all earlier ones */
    uint32_t part; /* CHECKPOINT: the place of the node's shard, from 0 */
};
/* The complete set for the node: what is not in it is withdrawn. Returns how many there are; writes
 * at most max. A function of the state alone (src/ARCHITECTURE.md), so each leader derives the same
 * set, and nothing about orders is lost with a leader. */
size_t fsm_orders_for_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_order *ret_orders,
                           size_t max);
/* The folders that its agent is to remove; likewise. */
size_t fsm_removals_on_node(const struct fsm *fsm, uint32_t node_slot,
                            const struct fsm_undeleted **ret_removals, size_t max);
/* The parts that may run on the node: those of allocations that hold it, but for a part that is
 * told to have ended. Whatever else of this cluster runs there is ended by the agent. Returns how
 * many there are; writes at most max. */
struct fsm_part {
    const struct fsm_allocation *allocation;
    uint64_t run;
    uint32_t place;             /* among the job's nodes, from 0 */
    bool joined;                /* it came when its run had begun: it restores nothing */
    bool restored;              /* it has what it begins from */
    Ckpt__V1__BeginState begin; /* whether it may be started */
    Ckpt__V1__ReadState read;   /* whether it may read that from its target */
    uint64_t read_bytes_per_s;  /* with MAY: 0: at any rate */
};
size_t fsm_parts_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_part *ret_parts,
                         size_t max);
/* The complete checkpoints of which it is to read a part; likewise. The order's attempt is
 * fsm_verify_attempt(), the time for a part fsm_verify_part_ms(). */
size_t fsm_verifications_on_node(const struct fsm *fsm, uint32_t node_slot,
                                 const struct fsm_verification **ret_verifications, size_t max);
uint64_t fsm_verify_part_ms(const struct fsm *fsm, const struct fsm_checkpoint *of, uint32_t part);
uint32_t fsm_verify_attempt(const struct fsm *fsm, const struct fsm_verification *verification);
/* For which a victim still keeps its nodes; NULL: for none. */
const struct fsm_verification *fsm_release_held(const struct fsm *fsm, uint32_t allocation_slot);
/* How much another node reads before the nodes of a victim are given away: never nothing. */
Ckpt__V1__ReadBack fsm_release_read_back(const struct fsm_target *target);
/* Copies of parts that the node keeps, and is to keep; what it has of others may go. Returns how
 * many there are. */
struct fsm_copy {
    const char *allocation_id;
    uint64_t checkpoint_id;
    uint32_t part; /* of the checkpoint, from 0 */
};
size_t fsm_copies_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_copy *ret_copies,
                          size_t max);
/* The nodes that keep a copy of the job's last complete checkpoint and are there, by part; NULL:
 * none keeps one of that part. Returns how many parts there are, 0: no part of it is kept; writes
 * at most max. */
size_t fsm_copy_nodes(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      const char **ret_names, size_t max);
/* The job's part there, also when it has ended; false: the job has none. */
bool fsm_part_on(const struct fsm *fsm, const struct fsm_allocation *allocation, uint32_t node_slot,
                 struct fsm_part *ret_part);
/* Nodes whose orders may have changed since they were last taken; a hint for the dispatcher, not
 * part of the state. After a restore every node is listed. false: none left. */
bool fsm_take_changed_node(struct fsm *fsm, uint32_t *ret_node_slot);
/* Of the 64 allocation slots from 64 * word on, a bit for each whose allocation may be another, or
 * may have changed, or a checkpoint of it, since it was last taken; a hint for the evaluator, not
 * part of the state. */
uint64_t fsm_take_changed_allocations(struct fsm *fsm, uint32_t word);
/* It will be read soon; its nodes, when it has come by itself. */
void fsm_prefetch_allocation(const struct fsm *fsm, uint32_t slot);
void fsm_prefetch_allocation_nodes(const struct fsm *fsm, uint32_t slot);

/* ---- events ---- */

/* The first kept event with sequence > after, or NULL. *ret_gap is true when older ones were
 * dropped in between: the watcher has missed some, and reads the state anew. */
const Ckpt__V1__Event *fsm_event_after(const struct fsm *fsm, uint64_t after, bool *ret_gap);

/* ---- snapshot, check ---- */

/* Content of a snapshot as a stream of length-prefixed messages (ckpt.log.v1.SnapshotRecord). write
 * returns 0 or -1. Returns 0, or -1 when write failed: what was written by then is no snapshot. */
int fsm_snapshot_write(const struct fsm *fsm,
                       int (*write)(void *context, const void *bytes, size_t length),
                       void *context);
/* The same in slices: begin() marks the instant, each next() writes about `bytes` of the state as
 * it was then, however often entries are applied meanwhile; end() when *ret_done is true, or at any
 * time to give up. next: -1 when write failed, or the state was replaced or freed. Several may be
 * at work. begin() packs only what is small; a record that changes before its turn is packed first,
 * so an entry costs more only by what it changes. */
struct fsm_snapshot;
struct fsm_snapshot *fsm_snapshot_begin(struct fsm *fsm);
int fsm_snapshot_next(struct fsm_snapshot *snapshot, size_t bytes,
                      int (*write)(void *context, const void *bytes, size_t length), void *context,
                      bool *ret_done);
void fsm_snapshot_end(struct fsm_snapshot *snapshot); /* NULL allowed */
/* Replaces the whole state. read reads exactly length bytes, 0 or -1. On failure the state is
 * unchanged and text says why, in one line. Every bound and invariant is checked before the state
 * is taken: the bytes may come from a disk that lies. */
int fsm_snapshot_read(struct fsm *fsm, int (*read)(void *context, void *bytes, size_t length),
                      void *context, char *ret_text, size_t text_size);
/* The same in two steps: a new state is made, on any thread, NULL with a text when refused; then
 * two states trade places, and the caller frees the one it no longer wants. A restore of a million
 * allocations takes seconds, which a loop thread does not have. */
struct fsm *fsm_snapshot_load(int (*read)(void *context, void *bytes, size_t length), void *context,
                              char *ret_text, size_t text_size);
void fsm_swap(struct fsm *a, struct fsm *b); /* snapshots at work cannot go on */

/* Verifies the named invariants over the whole state; calls violation(context, "I21 ...") for each
 * that does not hold. Returns how many invariants were checked. Time in proportion to the state:
 * for restores, tests and the simulator. After each command fsm/core/moved.c looks at the records
 * that it moved. */
size_t fsm_check(const struct fsm *fsm, void (*violation)(void *context, const char *text),
                 void *context);

/* True when a -> b is in the table of moves (fsm/job/lifecycle.c). A number that is no state is in
 * none. */
bool fsm_checkpoint_move_allowed(Ckpt__V1__CheckpointState from, Ckpt__V1__CheckpointState to);
bool fsm_allocation_move_allowed(Ckpt__V1__AllocationState from, Ckpt__V1__AllocationState to);
/* names.c, as in fsm/names.h. */
const char *fsm_checkpoint_state_name(Ckpt__V1__CheckpointState state); /* "PAUSED" */
const char *fsm_allocation_state_name(Ckpt__V1__AllocationState state); /* "RUNNING" */
const char *fsm_reason_word(Ckpt__V1__Reason reason, char ret_word[FSM_WORD_BYTES]);
const char *fsm_purpose_word(Ckpt__V1__Purpose purpose, char ret_word[FSM_WORD_BYTES]);
/* REQUESTED, DISPATCHED, WRITING, PAUSED */
bool fsm_checkpoint_state_active(Ckpt__V1__CheckpointState state);
/* The broker's last move of it failed, or was cancelled, within the minimal interval, or it did not
 * answer: an alarm that lasts would else ask again in every cycle. */
bool fsm_move_too_soon(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* Its application has finished on some of its nodes, and no attempt is under way: no checkpoint of
 * all its parts can be begun. */
bool fsm_part_finished(const struct fsm *fsm, const struct fsm_allocation *allocation);
bool fsm_checkpoint_put_off(const struct fsm_checkpoint *checkpoint); /* in this attempt */

#endif
