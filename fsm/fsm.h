/* The replicated state machine: allocations, checkpoints, nodes, targets, queues, past
 * requests, events.
 *
 * Flow     fsm_apply_entry() decodes one committed log entry and applies its commands in order;
 *          each has an outcome. fsm_orders_for_node() derives the orders of an agent from the
 *          state; nothing else has effects.
 * Order    fsm_new(), then fsm_snapshot_read() where the member has a snapshot, then
 *          fsm_apply_entry() for each entry behind it, index by index. All other functions read,
 *          and may be called between any two of these. The first command is cluster_init: most
 *          others need it.
 * Shapes   one struct fsm owns everything. const pointers handed out live until the next apply,
 *          restore or swap; the caller neither frees nor changes their targets. Texts are never
 *          NULL unless a comment says so. Limits: fsm/limits.h.
 * Units    milliseconds since the epoch (the leader's stamps), bytes, GPU-milliseconds, parts per
 *          million. Integers only. An instant or an id of 0 means that there is none.
 * Errors   business refusals are outcomes (fsm/status.h). Restore returns an error for stored bytes
 *          that do not decode. Anything else is a bug (CHECK). Memory that runs out ends the
 *          program.
 * Threads  no locks: one thread makes all calls on one struct fsm. Only fsm_snapshot_load() may run
 *          on another thread, because it makes a new state.
 * Absent   no I/O, no clock, no randomness, no floating point, no logging. Same entries, same
 *          bytes: same state, same hash. Nothing is proposed here: the state names the work that is
 *          due, and the leader's parts in src/broker propose it.
 * Source   requirement rows S1-050.., P-*, F-*. RULES.md has the reason of each rule.
 */
#ifndef CKPT_FSM_FSM_H
#define CKPT_FSM_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "ckpt/v1/common.pb-c.h"
#include "fsm/level.h"
#include "fsm/limits.h"
#include "fsm/names.h"
#include "fsm/passive.h"
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

/* One allocation that a preemption takes, as the requester is told. */
struct fsm_victim {
    char allocation_id[FSM_ID_BYTES];
    uint64_t checkpoint_id; /* 0: terminated without a checkpoint */
    uint32_t node_count;
};

/* The outcome of a command. It is kept per request id: a repeated request gets the same outcome,
 * with repeated = true. A status other than FSM_OK is a refusal: the command changed nothing. There
 * are two exceptions. The items of a batch (decisions, grants, collected checkpoints) stand alone.
 * A report whose content is refused has used up its number. */
struct fsm_outcome {
    enum fsm_status status;
    bool repeated;
    uint64_t index;         /* where the command first took effect */
    uint64_t checkpoint_id; /* created or concerned; 0: none */
    uint64_t preemption_id;
    /* for the refusal's text: the present number ... (OK batches: how many were taken) */
    uint64_t current;
    uint64_t limit;      /* ... and the allowed one */
    const char *subject; /* of the numbers, a static text, not kept for retries; NULL: by status */
    char found[FSM_FOUND_BYTES]; /* by fsm_outcome_found(); not kept for retries either */
    uint32_t victim_count;
    struct fsm_victim victims[FSM_VICTIMS_MAX];
};

/* Called once per command of the entry, in order. The outcome is valid during the call. The
 * function may read the state, as it is right after that command, but must not change it. */
typedef void fsm_outcome_fn(void *context, size_t command_index, const struct fsm_outcome *outcome);

/* One committed entry. bytes are a ckpt.log.v1.Entry and stay the caller's. Every member counts
 * bytes that do not decode and changes nothing else: a member that stopped at them would stop again
 * after each restart. */
struct fsm_entry {
    uint64_t index, term;
    const uint8_t *bytes;
    size_t length;
};
/* Indexes strictly increase. Each command moves the state's clock forward to its own stamp, never
 * back, so that a leader whose clock is behind cannot undo a deadline. on_outcome may be NULL. The
 * time is in proportion to the commands and the records that they concern. A preemption that may
 * choose among all jobs looks at all of them, and new_epoch visits everything. */
void fsm_apply_entry(struct fsm *fsm, const struct fsm_entry *entry, fsm_outcome_fn *on_outcome,
                     void *context);

/* The end of an entry (Entry.checked_index and checked_hash): the leader's state hash at an earlier
 * index. Each member that applies the entry compares it with its own hash, so a member whose state
 * differs finds out (I10). put() fills the bytes that follow the packed commands; check() reads
 * them back from a whole entry, false: it has none. The state machine itself skips them. */
enum { FSM_ENTRY_CHECK_BYTES = 18 };
void fsm_entry_check_put(uint8_t bytes[FSM_ENTRY_CHECK_BYTES], uint64_t index, uint64_t hash);
bool fsm_entry_check(const uint8_t *bytes, size_t length, uint64_t *ret_index, uint64_t *ret_hash);

/* Checks a command before it is proposed: shape, ids, limits, unknown fields. Returns OK, or the
 * refusal's status with its numbers. Only status, current, limit and subject of the outcome are
 * set, so the caller clears it first. The check depends on the command alone: any member may make
 * it at any time. fsm_apply_entry() makes it again and then asks the state. */
enum fsm_status fsm_validate_command(const Ckpt__Log__V1__Command *command,
                                     struct fsm_outcome *ret_outcome);
