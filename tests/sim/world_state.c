/* Checks of the replicated state: I5, I10, I12, I20-I30, I35, and what must have come to its end.
 *
 * Flow     every applied entry of every member: index and hash against the table (I5, I12). The
 *          first member that applies an index is the one whose new events are read: each move of a
 *          checkpoint or an allocation is checked against what the world knows.
 * Shapes   one record per checkpoint ever created, found by its sequence; one per job.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name

enum { SEQUENCE_BITS = 40, ATTEMPTS_KEPT = 20, CHECK_EVERY_US = 2000000 };
enum { ASKED_AGAIN_US = 60000000 };

struct checkpoint_facts {
    uint64_t id; /* 0: never created */
    uint32_t job;
    uint32_t target_slot;
    uint8_t state;
    uint32_t attempt;  /* of the last dispatch */
    uint32_t extended; /* the attempt that an agent has extended; 0: none */
    uint32_t paused, resumed;
    uint32_t asked[WORLD_AGENTS_MAX];   /* bits by attempt: the application was asked */
    uint32_t written[WORLD_AGENTS_MAX]; /* bits by attempt: the shard is whole at the destination */
    uint64_t created_us;
    bool cancel_asked;                     /* somebody has asked for its end */
    uint64_t dispatched_index, left_index; /* of the last attempt: it may be ordered in between */
    bool removed;                          /* its folder */
    bool damaged;                          /* a part said so */
};

struct job_facts {
    uint8_t state;
    uint64_t active; /* checkpoint; 0: none */
    uint64_t last_complete, newest;
    bool gone;                       /* it has ended, and its records were removed */
    uint32_t nodes;                  /* agents that it has */
    uint64_t runs[WORLD_AGENTS_MAX]; /* of its parts on those that it has */
    struct job_times times;
    uint64_t started_ms; /* by the state's clock */
    uint64_t stops_us;   /* since when a checkpoint stops it, the last time */
};

struct kept_event {
    uint64_t hash, hidden; /* ... without its measures, as of a sensitive job (N-005) */
    uint64_t index;        /* it was in the state by then */
};

struct state_checks {
    uint64_t *hashes; /* by index */
    size_t hash_count;
    uint64_t index, event;     /* up to which events were read */
    struct kept_event *events; /* by sequence */
    size_t event_count;
    uint64_t last_id;
    struct checkpoint_facts *checkpoints; /* by sequence */
    size_t checkpoint_count;
    struct job_facts jobs[WORLD_JOBS_MAX];
    struct {
        uint64_t epoch, term;
    } fences[WORLD_AGENTS_MAX];
    uint64_t checked_us;
    unsigned checked_member;
    char unsettled[256];
};

void state_checks_init(struct world *world)
{
    world->state = check_calloc(1, sizeof(*world->state));
}

void state_checks_close(struct world *world)
{
    free(world->state->hashes);
    free(world->state->events);
    free(world->state->checkpoints);
    free(world->state);
}

static struct checkpoint_facts *facts_of(struct world *world, uint64_t id)
{
    struct state_checks *checks = world->state;
    uint64_t sequence = id & ((UINT64_C(1) << SEQUENCE_BITS) - 1);

    CHECK(sequence < 1000000);
    if (sequence >= checks->checkpoint_count) {
        size_t count = checks->checkpoint_count == 0 ? 256 : checks->checkpoint_count;
        while (count <= sequence)
            count *= 2;
        checks->checkpoints =
            check_realloc(checks->checkpoints, count, sizeof(*checks->checkpoints));
        memset(checks->checkpoints + checks->checkpoint_count, 0,
               (count - checks->checkpoint_count) * sizeof(*checks->checkpoints));
        checks->checkpoint_count = count;
    }
    return &checks->checkpoints[sequence];
}

static bool active(unsigned state)
{
    return fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)state);
}

/* ---- moves of checkpoints ---- */

