/* Where an application starts from. See restart_points.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/restore_internal.h"
#include "src/agent/run/words.h"
#include "src/base/buf.h"

#define RESTART_POINT_METHOD "/ckpt.v1.BrokerService/GetRestartPoint"

enum {
    CALL_TIMEOUT_MS = 5000,
    SCRATCH_WAIT_US = 5000000,
    PATIENCE_US = 1000000, /* an election is over before anybody is told that there is no leader */
    REFUSALS_MAX = 10      /* a job may be started a moment before it is registered or restarted */
};

/* ---- what the leader says ---- */

/* The place of this node among the allocation's, which is that of its part. */
static bool point_names_node(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                             uint32_t *ret_place)
{
    for (uint32_t i = 0; i < point->n_node_ids && i < point->n_runs; i++) {
        if (strcmp(point->node_ids[i], restore->agent->node_id) != 0)
            continue;
        *ret_place = i;
        return point->runs[i] != 0; /* nothing starts without it */
    }
    return false;
}

static void restore_tell(struct restore *restore, const Ckpt__V1__RestartPoint *point, uint64_t run)
{
    bool known = restore->owner_named || restore->owner_first;
    bool first = point->owner_rule == CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST;
    const struct restore_owner owner = {.name = restore->owner_named ? restore->owner_name : "",
                                        .uid = known ? restore->owner_uid : restore->user.uid};

    restore->told(restore->data, &(struct restore_word){.epoch = point->epoch,
                                                        .index = point->index,
                                                        .run = run,
                                                        .part = point->part,
                                                        .place = restore->place,
                                                        .places = (uint32_t)point->n_node_ids,
                                                        .owner = known || first ? &owner : NULL,
                                                        .owner_rule = point->owner_rule,
                                                        .comes_back = point->comes_back,
                                                        .profile = point->profile});
}

/* It may be registered or restarted in a moment; whoever waits for less than the agent does is to
 * know for what. */
static void refusal_waits(struct restore *restore, const char *text)
{
    if (agent_now_us(restore->agent) - restore->began_us >= PATIENCE_US)
        restore_waits(restore, "%s", text);
}

/* The leader hears of it with the next heartbeat, which is sent soon. */
static void set_awaits(struct restore *restore, bool awaits)
{
    CHECK(restore->agent != NULL);
    if (restore->awaits == awaits)
        return;
    restore->awaits = awaits;
    if (restore->agent->hurry != NULL)
        restore->agent->hurry(restore->agent->session);
}

/* Nothing may begin here before the cluster says so, and whoever asks is kept for that. */
static void restore_awaits_run(struct restore *restore, const Ckpt__V1__RestartPoint *point,
                               const char *text)
{
    bool told = restore->awaits;

    CHECK(!restore->cancelled);
    set_awaits(restore, true);
    if (restore->awaited != NULL && (!told || (!point->restarts && restore->wait == WAIT(ANY))))
        restore->awaited(restore->data, text, point->restarts ? point->restart_wait_ms : 0,
                         point->cause_wait_status);
    else
        restore_waits(restore, "%s", text);
    restore_hold(restore);
}

bool restore_awaiting(const struct restore *restore)
{
    return restore != NULL && restore->awaits &&
           (restore->user.uid == 0 || restore->owner_named || restore->owner_first);
}

/* Its part has finished in this run, and others of it go on: it begins again with them alone. */
static bool point_has_finished(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    CHECK(!restore->cancelled);
    return restore->finished_run != 0 && restore_point_runs(point) &&
           point_names_node(restore, point, &restore->place) &&
           point->runs[restore->place] == restore->finished_run;
}

/* Nothing begins for it: it hears why its run has ended, when that is known. */
static void restore_tells_why(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[RESTORE_TEXT_BYTES];

    CHECK(restore->wait == WAIT(NONE) && !restore->awaits);
    if (restore_point_runs(point)) {
        restore_again(restore, RESTORE_RETRY_MS);
        return;
    }
    restore_refusal_text(restore, point, text);
    restore_finish(restore,
                   &(struct restore_result){.folder = "",
                                            .notice = "",
                                            .error = text,
                                            .cause_wait_status = point->cause_wait_status});
}

