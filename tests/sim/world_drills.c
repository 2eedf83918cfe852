/* Drills that an operator runs, in the middle of faults that nobody planned; and one of each kind
 * in a cluster that has healed.
 *
 * Flow     a desk of its own begins a drill now and then, of any kind. The members carry it out as
 *          they ship (src/broker/drill); the faults reach the world by the table of faults.h: a
 *          process dies, stands still, is cut off from the others, or restores a backup. At the
 *          end of the run drills_trial() begins one in a calm cluster, which must pass.
 * Checks   by the events of the history: one at a time, each move allowed and not before its time,
 *          one end for each. By the members: the member that the record means fails, in its state
 *          and once. A cut ends by the member's own timer, and lasts no longer than the drill as
 *          this member knows it. After healing a drill moves on when its time is over, and every
 *          member has the same reports, each once.
 * Shapes   DRILLS_MAX drills of a run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "fsm/drill.h"
#include "src/base/check.h"
#include "src/broker/drill/drills.h"
#include "tests/sim/world_internal.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name
#define KIND(name)  CKPT__V1__DRILL_KIND__DRILL_KIND_##name

enum {
    DRILLS_MAX = 256,
    CALL_MS = 1000,
    DURATION_MIN_MS = FSM_DRILL_MIN_MS,
    DURATION_MOST_MS = 8000,
    TRIAL_MS = 20000, /* probes find an outage, and its end, in half of it */
    RESTORE_MOST_US = 2 * SECOND_US,
    JOB_IN = 3,           /* one drill in so many is with a job */
    RESTORE_FAILS_IN = 4, /* one backup in so many cannot be restored */
    CUT_SLACK_US = 100000,
    OVERDUE_US = 5 * SECOND_US,
    OVERDUE_UNRULY_US = 40 * SECOND_US, /* a majority may have to be filled by snapshots first */
    ANSWER_MAX_US = 5 * SECOND_US,
    TRIAL_SLACK_US = 10 * SECOND_US,
    /* nobody serves: a death is noticed at once (L1), a standstill after an election timeout */
    AWAY_DEATH_US = 700000,
    AWAY_HANG_US = 2700000
};

/* By the events. */
struct drill_seen {
    Ckpt__V1__DrillKind kind;
    Ckpt__V1__DrillState state;
    uint64_t member_id, term, duration_ms;
    uint64_t due_ms;        /* of the state: it moves on then */
    unsigned deaths, hangs; /* of processes */
    char target_id[32];
};

struct world_drills {
    struct world *world;
    struct client *client;
    bool calling;
    uint64_t requests;
    struct drill_seen seen[DRILLS_MAX];
    uint64_t count;
    uint64_t released_us[WORLD_TARGETS_MAX]; /* the last drill let go of the target's probes */
    struct {
        uint64_t leader, starts, id, since_us; /* number + 1; 0: nothing is overdue */
        Ckpt__V1__DrillState state;
    } overdue;
    uint64_t trial_id; /* the answer to the trial; 0: none yet, or it was refused */
};

static struct drill_seen *seen_last(struct world_drills *drills)
{
    return drills->count == 0 ? NULL : &drills->seen[drills->count - 1];
}

/* ---- faults ---- */

/* The member knows that it is meant, now and for the first time. */
static struct drill_seen *fault_check(struct world_member *member, Ckpt__V1__DrillKind kind)
{
    struct world *world = member->world;
    const struct raft *raft = &member_consensus(member)->raft;
    const Ckpt__V1__Drill *drill = fsm_drill_open(member_fsm(member));
    struct drill_seen *seen;

    if (drill == NULL || drill->state != STATE(FAULT) || drill->kind != kind)
        world_violation(world, "DRILL", "member %u fails, and knows of no drill that says so",
                        member->number + 1);
    CHECK(drill->drill_id <= world->drills->count);
    seen = &world->drills->seen[drill->drill_id - 1];
    if (seen->member_id != member->number + 1)
        world_violation(world, "DRILL", "member %u fails, drill %" PRIu64 " means %" PRIu64,
                        member->number + 1, drill->drill_id, seen->member_id);
    if ((raft->state == RAFT_LEADER) != (kind != KIND(MEMBER_LOSS)) ||
        raft->current_term != seen->term)
        world_violation(world, "DRILL",
                        "member %u fails, as %s in term %llu, drill %" PRIu64 " means term %" PRIu64
                        " and %s",
                        member->number + 1, raft->state == RAFT_LEADER ? "the leader" : "another",
                        raft->current_term, drill->drill_id, seen->term,
                        kind != KIND(MEMBER_LOSS) ? "its leader" : "a follower");
    if (seen->deaths + seen->hangs > 0)
        world_violation(world, "DRILL", "member %u fails for drill %" PRIu64 " once more",
                        member->number + 1, drill->drill_id);
    world->counts.drill_faults++;
    return seen;
}