static void checkpoint_created(struct world *world, const struct fsm *fsm,
                               const Ckpt__V1__Event *event, struct checkpoint_facts *facts,
                               unsigned job)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    struct job_facts *owner = &world->state->jobs[job];

    if (event->checkpoint_id <= world->state->last_id)
        world_violation(world, "I26", "checkpoint id %" PRIu64 " after %" PRIu64,
                        event->checkpoint_id, world->state->last_id);
    world->state->last_id = event->checkpoint_id;
    if (owner->active != 0)
        world_violation(world, "I21",
                        "%s: checkpoint %" PRIx64 " begins while %" PRIx64 " is active",
                        event->allocation_id, event->checkpoint_id, owner->active);
    facts->id = event->checkpoint_id;
    facts->created_us = sim_now_us(world->sim);
    facts->job = job;
    facts->target_slot = checkpoint == NULL ? UINT32_MAX : checkpoint->target_slot;
    owner->active = owner->newest = event->checkpoint_id;
}

static void checkpoint_dispatched(struct world *world, const struct fsm *fsm,
                                  const Ckpt__V1__Event *event, struct checkpoint_facts *facts)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    uint32_t attempt = (uint32_t)event->number;

    if (attempt <= facts->attempt)
        world_violation(world, "I22", "checkpoint %" PRIx64 " is dispatched as attempt %u after %u",
                        event->checkpoint_id, attempt, facts->attempt);
    facts->attempt = attempt;
    facts->dispatched_index = world->state->index;
    facts->left_index = 0;
    /* of the same entry as the event, unless more of it followed */
    if (checkpoint != NULL && checkpoint->state == CHECKPOINT(DISPATCHED) &&
        !fsm_target_at(fsm, checkpoint->target_slot)->available)
        world_violation(world, "I35",
                        "checkpoint %" PRIx64 " is dispatched to %s, which is unavailable",
                        event->checkpoint_id, fsm_target_at(fsm, checkpoint->target_slot)->id);
}

/* I24: each pause is followed by one resumption, and the state counts as many of both as there
 * were. */
static void checkpoint_paused_or_left(struct world *world, const struct fsm *fsm,
                                      const Ckpt__V1__Event *event, struct checkpoint_facts *facts)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);

    facts->paused += event->new_state == CHECKPOINT(PAUSED);
    if (event->old_state == CHECKPOINT(PAUSED) && event->new_state == CHECKPOINT(REQUESTED))
        facts->resumed++;
    else if (event->old_state == CHECKPOINT(PAUSED) &&
             !outage_ends_paused(fsm, event, facts->cancel_asked))
        world_violation(world, "I24", "paused checkpoint %" PRIx64 " becomes %s for reason %s",
                        event->checkpoint_id,
                        fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)event->new_state),
                        fsm_reason_word(event->reason, (char[FSM_WORD_BYTES]){0}));
    /* of the same entry as the event, unless more of it followed */
    if (checkpoint != NULL && checkpoint->state == event->new_state &&
        (checkpoint->paused_count != facts->paused || checkpoint->resumed_count != facts->resumed))
        world_violation(world, "I24",
                        "checkpoint %" PRIx64
                        " was paused %u times and resumed %u times, the state says %u and %u",
                        event->checkpoint_id, facts->paused, facts->resumed,
                        checkpoint->paused_count, checkpoint->resumed_count);
}

static void checkpoint_complete(struct world *world, const struct fsm *fsm,
                                const Ckpt__V1__Event *event, struct checkpoint_facts *facts)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);

    world->state->jobs[facts->job].last_complete = event->checkpoint_id;
    if (checkpoint == NULL)
        return;
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        const char *node = fsm_node_name(fsm, checkpoint->shards[i].node_slot);
        int agent = world_agent_number(node);
        if (!checkpoint->shards[i].verified || agent < 0 ||
            (facts->written[agent] >> checkpoint->attempt & 1) == 0)
            world_violation(world, "I27",
                            "checkpoint %" PRIx64
                            " is complete, attempt %u has no whole shard of %s",
                            event->checkpoint_id, checkpoint->attempt, node);
    }
    if (facts->removed)
        world_violation(world, "I27", "checkpoint %" PRIx64 " is complete, its folder was removed",
                        event->checkpoint_id);
}

