/* The inside of the state machine: what the files of this folder share, nobody else includes it.
 *
 * Flow     apply_*.c (one per entity) call checkpoint.c, allocation.c, retention.c, which alone
 *          change records; lifecycle.c alone changes a state field. Each keeps the indices (maps,
 *          lists, heap, counters) right at once: nothing is recomputed per command.
 * Shapes   struct fsm owns all. Allocations, nodes and targets live in pools with stable addresses
 *          and lowest-free slots, so that two members (also one restored from a snapshot) number
 *          alike. struct fsm itself can be moved: no pointer leads into it.
 * Units    as in fsm.h.
 */
#ifndef CKPT_FSM_STATE_H
#define CKPT_FSM_STATE_H

#include <string.h>

#include "fsm/core/arena.h"
#include "fsm/core/hash.h"
#include "fsm/core/map.h"
#include "fsm/core/pool.h"
#include "fsm/core/timers.h"
#include "fsm/fsm.h"
#include "fsm/pause.h"
#include "fsm/quota.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/list.h"

/* Short names of generated types that nearly every line needs. */
typedef Ckpt__Log__V1__Command fsm_command;
typedef Ckpt__V1__NodeShare fsm_share_message;

enum { FSM_EVENTS_PER_PAGE = 1024, FSM_EVENT_PAGES = FSM_EVENTS_MAX / FSM_EVENTS_PER_PAGE };
enum { INTERN_RECENT = 64 };
enum { FSM_STATES_ALLOCATION = 8, FSM_STATES_CHECKPOINT = 16 };

/* Text held once and counted: ids, tenants, projects ... */
struct interned {
    uint32_t reference_count : 31;
    uint32_t shared : 1; /* found by whoever needs an equal text */
    uint32_t hash;
    char text[];
};

