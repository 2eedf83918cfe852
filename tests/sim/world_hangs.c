/* Jobs of which no rank steps any more: I66, I67.
 *
 * Flow     a rank that says a step may be the last one. Its job hangs from then on: all ranks of
 *          the run on all nodes, or those of one node alone while the others step. A job that says
 *          `on_hang` restart, and may be queued again, hangs until its next run, any other one for
 *          some seconds. When HUNG is told, the job must have been as quiet as the leader says.
 *          After healing a job that hangs must be restarted, if the agents have heard a step of it.
 * Shapes   one record per job. Quiet times that are over are kept where they were long, the latest
 *          QUIETS_MAX.
 * Units    the simulator's clock.
 * Absent   hangs of which no agent has heard a step since it began: nobody can know of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fsm/hang.h"
#include "src/base/check.h"
#include "src/broker/replica/replica.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name

enum {
    QUIETS_MAX = 16,
    QUIET_US = 800000,     /* shorter ones are not kept */
    SLACK_US = 400000,     /* a word is under way for so long */
    TOLD_US = 20000000,    /* the leader may still tell of words that are so old */
    MOST_US = 25000000,    /* a hang that ends by itself does so within that */
    GIVEN_UP_US = 8000000, /* after healing, of a hang that cannot be told */
    LATE_US = 15000000,    /* looks, a leader that begins anew, an order, its grace */
    PARTLY_IN = 3,         /* one hang in so many */
    AWAITED_US = 60000000  /* a limit that is longer is not waited for */
};

struct quiet {
    uint64_t from_us, until_us;
};

struct hung_job {
    bool restart;       /* its run is to be ended for a hang */
    bool hangs, partly; /* partly: on one node alone, which is no hang of the job */
    unsigned agent;     /* ... this one */
    uint64_t run;       /* the highest of its parts that has said a step, or hangs */
    uint64_t until_us;  /* hangs: 0: until its next run */
    uint64_t said_us;   /* a rank said a step last, in this run; 0: none did */
    struct quiet quiets[QUIETS_MAX];
    unsigned quiet_count;
    uint64_t due_us;   /* since when it is to be restarted; 0: it is not */
    uint64_t undue_us; /* after healing: since when it hangs and cannot be told */
};

struct hang_checks {
    struct hung_job jobs[WORLD_JOBS_MAX];
    char unsettled[128];
};

void hangs_init(struct world *world)
{
    world->hangs = check_calloc(1, sizeof(*world->hangs));
}

void hangs_close(struct world *world)
{
    free(world->hangs);
}

static struct hung_job *hung_job(struct world *world, const char *id)
{
    const struct world_job *job = job_find(world, id);

    return job == NULL ? NULL : &world->hangs->jobs[job - world->jobs];
}

void hangs_draw(struct world *world, struct world_job *job, Ckpt__V1__AllocationSpec *spec)
{
    if (world->options.hung == 0)
        return;
    spec->on_hang = (Ckpt__V1__OnHang)sim_random(world->sim, 3);
    if (sim_chance(world->sim, 2))
        spec->on_hang = CKPT__V1__ON_HANG__ON_HANG_RESTART;
    world->hangs->jobs[job - world->jobs].restart =
        spec->on_hang == CKPT__V1__ON_HANG__ON_HANG_RESTART && !job->sensitive &&
        spec->requeue_policy != CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER;
}

/* ---- what happens ---- */

static void run_begins(struct hung_job *job, uint64_t run)
{
    *job = (struct hung_job){.restart = job->restart, .run = run};
}

bool hangs_now(struct world *world, const char *id, uint64_t run)
{
    struct hung_job *job = hung_job(world, id);

    if (job == NULL || !job->hangs || run > job->run)
        return false;
    if (job->until_us != 0 && sim_now_us(world->sim) >= job->until_us)
        job->hangs = false;
    return job->hangs;
}

bool hangs_there(struct world *world, const char *id, unsigned agent)
{
    const struct hung_job *job = hung_job(world, id);

    return job != NULL && (!job->partly || job->agent == agent);
}

void hangs_begin(struct world *world, const char *id, unsigned agent)
{
    struct hung_job *job = hung_job(world, id);

    CHECK(job != NULL && !job->hangs);
    job->hangs = true;
    job->partly = sim_chance(world->sim, PARTLY_IN);
    job->agent = agent;
    job->until_us = job->restart && !job->partly && world->phase == WORLD_CHAOS
                        ? 0
                        : sim_now_us(world->sim) + 1 + sim_random(world->sim, MOST_US);
    world->counts.hangs++;
}

/* A rank said it on an open stream. */
bool hangs_stepped(struct world *world, const char *id, uint64_t run)
{
    struct hung_job *job = hung_job(world, id);
    uint64_t now_us = sim_now_us(world->sim);

    if (job == NULL || run < job->run)
        return false;
    if (run > job->run)
        run_begins(job, run);
    if (job->said_us != 0 && now_us - job->said_us >= QUIET_US)
        job->quiets[job->quiet_count++ % QUIETS_MAX] = (struct quiet){job->said_us, now_us};
    job->said_us = now_us;
    return !job->hangs && world->phase == WORLD_CHAOS &&
           sim_random(world->sim, 1000) < world->options.hung;
}