/* I34: in all its attempts, whatever nodes told. */
static void checkpoint_deferred(struct world *world, const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);

    if (checkpoint != NULL && world->options.deferrals > 0 &&
        checkpoint->deferred_ms > WORLD_DEFERRAL_MAX_MS)
        world_violation(world, "I34", "checkpoint %" PRIx64 " was put off by %" PRIu64 " ms",
                        checkpoint_id, checkpoint->deferred_ms);
}

static void checkpoint_moved(struct world *world, const struct fsm *fsm,
                             const Ckpt__V1__Event *event)
{
    struct checkpoint_facts *facts = facts_of(world, event->checkpoint_id);
    struct world_job *job = job_find(world, event->allocation_id);
    struct job_facts *owner;

    if (job == NULL)
        world_violation(world, "I6", "event of %s, which nobody registered", event->allocation_id);
    owner = &world->state->jobs[job - world->jobs];
    if (event->old_state == CHECKPOINT(UNSPECIFIED))
        checkpoint_created(world, fsm, event, facts, (unsigned)(job - world->jobs));
    if (facts->id != event->checkpoint_id || facts->state != event->old_state ||
        !fsm_checkpoint_move_allowed((Ckpt__V1__CheckpointState)event->old_state,
                                     (Ckpt__V1__CheckpointState)event->new_state))
        world_violation(world, "I23", "checkpoint %" PRIx64 " moves from %u to %u, it was in %u",
                        event->checkpoint_id, event->old_state, event->new_state, facts->state);
    if (event->old_state != CHECKPOINT(UNSPECIFIED) && !active(event->old_state) &&
        (event->old_state != CHECKPOINT(COMPLETE) || event->new_state != CHECKPOINT(COLLECTED)))
        world_violation(world, "I23", "checkpoint %" PRIx64 " has ended in %u and moves to %u",
                        event->checkpoint_id, event->old_state, event->new_state);
    facts->state = (uint8_t)event->new_state;
    if (event->new_state != CHECKPOINT(DISPATCHED) && event->new_state != CHECKPOINT(WRITING))
        facts->left_index = world->state->index;
    checkpoint_deferred(world, fsm, event->checkpoint_id);
    if (event->old_state == CHECKPOINT(PAUSED) || event->new_state == CHECKPOINT(PAUSED))
        checkpoint_paused_or_left(world, fsm, event, facts);
    if (event->new_state == CHECKPOINT(DISPATCHED))
        checkpoint_dispatched(world, fsm, event, facts);
    if (event->new_state == CHECKPOINT(COMPLETE))
        checkpoint_complete(world, fsm, event, facts);
    if (!active(event->new_state) && owner->active == event->checkpoint_id)
        owner->active = 0;
}

/* ---- moves of allocations ---- */

static void allocation_moved(struct world *world, const Ckpt__V1__Event *event)
{
    struct world_job *job = job_find(world, event->allocation_id);
    struct job_facts *facts;

    if (job == NULL)
        world_violation(world, "I6", "event of %s, which nobody registered", event->allocation_id);
    facts = &world->state->jobs[job - world->jobs];
    if (facts->state != event->old_state ||
        !fsm_allocation_move_allowed((Ckpt__V1__AllocationState)event->old_state,
                                     (Ckpt__V1__AllocationState)event->new_state))
        world_violation(world, "I30", "%s moves from %u to %u, it was in %u", event->allocation_id,
                        event->old_state, event->new_state, facts->state);
    facts->state = (uint8_t)event->new_state;
    facts->stops_us = sim_now_us(world->sim);
    if (event->new_state == ALLOCATION(STARTING) && !state_holds_nodes(event->old_state)) {
        facts->times.began_index = world->state->index;
        facts->times.began_us = sim_now_us(world->sim);
    }
    if (event->new_state == ALLOCATION(RUNNING))
        facts->times.runs_index = world->state->index;
}

bool state_checks_goes_over(struct world *world, uint64_t id, const struct world_job *from,
                            const struct world_job *to)
{
    struct checkpoint_facts *facts = facts_of(world, id);
    struct job_facts *old = &world->state->jobs[from - world->jobs];

    if (facts->id != id || &world->jobs[facts->job] != from || facts->damaged || facts->removed ||
        facts->state != CHECKPOINT(COMPLETE) || state_holds_nodes(old->state))
        return false;
    facts->job = (uint32_t)(to - world->jobs);
    world->state->jobs[facts->job].last_complete = id;
    old->last_complete = 0;
    return true;
}