static void on_death(void *data)
{
    struct world_member *member = data;

    if (member->up && member->drill.dies_in == member->starts)
        member_kill(member);
}

/* The process is gone when the event is over in which it kills itself. */
static void fault_die(void *context)
{
    struct world_member *member = context;

    fault_check(member, KIND(LEADER_KILL))->deaths++;
    member->drill.dies_in = member->starts;
    sim_after(member->world->sim, SIM_NODES_MAX, 0, on_death, member);
}

static void fault_hang(void *context, uint64_t duration_ms)
{
    struct world_member *member = context;
    struct drill_seen *seen = fault_check(member, KIND(LEADER_HANG));

    seen->hangs++;
    if (duration_ms > seen->duration_ms)
        world_violation(member->world, "DRILL",
                        "member %u is to stand still for %" PRIu64 " ms, the drill lasts %" PRIu64,
                        member->number + 1, duration_ms, seen->duration_ms);
    sim_pause(member->world->sim, member->number, 1000 * duration_ms);
}

/* Half of the drill's time, on a clock that runs 1 % wrong. */
static void fault_cut(void *context, bool off)
{
    struct world_member *member = context;

    if (off) {
        uint64_t on_us = 500 * fault_check(member, KIND(MEMBER_LOSS))->duration_ms;

        member->drill.cut_until_us =
            sim_now_us(member->world->sim) + on_us + on_us / 50 + CUT_SLACK_US;
    }
    cut_network_set(&member->drill.cut, off);
}

static void on_restored(void *data)
{
    struct world_member *member = data;
    bool fails =
        member->world->phase == WORLD_CHAOS && sim_chance(member->world->sim, RESTORE_FAILS_IN);

    member->drill.restored(member->drill.restored_data, fails ? "a file is damaged" : NULL);
}

/* A backup is tried in a process of its own, which ends with the member's. */
static bool fault_restore(void *context, void (*done)(void *data, const char *failure), void *data)
{
    struct world_member *member = context;
    struct sim *sim = member->world->sim;

    if (member->world->phase == WORLD_CHAOS && sim_chance(sim, RESTORE_FAILS_IN))
        return false; /* no backups are configured */
    member->world->counts.drill_faults++;
    member->drill.restored = done;
    member->drill.restored_data = data;
    sim_after(sim, member->number, 1 + sim_random(sim, RESTORE_MOST_US), on_restored, member);
    return true;
}

void drills_member_start(struct world_member *member)
{
    member->drill.faults = (struct fault_ops){.context = member,
                                              .die = fault_die,
                                              .hang = fault_hang,
                                              .cut = fault_cut,
                                              .restore = fault_restore};
    member->broker.drills = drills_new(&member->broker, &member->drill.faults, NULL);
}

void drills_member_end(struct world_member *member)
{
    drills_free(member->broker.drills);
    member->broker.drills = NULL;
}

/* ---- what the history says ---- */

static bool may_move(Ckpt__V1__DrillState from, Ckpt__V1__DrillState to)
{
    switch (to) {
    case STATE(FAULT):
        return from == STATE(ARMED);
    case STATE(SETTLING):
        return from == STATE(FAULT);
    case STATE(PASSED):
    case STATE(FAILED):
        return from == STATE(SETTLING);
    case STATE(ABORTED):
        return !fsm_drill_over(from);
    default:
        return false;
    }
}

static void note_begin(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    struct world_drills *drills = world->drills;
    const struct drill_seen *last = seen_last(drills);
    const Ckpt__V1__Drill *drill = fsm_drill_find(fsm, event->number);
    struct drill_seen *seen = &drills->seen[drills->count];

    if (last != NULL && !fsm_drill_over(last->state))
        world_violation(world, "DRILL", "drill %" PRIu64 " begins, and %" PRIu64 " is under way",
                        event->number, drills->count);
    if (event->number != drills->count + 1)
        world_violation(world, "DRILL", "drill %" PRIu64 " begins after %" PRIu64, event->number,
                        drills->count);
    if (drill == NULL)
        world_violation(world, "DRILL", "drill %" PRIu64 " begins without a record", event->number);
    CHECK(drills->count < DRILLS_MAX);
    drills->count++;
    *seen = (struct drill_seen){.kind = drill->kind,
                                .state = STATE(ARMED),
                                .member_id = drill->member_id,
                                .term = drill->term,
                                .duration_ms = drill->duration_ms,
                                .due_ms = event->at_ms + FSM_DRILL_LEAD_MS};
    snprintf(seen->target_id, sizeof(seen->target_id), "%s", drill->target_id);
    world->counts.drills++;
}

