/* The values of the agent's metrics. See metrics.h. */
#include "src/agent/daemon/metrics.h"

#include "src/agent/daemon/session.h"
#include "src/agent/job/allocation.h"
#include "src/agent/node/proc.h"
#include "src/base/check.h"

static const struct metric_row rows[METRIC_COUNT] = {AGENT_METRICS(METRIC_ROW)};

static size_t running_count(const struct agent *agent)
{
    size_t count = 0;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        if (LIST_ITEM(at, struct allocation, node)->process.state != PROCESS_ABSENT)
            count++;
    }
    return count;
}

static void read_agent(void *data, struct metrics *metrics)
{
    const struct agent *agent = data;
    const struct agent_counters *counters = &agent->counters;
    const struct {
        enum agent_metric metric;
        uint64_t value;
    } values[] = {
        {METRIC_CONNECTED, agent->session != NULL && session_open(agent->session)},
        {METRIC_APPLICATIONS, running_count(agent)},
        {METRIC_REPORTS_PENDING, ledger_pending_count(agent->ledger)},
        {METRIC_SESSIONS, counters->sessions_opened},
        {METRIC_ORDER_SETS, counters->order_sets},
        {METRIC_FENCED, counters->orders_fenced},
        {METRIC_SIGNALS, counters->signals_sent},
        {METRIC_DEFERRALS, counters->deferrals},
        {METRIC_STARTED, counters->checkpoints_started},
        {METRIC_VERIFIED, counters->checkpoints_verified},
        {METRIC_FAILED, counters->checkpoints_failed},
        {METRIC_ABANDONED, counters->checkpoints_abandoned},
        {METRIC_WALLTIME_KILLS, counters->walltime_kills},
        {METRIC_COPIES_KEPT, counters->copies_kept},
        {METRIC_COPIES_DROPPED, counters->copies_dropped},
        {METRIC_COPY_RESTORES, counters->copy_restores},
        {METRIC_PROC_FILES, proc_files_opened()},
        {METRIC_L_WALLTIME, counters->walltime_conflicts},
    };

    for (size_t i = 0; i < ARRAY_COUNT(values); i++)
        metrics_set(metrics, values[i].metric, NULL, NULL, (double)values[i].value);
    if (agent->tls == NULL)
        return;
    metrics_set(metrics, METRIC_TLS_EXPIRY, "own", NULL, (double)tls_context_expiry(agent->tls));
    metrics_set(metrics, METRIC_TLS_EXPIRY, "ca", NULL, (double)tls_context_ca_expiry(agent->tls));
}

struct metrics *agent_metrics_new(struct agent *agent)
{
    const struct metrics_owner owner = {.data = agent, .read = read_agent};

    return metrics_new(rows, METRIC_COUNT, &owner);
}