static bool has_node(const struct fsm_node_share *shares, uint32_t count, uint32_t slot)
{
    for (uint32_t i = 0; i < count; i++)
        if (shares[i].node_slot == slot)
            return true;
    return false;
}

/* Of each entry that an event of it came with: those that leave count as left. */
static void nodes_moved(struct world *world, const struct fsm *fsm, const char *allocation_id)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, allocation_id);
    const struct world_job *job = job_find(world, allocation_id);
    struct job_facts *facts;
    uint32_t mask = 0;

    if (allocation == NULL || job == NULL)
        return;
    facts = &world->state->jobs[job - world->jobs];
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        uint32_t slot = allocation->nodes[i].node_slot;
        unsigned agent = world_agent_number(fsm_node_name(fsm, slot));
        if (!allocation->leaving || has_node(allocation->next, allocation->next_count, slot))
            mask |= UINT32_C(1) << agent;
        facts->runs[agent] = allocation->nodes[i].run;
    }
    facts->nodes = mask;
    facts->started_ms = allocation->started_at_ms;
}

static void event_take(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    if (event->kind == EVENT(CHECKPOINT_STATE))
        checkpoint_moved(world, fsm, event);
    else if (event->kind == EVENT(DAMAGED))
        facts_of(world, event->checkpoint_id)->damaged = true;
    else if (event->kind == EVENT(ALLOCATION_STATE))
        allocation_moved(world, event);
    else if (event->kind == EVENT(ALLOCATION_REGISTERED) &&
             job_find(world, event->allocation_id) != NULL) {
        struct job_facts *facts =
            &world->state->jobs[job_find(world, event->allocation_id) - world->jobs];
        world->counts.sensitive += job_find(world, event->allocation_id)->sensitive;
        facts->state = ALLOCATION(STARTING);
        facts->times.began_index = world->state->index;
        facts->times.began_us = sim_now_us(world->sim);
    }
    if (event->allocation_id[0] != '\0')
        nodes_moved(world, fsm, event->allocation_id);
}

/* ---- every applied entry ---- */

static void hash_compare(struct world_member *member, uint64_t index, uint64_t hash)
{
    struct state_checks *checks = member->world->state;

    if (index >= checks->hash_count) {
        size_t count = checks->hash_count == 0 ? 4096 : checks->hash_count;
        while (count <= index)
            count *= 2;
        checks->hashes = check_realloc(checks->hashes, count, sizeof(*checks->hashes));
        memset(checks->hashes + checks->hash_count, 0,
               (count - checks->hash_count) * sizeof(*checks->hashes));
        checks->hash_count = count;
    }
    if (checks->hashes[index] == 0)
        checks->hashes[index] = hash;
    if (checks->hashes[index] != hash)
        world_violation(member->world, "I5", "member %u has another state at index %" PRIu64,
                        member->number + 1, index);
}

static void event_keep(struct state_checks *checks, const Ckpt__V1__Event *event)
{
    if (event->sequence >= checks->event_count) {
        size_t count = checks->event_count == 0 ? 4096 : checks->event_count;
        while (count <= event->sequence)
            count *= 2;
        checks->events = check_realloc(checks->events, count, sizeof(*checks->events));
        memset(checks->events + checks->event_count, 0,
               (count - checks->event_count) * sizeof(*checks->events));
        checks->event_count = count;
    }
    checks->events[event->sequence] = (struct kept_event){
        streams_event_hash(event, true), streams_event_hash(event, false), checks->index};
}

/* The state keeps no path: a watch adds it while the checkpoint is known. */
bool state_checks_event_is(const struct world *world, const Ckpt__V1__Event *event)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    const char *name = strrchr(event->path, '/');
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, event->allocation_id);
    Ckpt__V1__Event kept = *event;
    uint64_t hash;

    kept.path = (char *)(uintptr_t) "";
    hash = streams_event_hash(&kept, true);
    return event->sequence < world->state->event_count &&
           (world->state->events[event->sequence].hash == hash ||
            (job != NULL && job->sensitive &&
             world->state->events[event->sequence].hidden == hash)) &&
           (name == NULL || strcmp(name + 1, checkpoint_id_format(event->checkpoint_id, id)) == 0);
}

