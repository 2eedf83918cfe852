/* Where an application starts from. See restart_points.h. */
#include "src/agent/job/restart_points.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/job/allocation.h"
#include "src/agent/run/words.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"
#include "src/rpc/follow.h"

#define RESTART_POINT_METHOD "/ckpt.v1.BrokerService/GetRestartPoint"

enum {
    CALL_TIMEOUT_MS = 5000,
    RETRY_MS = 500,
    STORAGE_RETRY_MS = 2000,
    RESTORE_DEADLINE_MS = 24 * 3600 * 1000, /* a hung mount; ckpt-run may give up earlier */
    SCRATCH_WAIT_US = 5000000,
    PATIENCE_US = 1000000, /* an election is over before anybody is told that there is no leader */
    OWNER_DEADLINE_MS = 10000, /* of the directory of users */
    WORKER_REFUSALS_MAX = 3,   /* a worker of the agent before may not have ended yet */
    REFUSALS_MAX = 10, /* a job may be started a moment before it is registered or restarted */
    PARTS_MAX = 16,    /* of a job of several nodes that falls back by itself */
    REFUSAL_BYTES = 512
};

struct part {
    char name[PART_NAME_BYTES];
    char node_id[ID_MAX_BYTES + 1]; /* that wrote it */
    char manifest_sha256[72];
};

struct restart_points {
    struct agent *agent;
    struct rpc_follow *follow;
};

enum { ATTACH_LINE_BYTES = 480, ATTACH_MORE_BYTES = 64 };

struct restore {
    struct agent *agent;
    struct restart_points *points; /* may be gone when a cancelled worker ends */
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    const struct opened *opened; /* the work folder, until it is cancelled */
    char folder[PATH_MAX];
    char target_prefix[LEDGER_PREFIX_BYTES];
    char path[LEDGER_PATH_BYTES];
    char lies_at[LEDGER_PATH_BYTES + PART_NAME_BYTES]; /* what was restored of it */
    struct part part;                                  /* what comes here */
    struct part others[PARTS_MAX]; /* of a job of several nodes: verified first */
    size_t other_count, other_next;
    bool many;                        /* more nodes than PARTS_MAX */
    char notice[ATTACH_NOTICE_BYTES]; /* which newer checkpoints were passed over, and why */
    size_t notice_length;             /* of what names single ones; behind it: how many more */
    uint32_t passed_over;             /* those without a place in the notice */
    struct machine_user user;
    char owner_name[ID_MAX_BYTES + 1]; /* registered, that was looked up; "": none was */
    bool owner_named;                  /* it is of the user owner_uid */
    bool owner_first;                  /* without such a name, owner_uid came first */
    uid_t owner_uid;
    uint32_t place;     /* of this node among the allocation's */
    uint64_t before_id; /* 0: the newest */
    uint64_t checkpoint_id;
    enum restore_what what;
    uint64_t outage_run;
    uint64_t began_us;
    unsigned refusals, worker_refusals;
    struct clock_timer *timer;
    struct rpc_client_call *call;
    struct worker *worker;
    bool cancelled; /* the worker still runs; freed when it ends */
    void (*told)(void *data, const struct restore_word *word);
    void (*waits)(void *data, const char *why);
    uint64_t snapshot_at_ms;
    restore_done_fn *done;
    void *data;
};

static void point_ask(void *data);

static void restore_free(struct restore *restore)
{
    CHECK(restore->call == NULL && restore->worker == NULL);
    restore->agent->clock.timer_free(restore->timer);
    free(restore);
}

static void restore_finish(struct restore *restore, const struct restore_result *outcome)
{
    restore_done_fn *done = restore->done;
    void *data = restore->data;
    struct restore_result result = *outcome;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(!restore->cancelled);
    CHECK(restore->call == NULL && restore->worker == NULL);
    CHECK(outcome->checkpoint_id == 0 || outcome->path != NULL);
    log_info("restart_point",
             "allocation=%s checkpoint=%s folder=\"%s\" notice=\"%s\" error=\"%s\"",
             restore->allocation_id, checkpoint_id_format(result.checkpoint_id, id), result.folder,
             result.notice, result.error);
    done(data, &result);
    restore_free(restore);
}

