/* What is learned: of a job from its own checkpoints, of the fleet by its leaders.
 *
 * Flow     progress.c and checkpoint.c note each end of a checkpoint here; the moving means that
 *          result are part of the allocation, so they cost no log traffic and survive every
 *          failover. Node failures, kills and demands are only counted: the leader makes rates of
 *          them (src/broker/decide/learner.c) and leaves its numbers here by SetLearned, from which
 *          the next one goes on.
 * Units    microseconds, bytes, millionths. The same moving mean, deviation, success and stall as
 *          src/eval/learn.h, rounded; tests/unit/broker/test_learned.c holds the two side by side.
 * Absent   rates: they need the time that passes between entries.
 */
#include "fsm/core/state.h"

enum {
    HISTORY_MAX = 5,           /* the newest of five or more weighs a fifth */
    KEPT_PERCENT = 95,         /* of the outcomes remembered, at each new one */
    STALL_WEIGHT_PERCENT = 30, /* of the newest stall */
    PRIOR_DONE_E6 = 49000000,  /* 49 of 50 complete */
    PRIOR_FAILED_E6 = 1000000
};

static const uint64_t bin_end_ms[FSM_AGE_BINS - 1] = {UINT64_C(3600000),    UINT64_C(14400000),
                                                      UINT64_C(86400000),   UINT64_C(345600000),
                                                      UINT64_C(1382400000), UINT64_C(5529600000)};

/* ---- of a job ---- */

/* Bit by bit: floating point would round by the processor, and members may have different ones. */
static uint64_t square_root(__uint128_t square)
{
    uint64_t low = 0;

    for (int bit = 63; bit >= 0; bit--) {
        uint64_t with = low | UINT64_C(1) << bit;

        if ((__uint128_t)with * with <= square)
            low = with;
    }
    return low;
}

/* The mean and standard deviation with the `count`th observation, which is the newest. The first
 * few weigh alike; then the newest weighs a fifth, so that a job that changes is followed. */
static void learn_moving(uint64_t *mean, uint64_t *deviation, uint32_t count, uint64_t observed)
{
    uint64_t n = fsm_min(count, HISTORY_MAX);
    bool above = observed > *mean;
    uint64_t error = above ? observed - *mean : *mean - observed;
    uint64_t step = (error + n / 2) / n;

    CHECK(count > 0);
    if (count == 1) {
        *mean = observed;
        *deviation = 0;
        return;
    }
    *deviation = square_root(
        (n - 1) * ((__uint128_t)*deviation * *deviation + (__uint128_t)error * error / n) / n);
    *mean = above ? *mean + step : *mean - step;
}

/* The part of the write in which the application stood still. It is only learned where an agent
 * measured it. */
static void learn_stall(struct fsm_learned *learned, uint64_t stall_us, uint64_t write_us)
{
    uint64_t observed = fsm_min((uint64_t)((__uint128_t)stall_us * FSM_PPM / write_us), FSM_PPM);

    if (learned->stall_measured)
        observed = (observed * STALL_WEIGHT_PERCENT +
                    (uint64_t)learned->stall_ppm * (100 - STALL_WEIGHT_PERCENT) + 50) /
                   100;
    learned->stall_ppm = (uint32_t)observed;
    learned->stall_measured = true;
}

/* Old outcomes fade by a twentieth with each new one: an application that was mended is trusted
 * again after a few dozen. */
void fsm_learn_outcome(struct fsm_allocation *view, bool completed)
{
    struct fsm_learned *learned = &view->learned;

    CHECK(view->id != NULL);
    learned->done_e6 = (uint32_t)((uint64_t)learned->done_e6 * KEPT_PERCENT / 100);
    learned->failed_e6 = (uint32_t)((uint64_t)learned->failed_e6 * KEPT_PERCENT / 100);
    if (completed)
        learned->done_e6 += FSM_PPM;
    else
        learned->failed_e6 += FSM_PPM;
}

/* The slowest shard is what a checkpoint takes: first its application stands still, then its data
 * are moved and read back. */