/* True: the broker does not count on this allocation here, which may change in a moment. */
static bool point_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[RESTORE_TEXT_BYTES];
    bool may_come = /* a restart, on any nodes */
        point->allocation_state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED;

    if (restore->wait == WAIT(NONE)) {
        restore_tells_why(restore, point);
        return true;
    }
    if (point_has_finished(restore, point)) {
        restore_hold(restore);
        return true;
    }
    if (restore_point_runs(point) && point_names_node(restore, point, &restore->place)) {
        set_awaits(restore, false);
        restore_tell(restore, point, point->runs[restore->place]);
        return false;
    }
    restore_refusal_text(restore, point, text);
    if (may_come && (point->restarts || restore_starts_elsewhere(restore, point) ||
                     restore->wait == WAIT(ANY))) {
        restore_awaits_run(restore, point, text);
        return true;
    }
    if (++restore->refusals >= REFUSALS_MAX || restore->wait == WAIT(RESTART)) {
        restore_finish(restore,
                       &(struct restore_result){.folder = "",
                                                .notice = "",
                                                .error = text,
                                                .may_come = may_come,
                                                .cause_wait_status = point->cause_wait_status});
        return true;
    }
    refusal_waits(restore, text);
    restore_again(restore, RESTORE_RETRY_MS);
    return true;
}

/* A state that was restored from a backup does not know what it had been told. */
static void say_again(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    if (restore->unheard && (restore->damaged || (point->part != NULL && !point->part->restored)))
        restore_say_found(restore);
}

/* Why nothing begins yet. */
static void say_begin(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const unsigned part = restore->place, parts = (unsigned)point->n_node_ids;

    switch (restore->begin) {
    case BEGIN(ENDING):
        restore_waits(restore,
                      "part %u of %u: the run is being ended; what comes next is waited for", part,
                      parts);
        break;
    case BEGIN(RUNS):
        restore_waits(restore,
                      "part %u of %u: the cluster has still to hear that this part has ended; what "
                      "comes next is waited for",
                      part, parts);
        break;
    case BEGIN(MAY): /* not from scratch in the place of what is damaged: the run is over */
        restore_waits(restore,
                      "part %u of %u: what it was to begin from is damaged; what comes next is "
                      "waited for",
                      part, parts);
        break;
    default:
        restore_waits(restore, "part %u of %u: it waits for what the other parts restore", part,
                      parts);
    }
}

/* The state names what was tried already: the others have still to say what they found. */
static void restore_stands(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->have || restore->damaged);
    checkpoint_id_format(restore->checkpoint_id, id);
    if (restore->have && restore->begin == BEGIN(MAY)) {
        restore_ready(restore);
        return;
    }
    if (restore->damaged)
        restore_waits(restore, "another checkpoint than %s is waited for", id);
    else if (restore->begin != BEGIN(RESTORING))
        say_begin(restore, point);
    else
        restore_waits(
            restore,
            "part %u of %zu: what it needs of checkpoint %s is restored; it waits for the "
            "other parts",
            (unsigned)restore->place, point->n_node_ids, id);
    say_again(restore, point);
    restore_hold(restore);
}

static void note_given_up(struct restore *restore, uint64_t checkpoint_id, uint64_t repeated_ms,
                          uint64_t max_ms)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], repeated[WORDS_BYTES], limit[WORDS_BYTES];

    CHECK(checkpoint_id != 0);
    restore->passed_id = checkpoint_id;
    restore->given_up = true;
    snprintf(restore->notice, sizeof(restore->notice),
             "checkpoint %s is waited for no more, its target is away: %s of run time are "
             "repeated (max_discarded %s)",
             checkpoint_id_format(checkpoint_id, id), words_duration(repeated_ms, repeated),
             words_duration(max_ms, limit));
}

/* Another part found it damaged; or its target was away for too long, perhaps before this restore
 * began. */
static void passed_over(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const Ckpt__V1__BeginWithout *without = point->without;
    const struct restore_outage *outage = &restore->outage;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->worker == NULL);
    if (restore->what == RESTORE_FILES && without != NULL &&
        without->cause == CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP &&
        without->checkpoint_id != restore->passed_id &&
        (restore->begin == BEGIN(MAY) || restore->begin == BEGIN(RESTORING))) {
        note_given_up(restore, without->checkpoint_id, without->repeated_ms,
                      point->max_discarded_ms);
        return;
    }
    if (restore->checkpoint_id == 0 || restore->damaged ||
        restore->checkpoint_id == point->checkpoint_id ||
        restore->passed_id == restore->checkpoint_id)
        return;
    if (outage->at_ms != 0) {
        note_given_up(restore, restore->checkpoint_id, outage->discarded_ms, outage->max_ms);
        return;
    }
    restore->passed_id = restore->checkpoint_id;
    snprintf(restore->notice, sizeof(restore->notice),
             "checkpoint %s is passed over, another part found a shard of it damaged",
             checkpoint_id_format(restore->checkpoint_id, id));
}

