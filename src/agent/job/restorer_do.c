/* The workers of a restore: one looks up its owner, one makes the folder of its next checkpoints,
 * others bring or verify its parts. See restorer.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/names.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/copies.h"
#include "src/agent/job/restorer_internal.h"
#include "src/base/text.h"

enum {
    OWNER_DEADLINE_MS = 10000, /* of the directory of users */
    PREPARE_DEADLINE_MS = 5000,
    RESTORE_DEADLINE_MS = 24 * 3600 * 1000 /* a hung mount; ckpt-run may give up earlier */
};

/* ---- how they end ---- */

static void why_of(const char *cause, const char *text, struct restore_why *ret_why)
{
    int reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;

    CHECK(cause != NULL);
    CHECK(text != NULL);
    (void)fsm_enum_parse(&ckpt__v1__reason__descriptor, cause, &reason);
    ret_why->reason = (Ckpt__V1__Reason)reason;
    text_copy(ret_why->text, sizeof(ret_why->text), text);
    ret_why->no_room = strcmp(cause, WORKER_CAUSE_NO_ROOM) == 0;
}

static void post_unstarted(struct restorer *restorer, const char *text)
{
    struct restore_event event = {.kind = RESTORE_UNSTARTED};

    restorer->worker = NULL;
    why_of("", text, &event.why);
    restorer_post(restorer, &event);
}

/* True: nobody waits for it any more. */
static bool worker_gone(struct restorer *restorer)
{
    CHECK(restorer->worker != NULL);
    restorer->worker = NULL;
    if (!restorer->cancelled)
        return false;
    restorer_free(restorer);
    return true;
}

/* ---- the owner ---- */

static void owner_found(void *data, const struct worker_result *result)
{
    struct restorer *restorer = data;
    struct restore_event event = {.kind = RESTORE_NAMED, .end = RESTORE_FAILED};
    char uid[16];

    if (worker_gone(restorer))
        return;
    if (result->exit_code == WORKER_EXIT_OK &&
        worker_output_get(result->output, "uid", uid, sizeof(uid)) == 0) {
        event.end = RESTORE_WELL;
        event.uid = (uid_t)strtoul(uid, NULL, 10);
    } else if (result->exit_code == WORKER_EXIT_NOT_FOUND) {
        event.end = RESTORE_MISSING;
    } else {
        log_warning("owner_unknown", "allocation=%s owner=%s text=\"%s\"",
                    restorer->restore.asked.allocation_id, restorer->restore.owner.name,
                    result->error);
    }
    why_of(result->cause, result->error, &event.why);
    restorer_post(restorer, &event);
}

void restorer_name(struct restorer *restorer)
{
    const struct restore *restore = &restorer->restore;
    const char *const arguments[] = {"user", "--name", restore->owner.name, NULL};
    const struct machine_ops *machine = &restorer->agent->machine;
    struct err err = {0};

    CHECK(restorer->worker == NULL);
    if (machine->worker_start(machine->context, arguments, (struct machine_user){.uid = 0},
                              OWNER_DEADLINE_MS, owner_found, restorer, &restorer->worker,
                              &err) == 0)
        return;
    log_warning("owner_unknown", "allocation=%s owner=%s text=\"%s\"", restore->asked.allocation_id,
                restore->owner.name, err.text);
    post_unstarted(restorer, err.text);
}

/* ---- the folder of the next checkpoints ---- */

/* A folder of a stranger, a link, a mode: no waiting changes that. */
static bool may_not_write(const struct worker_result *result)
{
    return result->exit_code == WORKER_EXIT_REFUSED ||
           (result->exit_code == WORKER_EXIT_UNAVAILABLE &&
            strcmp(result->cause, "storage_denied") == 0);
}

static void prepare_ended(void *data, const struct worker_result *result)
{
    struct restorer *restorer = data;
    struct restore_event event = {.kind = RESTORE_PREPARED, .end = RESTORE_WELL};

    if (worker_gone(restorer))
        return;
    if (result->exit_code != WORKER_EXIT_OK) {
        log_warning("prepare_failed", "allocation=%s exit_code=%d timed_out=%d text=\"%s\"",
                    restorer->restore.asked.allocation_id, result->exit_code, result->timed_out,
                    result->error);
        event.end = may_not_write(result) ? RESTORE_REFUSED : RESTORE_FAILED;
        why_of(result->cause, result->error, &event.why);
    }
    restorer_post(restorer, &event);
}