static void restore_again(struct restore *restore, uint64_t delay_ms)
{
    CHECK(!restore->cancelled);
    CHECK(restore->call == NULL && restore->worker == NULL);
    restore->agent->clock.timer_start(restore->timer, delay_ms * 1000);
}

__attribute__((format(printf, 2, 3))) static void restore_waits(struct restore *restore,
                                                                const char *format, ...)
{
    char text[REFUSAL_BYTES];
    va_list arguments;

    if (restore->waits == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    restore->waits(restore->data, text);
}

/* ---- bringing the files ---- */

static void restore_next(struct restore *restore);

/* Each checkpoint that is passed over is named while there is room, then counted: whoever repairs
 * the destination wants all of them. */
static void notice_add(struct restore *restore, const char *id, const char *node_id,
                       const char *text)
{
    char line[ATTACH_LINE_BYTES];
    size_t room = sizeof(restore->notice) - restore->notice_length - ATTACH_MORE_BYTES;

    CHECK(restore->notice_length + ATTACH_MORE_BYTES < sizeof(restore->notice));
    snprintf(line, sizeof(line),
             "%scheckpoint %s is passed over, the shard of %s is damaged: %.200s",
             restore->notice_length == 0 ? "" : "; ", id, node_id, text);
    if (restore->passed_over == 0 && strlen(line) < room) {
        memcpy(restore->notice + restore->notice_length, line, strlen(line) + 1);
        restore->notice_length += strlen(line);
        return;
    }
    snprintf(restore->notice + restore->notice_length,
             sizeof(restore->notice) - restore->notice_length, "; and %u more, the last is %s",
             ++restore->passed_over, id);
}

/* A shard is not there or is not what was recorded. The parts of a job of several nodes each look
 * at all shards, so they pass over the same checkpoint; where that is too much to read, none falls
 * back alone. */
static void restore_pass_over(struct restore *restore, const char *node_id, const char *text)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    const struct restore_result damaged = {.folder = "", .notice = "", .error = restore->notice};

    CHECK(restore->checkpoint_id != 0);
    checkpoint_id_format(restore->checkpoint_id, id);
    if (restore->many) {
        snprintf(restore->notice, sizeof(restore->notice),
                 "checkpoint %s is damaged (shard of %s: %.200s); of more than %d nodes none falls "
                 "back alone",
                 id, node_id, text, PARTS_MAX);
        restore_finish(restore, &damaged);
        return;
    }
    notice_add(restore, id, node_id, text);
    restore->before_id = restore->checkpoint_id;
    restore_again(restore, 0);
}

/* What lies there is not what the broker wrote, and somebody must see to it: no try of ours changes
 * that. */
static void restore_refused(struct restore *restore, const char *node_id, const char *text)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], error[REFUSAL_BYTES];

    if (++restore->worker_refusals < WORKER_REFUSALS_MAX) {
        restore_again(restore, STORAGE_RETRY_MS);
        return;
    }
    snprintf(error, sizeof(error), "checkpoint %s cannot be restored (shard of %s): %.300s",
             checkpoint_id_format(restore->checkpoint_id, id), node_id, text);
    restore_finish(
        restore, &(struct restore_result){.folder = "", .notice = restore->notice, .error = error});
}

