/* The life of a world: its options, its phases, its end. See world.h. */
#include "tests/sim/world_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_options.h"

enum {
    LEADER_MAX_US = 20 * SECOND_US, /* L1: after healing; daemons are started again within 3.2 s */
    CONVERGE_MAX_US = 120 * SECOND_US, /* L3-L5: a silent node's part counts as ended after 30 s */
    REPEAT_MAX_US = 20 * SECOND_US,
    /* L4, since a stop began: 4 attempts of 8 s, one of them longer by half, 2 s put off, back-offs
     * of 3.9 s, and a leader that stands still for 6 s */
    STOP_MAX_US = 50 * SECOND_US,
    LOGS_EVERY_US = 5 * SECOND_US,
    EXIT_VIOLATION = 3,
    WAITS_BYTES = 128
};

struct sim *world_sim(struct world *world)
{
    return world->sim;
}

const struct world_options *world_options(const struct world *world)
{
    return &world->options;
}

const char *world_endpoints(const struct world *world)
{
    return world->endpoints;
}

uv_loop_t *world_loop(struct world *world, unsigned node)
{
    if (node < WORLD_AGENT_NODE)
        return &world->members[node].loop.uv;
    if (node < WORLD_SCHEDULER_NODE)
        return &world->agents[node - WORLD_AGENT_NODE].loop.uv;
    return &world->scheduler_loops[node - WORLD_SCHEDULER_NODE].uv;
}

void world_process_crash(struct world *world, unsigned node)
{
    if (world->options.kept_caches > 0 && sim_random(world->sim, 100) < world->options.kept_caches)
        sim_disk_cache_stays(world->sim, node);
    sim_crash(world->sim, node);
}

void world_violation(struct world *world, const char *invariant, const char *format, ...)
{
    va_list arguments;

    fflush(stdout);
    fprintf(stderr, "violation of %s at %.6f s, step %" PRIu64 ": ", invariant,
            (double)sim_now_us(world->sim) / SECOND_US, sim_steps(world->sim));
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    world_options_print(stderr, &world->options);
    fflush(stderr);
    _exit(EXIT_VIOLATION);
}

uint64_t world_touched_members(const struct world *world)
{
    return sim_touched(world->sim) & ((UINT64_C(1) << world->member_count) - 1);
}

/* ---- phases ---- */

void world_step(struct world *world)
{
    if (!sim_step(world->sim))
        world_violation(world, "L1", "nothing is left to do");
    if (world_touched_members(world) != 0) {
        members_bury(world);
        if (world->options.flips > 0)
            flips_step(world);
        raft_checks_step(world);
        drills_step(world);
        overtake_step(world);
        bounds_age(world);
    }
    agents_check(world);
    outages_check(world);
    if (sim_steps(world->sim) % 64 == 0)
        state_checks_whole(world);
}

void world_run_until(struct world *world, uint64_t us)
{
    uint64_t logs = sim_now_us(world->sim) + LOGS_EVERY_US;

    while (sim_now_us(world->sim) < us) {
        world_step(world);
        if (sim_now_us(world->sim) >= logs) {
            raft_checks_logs(world);
            logs += LOGS_EVERY_US;
        }
    }
}

static void await_leader(struct world *world)
{
    uint64_t begin = sim_now_us(world->sim);

    while (members_leader(world) == NULL) {
        if (sim_now_us(world->sim) - begin > LEADER_MAX_US)
            world_violation(world, "L1", "no leader %d s after healing", LEADER_MAX_US / SECOND_US);
        world_step(world);
    }
    world->counts.leader_us = sim_now_us(world->sim) - begin;
}