void fsm_learn_complete(struct fsm_allocation *view, const struct checkpoint *checkpoint)
{
    struct fsm_learned *learned = &view->learned;
    uint64_t write_us = 0, stall_us = 0;

    CHECK(view->id != NULL);
    CHECK(checkpoint->view.id != 0);
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        write_us = fsm_max(write_us, (shard->stall_ms + shard->write_ms) * 1000);
        stall_us = fsm_max(stall_us, shard->stall_ms * 1000);
    }
    if (write_us == 0) /* no agent told */
        write_us = (checkpoint->view.completed_at_ms -
                    fsm_min(checkpoint->view.completed_at_ms, checkpoint->view.snapshot_at_ms)) *
                   1000;
    if (stall_us > 0)
        learn_stall(learned, stall_us, write_us);
    write_us = fsm_min(write_us, 2 * FSM_DURATION_MAX_MS * 1000);
    learned->count += learned->count < UINT32_MAX;
    learn_moving(&learned->write_mean_us, &learned->write_deviation_us, learned->count, write_us);
    learn_moving(&view->size_estimate_bytes, &learned->size_deviation_bytes, learned->count,
                 checkpoint->view.size_bytes);
    fsm_learn_outcome(view, true);
}

/* Bounded as sizes are everywhere: a job may grow a thousandfold. */
static uint64_t learn_scaled(uint64_t bytes, uint32_t count, uint32_t old_count)
{
    return fsm_min((uint64_t)((__uint128_t)bytes * count / old_count), FSM_ALLOCATION_BYTES_MAX);
}

/* S1-080: each node writes its own part at its own speed, so the size changes and the time does
 * not. */
void fsm_learn_nodes_changed(struct fsm_allocation *view, uint32_t old_count)
{
    CHECK(view->id != NULL);
    view->size_estimate_bytes =
        learn_scaled(view->size_estimate_bytes, view->node_count, old_count);
    view->learned.size_deviation_bytes =
        learn_scaled(view->learned.size_deviation_bytes, view->node_count, old_count);
}

/* Fifty imagined outcomes stand before the first real ones, so that one failure does not condemn a
 * new job. */
uint32_t fsm_success_ppm(const struct fsm_learned *learned)
{
    uint64_t done = (uint64_t)learned->done_e6 + PRIOR_DONE_E6;
    uint64_t failed = (uint64_t)learned->failed_e6 + PRIOR_FAILED_E6;

    return (uint32_t)(done * FSM_PPM / (done + failed));
}

/* ---- of the fleet ---- */

/* A report that is too old says nothing: a scheduler that is down would keep a queue busy for
 * ever. */
bool fsm_queue_busy(const struct fsm *fsm, size_t i)
{
    const struct queue *queue = &fsm->queues[i];
    const Ckpt__V1__ReportQueueRequest *report = queue->report;
    bool waits = report->n_waiting > 0 || report->queued_gpu_ms > report->running_gpu_ms / 2;

    CHECK(i < fsm->queue_count);
    return waits && fsm_since(fsm, queue->reported_at_ms) <= fsm->policy.queue_max_age_ms;
}

/* No report: not busy. */
bool fsm_vcluster_busy(const struct fsm *fsm, const char *vcluster)
{
    CHECK(fsm != NULL);
    CHECK(vcluster != NULL);
    for (size_t i = 0; i < fsm->queue_count; i++) {
        if (fsm->queues[i].vcluster == vcluster) /* equal names are one pointer */
            return fsm_queue_busy(fsm, i);
    }
    return false;
}

/* Borrowed nodes are taken back whatever the class, so jobs on them are a group of their own. */
uint32_t fsm_group(const struct fsm_allocation *allocation, bool queue_busy)
{
    uint32_t group =
        allocation->borrowed_count > 0 ? FSM_CLASS_MAX + 1 : allocation->preemption_class;

    CHECK(allocation->preemption_class <= FSM_CLASS_MAX);
    return queue_busy ? FSM_GROUPS_CALM + group : group;
}

