/* The shipping agent on the world's compute nodes: machines, ckpt-runs, applications, and what
 * befalls them beside the world's own faults. See world.h (struct world_agent_ops) and
 * agent_machine.h.
 *
 * Flow     job_started: a ckpt-run for the job; from there everything goes through Attach. A timer
 *          per machine draws trouble until calm(): SIGKILL to a ckpt-run (another one may come), an
 *          application that ends, an agent that dies at a disk operation.
 * Shapes   one set of machines at a time. An agent that ended by itself is started again after a
 *          while, as by its supervisor.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/ranks_stream.h"
#include "src/base/check.h"
#include "tests/sim/agent_checks.h"
#include "tests/sim/agent_jobs.h"
#include "tests/sim/agent_rogue.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/application_run.h"
#include "tests/sim/world_internal.h"

enum {
    APPLICATIONS_NODE = WORLD_NODES, /* the first; one more per compute node */
    ROGUE_NODE = APPLICATIONS_NODE + WORLD_AGENTS_MAX,
    JOBS_NODE,
    RUNS_MAX = 32,
    SHARDS_LOOKED_AT = 64,
    SPOILED_MAX = 6, /* of one checkpoint */
    RESTART_DELAY_US = 1000000,
    TROUBLE_US = 4000000, /* between two, at most */
    RESTARTS_IN_PLACE = 3,
    DEFERS_IN = 3,
    STUCK_RARELY_IN = 400,
    MEMORY_BYTES = 4000 /* some checkpoints of a node beside each other, not all */
};
_Static_assert((int)JOBS_NODE < (int)SIM_NODES_MAX, "every process has its node");

struct place { /* a compute node */
    struct world *world;
    unsigned agent;
    struct agent_machine *machine;
    struct application_run *runs[RUNS_MAX];
    bool starts;     /* the agent's start is due */
    uint64_t off_us; /* when it was without power last; 0: never */
};

static struct {
    unsigned users; /* places in use */
    struct agent_store *store;
    struct agent_checks *checks;
    struct agent_rogue *rogue;
    struct agent_jobs *jobs;
    char brokers[512];
    struct application_manners manners;
    bool calm;
    struct place places[WORLD_AGENTS_MAX];
    struct world_shipping_counters counters;
} all;

static const struct application_manners bad_manners = {.never_in = 12,
                                                       .late_in = 12,
                                                       .slow_in = 10,
                                                       .dies_in = 15,
                                                       .partial_in = 15,
                                                       .refuses_in = 15,
                                                       .empty_in = 15,
                                                       .mislabels_in = 15,
                                                       .stuck_in = 40,
                                                       .breaks_in = 40,
                                                       .mispaces_in = 40,
                                                       .stale_in = 10,
                                                       .no_handler_in = 10,
                                                       .crashes_in = 5,
                                                       .freezes_in = 15,
                                                       .deaf_in = 5,
                                                       .helper_in = 5,
                                                       .lies_in = 12,
                                                       .hangs_up_in = 15};

struct agent_store *world_shipping_store(void)
{
    return all.store;
}

void world_shipping_publish(struct world *world, unsigned agent, const char *allocation_id,
                            const struct world_place *place, uint64_t checkpoint_id,
                            uint32_t attempt, char ret_manifest[AGENT_STORE_MANIFEST_BYTES])
{
    const struct world_job *job = job_find(world, allocation_id);
    const char *node_id = world_agent_name(agent);
    struct agent_store_file files[2 * WORLD_RANKS_MAX];
    char hint[HINT_TEXT_BYTES], id[CHECKPOINT_ID_TEXT_BYTES], part[PART_NAME_BYTES];
    unsigned ranks = world_ranks_of(job);

    if (all.users == 0) {
        memset(ret_manifest, '0', AGENT_STORE_MANIFEST_BYTES - 1);
        ret_manifest[AGENT_STORE_MANIFEST_BYTES - 1] = '\0';
        return;
    }
    snprintf(hint, sizeof(hint), "%s-%u", checkpoint_id_format(checkpoint_id, id), attempt);
    for (unsigned rank = 0; rank < ranks; rank++) {
        char suffix[16] = "", identity[APPLICATION_IDENTITY_BYTES];
        if (job->ranks > 0)
            snprintf(suffix, sizeof(suffix), ".%u", rank);
        snprintf(identity, sizeof(identity), "%s%s", node_id, suffix);
        snprintf(files[2 * rank].name, sizeof(files->name), "state%s", suffix);
        snprintf(files[2 * rank + 1].name, sizeof(files->name), "again%s", suffix);
        application_state_text(&(struct application_owner){allocation_id, node_id, identity}, hint,
                               application_truth(continues_first(world, allocation_id), identity,
                                                 sim_now_us(world->sim) / SECOND_US),
                               files[2 * rank].text);
        memcpy(files[2 * rank + 1].text, files[2 * rank].text, sizeof(files->text));
    }
    agent_store_publish(all.store, place->path, part_name_format(place->part, part), files,
                        2 * ranks, ret_manifest);
}

