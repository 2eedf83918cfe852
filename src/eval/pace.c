/* See pace.h. */
#include "src/eval/pace.h"

#include <math.h>
#include <stdlib.h>

#include "src/eval/block.h"

static bool candidate_is_sensible(const struct eval_candidate *candidate)
{
    return candidate->size_bytes >= 0 && candidate->size_bytes < EVAL_NUMBER_MAX &&
           candidate->injection_bytes_per_s > 0 &&
           candidate->injection_bytes_per_s < EVAL_NUMBER_MAX;
}

/* Sensible ones first, deadlines before the others, then falling index; the job number makes it a
 * total order. */
static int by_urgency(const void *left, const void *right)
{
    const struct eval_candidate *a = left, *b = right;
    int sense = (int)candidate_is_sensible(b) - (int)candidate_is_sensible(a);
    int deadline = (int)b->deadline - (int)a->deadline;

    if (sense != 0)
        return sense;
    if (deadline != 0)
        return deadline;
    if (a->index != b->index)
        return a->index > b->index ? -1 : 1;
    return (a->job > b->job) - (a->job < b->job);
}

double eval_pace_index(double value_gpu_s, double compute_waste_gpu_s, double storage_gpu_s,
                       double size_bytes)
{
    double index = (value_gpu_s - compute_waste_gpu_s - storage_gpu_s) / fmax(size_bytes, 1);

    return isnan(index) ? 0 : index;
}

static bool has_room(const struct eval_window *window)
{
    return window->running_bytes_per_s <= EVAL_PACE_FULL * window->budget_bytes_per_s;
}

/* A wave is as many writers as the limit lets write together. */
static void number_waves(const struct eval_window *window, struct eval_candidate *candidates,
                         size_t admitted, size_t count)
{
    double injected = 0, room = EVAL_PACE_FULL * window->budget_bytes_per_s;
    uint32_t wave = 1;

    for (size_t i = 0; i < count; i++) {
        bool sense = candidate_is_sensible(&candidates[i]);
        candidates[i].admitted = i < admitted;
        candidates[i].wave = 0;
        if (i < admitted)
            continue;
        if (injected > room) { /* as has_room() would find it */
            wave++;
            injected = 0;
        }
        candidates[i].wave = room > 0 && sense ? wave : UINT32_MAX;
        injected += sense ? candidates[i].injection_bytes_per_s : 0;
    }
}

size_t eval_pace(struct eval_window *window, struct eval_candidate *candidates, size_t count,
                 double *ret_phi)
{
    size_t admitted = 0;
    bool up = window->budget_bytes_per_s > 0;

    *ret_phi = 0;
    for (size_t i = 0; i < count; i++)
        candidates[i].index = isnan(candidates[i].index) ? 0 : candidates[i].index;
    qsort(candidates, count, sizeof(*candidates), by_urgency);
    while (up && admitted < count && candidate_is_sensible(&candidates[admitted]) &&
           (candidates[admitted].deadline || has_room(window))) {
        window->running_bytes_per_s += candidates[admitted].injection_bytes_per_s;
        admitted++;
    }
    if (admitted > 0 && admitted < count && candidate_is_sensible(&candidates[admitted]))
        *ret_phi = candidates[admitted - 1].deadline ? 0 : fmax(candidates[admitted - 1].index, 0);
    number_waves(window, candidates, admitted, count);
    return admitted;
}
