/* The registry of ckptd, and the observer that counts events of the state. See metrics.h. */
#include "src/broker/daemon/metrics.h"

#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics_state.h"

static const struct metric_row rows[METRIC_COUNT] = {METRICS(METRIC_ROW)};

/* Follows the events of the state while this member leads. */
struct counting {
    struct broker *broker;
    struct metrics *metrics;
    struct replica_observer observer;
    uint64_t event_cursor;
    bool serving;
};

static void on_serving(void *context)
{
    struct counting *counting = context;
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(counting->broker->replica), &summary);
    counting->event_cursor = summary.next_event_sequence > 0 ? summary.next_event_sequence - 1 : 0;
    counting->serving = true;
}

static void on_not_serving(void *context)
{
    struct counting *counting = context;

    counting->serving = false;
}

static void on_applied(void *context)
{
    struct counting *counting = context;

    if (counting->serving)
        metrics_state_events(counting->metrics, counting->broker, &counting->event_cursor);
}

static void read_state(void *data, struct metrics *metrics)
{
    const struct counting *counting = data;

    metrics_state_read(metrics, counting->broker);
}

struct metrics *broker_metrics_new(struct broker *broker)
{
    struct counting *counting = check_calloc(1, sizeof(*counting));
    const struct metrics_owner owner = {.data = counting, .read = read_state, .free = free};

    CHECK(broker != NULL);
    counting->broker = broker;
    counting->observer = (struct replica_observer){.context = counting,
                                                   .serving = on_serving,
                                                   .not_serving = on_not_serving,
                                                   .applied = on_applied};
    counting->metrics = metrics_new(rows, METRIC_COUNT, &owner);
    if (broker->replica != NULL)
        replica_observe(broker->replica, &counting->observer);
    return counting->metrics;
}