/* True: it would begin from nothing beside parts that begin from a checkpoint. */
static bool scratch_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[RESTORE_TEXT_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];

    if (restore->what != RESTORE_NOTHING || point->checkpoint_id == 0 || point->n_node_ids == 1 ||
        (point->part != NULL && point->part->joined))
        return false;
    snprintf(text, sizeof(text),
             "allocation %s has %zu parts, which all begin from checkpoint %s: one alone does not "
             "start from scratch; start it without --from-scratch, or all of them (ckptctl restart "
             "%s --from-scratch)",
             restore->allocation_id, point->n_node_ids,
             checkpoint_id_format(point->checkpoint_id, id), restore->allocation_id);
    restore_error(restore, text);
    return true;
}

/* True: the run has begun from what has gone since, and a part of it would begin from something
 * else. */
static bool run_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[RESTORE_TEXT_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];

    if (point->part == NULL || point->part->joined || point->n_node_ids == 1 ||
        point->part->restart_checkpoint_id == point->checkpoint_id)
        return false;
    snprintf(text, sizeof(text),
             "the parts of allocation %s have begun from checkpoint %s, which is kept no more: one "
             "alone does not start again; end the job and restart all of them (ckptctl end, "
             "ckptctl restart)",
             restore->allocation_id, checkpoint_id_format(point->part->restart_checkpoint_id, id));
    restore_error(restore, text);
    return true;
}

Ckpt__V1__RestoreMode restore_mode(const struct restore *restore,
                                   const Ckpt__V1__RestartPoint *point)
{
    CHECK((unsigned)restore->override <= CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH);
    if (restore->override != CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED)
        return restore->override;
    return point->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED
               ? point->restore
               : CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN;
}

/* True: another part has restored in another way, as its ckpt-run said. */
static bool mode_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const ProtobufCEnumDescriptor *modes = &ckpt__v1__restore_mode__descriptor;
    const Ckpt__V1__RestoreMode mode = restore_mode(restore, point);
    char own[WORDS_BYTES], other[WORDS_BYTES], text[RESTORE_TEXT_BYTES];

    CHECK(mode != CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED);
    CHECK(restore->place < point->n_node_ids);
    if (point->restored_as == CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED ||
        point->restored_as == mode || point->restored_part == restore->place)
        return false;
    words_enum(modes, (int)mode, own);
    words_enum(modes, (int)point->restored_as, other);
    snprintf(text, sizeof(text),
             "part %u of allocation %s restores %s, part %u has restored %s: all parts restore in "
             "one way; start this one with --restore %s, or all of them alike",
             (unsigned)restore->place, restore->allocation_id, own, (unsigned)point->restored_part,
             other, other);
    restore_error(restore, text);
    return true;
}

/* True: ckpt-run says another profile than the registration, or nobody here can ask so. The first
 * profile stands for none where nobody named it. */
static bool profile_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[RESTORE_TEXT_BYTES], profiles[ASK_PROFILES_BYTES];
    const bool registered = point->profile_named || (point->profile[0] != '\0' &&
                                                     strcmp(point->profile, ask_name("")) != 0);

    CHECK(restore->what != RESTORE_OWNER);
    CHECK(restore->profile[0] == '\0' || ask_find(restore->profile) != NULL); /* the hello's */
    if (registered && ask_find(point->profile) == NULL)
        snprintf(
            text, sizeof(text),
            "allocation %s is registered with profile %.64s, which the agent of this node does "
            "not know; there are: %s",
            restore->allocation_id, point->profile, ask_profiles(profiles));
    else if (registered && restore->profile[0] != '\0' &&
             strcmp(restore->profile, point->profile) != 0)
        snprintf(text, sizeof(text),
                 "allocation %s is registered with profile %s, and ckpt-run says --profile %s: "
                 "leave that out, or register an allocation with the other one",
                 restore->allocation_id, point->profile, restore->profile);
    else
        return false;
    restore_error(restore, text);
    return true;
}

