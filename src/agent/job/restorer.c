/* Carries out the steps of a restore. See restorer.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/copies.h"
#include "src/agent/job/restorer_internal.h"
#include "src/ask/ask.h"

enum { LOOK_MS = 10000 };

/* ---- the leader is asked ---- */

static void free_point(struct restorer *restorer)
{
    if (restorer->point != NULL)
        ckpt__v1__restart_point__free_unpacked(restorer->point, NULL);
    restorer->point = NULL;
}

static void point_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                          size_t length)
{
    struct restorer *restorer = data;

    CHECK(restorer->call == call);
    rpc_client_call_cancel(call);
    restorer->call = NULL;
    free_point(restorer);
    restorer->point = ckpt__v1__restart_point__unpack(NULL, length, bytes);
    if (restorer->point != NULL)
        restorer_post(restorer, &(struct restore_event){.kind = RESTORE_POINT});
    else
        restorer_post(restorer, &(struct restore_event){.kind = RESTORE_UNANSWERED,
                                                        .silence = RESTORE_GARBLED});
}

static void point_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct restorer *restorer = data;
    struct restore_event event = {.kind = RESTORE_UNANSWERED};

    CHECK(restorer->call == call);
    restorer->call = NULL;
    event.silence = end->status == RPC_NOT_FOUND ? RESTORE_UNREGISTERED : RESTORE_LEADERLESS;
    if (event.silence == RESTORE_LEADERLESS)
        log_info("restart_point_waits", "allocation=%s status=%s text=\"%s\"",
                 restorer->restore.asked.allocation_id, rpc_status_name(end->status), end->message);
    snprintf(event.why.text, sizeof(event.why.text), "%s %.300s", rpc_status_name(end->status),
             end->message);
    if (event.silence == RESTORE_LEADERLESS || !restore_ends_unregistered(&restorer->restore))
        event.delay_ms = restart_points_end(restorer->points, end);
    restorer_post(restorer, &event);
}

static void ask_leader(struct restorer *restorer)
{
    static const struct rpc_client_handlers handlers = {.on_message = point_message,
                                                        .on_end = point_end};

    CHECK(restorer->call == NULL && restorer->look == NULL);
    CHECK(restorer->worker == NULL);
    restorer->call = restart_points_ask(restorer->points, restorer->restore.asked.allocation_id,
                                        &handlers, restorer);
}

/* ---- while a worker reads ---- */

static void look_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    struct restorer *restorer = data;
    Ckpt__V1__RestartPoint *point = ckpt__v1__restart_point__unpack(NULL, length, bytes);

    CHECK(restorer->look == call);
    CHECK(!restorer->stepping);
    rpc_client_call_cancel(call);
    restorer->look = NULL;
    restorer_post(restorer, &(struct restore_event){.kind = RESTORE_LOOKED, .look = point});
    if (point != NULL)
        ckpt__v1__restart_point__free_unpacked(point, NULL);
}

/* Without an answer it says what was known last. */
static void look_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct restorer *restorer = data;

    CHECK(restorer->look == call);
    restorer->look = NULL;
    (void)restart_points_end(restorer->points, end);
    restorer_post(restorer, &(struct restore_event){.kind = RESTORE_LOOKED});
}

/* A destination that hangs holds its worker for as long as it hangs: that it is away, and what
 * follows, is known to the leader alone. */
static void look_at_leader(struct restorer *restorer)
{
    static const struct rpc_client_handlers handlers = {.on_message = look_message,
                                                        .on_end = look_end};

    CHECK(restorer->worker != NULL);
    CHECK(restorer->call == NULL && restorer->look == NULL);
    restorer->look = restart_points_ask(restorer->points, restorer->restore.asked.allocation_id,
                                        &handlers, restorer);
}

static void end_look(struct restorer *restorer)
{
    restorer->agent->clock.timer_stop(restorer->look_timer);
    if (restorer->look != NULL)
        rpc_client_call_cancel(restorer->look);
    restorer->look = NULL;
}

/* ---- the caller is told ---- */

