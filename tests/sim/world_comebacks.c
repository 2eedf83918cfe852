/* Jobs that the broker restarts by itself: I61, I62, L10. The rules of fsm/restart.h are told again
 * here, from the events alone.
 *
 * Flow     a scheduler draws at a registration who restarts the job. Events tell when it stopped,
 *          what came of it since, and each restart by the broker. After healing: for which jobs
 *          enough ckpt-runs wait on nodes that may take them, and since when.
 * Shapes   one record per job.
 * Units    the state's clock for pauses; the simulator's for how late a restart is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/ends.h"
#include "fsm/restart.h"
#include "src/base/check.h"
#include "src/broker/replica/replica.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name
#define REASON(name)     CKPT__V1__REASON__REASON_##name

enum {
    REQUEUES_MAX = 3,        /* a registration asks for up to so many */
    LATE_US = 6000000,       /* from when it may be restarted until it is */
    LOOKED_US = 500000,      /* a look that is older tells nothing */
    EXCLUDED_MS = 120000,    /* a node on which the job failed twice in a row */
    PAUSE_AWAITED_MS = 15000 /* a longer one is not waited for at the end */
};

struct comeback {
    bool never;          /* its requeue policy */
    bool taken;          /* a preemption has, since it began */
    bool yields;         /* a checkpoint of it is for others, who may come by no preemption */
    bool over;           /* it failed more often than it may, since its last complete checkpoint */
    bool by_broker;      /* its run began so */
    uint32_t requeues;   /* after failures, since its last complete checkpoint */
    uint32_t chosen;     /* restarts by the broker, since then */
    uint32_t joined;     /* agents: new to it in its last restart */
    uint64_t run;        /* of its parts, when the broker restarted it last */
    uint64_t stopped_ms; /* 0: it has not */
    Ckpt__V1__Reason reason;
    uint32_t state;  /* in which it has stopped */
    uint64_t due_us; /* since when it is to be restarted now; 0: it is not */
};

struct comeback_checks {
    struct comeback jobs[WORLD_JOBS_MAX];
    uint32_t max_requeue;                /* the policy's, before this entry */
    uint64_t freed_ms[WORLD_AGENTS_MAX]; /* a preemption freed it, nobody came since; 0: none */
    uint64_t looked_us, last_us;
    char unsettled[160];
};

void comebacks_init(struct world *world)
{
    world->comebacks = check_calloc(1, sizeof(*world->comebacks));
}

void comebacks_close(struct world *world)
{
    free(world->comebacks);
}

void comebacks_draw(struct world *world, struct world_job *job, Ckpt__V1__AllocationSpec *spec)
{
    struct sim *sim = world->sim;

    spec->requeue_policy = (Ckpt__V1__RequeuePolicy)sim_random(sim, 4);
    job->comes_back =
        world->options.comes_back > 0 && sim_random(sim, 100) < world->options.comes_back;
    spec->restart = job->comes_back ? CKPT__V1__RESTART_MODE__RESTART_MODE_AUTO
                                    : CKPT__V1__RESTART_MODE__RESTART_MODE_MANUAL;
    hangs_draw(world, job, spec); /* a policy that is drawn again restarts more jobs */
    if (!job->comes_back)
        return;
    if (sim_chance(sim, 3))
        spec->restart = CKPT__V1__RESTART_MODE__RESTART_MODE_UNSPECIFIED; /* the default */
    if (sim_chance(sim, 2)) /* else a failure of its application is its end most of the time */
        spec->requeue_policy = CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ALWAYS;
    if (sim_chance(sim, 2))
        spec->max_requeue = 1 + (uint32_t)sim_random(sim, REQUEUES_MAX);
    world->comebacks->jobs[job - world->jobs].never =
        spec->requeue_policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER;
}

/* ---- events ---- */

static uint64_t pause_ms(const struct comeback *comeback)
{
    uint64_t ms = FSM_RESTART_BACKOFF_MS;

    if (comeback->chosen == 0)
        return 0;
    for (uint32_t i = 1; i < comeback->chosen && ms < FSM_RESTART_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < FSM_RESTART_BACKOFF_MAX_MS ? ms : FSM_RESTART_BACKOFF_MAX_MS;
}

/* The limit may have been set in this very entry. */
static bool too_often(const struct world *world, const struct fsm *fsm, const char *id,
                      uint32_t requeues)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, id);
    uint32_t limit = fsm_policy(fsm)->max_requeue;

    if (limit < world->comebacks->max_requeue)
        limit = world->comebacks->max_requeue;
    return requeues > (view != NULL && view->max_requeue != 0 ? view->max_requeue : limit);
}

