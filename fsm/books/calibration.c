/* What was predicted beside what came: bounded counts, the same on every member, so that no
 * failover forgets them.
 *
 * Flow     a decision carries its terms; when its checkpoint is complete they are compared with
 *          what was measured. Hazards are summed over the allocations that compute, and the sum is
 *          integrated at each change of it: the losses that were to be expected. A failure within
 *          half the age that a checkpoint had saved is one that the model's recompute_saved counted
 *          on.
 * Shapes   ratios are counted in eighths of an octave between 1/16 and 16, one bin below and one
 *          above.
 * Units    hazards per second times 10^12, GPU-milliseconds, parts per million.
 * Absent   people's checkpoints: nobody predicted anything about them. An application that dies by
 *          itself: no hazard counts on it.
 */
#include "fsm/core/state.h"
#include "fsm/weight.h"

#define REASON(name) CKPT__V1__REASON__REASON_##name

enum { BINS_PER_OCTAVE = 8, LOWEST_OCTAVE = -4, E15_PER_E6 = 1000000000 };

#define HAZARD_MAX_E12 UINT64_C(1000000000000) /* one a second */

uint64_t fsm_ratio_end_ppm(size_t bin)
{
    static const uint32_t ends[BINS_PER_OCTAVE] = {1000000, 1090508, 1189207, 1296840,
                                                   1414214, 1542211, 1681793, 1834008};
    int octave = (int)(bin / BINS_PER_OCTAVE) + LOWEST_OCTAVE;
    uint64_t end = ends[bin % BINS_PER_OCTAVE];

    CHECK(bin < FSM_RATIO_BINS);
    if (bin == FSM_RATIO_BINS - 1)
        return UINT64_MAX;
    return octave < 0 ? end >> -octave : end << octave;
}

/* Nothing is compared with a prediction of nothing. */
static void count_ratio(struct fsm *fsm, enum fsm_ratio which, uint64_t actual, uint64_t predicted)
{
    __uint128_t ppm = (__uint128_t)actual * FSM_PPM;
    size_t bin = 0;

    if (predicted == 0)
        return;
    ppm /= predicted;
    while (bin < FSM_RATIO_BINS - 1 && ppm > fsm_ratio_end_ppm(bin))
        bin++;
    fsm->calibration.ratios[which][bin]++;
}

/* ---- losses to be expected ---- */

/* The product is of 10^-15 losses; what is less than a millionth is carried on, or small hazards
 * would round to nothing at each of a million steps. */
static void calibration_settle(struct fsm_calibration *calibration, uint64_t hazard_sum_e12,
                               uint64_t passed_ms)
{
    __uint128_t more_e15 = (__uint128_t)hazard_sum_e12 * passed_ms + calibration->expected_rest_e15;
    uint64_t more_e6 =
        more_e15 / E15_PER_E6 > UINT64_MAX ? UINT64_MAX : (uint64_t)(more_e15 / E15_PER_E6);

    calibration->expected_losses_e6 = fsm_add(calibration->expected_losses_e6, more_e6);
    calibration->expected_rest_e15 = (uint64_t)(more_e15 % E15_PER_E6);
}

void fsm_calibrate_settle(struct fsm *fsm)
{
    calibration_settle(&fsm->calibration, fsm->hazard_sum_e12,
                       fsm_since(fsm, fsm->calibration_at_ms));
    fsm->calibration_at_ms = fsm->now_ms;
}

/* A job counts while it computes: one that starts has nothing to lose yet. A hazard beyond one a
 * second is a mistake of the model's, and would drown all others. */
void fsm_calibrate_rate(struct fsm *fsm, struct allocation *allocation)
{
    bool computes = allocation->assigned && allocation->starting_count == 0;

    CHECK(allocation->view.id != NULL);
    CHECK(fsm->hazard_sum_e12 >= allocation->hazard_rate_e12);
    fsm->hazard_sum_e12 -= allocation->hazard_rate_e12;
    allocation->hazard_rate_e12 = computes ? fsm_min(allocation->hazard_e12, HAZARD_MAX_E12) : 0;
    fsm->hazard_sum_e12 += allocation->hazard_rate_e12;
}

