/* Which node reads a complete checkpoint again, and what it reads: kept with the checkpoint and in
 * the node's list. What comes of it is verify.c's.
 *
 * Flow     give() finds a node for a part, and its order set has the part from then on; end() when
 *          that is read, or not wanted any more.
 * Shapes   a node other than the one that wrote the part is taken first, since that one may have it
 *          in memory; then the writer. FSM_VERIFICATIONS_PER_NODE_MAX at a node, which is READY
 *          when it gets one and loses it when it goes down: no record needs the node's name.
 */
#include <malloc.h>

#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

enum {
    VERIFY_WRITERS_LOOKED_MAX = 64,         /* for one part */
    VERIFY_PART_MS = 3600000,               /* an order's time, at least */
    VERIFY_REPORT_MS = 60000,               /* until its report is here */
    VERIFY_SLOWEST_BYTES_PER_S = 100000000, /* that a storage system is waited for */
};

/* Twice what the bytes take at the pace of the policy, or of a slow storage system: a part of
 * terabytes is read as well as a small one. */
uint64_t fsm_verify_part_ms(const struct fsm *fsm, const struct fsm_checkpoint *of, uint32_t part)
{
    uint64_t pace = fsm->policy.scrub_bytes_per_s;
    uint64_t bytes_per_s = VERIFY_SLOWEST_BYTES_PER_S;

    CHECK(of->id != 0);
    CHECK(part < of->shard_count);
    if (pace != 0)
        bytes_per_s = fsm_min(bytes_per_s, pace);
    return fsm_min(
        fsm_max(VERIFY_PART_MS, fsm_multiply(of->shards[part].size_bytes, 2000) / bytes_per_s),
        FSM_DURATION_MAX_MS);
}

/* Whatever came of it before. */
void fsm_verify_ask(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(fsm_checkpoint_restorable(checkpoint));
    checkpoint->verify_asked_at_ms = fsm_max(fsm->now_ms, 1);
    checkpoint->verify_tried_at_ms = 0;
    fsm_moved(fsm, FSM_RECORD_CHECKPOINT, checkpoint->view.id);
}

/* ---- who reads ---- */

static bool verify_fits(const struct fsm *fsm, uint32_t slot)
{
    const struct node *node = node_find_slot(fsm, slot);

    return node != NULL && !node->removed &&
           node->view.state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY &&
           node->verification_count < FSM_VERIFICATIONS_PER_NODE_MAX;
}

/* One that wrote another part of it mounts its destination. Of thousands of them each try looks at
 * others. */
static bool verify_other_writer(const struct fsm *fsm, const struct checkpoint *checkpoint,
                                const struct fsm_verification *asked, uint32_t *ret_slot)
{
    uint32_t count = checkpoint->view.shard_count;
    uint32_t own = checkpoint->shards[asked->part].node_slot;

    CHECK(asked->part < count);
    for (uint32_t i = 1; i < count && i <= VERIFY_WRITERS_LOOKED_MAX; i++) {
        uint32_t slot = checkpoint->shards[(asked->part + asked->tries + i) % count].node_slot;

        if (slot == own || !verify_fits(fsm, slot))
            continue;
        *ret_slot = slot;
        return true;
    }
    return false;
}

/* From another node on for each checkpoint and try, so that not all are read by the first ones. A
 * command may name many checkpoints: when nobody in the cluster has room, it looks once. */
static bool verify_stranger(struct fsm *fsm, const struct checkpoint *checkpoint,
                            const struct fsm_verification *asked, uint32_t *ret_slot)
{
    struct target *target = target_edit(fsm, target_at(fsm, checkpoint->view.target_slot));
    const char *domain = target->view.domain;
    uint32_t end = fsm->nodes.slot_end;
    uint64_t first = (checkpoint->view.id + asked->tries) * VERIFY_WRITERS_LOOKED_MAX;
    bool any = false;

    CHECK(asked->tries < FSM_VERIFY_TRIES_MAX);
    CHECK(asked->part < checkpoint->view.shard_count);
    if (target->nobody_reads_at == fsm->command_count)
        return false;
    for (uint32_t i = 0; i < end; i++) {
        uint32_t slot = (uint32_t)((first + i) % end);

        if (!verify_fits(fsm, slot) ||
            (domain[0] != '\0' && strcmp(node_at(fsm, slot)->view.domain, domain) != 0))
            continue;
        any = true;
        if (slot == checkpoint->shards[asked->part].node_slot)
            continue;
        *ret_slot = slot;
        return true;
    }
    if (!any)
        target->nobody_reads_at = fsm->command_count;
    return false;
}