struct world_shipping_counters world_shipping_counters(void)
{
    struct world_shipping_counters counters = all.counters;

    if (all.users == 0)
        return (struct world_shipping_counters){0};
    counters.rogue_welcomes = agent_rogue_welcomes(all.rogue);
    counters.checks = *agent_checks_counters(all.checks);
    counters.store = *agent_store_counters(all.store);
    return counters;
}

bool world_shipping_lives(unsigned agent, const char *allocation_id, uint64_t known)
{
    return all.users != 0 && agent_checks_lives(all.checks, agent, allocation_id, known);
}

bool world_shipping_moves(unsigned agent, const char *allocation_id)
{
    return all.users != 0 && agent_checks_moves(all.checks, agent, allocation_id);
}

bool world_shipping_overstays(unsigned agent, const char *allocation_id)
{
    return all.users != 0 && agent_checks_overstays(all.checks, agent, allocation_id);
}

bool world_shipping_waits(unsigned agent, const char *allocation_id)
{
    const struct place *place = &all.places[agent];

    for (size_t i = 0; all.users != 0 && i < RUNS_MAX; i++)
        if (place->runs[i] != NULL && application_run_waits(place->runs[i]) &&
            strcmp(application_run_allocation(place->runs[i]), allocation_id) == 0)
            return place->machine->running;
    return false;
}

bool world_shipping_pace(unsigned agent, const char *allocation_id, uint64_t *ret_gap_ms)
{
    const struct place *place = &all.places[agent];
    struct rank_pace paces[LEDGER_RANKS_MAX];
    struct allocation *allocation =
        all.users != 0 && place->machine != NULL && place->machine->running
            ? agent_find(&place->machine->agent, allocation_id)
            : NULL;
    size_t count = allocation == NULL ? 0 : ranks_paces(allocation, paces);

    *ret_gap_ms = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t gap_ms = pace_gap_p99_ms(paces[i].pace);

        if (gap_ms > *ret_gap_ms)
            *ret_gap_ms = gap_ms;
    }
    return count > 0;
}

void world_shipping_slow_disk(unsigned agent, uint64_t most_us)
{
    if (all.users != 0 && all.places[agent].machine != NULL)
        all.places[agent].machine->slow_most_us = most_us;
}

bool world_shipping_journal(unsigned agent, struct world_journal *ret_journal)
{
    const struct agent_machine *machine = all.users == 0 ? NULL : all.places[agent].machine;
    const struct ledger_report *report = NULL;

    *ret_journal = (struct world_journal){.bytes = 0};
    if (machine == NULL || !machine->running || machine->dying)
        return false;
    ret_journal->bytes = sim_disk_bytes(machine->sim, machine->config.agent_node);
    for (const struct list *at = machine->agent.allocations.next; at != &machine->agent.allocations;
         at = at->next)
        ret_journal->entries++;
    while ((report = ledger_report_after(machine->agent.ledger,
                                         report == NULL ? 0 : report->sequence)) != NULL) {
        ret_journal->reports++;
        ret_journal->report_bytes += report->length;
    }
    return true;
}

const char *world_shipping_unsettled(void)
{
    const char *what = all.users == 0 ? "" : agent_checks_unsettled(all.checks);

    return all.users == 0 || what[0] != '\0' ? what : agent_jobs_unsettled(all.jobs);
}

/* ---- ckpt-runs ---- */

static void run_ended(void *data, struct application_run *run, int exit_code, const char *refused)
{
    struct place *place = data;

    (void)exit_code;
    if (place->world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " %s: ckpt-run of %s leaves with %d %s\n",
                sim_now_us(place->world->sim), place->machine->name,
                application_run_allocation(run), exit_code, refused == NULL ? "" : refused);
    all.counters.refused += refused != NULL;
    if (exit_code == 0 && !application_run_ordered(run))
        agent_jobs_finished(all.jobs, place->agent, application_run_allocation(run),
                            application_run_number(run));
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (place->runs[i] == run)
            place->runs[i] = NULL;
}