/* True: the state ends the run, or counts this part as running. What was found damaged is not
 * followed by a start from scratch either: the end of the run is on its way. */
static bool run_waits(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    if (restore->begin == BEGIN(MAY) && (!restore->damaged || restore->what == RESTORE_NOTHING))
        return false;
    say_begin(restore, point);
    restore_hold(restore);
    return true;
}

/* True: what was brought before is not what begins, and goes first: beside it the application would
 * find two checkpoints, and the disk both of them. */
static bool sweeps_earlier(struct restore *restore, const Ckpt__V1__RestartPoint *point,
                           bool from_nothing)
{
    if (restore->folder[0] == '\0' || (!from_nothing && restore_is_of(restore, point)))
        return false;
    restore_sweep(restore);
    return true;
}

static void take_outage(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    restore->outage =
        (struct restore_outage){point->discarded_ms, point->discard_at_ms, point->max_discarded_ms};
}

/* "": as its user asked, or a broker of an earlier version does not say it. */
static const char *scratch_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                                char text[RESTORE_TEXT_BYTES])
{
    const Ckpt__V1__BeginWithout *without = point->without;
    char id[CHECKPOINT_ID_TEXT_BYTES], repeated[WORDS_BYTES];

    CHECK(restore->worker == NULL);
    text[0] = '\0';
    if (restore->what != RESTORE_FILES || without == NULL)
        return text;
    checkpoint_id_format(without->checkpoint_id, id);
    words_duration(without->repeated_ms, repeated);
    switch (without->cause) {
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_NONE_COMPLETE:
        return "there is no complete checkpoint of it yet";
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE:
        return "no checkpoint of it can be read, all its work is done again";
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_GIVEN_UP:
        snprintf(text, RESTORE_TEXT_BYTES,
                 "checkpoint %s is given up, since its target is away, and %s of run time are "
                 "repeated",
                 id, repeated);
        return text;
    case CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_LEFT:
        snprintf(text, RESTORE_TEXT_BYTES,
                 "checkpoint %s is left aside, %s, and %s of run time are repeated", id,
                 restore->given_up ? "since its target was away"
                                   : "as its restart said, or since its target was away then",
                 repeated);
        return text;
    default:
        return text;
    }
}

static void take_point(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char why[RESTORE_TEXT_BYTES];
    const struct restore_result scratch = {.folder = "",
                                           .notice = restore->notice,
                                           .error = "",
                                           .scratch = scratch_text(restore, point, why)};
    const struct restore_result empty = {
        .folder = "",
        .notice = "this node joined a run that had begun: it restores nothing",
        .error = ""};
    bool joined, from_nothing;

    if (restore_owner_refuses(restore, point))
        return;
    if (restore->what == RESTORE_OWNER) {
        restore_tell(restore, point,
                     point_names_node(restore, point, &restore->place) ? point->runs[restore->place]
                                                                       : 0);
        restore_finish(restore, &scratch);
        return;
    }
    if (profile_refuses(restore, point) || point_refuses(restore, point))
        return;
    CHECK(restore->place < point->n_node_ids && restore->place < point->n_runs);
    if (point->runs[restore->place] != restore->run) { /* what was said was of the run before */
        restore->have = restore->damaged = false;
        restore->reads_id = 0;
    }
    restore->run = point->runs[restore->place];
    restore->begin = point->part == NULL ? BEGIN(MAY) : point->part->begin;
    joined = point->part != NULL && point->part->joined;
    if (scratch_refuses(restore, point) || run_refuses(restore, point))
        return;
    from_nothing = restore->what == RESTORE_NOTHING || point->checkpoint_id == 0 || joined;
    if (restore_prepares(restore, point))
        return;
    passed_over(restore, point);
    take_outage(restore, point);
    if (sweeps_earlier(restore, point, from_nothing))
        return;
    if (from_nothing) {
        if (run_waits(restore, point))
            return;
        restore_finish(restore, joined ? &empty : &scratch);
        return;
    }
    if (mode_refuses(restore, point))
        return;
    if (point->checkpoint_id == restore->checkpoint_id &&
        (restore->damaged || (restore->have && restore_is_of(restore, point)))) {
        restore_stands(restore, point);
        return;
    }
    restore_bring(restore, point);
}

