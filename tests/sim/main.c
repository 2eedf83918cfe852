/* The simulator's program: one run, many runs over several processes, or a search for what an
 * absent rule breaks.
 *
 * Flow     simulate [name=value...] runs seeds seed, seed+1, ... (runs=N) with what
 *          world_options_draw() draws and the options given. jobs=N workers share the seeds; a
 *          violation ends its worker, its seed is kept, another worker goes on.
 * Errors   exit code 0: no violation; 1: some; 2: usage. With expect=1 it is the other way round: 0
 *          when a violation was found.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"
#include "tests/sim/world_options.h"

/* Upper ends of the bins in which times are counted, and one above them all. */
static const unsigned bin_ends_ms[] = {500, 1000, 2000, 3000, 5000, 10000, 20000, 40000};
enum { BINS = ARRAY_COUNT(bin_ends_ms) + 1 };
enum { JOBS_MAX = 64, RUN_MAX_S = 120, FAILED_KEPT_MAX = 32 };

struct plan {
    uint64_t first, runs;
    unsigned replicas, jobs;
    bool expect;    /* a violation */
    bool grown;     /* a run must grow by two voters and shrink again */
    bool drilled;   /* in half of the runs a drill must have come to its end in a calm cluster */
    bool ranked;    /* ranks must have met, and jobs must have restored all that ranks can */
    bool hung;      /* jobs must have been told HUNG, and restarted for it */
    bool commanded; /* commands must have saved applications, and have been told to end */
    bool returned;  /* the broker must have restarted jobs, and taken spares for some of them */
    bool quiet;
    uint64_t twice;    /* each seed is run again in another process: the traces must be equal */
    const char **sets; /* room for all arguments; of one that is there twice the last one counts */
    size_t set_count;
};

/* How long something took after healing, in how many runs. */
struct times {
    uint64_t runs[BINS];
    uint64_t most_us, seed;
};

/* Shared by the workers. */
struct board {
    uint64_t next; /* seed to run */
    uint64_t done, failed;
    uint64_t traces; /* the sum */
    uint64_t failed_seeds[FAILED_KEPT_MAX];
    uint64_t running[JOBS_MAX]; /* the seed in work + 1 */
    uint64_t sim_us, cpu_us, steps;
    uint64_t leader_us_max, failover_us_max, failover_us, elected_us_max, lag_us_max;
    uint64_t standstills, stragglers, unready, unready_us_max;
    uint64_t evaluations, evaluation_us_max;
    struct times equal, settled;
    uint64_t requests, acknowledged, unknown, reads, refused, elections, applied, asked, shards,
        terminated, lost_members, lost_starts, faults, changes;
    uint64_t grown_and_back; /* runs */
    uint64_t turned_away;
    uint64_t nodes_removed, witnessed;
    uint64_t late, orphans_shown, continued, comebacks, spares, hangs, hangs_told, hang_ends,
        sensitive;
    uint64_t drills, drills_passed, drill_faults, drill_trials;
    uint64_t operated, cluster_pauses, stale_reads, watched, backups, undeleted, removed_by_agents,
        read_again, over_quota, let_go_early, held, forced, unforced_ends, extended, deferred,
        labelled, met, met_on_streams, told_steps, barrier_faults, stood_still, recomputed, outages;
    uint64_t flips, flips_told, odd_samples, older;
    uint64_t commands[COMMAND_EVENTS];
    uint64_t journal_bytes, kept_reports;
    /* of the shipping agents */
    uint64_t runs, restores, whole, spread, deaths, runs_killed, power_losses, rogue_welcomes;
    uint64_t copies_kept, copies_used, copies_passed, copies_spoiled, published, prepared;
};

static uint64_t cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void options_for(const struct plan *plan, uint64_t seed, struct world_options *options)
{
    world_options_draw(seed, plan->replicas, options);
    for (size_t i = 0; i < plan->set_count; i++)
        CHECK(world_options_set(options, plan->sets[i]) == NULL);
}