uint64_t state_checks_events_by(const struct world *world, uint64_t index)
{
    const struct state_checks *checks = world->state;
    uint64_t sequence = checks->event;

    while (sequence > 0 && checks->events[sequence].index > index)
        sequence--;
    return sequence;
}

bool state_checks_hash_is(const struct world *world, uint64_t index, uint64_t hash)
{
    return index < world->state->hash_count &&
           (world->state->hashes[index] == 0 || world->state->hashes[index] == hash);
}

/* I23: what is not told to have ended is listed as what it was told to be, by the job as well. */
static void check_listed(struct world *world, const struct fsm *fsm, unsigned number)
{
    struct job_facts *facts = &world->state->jobs[number];
    const char *id = world->jobs[number].id;
    const struct fsm_allocation *allocation = world->found[number];
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, facts->active);

    if (facts->state == ALLOCATION(UNSPECIFIED) || facts->gone)
        return;
    if (facts->active != 0 &&
        (checkpoint == NULL || checkpoint->state != facts_of(world, facts->active)->state))
        world_violation(
            world, "I23", "checkpoint %" PRIx64 " of %s was last told to be %s, is %s",
            facts->active, id, fsm_checkpoint_state_name(facts_of(world, facts->active)->state),
            checkpoint == NULL ? "not there" : fsm_checkpoint_state_name(checkpoint->state));
    facts->gone = allocation == NULL && facts->active == 0 &&
                  (facts->state == ALLOCATION(COMPLETED) || facts->state == ALLOCATION(FAILED));
    if (!facts->gone && (allocation == NULL || allocation->state != facts->state ||
                         allocation->active_checkpoint_id != facts->active))
        world_violation(world, "I23",
                        "%s was last told to be in state %u with checkpoint %" PRIx64
                        ", is in %d with %" PRIx64,
                        id, facts->state, facts->active,
                        allocation == NULL ? -1 : (int)allocation->state,
                        allocation == NULL ? 0 : allocation->active_checkpoint_id);
}

void state_checks_applied(struct world_member *member)
{
    struct world *world = member->world;
    struct state_checks *checks = world->state;
    const struct fsm *fsm = member_fsm(member);
    const Ckpt__V1__Event *event;
    struct fsm_summary summary;
    bool gap;

    fsm_get_summary(fsm, &summary);
    if (summary.applied_index == 0 ||
        flips_applied(member, summary.applied_index, summary.state_hash))
        return;
    hash_compare(member, summary.applied_index, summary.state_hash);
    dumps_applied(member, summary.applied_index);
    sim_trace_add(world->sim, summary.state_hash);
    if (summary.applied_index <= checks->index)
        return;
    checks->index = summary.applied_index;
    world->counts.applied++;
    while ((event = fsm_event_after(fsm, checks->event, &gap)) != NULL) {
        CHECK(!gap);
        checks->event = event->sequence;
        if (world->options.streams)
            event_keep(checks, event);
        entries_event(world, fsm, event, checks->index);
        event_take(world, fsm, event);
        if (event->kind == EVENT(CHECKPOINT_STATE) && event->old_state == CHECKPOINT(UNSPECIFIED))
            decisions_check(member, event->checkpoint_id);
    }
    for (unsigned job = 0; job < world->job_count; job++) {
        world->found[job] = fsm_allocation_find(fsm, world->jobs[job].id);
        check_listed(world, fsm, job);
    }
    alone_applied(world, fsm);
    entries_applied(world, fsm, checks->index);
    grants_leader_applied(member);
}

void state_checks_cancel(struct world *world, uint64_t checkpoint_id)
{
    facts_of(world, checkpoint_id)->cancel_asked = true;
}

bool state_checks_ended_at(struct world *world, uint64_t checkpoint_id, uint64_t index)
{
    const struct checkpoint_facts *facts = facts_of(world, checkpoint_id);

    return facts->id == checkpoint_id && !active(facts->state) && facts->left_index == index;
}