static void run_start(struct place *place, const char *allocation_id, enum agent_jobs_launch how)
{
    const struct world_job *job = job_find(place->world, allocation_id);
    const struct application_way *way =
        job != NULL ? job->way : application_way_at(WAY_FIRST_SIGNAL);
    const struct application_run_setup setup = {
        .allocation_id = allocation_id,
        .way = way,
        .manners = &all.manners,
        .checks = agent_checks_of_applications(all.checks),
        .labels = job != NULL ? job->labels : LABELS_NONE,
        .ranks = job != NULL ? job->ranks : 0,
        .ranks_in_group = job != NULL && job->ranks_in_group,
        .ranks_with_streams = job != NULL && job->ranks_with_streams,
        .says_steps = place->world->options.hung > 0,
        .restarts_max = RESTARTS_IN_PLACE,
        .from_scratch = how == AGENT_JOBS_ANEW_FROM_SCRATCH,
        .stays = how == AGENT_JOBS_SPARE,
        .ended = run_ended,
        .data = place};

    if (!place->machine->powered)
        return;
    for (size_t i = 0; i < RUNS_MAX; i++) {
        if (place->runs[i] == NULL) {
            place->runs[i] = application_run_new(place->machine, &setup);
            all.counters.runs++;
            return;
        }
    }
}

struct launch {
    struct place *place;
    char allocation_id[64];
};

static void launch_fire(void *data)
{
    struct launch *launch = data;

    run_start(launch->place, launch->allocation_id,
              sim_chance(launch->place->world->sim, 3) ? AGENT_JOBS_ANEW_FROM_SCRATCH
                                                       : AGENT_JOBS_AGAIN);
    free(launch);
}

static void launch_later(struct place *place, const char *allocation_id, uint64_t delay_us)
{
    struct launch *launch = check_calloc(1, sizeof(*launch));

    launch->place = place;
    snprintf(launch->allocation_id, sizeof(launch->allocation_id), "%s", allocation_id);
    sim_on_drop(sim_schedule(place->world->sim, SIM_NODES_MAX, delay_us, launch_fire, launch),
                free);
}

static void run_kill(struct place *place, size_t i)
{
    struct application_run *run = place->runs[i];

    place->runs[i] = NULL;
    application_run_kill(run);
}

/* ---- the agent ---- */

static void agent_starts(void *data)
{
    struct place *place = data;
    struct err err;

    if (!place->starts || place->machine->running)
        return;
    place->starts = false;
    place->machine->domain = world_domain_draw(place->world);
    place->machine->node_probe = witness_address(place->world, place->agent);
    if (agent_machine_start_agent(place->machine, &err) == 0)
        return;
    all.counters.start_failures++;
    world_process_crash(place->world, place->machine->config.agent_node);
    place->starts = true;
    sim_after(place->world->sim, SIM_NODES_MAX, RESTART_DELAY_US, agent_starts, place);
}

static void agent_died(void *data, struct agent_machine *machine)
{
    struct place *place = data;

    all.counters.deaths++;
    agent_machine_bury_agent(machine);
    world_process_crash(place->world, machine->config.agent_node);
    place->starts = true;
    sim_after(place->world->sim, SIM_NODES_MAX,
              1 + sim_random(place->world->sim, 2 * RESTART_DELAY_US), agent_starts, place);
}

static void agent_signals(void *data, struct agent_machine *machine, pid_t group, int signal)
{
    (void)data;
    agent_checks_signal(all.checks, machine, group, signal);
}

static void agent_signals_one(void *data, struct agent_machine *machine,
                              const struct machine_process *process, int signal)
{
    (void)data;
    agent_checks_signal_one(all.checks, machine, process, signal);
}

/* ---- trouble ---- */

static void trouble_with_a_run(struct place *place)
{
    struct sim *sim = place->world->sim;
    size_t i = sim_random(sim, RUNS_MAX), passed = 0;
    struct application *child;
    char allocation_id[64];

    for (; place->runs[i] == NULL && passed < RUNS_MAX; passed++)
        i = (i + 1) % RUNS_MAX;
    if (passed == RUNS_MAX)
        return;
    snprintf(allocation_id, sizeof(allocation_id), "%s",
             application_run_allocation(place->runs[i]));
    child = application_run_child(place->runs[i]);
    switch (sim_random(sim, 8)) {
    case 0:
        run_kill(place, i);
        all.counters.runs_killed++;
        if (sim_chance(sim, 2))
            launch_later(place, allocation_id, sim_random(sim, 6000000));
        return;
    case 1:
        application_run_terminate(place->runs[i]);
        return;
    case 2: /* a second one beside it */
        launch_later(place, allocation_id, sim_random(sim, 100000));
        return;
    default: /* started again in place, unless it has finished */
        if (child != NULL && application_released(child))
            application_finish(child, sim_chance(sim, 4) ? 0 : 1 << 8);
        return;
    }
}