/* The same for a known packed size: counting the bytes costs as much as packing them. */
enum fsm_status fsm_validate_packed(const Ckpt__Log__V1__Command *command, size_t packed_bytes,
                                    struct fsm_outcome *ret_outcome);

/* Refuses values that an earlier build accepted, so that its log and snapshots may hold them, but
 * that no new command may have. The proposer calls it after the check above; apply does not. */
enum fsm_status fsm_validate_new(const Ckpt__Log__V1__Command *command,
                                 struct fsm_outcome *ret_outcome);

/* The outcome of a request id, for a client that lost its connection and asks another member. */
struct fsm_request {
    struct fsm_outcome outcome;
    uint32_t command; /* number of the body in ckpt.log.v1.Command */
    uint64_t at_ms;   /* when the request was first applied */
};
/* false: the id is not remembered. It was never applied here, is older than the policy's
 * session_ttl_ms, or had to make room. */
bool fsm_request_find(const struct fsm *fsm, const char *request_id,
                      struct fsm_request *ret_request);

/* One line for people: the status' text with the outcome's numbers and the next step. Returns text,
 * which is always terminated and cut off where size ends. */
char *fsm_outcome_text(const struct fsm_outcome *outcome, char *text, size_t size);

/* ---- read-only view ---- */

/* The causes of lost GPU time, as in metrics. RULES.md has the meaning of each. */
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
 * instant (I42); no GPU-millisecond is counted twice. */
struct fsm_account {
    uint64_t held_gpu_ms; /* the sum of all others */
    uint64_t useful_gpu_ms;
    uint64_t pending_gpu_ms; /* since the last complete checkpoint */
    uint64_t lost_gpu_ms[FSM_LOSS_COUNT];
};
const char *fsm_loss_name(enum fsm_loss cause); /* "failure" */

/* One node's share of an allocation: the scheduler's values (SPEC), and the node's slot and run
 * (KEPT). Rows: fsm/records/allocation.h. */