static void point_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                          size_t length)
{
    struct restore *restore = data;
    Ckpt__V1__RestartPoint *point = ckpt__v1__restart_point__unpack(NULL, length, bytes);

    rpc_client_call_cancel(call);
    restore->call = NULL;
    if (point == NULL) {
        restore_again(restore, RESTORE_RETRY_MS);
        return;
    }
    take_point(restore, point);
    ckpt__v1__restart_point__free_unpacked(point, NULL);
}

/* True: no broker can be asked, and the last word of one was that it may start; not that its run
 * is being ended, or that others are waited for. */
static bool starts_alone(struct restore *restore)
{
    uint64_t run;

    CHECK(restore->call == NULL && restore->worker == NULL);
    if (restore->what != RESTORE_NOTHING || restore->outage_run == NULL ||
        agent_now_us(restore->agent) - restore->began_us < SCRATCH_WAIT_US)
        return false;
    run = restore->outage_run(restore->data);
    if (run == 0 || (run == restore->run && restore->begin != BEGIN(MAY)))
        return false;
    restore->told(restore->data, &(struct restore_word){.run = run, .profile = ""});
    restore_finish(restore, &(struct restore_result){.folder = "", .notice = "", .error = ""});
    return true;
}

static void point_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct restore *restore = data;
    const struct restore_result unknown = {.folder = "",
                                           .notice = "",
                                           .error = "the broker does not know this allocation; "
                                                    "register it first (ckptctl jobs lists them)"};
    struct rpc_follow *follow = restore->points->follow;
    uint64_t delay_ms = RESTORE_RETRY_MS;

    (void)call;
    restore->call = NULL;
    if (end->status == RPC_NOT_FOUND && restore->what == RESTORE_OWNER) {
        restore_error(restore, ""); /* nobody's */
        return;
    }
    if (end->status == RPC_NOT_FOUND && ++restore->refusals >= REFUSALS_MAX) {
        restore_finish(restore, &unknown);
        return;
    }
    if (end->status == RPC_NOT_FOUND)
        refusal_waits(restore, unknown.error);
    else
        log_info("restart_point_waits", "allocation=%s status=%s text=\"%s\"",
                 restore->allocation_id, rpc_status_name(end->status), end->message);
    if (!rpc_follow_result(follow, end, &delay_ms) && end->status != RPC_NOT_FOUND &&
        end->channel == rpc_follow_channel(follow))
        rpc_follow_move(follow, NULL); /* no broker, or one that cannot: another may */
    if (end->status != RPC_NOT_FOUND && starts_alone(restore))
        return;
    if (end->status != RPC_NOT_FOUND &&
        agent_now_us(restore->agent) - restore->began_us >= PATIENCE_US)
        restore_waits(restore,
                      "the agent is there, but no leader of the cluster answers it: %s %.300s; the "
                      "application starts when one does",
                      rpc_status_name(end->status), end->message);
    restore_again(restore, delay_ms < RESTORE_RETRY_MS ? RESTORE_RETRY_MS : delay_ms);
}

static struct rpc_client_call *point_call(struct restore *restore,
                                          const struct rpc_client_handlers *handlers)
{
    Ckpt__V1__GetRestartPointRequest request = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    struct rpc_client_call *call;
    char node_id[ID_MAX_BYTES + 1];
    struct buf bytes;

    CHECK(restore->call == NULL && restore->look == NULL);
    request.allocation_id = restore->allocation_id;
    snprintf(node_id, sizeof(node_id), "%s", restore->agent->node_id);
    request.node_id = node_id;
    buf_init(&bytes);
    ckpt__v1__get_restart_point_request__pack(
        &request,
        buf_extend(&bytes, ckpt__v1__get_restart_point_request__get_packed_size(&request)));
    call = rpc_channel_unary(rpc_follow_channel(restore->points->follow),
                             &(struct rpc_request){.path = RESTART_POINT_METHOD,
                                                   .bytes = bytes.bytes,
                                                   .length = bytes.length,
                                                   .timeout_ms = CALL_TIMEOUT_MS},
                             handlers, restore);
    buf_close(&bytes);
    return call;
}

static void point_ask(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = point_message,
                                                        .on_end = point_end};
    struct restore *restore = data;

    CHECK(restore->worker == NULL);
    restore->unheard = restore->held; /* nothing woke it */
    restore_note_heard(restore);
    restore->held = false;
    restore->call = point_call(restore, &handlers);
}

