/* Worlds from what a real cluster went through. See world.h.
 *
 * Errors   a history may come from a file: every number of it is checked before it is used, and the
 *          first that makes no sense is named.
 */
#include <math.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/whatif/world.h"

static int check_job(const struct whatif_history_job *job, size_t i, struct err *err)
{
    bool sizes = job->size_bytes >= 0 && job->bytes_per_s > 0 && job->size_bytes < 1e30;
    bool times = job->from_s >= 0 && job->to_s >= job->from_s;

    if (sizes && times && job->queue < WHATIF_QUEUES_MAX && job->nodes > 0 && job->gpus >= 0 &&
        job->gpus < 1e9)
        return 0;
    return err_set(
        err, ERR_INVALID,
        "job %zu of the history makes no sense: %u nodes, %g GPUs, %g bytes at %g bytes/s, "
        "from %g s to %g s",
        i, job->nodes, job->gpus, job->size_bytes, job->bytes_per_s, job->from_s, job->to_s);
}

static int add_event(struct world *world, const struct whatif_history_event *from, struct err *err)
{
    struct world_event event = {.at_s = from->at_s, .job = from->job};

    bool of_queue = from->what == WHATIF_QUEUE_BUSY || from->what == WHATIF_QUEUE_CALM;

    if (of_queue && from->job >= WHATIF_QUEUES_MAX)
        return err_set(err, ERR_INVALID, "an event of the history at %g s is about queue %u of %d",
                       from->at_s, from->job, WHATIF_QUEUES_MAX);
    if (!(from->at_s >= 0) || (from->job >= world->job_count && from->what <= WHATIF_YIELD))
        return err_set(err, ERR_INVALID, "an event of the history at %g s is about job %u of %zu",
                       from->at_s, from->job, world->job_count);
    switch (from->what) {
    case WHATIF_FAILURE:
        event.kind = EVENT_FAILURE;
        /* which of its nodes it was is not in a history: the first one stands for all */
        event.node = world->jobs[from->job].first_node;
        break;
    case WHATIF_KILL:
    case WHATIF_YIELD:
        event.kind = EVENT_DEMAND;
        event.on = from->what == WHATIF_KILL;
        break;
    case WHATIF_STORAGE_DOWN:
    case WHATIF_STORAGE_UP:
        event.kind = EVENT_OUTAGE;
        event.on = from->what == WHATIF_STORAGE_DOWN;
        break;
    case WHATIF_QUEUE_BUSY:
    case WHATIF_QUEUE_CALM:
        event.kind = EVENT_REGIME;
        event.on = from->what == WHATIF_QUEUE_BUSY;
        break;
    case WHATIF_HAPPENING_COUNT:
        CHECK_UNREACHABLE("happening");
    }
    world_add(world, &event);
    return 0;
}

int world_from_history(struct world *world, const struct whatif_scenario *scenario, uint64_t seed,
                       const struct whatif_history *history, struct err *err)
{
    double exposed_s = 0, failures = 0;

    world_init(world, scenario, seed);
    world->end_s = history->seconds;
    world->jobs = check_calloc(history->job_count + 1, sizeof(*world->jobs));
    for (size_t i = 0; i < history->job_count; i++) {
        const struct whatif_history_job *from = &history->jobs[i];
        if (check_job(from, i, err) != 0)
            goto fail;
        world->jobs[i] = (struct world_job){.from_s = from->from_s,
                                            .to_s = from->to_s,
                                            .nodes = from->nodes,
                                            .first_node = world->node_count,
                                            .queue = from->queue,
                                            .gpus = from->gpus,
                                            .size_bytes = from->size_bytes,
                                            .injection_bytes_per_s = from->bytes_per_s};
        world->node_count += from->nodes;
        world->job_count++;
        exposed_s += from->nodes * (fmin(from->to_s, history->seconds) - from->from_s);
    }
    world_index_nodes(world);
    for (size_t i = 0; i < history->event_count; i++) {
        if (add_event(world, &history->events[i], err) != 0)
            goto fail;
        failures += history->events[i].what == WHATIF_FAILURE ? 1 : 0;
    }
    world->node_failures_per_s = exposed_s > 0 ? failures / exposed_s : 0;
    world_sort(world);
    return 0;

fail:
    world_free(world);
    return -1;
}

/* Job-seconds of the queue between two instants. */
static double job_seconds(const struct whatif_history *history, uint32_t queue, double from_s,
                          double to_s)
{
    double sum = 0;

    for (size_t i = 0; i < history->job_count; i++) {
        const struct whatif_history_job *job = &history->jobs[i];

        if (job->queue == queue)
            sum += fmax(0, fmin(job->to_s, to_s) - fmax(job->from_s, from_s));
    }
    return sum;
}

void whatif_history_rates(const struct whatif_history *history, struct whatif_scenario *scenario)
{
    double busy_since[WHATIF_QUEUES_MAX], busy_s = 0, demands = 0, kills = 0;

    for (size_t i = 0; i < WHATIF_QUEUES_MAX; i++)
        busy_since[i] = -1;
    for (size_t i = 0; i < history->event_count; i++) {
        const struct whatif_history_event *event = &history->events[i];

        demands += event->what == WHATIF_KILL || event->what == WHATIF_YIELD;
        kills += event->what == WHATIF_KILL;
        if (event->what == WHATIF_QUEUE_BUSY && busy_since[event->job] < 0)
            busy_since[event->job] = event->at_s;
        if (event->what != WHATIF_QUEUE_CALM || busy_since[event->job] < 0)
            continue;
        busy_s += job_seconds(history, event->job, busy_since[event->job], event->at_s);
        busy_since[event->job] = -1;
    }
    for (uint32_t queue = 0; queue < WHATIF_QUEUES_MAX; queue++)
        if (busy_since[queue] >= 0)
            busy_s += job_seconds(history, queue, busy_since[queue], history->seconds);
    if (busy_s <= 0 || demands <= 0)
        return;
    scenario->demand_per_hour = fmin(demands / busy_s * 3600, 1000);
    scenario->kill_share = kills / demands;
}