/* So many parts of the checkpoint, each lost or damaged, but for one (NULL: none). */
static void spoil_parts(struct sim *sim, const char *path, unsigned most, const char *but)
{
    char parts[SPOILED_MAX][PART_NAME_BYTES];
    const char *other, *part;
    bool damaged;
    unsigned count = 0;

    CHECK(most <= SPOILED_MAX);
    for (size_t i = 0; agent_store_shard(all.store, i, &other, &part, &damaged); i++)
        if (count < most && !damaged && strcmp(other, path) == 0 &&
            (but == NULL || strcmp(part, but) != 0))
            snprintf(parts[count++], PART_NAME_BYTES, "%s", part);
    for (unsigned i = 0; i < count; i++) {
        if (sim_chance(sim, 2))
            agent_store_lose(all.store, path, parts[i]);
        else
            agent_store_damage(all.store, path, parts[i]);
    }
}

/* Once per allocation, and when there is another folder to fall back to, most of the time. */
static bool may_be_spoiled(const char *path)
{
    const char *other, *other_part;
    char allocation_id[WORLD_PATH_BYTES];
    char *end;
    bool damaged, alone = true;

    /* <prefix>/<tenant>/<project>/<allocation>/checkpoints/<checkpoint> */
    snprintf(allocation_id, sizeof(allocation_id), "%s", path);
    end = strstr(allocation_id, "/checkpoints/");
    CHECK(end != NULL);
    *end = '\0';
    for (size_t i = 0; agent_store_shard(all.store, i, &other, &other_part, &damaged); i++)
        alone = alone && (strncmp(other, path, (size_t)(end - allocation_id)) != 0 ||
                          strcmp(other, path) == 0);
    return !alone && !agent_store_spoiled_of(all.store, strrchr(allocation_id, '/') + 1);
}

/* A shard is lost or damaged, or several of one checkpoint. */
static void trouble_with_a_shard(struct place *place)
{
    struct sim *sim = place->world->sim;
    const char *path, *part;
    char spoiled[WORLD_PATH_BYTES];
    bool damaged;

    if (!agent_store_shard(all.store, sim_random(sim, SHARDS_LOOKED_AT), &path, &part, &damaged) ||
        !may_be_spoiled(path))
        return;
    snprintf(spoiled, sizeof(spoiled), "%s", path); /* it may go with its first shard */
    if (sim_chance(sim, 3))
        spoil_parts(sim, spoiled, 1 + (unsigned)sim_random(sim, SPOILED_MAX), NULL);
    else if (sim_chance(sim, 2))
        agent_store_lose(all.store, path, part);
    else
        agent_store_damage(all.store, path, part);
}

/* All agents lose their connections at once and come back together (L8, scaled down); or a clock is
 * set. */
static void trouble_with_all(struct place *place)
{
    struct world *world = place->world;
    struct sim *sim = world->sim;
    int64_t step_ms = (int64_t)sim_random(sim, 7200000) - 3600000;

    if (sim_chance(sim, 2)) {
        for (unsigned agent = 0; agent < world->options.agents; agent++)
            for (unsigned member = 0; member < world->member_count; member++)
                sim_reset_connections(sim, WORLD_AGENT_NODE + agent, member);
        all.counters.storms++;
    } else {
        sim_clock_step(sim, place->machine->config.agent_node, step_ms);
        sim_clock_step(sim, place->machine->config.applications_node, step_ms);
        all.counters.clock_steps++;
    }
}

static void trouble(void *data)
{
    struct place *place = data;
    struct sim *sim = place->world->sim;

    if (all.calm || place->machine == NULL)
        return;
    sim_after(sim, SIM_NODES_MAX, 1 + sim_random(sim, TROUBLE_US), trouble, place);
    if (!place->machine->powered || place->world->options.agent_crashes == 0)
        return;
    if (sim_chance(sim, 4))
        agent_machine_die_at(place->machine, 1 + sim_random(sim, 20), sim_chance(sim, 2));
    trouble_with_a_run(place);
    if (sim_chance(sim, 4))
        trouble_with_a_shard(place);
    if (sim_chance(sim, 10))
        trouble_with_all(place);
    if (place->world->options.copies > 0 && sim_chance(sim, 4))
        agent_store_spoil_copy(all.store, place->machine->config.agent_node, sim_chance(sim, 2));
}