static uint32_t new_nodes(const struct world *world, const struct fsm *fsm, const char *id)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, id);
    uint32_t mask = 0;

    for (uint32_t i = 0; view != NULL && i < view->node_count; i++) {
        int agent = world_agent_number(fsm_node_name(fsm, view->nodes[i].node_slot));
        CHECK(agent >= 0);
        if (!state_checks_has_node(world, id, (unsigned)agent))
            mask |= UINT32_C(1) << agent;
    }
    return mask;
}

/* A victim that shrinks keeps some of them, which are in use then all the same. */
static void job_freed(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, event->allocation_id);

    for (uint32_t i = 0; view != NULL && i < view->node_count; i++) {
        int agent = world_agent_number(fsm_node_name(fsm, view->nodes[i].node_slot));
        CHECK(agent >= 0);
        world->comebacks->freed_ms[agent] = event->at_ms;
    }
}

/* Nodes that join it later are not told here: they would be free more often, never less. */
static void job_placed(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, event->allocation_id);

    for (uint32_t i = 0; view != NULL && i < view->node_count; i++) {
        int agent = world_agent_number(fsm_node_name(fsm, view->nodes[i].node_slot));
        CHECK(agent >= 0);
        world->comebacks->freed_ms[agent] = 0;
    }
}

static void job_moved(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event,
                      struct comeback *comeback)
{
    if (state_holds_nodes(event->old_state) && !state_holds_nodes(event->new_state)) {
        comeback->stopped_ms = event->at_ms;
        comeback->reason = event->reason;
        comeback->state = event->new_state;
        if (comeback->taken || comeback->yields)
            job_freed(world, fsm, event);
        if (event->new_state == ALLOCATION(REQUEUED) && event->reason != REASON(MIGRATED)) {
            comeback->requeues++;
            comeback->over = too_often(world, fsm, event->allocation_id, comeback->requeues);
        }
    }
    if (!state_holds_nodes(event->old_state) && state_holds_nodes(event->new_state)) {
        comeback->joined = new_nodes(world, fsm, event->allocation_id);
        comeback->by_broker = comeback->yields = false;
        job_placed(world, fsm, event);
    }
}

/* Nodes that came in the same entry after the restart have a later one. */
static uint64_t first_run(const struct fsm *fsm, const char *id)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, id);
    uint64_t run = UINT64_MAX;

    for (uint32_t i = 0; view != NULL && i < view->node_count; i++)
        run = view->nodes[i].run < run ? view->nodes[i].run : run;
    return run;
}

/* Two failures in a row there, without progress between, and the last one is not long ago. */
static bool is_excluded(const struct fsm_allocation *view, const struct fsm_node *node,
                        uint64_t now_ms)
{
    return view->cause_count >= 2 && strcmp(view->cause_node_id, node->id) == 0 &&
           now_ms < view->cause_at_ms + EXCLUDED_MS;
}

/* I62: not where it failed twice, and not on the nodes alone that it was moved away from. */
static void chosen_nodes(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event,
                         const struct comeback *comeback)
{
    const struct fsm_allocation *view = fsm_allocation_find(fsm, event->allocation_id);

    for (uint32_t i = 0; view != NULL && i < view->node_count; i++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, view->nodes[i].node_slot);

        if (is_excluded(view, node, event->at_ms))
            world_violation(world, "I62", "%s is restarted on %s, where it failed %u times",
                            view->id, node->id, view->cause_count);
    }
    if (comeback->reason == REASON(MIGRATED) && comeback->joined == 0)
        world_violation(world, "I62", "%s was moved, and is restarted where it was",
                        event->allocation_id);
}