static void add(uint64_t *total, uint64_t value)
{
    __atomic_fetch_add(total, value, __ATOMIC_RELAXED);
}

static void most(uint64_t *total, uint64_t value)
{
    if (value > *total)
        *total = value; /* a lost race costs a statistic */
}

static void count_time(struct times *times, uint64_t us, uint64_t seed)
{
    size_t bin = 0;

    while (bin < BINS - 1 && us > UINT64_C(1000) * bin_ends_ms[bin])
        bin++;
    add(&times->runs[bin], 1);
    if (us <= times->most_us)
        return;
    times->most_us = us; /* a lost race costs a statistic */
    times->seed = seed;
}

static void report_copies(struct board *board, const struct agent_store_counters *store,
                          uint64_t restores)
{
    add(&board->restores, restores);
    add(&board->copies_kept, store->copies_kept);
    add(&board->copies_used, store->copies_used);
    add(&board->copies_passed, store->copies_passed);
    add(&board->copies_spoiled, store->copies_spoiled);
    add(&board->published, store->published);
    add(&board->prepared, store->prepared);
}

/* long: a line for each count */
static void report(struct board *board, const struct world *world, uint64_t took_us)
{
    const struct world_shipping_counters shipping = world_shipping_counters();

    add(&board->done, 1);
    add(&board->cpu_us, took_us);
    add(&board->sim_us, sim_now_us(world->sim));
    add(&board->steps, sim_steps(world->sim));
    add(&board->requests, world->counts.requests);
    add(&board->acknowledged, world->counts.acknowledged);
    add(&board->unknown, world->counts.unknown);
    add(&board->refused, world->counts.refused);
    add(&board->reads, world->counts.reads);
    add(&board->elections, world->counts.elections);
    add(&board->applied, world->counts.applied);
    add(&board->asked, world->counts.asked);
    add(&board->shards, world->counts.shards);
    add(&board->terminated, world->counts.terminated);
    add(&board->changes, world->counts.added + world->counts.promoted + world->counts.removed);
    add(&board->grown_and_back, world->counts.grown_and_back > 0);
    add(&board->turned_away, world->counts.turned_away);
    add(&board->lost_members, world->counts.lost_members);
    add(&board->lost_starts, world->counts.lost_starts);
    add(&board->faults, world->counts.crashes + world->counts.dead_disks +
                            world->counts.disk_errors + world->counts.partitions +
                            world->counts.resets + world->counts.pauses +
                            world->counts.clock_steps + world->counts.slow + world->counts.full +
                            world->counts.rots + world->counts.flaps + world->counts.agent_crashes +
                            world->counts.transfers + world->counts.epochs + world->counts.elected +
                            world->counts.overtaken);
    add(&board->runs, shipping.checks.starts);
    add(&board->whole, shipping.checks.whole);
    add(&board->spread, shipping.checks.spread);
    report_copies(board, &shipping.store, shipping.checks.restores);
    add(&board->deaths, shipping.deaths);
    add(&board->runs_killed, shipping.runs_killed);
    add(&board->power_losses, shipping.power_losses);
    add(&board->rogue_welcomes, shipping.rogue_welcomes);
    add(&board->failover_us, world->counts.failover_us);
    most(&board->leader_us_max, world->counts.leader_us);
    count_time(&board->equal, world->counts.equal_us, world->options.seed);
    count_time(&board->settled, world->counts.converge_us, world->options.seed);
    most(&board->failover_us_max, world->counts.failover_us);
    most(&board->elected_us_max, world->counts.elected_us);
    most(&board->lag_us_max, world->counts.lag_us);
    add(&board->evaluations, world->counts.evaluations);
    most(&board->evaluation_us_max, world->counts.evaluation_us);
    add(&board->standstills, world->counts.standstills);
    add(&board->stragglers, world->counts.stragglers);
    add(&board->unready, world->counts.unready);
    most(&board->unready_us_max, world->counts.unready_us);
    add(&board->operated, world->counts.operated);
    add(&board->cluster_pauses, world->counts.cluster_pauses);
    add(&board->drills, world->counts.drills);
    add(&board->drills_passed, world->counts.drills_passed);
    add(&board->drill_faults, world->counts.drill_faults);
    add(&board->drill_trials, world->counts.drill_trials);
    add(&board->nodes_removed, world->counts.nodes_removed);
    add(&board->witnessed, world->counts.witnessed);
    add(&board->stale_reads, world->counts.stale_reads);
    add(&board->undeleted, world->counts.undeleted);
    add(&board->removed_by_agents, world->counts.removed_by_agents);
    add(&board->read_again, world->counts.read_again);
    add(&board->over_quota, world->counts.over_quota);
    add(&board->let_go_early, world->counts.let_go_early);
    add(&board->late, world->counts.late);
    add(&board->orphans_shown, world->counts.orphans_shown);
    add(&board->continued, world->counts.continued);
    add(&board->comebacks, world->counts.comebacks);
    add(&board->hangs, world->counts.hangs);
    add(&board->hangs_told, world->counts.hangs_told);
    add(&board->hang_ends, world->counts.hang_ends);
    add(&board->spares, world->counts.spares);
    add(&board->sensitive, world->counts.sensitive);
    add(&board->held, world->counts.held);
    add(&board->watched, world->counts.watched);
    add(&board->backups, world->counts.backups);
    add(&board->forced, world->counts.forced);
    add(&board->unforced_ends, world->counts.unforced_ends);
    add(&board->extended, world->counts.extended);
    add(&board->deferred, world->counts.deferred);
    add(&board->labelled, world->counts.labelled);
    add(&board->met, world->counts.met);
    add(&board->met_on_streams, world->counts.met_on_streams);
    add(&board->told_steps, world->counts.told_steps);
    add(&board->barrier_faults, world->counts.barrier_faults);
    add(&board->stood_still, world->counts.stood_still);
    add(&board->recomputed, world->counts.recomputed);
    add(&board->outages, world->counts.outages);
    add(&board->flips, world->counts.flips);
    add(&board->flips_told, world->counts.flips_told);
    add(&board->odd_samples, world->counts.odd_samples);
    add(&board->older, world->counts.older);
    most(&board->journal_bytes, world->counts.journal_bytes);
    most(&board->kept_reports, world->counts.kept_reports);
    for (size_t i = 0; i < COMMAND_EVENTS; i++)
        add(&board->commands[i], world->counts.commands[i]);
}