static void tell_start(struct restorer *restorer, uint64_t run)
{
    const Ckpt__V1__RestartPoint *point = restorer->point;
    const struct restore *restore = &restorer->restore;
    bool known = restore_owner_known(restore);
    bool first = point->owner_rule == CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST;
    const struct restore_owner owner = {.name = restore->owner.named ? restore->owner.name : "",
                                        .uid = known ? restore->owner.uid : restore->asked.uid};

    restorer->caller->told(restorer->data,
                           &(struct restore_word){.epoch = point->epoch,
                                                  .index = point->index,
                                                  .run = run,
                                                  .part = point->part,
                                                  .place = restore->place,
                                                  .places = (uint32_t)point->n_node_ids,
                                                  .owner = known || first ? &owner : NULL,
                                                  .owner_rule = point->owner_rule,
                                                  .comes_back = point->comes_back,
                                                  .profile = point->profile,
                                                  .attributes = point->attributes,
                                                  .profile_named = point->profile_named,
                                                  .transparent = point->transparent});
}

static void say_awaits(struct restorer *restorer)
{
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char text[RESTORE_TEXT_BYTES];

    CHECK(restorer->restore.awaits);
    restore_refusal_text(&restorer->restore, point, restorer->agent->node_id, text);
    restorer->caller->awaited(restorer->data, text, point->restarts ? point->restart_wait_ms : 0,
                              point->cause_wait_status);
}

static void tell_found(struct restorer *restorer)
{
    const struct restore_brought *brought = &restorer->restore.brought;
    bool damaged = brought->have == RESTORE_DAMAGED;

    CHECK(brought->checkpoint_id != 0);
    restorer->caller->found(restorer->data,
                            &(struct restore_found){.checkpoint_id = brought->checkpoint_id,
                                                    .damaged = damaged,
                                                    .mode = brought->mode,
                                                    .detail = damaged ? brought->damage : ""});
}

static void tell_reads(struct restorer *restorer, uint64_t checkpoint_id, bool wanted)
{
    CHECK(checkpoint_id != 0);
    restorer->caller->reads(restorer->data, checkpoint_id, wanted);
    if (wanted)
        restorer->said_sequence = ledger_last_sequence(restorer->agent->ledger);
}

static void hurry_session(struct agent *agent)
{
    if (agent->hurry != NULL)
        agent->hurry(agent->session);
}

static void copy_failed(struct restorer *restorer, size_t index)
{
    const struct restore *restore = &restorer->restore;
    const struct restore_brought *brought = &restore->brought;
    const Ckpt__V1__ShardInfo *shard = restore_shard(restore, restorer->point, index);

    copies_failed(restorer->agent, restore->asked.allocation_id, brought->checkpoint_id,
                  shard->part, restorer->copy_lost, restorer->copy_why);
}

/* ---- the step ---- */

static void carry_out_for_caller(struct restorer *restorer, const struct restore_event *event,
                                 const struct restore_effect *effect)
{
    switch ((int)effect->kind) {
    case RESTORE_DO_TELL:
        tell_start(restorer, effect->number);
        return;
    case RESTORE_DO_TELL_ALONE:
        restorer->caller->told(
            restorer->data,
            &(struct restore_word){.run = effect->number, .profile = "", .attributes = ""});
        return;
    case RESTORE_DO_SAY:
        restorer_say(restorer, effect->says, event);
        return;
    case RESTORE_DO_SAY_AWAITS:
        say_awaits(restorer);
        return;
    case RESTORE_DO_FOUND:
        tell_found(restorer);
        return;
    case RESTORE_DO_WANT:
    case RESTORE_DO_LEAVE:
        tell_reads(restorer, effect->number, effect->kind == RESTORE_DO_WANT);
        return;
    case RESTORE_DO_SWEEP:
        restorer->caller->sweep(restorer->data, restorer->restore.brought.folder);
        return;
    case RESTORE_DO_OVER:
        restorer_end(restorer, effect->over, event);
        return;
    default:
        CHECK_UNREACHABLE();
    }
}