static void let_go(struct world *world, const struct drill_seen *seen)
{
    for (unsigned i = 0; i < world->options.targets; i++)
        if (strcmp(world->targets[i].id, seen->target_id) == 0)
            world->drills->released_us[i] = sim_now_us(world->sim);
}

static void note_move(struct world *world, const Ckpt__V1__Event *event)
{
    struct drill_seen *seen = seen_last(world->drills);
    Ckpt__V1__DrillState state = (Ckpt__V1__DrillState)event->new_state;
    bool timed = state == STATE(FAULT) || state == STATE(SETTLING);

    if (seen == NULL || event->number != world->drills->count || !may_move(seen->state, state))
        world_violation(world, "DRILL",
                        "drill %" PRIu64 " is told to be in state %u, %" PRIu64 " was in %u",
                        event->number, event->new_state, world->drills->count,
                        seen == NULL ? 0U : (unsigned)seen->state);
    if (timed && event->at_ms < seen->due_ms)
        world_violation(world, "DRILL",
                        "drill %" PRIu64 " moves to state %u at %" PRIu64 ", before %" PRIu64,
                        event->number, event->new_state, event->at_ms, seen->due_ms);
    if (seen->state == STATE(FAULT))
        let_go(world, seen);
    seen->state = state;
    if (state == STATE(FAULT))
        seen->due_ms = event->at_ms + seen->duration_ms;
    world->counts.drills_passed += state == STATE(PASSED);
}

void drills_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_DRILL)
        return;
    if (event->new_state == STATE(ARMED))
        note_begin(world, fsm, event);
    else
        note_move(world, event);
}

bool drills_hold_target(const struct world *world, unsigned target, uint64_t *ret_released_us)
{
    const struct drill_seen *seen = seen_last(world->drills);

    *ret_released_us = world->drills->released_us[target];
    return seen != NULL && seen->state == STATE(FAULT) &&
           strcmp(seen->target_id, world->targets[target].id) == 0;
}

/* ---- what members do ---- */

static void cut_check(struct world *world, const struct world_member *member)
{
    uint64_t now_us = sim_now_us(world->sim);
    uint64_t stood_us = sim_paused_until_us(world->sim, member->number) + CUT_SLACK_US;

    if (fsm_drill_open(member_fsm(member)) == NULL)
        world_violation(world, "DRILL", "member %u is cut off, and no drill is under way to it",
                        member->number + 1);
    if (now_us > member->drill.cut_until_us && now_us > stood_us)
        world_violation(world, "DRILL", "member %u is cut off %" PRIu64 " ms longer than its drill",
                        member->number + 1, (now_us - member->drill.cut_until_us) / 1000);
}

void drills_step(struct world *world)
{
    for (uint64_t touched = world_touched_members(world); touched != 0; touched &= touched - 1) {
        const struct world_member *member = &world->members[__builtin_ctzll(touched)];

        if (member->up && !member->doomed && member->drill.cut.off)
            cut_check(world, member);
    }
}

/* ---- after healing ---- */

static const Ckpt__V1__Drill *drill_overdue(const struct world_member *leader)
{
    const Ckpt__V1__Drill *drill = leader == NULL ? NULL : fsm_drill_open(member_fsm(leader));

    return drill == NULL || replica_state_ms(leader->broker.replica) <= drill->due_ms ? NULL
                                                                                      : drill;
}

/* A leader that serves moves a drill on when its time is over, whoever has told its word. */
void drills_look(struct world *world)
{
    struct world_drills *drills = world->drills;
    const struct world_member *leader = members_leader(world);
    const Ckpt__V1__Drill *drill = drill_overdue(leader);
    uint64_t now_us = sim_now_us(world->sim);
    uint64_t most_us = world->options.unruly ? OVERDUE_UNRULY_US : OVERDUE_US;

    if (drill == NULL || sim_paused(world->sim, leader->number) ||
        drills->overdue.leader != leader->number + 1 || drills->overdue.starts != leader->starts ||
        drills->overdue.id != drill->drill_id || drills->overdue.state != drill->state) {
        drills->overdue.leader = drill == NULL ? 0 : leader->number + 1;
        drills->overdue.starts = leader == NULL ? 0 : leader->starts;
        drills->overdue.id = drill == NULL ? 0 : drill->drill_id;
        drills->overdue.state = drill == NULL ? STATE(UNSPECIFIED) : drill->state;
        drills->overdue.since_us = now_us;
    } else if (now_us - drills->overdue.since_us > most_us) {
        world_violation(world, "DRILL",
                        "member %u serves, and drill %" PRIu64 " is in state %u %" PRIu64
                        " ms behind its time",
                        leader->number + 1, drill->drill_id, (unsigned)drill->state,
                        (now_us - drills->overdue.since_us) / 1000);
    }
}