static uint64_t run_seed(const struct plan *plan, struct board *board, uint64_t seed)
{
    struct world_options options;
    struct world *world;
    uint64_t begin = cpu_us(), trace;

    options_for(plan, seed, &options);
    alarm(RUN_MAX_S);
    world = world_new(&options);
    world_run(world);
    alarm(0);
    trace = sim_trace(world->sim);
    report(board, world, cpu_us() - begin);
    world_free(world);
    return trace;
}

/* In a process of its own: the trace comes back through a pipe. */
static uint64_t run_elsewhere(const struct plan *plan, uint64_t seed)
{
    struct board ignored = {0};
    uint64_t trace = 0;
    int ends[2], status;
    pid_t child;

    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        trace = run_seed(plan, &ignored, seed);
        _exit(write(ends[1], &trace, sizeof(trace)) == sizeof(trace) ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &trace, sizeof(trace)) != sizeof(trace))
        trace = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return trace;
}

static void options_show(const struct plan *plan, uint64_t seed)
{
    struct world_options options;

    options_for(plan, seed, &options);
    world_options_print(stdout, &options);
}

static void work(const struct plan *plan, struct board *board, unsigned job)
{
    for (;;) {
        uint64_t seed = __atomic_fetch_add(&board->next, 1, __ATOMIC_RELAXED), trace;

        if (seed >= plan->first + plan->runs)
            break;
        board->running[job] = seed + 1;
        if (!plan->quiet && plan->runs == 1)
            options_show(plan, seed);
        trace = run_seed(plan, board, seed);
        add(&board->traces, trace);
        if (plan->twice != 0 && trace != run_elsewhere(plan, seed)) {
            fprintf(stderr, "seed %" PRIu64 " gives another trace in another process\n", seed);
            _exit(1);
        }
        if (!plan->quiet && plan->runs == 1)
            printf("seed=%" PRIu64 " trace=%016" PRIx64 "\n", seed, trace);
        board->running[job] = 0;
        if (plan->expect && board->failed > 0)
            break;
    }
    fflush(stdout);
}

