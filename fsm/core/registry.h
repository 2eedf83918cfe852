/* The tables of records and how a record is got: one family of names for all of them.
 *
 * Flow     x_find() by the record's name or id: NULL when there is none. x_find_slot(): what lies
 *          in a slot, NULL when nothing does, for loops over a table and for numbers from outside.
 *          x_at(): a record that must be there, because another record names it; CHECKed. x_edit():
 *          the same record for writing. A snapshot at work has it packed first, and the evaluator
 *          hears that its job has changed, so nothing is written through another pointer. NULL
 *          stays NULL: x_edit(fsm, x_find(fsm, id)). x_find_any() also finds a removed record,
 *          whose slot others still name; x_at() and x_find_slot() do as well.
 * Order    a function that is handed a struct that is not const may write to it: whoever passed it
 *          has called x_edit() before. A second call in one command costs little.
 * Shapes   slots run from 0 to the pool's slot_end and may be empty. Checkpoints have no slots:
 *          they lie in one array sorted by id, and ids only grow. Preemptions lie in a ring by id.
 * Absent   a table by hash for checkpoints (their ids only grow, so that the array is sorted by
 *          itself) and for targets (at most FSM_TARGETS_MAX).
 */
#ifndef CKPT_FSM_REGISTRY_H
#define CKPT_FSM_REGISTRY_H

#include "fsm/core/state.h"

/* Takes the const away without a cast, which the warnings refuse. For the x_edit() below alone. */
static inline void *registry_writable(const void *record)
{
    union {
        const void *constant;
        void *changing;
    } pointer = {record};

    return pointer.changing;
}

/* ---- checkpoints ---- */

/* The first place with an id >= id; checkpoint_refs: none. A place may be a hole, whose checkpoint
 * was removed. */
size_t fsm_registry_search(const struct fsm *fsm, uint64_t id);
/* The place of one that is there; else it is a bug. Places change when holes are closed, which
 * never happens while a snapshot is at work. */
size_t fsm_registry_place(const struct fsm *fsm, uint64_t id);
/* Its id is above all others, else it is a bug. */
void fsm_registry_add(struct fsm *fsm, struct checkpoint *checkpoint);
/* Leaves a hole. When half are holes they are closed: so a removal costs O(log n), spread out. */
void fsm_registry_remove(struct fsm *fsm, struct checkpoint *checkpoint);
/* The smallest id above `after`; NULL: no more. */
const struct checkpoint *fsm_registry_next(const struct fsm *fsm, uint64_t after);

/* NULL for any number that is none: clients and agents send such. */
static inline const struct checkpoint *checkpoint_find(const struct fsm *fsm, uint64_t id)
{
    size_t i = fsm_registry_search(fsm, id);

    if (i == fsm->checkpoint_refs || fsm->checkpoints[i].id != id)
        return NULL;
    return fsm->checkpoints[i].checkpoint;
}

static inline const struct checkpoint *checkpoint_at(const struct fsm *fsm, uint64_t id)
{
    const struct checkpoint *checkpoint = checkpoint_find(fsm, id);

    CHECK(checkpoint != NULL);
    return checkpoint;
}

/* Marks its job as changed as well: what is kept of a job depends on its checkpoints. */
static inline struct checkpoint *checkpoint_edit(struct fsm *fsm,
                                                 const struct checkpoint *checkpoint)
{
    fsm_hold_checkpoint(fsm, checkpoint);
    return registry_writable(checkpoint);
}

/* The job's active one; NULL: it has none. */
static inline const struct checkpoint *checkpoint_find_active(const struct fsm *fsm,
                                                              const struct allocation *allocation)
{
    uint64_t id = allocation->view.active_checkpoint_id;

    return id == 0 ? NULL : checkpoint_at(fsm, id);
}

/* ---- allocations ---- */

bool fsm_allocation_is(const void *item, const char *id); /* for the map */

/* By the scheduler's name for the job. One that has left is not found, and its name is free. */
static inline const struct allocation *allocation_find(const struct fsm *fsm, const char *id)
{
    return fsm_map_find(&fsm->allocation_map, fsm_hash_text(id), fsm_allocation_is, id);
}