bool state_checks_completed(struct world *world, uint64_t checkpoint_id)
{
    const struct checkpoint_facts *facts = facts_of(world, checkpoint_id);

    return facts->id == checkpoint_id &&
           (facts->state == CHECKPOINT(COMPLETE) || facts->state == CHECKPOINT(COLLECTED));
}

uint64_t state_checks_last_complete(struct world *world, const char *allocation_id)
{
    const struct world_job *job = job_find(world, allocation_id);

    return job == NULL ? 0 : world->state->jobs[job - world->jobs].last_complete;
}

uint64_t state_checks_newest(const struct world *world, const char *allocation_id)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation_id);

    return job == NULL ? 0 : world->state->jobs[job - world->jobs].newest;
}

uint64_t state_checks_next_complete(struct world *world, const char *allocation_id, uint64_t id)
{
    const struct world_job *job = job_find(world, allocation_id);
    const struct state_checks *checks = world->state;

    for (size_t i = 0; i < checks->checkpoint_count; i++) {
        const struct checkpoint_facts *facts = &checks->checkpoints[i];
        if (facts->id > id && &world->jobs[facts->job] == job &&
            (facts->state == CHECKPOINT(COMPLETE) || facts->state == CHECKPOINT(COLLECTED)))
            return facts->id;
    }
    return 0;
}

uint32_t state_checks_unpaused(const struct world *world, uint32_t target_slot)
{
    uint32_t count = 0;

    for (size_t i = 0; i < world->state->checkpoint_count; i++) {
        const struct checkpoint_facts *facts = &world->state->checkpoints[i];
        count += facts->id != 0 && facts->target_slot == target_slot && active(facts->state) &&
                 facts->state != CHECKPOINT(PAUSED);
    }
    return count;
}

bool state_checks_has_node(const struct world *world, const char *allocation_id, unsigned agent)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation_id);

    return job != NULL && (world->state->jobs[job - world->jobs].nodes >> agent & 1) != 0;
}

bool state_checks_has_part(const struct world *world, const char *allocation_id, unsigned agent,
                           uint64_t run)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation_id);
    struct part_wanted part;

    return state_checks_has_node(world, allocation_id, agent) &&
           run >= world->state->jobs[job - world->jobs].runs[agent] &&
           ends_part(world, (unsigned)(job - world->jobs), agent, UINT64_MAX, &part);
}

const struct job_times *state_checks_times(const struct world *world, const struct world_job *job)
{
    return &world->state->jobs[job - world->jobs].times;
}

uint64_t state_checks_started_ms(const struct world *world, const struct world_job *job)
{
    return world->state->jobs[job - world->jobs].started_ms;
}

uint64_t state_checks_run(const struct world *world, const struct world_job *job, unsigned agent)
{
    return world->state->jobs[job - world->jobs].runs[agent];
}

bool state_checks_is_run(const struct world *world, const struct world_job *job, unsigned agent,
                         uint64_t run)
{
    const struct job_facts *facts = &world->state->jobs[job - world->jobs];

    return (facts->nodes >> agent & 1) != 0 && facts->runs[agent] == run;
}

/* ---- what nodes know ---- */

/* I20: an order comes from applied state, so the dispatch of the attempt must be among the events
 * already. */
void world_asked(struct world *world, unsigned agent, const char *allocation_id,
                 uint64_t checkpoint_id, uint32_t attempt, uint64_t epoch, uint64_t term)
{
    struct checkpoint_facts *facts = facts_of(world, checkpoint_id);
    struct state_checks *checks = world->state;

    world->counts.asked++;
    if (facts->id != checkpoint_id || attempt > facts->attempt)
        world_violation(world, "I20", "%s asks %s for %" PRIx64 " attempt %u, committed is %u",
                        world_agent_name(agent), allocation_id, checkpoint_id, attempt,
                        facts->attempt);
    CHECK(attempt < 32);
    if ((facts->asked[agent] >> attempt & 1) != 0)
        world_violation(world, "I22", "%s asks %s a second time for %" PRIx64 " attempt %u",
                        world_agent_name(agent), allocation_id, checkpoint_id, attempt);
    facts->asked[agent] |= UINT32_C(1) << attempt;
    if (epoch < checks->fences[agent].epoch ||
        (epoch == checks->fences[agent].epoch && term < checks->fences[agent].term))
        world_violation(world, "I25", "%s obeys term %" PRIu64 " after term %" PRIu64,
                        world_agent_name(agent), term, checks->fences[agent].term);
    checks->fences[agent].epoch = epoch;
    checks->fences[agent].term = term;
}

