/* Members that try the addresses of nodes: the second witness of a silent one (S3-060, V-003).
 *
 * Flow     a try ends after up to 0.2 s as the machine is: without power it is silent. Of 5,000
 *          tries `witness` begin a cut that lasts for seconds: the member reaches no node at all,
 *          or it does not reach this one. The latter befalls one member per node at a time, since
 *          two would be a witness by the rule. One try in 40 gets lost.
 * Checks   V-003: a node that members find off has been without power lately. I61 looks
 *          whether something of a job is begun beside a part that lives on such a node.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/health/node_probe.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum {
    TRY_US = 200000,
    CUT_US = 6 * SECOND_US,         /* at most */
    OFF_LATELY_US = 60 * SECOND_US, /* the silence, and the words about it */
    ADDRESS_OFFSET = 10             /* 10.9.0.10 is node-0 */
};

struct probe_try {
    struct world_member *member;
    struct clock_timer *timer;
    unsigned agent;
    void (*done)(void *data, enum probe_result result);
    void *data;
};

static bool is_cut(struct world_member *member, unsigned agent)
{
    struct world *world = member->world;
    struct world_witness *witness = &world->witness;
    uint64_t now_us = sim_now_us(world->sim);

    if (world->phase == WORLD_CHAOS && sim_random(world->sim, 5000) < world->options.witness) {
        uint64_t until_us = now_us + sim_random(world->sim, CUT_US);

        if (sim_chance(world->sim, 2)) {
            witness->blind_until_us[member->number] = until_us;
        } else if (witness->cut_until_us[agent] <= now_us) {
            witness->cut_until_us[agent] = until_us;
            witness->cut_member[agent] = member->number;
        }
    }
    return witness->blind_until_us[member->number] > now_us ||
           (witness->cut_until_us[agent] > now_us && witness->cut_member[agent] == member->number);
}

static void try_fire(void *data)
{
    struct probe_try attempt = *(struct probe_try *)data;
    struct world *world = attempt.member->world;
    uint64_t off_us;
    bool silent = is_cut(attempt.member, attempt.agent) || sim_chance(world->sim, 40) ||
                  !world_shipping_powered(attempt.agent, &off_us);

    attempt.member->clock.timer_free(attempt.timer);
    free(data);
    attempt.done(attempt.data, silent ? PROBE_SILENCE : PROBE_ANSWER);
}

static struct probe_try *try_start(void *context, const char *address,
                                   void (*done)(void *data, enum probe_result result), void *data)
{
    struct world_member *member = context;
    struct probe_try *attempt = check_calloc(1, sizeof(*attempt));
    unsigned host = 0;

    CHECK(sscanf(address, "10.9.0.%u:22", &host) == 1);
    CHECK(host >= ADDRESS_OFFSET && host < ADDRESS_OFFSET + WORLD_AGENTS_MAX);
    attempt->member = member;
    attempt->agent = host - ADDRESS_OFFSET;
    attempt->done = done;
    attempt->data = data;
    attempt->timer = member->clock.timer_new(member->clock.context, try_fire, attempt);
    member->clock.timer_start(attempt->timer, 1 + sim_random(member->world->sim, TRY_US));
    return attempt;
}

static void try_cancel(struct probe_try *attempt)
{
    attempt->member->clock.timer_free(attempt->timer);
    free(attempt);
}

void witness_start(struct world_member *member)
{
    const struct probe_ops ops = {member, try_start, try_cancel};

    if (member->world->options.witness > 0)
        member->broker.node_probe = node_probe_new(&member->broker, &ops);
}

const char *witness_address(const struct world *world, unsigned agent)
{
    static char texts[WORLD_AGENTS_MAX][NODE_PROBE_ADDRESS_BYTES];

    if (world->options.witness == 0)
        return "off";
    snprintf(texts[agent], sizeof(texts[agent]), "10.9.0.%u:22", ADDRESS_OFFSET + agent);
    return texts[agent];
}

void witness_check(struct world *world, unsigned agent, uint32_t who)
{
    uint64_t off_us, now_us = sim_now_us(world->sim);

    if (who != CKPT__V1__NODE_WITNESS__NODE_WITNESS_PROBE)
        return;
    world->counts.witnessed++;
    if (!world_shipping_powered(agent, &off_us) || (off_us != 0 && now_us - off_us < OFF_LATELY_US))
        return;
    world_violation(world, "V-003", "%s is off by a witness, and has power",
                    world_agent_name(agent));
}