static inline const struct allocation *allocation_find_slot(const struct fsm *fsm, uint32_t slot)
{
    return fsm_pool_at(&fsm->allocations, slot);
}

static inline const struct allocation *allocation_at(const struct fsm *fsm, uint32_t slot)
{
    const struct allocation *allocation = allocation_find_slot(fsm, slot);

    CHECK(allocation != NULL);
    return allocation;
}

/* Checkpoints of the job need a checkpoint_edit() of their own. */
static inline struct allocation *allocation_edit(struct fsm *fsm,
                                                 const struct allocation *allocation)
{
    fsm_hold_allocation(fsm, allocation);
    return registry_writable(allocation);
}

/* ---- nodes ---- */

bool fsm_node_is(const void *item, const char *id); /* for the map */

/* Also one that was removed and is still named: a node that is made under this name gets its
 * slot. */
static inline const struct node *node_find_any(const struct fsm *fsm, const char *id)
{
    return fsm_map_find(&fsm->node_map, fsm_hash_text(id), fsm_node_is, id);
}

/* One that is not removed: for whatever comes from outside. */
static inline const struct node *node_find(const struct fsm *fsm, const char *id)
{
    const struct node *node = node_find_any(fsm, id);

    return node == NULL || node->removed ? NULL : node;
}

static inline const struct node *node_find_slot(const struct fsm *fsm, uint32_t slot)
{
    return fsm_pool_at(&fsm->nodes, slot);
}

static inline const struct node *node_at(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_find_slot(fsm, slot);

    CHECK(node != NULL);
    return node;
}

static inline struct node *node_edit(struct fsm *fsm, const struct node *node)
{
    fsm_hold_node(fsm, node);
    return registry_writable(node);
}

/* Neither down nor to be emptied. */
bool fsm_node_serves(const struct fsm *fsm, uint32_t slot);
/* In this free slot; a restore says which. Named by nobody, UNSPECIFIED until an agent says
 * hello. */
struct node *fsm_node_create(struct fsm *fsm, uint32_t slot, const char *id);
/* A new one, or the removed one whose name records still have. There must be room for it. */
struct node *fsm_node_make(struct fsm *fsm, const char *id);
/* Of a node whose memory goes; the view's pointers are dead. */
void fsm_node_release_texts(struct fsm *fsm, const struct fsm_node *node);
/* Its orders may be others now: the dispatcher looks at it again, once however often this is said.
 * Not part of the state. */
void fsm_node_changed(struct fsm *fsm, const struct node *node);
/* A record names the node by its slot, or does so no more. The slot of a removed node is free again
 * when no record names it; until then nobody else may have it, or old checkpoints would show a node
 * that they were not on. */
void fsm_node_refer(struct fsm *fsm, uint32_t slot);
void fsm_node_unrefer(struct fsm *fsm, uint32_t slot);
/* Frees the slot of a removed node that nobody names; else does nothing. The pointer may be
 * dead. */
void fsm_node_leave(struct fsm *fsm, struct node *node);

/* ---- targets: few, and whole in every snapshot ---- */

/* A job or a checkpoint's record has its name: it keeps its slot, also when it was removed. */
static inline bool target_named(const struct target *target)
{
    return target->job_count > 0 || target->checkpoint_count > 0;
}
static inline const struct target *target_find_slot(const struct fsm *fsm, uint32_t slot)
{
    return fsm_pool_at(&fsm->targets, slot);
}

static inline const struct target *target_at(const struct fsm *fsm, uint32_t slot)
{
    const struct target *target = target_find_slot(fsm, slot);

    CHECK(target != NULL);
    return target;
}

/* No snapshot is told, as for all other records: targets are few. The CHECK finds a pointer into
 * something else. */
static inline struct target *target_edit(struct fsm *fsm, const struct target *target)
{
    CHECK(target == NULL || target == fsm_pool_at(&fsm->targets, target->view.slot));
    return registry_writable(target);
}

/* Also one that was removed and is still named. */
const struct target *target_find_any(const struct fsm *fsm, const char *id);