static void power_off(struct place *place)
{
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (place->runs[i] != NULL)
            run_kill(place, i);
    agent_machine_power_off(place->machine);
    if (sim_chance(place->world->sim, 2)) /* nothing of them was synced */
        agent_store_spoil_copy(all.store, place->machine->config.agent_node,
                               sim_chance(place->world->sim, 2));
    sim_crash(place->world->sim, place->machine->config.applications_node);
    all.counters.power_losses++;
    place->off_us = sim_now_us(place->world->sim);
}

bool world_shipping_powered(unsigned agent, uint64_t *ret_off_us)
{
    const struct place *place = &all.places[agent];
    bool powered = place->machine == NULL || place->machine->powered;

    *ret_off_us = place->off_us;
    if (!powered)
        *ret_off_us = sim_now_us(place->world->sim);
    return powered;
}

/* What a part has brought here is of no use when another one finds its own damaged. */
static void shard_read(void *data, const char *path, const char *part)
{
    struct world *world = data;
    char spoiled[WORLD_PATH_BYTES];

    if (world->options.spoils == 0 || all.calm ||
        sim_random(world->sim, 100) >= world->options.spoils || !may_be_spoiled(path))
        return;
    snprintf(spoiled, sizeof(spoiled), "%s", path); /* it may go with its first shard */
    spoil_parts(world->sim, spoiled, 1 + (unsigned)sim_random(world->sim, SPOILED_MAX), part);
}

/* ---- struct world_agent_ops ---- */

/* A source is <work>/out/<epoch>-<sequence>-<attempt>. */
static void shard_written(void *data, unsigned node, const char *source)
{
    const char *hint = strrchr(source, '/') + 1;
    char id[HINT_TEXT_BYTES];
    char *attempt;
    uint64_t checkpoint_id;

    snprintf(id, sizeof(id), "%s", hint);
    attempt = strrchr(id, '-');
    *attempt++ = '\0';
    CHECK(checkpoint_id_parse(id, &checkpoint_id) == 0);
    world_shard_written(data, node - WORLD_AGENT_NODE, "", checkpoint_id,
                        (uint32_t)strtoul(attempt, NULL, 10));
}

static bool run_is_there(void *data, unsigned agent, const char *allocation_id)
{
    const struct place *place = &all.places[agent];

    (void)data;
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (place->runs[i] != NULL &&
            strcmp(application_run_allocation(place->runs[i]), allocation_id) == 0)
            return true;
    return false;
}

static void runs_kill(struct place *place, const char *allocation_id)
{
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (place->runs[i] != NULL &&
            strcmp(application_run_allocation(place->runs[i]), allocation_id) == 0)
            run_kill(place, i);
}

static bool is_spoiled(void *data, const char *allocation_id)
{
    (void)data;
    return agent_store_spoiled_of(all.store, allocation_id);
}

static void run_is_wanted(void *data, unsigned agent, const char *allocation_id,
                          enum agent_jobs_launch how)
{
    (void)data;
    if (how == AGENT_JOBS_ANEW || how == AGENT_JOBS_ANEW_FROM_SCRATCH)
        runs_kill(&all.places[agent], allocation_id);
    if (!run_is_there(NULL, agent, allocation_id))
        run_start(&all.places[agent], allocation_id, how);
}