/* The last bin has no end. */
uint32_t fsm_age_bin(uint64_t age_ms)
{
    uint32_t bin = 0;

    while (bin + 1 < FSM_AGE_BINS && age_ms >= bin_end_ms[bin])
        bin++;
    return bin;
}

/* By the time that the node had been steady: the leader learns from it how much sooner a node fails
 * that failed lately. */
void fsm_learn_node_failed(struct fsm *fsm, struct node *node)
{
    CHECK(node->view.id != NULL);
    fsm->losses.node_failures[fsm_age_bin(fsm_since(fsm, node->view.steady_since_ms))]++;
    node->view.steady_since_ms = fsm->now_ms;
    node->view.failure_count += node->view.failure_count < UINT32_MAX;
}

void fsm_get_losses(const struct fsm *fsm, struct fsm_losses *ret_losses)
{
    CHECK(fsm != NULL);
    CHECK(ret_losses != NULL);
    *ret_losses = fsm->losses;
}

const Ckpt__Log__V1__SetLearned *fsm_learned(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->learned;
}

/* A bound, so that the next leader can add to them. */
static bool learned_rates_valid(size_t count, Ckpt__Log__V1__LearnedRate *const *rates)
{
    for (size_t i = 0; i < count; i++)
        if (rates[i]->events_e6 > INT64_MAX || rates[i]->exposed_ms > INT64_MAX)
            return false;
    return count == FSM_GROUPS;
}

/* Whether the message has the shape that the leader's arrays have; the numbers mean nothing
 * here. */
bool fsm_learned_valid(const Ckpt__Log__V1__SetLearned *learned)
{
    CHECK(learned != NULL);
    for (size_t i = 0; i < learned->n_hazard; i++)
        if (learned->hazard[i] > INT64_MAX)
            return false;
    for (size_t i = 0; i < learned->n_alarms; i++)
        if (learned->alarms[i] > INT64_MAX)
            return false;
    return learned->n_alarms == FSM_ALARM_WORDS && learned->n_hazard == FSM_HAZARD_WORDS &&
           learned->n_node_failures == FSM_AGE_BINS &&
           learned_rates_valid(learned->n_kills, learned->kills) &&
           learned_rates_valid(learned->n_demands, learned->demands);
}

/* What it says is inside must have happened: the next leader takes the difference. */
bool fsm_learned_counts_agree(const struct fsm *fsm, const Ckpt__Log__V1__SetLearned *learned)
{
    CHECK(learned != NULL);
    for (size_t i = 0; i < FSM_AGE_BINS; i++)
        if (learned->node_failures[i] > fsm->losses.node_failures[i])
            return false;
    for (size_t i = 0; i < FSM_GROUPS; i++)
        if (learned->kills[i]->counted > fsm->losses.kills[i] ||
            learned->demands[i]->counted > fsm->losses.demands[i])
            return false;
    return true;
}

/* A leader that was deposed may still have one on its way: an older term, or an older instant,
 * would take back what its successor learned. Numbers that hold more than was counted would give
 * the next leader a negative difference. */
enum fsm_status fsm_apply_set_learned(struct fsm *fsm, const fsm_command *command,
                                      struct fsm_outcome *outcome)
{
    const Ckpt__Log__V1__SetLearned *learned = command->set_learned;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_SET_LEARNED);
    CHECK(outcome != NULL);
    if (fsm->learned != NULL && learned->term < fsm->learned->term) {
        outcome->current = learned->term;
        outcome->limit = fsm->learned->term;
        return FSM_STALE_LEARNED;
    }
    if (fsm->learned != NULL && learned->at_ms < fsm->learned->at_ms) {
        outcome->current = learned->at_ms;
        outcome->limit = fsm->learned->at_ms;
        return FSM_STALE_LEARNED;
    }
    if (learned->at_ms > fsm->now_ms || !fsm_learned_counts_agree(fsm, learned))
        return FSM_INVALID_ARGUMENT;
    if (fsm->learned != NULL)
        fsm_message_free(&fsm->learned->base);
    fsm->learned = (Ckpt__Log__V1__SetLearned *)fsm_message_copy(fsm, &learned->base);
    return FSM_OK;
}