/* Its checkpoint is there, also as another job's, unless the file system is not mounted: a folder
 * that was made in that one's place would make it look lost. */
static bool begins_there(const Ckpt__V1__RestartPoint *point)
{
    return point->checkpoint_id != 0 &&
           strcmp(point->target_prefix, point->checkpoints_prefix) == 0;
}

void restorer_prepare(struct restorer *restorer)
{
    const Ckpt__V1__RestartPoint *point = restorer->point;
    char text[MARK_CLAIM_BYTES];
    const char *arguments[10] = {"prepare", "--prefix", point->checkpoints_prefix, "--path",
                                 point->checkpoints_path};
    const char *claim = agent_claim(restorer->agent, 0, text);
    size_t count = 5;
    const struct machine_ops *machine = &restorer->agent->machine;
    struct err err = {0};

    CHECK(restorer->worker == NULL);
    if (begins_there(point)) {
        arguments[count++] = "--beside";
        arguments[count++] = point->path;
    }
    if (claim != NULL) {
        arguments[count++] = "--cluster";
        arguments[count++] = claim;
    }
    CHECK(count < ARRAY_COUNT(arguments)); /* NULL ends them */
    if (machine->worker_start(machine->context, arguments, restorer->user, PREPARE_DEADLINE_MS,
                              prepare_ended, restorer, &restorer->worker, &err) != 0)
        post_unstarted(restorer, err.text);
}

/* ---- its parts ---- */

static enum restore_end end_of(int exit_code)
{
    switch (exit_code) {
    case WORKER_EXIT_OK:
        return RESTORE_WELL;
    case WORKER_EXIT_CORRUPT:
        return RESTORE_CORRUPT;
    case WORKER_EXIT_NOT_FOUND:
        return RESTORE_MISSING;
    case WORKER_EXIT_REFUSED:
    case WORKER_EXIT_USAGE:
        return RESTORE_REFUSED;
    default:
        return RESTORE_FAILED;
    }
}

/* The use that the worker made of the node's own copy, if it was given one. */
static enum restore_copy copy_of(struct restorer *restorer, const struct worker_result *result)
{
    char copy[16];

    restorer->copy_why[0] = '\0';
    if (result->output == NULL ||
        worker_output_get(result->output, "copy", copy, sizeof(copy)) != 0)
        return RESTORE_COPY_NOT_GIVEN;
    if (strcmp(copy, "used") == 0)
        return RESTORE_COPY_USED;
    restorer->copy_lost = strcmp(copy, "lost") == 0;
    (void)worker_output_get(result->output, "copy_error", restorer->copy_why,
                            sizeof(restorer->copy_why));
    return RESTORE_COPY_FAILED;
}

static void read_ended(void *data, const struct worker_result *result)
{
    struct restorer *restorer = data;
    struct restore_event event = {.kind = RESTORE_READ, .end = end_of(result->exit_code)};

    if (worker_gone(restorer))
        return;
    event.copy = copy_of(restorer, result);
    if (event.end != RESTORE_WELL)
        why_of(result->cause, result->error, &event.why);
    restorer_post(restorer, &event);
}

static const Ckpt__V1__ShardInfo *shard_now(const struct restorer *restorer)
{
    return restore_shard(&restorer->restore, restorer->point, restorer->restore.brought.part_next);
}

void restorer_warn(const struct restorer *restorer, const struct restore_event *event)
{
    const struct restore *restore = &restorer->restore;
    char id[CHECKPOINT_ID_TEXT_BYTES], name[PART_NAME_BYTES];

    CHECK(event->kind == RESTORE_READ);
    log_warning("restore_failed", "allocation=%s checkpoint=%s shard=%s text=\"%s\"",
                restore->asked.allocation_id,
                checkpoint_id_format(restore->brought.checkpoint_id, id),
                part_name_format(shard_now(restorer)->part, name), event->why.text);
}

/* Below the work folder: `restore`, and with several parts a folder in it. */
static int make_folder(const struct restorer *restorer, const char *name, struct err *err)
{
    const struct machine_ops *machine = &restorer->agent->machine;
    const struct machine_file folder = {restorer->folder, restorer->user, name};

    return machine->folder_make(machine->context, &folder, true, err);
}