/* Another program begins, of this run or of a later one: it does not hang. */
void hangs_started(struct world *world, const char *id)
{
    struct hung_job *job = hung_job(world, id);

    if (job != NULL)
        job->hangs = false;
}

/* ---- I66 ---- */

static bool was_quiet(const struct world *world, const struct hung_job *job, uint64_t quiet_us)
{
    uint64_t now_us = sim_now_us(world->sim);

    if (job->said_us == 0 || now_us - job->said_us + SLACK_US >= quiet_us)
        return true;
    for (unsigned i = 0; i < QUIETS_MAX && i < job->quiet_count; i++)
        if (job->quiets[i].until_us - job->quiets[i].from_us + SLACK_US >= quiet_us &&
            job->quiets[i].until_us + TOLD_US >= now_us)
            return true;
    return false;
}

/* I67: it is queued again, within its limit, which may have been set in this very entry. */
static void run_ended(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event,
                      const struct hung_job *job)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, event->allocation_id);

    world->counts.hang_ends++;
    if (event->new_state == ALLOCATION(REQUEUED) || !job->restart || view == NULL)
        return;
    if (view->requeue_count <
        (view->max_requeue != 0 ? view->max_requeue : fsm_policy(fsm)->max_requeue))
        world_violation(world, "I67", "%s hung, and is not queued again after %u times",
                        event->allocation_id, view->requeue_count);
}

void hangs_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    struct hung_job *job = hung_job(world, event->allocation_id);

    if (job == NULL)
        return;
    if (event->kind == EVENT(ALLOCATION_STATE) && event->reason == CKPT__V1__REASON__REASON_HUNG &&
        !state_holds_nodes(event->new_state))
        run_ended(world, fsm, event, job);
    if (event->kind != EVENT(HUNG))
        return;
    world->counts.hangs_told++;
    if (!was_quiet(world, job, event->number * 1000))
        world_violation(
            world, "I66",
            "%s is told HUNG after %" PRIu64 " ms, and a rank of it said a step %" PRIu64 " ms ago",
            event->allocation_id, event->number, (sim_now_us(world->sim) - job->said_us) / 1000);
}

/* ---- I67 ---- */

/* It hangs for ever, and the leader can know: an agent has heard a step of it. ret_limit_us: from
 * now on, until it is restarted. */
static bool is_due(const struct fsm *fsm, const struct hung_job *job,
                   const struct fsm_allocation *view, uint64_t *ret_limit_us)
{
    uint64_t gap_ms, longest_ms = 0;
    bool known = false;

    if (view == NULL || fsm_level(fsm) < 2 || view->terminating ||
        (!fsm_hung(view) && fsm_hang_possible(fsm, view) != FSM_OK))
        return false;
    for (uint32_t i = 0; i < view->node_count; i++) {
        int agent = world_agent_number(fsm_node_name(fsm, view->nodes[i].node_slot));

        CHECK(agent >= 0);
        if (view->nodes[i].run > job->run)
            return false;
        if (!world_shipping_pace((unsigned)agent, view->id, &gap_ms))
            continue;
        known = true;
        longest_ms = gap_ms > longest_ms ? gap_ms : longest_ms;
    }
    *ret_limit_us = fsm_hang_limit_ms(fsm_policy(fsm), longest_ms) * 1000 + LATE_US;
    return known && *ret_limit_us <= AWAITED_US;
}

/* Nobody can know of it, as after the restart of an agent, or it is asked for checkpoints all the
 * time: it ends as if somebody had looked. */
static void give_up(const struct world *world, struct hung_job *job)
{
    uint64_t now_us = sim_now_us(world->sim);

    job->due_us = 0;
    if (job->undue_us == 0)
        job->undue_us = now_us;
    else if (now_us > job->undue_us + GIVEN_UP_US || now_us > world->healed_us + AWAITED_US)
        job->hangs = false;
}

const char *hangs_unsettled(struct world *world)
{
    struct hang_checks *checks = world->hangs;
    const struct world_member *leader = members_leader(world);
    const struct fsm *fsm = leader == NULL ? NULL : member_fsm(leader);

    checks->unsettled[0] = '\0';
    for (unsigned i = 0; i < world->job_count && fsm != NULL; i++) {
        struct hung_job *job = &checks->jobs[i];
        const char *id = world->jobs[i].id;
        uint64_t limit_us;

        if (!hangs_now(world, id, job->run) || job->until_us != 0)
            continue;
        if (!is_due(fsm, job, fsm_allocation_find(fsm, id), &limit_us)) {
            give_up(world, job);
            continue;
        }
        snprintf(checks->unsettled, sizeof(checks->unsettled), "%s hangs, and is not restarted",
                 id);
        job->undue_us = 0;
        if (job->due_us == 0)
            job->due_us = sim_now_us(world->sim);
        else if (sim_now_us(world->sim) > job->due_us + limit_us)
            world_violation(world, "I67", "%s", checks->unsettled);
    }
    return checks->unsettled;
}
