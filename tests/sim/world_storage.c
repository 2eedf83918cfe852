/* Destinations: what workers find there, by the state that chaos puts them into. See
 * sim_worker.h. */
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum { PROBE_US = 2000, SLOW_TIMES = 200, STRANGERS_ONE_OF = 16 };

struct world_target *world_target_of_path(struct world *world, const char *path)
{
    for (unsigned i = 0; i < world->options.targets; i++)
        if (strncmp(world->targets[i].prefix, path, strlen(world->targets[i].prefix)) == 0)
            return &world->targets[i];
    return NULL;
}

/* About files of the node alone. */
static bool is_local(const struct sim_work *work)
{
    return strcmp(work->arguments[0], "retain") == 0 || strcmp(work->arguments[0], "space") == 0 ||
           strcmp(work->arguments[0], "reserve") == 0;
}

/* A node's own copy may make up for the destination. */
static bool may_do_without(const struct sim_work *work)
{
    return sim_work_argument(work, "--copy") != NULL;
}

static struct world_target *target_of(struct world *world, const struct sim_work *work)
{
    const char *prefix = sim_work_argument(work, "--prefix");
    struct world_target *target = prefix == NULL ? NULL : world_target_of_path(world, prefix);

    CHECK(target != NULL || is_local(work));
    return target;
}

static int64_t work_begin(void *context, const struct sim_work *work)
{
    struct world *world = context;
    const struct world_target *target = target_of(world, work);
    uint64_t us = PROBE_US + sim_random(world->sim, 20 * PROBE_US);

    if (target == NULL)
        return (int64_t)us;
    if (target->state != WORLD_STORAGE_DOWN && world_shipping_store() != NULL)
        agent_store_begin(world_shipping_store(), work);
    if (target->state == WORLD_STORAGE_HANGING && !may_do_without(work))
        return SIM_WORK_HANGS;
    return (int64_t)(target->state == WORLD_STORAGE_SLOW ? us * SLOW_TIMES : us);
}

/* Somebody else has made the folder of a job's checkpoints: people see to it, and who comes next
 * may write there. */
static bool is_a_strangers(struct world *world, const struct sim_work *work)
{
    return strcmp(work->arguments[0], "prepare") == 0 && world->healed_us == 0 &&
           sim_chance(world->sim, STRANGERS_ONE_OF);
}

static void work_end(void *context, const struct sim_work *work, struct sim_work_end *ret_end)
{
    struct world *world = context;
    const struct world_target *target = target_of(world, work);

    bool away = target != NULL &&
                (target->state == WORLD_STORAGE_DOWN || target->state == WORLD_STORAGE_HANGING);

    if (away && !may_do_without(work)) {
        ret_end->exit_code = WORKER_EXIT_UNAVAILABLE;
        snprintf(ret_end->error, sizeof(ret_end->error), "%s: Input/output error", target->prefix);
        return;
    }
    if (is_a_strangers(world, work)) {
        ret_end->exit_code = WORKER_EXIT_REFUSED;
        snprintf(ret_end->error, sizeof(ret_end->error), "%s belongs to another user",
                 sim_work_argument(work, "--path"));
        return;
    }
    if (strcmp(work->arguments[0], "collect") == 0 &&
        world_keeps(world, sim_work_argument(work, "--path"), work->node >= WORLD_AGENT_NODE)) {
        ret_end->exit_code = WORKER_EXIT_UNAVAILABLE;
        snprintf(ret_end->error, sizeof(ret_end->error), "removing %s: Permission denied",
                 sim_work_argument(work, "--path"));
        return;
    }
    if (strcmp(work->arguments[0], "verify") == 0 && work->node < WORLD_AGENT_NODE &&
        retention_hides(sim_work_argument(work, "--path"))) {
        ret_end->exit_code = WORKER_EXIT_UNAVAILABLE;
        snprintf(ret_end->error, sizeof(ret_end->error), "%s: Permission denied",
                 sim_work_argument(work, "--path"));
        return;
    }
    if (strcmp(work->arguments[0], "scan") == 0) {
        const char *after = sim_work_argument(work, "--after");

        ret_end->exit_code = WORKER_EXIT_OK;
        orphans_page(target->prefix, after == NULL ? "" : after, work->node < WORLD_AGENT_NODE,
                     ret_end->output, sizeof(ret_end->output));
        return;
    }
    if (strcmp(work->arguments[0], "collect") == 0) {
        world_collected(world, sim_work_argument(work, "--path"));
        orphans_collected(world, sim_work_argument(work, "--path"));
    }
    if (strcmp(work->arguments[0], "probe") != 0 && world_shipping_store() != NULL)
        agent_store_end(world_shipping_store(), work, away, ret_end);
}

void storage_set(struct world *world, unsigned number, enum world_storage_state state)
{
    struct world_target *target = &world->targets[number];

    if (target->state != state)
        target->since_us = sim_now_us(world->sim);
    target->state = state;
    if (state == WORLD_STORAGE_UP)
        sim_worker_release(world->sim);
}

void storage_init(struct world *world)
{
    for (unsigned i = 0; i < world->options.targets; i++) {
        snprintf(world->targets[i].id, sizeof(world->targets[i].id), "target-%u", i);
        snprintf(world->targets[i].prefix, sizeof(world->targets[i].prefix), "/storage-%u", i);
    }
    world->work = (struct sim_work_ops){world, work_begin, work_end};
    sim_worker_set_ops(world->sim, &world->work);
}