/* The sum is integrated before it changes: what passed was at the old hazard. */
void fsm_calibrate_decided(struct fsm *fsm, struct allocation *allocation,
                           const Ckpt__V1__DecisionTerms *terms)
{
    CHECK(allocation->view.id != NULL);
    CHECK(terms != NULL);
    fsm_calibrate_settle(fsm);
    allocation->hazard_e12 = terms->hazard_per_s_e12;
    fsm_calibrate_rate(fsm, allocation);
}

/* ---- what came ---- */

/* The chance is the one that was known when the checkpoint was made: a later one knows how it
 * ended. */
void fsm_calibrate_ended(struct fsm *fsm, const struct checkpoint *checkpoint, bool completed)
{
    struct fsm_calibration *calibration = &fsm->calibration;
    uint64_t ppm = fsm_min(checkpoint->view.success_ppm, FSM_PPM);
    size_t bin = fsm_min(ppm * FSM_SUCCESS_BINS / FSM_PPM, FSM_SUCCESS_BINS - 1);

    CHECK(checkpoint->view.id != 0);
    if (checkpoint->view.terms == NULL)
        return;
    calibration->ended[bin]++;
    calibration->completed[bin] += completed;
    calibration->ended_ppm[bin] += ppm;
}

/* Time is the slowest shard's, since parts wait for each other; a checkpoint that no agent timed
 * counts for its size alone. The stake is what this checkpoint saves if the job fails within half
 * the age that it had: the model's horizon. */
void fsm_calibrate_complete(struct fsm *fsm, struct allocation *allocation,
                            const struct checkpoint *checkpoint)
{
    const Ckpt__V1__DecisionTerms *terms = checkpoint->view.terms;
    struct fsm_calibration *calibration = &fsm->calibration;
    uint32_t gpus = fsm_allocation_weight(fsm, &allocation->view).gpus;
    uint64_t pause_gpu_ms = fsm_multiply(checkpoint->view.stall_ms, gpus);
    uint64_t size_bytes = 0;
    uint64_t write_ms = 0;

    CHECK(allocation->view.id != NULL);
    CHECK(checkpoint->view.id != 0);
    allocation->stake_gpu_ms = 0; /* of the checkpoint before */
    allocation->stake_until_ms = 0;
    if (terms == NULL)
        return;
    for (uint32_t i = 0; i < checkpoint->view.shard_count; i++) {
        const struct fsm_shard *shard = &checkpoint->shards[i];

        size_bytes = fsm_add(size_bytes, shard->size_bytes);
        write_ms = fsm_max(write_ms, fsm_add(shard->stall_ms, shard->write_ms));
    }
    calibration->checkpoints++;
    fsm_calibrate_ended(fsm, checkpoint, true);
    count_ratio(fsm, FSM_RATIO_SIZE, size_bytes, terms->size_bytes);
    if (write_ms > 0) /* measured */
        count_ratio(fsm, FSM_RATIO_WRITE, write_ms, terms->write_ms);
    if (pause_gpu_ms > 0 && terms->compute_waste_gpu_ms > 0) {
        count_ratio(fsm, FSM_RATIO_PAUSE, pause_gpu_ms, (uint64_t)terms->compute_waste_gpu_ms);
        calibration->pause_predicted_gpu_ms =
            fsm_add(calibration->pause_predicted_gpu_ms, (uint64_t)terms->compute_waste_gpu_ms);
        calibration->pause_gpu_ms = fsm_add(calibration->pause_gpu_ms, pause_gpu_ms);
    }
    if (terms->recompute_saved_gpu_ms > 0)
        calibration->saved_predicted_gpu_ms =
            fsm_add(calibration->saved_predicted_gpu_ms, (uint64_t)terms->recompute_saved_gpu_ms);
    allocation->stake_gpu_ms = fsm_multiply(terms->age_ms, gpus);
    allocation->stake_until_ms = fsm_add(checkpoint->view.snapshot_at_ms, terms->age_ms / 2);
}

/* Losses count only for jobs whose hazard was ever decided; the expectation that they are held
 * against is of these alone. */