/* One allocation's part on one node, beside its struct fsm_node_share. */
struct assignment {
    struct list
        in_node; /* while the allocation runs; later while its end is not known: unended.c */
    struct allocation *allocation;
    uint32_t share;
    FSM_SHARE_PART(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    bool leaving; /* the allocation goes on without it */
};

/* A part that has left its allocation, and of which nobody knows that it has ended: departed.c. */
struct departed {
    struct list in_node;
    struct allocation *allocation;
    FSM_DEPARTED(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

/* Sums of all that a tenant ever held. Grows at its rates like the accounts of its allocations do,
 * so the two agree at any instant. */
struct tenant {
    const char *id;             /* interned */
    struct fsm_account account; /* as of at_ms */
    struct fsm_quota quota;
    uint64_t at_ms;
    uint64_t computing_gpus, restarting_gpus;
};

struct allocation {
    struct fsm_allocation view;     /* first: views are handed out as such */
    struct assignment *assignments; /* node_count; shares follow in the same block */
    struct departed **departed;     /* departed_count, the first that left first; NULL: none */
    struct list checkpoints;        /* by id */
    struct timer timer;
    FSM_ALLOCATION_INSIDE(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint32_t checkpoint_count, departed_count;
    /* of its parts */
    uint32_t terminated_count, exited_count, starting_count, restored_count, joined_count;
    uint32_t read_waiting_count, reading_count;
    struct list in_reads;       /* of its target, while a part of it reads or waits: read.c */
    struct fsm_account account; /* as of account_at_ms */
    uint32_t account_gpus; /* at which it grows: of its tenant's computing or restarting ones */
    uint16_t tenant_slot;
    bool account_restarting;
    uint64_t hazard_rate_e12; /* its part of the sum */
    bool assigned;            /* linked to its nodes: fsm_allocation_runs() */
    bool going;               /* its nodes count it among the jobs that have not ended */
};

struct checkpoint {
    struct fsm_checkpoint view; /* first */
    struct list in_allocation;
    struct list queue;  /* active: its target's; expired: the collectable ones' */
    struct list copies; /* of its parts, on nodes: copies.c */
    struct timer timer;
    struct fsm_shard *shards;
    struct inputs *inputs;
    FSM_CHECKPOINT_INSIDE(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    /* its folder could not be removed so far; NULL: not so, or there was no place */
    struct undeleted *undeleted;
    struct verification *verification; /* a node reads it again; NULL: none does */
};

/* A complete checkpoint that a node is reading again. */
struct verification {
    struct fsm_verification view; /* first */
    struct list in_node;
    struct timer timer;
};

/* A folder that could not be removed, or that no job lists any more. */
struct undeleted {
    struct fsm_undeleted view;     /* first */
    struct checkpoint *checkpoint; /* NULL: it has left its job's list */
    struct list in_node;           /* with given */
};

struct basis {
    struct fsm_basis view; /* first */
    uint32_t reference_count;
    uint32_t hash;
};

/* One block of memory: the columns and the ages follow. */
struct inputs {
    struct fsm_inputs view; /* first */
    struct basis *basis;
    uint64_t numbers[];
};

struct node {
    struct fsm_node view; /* first */
    struct list assignments;
    struct list unended;       /* parts of stopped jobs that may run on there: unended.c */
    struct list departed;      /* parts that left their jobs, and may run on there: departed.c */
    struct list removals;      /* folders that its agent is to remove */
    struct list copies;        /* copies that it is to keep: copies.c */
    struct list verifications; /* checkpoints that its agent is to read again: verify.c */
    struct timer timer;        /* of drain_until_ms */
    uint32_t removal_count, verification_count;
    uint64_t stamp; /* finds duplicates in one pass */
    /* parts, departed ones, shards and copies of all records, nodes of victims: by its slot */
    uint32_t name_count;
    uint32_t copy_count;
    uint32_t going_count; /* jobs that have not ended and run on it, or would */
    FSM_NODE_INSIDE(RECORD_MEMBER, RECORD_MEMBER_TEXT)
};

struct target {
    struct fsm_target view;        /* first */
    struct list active;            /* checkpoints by id */
    struct list line, readers;     /* jobs that wait to read, and that read: read.c */
    struct timer timer;            /* of failover_at_ms */
    uint64_t budgeted_bytes_per_s; /* part of granted that did not bypass the budget */
    FSM_TARGET_INSIDE(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    uint64_t nobody_reads_at;  /* the command in which no node had room to read a part again */
    uint32_t checkpoint_count; /* records that name it */
    uint32_t folder_count;     /* of checkpoints that lie there */
    uint32_t job_count;        /* records that name it */
    uint32_t going_count;      /* of these the ones that have not ended */
};

/* Slots in the order in which they came, each once. A slot's place is its number, so that the
 * record may be gone. */
struct slot_queue {
    uint32_t *next; /* by slot; as first and last a slot + 1, or 0: none */
    uint32_t capacity, first, last;
    struct bitmap queued;
};

struct queue {
    const char *vcluster; /* interned, as that of allocations */
    FSM_QUEUE(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    Ckpt__V1__ReportQueueRequest *report;
};

/* Of an outcome, what most do not have. */
struct past_request_rest {
    uint64_t checkpoint_id, preemption_id, current, limit;
    struct fsm_victim victims[];
};

struct past_request {
    struct past_request *next; /* younger */
    uint64_t content_hash;
    uint64_t at_ms;
    uint64_t index;
    struct past_request_rest *rest; /* NULL: all zero */
    uint32_t hash;
    uint16_t status;
    uint16_t place; /* in its page, in units of FSM_PAST_REQUEST_ALIGN */
    uint8_t command;
    uint8_t victim_count;
    uint8_t held_by; /* snapshots at work that still need it, when it has left */
    uint8_t field_count;
    char request_id[]; /* ends with a zero; then the prints of its fields (request_fields.h) */
};

/* field_count prints (request_fields.h). */
static inline const uint8_t *past_request_prints(const struct past_request *past)
{
    return (const uint8_t *)past->request_id + strlen(past->request_id) + 1;
}

/* Past requests lie in pages as they came, and leave in that order. */
enum { FSM_PAST_REQUEST_ALIGN = 8, FSM_PAST_REQUEST_PAGE_BYTES = 1 << 16 };

struct past_request_page {
    uint32_t used;   /* bytes, this head included */
    uint32_t living; /* records that have not been freed */
    bool open;       /* the newest page: it stays */
};

struct checkpoint_ref {
    uint64_t id;
    struct checkpoint *checkpoint; /* NULL: removed */
};

/* Records that moved while the command ran that is applied: moved.c looks at them when it is
 * done. */
enum fsm_record {
    FSM_RECORD_ALLOCATION, /* key: its slot */
    FSM_RECORD_CHECKPOINT, /* its id */
    FSM_RECORD_NODE,       /* its slot */
    FSM_RECORD_TARGET,     /* its slot */
    FSM_RECORD_PREEMPTION, /* its id */
    FSM_RECORD_UNDELETED,  /* its place */
    FSM_RECORD_QUEUE,      /* its number */
    FSM_RECORD_TENANT,     /* its slot */
    FSM_RECORD_BASIS,      /* its slot */
};
enum { FSM_MOVED_MAX = 64 };
struct moved {
    uint32_t count;
    struct {
        enum fsm_record kind;
        uint64_t key;
    } items[FSM_MOVED_MAX];
};

/* On the heap, since struct fsm may move and a timer may not. */
struct pause {
    struct fsm_pause view; /* first */
    struct timer timer;    /* of until_ms */
};

/* The newest FSM_DRILLS_MAX, the oldest first; only the last one may be under way. */
struct drills {
    struct timer timer; /* of that one */
    uint32_t count;
    Ckpt__V1__Drill *items[FSM_DRILLS_MAX];
};

struct fsm {
    /* cluster */
    bool initialised;
    char cluster_id[FSM_ID_BYTES];
    uint64_t epoch, checkpoint_sequence, preemption_sequence;
    uint64_t now_ms, index, term, state_hash, command_count, stamp;
    Ckpt__V1__Policy policy;
    uint64_t passive_since_ms, adopted_at_ms, adopted_shift_ms; /* passive.c */
    struct pause *pause;                                        /* pause.c; NULL: none */
    uint32_t retention_review; /* 1 + the slot that comes next; 0: no pass is under way */
    uint64_t newer_index;      /* fsm_newer_index(); of no snapshot */
    Ckpt__Log__V1__MemberFacts *members[FSM_MEMBERS_MAX];
    size_t member_count;
    struct tenant *tenants[FSM_TENANTS_MAX];
    uint32_t tenant_count;
    struct fsm_calibration calibration; /* as of calibration_at_ms */
    uint64_t calibration_at_ms;
    uint64_t hazard_sum_e12; /* of allocations that compute */
    uint32_t next_set_count; /* of allocations with a next set of nodes: scale.c */
    uint64_t member_id_max;  /* of all that ever were */
    uint64_t members_index;  /* of the log, when they changed last or were restored */
    struct blocks *blocks;   /* the memory of records; heap: struct fsm may move */
    /* tables */
    struct pool allocations, nodes, targets, bases;
    struct map allocation_map, node_map, intern_map, past_request_map, basis_map;
    struct checkpoint_ref *checkpoints; /* by id, with holes */
    size_t checkpoint_refs, checkpoint_holes, checkpoint_capacity;
    struct timers timers;
    struct list *collectable;     /* heap: struct fsm may move */
    struct undeleted **undeleted; /* FSM_UNDELETED_MAX places */
    const char *detail; /* of the report that is being applied; NULL: none is, or it says nothing */
    struct map undeleted_map; /* by checkpoint */
    uint32_t undeleted_count;
    uint32_t undeleted_hand; /* the place that is asked first for the next one */
    uint64_t undeleted_forgotten, undeleted_forgotten_bytes; /* ever */
    uint32_t verification_count;
    struct queue queues[FSM_QUEUES_MAX];
    size_t queue_count;
    struct preemption *preemptions[FSM_PREEMPTIONS_MAX]; /* a ring by id */
    struct past_request *past_request_oldest, *past_request_newest;
    uint32_t past_request_count;
    struct past_request_page *past_request_page;   /* the newest; NULL: none yet */
    Ckpt__V1__Event *event_pages[FSM_EVENT_PAGES]; /* one ring; a page is made at its first event */
    uint64_t next_event_sequence;
    uint32_t event_count;
    uint64_t event_first; /* while a snapshot is read */
    /* slots of RUNNING ones that may be victims */
    struct bitmap running_by_class[FSM_CLASS_MAX + 1];
    /* counters */
    uint32_t allocations_by_state[FSM_STATES_ALLOCATION];
    uint32_t hung_count; /* allocations */
    uint32_t checkpoints_by_state[FSM_STATES_CHECKPOINT];
    uint64_t checkpoints_total[FSM_STATES_CHECKPOINT];
    FSM_COUNTERS(RECORD_MEMBER, RECORD_MEMBER_TEXT)
    struct fsm_losses losses;
    Ckpt__Log__V1__SetLearned *learned; /* NULL: nothing yet */
    struct drills *drills;              /* heap: struct fsm may move */
    struct audit *audit;                /* fsm/audit/audit.h; heap */
    struct revoked *revoked;            /* fsm/cluster/revoked.c; heap; NULL: none was */
    /* not part of the state */
    /* of the command that is applied; the caller is NULL for the leader's own */
    const Ckpt__Log__V1__Caller *caller;
    const char *command_name, *command_request_id;
    struct list *snapshots;            /* at work; heap: struct fsm may move */
    struct slot_queue changed_nodes;   /* nodes with changed orders, removed ones among them */
    struct bitmap changed_allocations; /* slots: fsm_take_changed_allocations() */
    struct arena arena;
    uint32_t intern_alone_count;
    struct interned *intern_recent[INTERN_RECENT]; /* shared ones, each in its place or none */
    struct past_request
        *past_request_ahead;           /* the youngest whose leaving is prepared for; NULL: none */
    uint32_t past_request_ahead_count; /* such ones, the oldest first */
    struct moved moved;
    uint64_t victims_looked; /* candidates, since the Tick began that is applied */
};

/* Of an id that was validated: it fits. */
static inline void fsm_copy_id(char ret_id[FSM_ID_BYTES], const char *id)
{
    size_t size = strlen(id) + 1;

    CHECK(size <= FSM_ID_BYTES);
    memcpy(ret_id, id, size);
}

static inline uint64_t fsm_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t fsm_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
static inline uint64_t fsm_multiply(uint64_t a, uint64_t b) /* saturates */
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
static inline uint64_t fsm_add(uint64_t a, uint64_t b) /* saturates */
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t fsm_since(const struct fsm *fsm, uint64_t then_ms)
{
    return fsm->now_ms > then_ms ? fsm->now_ms - then_ms : 0;
}

/* intern.c: equal texts are one pointer. release accepts NULL. alone: not found by fsm_intern(),
 * which may make an equal one beside it. again: one more reference to what one of them returned. */
const char *fsm_intern(struct fsm *fsm, const char *text);
const char *fsm_intern_alone(struct fsm *fsm, const char *text, uint32_t hash);
const char *fsm_intern_again(const char *interned);
uint32_t fsm_intern_hash(const char *interned);
void fsm_intern_release(struct fsm *fsm, const char *interned);
void fsm_intern_set(struct fsm *fsm, const char **text,
                    const char *fresh); /* in place of what was */

/* basis.c: what decisions were made from. of() finds the equal one or makes one, and counts a
 * reference, which release() gives back; NULL: there are too many. */
struct basis *fsm_basis_of(struct fsm *fsm, const Ckpt__Log__V1__DecisionBasis *message);
void fsm_basis_release(struct fsm *fsm, struct basis *basis);
struct basis *fsm_basis_create(struct fsm *fsm, uint32_t slot,
                               const Ckpt__Log__V1__DecisionBasis *message);
struct basis *fsm_basis_find(const struct fsm *fsm, const Ckpt__Log__V1__DecisionBasis *message);
void fsm_bases_free(struct fsm *fsm); /* for a broken snapshot */
/* Takes over one reference to the basis. */
void fsm_checkpoint_set_detail(struct fsm *fsm, struct checkpoint *checkpoint, const char *detail);
void fsm_checkpoint_set_inputs(struct checkpoint *checkpoint, struct basis *basis, uint64_t index,
                               uint64_t term, const Ckpt__Log__V1__DecisionInputs *message);
void fsm_checkpoint_drop_inputs(struct fsm *fsm, struct checkpoint *checkpoint);
void fsm_checkpoint_move_inputs(struct checkpoint *from, struct checkpoint *to);

/* messages.c: what a scheduler said. */
void fsm_spec_from_message(struct fsm *fsm, const Ckpt__V1__AllocationSpec *from,
                           struct fsm_allocation *to);

/* message.c */
ProtobufCMessage *fsm_message_copy(struct fsm *fsm, const ProtobufCMessage *message);
void fsm_message_free(ProtobufCMessage *message);

/* events.c: mixes the event into the state hash as well. */
struct fsm_event {
    Ckpt__V1__EventKind kind;
    const char *allocation_id; /* interned; NULL: none */
    uint64_t checkpoint_id;
    uint32_t old_state, new_state;
    Ckpt__V1__Reason reason;
    const char *subject; /* NULL: none */
    uint64_t number;
    /* of a complete checkpoint, for accounting */
    uint64_t size_bytes, duration_ms, storage_micro_usd_per_month;
};
void fsm_event_emit(struct fsm *fsm, const struct fsm_event *event);
/* Its place in the ring, for writing; makes the page. */
Ckpt__V1__Event *fsm_event_edit(struct fsm *fsm, uint64_t sequence);
const Ckpt__V1__Event *fsm_event_at(const struct fsm *fsm, uint64_t sequence); /* a kept one */
void fsm_event_fill(struct fsm *fsm, Ckpt__V1__Event *event, const Ckpt__V1__Event *source);
void fsm_events_free(struct fsm *fsm);

/* snapshot_take.c: while a snapshot is at work, called (most through fsm_hold_*) before a record
 * changes or leaves, and before a new one takes a place. */
void fsm_save_node(struct fsm *fsm, const struct node *node);
void fsm_save_allocation(struct fsm *fsm, const struct allocation *allocation);
void fsm_save_checkpoint(struct fsm *fsm, const struct checkpoint *checkpoint);
void fsm_save_queue(struct fsm *fsm, size_t i);
void fsm_save_preemption(struct fsm *fsm, size_t i);
void fsm_save_basis(struct fsm *fsm, const struct basis *basis);
void fsm_save_undeleted(struct fsm *fsm, uint32_t place);
void fsm_save_empty_slot(struct fsm *fsm, uint32_t slot);  /* of an allocation */
void fsm_save_empty_basis(struct fsm *fsm, uint32_t slot); /* likewise */
void fsm_save_empty_node(struct fsm *fsm, uint32_t slot);  /* likewise */
void fsm_save_event(struct fsm *fsm, const Ckpt__V1__Event *event);
void fsm_save_audit(struct fsm *fsm, uint64_t link); /* likewise */
/* Before the oldest request leaves: true when the snapshot still needs it, and will free it. */
bool fsm_save_past_request(struct fsm *fsm, struct past_request *past);
void fsm_snapshots_leave(struct fsm *fsm); /* ends snapshots at work: the state goes */

static inline void fsm_hold_node(struct fsm *fsm, const struct node *node)
{
    if (!list_empty(fsm->snapshots) && node != NULL)
        fsm_save_node(fsm, node);
}
/* Whoever changes an allocation, or a checkpoint of it, comes by here first: what is kept of it
 * elsewhere is out of date. */
static inline void fsm_hold_allocation(struct fsm *fsm, const struct allocation *allocation)
{
    if (allocation == NULL)
        return;
    fsm_bitmap_set(&fsm->changed_allocations, allocation->view.slot);
    if (!list_empty(fsm->snapshots))
        fsm_save_allocation(fsm, allocation);
}
static inline void fsm_hold_checkpoint(struct fsm *fsm, const struct checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    fsm_bitmap_set(&fsm->changed_allocations, checkpoint->view.allocation_slot);
    if (!list_empty(fsm->snapshots))
        fsm_save_checkpoint(fsm, checkpoint);
}

/* past_requests.c */
struct request_fields;
struct request {
    const char *id; /* "": none */
    uint64_t content_hash;
    uint32_t hash;                       /* of the id */
    const struct request_fields *fields; /* NULL: their prints are not kept */
};
struct past_request *fsm_past_request_find(const struct fsm *fsm, const struct request *request);
enum fsm_status fsm_past_request_make_room(struct fsm *fsm, struct fsm_outcome *outcome);
void fsm_past_request_add(struct fsm *fsm, const struct request *request, uint8_t command,
                          uint64_t at_ms, const struct fsm_outcome *outcome);
void fsm_past_request_outcome(const struct past_request *past, struct fsm_outcome *ret_outcome);
void fsm_past_requests_expire(struct fsm *fsm);
void fsm_past_request_free(struct past_request *past); /* one that left */
void fsm_past_requests_free(struct fsm *fsm);

/* ahead.c: for commands that will be applied soon. aim: hashes what look_ahead() needs. */
struct decoded;
void fsm_look_aim(struct decoded *decoded);
enum { FSM_LOOK_COMMANDS = 16 }; /* some microseconds, and few enough for the caches */
void fsm_look_first(const struct fsm *fsm, const struct decoded *commands, size_t count);
/* Before the command `at`, each FSM_LOOK_COMMANDS. */
void fsm_look_ahead(const struct fsm *fsm, const struct decoded *commands, size_t count, size_t at);

/* moved.c: called by whoever changes the state of a record; the key is as in enum fsm_record.
 * fsm_moved_check() looks at those records when the command is done. */
static inline void fsm_moved(struct fsm *fsm, enum fsm_record kind, uint64_t key)
{
    struct moved *moved = &fsm->moved;
    uint32_t last = moved->count - 1;

    CHECK(kind <= FSM_RECORD_BASIS);
    if (moved->count == FSM_MOVED_MAX)
        return;
    if (moved->count > 0 && moved->items[last].kind == kind && moved->items[last].key == key)
        return;
    moved->items[moved->count].kind = kind;
    moved->items[moved->count].key = key;
    moved->count++;
}
void fsm_moved_check(struct fsm *fsm);
/* The counts and limits of the tables, when an entry has been applied. */
void fsm_tables_check(const struct fsm *fsm);
/* Both of them, over the whole state: calls broken() for each record of which a condition does not
 * hold, with the first of these. */
struct record_report {
    void (*broken)(void *context, const char *condition, uint64_t key);
    void *context;
};
void fsm_records_expect(const struct fsm *fsm, const struct record_report *report);
/* part_check.c: one node's part of an allocation, after its own change. */
void fsm_part_check(const struct allocation *allocation, const struct assignment *part);

/* accounts.c: where GPU time goes. */
void fsm_account_open(struct fsm *fsm, struct allocation *allocation); /* of a new one, assigned */
/* After any change of whether it is assigned, of its GPUs, of its starting parts. */
void fsm_account_update(struct fsm *fsm, struct allocation *allocation);
/* Before it ends so: what is pending is useful or lost. */
void fsm_account_end(struct fsm *fsm, struct allocation *allocation,
                     Ckpt__V1__AllocationState state, Ckpt__V1__Reason reason);
void fsm_account_left(struct fsm *fsm, struct allocation *allocation, uint32_t stays);
void fsm_account_part_died(struct fsm *fsm, struct allocation *allocation);
void fsm_account_part_started(struct fsm *fsm, struct allocation *allocation,
                              const struct assignment *part, uint64_t restored_checkpoint_id);
void fsm_account_paused(struct fsm *fsm, struct checkpoint *checkpoint, uint64_t stall_ms);
void fsm_account_saved(struct fsm *fsm, struct allocation *allocation,
                       struct checkpoint *checkpoint);
/* Of a restored one, whose account stands. */
bool fsm_account_adopt(struct fsm *fsm, struct allocation *allocation);
struct tenant *fsm_tenant_create(struct fsm *fsm, const char *id);
bool fsm_account_balanced(const struct fsm_account *account);
void fsm_account_from_message(const Ckpt__V1__GpuAccount *message, struct fsm_account *ret_account);

/* calibration.c: what was predicted beside what came. */
void fsm_calibrate_settle(struct fsm *fsm); /* before a rate changes */
void fsm_calibrate_rate(struct fsm *fsm, struct allocation *allocation);
void fsm_calibrate_decided(struct fsm *fsm, struct allocation *allocation,
                           const Ckpt__V1__DecisionTerms *terms);
void fsm_calibrate_ended(struct fsm *fsm, const struct checkpoint *checkpoint, bool completed);
void fsm_calibrate_complete(struct fsm *fsm, struct allocation *allocation,
                            const struct checkpoint *checkpoint);
void fsm_calibrate_lost(struct fsm *fsm, struct allocation *allocation, enum fsm_loss cause,
                        Ckpt__V1__Reason reason);
bool fsm_calibration_from_message(const Ckpt__V1__Calibration *message,
                                  struct fsm_calibration *ret_calibration);

/* victims.c: who gives nodes up. */
struct preemption;
struct victim_search {
    const Ckpt__V1__RequestPreemptionRequest *request; /* names; NULL: none */
    Ckpt__V1__PreemptionReason reason;
    uint8_t acting_class;
    bool forced;
    uint32_t nodes, gpus; /* needed */
    uint64_t value_gpu_ms;
    uint32_t max;                     /* victims */
    const struct preemption *goes_on; /* its victims are not tried again; NULL: none */
};
struct victim_choice {
    uint32_t slot;
    bool shrinks;
};
struct victim_set {
    struct victim_choice items[FSM_VICTIMS_MAX]; /* the cheapest first */
    uint32_t count;
    uint64_t cost_gpu_ms;
};
enum fsm_status fsm_victims_choose(struct fsm *fsm, const struct victim_search *asked,
                                   struct victim_set *ret_set, struct fsm_outcome *outcome);
/* The nodes that it gives; ret_slots has room for all it has. Returns how many. */
uint32_t fsm_victim_nodes(struct fsm *fsm, const struct victim_search *asked,
                          const struct allocation *allocation, bool shrinks, uint32_t *ret_slots,
                          uint32_t *ret_gpus);
/* victim_rules.c */
enum fsm_status fsm_victim_check(const struct fsm *fsm, const struct victim_search *asked,
                                 const struct allocation *allocation, bool shrinks,
                                 uint64_t *ret_current, uint64_t *ret_limit);
uint64_t fsm_victim_cost(const struct fsm *fsm, const struct allocation *allocation, bool shrinks);
bool fsm_victim_can_checkpoint(const struct fsm *fsm, const struct allocation *allocation);
bool fsm_victim_needs_no_checkpoint(const struct fsm *fsm, const struct allocation *allocation);
bool fsm_victim_allowed(const struct fsm *fsm, const struct allocation *allocation);

/* preemption.c: what preemptions come to. */
struct preemption {
    struct fsm_preemption view; /* first */
    struct timer timer;
    bool taking; /* not all of its victims are known yet */
};
enum fsm_status fsm_preemption_make_room(struct fsm *fsm, struct fsm_outcome *outcome);
struct preemption *fsm_preemption_place(struct fsm *fsm, uint64_t id); /* a fresh one */
void fsm_preemption_free(struct fsm *fsm, struct preemption *preemption);
void fsm_preemption_due(struct fsm *fsm, struct preemption *preemption);
/* Ends it when every victim let go, else sets its deadline. */
void fsm_preemption_settle(struct fsm *fsm, struct preemption *preemption);
/* The allocation's nodes are free: all, or those that it gave up. */
void fsm_preemption_leaves(struct fsm *fsm, const struct allocation *allocation);
void fsm_preemption_released(struct fsm *fsm, struct allocation *allocation);
/* The allocation keeps its nodes, or gives them to another preemption: the next Tick looks for
 * others. The reason is the victim's, for people. */
void fsm_preemption_lost(struct fsm *fsm, uint64_t id, const struct allocation *allocation,
                         Ckpt__V1__Reason reason);
/* The checkpoint that was to free the nodes has ended without: the job goes on, and is nobody's
 * victim. */
void fsm_preemption_kept(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason);
/* The job may be ended without a checkpoint: its preemption was asked for with force, or is a
 * sensitive claim. */
bool fsm_preemption_forced(const struct fsm *fsm, const struct allocation *allocation);
void fsm_preemption_renewed(struct fsm *fsm, const struct allocation *allocation);

/* apply_preempt.c */
struct victim_search fsm_preemption_search(const struct fsm *fsm,
                                           const Ckpt__V1__RequestPreemptionRequest *request,
                                           uint8_t acting_class);
void fsm_preemption_take(struct fsm *fsm, struct preemption *preemption,
                         const struct victim_search *search, const struct victim_set *set);

/* learn.c */
void fsm_learn_complete(struct fsm_allocation *view, const struct checkpoint *checkpoint);
void fsm_learn_outcome(struct fsm_allocation *view, bool completed);
void fsm_learn_nodes_changed(struct fsm_allocation *view, uint32_t old_count);
void fsm_learn_node_failed(struct fsm *fsm, struct node *node);
bool fsm_learned_valid(const Ckpt__Log__V1__SetLearned *learned);
bool fsm_learned_counts_agree(const struct fsm *fsm, const Ckpt__Log__V1__SetLearned *learned);

/* sort.c: by high descending, then low ascending. */
struct sort_item {
    uint64_t high, low;
    void *item;
};
void fsm_sort(struct sort_item *items, size_t count);

/* apply_*.c, in the table of command.c. The command has passed fsm_validate_command. */
typedef enum fsm_status fsm_handler(struct fsm *fsm, const fsm_command *command,
                                    struct fsm_outcome *outcome);
fsm_handler fsm_apply_put_tenant, fsm_apply_expire_over_quota;
fsm_handler fsm_apply_pin, fsm_apply_expire, fsm_apply_verify, fsm_apply_verified,
    fsm_apply_remove_orphans, fsm_apply_adopt_cluster;
fsm_handler fsm_apply_cluster_init, fsm_apply_member_facts, fsm_apply_member_role,
    fsm_apply_register, fsm_apply_update, fsm_apply_end, fsm_apply_report_queue,
    fsm_apply_request_checkpoint, fsm_apply_cancel, fsm_apply_preemption, fsm_apply_migration,
    fsm_apply_restart, fsm_apply_decisions, fsm_apply_grants, fsm_apply_node_report,
    fsm_apply_node_seen, fsm_apply_target_availability, fsm_apply_put_target, fsm_apply_set_policy,
    fsm_apply_tick, fsm_apply_leader_elected, fsm_apply_new_epoch, fsm_apply_collected,
    fsm_apply_drain_node, fsm_apply_set_learned, fsm_apply_node_running, fsm_apply_remove_target,
    fsm_apply_drain_target, fsm_apply_remove_node, fsm_apply_node_off, fsm_apply_scan_target,
    fsm_apply_restart_choice, fsm_apply_hang, fsm_apply_pause_cluster, fsm_apply_start_drill,
    fsm_apply_probe_drill, fsm_apply_tell_drill, fsm_apply_audit_calls, fsm_apply_audit_shipped,
    fsm_apply_revoke_certificate;
enum fsm_status fsm_put_target(struct fsm *fsm, const Ckpt__V1__TargetSpec *spec,
                               struct fsm_outcome *outcome);
/* Ends or requeues what runs on a node that is gone. */
void fsm_node_lost(struct fsm *fsm, struct node *node);

/* pause.c */
enum fsm_status fsm_pause_check(const Ckpt__Log__V1__PauseCluster *asked,
                                struct fsm_outcome *outcome);
bool fsm_pause_restore(struct fsm *fsm, const Ckpt__V1__ClusterPause *message);
void fsm_pause_due(struct fsm *fsm);
void fsm_pause_free(struct pause *pause);

/* fsm/cluster/revoked.c */
struct fsm_revoked;
bool fsm_is_revoked(const struct fsm *fsm, const char *serial);
bool fsm_revoked_add(struct fsm *fsm, const struct fsm_revoked *like);
void fsm_revoked_free(struct fsm *fsm);
bool fsm_serial_valid(const char *serial);
enum fsm_status fsm_validate_revoke(const fsm_command *command, struct fsm_outcome *outcome);
enum fsm_status fsm_validate_audit_calls(const fsm_command *command, struct fsm_outcome *outcome);

/* fsm/audit: who changed what. begin() before a command's handler and, where that took it, end();
 * settle() behind an entry. The last two where something sensitive has moved. */
struct audit_view;
struct fsm_command_info;
void fsm_audit_open(struct fsm *fsm);
void fsm_audit_close(struct fsm *fsm);
struct audit_view *fsm_audit_begin(struct fsm *fsm, const fsm_command *command,
                                   const struct fsm_command_info *info);
struct fsm_packed_command {
    const uint8_t *bytes; /* in the entry */
    size_t length;
};
void fsm_audit_end(struct fsm *fsm, const fsm_command *command,
                   const struct fsm_packed_command *packed, const struct audit_view *was,
                   const struct fsm_outcome *outcome);
void fsm_audit_settle(struct fsm *fsm);
void fsm_audit_checkpoint(struct fsm *fsm, const struct checkpoint *checkpoint,
                          Ckpt__V1__CheckpointState old_state);
void fsm_audit_job(struct fsm *fsm, const struct allocation *allocation,
                   Ckpt__V1__AllocationState old_state);

/* level.c */
/* Notes a command that holds what this build does not know: see fsm_newer_index(). status: what its
 * validation found. */
void fsm_note_newer(struct fsm *fsm, const fsm_command *command, enum fsm_status status);
/* FSM_LEVEL_FIRST: it was always there. */
uint32_t fsm_field_level(const ProtobufCMessageDescriptor *type,
                         const ProtobufCFieldDescriptor *field);
/* The bits in `zeros` of the policy's fields of a higher level. */
uint64_t fsm_policy_bits_above(uint32_t level);
/* apply_drill.c */
enum fsm_status fsm_validate_start_drill(const fsm_command *command, struct fsm_outcome *outcome);
enum fsm_status fsm_validate_probe_drill(const fsm_command *command, struct fsm_outcome *outcome);
enum fsm_status fsm_validate_tell_drill(const fsm_command *command, struct fsm_outcome *outcome);
/* drill.c */
struct drills *fsm_drills_new(void);
void fsm_drills_free(struct drills *drills);
void fsm_drill_due(struct fsm *fsm); /* its timer */
void fsm_drill_leader(struct fsm *fsm, uint64_t member_id, uint64_t term);
void fsm_drill_target(struct fsm *fsm, const char *target_id, bool available);
void fsm_drill_abort(struct fsm *fsm, const char *why); /* the one under way, if there is one */
/* A new one, the last; the oldest gives way. */
Ckpt__V1__Drill *fsm_drill_add(struct fsm *fsm, const Ckpt__V1__Drill *drill);
bool fsm_drill_valid(const struct fsm *fsm, const Ckpt__V1__Drill *drill); /* to be added */
void fsm_drill_state(struct fsm *fsm, Ckpt__V1__Drill *drill, Ckpt__V1__DrillState state,
                     const char *subject);
/* policy.c */
void fsm_policy_defaults(Ckpt__V1__Policy *policy);
/* The defaults that a cluster of this level was founded with. */
void fsm_policy_founded(Ckpt__V1__Policy *policy, uint32_t level);
/* INVALID_ARGUMENT with the field in outcome->subject: a value beyond its limits, or a whole policy
 * in which two contradict. */
enum fsm_status fsm_policy_check_values(const Ckpt__V1__Policy *policy,
                                        struct fsm_outcome *outcome);
/* The level only rises. */
enum fsm_status fsm_policy_check_level(const Ckpt__V1__Policy *policy, uint32_t level,
                                       struct fsm_outcome *outcome);
enum fsm_status fsm_policy_check_order(const Ckpt__V1__Policy *policy, struct fsm_outcome *outcome);
void fsm_policy_merge(Ckpt__V1__Policy *policy, const Ckpt__V1__Policy *changes);

/* command.c */
struct fsm_command_info {
    uint32_t number; /* field number in ckpt.log.v1.Command */
    const char *name;
    fsm_handler *apply;
    bool from_client;   /* needs a request id, its outcome is remembered */
    bool before_init;   /* taken by a cluster that is not initialised */
    bool while_passive; /* and by one that is passive: passive.h */
    bool while_paused;  /* ... that is paused: pause.h */
};
const struct fsm_command_info *fsm_command_info(uint32_t number); /* NULL: unknown */
const struct fsm_command_info *fsm_command_at(size_t i);          /* NULL: no more */

/* validate_fields.c. How many values a field has, 0 or 1 where it is not repeated, and where the
 * i-th one is. */
size_t fsm_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
const void *fsm_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                            size_t i);
/* Visits the message and all below it. */
void fsm_walk_messages(const ProtobufCMessage *message,
                       void (*visit)(void *context, const ProtobufCMessage *message),
                       void *context);
/* Unknown fields and enum values, text lengths, at any depth. The message came
 * from, or makes, so many bytes at most. */
/* A line for people is too long: INVALID_ARGUMENT with its length. */
enum fsm_status fsm_check_detail(const char *text, struct fsm_outcome *outcome);
void fsm_check_profile(const Ckpt__V1__AllocationSpec *spec, struct fsm_outcome *outcome);
bool fsm_spec_text_is_id(const char *field);
void fsm_check_attributes(const Ckpt__V1__AllocationSpec *spec, struct fsm_outcome *outcome);
enum fsm_status fsm_validate_fields(const ProtobufCMessage *message, size_t packed_bytes,
                                    struct fsm_outcome *outcome);

#endif
