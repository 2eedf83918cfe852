/* The orders of a job that has no cluster. See alone_step.h. */
#include "src/agent/alone/alone_step.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

#define PHASE(name)  CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_##name
#define STATE(name)  CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define REPORT(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

static char empty_text[] = "";

static void check_alone(const struct alone *alone)
{
    CHECK(alone->count <= ALONE_CHECKPOINTS_MAX);
    CHECK((alone->phase == ALONE_WAITING) == (alone->attempt.id == 0));
    CHECK(alone->run != 0);
}

/* ---- known checkpoints ---- */

static struct alone_checkpoint *checkpoint_find(struct alone *alone, uint64_t id)
{
    CHECK(alone->count <= ALONE_CHECKPOINTS_MAX);
    for (size_t i = 0; i < alone->count; i++)
        if (alone->checkpoints[i].id == id)
            return &alone->checkpoints[i];
    return NULL;
}

static void checkpoint_forget(struct alone *alone, struct alone_checkpoint *checkpoint)
{
    const size_t at = (size_t)(checkpoint - alone->checkpoints);

    CHECK(at < alone->count);
    alone->count--;
    memmove(checkpoint, checkpoint + 1, (alone->count - at) * sizeof(*checkpoint));
}

/* The first to be forgotten for want of room. */
static struct alone_checkpoint *checkpoint_least(struct alone *alone)
{
    CHECK(alone->count > 0);
    for (size_t i = 0; i < alone->count; i++)
        if (alone->checkpoints[i].given_up)
            return &alone->checkpoints[i];
    return &alone->checkpoints[0];
}

void alone_know(struct alone *alone, const struct alone_checkpoint *checkpoint)
{
    struct alone_checkpoint *known = checkpoint_find(alone, checkpoint->id);
    size_t at;

    CHECK(checkpoint->id != 0);
    if (known != NULL) {
        *known = *checkpoint;
        return;
    }
    if (alone->count == ALONE_CHECKPOINTS_MAX)
        checkpoint_forget(alone, checkpoint_least(alone));
    at = alone->count++;
    for (; at > 0 && alone->checkpoints[at - 1].id > checkpoint->id; at--)
        alone->checkpoints[at] = alone->checkpoints[at - 1];
    alone->checkpoints[at] = *checkpoint;
}

const struct alone_checkpoint *alone_newest(const struct alone *alone)
{
    CHECK(alone->count <= ALONE_CHECKPOINTS_MAX);
    for (size_t i = alone->count; i-- > 0;)
        if (!alone->checkpoints[i].damaged)
            return &alone->checkpoints[i];
    return NULL;
}