static void place_open(struct world *world, unsigned agent)
{
    struct place *place = &all.places[agent];
    const struct agent_machine_config config = {
        .name = world->agents[agent].name,
        .agent_node = WORLD_AGENT_NODE + agent,
        .applications_node = APPLICATIONS_NODE + agent,
        .brokers = all.brokers,
        .heartbeat_ms = 1000,
        .copies_max_bytes = world->options.copies == 1 ? UINT64_MAX : world->options.copies,
        .memory_max_bytes = MEMORY_BYTES};
    const struct agent_machine_events events = {place, agent_died, agent_signals,
                                                agent_signals_one};
    const struct agent_jobs_ops jobs = {NULL, run_is_there, run_is_wanted, is_spoiled};

    if (all.users++ == 0) {
        all.store = agent_store_new(shard_written, shard_read, world);
        all.checks = agent_checks_new(world, all.store);
        all.jobs = agent_jobs_new(world, JOBS_NODE, &jobs);
        all.rogue = agent_rogue_new(world->sim, ROGUE_NODE);
        snprintf(all.brokers, sizeof(all.brokers), "%.400s," AGENT_ROGUE_ADDRESS, world->endpoints);
        all.manners = bad_manners;
        all.manners.defers_in = world->options.deferrals > 0 ? DEFERS_IN : 0;
        if (world->options.hung > 0) /* ten times a long gap is too long to see its end */
            all.manners.stuck_in = STUCK_RARELY_IN;
        all.calm = false;
        memset(&all.counters, 0, sizeof(all.counters));
    }
    *place = (struct place){.world = world, .agent = agent};
    sim_clock_set_drift(world->sim, config.applications_node, world->agents[agent].drift_ppm);
    place->machine = agent_machine_new(world->sim, all.store, &config, &events);
    place->machine->unread = true;
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, TROUBLE_US), trouble, place);
}

static void *shipping_start(struct world *world, unsigned agent)
{
    struct place *place = &all.places[agent];

    if (place->machine == NULL)
        place_open(world, agent);
    if (!place->machine->powered) {
        place->off_us = sim_now_us(world->sim);
        agent_machine_boot(place->machine);
    }
    place->starts = true;
    agent_starts(place);
    return place->machine;
}

static void shipping_crash(struct world *world, unsigned agent, void *process)
{
    struct place *place = &all.places[agent];

    (void)process;
    place->starts = false;
    if (sim_chance(world->sim, world->options.witness > 0 ? 2 : 5))
        power_off(place);
    else {
        agent_machine_bury_agent(place->machine);
        if (world->options.kept_caches > 0)
            sim_disk_cache_stays(world->sim, place->machine->config.agent_node);
    }
}

static void shipping_job_started(struct world *world, unsigned agent, void *process,
                                 const struct world_job *job)
{
    struct place *place = &all.places[agent];

    (void)process;
    agent_jobs_begins(all.jobs, agent, job->id);
    if (job->comes_back && run_is_there(NULL, agent, job->id))
        return;                /* it has waited for that */
    runs_kill(place, job->id); /* what is left of the run before */
    launch_later(place, job->id, sim_random(world->sim, 500000));
}

static void shipping_job_exited(struct world *world, unsigned agent, void *process,
                                const struct world_job *job, int exit_status)
{
    struct place *place = &all.places[agent];

    (void)world;
    (void)process;
    for (size_t i = 0; i < RUNS_MAX; i++) {
        struct application *child =
            place->runs[i] != NULL &&
                    strcmp(application_run_allocation(place->runs[i]), job->id) == 0
                ? application_run_child(place->runs[i])
                : NULL;
        if (child != NULL && application_released(child))
            application_finish(child, exit_status);
    }
}

static void calm_process(const struct machine_process *process)
{
    if (process != NULL && process->living && process->rank == 0 && !process->saves &&
        process->program.data != NULL)
        application_calm(process->program.data);
}

static void shipping_calm(struct world *world, unsigned agent, void *process)
{
    struct place *place = &all.places[agent];

    (void)world;
    (void)process;
    all.calm = true;
    all.manners = (struct application_manners){.finishes = true};
    agent_rogue_calm(all.rogue);
    agent_jobs_calm(all.jobs);
    agent_machine_die_at(place->machine, 0, false);
    place->machine->unread = false;
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        calm_process(place->machine->processes[i]);
}

static void shipping_check(struct world *world, unsigned agent, void *process)
{
    (void)world;
    (void)process;
    agent_checks_machine(all.checks, all.places[agent].machine);
}

static void shipping_close(struct world *world, unsigned agent)
{
    struct place *place = &all.places[agent];

    (void)world;
    if (place->machine == NULL)
        return;
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (place->runs[i] != NULL)
            run_kill(place, i);
    agent_machine_free(place->machine);
    *place = (struct place){0};
    if (--all.users > 0)
        return;
    agent_rogue_free(all.rogue);
    agent_jobs_free(all.jobs);
    agent_checks_free(all.checks);
    agent_store_free(all.store);
    all.store = NULL;
}

const struct world_agent_ops world_agent_shipping = {.name = "shipping",
                                                     .start = shipping_start,
                                                     .crash = shipping_crash,
                                                     .job_started = shipping_job_started,
                                                     .job_exited = shipping_job_exited,
                                                     .calm = shipping_calm,
                                                     .check = shipping_check,
                                                     .close = shipping_close};