static pid_t worker_fork(const struct plan *plan, struct board *board, unsigned job)
{
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work(plan, board, job);
        _exit(0);
    }
    return child;
}

/* A worker ended: well, or with the seed that it was running. */
static bool worker_ended(const struct plan *plan, struct board *board, unsigned job, int status)
{
    uint64_t seed = board->running[job];

    board->running[job] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    CHECK(seed != 0);
    if (board->failed < FAILED_KEPT_MAX)
        board->failed_seeds[board->failed] = seed - 1;
    board->failed++;
    if (WIFSIGNALED(status)) {
        struct world_options options;
        options_for(plan, seed - 1, &options);
        fprintf(stderr, "the run ended with signal %d (%s)\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
        world_options_print(stderr, &options);
    }
    return true;
}

static void run_all(const struct plan *plan, struct board *board)
{
    pid_t workers[JOBS_MAX];
    unsigned alive = 0;

    for (unsigned job = 0; job < plan->jobs; job++, alive++)
        workers[job] = worker_fork(plan, board, job);
    while (alive > 0) {
        int status;
        pid_t ended = waitpid(-1, &status, 0);
        unsigned job = 0;
        while (job < plan->jobs && workers[job] != ended)
            job++;
        if (job == plan->jobs)
            continue;
        if (worker_ended(plan, board, job, status) && !plan->expect)
            workers[job] = worker_fork(plan, board, job);
        else
            alive--;
    }
}

static void times_print(const char *what, const struct times *times)
{
    printf("%s, runs by ms:", what);
    for (size_t bin = 0; bin < BINS - 1; bin++)
        printf(" <=%u %" PRIu64 ",", bin_ends_ms[bin], times->runs[bin]);
    printf(" more %" PRIu64 "; most %" PRIu64 " (seed %" PRIu64 ")\n", times->runs[BINS - 1],
           times->most_us / 1000, times->seed);
}

/* long: a line for each kind of count */
static void summary(const struct plan *plan, const struct board *board, double wall_s)
{
    double sim_s = (double)board->sim_us / 1e6, cpu_s = (double)board->cpu_us / 1e6;

    printf("%" PRIu64 " runs of %u members (seeds %" PRIu64 "..%" PRIu64 "), %" PRIu64
           " violations, %.0f simulated s in %.1f s (%.1f s of processor): %.0f times real time, "
           "%.0f events per simulated s\n",
           board->done, plan->replicas, plan->first, plan->first + plan->runs - 1, board->failed,
           sim_s, wall_s, cpu_s, sim_s / cpu_s, (double)board->steps / sim_s);
    printf("%" PRIu64 " faults, %" PRIu64 " elections, %" PRIu64 " entries; requests: %" PRIu64
           ", acknowledged %" PRIu64 ", read %" PRIu64 ", refused %" PRIu64 ", unknown %" PRIu64
           "; asked %" PRIu64 ", shards %" PRIu64 ", ended %" PRIu64
           "; members lost to rot %" PRIu64 ", reports of starts lost %" PRIu64
           ", changes of members %" PRIu64 " (turned away %" PRIu64
           "), runs that grew by two voters and shrank again %" PRIu64 "\n",
           board->faults, board->elections, board->applied, board->requests, board->acknowledged,
           board->reads, board->refused, board->unknown, board->asked, board->shards,
           board->terminated, board->lost_members, board->lost_starts, board->changes,
           board->turned_away, board->grown_and_back);
    printf("shipping agents: %" PRIu64 " runs of applications, %" PRIu64
           " from a checkpoint (%" PRIu64 " from all its parts, %" PRIu64
           " on another number of nodes); %" PRIu64 " died of their disk, %" PRIu64
           " lost their power, %" PRIu64 " ckpt-runs were killed, %" PRIu64
           " welcomes from an old leader; copies kept %" PRIu64 ", begun from %" PRIu64
           ", passed over %" PRIu64 ", spoiled %" PRIu64 "; shards written in place %" PRIu64
           ", folders of jobs made %" PRIu64 "\n",
           board->runs, board->restores, board->whole, board->spread, board->deaths,
           board->power_losses, board->runs_killed, board->rogue_welcomes, board->copies_kept,
           board->copies_used, board->copies_passed, board->copies_spoiled, board->published,
           board->prepared);
    printf("operator's calls %" PRIu64 ", nodes removed %" PRIu64 ", stale reads %" PRIu64
           ", events watched %" PRIu64 ", backups read back %" PRIu64
           ", folders that stayed %" PRIu64 ", that agents removed %" PRIu64
           ", told that a tenant has too much %" PRIu64 " times, let go for it %" PRIu64
           ", written late %" PRIu64 ", shown as orphans %" PRIu64
           ", continued by other jobs %" PRIu64 ", restarts by the broker %" PRIu64
           ", spares taken %" PRIu64 ", hangs %" PRIu64 ", told %" PRIu64
           ", that ended a run %" PRIu64 ", orders to read again %" PRIu64
           ", victims held for one %" PRIu64 "; victims taken by force in an outage %" PRIu64
           ", ended without a checkpoint and without force %" PRIu64 ", attempts extended %" PRIu64
           ", put off %" PRIu64 "; decisions computed again %" PRIu64
           "; outages found out in time %" PRIu64 "; bits of a state flipped %" PRIu64
           ", noticed by the member %" PRIu64 "; lines of telemetry that make no sense %" PRIu64
           ", older folders put back at the end %" PRIu64 "; complete of one label %" PRIu64
           ", of a step that was agreed %" PRIu64 ", %" PRIu64 " of them by ranks that have streams"
           " (told so %" PRIu64 " times, %" PRIu64
           " faults meanwhile), with which a job ended %" PRIu64 "; nodes off by a witness %" PRIu64
           ", cluster pauses %" PRIu64 ", drills %" PRIu64 ", passed %" PRIu64 ", faults %" PRIu64
           ", in a calm cluster %" PRIu64 "; commands that save %" PRIu64 ", that have %" PRIu64
           ", told to end %" PRIu64 "; without any member the most in a journal %" PRIu64
           " B, reports kept %" PRIu64 ", sensitive jobs registered %" PRIu64 "\n",
           board->operated, board->nodes_removed, board->stale_reads, board->watched,
           board->backups, board->undeleted, board->removed_by_agents, board->over_quota,
           board->let_go_early, board->late, board->orphans_shown, board->continued,
           board->comebacks, board->spares, board->hangs, board->hangs_told, board->hang_ends,
           board->read_again, board->held, board->forced, board->unforced_ends, board->extended,
           board->deferred, board->recomputed, board->outages, board->flips, board->flips_told,
           board->odd_samples, board->older, board->labelled, board->met, board->met_on_streams,
           board->told_steps, board->barrier_faults, board->stood_still, board->witnessed,
           board->cluster_pauses, board->drills, board->drills_passed, board->drill_faults,
           board->drill_trials, board->commands[COMMAND_BEGAN], board->commands[COMMAND_SAVED],
           board->commands[COMMAND_TOLD_TO_END], board->journal_bytes, board->kept_reports,
           board->sensitive);
    printf("sum of traces %016" PRIx64 "; ", board->traces);
    printf("most ms until a leader after healing %" PRIu64
           "; failover after a leader's death: mean %" PRIu64 ", most %" PRIu64 " (elected %" PRIu64
           "); a member was behind for %" PRIu64 "; leaders that stood still %" PRIu64
           ", whose disk got slow %" PRIu64 ", that never served %" PRIu64
           " (most until another one did %" PRIu64 "); %" PRIu64
           " evaluations of running jobs, the longest wait for one %" PRIu64 "\n",
           board->leader_us_max / 1000,
           board->done == 0 ? 0 : board->failover_us / board->done / 1000,
           board->failover_us_max / 1000, board->elected_us_max / 1000, board->lag_us_max / 1000,
           board->standstills, board->stragglers, board->unready, board->unready_us_max / 1000,
           board->evaluations, board->evaluation_us_max / 1000);
    times_print("until all members were equal after healing", &board->equal);
    times_print("until all had settled", &board->settled);
    for (uint64_t i = 0; i < board->failed && i < FAILED_KEPT_MAX; i++)
        printf("failed: SEED=%" PRIu64 " REPLICAS=%u\n", board->failed_seeds[i], plan->replicas);
}

static int usage(const char *what, const char *why)
{
    fprintf(stderr,
            "usage: simulate [seed=N] [runs=N] [jobs=N] [replicas=3|5] [twice=1] [expect=1] "
            "[grown=1] [drilled=1] [ranked=1] [returned=1] [hanging=1] [commanded=1] [quiet=1] "
            "[option=value...]\nnot "
            "understood: %s: %s\n",
            what, why);
    return 2;
}

static const char *plan_limits(const struct plan *plan)
{
    static char why[80];

    if (plan->jobs >= 1 && plan->jobs <= JOBS_MAX && plan->replicas >= 1 &&
        plan->replicas <= WORLD_MEMBERS_MAX)
        return NULL;
    snprintf(why, sizeof(why), "jobs are 1 to %d, replicas 1 to %d", JOBS_MAX, WORLD_MEMBERS_MAX);
    return why;
}

/* NULL: taken; otherwise what is wrong with it. */
static const char *plan_set(struct plan *plan, const char *text)
{
    struct world_options scratch;
    const char *why;

    if (sscanf(text, "seed=%" SCNu64, &plan->first) == 1 ||
        sscanf(text, "runs=%" SCNu64, &plan->runs) == 1 ||
        sscanf(text, "jobs=%u", &plan->jobs) == 1 ||
        sscanf(text, "twice=%" SCNu64, &plan->twice) == 1 ||
        sscanf(text, "replicas=%u", &plan->replicas) == 1)
        return plan_limits(plan);
    if (strcmp(text, "expect=1") == 0) {
        plan->expect = true;
    } else if (strcmp(text, "grown=1") == 0) {
        plan->grown = true;
    } else if (strcmp(text, "drilled=1") == 0) {
        plan->drilled = true;
    } else if (strcmp(text, "ranked=1") == 0) {
        plan->ranked = true;
    } else if (strcmp(text, "hanging=1") == 0) {
        plan->hung = true;
    } else if (strcmp(text, "commanded=1") == 0) {
        plan->commanded = true;
    } else if (strcmp(text, "returned=1") == 0) {
        plan->returned = true;
    } else if (strcmp(text, "quiet=1") == 0) {
        plan->quiet = true;
    } else {
        why = world_options_set(&scratch, text);
        if (why != NULL)
            return why;
        plan->sets[plan->set_count++] = text;
    }
    return NULL;
}

struct floor {
    const char *what;
    uint64_t count, least;
};

/* What runs are drawn for has happened so often at the least: checks of what never happens hold. */
static bool floors_hold(const struct floor *floors, size_t count)
{
    bool all = true;

    for (size_t i = 0; i < count; i++) {
        if (floors[i].count >= floors[i].least)
            continue;
        fprintf(stderr, "%s: %" PRIu64 ", %" PRIu64 " are to be\n", floors[i].what, floors[i].count,
                floors[i].least);
        all = false;
    }
    return all;
}

static bool ranks_were_drawn(const struct board *board)
{
    const struct floor floors[] = {
        {"barriers of ranks with streams", board->met_on_streams, 8},
        {"jobs that ended with their checkpoint", board->stood_still, 20},
        {"runs from a checkpoint", board->restores, 20},
        {"runs from all parts of one", board->whole, 8},
        {"runs from one on another number of nodes", board->spread, 1},
    };

    return floors_hold(floors, ARRAY_COUNT(floors));
}

static bool jobs_hung(const struct board *board, uint64_t runs)
{
    const struct floor floors[] = {
        {"jobs that were told HUNG", board->hangs_told, (runs + 2) / 3},
        {"runs that ended for it", board->hang_ends, runs / 8},
    };

    return floors_hold(floors, ARRAY_COUNT(floors));
}

/* ... in any runs, when there are many. */
static bool all_were_drawn(const struct board *board, uint64_t runs)
{
    const struct floor floors[] = {
        {"sensitive jobs registered", board->sensitive, runs / 4},
        {"runs from a checkpoint", board->restores, runs / 4},
    };

    return runs < 200 || floors_hold(floors, ARRAY_COUNT(floors));
}

static bool commands_saved(const struct board *board, uint64_t runs)
{
    const struct floor floors[] = {
        {"commands that saved", board->commands[COMMAND_SAVED], runs},
        {"commands that were told to end", board->commands[COMMAND_TOLD_TO_END], runs / 4},
    };

    return floors_hold(floors, ARRAY_COUNT(floors));
}

static bool jobs_came_back(const struct board *board)
{
    const struct floor floors[] = {
        {"restarts by the broker", board->comebacks, 40},
        {"spares that these took", board->spares, 4},
    };

    return floors_hold(floors, ARRAY_COUNT(floors));
}

int main(int argc, char **argv)
{
    struct plan plan = {.first = 1, .runs = 1, .replicas = 3, .jobs = 1};
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec begin, end;
    bool verbose = false;

    CHECK(board != MAP_FAILED);
    plan.sets = check_calloc((size_t)argc, sizeof(*plan.sets));
    for (int i = 1; i < argc; i++) {
        const char *why = plan_set(&plan, argv[i]);

        if (why != NULL)
            return usage(argv[i], why);
        verbose |= strcmp(argv[i], "verbose=1") == 0;
    }
    log_set_level(verbose ? LOG_LEVEL_INFO : (enum log_level)(LOG_LEVEL_ERROR + 1));
    board->next = plan.first;
    clock_gettime(CLOCK_MONOTONIC_RAW, &begin);
    if (plan.runs == 1 && plan.jobs == 1 && !plan.expect)
        work(&plan, board, 0);
    else
        run_all(&plan, board);
    clock_gettime(CLOCK_MONOTONIC_RAW, &end);
    if (!plan.quiet)
        summary(&plan, board,
                (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    free(plan.sets);
    if (plan.drilled && 2 * board->drill_trials < plan.runs) {
        fprintf(stderr, "drills ended in a calm cluster in %" PRIu64 " runs of %" PRIu64 "\n",
                board->drill_trials, plan.runs);
        return 1;
    }
    if (plan.grown && board->grown_and_back == 0) {
        fprintf(stderr, "no run grew by two voters and shrank again\n");
        return 1;
    }
    if (!plan.expect && !all_were_drawn(board, plan.runs))
        return 1;
    if ((plan.ranked && !ranks_were_drawn(board)) || (plan.returned && !jobs_came_back(board)) ||
        (plan.hung && !jobs_hung(board, plan.runs)) ||
        (plan.commanded && !commands_saved(board, plan.runs)))
        return 1;
    return (board->failed > 0) == plan.expect ? 0 : 1;
}