static void carry_out(struct restorer *restorer, const struct restore_event *event,
                      const struct restore_effect *effect)
{
    const struct clock_ops *clock = &restorer->agent->clock;

    switch ((int)effect->kind) {
    case RESTORE_DO_WAIT:
        CHECK(restorer->call == NULL && restorer->worker == NULL);
        clock->timer_start(restorer->timer, effect->delay_ms * 1000);
        return;
    case RESTORE_DO_ASK:
        ask_leader(restorer);
        return;
    case RESTORE_DO_NAME:
        restorer_name(restorer);
        return;
    case RESTORE_DO_PREPARE:
        restorer_prepare(restorer);
        return;
    case RESTORE_DO_READ:
        restorer_read(restorer);
        return;
    case RESTORE_DO_DROP:
        CHECK(restorer->worker != NULL);
        restorer->agent->machine.worker_cancel(restorer->worker);
        return;
    case RESTORE_DO_LOOK_LATER:
        clock->timer_start(restorer->look_timer, LOOK_MS * UINT64_C(1000));
        return;
    case RESTORE_DO_LOOK:
        look_at_leader(restorer);
        return;
    case RESTORE_DO_LOOK_END:
        end_look(restorer);
        return;
    case RESTORE_DO_HURRY:
        hurry_session(restorer->agent);
        return;
    case RESTORE_DO_COUNT_COPY:
        restorer->agent->counters.copy_restores++;
        return;
    case RESTORE_DO_COPY_FAILED:
        copy_failed(restorer, (size_t)effect->number);
        return;
    case RESTORE_DO_WARN:
        restorer_warn(restorer, event);
        return;
    default:
        carry_out_for_caller(restorer, event, effect);
        return;
    }
}

/* The leader has everything that was reported when it said that it wants to read. */
static bool is_heard(const struct restorer *restorer)
{
    const struct ledger_report *first = ledger_report_after(restorer->agent->ledger, 0);

    return first == NULL || first->sequence > restorer->said_sequence;
}

static void see_facts(struct restorer *restorer, const struct restore_event *event,
                      struct restore_facts *ret_facts)
{
    struct agent *agent = restorer->agent;
    const struct restore *restore = &restorer->restore;
    const struct allocation *allocation = agent_find(agent, restore->asked.allocation_id);
    uint64_t now_us = agent_now_us(agent);

    *ret_facts = (struct restore_facts){.now_us = now_us,
                                        .wall_ms = agent->clock.wall_ms(agent->clock.context),
                                        .node_id = agent->node_id,
                                        .orders = agent->orders,
                                        .entry = allocation == NULL ? NULL : &allocation->entry,
                                        .point = restorer->point,
                                        .profile = ask_name("")};
    if (event->kind == RESTORE_TIMER)
        ret_facts->heard = is_heard(restorer);
    if (event->kind == RESTORE_POINT)
        ret_facts->profile_known = ask_find(restorer->point->profile) != NULL;
    if (event->kind == RESTORE_UNANSWERED && event->silence == RESTORE_LEADERLESS &&
        restore_may_go_alone(restore, now_us))
        ret_facts->outage_run = restorer->caller->outage_run(restorer->data);
}

static void take_event(struct restorer *restorer, const struct restore_event *event)
{
    struct restore_effects effects;
    struct restore_facts facts;

    CHECK(restorer->stepping);
    see_facts(restorer, event, &facts);
    restore_step(&restorer->restore, event, &facts, &effects);
    for (size_t i = 0; i < effects.count; i++)
        carry_out(restorer, event, &effects.effects[i]);
}

/* An event that an effect brings about waits until all effects before it are done. */
void restorer_post(struct restorer *restorer, const struct restore_event *event)
{
    CHECK(!restorer->cancelled);
    CHECK(restorer->waiting < RESTORER_EVENTS_MAX);
    CHECK(restorer->stepping || restorer->waiting == 0);
    restorer->events[restorer->waiting++] = *event;
    if (restorer->stepping)
        return;
    restorer->stepping = true;
    for (size_t i = 0; i < restorer->waiting; i++) {
        take_event(restorer, &restorer->events[i]);
        if (restorer->restore.state == RESTORE_OVER) {
            restorer_free(restorer);
            return;
        }
    }
    restorer->waiting = 0;
    restorer->stepping = false;
}

