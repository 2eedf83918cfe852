/* How a restore goes on: the leader is asked again, after a while or when the state has changed, or
 * it is over. See restart_points.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/agent/job/reconcile.h"
#include "src/agent/job/restore_internal.h"

enum { HELD_AGAIN_MS = 5000 }; /* when no order set tells of a change */

void restore_end_look(struct restore *restore)
{
    restore->agent->clock.timer_stop(restore->reading);
    if (restore->look != NULL)
        rpc_client_call_cancel(restore->look);
    restore->look = NULL;
}

void restore_free(struct restore *restore)
{
    CHECK(restore->call == NULL && restore->worker == NULL);
    CHECK(restore->look == NULL);
    restore->agent->clock.timer_free(restore->timer);
    restore->agent->clock.timer_free(restore->reading);
    free(restore->parts);
    free(restore);
}

void restore_finish(struct restore *restore, const struct restore_result *outcome)
{
    restore_done_fn *done = restore->done;
    void *data = restore->data;
    struct restore_result result = *outcome;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(!restore->cancelled);
    CHECK(restore->call == NULL && restore->worker == NULL);
    CHECK(outcome->checkpoint_id == 0 || outcome->path != NULL);
    result.unwritten = restore->unwritten;
    log_info("restart_point",
             "allocation=%s checkpoint=%s folder=\"%s\" notice=\"%s\" error=\"%s\"",
             restore->allocation_id, checkpoint_id_format(result.checkpoint_id, id), result.folder,
             result.notice, result.error);
    done(data, &result);
    restore_free(restore);
}

void restore_again(struct restore *restore, uint64_t delay_ms)
{
    CHECK(!restore->cancelled);
    CHECK(restore->call == NULL && restore->worker == NULL);
    restore->agent->clock.timer_start(restore->timer, delay_ms * 1000);
}

void restore_waits(struct restore *restore, const char *format, ...)
{
    char text[RESTORE_TEXT_BYTES];
    va_list arguments;

    if (restore->waits == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    restore->waits(restore->data, text);
}

void restore_error(struct restore *restore, const char *text)
{
    restore_finish(restore, &(struct restore_result){.folder = "", .notice = "", .error = text});
}

void restore_hold(struct restore *restore)
{
    CHECK(!restore->held);
    restore->held = true;
    restore_again(restore, HELD_AGAIN_MS);
}

/* A worker that brings what the state has given up for all parts is not waited for: what it reads
 * may hang. */
static void end_superseded(struct restore *restore)
{
    const Ckpt__V1__AllocationPart *part =
        restore->agent->orders == NULL
            ? NULL
            : reconcile_part(restore->agent->orders, restore->allocation_id);

    CHECK(restore->worker != NULL);
    if (restore->checkpoint_id == 0 || restore->superseded || part == NULL ||
        part->run != restore->run || part->restart_checkpoint_id == restore->checkpoint_id)
        return;
    restore->superseded = true;
    restore->agent->machine.worker_cancel(restore->worker);
}

void restore_wake(struct restore *restore)
{
    if (restore != NULL && restore->worker != NULL)
        end_superseded(restore);
    if (restore == NULL || !restore->held)
        return;
    restore->held = false;
    restore_again(restore, 0);
}

void restore_sweep(struct restore *restore)
{
    CHECK(!restore->sweeping && !restore->cancelled);
    CHECK(restore->call == NULL && restore->worker == NULL);
    CHECK(restore->folder[0] != '\0');
    restore->sweeping = true;
    restore->have = false;
    restore->sweep(restore->data, restore->folder);
}

void restore_swept(struct restore *restore)
{
    if (restore == NULL || !restore->sweeping)
        return;
    restore->sweeping = false;
    restore->folder[0] = '\0';
    restore_again(restore, 0);
}