void fsm_calibrate_lost(struct fsm *fsm, struct allocation *allocation, enum fsm_loss cause,
                        Ckpt__V1__Reason reason)
{
    struct fsm_calibration *calibration = &fsm->calibration;

    CHECK((unsigned)cause < FSM_LOSS_COUNT);
    CHECK(allocation->view.id != NULL);
    if (allocation->hazard_e12 > 0) {
        calibration->node_losses += reason == REASON(NODE_DOWN);
        /* what the hazard of kills is learned from: a victim that timed out as well */
        calibration->kill_losses += cause == FSM_LOSS_PREEMPTION && reason != REASON(PREEMPTED);
    }
    if (cause != FSM_LOSS_FAILURE || allocation->stake_gpu_ms == 0 ||
        fsm->now_ms > allocation->stake_until_ms)
        return;
    if (reason == REASON(NODE_DOWN)) {
        calibration->saved_gpu_ms = fsm_add(calibration->saved_gpu_ms, allocation->stake_gpu_ms);
        calibration->saved_count++;
    } else {
        calibration->saved_other_gpu_ms =
            fsm_add(calibration->saved_other_gpu_ms, allocation->stake_gpu_ms);
    }
}

/* ---- reading ---- */

/* A copy, grown to the reader's instant; the state's own grows when it changes. */
void fsm_get_calibration(const struct fsm *fsm, uint64_t at_ms,
                         struct fsm_calibration *ret_calibration)
{
    CHECK(fsm != NULL);
    CHECK(ret_calibration != NULL);
    at_ms = fsm_max(at_ms, fsm->now_ms);
    *ret_calibration = fsm->calibration;
    calibration_settle(ret_calibration, fsm->hazard_sum_e12,
                       at_ms - fsm_min(at_ms, fsm->calibration_at_ms));
}

#define CALIBRATION_ARRAYS(X)                                                                      \
    X(size_ratio, ratios[FSM_RATIO_SIZE])                                                          \
    X(write_ratio, ratios[FSM_RATIO_WRITE])                                                        \
    X(pause_ratio, ratios[FSM_RATIO_PAUSE])                                                        \
    X(ended, ended) X(completed, completed) X(ended_ppm, ended_ppm)
#define CALIBRATION_NUMBERS(X)                                                                     \
    X(expected_losses_e6)                                                                          \
    X(expected_rest_e15)                                                                           \
    X(node_losses)                                                                                 \
    X(kill_losses)                                                                                 \
    X(saved_predicted_gpu_ms)                                                                      \
    X(saved_gpu_ms)                                                                                \
    X(saved_other_gpu_ms)                                                                          \
    X(saved_count) X(checkpoints) X(pause_predicted_gpu_ms) X(pause_gpu_ms)

void fsm_calibration_to_message(struct fsm_calibration *calibration,
                                Ckpt__V1__Calibration *ret_message)
{
    CHECK(ret_message != NULL);
    CHECK(calibration != NULL);
    ckpt__v1__calibration__init(ret_message);
#define X(field, from)                                                                             \
    ret_message->field = calibration->from;                                                        \
    ret_message->n_##field = ARRAY_COUNT(calibration->from);
    CALIBRATION_ARRAYS(X)
#undef X
#define X(field) ret_message->field = calibration->field;
    CALIBRATION_NUMBERS(X)
#undef X
}

/* From a snapshot: arrays of another length, or a rest that is a whole, are refused. */
bool fsm_calibration_from_message(const Ckpt__V1__Calibration *message,
                                  struct fsm_calibration *ret_calibration)
{
    CHECK(message != NULL);
#define X(field, to)                                                                               \
    if (message->n_##field != ARRAY_COUNT(ret_calibration->to))                                    \
        return false;                                                                              \
    memcpy(ret_calibration->to, message->field, sizeof(ret_calibration->to));
    CALIBRATION_ARRAYS(X)
#undef X
#define X(field) ret_calibration->field = message->field;
    CALIBRATION_NUMBERS(X)
#undef X
    return ret_calibration->expected_rest_e15 < E15_PER_E6;
}