void state_checks_ordered(struct world *world, const Ckpt__V1__Order *order, uint64_t index)
{
    const struct checkpoint_facts *facts = facts_of(world, order->checkpoint_id);

    if (facts->id != order->checkpoint_id || order->attempt > facts->attempt ||
        (order->attempt == facts->attempt &&
         (index < facts->dispatched_index ||
          (facts->left_index != 0 && index > facts->left_index &&
           !releases_held_at(world, order->checkpoint_id, index)))))
        world_violation(world, "I20",
                        "%s is ordered to write checkpoint %" PRIx64
                        ", attempt %u, by the state of index %" PRIu64 "; dispatched by %" PRIu64
                        " as attempt %u, over by %" PRIu64,
                        order->allocation_id, order->checkpoint_id, order->attempt, index,
                        facts->dispatched_index, facts->attempt, facts->left_index);
}

void world_timeout(struct world *world, uint64_t checkpoint_id, uint32_t attempt, bool grew,
                   bool extended)
{
    struct checkpoint_facts *facts = facts_of(world, checkpoint_id);

    world->counts.extended += grew;
    /* An earlier one, by a set that came late, may begin as it was ordered: the state hears no more
     * of it. */
    if (facts->extended != 0 && facts->extended != attempt &&
        (grew || (!extended && attempt > facts->extended)))
        world_violation(world, "I34",
                        "attempt %u of checkpoint %" PRIx64
                        " is, or may be, extended, as attempt %u was",
                        attempt, checkpoint_id, facts->extended);
    if (grew)
        facts->extended = attempt;
}

void world_shard_written(struct world *world, unsigned agent, const char *allocation_id,
                         uint64_t checkpoint_id, uint32_t attempt)
{
    struct checkpoint_facts *facts = facts_of(world, checkpoint_id);

    (void)allocation_id;
    CHECK(attempt < 32);
    world->counts.shards++;
    facts->written[agent] |= UINT32_C(1) << attempt;
}

/* Whose order it was, or whether its walltime is over: agent_checks.c, world_ends.c. */
void world_terminated(struct world *world, unsigned agent, const char *allocation_id)
{
    world->counts.terminated++;
    if (job_find(world, allocation_id) == NULL)
        world_violation(world, "I39", "%s ends %s, which nobody registered",
                        world_agent_name(agent), allocation_id);
}

void world_collected(struct world *world, const char *path)
{
    const char *last = strrchr(path, '/');
    uint64_t epoch, sequence;
    struct checkpoint_facts *facts;

    if (last == NULL || sscanf(last + 1, "%" SCNu64 "-%" SCNu64, &epoch, &sequence) != 2)
        world_violation(world, "I28", "%s is removed, which is no checkpoint's folder", path);
    facts = facts_of(world, epoch << SEQUENCE_BITS | sequence);
    facts->removed = true;
    if (active(facts->state))
        world_violation(world, "I28", "%s is removed while its checkpoint is active", path);
    if (world->state->jobs[facts->job].last_complete == facts->id && !facts->damaged &&
        world->state->jobs[facts->job].state != ALLOCATION(COMPLETED) &&
        world->state->jobs[facts->job].state != ALLOCATION(FAILED))
        world_violation(world, world->state->jobs[facts->job].active != 0 ? "I29" : "I28",
                        "%s is removed, the last complete one of %s, which is in state %u", path,
                        world->jobs[facts->job].id, world->state->jobs[facts->job].state);
    retention_collected(world, facts->id, path);
}

/* ---- the whole state ---- */

static void on_broken(void *context, const char *text)
{
    world_violation(context, "fsm_check", "%s", text);
}