/* What is still missing until all members have the same state; "" when nothing is. */
static const char *missing_members(struct world *world)
{
    static char text[128];
    uint64_t index = UINT64_MAX; /* that the first of them has applied, 0 when it is blank */

    for (unsigned i = 0; i < WORLD_NODES; i++)
        if (sim_paused(world->sim, i))
            return "a process that is stopped"; /* for at most 8 s */

    if (bursts_go_on(world))
        return "the end of the bursts";
    if (members_leader(world) == NULL)
        return "a leader";
    for (unsigned i = 0; i < world->member_count; i++) {
        struct world_member *member = &world->members[i];
        struct consensus_status status;
        struct fsm_summary summary;

        if (!member_counts(world, member))
            continue;
        if (!member->up) {
            snprintf(text, sizeof(text), "member %u is down", i + 1);
            return text;
        }
        replica_get_status(member->broker.replica, &status);
        fsm_get_summary(member_fsm(member), &summary);
        if (index == UINT64_MAX)
            index = summary.applied_index;
        for (size_t p = 0; p < status.peer_count; p++)
            if (!status.peers[p].connected && safety_rule(10) &&
                member_counts(world, &world->members[status.peers[p].id - 1])) {
                snprintf(text, sizeof(text), "member %u has no connection to %" PRIu64, i + 1,
                         status.peers[p].id);
                return text;
            }
        if (summary.applied_index != index || status.applied_index != status.last_index) {
            snprintf(text, sizeof(text), "member %u applied %" PRIu64 " of %" PRIu64, i + 1,
                     status.applied_index, status.last_index);
            return text;
        }
    }
    return "";
}

/* ... until everything is as it should be; since when a stop is all that is missing, 0: more is, or
 * nothing. */
static const char *missing(struct world *world, uint64_t *ret_stops_us)
{
    if (!load_idle(world))
        return "answers to requests";
    if (drills_unsettled(world)[0] != '\0')
        return drills_unsettled(world);
    if (starts_unsettled(world)[0] != '\0')
        return starts_unsettled(world);
    if (comebacks_unsettled(world)[0] != '\0')
        return comebacks_unsettled(world);
    if (hangs_unsettled(world)[0] != '\0')
        return hangs_unsettled(world);
    if (world_shipping_unsettled()[0] != '\0')
        return world_shipping_unsettled();
    if (orphans_left(world)[0] != '\0')
        return orphans_left(world);
    return retention_rotten(world)[0] != '\0' ? retention_rotten(world)
                                              : state_checks_settled(world, ret_stops_us);
}

static void converge(struct world *world, uint64_t most_us)
{
    uint64_t begin = sim_now_us(world->sim), next = begin;
    uint64_t rest_us = begin; /* when all but a stop was as it should be */
    char said[WAITS_BYTES] = "";

    for (;;) {
        if (sim_now_us(world->sim) >= next) {
            const char *what = missing_members(world);
            uint64_t now_us = sim_now_us(world->sim), stops_us = 0, end_us;
            bounds_lag(world);
            bounds_cadence(world);
            bounds_reads(world);
            drills_look(world);
            if (what[0] == '\0' && world->counts.equal_us == 0)
                world->counts.equal_us = sim_now_us(world->sim) - world->healed_us;
            if (what[0] == '\0')
                what = missing(world, &stops_us);
            if (world->options.verbose && strcmp(what, said) != 0)
                printf("%12" PRIu64 " waits for: %s\n", sim_now_us(world->sim), what);
            snprintf(said, sizeof(said), "%s", what);
            if (what[0] == '\0')
                break;
            rest_us = stops_us != 0 ? now_us : rest_us;
            end_us = (stops_us != 0 ? begin : rest_us) + most_us;
            if (end_us < comebacks_last_us(world) + most_us) /* jobs follow each other on a node */
                end_us = comebacks_last_us(world) + most_us;
            if (now_us > end_us && (stops_us == 0 || now_us > stops_us + STOP_MAX_US))
                world_violation(world, "L3-L5", "%" PRIu64 " s after healing: %s",
                                (now_us - begin) / SECOND_US, what);
            next = now_us + 50000;
        }
        world_step(world);
    }
    if (sim_now_us(world->sim) - begin > world->counts.converge_us)
        world->counts.converge_us = sim_now_us(world->sim) - begin;
}