/* The last try is the writer's, for what nobody else can read; what is held is to be read by
 * another one. */
static bool verify_reader(struct fsm *fsm, const struct checkpoint *checkpoint,
                          const struct fsm_verification *asked, uint32_t *ret_slot)
{
    if ((asked->holds || asked->tries + 1 < FSM_VERIFY_TRIES_MAX) &&
        (verify_other_writer(fsm, checkpoint, asked, ret_slot) ||
         verify_stranger(fsm, checkpoint, asked, ret_slot)))
        return true;
    *ret_slot = checkpoint->shards[asked->part].node_slot;
    return !asked->holds && verify_fits(fsm, *ret_slot);
}

/* ---- one verification ---- */

/* Its agent finds no order for it any more, and ends its worker. */
void fsm_verify_take(struct fsm *fsm, struct checkpoint *checkpoint)
{
    struct verification *verification = checkpoint->verification;
    struct node *node = node_edit(fsm, node_at(fsm, verification->view.node_slot));

    CHECK(node->verification_count > 0);
    CHECK(fsm->verification_count > 0);
    list_remove(&verification->in_node);
    target_edit(fsm, target_at(fsm, checkpoint->view.target_slot))->nobody_reads_at = 0;
    node->verification_count--;
    fsm->verification_count--;
    fsm_timer_set(&fsm->timers, &verification->timer, 0);
    fsm_node_changed(fsm, node);
    checkpoint->verification = NULL;
    free(verification);
}

/* By checkpoint: a member that was restored from a snapshot has the same order, in which those of a
 * lost node find other readers. */
static void verify_queue(struct node *node, struct verification *verification)
{
    struct list *at = node->verifications.next;

    CHECK(node->verification_count < FSM_VERIFICATIONS_PER_NODE_MAX);
    while (at != &node->verifications &&
           LIST_ITEM(at, struct verification, in_node)->view.checkpoint_id <
               verification->view.checkpoint_id)
        at = at->next;
    list_push_back(at, &verification->in_node);
    node->verification_count++;
}

/* The record lives as long as a node reads: most checkpoints have none, and need no room for it. */
static void verify_link(struct fsm *fsm, struct checkpoint *checkpoint,
                        const struct fsm_verification *view)
{
    struct verification *verification = check_calloc(1, sizeof(*verification));
    struct node *node = node_edit(fsm, node_at(fsm, view->node_slot));

    CHECK(checkpoint->verification == NULL);
    verification->view = *view;
    verification->view.checkpoint_id = checkpoint->view.id;
    verification->timer.kind = TIMER_VERIFICATION;
    verification->timer.key = checkpoint->view.id;
    checkpoint->verification = verification;
    verify_queue(node, verification);
    fsm->verification_count++;
    fsm_timer_set(&fsm->timers, &verification->timer, view->deadline_ms);
    fsm_node_changed(fsm, node);
    fsm_moved(fsm, FSM_RECORD_NODE, node->view.slot);
}

/* The number of the order tells its agent, and the report, which reading is meant: a part may be
 * given to the same node again. */
static bool verify_order(struct fsm *fsm, struct checkpoint *checkpoint,
                         struct fsm_verification *view)
{
    CHECK(fsm_checkpoint_restorable(checkpoint));
    if (view->tries >= FSM_VERIFY_TRIES_MAX ||
        !verify_reader(fsm, checkpoint, view, &view->node_slot))
        return false;
    view->given_at_ms = fsm->now_ms;
    checkpoint->verify_orders++;
    verify_link(fsm, checkpoint, view);
    return true;
}

bool fsm_verify_give(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part, uint32_t tries)
{
    struct fsm_verification view = {.part = part,
                                    .tries = tries,
                                    .deadline_ms =
                                        fsm->now_ms + VERIFY_REPORT_MS +
                                        fsm_verify_part_ms(fsm, &checkpoint->view, part)};

    return verify_order(fsm, checkpoint, &view);
}

bool fsm_verify_hold(struct fsm *fsm, struct checkpoint *checkpoint, uint32_t part, uint32_t tries,
                     uint64_t until_ms)
{
    struct fsm_verification view = {
        .part = part, .tries = tries, .deadline_ms = until_ms, .holds = true};

    return until_ms > fsm->now_ms && verify_order(fsm, checkpoint, &view);
}