static void restore_worker_done(void *data, const struct worker_result *result)
{
    struct restore *restore = data;
    bool other = restore->other_next < restore->other_count;
    const char *node_id =
        other ? restore->others[restore->other_next].node_id : restore->part.node_id;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->worker != NULL);
    CHECK(restore->other_next <= restore->other_count);
    restore->worker = NULL;
    if (restore->cancelled) {
        restore_free(restore);
        return;
    }
    if (result->exit_code == WORKER_EXIT_OK && other) {
        restore->other_next++;
        restore_next(restore);
        return;
    }
    if (result->exit_code == WORKER_EXIT_OK) {
        restore_finish(restore,
                       &(struct restore_result){.checkpoint_id = restore->checkpoint_id,
                                                .folder = restore->folder,
                                                .notice = restore->notice,
                                                .error = "",
                                                .path = restore->lies_at,
                                                .snapshot_at_ms = restore->snapshot_at_ms});
        return;
    }
    log_warning("restore_failed", "allocation=%s checkpoint=%s shard=%s exit_code=%d text=\"%s\"",
                restore->allocation_id, checkpoint_id_format(restore->checkpoint_id, id), node_id,
                result->exit_code, result->error);
    if (result->exit_code == WORKER_EXIT_CORRUPT || result->exit_code == WORKER_EXIT_NOT_FOUND)
        restore_pass_over(restore, node_id, result->error);
    else if (result->exit_code == WORKER_EXIT_REFUSED || result->exit_code == WORKER_EXIT_USAGE)
        restore_refused(restore, node_id, result->error);
    else {
        restore_waits(restore, "checkpoint %s cannot be read yet: %.300s; it is tried again",
                      checkpoint_id_format(restore->checkpoint_id, id), result->error);
        restore_again(restore, STORAGE_RETRY_MS);
    }
}

static int make_restore_folder(const struct restore *restore, struct err *err)
{
    const struct machine_ops *machine = &restore->agent->machine;
    const struct machine_file folder = {restore->opened, restore->user, "restore"};

    return machine->folder_make(machine->context, &folder, true, err);
}

static int start_worker(struct restore *restore, const char *verb, const struct part *part,
                        const char *to, struct err *err)
{
    const char *arguments[12] = {verb, "--path", restore->path, "--part", part->name};
    const struct machine_ops *machine = &restore->agent->machine;
    size_t count = 5;

    CHECK(restore->worker == NULL);
    if (to != NULL) {
        arguments[count++] = "--to";
        arguments[count++] = to;
    }
    if (restore->target_prefix[0] != '\0') {
        arguments[count++] = "--prefix";
        arguments[count++] = restore->target_prefix;
    }
    if (part->manifest_sha256[0] != '\0') {
        arguments[count++] = "--manifest-sha256";
        arguments[count++] = part->manifest_sha256;
    }
    CHECK(count < ARRAY_COUNT(arguments));
    return machine->worker_start(machine->context, arguments, restore->user, RESTORE_DEADLINE_MS,
                                 restore_worker_done, restore, &restore->worker, err);
}

static int start_restore(struct restore *restore, struct err *err)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(restore->what == RESTORE_FILES);
    CHECK(restore->checkpoint_id != 0);
    snprintf(restore->folder, sizeof(restore->folder), "%s/restore/%s", restore->work_dir,
             checkpoint_id_format(restore->checkpoint_id, id));
    if (make_restore_folder(restore, err) != 0)
        return -1;
    snprintf(restore->lies_at, sizeof(restore->lies_at), "%s/%s", restore->path,
             restore->part.name);
    return start_worker(restore, "restore", &restore->part, restore->folder, err);
}

/* The shards of the other nodes, then the own one. */
static void restore_next(struct restore *restore)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];
    struct err err = {0};
    int result;

    CHECK(restore->call == NULL);
    if (restore->other_next < restore->other_count)
        result = start_worker(restore, "verify", &restore->others[restore->other_next], NULL, &err);
    else
        result = start_restore(restore, &err);
    if (result == 0)
        return;
    restore->worker = NULL;
    log_warning("restore_failed", "allocation=%s checkpoint=%s text=\"%s\"", restore->allocation_id,
                checkpoint_id_format(restore->checkpoint_id, id), err.text);
    restore_again(restore, STORAGE_RETRY_MS);
}