const char *alone_path(const struct alone *alone, uint64_t id, char path[ALONE_PATH_BYTES])
{
    char name[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(id != 0);
    snprintf(path, ALONE_PATH_BYTES, "%.*s/" ALONE_PLACE "/%s", PATH_MAX - 1,
             alone->settings.folder, checkpoint_id_format(id, name));
    return path;
}

/* A damaged one is not counted, and goes with those that are older than all that are kept. One that
 * was begun from is known to be whole, the newer ones are not: it stays. */
static bool checkpoint_surplus(const struct alone *alone, size_t at)
{
    uint32_t better = 0;

    CHECK(at < alone->count);
    if (alone->checkpoints[at].given_up)
        return true;
    if (alone->running && alone->checkpoints[at].id == alone->began_from)
        return false;
    for (size_t i = at + 1; i < alone->count; i++)
        better += !alone->checkpoints[i].damaged;
    return better >= alone->settings.keep;
}

/* ---- runs ---- */

static void run_next(struct alone *alone)
{
    CHECK(alone->epoch != 0);
    alone->run = run_make(alone->epoch, ++alone->runs_made);
    alone->running = alone->over = false;
    alone->began_from = 0;
}

void alone_begin(struct alone *alone, const struct alone_settings *settings, uint64_t epoch,
                 const struct alone_found *found, uint64_t now_ms)
{
    CHECK(settings->keep >= 1 && settings->keep <= ALONE_KEEP_MAX);
    CHECK(settings->every_ms > 0);
    CHECK(epoch != 0);
    CHECK(epoch <= CHECKPOINT_EPOCH_MAX);
    memset(alone, 0, sizeof(*alone));
    alone->settings = *settings;
    alone->epoch = epoch;
    alone->index = 1;
    alone->due_ms = now_ms + settings->every_ms;
    if (found->run == 0) {
        run_next(alone);
        return;
    }
    alone->run = found->run;
    alone->running = found->running;
    alone->began_from = found->began_from;
}

/* ---- the checkpoint that is under way ---- */

static void attempt_first(struct alone *alone, uint64_t now_ms)
{
    CHECK(alone->phase == ALONE_WAITING);
    CHECK(alone->running);
    alone->attempt =
        (struct alone_attempt){.id = checkpoint_id_make(alone->epoch, ++alone->checkpoints_made),
                               .number = 1,
                               .asked_ms = now_ms};
    alone->phase = ALONE_ASKED;
}

/* A job that needs longer to save than its period would do nothing else: at least half of the time
 * is the application's. */
static void attempt_end(struct alone *alone, uint64_t now_ms)
{
    const uint64_t asked_ms = alone->attempt.asked_ms;
    const uint64_t spent_ms = now_ms - asked_ms;

    CHECK(now_ms >= asked_ms);
    alone->due_ms = asked_ms + alone->settings.every_ms;
    if (alone->due_ms < now_ms + spent_ms)
        alone->due_ms = now_ms + spent_ms;
    alone->attempt = (struct alone_attempt){0};
    alone->phase = ALONE_WAITING;
}

static void attempt_failed(struct alone *alone, uint64_t now_ms)
{
    uint64_t pause_ms = (uint64_t)ALONE_PAUSE_MS * alone->attempt.number;

    CHECK(alone->phase == ALONE_ASKED);
    if (alone->attempt.number >= ALONE_ATTEMPTS_MAX) {
        alone_know(alone, &(struct alone_checkpoint){
                              .id = alone->attempt.id, .damaged = true, .given_up = true});
        attempt_end(alone, now_ms);
        return;
    }
    if (pause_ms > alone->settings.every_ms)
        pause_ms = alone->settings.every_ms;
    alone->phase = ALONE_PAUSED;
    alone->due_ms = now_ms + pause_ms;
}

/* The application of the attempt has gone. */
static void attempt_drop(struct alone *alone, uint64_t now_ms)
{
    if (alone->phase != ALONE_WAITING)
        attempt_end(alone, now_ms);
    CHECK(alone->phase == ALONE_WAITING);
}

uint64_t alone_due_ms(const struct alone *alone)
{
    check_alone(alone);
    if (!alone->running || alone->phase == ALONE_ASKED)
        return UINT64_MAX;
    return alone->due_ms;
}

void alone_turn(struct alone *alone, uint64_t now_ms)
{
    if (now_ms < alone_due_ms(alone))
        return;
    if (alone->phase == ALONE_WAITING) {
        attempt_first(alone, now_ms);
    } else {
        const struct alone_attempt *before = &alone->attempt;

        alone->attempt = (struct alone_attempt){
            .id = before->id, .number = before->number + 1, .asked_ms = before->asked_ms};
        alone->phase = ALONE_ASKED;
    }
    alone->index++;
    check_alone(alone);
}

uint64_t alone_ask(struct alone *alone, uint64_t now_ms, uint64_t *ret_active)
{
    check_alone(alone);
    *ret_active = alone->attempt.id;
    if (!alone->running || alone->phase != ALONE_WAITING)
        return 0;
    attempt_first(alone, now_ms);
    alone->index++;
    return alone->attempt.id;
}

/* ---- the step of all ranks ---- */

/* One part: what it says is what all say (fsm/job/barrier.c). */
static void barrier_take(struct alone_attempt *attempt, uint64_t step)
{
    CHECK(attempt->id != 0);
    if (!attempt->meets)
        return;
    if (attempt->barrier == PHASE(GATHERING)) {
        attempt->barrier = PHASE(STEPPING);
    } else if (attempt->barrier == PHASE(STEPPING) && step != 0) {
        attempt->agreed_step = step;
        attempt->barrier = PHASE(AGREED);
    }
}

static void attempt_started(struct alone_attempt *attempt, bool meets)
{
    CHECK(attempt->id != 0);
    attempt->meets = meets;
    if (meets && attempt->barrier == PHASE(NONE))
        attempt->barrier = PHASE(GATHERING);
}

static void attempt_deferred(struct alone_attempt *attempt, uint64_t deferred_ms)
{
    CHECK(attempt->id != 0);
    attempt->deferred_ms = deferred_ms;
    attempt->agreed_step = 0;
    if (attempt->meets)
        attempt->barrier = PHASE(GATHERING);
}

/* ---- reports ---- */

/* Also of one that an agent before this one had under way: it lies there. */
static const struct alone_checkpoint *take_verified(struct alone *alone,
                                                    const Ckpt__V1__AgentReport *report,
                                                    uint64_t wall_ms)
{
    const uint64_t age_ms = report->snapshot_age_ms + report->saved_before_ms;
    struct alone_checkpoint checkpoint = {.id = report->checkpoint_id,
                                          .taken_ms = wall_ms > age_ms ? wall_ms - age_ms : 1,
                                          .size_bytes = report->size_bytes};

    CHECK(report->checkpoint_id != 0);
    if (label_valid(report->label))
        snprintf(checkpoint.label, sizeof(checkpoint.label), "%s", report->label);
    snprintf(checkpoint.manifest_sha256, sizeof(checkpoint.manifest_sha256), "%.64s",
             report->manifest_sha256);
    alone_know(alone, &checkpoint);
    for (size_t i = 0; i < alone->count; i++)
        alone->checkpoints[i].rests = false;
    return checkpoint_find(alone, checkpoint.id);
}

static void take_of_attempt(struct alone *alone, const Ckpt__V1__AgentReport *report,
                            uint64_t now_ms)
{
    struct alone_attempt *attempt = &alone->attempt;

    CHECK(attempt->id == report->checkpoint_id);
    if (report->kind == REPORT(STARTED))
        attempt_started(attempt, report->barrier);
    else if (report->kind == REPORT(BARRIER))
        barrier_take(attempt, report->step);
    else if (report->kind == REPORT(DEFERRED))
        attempt_deferred(attempt, report->deferral_ms);
    else if (report->kind == REPORT(RESPONSIVE))
        attempt->extended = true;
    else if (report->kind == REPORT(SHARD_VERIFIED))
        attempt_end(alone, now_ms);
    else if (report->kind == REPORT(CHECKPOINT_FAILED) || report->kind == REPORT(STOPPED_WRITING))
        attempt_failed(alone, now_ms);
}

/* The run is over, unless its application starts again in place. The next one is not named yet: a
 * ckpt-run that is about to leave would take it for a restart. */
static void take_end(struct alone *alone, const Ckpt__V1__AgentReport *report, uint64_t now_ms)
{
    CHECK(report->kind != REPORT(STARTED));
    if (report->run != alone->run)
        return;
    attempt_drop(alone, now_ms);
    alone->running = false;
    if (report->kind != REPORT(APPLICATION_EXITED) || report->will_restart == 0)
        alone->over = true;
}

static void take_start(struct alone *alone, const Ckpt__V1__AgentReport *report, uint64_t now_ms)
{
    CHECK(report->kind == REPORT(APPLICATION_STARTED));
    if (report->run != alone->run)
        return;
    alone->running = true;
    alone->over = false;
    alone->began_from = report->restored_checkpoint_id;
    alone->due_ms = now_ms + alone->settings.every_ms;
}

/* A start was to begin from it. Without any other the start goes on in a run of its own, in which
 * nothing is known to be damaged: it would wait for another word on this one for ever. */
static const struct alone_checkpoint *take_damaged(struct alone *alone,
                                                   const Ckpt__V1__AgentReport *report)
{
    struct alone_checkpoint *checkpoint = checkpoint_find(alone, report->restored_checkpoint_id);

    CHECK(report->kind == REPORT(RESTART_DAMAGED));
    if (checkpoint != NULL)
        checkpoint->damaged = true;
    if (!alone->running && alone_newest(alone) == NULL)
        alone->over = true;
    return checkpoint;
}

static void take_removal(struct alone *alone, const Ckpt__V1__AgentReport *report)
{
    struct alone_checkpoint *checkpoint = checkpoint_find(alone, report->checkpoint_id);

    CHECK(checkpoint == NULL || checkpoint->id != 0);
    if (checkpoint == NULL)
        return;
    if (report->kind == REPORT(COLLECTED)) {
        checkpoint_forget(alone, checkpoint);
    } else {
        checkpoint->removals++;
        checkpoint->rests = true;
    }
}

const struct alone_checkpoint *alone_take(struct alone *alone, const Ckpt__V1__AgentReport *report,
                                          uint64_t now_ms, uint64_t wall_ms)
{
    const struct alone_checkpoint *noted = NULL;

    check_alone(alone);
    if (report->kind == REPORT(SHARD_VERIFIED) && report->checkpoint_id != 0)
        noted = take_verified(alone, report, wall_ms);
    if (report->kind == REPORT(APPLICATION_STARTED))
        take_start(alone, report, now_ms);
    else if (report->kind == REPORT(APPLICATION_EXITED) || report->kind == REPORT(TERMINATED) ||
             report->kind == REPORT(WALLTIME_KILLED))
        take_end(alone, report, now_ms);
    else if (report->kind == REPORT(RESTART_DAMAGED))
        noted = take_damaged(alone, report);
    else if (report->kind == REPORT(COLLECTED) || report->kind == REPORT(COLLECT_FAILED))
        take_removal(alone, report);
    else if (alone->phase == ALONE_ASKED && report->checkpoint_id == alone->attempt.id &&
             report->attempt == alone->attempt.number)
        take_of_attempt(alone, report, now_ms);
    alone->index++;
    check_alone(alone);
    return noted;
}

/* ---- orders, derived ---- */

static void fill_part(const struct alone *alone, struct alone_messages *messages)
{
    Ckpt__V1__AllocationPart *part = &messages->part;
    const struct alone_checkpoint *newest = alone_newest(alone);

    ckpt__v1__allocation_part__init(part);
    part->allocation_id = (char *)(uintptr_t)alone->settings.allocation_id;
    part->grace_ms = ALONE_GRACE_MS;
    part->run = alone->run;
    part->parts = 1;
    part->read = CKPT__V1__READ_STATE__READ_STATE_MAY;
    part->restart_checkpoint_id = alone->running   ? alone->began_from
                                  : newest == NULL ? 0
                                                   : newest->id;
    part->begin = alone->running ? CKPT__V1__BEGIN_STATE__BEGIN_STATE_RUNS
                                 : CKPT__V1__BEGIN_STATE__BEGIN_STATE_MAY;
    messages->part_pointer = part;
    CHECK(part->run != 0);
}

/* With its place and a path that the caller has room for. */
static Ckpt__V1__Order *add_order(const struct alone *alone, struct alone_messages *messages,
                                  uint64_t id)
{
    const size_t at = messages->set.n_orders++;
    Ckpt__V1__Order *order = &messages->orders[at];

    CHECK(at < 1 + ALONE_REMOVALS_MAX);
    ckpt__v1__order__init(order);
    order->allocation_id = (char *)(uintptr_t)alone->settings.allocation_id;
    order->checkpoint_id = id;
    order->target_prefix = (char *)(uintptr_t)alone->settings.folder;
    (void)alone_path(alone, id, messages->paths[at]);
    order->path = messages->paths[at];
    order->cluster_mark = alone->settings.cluster_mark;
    messages->order_pointers[at] = order;
    return order;
}

static void add_checkpoint(const struct alone *alone, struct alone_messages *messages)
{
    const struct alone_attempt *attempt = &alone->attempt;
    const uint64_t every_ms = alone->settings.every_ms;
    const uint64_t answer_ms = every_ms > ALONE_ANSWER_MS ? every_ms : ALONE_ANSWER_MS;
    const uint64_t deferral_ms = every_ms > ALONE_ANSWER_MS ? ALONE_ANSWER_MS : every_ms;
    Ckpt__V1__Order *order = add_order(alone, messages, attempt->id);

    CHECK(alone->phase == ALONE_ASKED);
    order->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT;
    order->attempt = attempt->number;
    order->run = alone->run;
    order->after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    order->barrier = attempt->barrier;
    order->agreed_step = attempt->agreed_step;
    order->extended = attempt->extended;
    order->timeout_ms = answer_ms + (attempt->extended ? answer_ms / 2 : 0) + attempt->deferred_ms;
    order->deferred_ms = attempt->deferred_ms;
    order->max_deferral_ms =
        attempt->deferred_ms < deferral_ms ? deferral_ms - attempt->deferred_ms : 0;
    order->read_back = CKPT__V1__READ_BACK__READ_BACK_SAMPLED;
    order->generations = 8;
    order->staging = CKPT__V1__STAGING__STAGING_LOCAL;
    order->compression = CKPT__V1__COMPRESSION__COMPRESSION_NONE;
}

/* While the application runs: until then one of them may be what it begins from. */
static void add_removals(const struct alone *alone, struct alone_messages *messages)
{
    size_t added = 0;

    for (size_t i = 0; alone->running && i < alone->count && added < ALONE_REMOVALS_MAX; i++) {
        const struct alone_checkpoint *checkpoint = &alone->checkpoints[i];
        Ckpt__V1__Order *order;

        if (checkpoint->rests || !checkpoint_surplus(alone, i))
            continue;
        order = add_order(alone, messages, checkpoint->id);
        order->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT;
        order->attempt = checkpoint->removals + 1;
        order->timeout_ms = ALONE_ANSWER_MS;
        added++;
    }
    CHECK(added <= ALONE_REMOVALS_MAX);
}

void alone_orders(const struct alone *alone, struct alone_messages *ret_messages)
{
    Ckpt__V1__OrderSet *set = &ret_messages->set;

    check_alone(alone);
    ckpt__v1__order_set__init(set);
    set->epoch = alone->epoch;
    set->term = 1;
    set->index = alone->index;
    set->runs_until = alone->run;
    set->orders = ret_messages->order_pointers;
    fill_part(alone, ret_messages);
    set->parts = &ret_messages->part_pointer;
    set->n_parts = 1;
    if (alone->phase == ALONE_ASKED)
        add_checkpoint(alone, ret_messages);
    add_removals(alone, ret_messages);
}

/* ---- from where it begins ---- */

static void fill_checkpoint(const struct alone *alone, const struct alone_checkpoint *checkpoint,
                            struct alone_messages *messages)
{
    Ckpt__V1__RestartPoint *point = &messages->point;
    Ckpt__V1__ShardInfo *shard = &messages->shard;

    CHECK(checkpoint->id != 0 && !checkpoint->damaged);
    ckpt__v1__shard_info__init(shard);
    shard->node_id = messages->node_pointer;
    shard->started = shard->verified = true;
    shard->size_bytes = checkpoint->size_bytes;
    shard->manifest_sha256 = (char *)(uintptr_t)checkpoint->manifest_sha256;
    messages->shard_pointer = shard;
    point->shards = &messages->shard_pointer;
    point->n_shards = 1;
    point->own_shard = 1;
    point->checkpoint_id = checkpoint->id;
    point->path = messages->paths[0];
    (void)alone_path(alone, checkpoint->id, messages->paths[0]);
    point->target_prefix = (char *)(uintptr_t)alone->settings.folder;
    point->snapshot_at_ms = checkpoint->taken_ms;
    point->label = (char *)(uintptr_t)checkpoint->label;
}

/* There were checkpoints, and none of them is whole. */
static bool all_are_damaged(const struct alone *alone)
{
    bool any = false;

    CHECK(alone->count <= ALONE_CHECKPOINTS_MAX);
    for (size_t i = 0; i < alone->count; i++)
        any = any || !alone->checkpoints[i].given_up;
    return any && alone_newest(alone) == NULL;
}

static void fill_damaged(struct alone_messages *messages)
{
    CHECK(messages->point.checkpoint_id == 0);
    ckpt__v1__begin_without__init(&messages->without);
    messages->without.cause = CKPT__V1__BEGIN_CAUSE__BEGIN_CAUSE_UNREADABLE;
    messages->point.without = &messages->without;
}

void alone_point(struct alone *alone, struct alone_messages *ret_messages)
{
    static char node[] = ALONE_NODE;
    const struct alone_checkpoint *newest = alone_newest(alone);
    Ckpt__V1__RestartPoint *point = &ret_messages->point;

    check_alone(alone);
    if (alone->over) {
        run_next(alone);
        alone->index++;
    }
    ckpt__v1__restart_point__init(point);
    fill_part(alone, ret_messages);
    ret_messages->node_pointer = node;
    ret_messages->run = alone->run;
    point->part = &ret_messages->part;
    point->allocation_state = alone->running ? STATE(RUNNING) : STATE(STARTING);
    point->node_ids = &ret_messages->node_pointer;
    point->runs = &ret_messages->run;
    point->n_node_ids = point->n_runs = 1;
    point->epoch = alone->epoch;
    point->index = alone->index;
    point->owner = empty_text;
    point->owner_rule = CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST;
    snprintf(ret_messages->all_path, sizeof(ret_messages->all_path), "%.*s/" ALONE_PLACE,
             PATH_MAX - 1, alone->settings.folder);
    point->checkpoints_path = ret_messages->all_path;
    point->checkpoints_prefix = (char *)(uintptr_t)alone->settings.folder;
    point->target_id = node;
    if (newest != NULL)
        fill_checkpoint(alone, newest, ret_messages);
    else if (all_are_damaged(alone))
        fill_damaged(ret_messages);
}
