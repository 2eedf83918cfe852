/* Where the next checkpoint goes, looked at before an application starts: a worker makes the job's
 * folder there, and finds out whether its user may write. See restart_points.h.
 *
 * Flow     once for each ckpt-run that starts an application, when the leader has said that it may;
 *          not before a restart in place, which goes on with what it had: a refusal would end it.
 * Errors   whoever may not write there is refused: every checkpoint would fail. A destination that
 *          is away, hangs or is full keeps nobody from starting, and a start waits for
 *          PREPARE_DEADLINE_MS and a second at most: its checkpoints wait for it, which is told.
 * Absent   a start by root of another user's job: what was made for it would be root's, and keep
 *          that user out.
 */
#include <stdio.h>
#include <string.h>

#include "fsm/names.h"
#include "src/agent/job/restore_internal.h"
#include "src/agent/run/words.h"

enum { PREPARE_DEADLINE_MS = 5000 };

/* A folder of a stranger, a link, a mode: no waiting changes that. */
static bool may_not_write(const struct worker_result *result)
{
    return result->exit_code == WORKER_EXIT_REFUSED ||
           (result->exit_code == WORKER_EXIT_UNAVAILABLE &&
            strcmp(result->cause, "storage_denied") == 0);
}

static void note_unwritten(struct restore *restore, const char *cause, const char *text)
{
    char what[WORDS_BYTES];
    int reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;

    CHECK(cause != NULL);
    CHECK(text != NULL);
    (void)fsm_enum_parse(&ckpt__v1__reason__descriptor, cause, &reason);
    snprintf(
        restore->unwritten, sizeof(restore->unwritten),
        "its checkpoints cannot be written at the moment (%s): %.300s; it starts all the same, "
        "and they wait until they can be",
        words_enum(&ckpt__v1__reason__descriptor, reason, what), text);
}

static void prepare_ended(void *data, const struct worker_result *result)
{
    struct restore *restore = data;
    char text[RESTORE_TEXT_BYTES];

    CHECK(restore->worker != NULL);
    restore->worker = NULL;
    if (restore->cancelled) {
        restore_free(restore);
        return;
    }
    if (result->exit_code != WORKER_EXIT_OK)
        log_warning("prepare_failed", "allocation=%s exit_code=%d timed_out=%d text=\"%s\"",
                    restore->allocation_id, result->exit_code, result->timed_out, result->error);
    if (may_not_write(result)) {
        snprintf(text, sizeof(text), "its checkpoints could not be written: %.450s", result->error);
        restore_error(restore, text);
        return;
    }
    if (result->exit_code != WORKER_EXIT_OK)
        note_unwritten(restore, result->cause, result->error);
    restore_again(restore, 0);
}

/* Root may start anybody's job. */
static bool is_anothers(const struct restore *restore)
{
    return (restore->owner_named || restore->owner_first) &&
           restore->owner_uid != restore->user.uid;
}

/* What it begins from is there, also as another job's, unless the file system is not mounted: a
 * folder that was made in that one's place would make it look lost. */
static bool begins_there(const Ckpt__V1__RestartPoint *point)
{
    return point->checkpoint_id != 0 &&
           strcmp(point->target_prefix, point->checkpoints_prefix) == 0;
}

bool restore_prepares(struct restore *restore, const Ckpt__V1__RestartPoint *point)
{
    char text[MARK_CLAIM_BYTES];
    const char *arguments[10] = {"prepare", "--prefix", point->checkpoints_prefix, "--path",
                                 point->checkpoints_path};
    const char *claim = agent_claim(restore->agent, 0, text);
    size_t count = 5;
    const struct machine_ops *machine = &restore->agent->machine;
    struct err err = {0};

    CHECK(restore->call == NULL && restore->worker == NULL);
    if (!restore->prepares || point->checkpoints_path[0] == '\0' || is_anothers(restore)) {
        restore->prepares = false;
        return false;
    }
    CHECK(restore->checkpoint_id == 0); /* nothing of it is brought yet */
    restore->prepares = false;
    if (begins_there(point)) {
        arguments[count++] = "--beside";
        arguments[count++] = point->path;
    }
    if (claim != NULL) {
        arguments[count++] = "--cluster";
        arguments[count++] = claim;
    }
    CHECK(count < ARRAY_COUNT(arguments)); /* NULL ends them */
    if (machine->worker_start(machine->context, arguments, restore->user, PREPARE_DEADLINE_MS,
                              prepare_ended, restore, &restore->worker, &err) == 0)
        return true;
    restore->worker = NULL;
    note_unwritten(restore, "", err.text);
    return false;
}