/* ---- asking the leader ---- */

static void take_part(struct part *part, const Ckpt__V1__ShardInfo *shard)
{
    part_name_format(shard->part, part->name);
    snprintf(part->node_id, sizeof(part->node_id), "%s", shard->node_id);
    snprintf(part->manifest_sha256, sizeof(part->manifest_sha256), "%s", shard->manifest_sha256);
}

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

static bool point_has_node(const Ckpt__V1__RestartPoint *point, const char *node_id)
{
    for (size_t i = 0; i < point->n_node_ids; i++)
        if (strcmp(point->node_ids[i], node_id) == 0)
            return true;
    return false;
}

static bool point_wrote(const Ckpt__V1__RestartPoint *point, const char *node_id)
{
    for (size_t i = 0; i < point->n_shards; i++)
        if (strcmp(point->shards[i]->node_id, node_id) == 0)
            return true;
    return false;
}

/* A part that was there before this node joined, and may live from the shard that is chosen: from
 * the one that this node wrote only when it wrote none itself, so took a place over (I27). Returns
 * its node, NULL without one. */
static const char *part_before(const struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    bool own = point_wrote(point, restore->agent->node_id);
    uint64_t run = point->runs[restore->place];

    for (size_t i = 0; i < point->n_node_ids && i < point->n_runs; i++)
        if (point->runs[i] < run && !(own && point_wrote(point, point->node_ids[i])))
            return point->node_ids[i];
    return NULL;
}

/* The shard that this node wrote; else that of its place, where the node that wrote it is no more
 * of the job. A broker that lists none leaves it to the folder. */
static const Ckpt__V1__ShardInfo *find_shard(const struct restore *restore,
                                             const Ckpt__V1__RestartPoint *point)
{
    const Ckpt__V1__ShardInfo *shard;

    for (size_t i = 0; i < point->n_shards; i++)
        if (strcmp(point->shards[i]->node_id, restore->agent->node_id) == 0)
            return point->shards[i];
    if (point->n_shards != point->n_node_ids)
        return NULL;
    CHECK(restore->place < point->n_shards);
    shard = point->shards[restore->place];
    return point_has_node(point, shard->node_id) ? NULL : shard;
}

static void choose_shard(struct restore *restore, const Ckpt__V1__RestartPoint *point,
                         const Ckpt__V1__ShardInfo *chosen)
{
    restore->other_count = restore->other_next = 0;
    restore->many = point->n_shards > PARTS_MAX;
    for (size_t i = 0; i < point->n_shards && !restore->many; i++) {
        CHECK(restore->other_count < PARTS_MAX);
        if (point->shards[i] != chosen)
            take_part(&restore->others[restore->other_count++], point->shards[i]);
    }
    restore->part = (struct part){{0}, {0}, {0}};
    if (chosen != NULL) {
        take_part(&restore->part, chosen);
        return;
    }
    part_name_format(restore->place, restore->part.name);
    snprintf(restore->part.node_id, sizeof(restore->part.node_id), "%s", restore->agent->node_id);
}

static void restore_joined(struct restore *restore, const char *node_id)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], error[REFUSAL_BYTES];

    snprintf(error, sizeof(error),
             "this node joined %s, which may have gone on from checkpoint %s already, and has no "
             "part of its own in it; take it out of the allocation, or stop that and restart it",
             node_id, checkpoint_id_format(restore->checkpoint_id, id));
    restore_finish(
        restore, &(struct restore_result){.folder = "", .notice = restore->notice, .error = error});
}

static void restore_elsewhere(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], error[REFUSAL_BYTES];

    snprintf(error, sizeof(error),
             "checkpoint %s has %zu parts and this job %zu, and none of them was written here; "
             "restart it on %zu nodes, or on those that wrote it",
             checkpoint_id_format(restore->checkpoint_id, id), point->n_shards, point->n_node_ids,
             point->n_shards);
    restore_finish(
        restore, &(struct restore_result){.folder = "", .notice = restore->notice, .error = error});
}