/* ---- while a worker reads ---- */

/* What else has changed is taken when the worker has ended; orders end one in vain. */
static void look_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    struct restore *restore = data;
    Ckpt__V1__RestartPoint *point = ckpt__v1__restart_point__unpack(NULL, length, bytes);

    CHECK(restore->look == call);
    rpc_client_call_cancel(call);
    restore->look = NULL;
    if (point != NULL && point->checkpoint_id == restore->checkpoint_id)
        take_outage(restore, point);
    if (point != NULL)
        ckpt__v1__restart_point__free_unpacked(point, NULL);
    restore_say_reading(restore);
}

/* Without an answer it says what was known last. */
static void look_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct restore *restore = data;
    struct rpc_follow *follow = restore->points->follow;
    uint64_t delay_ms;

    CHECK(restore->look == call);
    restore->look = NULL;
    if (!rpc_follow_result(follow, end, &delay_ms) && end->status != RPC_NOT_FOUND &&
        end->channel == rpc_follow_channel(follow))
        rpc_follow_move(follow, NULL);
    restore_say_reading(restore);
}

/* A destination that hangs holds its worker for as long as it hangs: that it is away, and what
 * follows, is known to the leader alone. */
static void point_look(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = look_message,
                                                        .on_end = look_end};
    struct restore *restore = data;

    CHECK(restore->worker != NULL);
    CHECK(!restore->cancelled);
    restore->look = point_call(restore, &handlers);
}

/* ---- life ---- */

int restart_points_new(struct agent *agent, const char *brokers, struct restart_points **ret_points,
                       struct err *err)
{
    const struct rpc_channel_config config = {.tls = agent->tls};
    struct restart_points *points = check_calloc(1, sizeof(*points));

    points->agent = agent;
    if (rpc_follow_new(agent->loop, brokers, &config, &points->follow, err) != 0) {
        free(points);
        return -1;
    }
    *ret_points = points;
    return 0;
}

void restart_points_free(struct restart_points *points)
{
    if (points == NULL)
        return;
    rpc_follow_free(points->follow);
    free(points);
}

struct restore *restore_start(struct restart_points *points, const struct restore_ask *ask)
{
    struct restore *restore = check_calloc(1, sizeof(*restore));
    const struct clock_ops *clock = &points->agent->clock;

    restore->agent = points->agent;
    restore->points = points;
    snprintf(restore->allocation_id, sizeof(restore->allocation_id), "%s", ask->allocation_id);
    snprintf(restore->work_dir, sizeof(restore->work_dir), "%s", ask->work_dir);
    restore->opened = ask->folder;
    restore->user = ask->user;
    restore->what = ask->what;
    restore->override = ask->override;
    snprintf(restore->profile, sizeof(restore->profile), "%s", ask->profile);
    restore->prepares = ask->prepares;
    restore->wait = ask->wait;
    restore->finished_run = ask->finished_run;
    restore->awaited = ask->awaited;
    restore->outage_run = ask->outage_run;
    if (ask->owner != NULL) {
        snprintf(restore->owner_name, sizeof(restore->owner_name), "%s", ask->owner->name);
        restore->owner_named = ask->owner->name[0] != '\0';
        restore->owner_first = true;
        restore->owner_uid = ask->owner->uid;
    }
    restore->began_us = agent_now_us(points->agent);
    restore->told = ask->told;
    restore->waits = ask->waits;
    restore->found = ask->found;
    restore->reads = ask->reads;
    restore->sweep = ask->sweep;
    restore->done = ask->done;
    restore->data = ask->data;
    restore->timer = clock->timer_new(clock->context, point_ask, restore);
    restore->reading = clock->timer_new(clock->context, point_look, restore);
    restore_again(restore, 0);
    return restore;
}

void restore_cancel(struct restore *restore)
{
    if (restore == NULL)
        return;
    CHECK(!restore->cancelled);
    set_awaits(restore, false);
    restore->agent->clock.timer_stop(restore->timer);
    restore_end_look(restore);
    if (restore->call != NULL)
        rpc_client_call_cancel(restore->call);
    restore->call = NULL;
    if (restore->worker == NULL) {
        restore_free(restore);
        return;
    }
    restore->cancelled = true;
    restore->agent->machine.worker_cancel(restore->worker);
}
