/* I38: telemetry and queue reports that are no sensible numbers: not a number, negative, huge,
 * missing, or of long ago.
 *
 * Flow     schedulers and model agents take odd_number() for what they say now and then
 *          (world_load.c, agent_model.c). Beside that each member that is up reads a document of an
 *          exporter every ODD_EVERY_US through the shipping parser, and hands what came out on to
 *          the nodes' health as telemetry.c does. What must come of it: world_decisions.c (no
 *          decision from such a number), world_bounds.c (cycles go on; also after healing, when
 *          these documents go on).
 * Shapes   one line per metric and node; with `alarms` what is well formed is drawn as well, so
 *          that there is something beside it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "src/base/check.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"
#include "src/telemetry/prometheus.h"
#include "tests/sim/world_internal.h"

enum {
    ODD_EVERY_US = 2 * SECOND_US,
    ODD_SOURCE = 1, /* 0: the agent */
    ODD_FRESH_MS = 10000,
    ODD_STALE_MS = 60000,
    ODD_LINES_MAX = 6,
    ODD_TEXT_BYTES = 2048
};

uint64_t odd_number(struct sim *sim)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       UINT32_MAX,
                                       INT64_MAX,
                                       UINT64_C(1) << 63,
                                       UINT64_MAX,
                                       UINT64_C(1) << 53,
                                       UINT64_MAX - 999,
                                       INT32_MAX,
                                       UINT64_C(1000000000000000000)};

    return numbers[sim_random(sim, ARRAY_COUNT(numbers))];
}

bool odd_draw(struct world *world)
{
    return world->options.odd_values > 0 && world->phase < WORLD_HEALED &&
           sim_chance(world->sim, world->options.odd_values);
}

/* ---- documents ---- */

static int add_line(struct world *world, char *text, size_t size, uint64_t wall_ms)
{
    static const char *const metrics[] = {"DCGM_FI_DEV_XID_ERRORS",
                                          "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
                                          "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
                                          "DCGM_FI_DEV_ROW_REMAP_FAILURE",
                                          "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
                                          "DCGM_FI_DEV_GPU_TEMP",
                                          "node_edac_correctable_errors_total"};
    static const char *const values[] = {"NaN",  "nan",   "+Inf", "-Inf",  "-1",
                                         "-0.0", "1e300", "1e14", "9e999", "1e-320"};
    static const int64_t ages_ms[] = {INT64_C(3600000), INT64_C(86400000) * 365, -INT64_C(3600000)};
    struct sim *sim = world->sim;
    const char *metric = metrics[sim_random(sim, ARRAY_COUNT(metrics))];
    unsigned agent = (unsigned)sim_random(sim, world->options.agents);
    int used;

    if (world->options.alarms > 0 && world->phase < WORLD_HEALED && sim_chance(sim, 4))
        used = snprintf(text, size, "%s{Hostname=\"%s\",gpu=\"0\"} %" PRIu64, metric,
                        world_agent_name(agent), sim_random(sim, 200));
    else
        used = snprintf(text, size, "%s{Hostname=\"%s\",gpu=\"0\"} %s", metric,
                        world_agent_name(agent), values[sim_random(sim, ARRAY_COUNT(values))]);
    if (sim_chance(sim, 3))
        used += snprintf(text + used, size - (size_t)used, " %" PRId64,
                         (int64_t)wall_ms - ages_ms[sim_random(sim, ARRAY_COUNT(ages_ms))]);
    used += snprintf(text + used, size - (size_t)used, "\n");
    CHECK((size_t)used < size);
    return used;
}

static void hand_on(struct world_member *member, const struct samples *samples)
{
    struct node_health *health = nodes_health(member->broker.nodes);
    uint64_t now_us = member->broker.clock.monotonic_us(member->broker.clock.context);

    node_health_set_source(health, ODD_SOURCE, ODD_FRESH_MS);
    for (size_t i = 0; i < samples->count; i++) {
        const struct telemetry_sample *sample = &samples->items[i];
        const struct fsm_node *node =
            fsm_node_find(member_fsm(member), samples_subject(samples, sample->subject));

        if (node == NULL)
            continue;
        node_health_sample(health, node->slot, ODD_SOURCE, sample);
        node_health_heard(health, node->slot, ODD_SOURCE, now_us);
        if (!(node_health_factor(health, node->slot) >= 1) ||
            !isfinite(node_health_factor(health, node->slot)))
            world_violation(member->world, "I38",
                            "member %u takes %s for %g times as likely to fail", member->number + 1,
                            node->id, node_health_factor(health, node->slot));
    }
}

static void member_reads(struct world_member *member)
{
    struct world *world = member->world;
    char text[ODD_TEXT_BYTES];
    size_t length = 0;
    uint64_t lines = 1 + sim_random(world->sim, ODD_LINES_MAX);
    unsigned before = sim_enter(world->sim, member->number);
    uint64_t wall_ms = broker_wall_ms(&member->broker);
    struct samples samples;
    struct err err;

    for (uint64_t i = 0; i < lines; i++)
        length += (size_t)add_line(world, text + length, sizeof(text) - length, wall_ms);
    samples_init(&samples);
    if (prometheus_parse(text, length, wall_ms - ODD_STALE_MS, &samples, &err) == 0)
        hand_on(member, &samples);
    world->counts.odd_samples += lines;
    samples_close(&samples);
    sim_leave(world->sim, before);
}

static void read_fire(void *data)
{
    struct world *world = data;

    if (world->phase == WORLD_OVER)
        return;
    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].up && !sim_paused(world->sim, i))
            member_reads(&world->members[i]);
    sim_after(world->sim, SIM_NODES_MAX, ODD_EVERY_US, read_fire, world);
}

void odd_start(struct world *world)
{
    if (world->options.odd_values > 0)
        sim_after(world->sim, SIM_NODES_MAX, ODD_EVERY_US, read_fire, world);
}