static bool allocation_runs(Ckpt__V1__AllocationState state)
{
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP;
}

/* ---- whose it is ---- */

static void restore_error(struct restore *restore, const char *text)
{
    restore_finish(restore, &(struct restore_result){.folder = "", .notice = "", .error = text});
}

static void owner_found(void *data, const struct worker_result *result)
{
    struct restore *restore = data;
    char uid[16];

    restore->worker = NULL;
    if (restore->cancelled) {
        restore_free(restore);
        return;
    }
    restore->owner_named = result->exit_code == WORKER_EXIT_OK &&
                           worker_output_get(result->output, "uid", uid, sizeof(uid)) == 0;
    if (restore->owner_named) {
        restore->owner_uid = (uid_t)strtoul(uid, NULL, 10);
    } else if (result->exit_code != WORKER_EXIT_NOT_FOUND) {
        log_warning("owner_unknown", "allocation=%s owner=%s text=\"%s\"", restore->allocation_id,
                    restore->owner_name, result->error);
        restore_waits(restore,
                      "which user of this node the owner %s is cannot be found out: %.200s; it is "
                      "tried again",
                      restore->owner_name, result->error);
        restore->owner_name[0] = '\0'; /* it is asked again */
        restore_again(restore, RETRY_MS);
        return;
    }
    restore_again(restore, 0);
}

/* It is nobody's on this node, and the cluster leaves none to whoever comes. */
static void refuse_unowned(struct restore *restore, const char *owner)
{
    char text[OWNER_TEXT_BYTES], whose[2 * ID_MAX_BYTES + 64];

    if (owner[0] == '\0')
        snprintf(whose, sizeof(whose), "without an owner");
    else
        snprintf(whose, sizeof(whose), "for owner %.128s, which is no user of node %.128s", owner,
                 restore->agent->node_id);
    snprintf(text, sizeof(text),
             "allocation %s is registered %s; register one with --owner USER of this node, or let "
             "whoever comes first have such ones: ckptctl policy set owner_rule=first",
             restore->allocation_id, whose);
    restore_error(restore, text);
}

/* Only who may attach is told more. True: the owner is not known yet, or the caller is another
 * one. */
static bool owner_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const char *const arguments[] = {"user", "--name", point->owner, NULL};
    const struct machine_ops *machine = &restore->agent->machine;
    bool registered = point->owner[0] != '\0' && id_valid(point->owner);
    char text[OWNER_TEXT_BYTES];
    struct err err = {0};

    if (registered && strcmp(restore->owner_name, point->owner) != 0) {
        snprintf(restore->owner_name, sizeof(restore->owner_name), "%s", point->owner);
        if (machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                                  OWNER_DEADLINE_MS, owner_found, restore, &restore->worker,
                                  &err) != 0) {
            restore->worker = NULL;
            restore->owner_name[0] = '\0';
            log_warning("owner_unknown", "allocation=%s owner=%s text=\"%s\"",
                        restore->allocation_id, point->owner, err.text);
            restore_waits(restore,
                          "which user of this node the owner %s is cannot be found out: %.200s; it "
                          "is tried again",
                          point->owner, err.text);
            restore_again(restore, STORAGE_RETRY_MS);
        }
        return true;
    }
    restore->owner_named = registered && restore->owner_named;
    if (restore->user.uid == 0)
        return false;
    if (!restore->owner_named && !restore->owner_first &&
        point->owner_rule != CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST) {
        refuse_unowned(restore, point->owner);
        return true;
    }
    if ((!restore->owner_named && !restore->owner_first) || restore->user.uid == restore->owner_uid)
        return false;
    allocation_owner_text(restore->allocation_id, restore->owner_named ? restore->owner_name : "",
                          restore->owner_uid, restore->user.uid, text);
    restore_error(restore, text);
    return true;
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
                                                        .owner_rule = point->owner_rule});
}