struct fsm_node_share {
    FSM_SHARE_SPEC(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_SHARE_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* Moving means over the allocation's own complete checkpoints. The rates of the whole fleet are
 * fsm_learned(). */
struct fsm_learned {
    FSM_ALLOCATION_LEARNED(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* A job, its nodes and its state. fsm/records/allocation.h has the rows: the values that the
 * scheduler registered (SPEC), that everybody may see (STATUS), and that only the broker needs
 * (KEPT). The struct lies inside the state's own record, and some functions go from one to the
 * other: a copy of it is for reading alone. */
struct fsm_allocation {
    /* Stable while the allocation exists; another one may have it afterwards. */
    uint32_t slot;
    uint32_t node_count;
    const char *id;
    /* node_count of them, in the order of the registration. */
    const struct fsm_node_share *nodes;
    FSM_ALLOCATION_SPEC(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_ALLOCATION_STATUS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_ALLOCATION_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    struct fsm_learned learned;
    uint32_t gpu_count; /* sum over nodes; weight.h: as what it counts */
    uint32_t borrowed_count;
    uint64_t active_checkpoint_id;     /* 0: none. PAUSED counts as active */
    uint64_t preemption_id;            /* of which it is a victim; 0: none */
    const struct fsm_node_share *next; /* the nodes that it keeps after a scale-down */
    uint32_t next_count;               /* not 0: a scale-down waits for its checkpoint */
};

/* One node's files of a checkpoint. Verified: the files lie at the destination and were read back
 * with this manifest. */
struct fsm_shard {
    FSM_SHARD(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint32_t place_count;                  /* of a verified shard */
    uint64_t places[FSM_SHARD_PLACES_MAX]; /* fsm_place_make() */
    uint8_t manifest_sha256[32];
};

/* Where a part of a checkpoint lies: on a target, or as a copy on a node, by its slot. */
enum fsm_place_kind { FSM_PLACE_TARGET = 1, FSM_PLACE_NODE = 2 };
static inline uint64_t fsm_place_make(enum fsm_place_kind kind, uint32_t slot)
{
    return (uint64_t)kind << 32 | slot;
}

/* The model's inputs that are the same for all decisions of a cycle; opaque numbers (command.proto,
 * DecisionBasis). Equal ones are held once. */
struct fsm_basis {
    uint32_t slot;
    uint32_t revision;
    uint64_t member_id;
    const char *names;
    uint32_t policy_count;
    const uint64_t *policy;
};

/* The inputs of a decision (command.proto, DecisionInputs): enough to compute it once more, bit by
 * bit, and to explain it later. */
struct fsm_inputs {
    const struct fsm_basis *basis;
    uint64_t index, term; /* of the log entry that took the decision */
    uint64_t evaluated_at_ms;
    uint64_t result_digest;
    uint32_t flags;
    uint32_t column_count, source_count;
    const uint64_t *columns;
    const uint32_t *source_age_ms; /* UINT32_MAX: the source said nothing */
};

/* A complete checkpoint that a node is reading again, part by part. */
struct fsm_verification {
    uint64_t checkpoint_id;
    FSM_VERIFICATION(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* One checkpoint of a whole allocation. The id holds the epoch and a sequence, so ids only grow,
 * over restores as well. Rows: fsm/records/checkpoint.h. */
struct fsm_checkpoint {
    uint64_t id;
    uint32_t allocation_slot;
    uint32_t shard_count;
    FSM_CHECKPOINT_STATUS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_CHECKPOINT_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    const char *detail;                   /* the agent's words about `reason`, printable ASCII */
    const struct fsm_shard *shards;       /* one per node of the allocation at creation */
    const Ckpt__V1__DecisionTerms *terms; /* NULL: not the evaluator's */
    const struct fsm_inputs *inputs;      /* of terms; NULL: none, or no longer kept */
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
    uint64_t made;                /* number of the command: a removed target's slot may be reused */
    uint64_t granted_bytes_per_s; /* sum over DISPATCHED and WRITING */
    uint32_t writing_count;       /* their parts */
    /* parts that read, parts that wait, their jobs */
    uint32_t reading_count, waiting_count, line_count;
    uint64_t read_granted_bytes_per_s; /* sum over parts that read */
    /* write_bytes_per_s less staging, at most the measured rate; 0 when unavailable */
    uint64_t budget_bytes_per_s;
};

/* One allocation that gives nodes up for a preemption. Its row stays, WITHDRAWN, when another
 * victim is taken in its place. */
struct fsm_preemption_victim {
    FSM_VICTIM(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint32_t node_count;
    const uint32_t *node_slots; /* nodes of use that it gives up */
};

/* A request for nodes, and its victims. The requester gets nothing before all victims let go
 * (P-024): a part of the nodes would be of no use to it. */
struct fsm_preemption {
    uint64_t id;
    FSM_PREEMPTION(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    const Ckpt__V1__RequestPreemptionRequest *request;
    uint8_t acting_class; /* compared with the classes of victims */
    uint32_t victim_count;
    struct fsm_preemption_victim victims[FSM_VICTIMS_MAX];
};

/* The folder of an expired checkpoint that could not be removed so far. */
struct fsm_undeleted {
    uint32_t place; /* while the folder is in the list */
    uint32_t target_slot;
    uint64_t checkpoint_id;
    FSM_UNDELETED(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    FSM_UNDELETED_KEPT(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    bool listed; /* its job still lists the checkpoint */
};

/* Sums over folders whose removal failed. Those that were not tried yet do not count. */
struct fsm_undeleted_sum {
    uint64_t count, bytes;
    const struct fsm_undeleted *oldest;  /* NULL: none */
    uint64_t forgotten, forgotten_bytes; /* ever, for want of a place */
};

/* The last report of a vCluster's scheduler about its queue. Old reports are kept: the reader
 * compares reported_at_ms with the policy's queue_max_age_ms. */
struct fsm_queue {
    const char *vcluster;
    uint64_t reported_at_ms;
    uint64_t queued_gpu_ms, running_gpu_ms;
    size_t waiting_count;
    const Ckpt__V1__WaitingJob *const *waiting;
};

/* The state as a whole, for status pages, metrics and the comparison of members. The arrays are
 * indexed by the numbers of the states. */
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
    uint32_t hung_count; /* allocations that are HUNG (fsm/hang.h) */
    uint32_t checkpoint_count;
    uint32_t checkpoints_by_state[16];
    uint64_t checkpoints_total[16]; /* ever entered, by state */
    /* Counted since the cluster began; a restore goes on from the snapshot's counts. */
    FSM_COUNTERS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint64_t oldest_paused_since_ms; /* 0: none */
    uint32_t past_request_count;
};
/* Copies all but cluster_id, which stays the state's. The time is in proportion to the targets, not
 * to the records. */
void fsm_get_summary(const struct fsm *fsm, struct fsm_summary *ret_summary);
/* Never NULL; the defaults before cluster_init. */
const Ckpt__V1__Policy *fsm_policy(const struct fsm *fsm);
/* The `zeros` with which the policy's zeros count as values. Proto3 leaves a zero out of the
 * message, and a missing field would mean "unchanged". */
uint64_t fsm_policy_zeros(const Ckpt__V1__Policy *policy);

/* Accounts as of at_ms, or of the state's clock when that is later: of an allocation; of a tenant
 * (0 .. count-1; returns its id, NULL: no such one); of all tenants together. An account grows
 * while nothing is applied, so a reader passes the wall clock. A tenant keeps the time of its
 * allocations that left; the last of FSM_TENANTS_MAX stands for all later tenants. */
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
/* Counts since the cluster began, of the evaluator's decisions alone: people's requests predict
 * nothing. fsm/books/calibration.c counts. */
struct fsm_calibration {
    uint64_t ratios[FSM_RATIO_COUNT]
                   [FSM_RATIO_BINS]; /* of actual / predicted: fsm_ratio_end_ppm() */
    /* By the chance of success that was known when the checkpoint was made, in twentieths: how many
     * ended, how many of these completed, and the sum of the chances. */
    uint64_t ended[FSM_SUCCESS_BINS], completed[FSM_SUCCESS_BINS], ended_ppm[FSM_SUCCESS_BINS];
    /* Losses expected by the hazards, in millionths of a loss, and ... */
    uint64_t expected_losses_e6, expected_rest_e15; /* the rest is less than one of the former */
    /* ... real losses: with a node, and of jobs stopped for others without a checkpoint. */
    uint64_t node_losses, kill_losses;
    /* GPU time that checkpoints were predicted to save, and that they saved at failures of nodes
     * and at deaths of applications. No hazard predicts the latter. */
    uint64_t saved_predicted_gpu_ms, saved_gpu_ms, saved_other_gpu_ms, saved_count, checkpoints;
    uint64_t pause_predicted_gpu_ms, pause_gpu_ms;
};
void fsm_get_calibration(const struct fsm *fsm, uint64_t at_ms,
                         struct fsm_calibration *ret_calibration);
/* Borrows the arrays: the message is valid as long as *calibration is, and is not freed. */
void fsm_calibration_to_message(struct fsm_calibration *calibration,
                                Ckpt__V1__Calibration *ret_message);
/* The rows of a record's table (fsm/records) as a message of the API; the caller adds fields that
 * follow from other records. Texts are borrowed from the state: the message is packed before the
 * next apply, and never freed with its own free function. */
void fsm_spec_to_message(const struct fsm_allocation *allocation,
                         Ckpt__V1__AllocationSpec *ret_message);
void fsm_allocation_to_message(const struct fsm_allocation *allocation,
                               Ckpt__V1__Allocation *ret_message); /* without spec */
void fsm_checkpoint_to_message(const struct fsm_checkpoint *checkpoint,
                               Ckpt__V1__Checkpoint *ret_message);
void fsm_target_spec_to_message(const struct fsm_target *target, Ckpt__V1__TargetSpec *ret_message);
void fsm_account_to_message(const struct fsm_account *account, Ckpt__V1__GpuAccount *ret_message);
/* The highest ratio of the bin; UINT64_MAX: the last bin. Eighths of an octave from 1/16 to 16. */
uint64_t fsm_ratio_end_ppm(size_t bin);

/* GPU time that restarts had to repeat: the sum of failure, preemption, walltime and stop. Nothing
 * was computed in the time of a pause or a restart. */
uint64_t fsm_account_repeated(const struct fsm_account *account);

/* The facts that members told of themselves, in order of first appearance; NULL: no more. The list
 * is for people and for ids; Raft's configuration alone has the voters. */
const Ckpt__Log__V1__MemberFacts *fsm_member_at(const struct fsm *fsm, size_t i);
/* Ids of removed members, and lower unknown ids, are never given out again. Raft would take an
 * empty member under an old id for the old member, but it lacks the old member's votes and
 * entries. */
bool fsm_member_was_removed(const struct fsm *fsm, uint64_t member_id);
/* The highest id of any member there ever was, in this epoch. */
uint64_t fsm_member_id_max(const struct fsm *fsm);
/* The log index at which the members changed last; it differs also after a snapshot was read.
 * Readers compare it with the index that they saw, in place of the whole list. */
uint64_t fsm_members_index(const struct fsm *fsm);

/* Records by their id or by their slot. x_find() and x_find_slot() return NULL when there is none;
 * x_at() is for a slot that must hold one, because another record names it, and stops the program
 * when it does not. Slots run 0 .. x_slots()-1 and may be empty; a removed node or target counts as
 * absent here. A look-up by id uses a hash table, or goes through FSM_TARGETS_MAX targets. */
uint32_t fsm_allocation_slots(const struct fsm *fsm);
const struct fsm_allocation *fsm_allocation_at(const struct fsm *fsm, uint32_t slot);
const struct fsm_allocation *fsm_allocation_find(const struct fsm *fsm, const char *id);
const struct fsm_allocation *fsm_allocation_find_slot(const struct fsm *fsm, uint32_t slot);
/* The state waits for the start of the job's part on the node in this run. When a heartbeat says
 * that the part runs, the report of its start was lost, and the leader proposes NodeRunning. */
bool fsm_part_awaits(const struct fsm_allocation *allocation, uint32_t node_slot, uint64_t run);
uint32_t fsm_node_slots(const struct fsm *fsm);
const struct fsm_node *fsm_node_at(const struct fsm *fsm, uint32_t slot);
/* Also of a removed node while a record names it, as old checkpoints do; "": none. */
const char *fsm_node_name(const struct fsm *fsm, uint32_t slot);
const struct fsm_node *fsm_node_find(const struct fsm *fsm, const char *id);
const struct fsm_node *fsm_node_find_slot(const struct fsm *fsm, uint32_t slot);
uint32_t fsm_target_slots(const struct fsm *fsm);
const struct fsm_target *fsm_target_at(const struct fsm *fsm, uint32_t slot);
/* Also of a removed target while a record names it; "": none. */
const char *fsm_target_name(const struct fsm *fsm, uint32_t slot);
const struct fsm_target *fsm_target_find(const struct fsm *fsm, const char *id);
/* Checkpoints, and folders that could not be removed, that keep a target from being removed. */
uint32_t fsm_target_records(const struct fsm *fsm, uint32_t slot);
const struct fsm_target *fsm_target_find_slot(const struct fsm *fsm, uint32_t slot);
/* The target of the job's active checkpoint, else of its next one: the target of its nodes' domain,
 * else the registered one. NULL: the job has ended, and its target was removed. */
const struct fsm_target *fsm_destination(const struct fsm *fsm,
                                         const struct fsm_allocation *allocation);
bool fsm_destination_available(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* The domain of the target with the job's last complete checkpoint; "": none. fits: the node is in
 * this domain, or it is "". allows: the job's rule lets it be placed on the node. */
const char *fsm_bound_domain(const struct fsm *fsm, const struct fsm_allocation *allocation);
bool fsm_domain_fits(const struct fsm *fsm, const struct fsm_allocation *allocation,
                     const struct fsm_node *node);
bool fsm_domain_allows(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const struct fsm_node *node);
/* The domain of all of its nodes; "": they have none, or differ. */
const char *fsm_nodes_domain(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* The target's budget when it is available: the configured bandwidth less staging, at most the
 * measured one. */
uint64_t fsm_target_budget_when_up(const struct fsm_target *target);
/* Slots of the allocations on the node that have not ended. Returns how many there are, writes at
 * most max. */
size_t fsm_allocations_on_node(const struct fsm *fsm, uint32_t node_slot, uint32_t *ret_slots,
                               size_t max);
/* The kept preemption with the smallest id above `after`, or NULL. 0 starts. */
const struct fsm_preemption *fsm_preemption_next(const struct fsm *fsm, uint64_t after);
/* No checkpoint can be expected: the job's strategy is NONE, or it did not answer the last time. */
bool fsm_checkpoints_nothing(const struct fsm_allocation *allocation);
/* A valid text for a node's architecture or operating system, as its agent tells it; "": not
 * told. */
bool fsm_platform_valid(const char *text);
/* The checkpoint can be restored on the node, or one of the platforms is not known. */
bool fsm_platform_fits(const struct fsm_checkpoint *checkpoint, const struct fsm_node *node);
/* The job's next checkpoint could be restored on the node, likewise. */
bool fsm_platform_may_move(const struct fsm *fsm, const struct fsm_allocation *allocation,
                           const struct fsm_node *node);
/* The pause from the end of an attempt to the next one that the broker begins by itself. A job that
 * did not answer is left alone for as long as it was unsaved when it was asked last: the pause
 * doubles each time, up to the longest interval. */
uint64_t fsm_attempt_interval_ms(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* Its application's own word of how long a checkpoint is written, to the timeout at most; 0: there
 * is none, or a complete checkpoint has shown it. */
uint64_t fsm_told_write_ms(const Ckpt__V1__Policy *policy, const struct fsm_allocation *allocation);
/* The job did not answer, and the pause has not passed. */
bool fsm_silence_lasts(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* No preemption can ever take the job as it is registered and placed. Time, state and storage
 * change and do not count here; fsm_victim_outlook() has them. */
bool fsm_victim_never(const struct fsm_allocation *allocation);
/* OK: the job can be a victim now. Else the status of the rule that protects it from every
 * requester. *ret_cost_gpu_ms: the cost of stopping it, as victims are compared. */
enum fsm_status fsm_victim_outlook(const struct fsm *fsm, const struct fsm_allocation *allocation,
                                   uint64_t *ret_cost_gpu_ms);
/* The bandwidth granted to checkpoints that have begun to write to the target. This function and
 * the two below look at the 4,096 oldest active checkpoints. */
uint64_t fsm_target_writing_rate(const struct fsm *fsm, uint32_t slot);
/* The job has completed no checkpoint, or did not answer the last time. */
bool fsm_allocation_unproven(const struct fsm_allocation *allocation);
/* The target's bandwidth that such jobs hold from dispatch on, and the count of their parts. */
uint64_t fsm_target_unproven_rate(const struct fsm *fsm, uint32_t slot, uint32_t *ret_parts);
/* The bytes that checkpoints still have to write to the target, at their granted rates. */
uint64_t fsm_target_writing_bytes(const struct fsm *fsm, uint32_t slot, uint64_t now_ms);
size_t fsm_queue_count(const struct fsm *fsm);
/* i is below fsm_queue_count(). Places change when a queue is withdrawn. */
void fsm_queue_at(const struct fsm *fsm, size_t i, struct fsm_queue *ret_queue);
/* NULL: it never existed, or its record gave way to younger ones of its job. Its folder may be
 * among the undeleted ones then. */
const struct fsm_checkpoint *fsm_checkpoint_find(const struct fsm *fsm, uint64_t id);
/* The checkpoint with the smallest id above `after`, or NULL. 0 starts. The caller passes the last
 * id that it saw, so entries may be applied in between. */
const struct fsm_checkpoint *fsm_checkpoint_next(const struct fsm *fsm, uint64_t after);
/* The same among the checkpoints of one allocation. */
const struct fsm_checkpoint *fsm_checkpoint_next_of(const struct fsm *fsm, uint32_t allocation_slot,
                                                    uint64_t after);

/* Value per byte of a waiting checkpoint at the state's clock: the decision's value, grown with the
 * square of the age since. Without the growth large jobs would starve behind small ones that come
 * again and again. */
uint64_t fsm_grant_priority(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint);
/* The checkpoint's priority is its computed gain: nobody requested it, and it has no deadline. Only
 * such checkpoints set the price of bandwidth. */
bool fsm_grant_weighed(const struct fsm_checkpoint *checkpoint);
/* The checkpoint has a deadline: it is to stop a victim, or was decided for the last safe slot
 * before the walltime. */
bool fsm_grant_urgent(const struct fsm_checkpoint *checkpoint);
/* REQUESTED checkpoints that may be granted now, in the order of granting: resumed ones by
 * recompute_saved, then by priority. Writes at most max ids, returns how many. */
size_t fsm_grantable(const struct fsm *fsm, uint64_t *ret_ids, size_t max);
/* The same in steps, so that a million checkpoints do not hold the loop. Each step visits at most
 * visits_max; true: done, the scan's `best` are in order. Entries may be applied between steps, so
 * the caller asks fsm_grant_possible() again for each. */
struct fsm_waiting {
    uint64_t id;
    uint64_t value;
    bool resumed; /* from an outage */
};
struct fsm_waiting_sum {
    uint64_t count, bytes;        /* of their allocations' sizes, saturated */
    uint64_t price_gpu_ms_per_gb; /* the highest priority among fsm_grant_weighed() ones */
};
struct fsm_grantable_scan {
    struct fsm_waiting *best; /* the caller's, room for max of each target */
    size_t max, count;
    size_t base; /* index of this target's first */
    uint32_t target_slot;
    uint64_t after_id;
    struct fsm_waiting_sum sums[FSM_TARGETS_MAX]; /* of all that were visited, by target */
};
/* best has room for max_per_target of each target. best and scan stay the caller's; nothing has to
 * be closed. */
void fsm_grantable_begin(struct fsm_grantable_scan *scan, struct fsm_waiting *best,
                         size_t max_per_target);
bool fsm_grantable_step(const struct fsm *fsm, struct fsm_grantable_scan *scan, size_t visits_max);
/* The state would accept a grant of the checkpoint now, if the budget allows it. */
bool fsm_grant_possible(const struct fsm *fsm, uint64_t id);
/* Checkpoints whose folder may be removed at `at_ms` (or the state's clock when that is later):
 * expired complete ones (never the last of a restartable allocation) and those of failed attempts.
 * A checkpoint stays listed until it is collected, except for 1 to 60 min after each failure.
 * Expiry needs a Tick. Checkpoints whose removal failed before take a quarter of the list at most
 * while others wait. At most FSM_COLLECTABLE_MAX. The caller first removes the folder and then
 * proposes checkpoints_collected. In the other order a crash in between would leave an unknown
 * folder. */
size_t fsm_collectable(const struct fsm *fsm, uint64_t at_ms, uint64_t *ret_ids, size_t max);
/* Such a checkpoint's target and folder, as fsm_checkpoint_path(); 0: nothing to remove, or size is
 * too small. */
size_t fsm_collectable_path(const struct fsm *fsm, uint64_t id, uint32_t *ret_target_slot,
                            char *ret_path, size_t size);
/* An operator may expire the checkpoint now: nothing but its age keeps it. */
bool fsm_may_expire(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint);
/* The first at the place or behind it; NULL: no more. The next call passes its place + 1. */
const struct fsm_undeleted *fsm_undeleted_next(const struct fsm *fsm, uint32_t place);
/* NULL: the checkpoint has no folder among them. */
const struct fsm_undeleted *fsm_undeleted_find(const struct fsm *fsm, uint64_t checkpoint_id);
/* Looks at all FSM_UNDELETED_MAX places. */
void fsm_undeleted_sum(const struct fsm *fsm, struct fsm_undeleted_sum *ret_sum);
uint64_t fsm_undeleted_due_ms(const struct fsm_undeleted *undeleted); /* of the next try */
/* Its folder, as fsm_checkpoint_path(), also when its job has left. */
size_t fsm_undeleted_path(const struct fsm *fsm, const struct fsm_undeleted *undeleted,
                          char *ret_path, size_t size);
/* Complete checkpoints that are due to be read again, by ids above *after; *after moves on, 0: the
 * end. They are the requested ones, and the last one of each restartable job when the interval is
 * over. Checkpoints that a node reads, on a target that is away, or from whose copies a run begins,
 * are left out. */
size_t fsm_verify_due(const struct fsm *fsm, uint64_t at_ms, size_t visits, uint64_t *after,
                      uint64_t *ret_ids, size_t max);
uint32_t fsm_verification_count(const struct fsm *fsm); /* under way */
/* The newest COMPLETE checkpoint that is neither collectable nor damaged, with an id below `before`
 * (0: any); NULL: none. A job is restored only from such ones. */
const struct fsm_checkpoint *fsm_restart_point(const struct fsm *fsm, const char *allocation_id,
                                               uint64_t before);
/* The newest COMPLETE checkpoint is damaged: the next one must not take files over from it. */
bool fsm_newest_damaged(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* The checkpoint that was chosen for the run that is about to start. When no part is about to
 * start, the one that a start now would begin from. NULL: from scratch. */
const struct fsm_checkpoint *fsm_begin_point(const struct fsm *fsm,
                                             const struct fsm_allocation *allocation);
/* The way in which the parts of a starting run restore, and the part that said so first; false: no
 * part has said so yet. */
bool fsm_begin_restored_as(const struct fsm *fsm, const struct fsm_allocation *view,
                           Ckpt__V1__RestoreMode *ret_mode, uint32_t *ret_part);
/* The checkpoint from which a part that is started now begins; 0 and NULL: from scratch. of_part is
 * NULL also when the run has begun from a checkpoint that is gone since. */
uint64_t fsm_begin_id(const struct fsm *fsm, const struct fsm_allocation *view);
const struct fsm_checkpoint *fsm_begin_of_part(const struct fsm *fsm,
                                               const struct fsm_allocation *view);
struct fsm_part; /* fsm_begin_shard(): the shard that this part alone restores, + 1; 0: none */
uint32_t fsm_begin_shard(const struct fsm *fsm, const struct fsm_part *part,
                         const struct fsm_checkpoint *point);
/* Folder of a checkpoint: {prefix}/{tenant}/{project}/{allocation}/checkpoints/{checkpoint}; and
 * its parent, with all checkpoints of the job at a target. Returns the length; 0: size is too
 * small. */
size_t fsm_checkpoint_path(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint,
                           char *ret_path, size_t size);
size_t fsm_checkpoints_path(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            const struct fsm_target *target, char *ret_path, size_t size);
/* The earliest instant at which a Tick would change something; UINT64_MAX: none. The leader
 * proposes a Tick then: without it nothing times out, since the state has no clock of its own. */
uint64_t fsm_next_deadline_ms(const struct fsm *fsm);

/* ---- what is learned ---- */

/* Counted since the cluster began. The leader makes rates of the counts
 * (src/broker/decide/learner.c): the state does not look at the time between the entries. */
struct fsm_losses {
    uint64_t node_failures[FSM_AGE_BINS]; /* by fsm_age_bin() */
    uint64_t kills[FSM_GROUPS];           /* allocations stopped for others without a checkpoint */
    uint64_t demands[FSM_GROUPS];         /* victims of preemption */
};
void fsm_get_losses(const struct fsm *fsm, struct fsm_losses *ret_losses); /* a copy */
/* The rates that leaders learned of the fleet; NULL: none yet. A new leader goes on from here and
 * adds the difference between the counts then and fsm_get_losses() now. */
const Ckpt__Log__V1__SetLearned *fsm_learned(const struct fsm *fsm);
/* The group of a job by class, nodes and whether its vCluster's queue is busy. A queue is busy when
 * more waits than half of what runs, or jobs wait by name, and its report is not too old. Most
 * demands come then. */
uint32_t fsm_group(const struct fsm_allocation *allocation, bool queue_busy);
/* The i-th queue is busy; the queue of the vCluster (a text of the state) is. */
bool fsm_queue_busy(const struct fsm *fsm, size_t i);
bool fsm_vcluster_busy(const struct fsm *fsm, const char *vcluster);
/* Ends at 1 h, 4 h, 1 d, 4 d, 16 d, 64 d since the node's last failure. */
uint32_t fsm_age_bin(uint64_t age_ms);
/* The chance that a checkpoint of the job completes; 980,000 without history. */
uint32_t fsm_success_ppm(const struct fsm_learned *learned);

/* ---- orders: derived, never stored ---- */

/* CHECKPOINT: ask the application, move its files and report. TERMINATE: SIGTERM, then SIGKILL when
 * the grace is over, and report. A node may have both for one allocation, in the grace after its
 * walltime. */
enum fsm_order_kind { FSM_ORDER_CHECKPOINT = 1, FSM_ORDER_TERMINATE = 2 };
/* The work of one node for one allocation. An agent does it once per (checkpoint, attempt) or run,
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
    uint64_t run;  /* of the part; TERMINATE: this run and all earlier ones */
    uint32_t part; /* CHECKPOINT: the place of the node's shard, from 0 */
};
/* The complete set for the node: an order that is not in it is withdrawn. Returns how many there
 * are; writes at most max. The set depends on the state alone (src/ARCHITECTURE.md), so each leader
 * derives the same one, and no order is lost with a leader. */
size_t fsm_orders_for_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_order *ret_orders,
                           size_t max);
/* The folders that the node's agent is to remove; likewise. */
size_t fsm_removals_on_node(const struct fsm *fsm, uint32_t node_slot,
                            const struct fsm_undeleted **ret_removals, size_t max);
/* The parts that may run on the node: those of allocations that hold it, except parts that were
 * reported to have ended. The agent ends every other part of this cluster there. Returns how many
 * there are; writes at most max. */
struct fsm_part {
    const struct fsm_allocation *allocation;
    uint64_t run;
    uint32_t place;             /* among the job's nodes, from 0 */
    bool joined;                /* it came after its run had begun: it restores nothing */
    bool restored;              /* it has its files */
    Ckpt__V1__BeginState begin; /* whether it may be started */
    Ckpt__V1__ReadState read;   /* whether it may read its files from the target */
    uint64_t read_bytes_per_s;  /* with MAY: 0: at any rate */
    uint32_t user; /* of its node, whose it was when it last began there, + 1; 0: nobody's */
};
size_t fsm_parts_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_part *ret_parts,
                         size_t max);
/* The complete checkpoints of which the node is to read a part; likewise. The order's attempt is
 * fsm_verify_attempt(), the time for a part fsm_verify_part_ms(). */
size_t fsm_verifications_on_node(const struct fsm *fsm, uint32_t node_slot,
                                 const struct fsm_verification **ret_verifications, size_t max);
uint64_t fsm_verify_part_ms(const struct fsm *fsm, const struct fsm_checkpoint *of, uint32_t part);
uint32_t fsm_verify_attempt(const struct fsm *fsm, const struct fsm_verification *verification);
/* The verification for which a victim still keeps its nodes; NULL: none. */
const struct fsm_verification *fsm_release_held(const struct fsm *fsm, uint32_t allocation_slot);
/* The amount that another node reads before a victim's nodes are given away: never nothing. */
Ckpt__V1__ReadBack fsm_release_read_back(const struct fsm_target *target);
/* The copies of parts that the node is to keep; other copies may go. Returns how many there are. */
struct fsm_copy {
    const char *allocation_id;
    uint64_t checkpoint_id;
    uint32_t part; /* of the checkpoint, from 0 */
};
size_t fsm_copies_on_node(const struct fsm *fsm, uint32_t node_slot, struct fsm_copy *ret_copies,
                          size_t max);
/* For each part of the job's last complete checkpoint an available node that keeps a copy of it;
 * NULL: none does. Returns how many parts there are, 0: no copy is kept; writes at most max. */
size_t fsm_copy_nodes(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      const char **ret_names, size_t max);
/* The job's part on the node, also when it has ended; false: the job has none. */
bool fsm_part_on(const struct fsm *fsm, const struct fsm_allocation *allocation, uint32_t node_slot,
                 struct fsm_part *ret_part);
/* Nodes whose orders may have changed since they were last taken. The dispatcher looks at
 * them; they are no part of the state. After a restore every node is listed. false: none left. */
bool fsm_take_changed_node(struct fsm *fsm, uint32_t *ret_node_slot);
/* A bit for each of the 64 allocation slots from 64 * word on. Set: the slot's allocation or a
 * checkpoint of it may have changed since the last call, or another allocation has the slot. The
 * evaluator looks at it; it is no part of the state. */
uint64_t fsm_take_changed_allocations(struct fsm *fsm, uint32_t word);
/* Asks the memory for an allocation that will be read soon; later for its nodes. */
void fsm_prefetch_allocation(const struct fsm *fsm, uint32_t slot);
void fsm_prefetch_allocation_nodes(const struct fsm *fsm, uint32_t slot);

/* ---- events ---- */

/* The first kept event with sequence > after, or NULL. *ret_gap is true when events in between were
 * dropped: the watcher has missed some, and reads the state anew. */
const Ckpt__V1__Event *fsm_event_after(const struct fsm *fsm, uint64_t after, bool *ret_gap);

/* ---- snapshot, check ---- */

/* Content of a snapshot as a stream of length-prefixed messages (ckpt.log.v1.SnapshotRecord). write
 * returns 0 or -1. Returns 0, or -1 when write failed: the bytes so far are no snapshot. */
int fsm_snapshot_write(const struct fsm *fsm,
                       int (*write)(void *context, const void *bytes, size_t length),
                       void *context);
/* The same in slices. begin() marks the instant. Each next() writes about `bytes` of the state as
 * it was then, while entries are applied; -1: write failed, or the state was replaced or freed.
 * end() follows when *ret_done is true, or at any time to give up. Several may be at work. begin()
 * packs only small records. A record that changes before its turn is packed first, so only changes
 * cost an entry more time. */
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
/* The same in two steps. load() makes a new state on any thread, NULL with a text when refused.
 * ret_newer: nothing is damaged, a newer build wrote it. fsm_swap() lets two states trade places,
 * and the caller frees the old one. A loop thread has no time for a restore of a million
 * allocations, which takes seconds. */
struct fsm *fsm_snapshot_load(int (*read)(void *context, void *bytes, size_t length), void *context,
                              char *ret_text, size_t text_size, bool *ret_newer);
void fsm_swap(struct fsm *a, struct fsm *b); /* snapshots at work cannot go on */

/* Verifies the named invariants over the whole state; calls violation(context, "I21 ...") for each
 * that does not hold. Returns how many invariants were checked. The time is in proportion to the
 * state: for restores, tests and the simulator. fsm/core/moved.c checks the records that each
 * command moved. */
size_t fsm_check(const struct fsm *fsm, void (*violation)(void *context, const char *text),
                 void *context);

/* True: the move is in the table (fsm/job/lifecycle.c). A number that is no state has none. */
bool fsm_checkpoint_move_allowed(Ckpt__V1__CheckpointState from, Ckpt__V1__CheckpointState to);
bool fsm_allocation_move_allowed(Ckpt__V1__AllocationState from, Ckpt__V1__AllocationState to);
/* names.c, as in fsm/names.h. */
const char *fsm_checkpoint_state_name(Ckpt__V1__CheckpointState state); /* "PAUSED" */
const char *fsm_allocation_state_name(Ckpt__V1__AllocationState state); /* "RUNNING" */
const char *fsm_reason_word(Ckpt__V1__Reason reason, char ret_word[FSM_WORD_BYTES]);
const char *fsm_purpose_word(Ckpt__V1__Purpose purpose, char ret_word[FSM_WORD_BYTES]);
/* REQUESTED, DISPATCHED, WRITING, PAUSED */
bool fsm_checkpoint_state_active(Ckpt__V1__CheckpointState state);
/* Within the minimal interval the broker's last move of the job failed or was cancelled, or the job
 * did not answer. Without this rule a lasting alarm would ask again in every cycle. */
bool fsm_move_too_soon(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* The application has finished on some of the job's nodes, and no attempt is under way: a
 * checkpoint of all parts cannot begin. */
bool fsm_part_finished(const struct fsm *fsm, const struct fsm_allocation *allocation);
bool fsm_checkpoint_put_off(const struct fsm_checkpoint *checkpoint); /* in this attempt */

#endif