void state_checks_whole(struct world *world)
{
    struct state_checks *checks = world->state;
    uint64_t now = sim_now_us(world->sim);
    struct world_member *member;

    if (now - checks->checked_us < CHECK_EVERY_US)
        return;
    checks->checked_us = now;
    checks->checked_member = (checks->checked_member + 1) % world->member_count;
    member = &world->members[checks->checked_member];
    if (member->up)
        (void)fsm_check(member_fsm(member), on_broken, world);
}

static int keep_bytes(void *context, const void *bytes, size_t length)
{
    buf_append(context, bytes, length);
    return 0;
}

void state_checks_equal(struct world *world)
{
    struct buf first, other;
    unsigned reference = WORLD_MEMBERS_MAX;

    buf_init(&first);
    for (unsigned i = 0; i < world->member_count; i++) {
        struct world_member *member = &world->members[i];
        if (!member->up || !member_counts(world, member))
            continue;
        (void)fsm_check(member_fsm(member), on_broken, world);
        if (reference == WORLD_MEMBERS_MAX) {
            reference = i;
            decisions_check_all(member); /* the others' state is compared with this one's */
            retention_check_known(world, member_fsm(member));
            CHECK(fsm_snapshot_write(member_fsm(member), keep_bytes, &first) == 0);
            continue;
        }
        buf_init(&other);
        CHECK(fsm_snapshot_write(member_fsm(member), keep_bytes, &other) == 0);
        if (first.length != other.length || memcmp(first.bytes, other.bytes, first.length) != 0)
            world_violation(world, "I5", "members %u and %u differ in the bytes of their state",
                            reference + 1, i + 1);
        dumps_compare(member, &world->members[reference]);
        buf_close(&other);
    }
    buf_close(&first);
}

bool state_checks_gone(const struct world *world, unsigned job)
{
    return world->state->jobs[job].gone;
}

static const struct fsm_preemption *waiting_preemption(struct world *world)
{
    const struct fsm *fsm = member_fsm(members_leader(world));
    const struct fsm_preemption *preemption = fsm_preemption_next(fsm, 0);

    while (preemption != NULL &&
           preemption->state != CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING)
        preemption = fsm_preemption_next(fsm, preemption->id);
    return preemption;
}

/* I23, L3, L4: nothing waits for ever once everything works. A job on a draining node that nobody
 * started is asked again and again. Of several stops the oldest is told, and since when it lasts
 * (0: it is no stop). */
const char *state_checks_settled(struct world *world, uint64_t *ret_stops_us)
{
    struct state_checks *checks = world->state;
    uint64_t oldest_us = world->healed_us + ASKED_AGAIN_US;
    const struct fsm_preemption *preemption;

    checks->unsettled[0] = '\0';
    *ret_stops_us = 0;
    for (size_t i = 0; i < checks->checkpoint_count; i++) {
        const struct checkpoint_facts *facts = &checks->checkpoints[i];
        if (facts->id != 0 && active(facts->state) &&
            (facts->state == CHECKPOINT(PAUSED) || facts->created_us < world->healed_us)) {
            snprintf(checks->unsettled, sizeof(checks->unsettled),
                     "checkpoint %" PRIx64 " of %s is %s", facts->id, world->jobs[facts->job].id,
                     fsm_checkpoint_state_name((Ckpt__V1__CheckpointState)facts->state));
            return checks->unsettled;
        }
    }
    for (unsigned i = 0; i < world->job_count; i++)
        if (checks->jobs[i].state == ALLOCATION(CHECKPOINTING_TO_STOP) &&
            checks->jobs[i].stops_us < oldest_us) {
            snprintf(checks->unsettled, sizeof(checks->unsettled), "%s is CHECKPOINTING_TO_STOP",
                     world->jobs[i].id);
            *ret_stops_us = oldest_us = checks->jobs[i].stops_us;
        }
    preemption = members_leader(world) == NULL ? NULL : waiting_preemption(world);
    if (preemption != NULL && checks->unsettled[0] == '\0')
        snprintf(checks->unsettled, sizeof(checks->unsettled), "preemption %" PRIu64 " is WAITING",
                 preemption->id);
    return checks->unsettled;
}