/* I62: it is the broker's to restart, within its limit and not before its pause is over. */
static void restart_chosen(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event,
                           const struct world_job *job, struct comeback *comeback)
{
    uint64_t pause = pause_ms(comeback);

    if (!job->comes_back || job->sensitive || comeback->never ||
        (comeback->state != ALLOCATION(REQUEUED) && !comeback->taken))
        world_violation(world, "I62",
                        "%s, which stopped in state %u, is not the broker's to restart", job->id,
                        comeback->state);
    if (comeback->over)
        world_violation(world, "I62",
                        "%s is restarted by the broker after %u failures without a complete "
                        "checkpoint, which are too many",
                        job->id, comeback->requeues);
    if (event->at_ms < comeback->stopped_ms + pause - pause / 4)
        world_violation(world, "I62",
                        "%s is restarted by the broker %" PRIu64 " ms after it stopped, and %u "
                        "times before without a complete checkpoint",
                        job->id, event->at_ms - comeback->stopped_ms, comeback->chosen);
    if (event->number != ++comeback->chosen)
        world_violation(world, "I62", "%s was restarted %u times by the broker, not %" PRIu64,
                        job->id, comeback->chosen, event->number);
    chosen_nodes(world, fsm, event, comeback);
    world->comebacks->last_us = sim_now_us(world->sim);
    comeback->by_broker = true;
    comeback->run = first_run(fsm, job->id);
    comeback->taken = false;
    world->counts.comebacks++;
    world->counts.spares += (unsigned)__builtin_popcount(comeback->joined);
}

static bool is_for_others(const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);

    return checkpoint != NULL && checkpoint->purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT;
}

void comebacks_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct world_job *job = job_find(world, event->allocation_id);
    struct comeback *comeback;

    if (job == NULL)
        return;
    comeback = &world->comebacks->jobs[job - world->jobs];
    if (event->kind == EVENT(ALLOCATION_STATE))
        job_moved(world, fsm, event, comeback);
    else if (event->kind == EVENT(ALLOCATION_REGISTERED))
        job_placed(world, fsm, event);
    else if (event->kind == EVENT(PREEMPTION)) {
        comeback->taken = true;
        job_freed(world, fsm, event);
    } else if (event->kind == EVENT(RESTART_CHOSEN))
        restart_chosen(world, fsm, event, job, comeback);
    else if (event->kind == EVENT(CHECKPOINT_STATE)) {
        comeback->yields |= is_for_others(fsm, event->checkpoint_id);
        if (event->new_state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE)
            return;
        comeback->requeues = comeback->chosen = 0;
        comeback->over = false;
    }
}

void comebacks_applied(struct world *world, const struct fsm *fsm)
{
    world->comebacks->max_requeue = fsm_policy(fsm)->max_requeue;
}

/* A node that joins it later has another one. */
bool comebacks_is_run(const struct world *world, const struct world_job *job, unsigned agent,
                      uint64_t run)
{
    const struct comeback *comeback = &world->comebacks->jobs[job - world->jobs];

    return comeback->by_broker && run == comeback->run &&
           state_checks_has_part(world, job->id, agent, run);
}

/* ---- L10 ---- */

static bool has_node(const struct fsm_allocation *view, uint32_t slot)
{
    for (uint32_t i = 0; i < view->node_count; i++)
        if (view->nodes[i].node_slot == slot)
            return true;
    return false;
}

/* Nodes that a preemption freed are somebody else's, who has not come; runs are shorter than they
 * are kept. */
static bool may_take(struct world *world, const struct fsm *fsm, const struct fsm_allocation *view,
                     unsigned agent, const struct fsm_node *node)
{
    const struct comeback *comeback =
        &world->comebacks->jobs[job_find(world, view->id) - world->jobs];
    bool own = has_node(view, node->slot);

    if (world->options.domains > 0)
        return fsm_restart_node_status(fsm, view, node,
                                       replica_state_ms(members_leader(world)->broker.replica)) ==
               FSM_OK;
    if (node->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY)
        return false;
    if (own && comeback->reason == REASON(MIGRATED) && view->node_count == 1)
        return false;
    if (is_excluded(view, node, replica_state_ms(members_leader(world)->broker.replica)))
        return false;
    return world->comebacks->freed_ms[agent] == 0 &&
           (!comeback->taken || node->allocation_count == 0);
}