/* The members' probes never let the log rest. */
const char *drills_unsettled(struct world *world)
{
    const struct drill_seen *last = seen_last(world->drills);

    return last != NULL && (last->state == STATE(ARMED) || last->state == STATE(FAULT))
               ? "the end of a drill's fault"
               : "";
}

static void reports_check(struct world *world, const struct world_member *member)
{
    const struct world_drills *drills = world->drills;
    const struct fsm *fsm = member_fsm(member);
    uint64_t kept = drills->count < FSM_DRILLS_MAX ? drills->count : FSM_DRILLS_MAX, count = 0;

    while (fsm_drill_at(fsm, count) != NULL)
        count++;
    if (count != kept)
        world_violation(world, "DRILL", "member %u keeps %" PRIu64 " drills of %" PRIu64,
                        member->number + 1, count, drills->count);
    for (uint64_t i = 0; i < kept; i++) {
        uint64_t id = drills->count - kept + i + 1;
        const Ckpt__V1__Drill *drill = fsm_drill_at(fsm, i);

        if (drill->drill_id != id || drill->state != drills->seen[id - 1].state)
            world_violation(world, "DRILL",
                            "member %u has drill %" PRIu64 " in state %u where %" PRIu64
                            " in %u was told",
                            member->number + 1, drill->drill_id, (unsigned)drill->state, id,
                            (unsigned)drills->seen[id - 1].state);
    }
}

void drills_equal(struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].up && member_counts(world, &world->members[i]))
            reports_check(world, &world->members[i]);
}

/* ---- the operator ---- */

static void run_answered(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct world_drills *drills = data;

    drills->calling = false;
    if (status == RPC_OK)
        drills->trial_id = ((const Ckpt__V1__RunDrillReply *)(const void *)reply)->drill_id;
    if (drills->world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " RunDrill ends with %s: %s\n", sim_now_us(drills->world->sim),
                rpc_status_name(status), text);
    if (status == RPC_INTERNAL || status == RPC_UNKNOWN || status == RPC_UNIMPLEMENTED ||
        status == RPC_INVALID_ARGUMENT)
        world_violation(drills->world, "API", "RunDrill ends with %s: %s", rpc_status_name(status),
                        text);
}

static void run_drill(struct world_drills *drills, Ckpt__V1__DrillRequest *message)
{
    char id[48];
    unsigned before;

    snprintf(id, sizeof(id), "drill-run-%" PRIu64, ++drills->requests);
    message->request_id = id;
    drills->calling = true;
    before = sim_enter(drills->world->sim, WORLD_SCHEDULER_NODE);
    client_call(drills->client,
                &(struct client_request){.method = "OperatorService/RunDrill",
                                         .message = &message->base,
                                         .reply_type = &ckpt__v1__run_drill_reply__descriptor,
                                         .timeout_ms = CALL_MS},
                run_answered, drills);
    sim_leave(drills->world->sim, before);
}

static const char *kind_name(uint64_t number)
{
    const struct fsm_drill_kind *kind = fsm_drill_kind((Ckpt__V1__DrillKind)number);

    CHECK(kind != NULL);
    return kind->name;
}

static void on_timer(void *data)
{
    struct world_drills *drills = data;
    struct world *world = drills->world;
    uint64_t mean_us = (uint64_t)60 * SECOND_US / world->options.drills;
    Ckpt__V1__DrillRequest message = CKPT__V1__DRILL_REQUEST__INIT;

    if (world->phase != WORLD_CHAOS)
        return;
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, 2 * mean_us), on_timer, drills);
    if (drills->calling || drills->count + 1 >= DRILLS_MAX)
        return;
    message.name = (char *)(uintptr_t)kind_name(1 + sim_random(world->sim, KIND(RESTORE)));
    message.duration_ms =
        DURATION_MIN_MS + sim_random(world->sim, DURATION_MOST_MS - DURATION_MIN_MS);
    if (strcmp(message.name, kind_name(KIND(STORAGE_OUTAGE))) == 0)
        message.target_id = world->targets[sim_random(world->sim, world->options.targets)].id;
    if (world->job_count > 0 && sim_chance(world->sim, JOB_IN))
        message.allocation_id = world->jobs[sim_random(world->sim, world->job_count)].id;
    run_drill(drills, &message);
}