/* Also of one that nobody reads: whoever expires or damages a checkpoint need not know. */
void fsm_verify_end(struct fsm *fsm, struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.id != 0);
    if (checkpoint->verification != NULL)
        fsm_verify_take(fsm, checkpoint);
    checkpoint->verify_asked_at_ms = 0;
}

/* ---- questions ---- */

/* A victim stops with its last complete one. */
const struct checkpoint *fsm_verify_held(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct checkpoint *last = checkpoint_find(fsm, allocation->view.last_complete_id);

    CHECK(allocation->view.id != NULL);
    return last != NULL && last->verification != NULL && last->verification->view.holds ? last
                                                                                        : NULL;
}

void fsm_verify_let_go(struct fsm *fsm, const struct allocation *allocation)
{
    struct checkpoint *held = checkpoint_edit(fsm, fsm_verify_held(fsm, allocation));

    CHECK(allocation->view.id != NULL);
    if (held != NULL)
        fsm_verify_end(fsm, held);
}

const struct fsm_verification *fsm_release_held(const struct fsm *fsm, uint32_t allocation_slot)
{
    const struct checkpoint *held = fsm_verify_held(fsm, allocation_at(fsm, allocation_slot));

    CHECK(held == NULL || held->verification->view.holds);
    return held == NULL ? NULL : &held->verification->view;
}

uint32_t fsm_verification_count(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->verification_count;
}

size_t fsm_verifications_on_node(const struct fsm *fsm, uint32_t node_slot,
                                 const struct fsm_verification **ret_verifications, size_t max)
{
    const struct node *node = node_find_slot(fsm, node_slot);
    size_t count = 0;

    CHECK(ret_verifications != NULL || max == 0);
    if (node == NULL)
        return 0;
    for (const struct list *at = node->verifications.next; at != &node->verifications;
         at = at->next) {
        if (count < max)
            ret_verifications[count] = &LIST_ITEM_CONST(at, struct verification, in_node)->view;
        count++;
    }
    return count;
}

uint32_t fsm_verify_attempt(const struct fsm *fsm, const struct fsm_verification *verification)
{
    return checkpoint_at(fsm, verification->checkpoint_id)->verify_orders;
}

/* ---- a restored one ---- */

/* The bytes may come from a disk that lies: what give() would never have made is refused. */
bool fsm_verify_adopt(struct fsm *fsm, struct checkpoint *checkpoint,
                      const struct fsm_verification *view)
{
    const struct node *node = node_find_slot(fsm, view->node_slot);

    CHECK(checkpoint->verification == NULL);
    if (!fsm_checkpoint_restorable(checkpoint) || view->part >= checkpoint->view.shard_count ||
        view->deadline_ms <= view->given_at_ms || node == NULL || node->removed ||
        fsm_node_gone(&node->view) || node->verification_count >= FSM_VERIFICATIONS_PER_NODE_MAX)
        return false;
    verify_link(fsm, checkpoint, view);
    return true;
}

static bool verify_stops(const struct allocation *job, const struct checkpoint *checkpoint)
{
    CHECK(checkpoint->view.allocation_slot == job->view.slot);
    return job->view.state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP &&
           checkpoint->view.purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT;
}

const char *fsm_verify_broken(const struct fsm *fsm, const struct checkpoint *checkpoint)
{
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);
    const struct verification *verification = checkpoint->verification;

    CHECK(checkpoint->view.id != 0);
    if (verification == NULL)
        return NULL;
    if (!fsm_checkpoint_restorable(checkpoint))
        return "I52 what is read again is complete, whole and kept";
    if (verification->view.part >= checkpoint->view.shard_count)
        return "I52 a part that is read again is one of the checkpoint's";
    if (verification->timer.position == 0 ||
        verification->timer.at_ms != verification->view.deadline_ms)
        return "I52 who reads again has a deadline";
    if (verification->view.holds &&
        (!(verify_stops(job, checkpoint) || fsm_allocation_shrinks(job)) || job->view.terminating ||
         job->view.active_checkpoint_id != 0 || job->view.last_complete_id != checkpoint->view.id))
        return "I53 what holds nodes is what a victim gives them up with";
    return NULL;
}