/* None: a job that moved finds no node that it did not have. */
static uint32_t count_waits(struct world *world, const struct fsm *fsm,
                            const struct fsm_allocation *view)
{
    const struct comeback *comeback =
        &world->comebacks->jobs[job_find(world, view->id) - world->jobs];
    uint32_t count = 0, others = 0;

    for (unsigned agent = 0; agent < world->options.shipping_agents; agent++) {
        const struct fsm_node *node = fsm_node_find(fsm, world_agent_name(agent));

        if (node == NULL || !world_shipping_waits(agent, view->id) ||
            !may_take(world, fsm, view, agent, node))
            continue;
        count++;
        others += !has_node(view, node->slot);
    }
    return comeback->reason == REASON(MIGRATED) && others == 0 ? 0 : count;
}

/* A job that cannot begin from its checkpoints waits for a person, and so does one that may run on
 * where nobody hears it. */
static bool can_begin(const struct fsm *fsm, const struct fsm_allocation *view, uint32_t waits)
{
    const struct fsm_checkpoint *point = fsm_restart_point(fsm, view->id, 0);
    uint32_t most = waits < view->node_count ? waits : view->node_count;
    bool own = view->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN ||
               view->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED;
    uint32_t fewest = view->reactive_min_nodes != 0 && (point == NULL || !own) &&
                              view->reactive_min_nodes < view->node_count
                          ? view->reactive_min_nodes
                          : view->node_count;

    if (fsm_allocation_silent(fsm, view) != NULL || fsm_destination(fsm, view) == NULL ||
        (view->continued_by[0] != '\0' && view->last_complete_id == 0)) /* by another job */
        return false;
    if (point == NULL) /* a checkpoint of another job is not given up by itself */
        return view->complete_count == 0 && view->continues[0] == '\0' && waits >= fewest;
    return waits >= fewest && (!own || point->shard_count == most);
}

static bool is_due(struct world *world, unsigned number, uint64_t *ret_left_ms)
{
    const struct world_job *job = &world->jobs[number];
    const struct comeback *comeback = &world->comebacks->jobs[number];
    const struct world_member *leader = members_leader(world);
    const struct fsm *fsm = member_fsm(leader);
    const struct fsm_allocation *view = fsm_allocation_find(fsm, job->id);
    uint64_t now_ms = replica_state_ms(leader->broker.replica);
    uint64_t due_ms = comeback->stopped_ms + pause_ms(comeback);

    if (!job->comes_back || job->sensitive || comeback->never || view == NULL ||
        !(view->state == ALLOCATION(REQUEUED) ||
          (view->state == ALLOCATION(SUSPENDED) && comeback->taken &&
           view->reason != REASON(NONE))) || /* else somebody else suspended it */
        !can_begin(fsm, view, count_waits(world, fsm, view)))
        return false;
    *ret_left_ms = now_ms < due_ms ? due_ms - now_ms : 0;
    return true;
}

uint64_t comebacks_last_us(const struct world *world)
{
    return world->comebacks->last_us;
}

const char *comebacks_unsettled(struct world *world)
{
    struct comeback_checks *checks = world->comebacks;
    uint64_t now_us = sim_now_us(world->sim), left_ms = 0;
    bool fresh = now_us - checks->looked_us <= LOOKED_US;

    checks->unsettled[0] = '\0';
    if (members_leader(world) == NULL)
        return checks->unsettled;
    checks->looked_us = now_us;
    for (unsigned i = 0; i < world->job_count; i++) {
        struct comeback *comeback = &checks->jobs[i];
        bool due = is_due(world, i, &left_ms);

        if (due &&
            (left_ms == 0 || (left_ms <= PAUSE_AWAITED_MS && world->counts.converge_us == 0)))
            snprintf(checks->unsettled, sizeof(checks->unsettled),
                     "%s is to be restarted by the broker in %" PRIu64 " ms", world->jobs[i].id,
                     left_ms);
        if (!due || left_ms > 0)
            comeback->due_us = 0;
        else if (comeback->due_us == 0 || !fresh)
            comeback->due_us = now_us;
        else if (now_us > comeback->due_us + LATE_US)
            world_violation(world, "L10",
                            "enough nodes wait for %s, and the broker does not restart it",
                            world->jobs[i].id);
    }
    return checks->unsettled;
}