/* True: the broker does not count on this allocation here, which may change in a moment. */
static bool point_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[REFUSAL_BYTES], state[WORDS_BYTES];
    bool may_come = /* a restart, on any nodes */
        point->allocation_state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED;

    if (!allocation_runs(point->allocation_state))
        snprintf(text, sizeof(text),
                 "allocation %s does not run, it is %s; restart it first (ckptctl restart "
                 "%s) or register a new one",
                 restore->allocation_id,
                 words_enum(&ckpt__v1__allocation_state__descriptor, (int)point->allocation_state,
                            state),
                 restore->allocation_id);
    else if (!point_names_node(restore, point, &restore->place))
        snprintf(text, sizeof(text),
                 "allocation %s is not registered on node %s but on %s%s; start it there, or "
                 "update the allocation's nodes",
                 restore->allocation_id, restore->agent->node_id,
                 point->n_node_ids > 0 ? point->node_ids[0] : "none",
                 point->n_node_ids > 1 ? " and others" : "");
    else {
        restore_tell(restore, point, point->runs[restore->place]);
        return false;
    }
    if (++restore->refusals >= REFUSALS_MAX)
        restore_finish(restore,
                       &(struct restore_result){
                           .folder = "", .notice = "", .error = text, .may_come = may_come});
    else
        restore_again(restore, RETRY_MS);
    return true;
}

/* True: it wants more than its own part, which nothing here can give it; with one part alone it
 * would go on from less than its state. */
static bool mode_refuses(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[REFUSAL_BYTES], mode[WORDS_BYTES];

    if (point->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED ||
        point->restore == CKPT__V1__RESTORE_MODE__RESTORE_MODE_OWN)
        return false;
    snprintf(text, sizeof(text),
             "allocation %s is registered with restore %s, which the agents of this version cannot "
             "do: each node gets its own part; end it and register it with --restore OWN, or start "
             "with --from-scratch",
             restore->allocation_id,
             words_enum(&ckpt__v1__restore_mode__descriptor, (int)point->restore, mode));
    restore_error(restore, text);
    return true;
}

static void take_point(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    const struct restore_result scratch = {.folder = "", .notice = "", .error = ""};
    char text[ATTACH_NOTICE_BYTES + 160];
    const Ckpt__V1__ShardInfo *chosen;
    const char *before;

    if (owner_refuses(restore, point))
        return;
    if (restore->what == RESTORE_OWNER) {
        restore_tell(restore, point, 0);
        restore_finish(restore, &scratch);
        return;
    }
    if (point_refuses(restore, point))
        return;
    CHECK(restore->place < point->n_node_ids && restore->place < point->n_runs);
    if (restore->what == RESTORE_NOTHING ||
        (point->checkpoint_id == 0 && restore->before_id == 0)) {
        restore_finish(restore, &scratch);
        return;
    }
    if (mode_refuses(restore, point))
        return;
    if (point->checkpoint_id == 0) {
        snprintf(text, sizeof(text),
                 "no complete checkpoint of this allocation verifies any more (%s); repair the "
                 "destination, or start with --from-scratch",
                 restore->notice);
        restore_finish(restore,
                       &(struct restore_result){.folder = "", .notice = "", .error = text});
        return;
    }
    restore->checkpoint_id = point->checkpoint_id;
    restore->snapshot_at_ms = point->snapshot_at_ms;
    snprintf(restore->path, sizeof(restore->path), "%s", point->path);
    snprintf(restore->target_prefix, sizeof(restore->target_prefix), "%s", point->target_prefix);
    chosen = find_shard(restore, point);
    before = part_before(restore, point);
    if (before != NULL && point->n_shards > 0) {
        restore_joined(restore, before);
        return;
    }
    if (chosen == NULL && point->n_shards > 0) {
        restore_elsewhere(restore, point);
        return;
    }
    choose_shard(restore, point, chosen);
    restore_next(restore);
}