/* ---- life ---- */

static void timer_fired(void *data)
{
    restorer_post(data, &(struct restore_event){.kind = RESTORE_TIMER});
}

static void look_fired(void *data)
{
    restorer_post(data, &(struct restore_event){.kind = RESTORE_LOOK});
}

static void take_ask(struct restore *restore, const struct restore_ask *ask)
{
    struct restore_asked *asked = &restore->asked;
    struct restore_owning *owner = &restore->owner;

    CHECK(ask->profile[0] == '\0' || ask_find(ask->profile) != NULL); /* the hello's */
    asked->what = ask->what;
    asked->wait = ask->wait;
    asked->finished_run = ask->finished_run;
    asked->override = ask->override;
    asked->uid = ask->user.uid;
    snprintf(asked->allocation_id, sizeof(asked->allocation_id), "%s", ask->allocation_id);
    snprintf(asked->work_dir, sizeof(asked->work_dir), "%s", ask->work_dir);
    snprintf(asked->profile, sizeof(asked->profile), "%s", ask->profile);
    restore->prepares = ask->prepares;
    if (ask->owner == NULL)
        return;
    snprintf(owner->name, sizeof(owner->name), "%s", ask->owner->name);
    owner->named = ask->owner->name[0] != '\0';
    owner->first = true;
    owner->uid = ask->owner->uid;
}

struct restorer *restorer_start(struct restart_points *points, const struct restore_ask *ask)
{
    struct restorer *restorer = check_calloc(1, sizeof(*restorer));
    struct agent *agent = restart_points_agent(points);
    const struct clock_ops *clock = &agent->clock;

    restorer->agent = agent;
    restorer->points = points;
    restorer->caller = ask->caller;
    restorer->data = ask->data;
    restorer->folder = ask->folder;
    restorer->user = ask->user;
    take_ask(&restorer->restore, ask);
    restorer->restore.began_us = agent_now_us(agent);
    restorer->timer = clock->timer_new(clock->context, timer_fired, restorer);
    restorer->look_timer = clock->timer_new(clock->context, look_fired, restorer);
    CHECK(restorer->restore.state == RESTORE_PAUSED);
    clock->timer_start(restorer->timer, 0);
    return restorer;
}

void restorer_free(struct restorer *restorer)
{
    CHECK(restorer->call == NULL && restorer->worker == NULL);
    CHECK(restorer->look == NULL);
    restorer->agent->clock.timer_free(restorer->timer);
    restorer->agent->clock.timer_free(restorer->look_timer);
    free_point(restorer);
    free(restorer);
}

void restorer_wake(struct restorer *restorer)
{
    if (restorer != NULL)
        restorer_post(restorer, &(struct restore_event){.kind = RESTORE_WAKE});
}

void restorer_swept(struct restorer *restorer)
{
    if (restorer != NULL && restorer->restore.state == RESTORE_SWEEPING)
        restorer_post(restorer, &(struct restore_event){.kind = RESTORE_SWEPT});
}

uint64_t restorer_reading(const struct restorer *restorer)
{
    return restorer == NULL ? 0 : restorer->restore.turn.reads_id;
}

bool restorer_awaiting(const struct restorer *restorer)
{
    return restorer != NULL && restore_awaits(&restorer->restore);
}

void restorer_cancel(struct restorer *restorer)
{
    if (restorer == NULL)
        return;
    CHECK(!restorer->cancelled && !restorer->stepping);
    if (restorer->restore.awaits) {
        restorer->restore.awaits = false;
        hurry_session(restorer->agent);
    }
    restorer->agent->clock.timer_stop(restorer->timer);
    end_look(restorer);
    if (restorer->call != NULL)
        rpc_client_call_cancel(restorer->call);
    restorer->call = NULL;
    if (restorer->worker == NULL) {
        restorer_free(restorer);
        return;
    }
    restorer->cancelled = true;
    restorer->agent->machine.worker_cancel(restorer->worker);
}