static inline const struct target *target_find(const struct fsm *fsm, const char *id)
{
    const struct target *target = target_find_any(fsm, id);

    return target == NULL || target->removed ? NULL : target;
}

/* In this free slot, available until the storage watch says otherwise, with no bandwidth. */
struct target *fsm_target_create(struct fsm *fsm, uint32_t slot, const char *id);
/* Of a target whose memory goes. */
void fsm_target_release_texts(struct fsm *fsm, const struct fsm_target *target);
/* Its slot is free again when it was removed and no record names it. The pointer may be dead. */
void fsm_target_leave(struct fsm *fsm, struct target *target);
/* After any change of what it depends on: the specification, what is measured, the availability,
 * and what is granted. Grants that a lower budget does not cover stay, and are noted as excused:
 * nothing that writes is stopped for a measurement (I36). */
void fsm_target_budget(struct target *target);

/* fsm/cluster/destination.c: what destinations follow from is another one now, for any number of
 * jobs: the evaluator looks at all of them again. Not part of the state. */
void fsm_destinations_changed(struct fsm *fsm);
const struct target *fsm_target_default(const struct fsm *fsm); /* NULL: there is none */
/* destination.c, pool.c. sensitive: the oldest target in use that is of the pool, beside that one
 * (NULL: any). users: sensitive jobs that would have no destination without the target, and with
 * `lies` what is of such jobs there. kept: what is sensitive lies in its pool (I55). */
/* Somebody says of a target what one of the pool must be. */
bool fsm_pool_assured(Ckpt__V1__Assured encrypted, Ckpt__V1__Assured hot_only);
/* jurisdiction: "": any */
bool fsm_pool_takes(const struct target *target, const char *jurisdiction);
const struct target *fsm_target_sensitive(const struct fsm *fsm, const struct target *beside,
                                          const char *jurisdiction);
uint64_t fsm_pool_users(const struct fsm *fsm, const struct target *target, bool lies);
bool fsm_pools_kept(const struct fsm *fsm);
/* fsm/cluster/failover.c: when the outage of a target is looked at next; and that look. */
void fsm_failover_arm(struct fsm *fsm, struct target *target);
void fsm_failover_due(struct fsm *fsm, struct target *target);

/* ---- preemptions ---- */

/* Ids begin at 1 and have no gaps, so FSM_PREEMPTIONS_MAX neighbours have a place each. */
static inline size_t preemption_place(uint64_t id)
{
    return (size_t)((id - 1) % FSM_PREEMPTIONS_MAX);
}

/* NULL: it gave way to a younger one, or never was. */
static inline const struct preemption *preemption_find(const struct fsm *fsm, uint64_t id)
{
    const struct preemption *preemption = id == 0 ? NULL : fsm->preemptions[preemption_place(id)];

    return preemption == NULL || preemption->view.id != id ? NULL : preemption;
}

static inline const struct preemption *preemption_at(const struct fsm *fsm, uint64_t id)
{
    const struct preemption *preemption = preemption_find(fsm, id);

    CHECK(preemption != NULL);
    return preemption;
}

static inline struct preemption *preemption_edit(struct fsm *fsm,
                                                 const struct preemption *preemption)
{
    if (preemption != NULL && !list_empty(fsm->snapshots))
        fsm_save_preemption(fsm, preemption_place(preemption->view.id));
    return registry_writable(preemption);
}

/* ---- bases of decisions: found by their content with fsm_basis_find() ---- */

static inline const struct basis *basis_find_slot(const struct fsm *fsm, uint32_t slot)
{
    return fsm_pool_at(&fsm->bases, slot);
}

static inline const struct basis *basis_at(const struct fsm *fsm, uint32_t slot)
{
    const struct basis *basis = basis_find_slot(fsm, slot);

    CHECK(basis != NULL);
    return basis;
}

/* Only its count of references changes, which no snapshot holds: it is counted again when one is
 * read. */
static inline struct basis *basis_edit(struct fsm *fsm, const struct basis *basis)
{
    CHECK(basis == NULL || basis == fsm_pool_at(&fsm->bases, basis->view.slot));
    return registry_writable(basis);
}

#endif