void drills_init(struct world *world)
{
    world->drills = check_calloc(1, sizeof(*world->drills));
    world->drills->world = world;
}

void drills_start(struct world *world)
{
    const struct client_config config = {.endpoints = world->endpoints};
    struct err err;

    if (world->options.drills == 0 && world->options.drill_trial == 0)
        return;
    CHECK(client_new(&world->scheduler_loops[0].uv, &config, &world->drills->client, &err) == 0);
    if (world->options.drills > 0)
        sim_after(world->sim, SIM_NODES_MAX, SECOND_US, on_timer, world->drills);
}

void drills_stop(struct world *world)
{
    client_free(world->drills->client);
    world->drills->client = NULL;
}

void drills_close(struct world *world)
{
    free(world->drills);
}

/* ---- the trial ---- */

static bool somebody_serves(struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++) {
        const struct world_member *member = &world->members[i];

        if (member->up && !sim_paused(world->sim, i) && replica_serving(member->broker.replica))
            return true;
    }
    return false;
}

/* Steps on until the drill is over, and looks whether somebody serves meanwhile. */
static void trial_watch(struct world *world, const struct drill_seen *seen)
{
    const struct fsm_drill_kind *kind = fsm_drill_kind(seen->kind);
    uint64_t begin = sim_now_us(world->sim), served_us = begin;
    uint64_t away_most_us = seen->kind == KIND(LEADER_HANG) ? AWAY_HANG_US : AWAY_DEATH_US;
    uint64_t most_us =
        1000 * (FSM_DRILL_LEAD_MS + seen->duration_ms + kind->settle_ms) + TRIAL_SLACK_US;

    while (!fsm_drill_over(seen->state)) {
        uint64_t now_us = sim_now_us(world->sim);

        if (somebody_serves(world))
            served_us = now_us;
        if (now_us - served_us > away_most_us)
            world_violation(world, "DRILL", "%s: nobody serves for %" PRIu64 " ms", kind->name,
                            (now_us - served_us) / 1000);
        if (now_us - begin > most_us)
            world_violation(world, "DRILL", "%s lasts for more than %" PRIu64 " s", kind->name,
                            most_us / SECOND_US);
        drills_look(world);
        bounds_lag(world);
        bounds_cadence(world);
        world_step(world);
    }
}

/* A checkpoint that is read again may be damaged: its node says so. */
static void verdict_check(struct world *world, const struct drill_seen *seen, uint64_t id)
{
    struct fsm_drill_check checks[FSM_DRILL_CHECK_COUNT];
    const struct world_member *leader = members_leader(world);
    const Ckpt__V1__Drill *drill = leader == NULL ? NULL : fsm_drill_find(member_fsm(leader), id);

    if (seen->state != STATE(FAILED) || drill == NULL)
        return;
    (void)fsm_drill_check(drill, checks);
    for (size_t i = 0; i < FSM_DRILL_CHECK_COUNT; i++)
        if (checks[i].failed && (seen->kind != KIND(RESTORE) || drill->checkpoint_id == 0))
            world_violation(
                world, "DRILL", "%s fails in a calm cluster: %s, %" PRIu64 " of %" PRIu64,
                kind_name(seen->kind), checks[i].name, checks[i].value, checks[i].limit);
}

void drills_trial(struct world *world)
{
    struct world_drills *drills = world->drills;
    uint64_t begin, before = drills->count;
    Ckpt__V1__DrillRequest message = CKPT__V1__DRILL_REQUEST__INIT;

    if (bounds_calm_leader(world) == NULL || drills->calling)
        return;
    begin = sim_now_us(world->sim);
    drills->trial_id = 0;
    message.name =
        (char *)(uintptr_t)kind_name(1 + (world->options.drill_trial - 1) % KIND(RESTORE));
    message.duration_ms = TRIAL_MS;
    run_drill(drills, &message);
    while (drills->calling && sim_now_us(world->sim) - begin < ANSWER_MAX_US)
        world_step(world);
    if (drills->trial_id == 0 || drills->count == before)
        return; /* members that are lost leave nobody to spare */
    trial_watch(world, &drills->seen[drills->trial_id - 1]);
    verdict_check(world, &drills->seen[drills->trial_id - 1], drills->trial_id);
    world->counts.drill_trials++;
}