static void point_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                          size_t length)
{
    struct restore *restore = data;
    Ckpt__V1__RestartPoint *point = ckpt__v1__restart_point__unpack(NULL, length, bytes);

    rpc_client_call_cancel(call);
    restore->call = NULL;
    if (point == NULL) {
        restore_again(restore, RETRY_MS);
        return;
    }
    take_point(restore, point);
    ckpt__v1__restart_point__free_unpacked(point, NULL);
}

static void point_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct restore *restore = data;
    const struct restore_result unknown = {.folder = "",
                                           .notice = "",
                                           .error = "the broker does not know this allocation; "
                                                    "register it first (ckptctl jobs lists them)"};
    struct rpc_follow *follow = restore->points->follow;
    uint64_t delay_ms = RETRY_MS;

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
    if (end->status != RPC_NOT_FOUND)
        log_info("restart_point_waits", "allocation=%s status=%s text=\"%s\"",
                 restore->allocation_id, rpc_status_name(end->status), end->message);
    if (!rpc_follow_result(follow, end, &delay_ms) && end->status != RPC_NOT_FOUND &&
        end->channel == rpc_follow_channel(follow))
        rpc_follow_move(follow, NULL); /* no broker, or one that cannot: another may */
    if (restore->outage_run != 0 && end->status != RPC_NOT_FOUND &&
        agent_now_us(restore->agent) - restore->began_us >= SCRATCH_WAIT_US) {
        restore->told(restore->data, &(struct restore_word){.run = restore->outage_run});
        restore_finish(restore, &(struct restore_result){.folder = "", .notice = "", .error = ""});
        return;
    }
    if (end->status != RPC_NOT_FOUND &&
        agent_now_us(restore->agent) - restore->began_us >= PATIENCE_US)
        restore_waits(restore,
                      "the agent is there, but no leader of the cluster answers it: %s %.300s; the "
                      "application starts when one does",
                      rpc_status_name(end->status), end->message);
    restore_again(restore, delay_ms < RETRY_MS ? RETRY_MS : delay_ms);
}

static void point_ask(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = point_message,
                                                        .on_end = point_end};
    struct restore *restore = data;
    Ckpt__V1__GetRestartPointRequest request = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    struct buf bytes;

    CHECK(restore->call == NULL && restore->worker == NULL);
    request.allocation_id = restore->allocation_id;
    request.before_checkpoint_id = restore->before_id;
    buf_init(&bytes);
    ckpt__v1__get_restart_point_request__pack(
        &request,
        buf_extend(&bytes, ckpt__v1__get_restart_point_request__get_packed_size(&request)));
    restore->call = rpc_channel_unary(rpc_follow_channel(restore->points->follow),
                                      &(struct rpc_request){.path = RESTART_POINT_METHOD,
                                                            .bytes = bytes.bytes,
                                                            .length = bytes.length,
                                                            .timeout_ms = CALL_TIMEOUT_MS},
                                      &handlers, restore);
    buf_close(&bytes);
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
    restore->outage_run = ask->what == RESTORE_NOTHING ? ask->outage_run : 0;
    if (ask->owner != NULL) {
        snprintf(restore->owner_name, sizeof(restore->owner_name), "%s", ask->owner->name);
        restore->owner_named = ask->owner->name[0] != '\0';
        restore->owner_first = true;
        restore->owner_uid = ask->owner->uid;
    }
    restore->began_us = agent_now_us(points->agent);
    restore->told = ask->told;
    restore->waits = ask->waits;
    restore->done = ask->done;
    restore->data = ask->data;
    restore->timer = clock->timer_new(clock->context, point_ask, restore);
    restore_again(restore, 0);
    return restore;
}

void restore_cancel(struct restore *restore)
{
    if (restore == NULL)
        return;
    CHECK(!restore->cancelled);
    restore->agent->clock.timer_stop(restore->timer);
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
