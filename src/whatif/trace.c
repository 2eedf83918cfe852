/* Worlds from failure traces: text files whose first two columns are node and start_day. See
 * world.h.
 *
 * Flow     all lines are read and checked before anything is made; then jobs are drawn for the
 *          trace's nodes, and each failure finds its job.
 * Shapes   further columns (the cause, the end) are skipped: published traces differ in them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/whatif/world.h"

enum { TRACE_LINE_BYTES = 4096, TRACE_NODES_MAX = 1000000, TRACE_FAILURES_MAX = 10000000 };
#define DAY_S 86400.0

struct trace {
    size_t count, capacity;
    struct world_event *failures;
    uint32_t nodes; /* highest number and one */
    double last_s;
};

static void trace_keep(struct trace *trace, double at_s, uint32_t node)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity == 0 ? 1024 : trace->capacity * 2;
        trace->failures = check_realloc(trace->failures, trace->capacity, sizeof(*trace->failures));
    }
    trace->failures[trace->count++] =
        (struct world_event){.at_s = at_s, .kind = EVENT_FAILURE, .node = node};
    trace->nodes = node + 1 > trace->nodes ? node + 1 : trace->nodes;
    trace->last_s = fmax(trace->last_s, at_s);
}

static bool parse_line(const char *line, unsigned long *ret_node, double *ret_day)
{
    char *end;

    errno = 0;
    *ret_node = strtoul(line, &end, 10);
    if (end == line || *end != ',' || line[0] == '-' || errno != 0 || *ret_node >= TRACE_NODES_MAX)
        return false;
    line = end + 1;
    *ret_day = strtod(line, &end);
    return end != line && (*end == ',' || *end == '\n' || *end == '\r' || *end == '\0') &&
           *ret_day >= 0 && *ret_day < 1e6;
}

static int read_lines(FILE *file, const char *path, struct trace *trace, struct err *err)
{
    char line[TRACE_LINE_BYTES];
    size_t number = 1;

    if (fgets(line, sizeof(line), file) == NULL || strncmp(line, "node,start_day", 14) != 0)
        return err_set(err, ERR_INVALID,
                       "%s: the first line is not \"node,start_day,...\": not a failure trace",
                       path);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long node;
        double day;
        number++;
        if (strchr(line, '\n') == NULL && !feof(file))
            return err_set(err, ERR_INVALID, "%s:%zu: line longer than %d bytes", path, number,
                           TRACE_LINE_BYTES - 2);
        if (line[0] == '\n' || line[0] == '\r')
            continue;
        if (!parse_line(line, &node, &day))
            return err_set(err, ERR_INVALID,
                           "%s:%zu: \"%.40s\" does not begin with a node below %d and a day", path,
                           number, line, TRACE_NODES_MAX);
        if (trace->count == TRACE_FAILURES_MAX)
            return err_set(err, ERR_INVALID, "%s: more than %d failures", path, TRACE_FAILURES_MAX);
        trace_keep(trace, day * DAY_S, (uint32_t)node);
    }
    if (trace->count == 0)
        return err_set(err, ERR_INVALID, "%s: holds no failure", path);
    return 0;
}

static int read_file(const char *path, struct trace *trace, struct err *err)
{
    FILE *file = fopen(path, "r");
    int rc;

    if (file == NULL)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    rc = read_lines(file, path, trace, err);
    fclose(file);
    return rc;
}

int world_read_trace(struct world *world, const struct whatif_scenario *scenario, uint64_t seed,
                     const char *path, struct err *err)
{
    struct trace trace = {0};
    uint32_t nodes = (uint32_t)scenario->trace_nodes;
    double seen = 0;

    if (read_file(path, &trace, err) != 0) {
        free(trace.failures);
        return -1;
    }
    nodes = nodes > trace.nodes ? nodes : trace.nodes;
    world_init(world, scenario, seed);
    world->end_s = fmin(world->end_s, trace.last_s); /* nothing is known of the time after it */
    world_draw_jobs(world, nodes);
    for (size_t i = 0; i < trace.count; i++) {
        struct world_event *failure = &trace.failures[i];
        if (failure->at_s >= world->end_s)
            continue;
        failure->job = world->job_of_node[failure->node];
        world_add(world, failure);
        seen++;
    }
    free(trace.failures);
    /* what rules that are told the true mean are told */
    world->node_failures_per_s = seen / (nodes * fmax(world->end_s, 1));
    world_add_surroundings(world);
    return 0;
}