static int make_folders(const struct restorer *restorer, struct err *err)
{
    const struct restore_brought *brought = &restorer->restore.brought;
    char name[CHECKPOINT_ID_TEXT_BYTES + 16], id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(brought->checkpoint_id != 0);
    if (brought->folder[0] == '\0' || brought->part_next > 0)
        return 0;
    if (make_folder(restorer, "restore", err) != 0)
        return -1;
    if (brought->mode != CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL)
        return 0;
    snprintf(name, sizeof(name), "restore/%s", checkpoint_id_format(brought->checkpoint_id, id));
    return make_folder(restorer, name, err);
}

struct worker_words {
    const char *arguments[20];
    size_t count;
};

static void add_words(struct worker_words *words, const char *option, const char *value)
{
    CHECK(words->count + 3 <= ARRAY_COUNT(words->arguments));
    words->arguments[words->count++] = option;
    words->arguments[words->count++] = value;
}

/* The node's own copy, which is all that is read without a place in line. */
static void add_copy(struct restorer *restorer, const Ckpt__V1__ShardInfo *shard,
                     struct worker_words *words, char folder[PATH_MAX])
{
    const struct restore *restore = &restorer->restore;
    const struct allocation *allocation = agent_find(restorer->agent, restore->asked.allocation_id);
    const struct ledger_copy *copy =
        restore_copy_of(restore, allocation == NULL ? NULL : &allocation->entry, shard);

    CHECK(copy != NULL || !restore->brought.by_copy);
    if (copy != NULL)
        add_words(words, "--copy", copies_folder(copy, folder));
    if (restore->brought.by_copy)
        add_words(words, "--from", "copy");
}

/* Into a folder of its own with all parts; "": it is verified where it lies. */
static void place_of(const struct restore_brought *brought, const char *name, char to[PATH_MAX])
{
    if (brought->mode == CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL)
        snprintf(to, PATH_MAX, "%.*s/%s", PATH_MAX - PART_NAME_BYTES - 2, brought->folder, name);
    else
        snprintf(to, PATH_MAX, "%s", brought->folder);
}

static int start_read(struct restorer *restorer, struct err *err)
{
    const struct restore *restore = &restorer->restore;
    const struct restore_brought *brought = &restore->brought;
    const Ckpt__V1__ShardInfo *shard = shard_now(restorer);
    const struct machine_ops *machine = &restorer->agent->machine;
    char name[PART_NAME_BYTES], to[PATH_MAX], copy_folder[PATH_MAX], rate[24];
    struct worker_words words = {.count = 1};

    CHECK(restorer->worker == NULL);
    place_of(brought, part_name_format(shard->part, name), to);
    words.arguments[0] = to[0] != '\0' ? "restore" : "verify";
    add_words(&words, "--path", brought->path);
    add_words(&words, "--part", name);
    add_copy(restorer, shard, &words, copy_folder);
    if (to[0] != '\0')
        add_words(&words, "--to", to);
    if (brought->target_prefix[0] != '\0')
        add_words(&words, "--prefix", brought->target_prefix);
    if (shard->manifest_sha256[0] != '\0')
        add_words(&words, "--manifest-sha256", shard->manifest_sha256);
    snprintf(rate, sizeof(rate), "%" PRIu64, restore->turn.rate_bytes_per_s);
    if (restore->turn.rate_bytes_per_s > 0)
        add_words(&words, "--rate", rate);
    return machine->worker_start(machine->context, words.arguments, restorer->user,
                                 RESTORE_DEADLINE_MS, read_ended, restorer, &restorer->worker, err);
}

void restorer_read(struct restorer *restorer)
{
    const struct restore *restore = &restorer->restore;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    struct err err = {0};

    CHECK(restore->state == RESTORE_READING);
    if (make_folders(restorer, &err) == 0 && start_read(restorer, &err) == 0) {
        restorer_post(restorer, &(struct restore_event){.kind = RESTORE_STARTED});
        return;
    }
    log_warning("restore_failed", "allocation=%s checkpoint=%s text=\"%s\"",
                restore->asked.allocation_id,
                checkpoint_id_format(restore->brought.checkpoint_id, id), err.text);
    post_unstarted(restorer, err.text);
}