void world_run(struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++)
        member_start(&world->members[i]);
    agents_start(world);
    await_leader(world);
    world->phase = WORLD_CHAOS;
    world->began_us = sim_now_us(world->sim);
    load_start(world);
    bursts_start(world);
    changes_start(world);
    operator_start(world);
    cluster_pauses_start(world);
    drills_start(world);
    orphans_start(world);
    stale_start(world);
    streams_start(world);
    odd_start(world);
    faults_start(world);
    world_run_until(world, world->began_us + (uint64_t)world->options.seconds * SECOND_US);
    if (world->options.silence > 0)
        silence_keep(world);
    world->phase = WORLD_HEALED;
    world->healed_us = sim_now_us(world->sim);
    faults_heal(world);
    load_stop(world);
    await_leader(world);
    faults_return(world);
    converge(world, CONVERGE_MAX_US);
    if (world->options.older)
        older_keep(world);
    load_repeat(world);
    converge(world, REPEAT_MAX_US);
    state_checks_equal(world);
    bounds_failover(world);
    converge(world, REPEAT_MAX_US);
    if (world->options.hang) {
        bounds_standstill(world);
        converge(world, REPEAT_MAX_US);
    }
    if (world->options.straggler) {
        bounds_straggler(world);
        converge(world, REPEAT_MAX_US);
    }
    if (world->options.unready) {
        bounds_unready(world);
        converge(world, REPEAT_MAX_US);
    }
    if (world->options.drill_trial > 0) {
        drills_trial(world);
        converge(world, REPEAT_MAX_US);
    }
    raft_checks_logs(world);
    state_checks_equal(world);
    drills_equal(world);
    if (world->options.older)
        older_put_back(world);
    history_check(world);
}

/* ---- life ---- */

struct world *world_new(const struct world_options *options)
{
    struct world *world = check_calloc(1, sizeof(*world));
    size_t used = 0;

    world->options = *options;
    world->sim = sim_new(options->seed);
    world->member_count = options->replicas;
    sim_network_watch_late(world->sim, WORLD_MEMBERS_MAX);
    safety_rules_off = options->unsafe == 0 ? 0 : UINT32_C(1) << options->unsafe;
    storage_init(world);
    raft_checks_init(world);
    state_checks_init(world);
    victims_init(world);
    ends_init(world);
    walltimes_init(world);
    grants_init(world);
    preemptions_init(world);
    done_init(world);
    retention_init(world);
    orphans_init(world);
    releases_init(world);
    shards_init(world);
    rank_checks_init(world);
    parts_init(world);
    comebacks_init(world);
    hangs_init(world);
    dumps_init(world);
    drills_init(world);
    destinations_init(world);
    history_init(world);
    for (unsigned i = 0; i < world->member_count; i++) {
        member_init(world, i);
        used += (size_t)snprintf(world->endpoints + used, sizeof(world->endpoints) - used,
                                 "%smember%u:7443", i == 0 ? "" : ",", i + 1);
    }
    agents_init(world);
    load_init(world);
    return world;
}

void world_free(struct world *world)
{
    world->phase = WORLD_OVER;
    load_close(world);
    changes_close(world);
    operator_close(world);
    cluster_pauses_close(world);
    drills_stop(world);
    orphans_stop(world);
    stale_close(world);
    streams_close(world);
    agents_close(world);
    for (unsigned i = 0; i < world->member_count; i++)
        member_close(&world->members[i]);
    sim_free(world->sim);
    sim_worker_set_ops(NULL, NULL);
    history_close(world);
    state_checks_close(world);
    victims_close(world);
    ends_close(world);
    walltimes_close(world);
    grants_close(world);
    preemptions_close(world);
    done_close(world);
    retention_close(world);
    orphans_close(world);
    releases_close(world);
    shards_close(world);
    rank_checks_close(world);
    parts_close(world);
    comebacks_close(world);
    hangs_close(world);
    dumps_close(world);
    drills_close(world);
    destinations_close(world);
    raft_checks_close(world);
    bounds_close(world);
    free(world);
}
