/* The part of an attempt that works on the destination. See attempt_put.h. */
#include "src/agent/job/attempt_put.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/agent/job/allocation.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"

enum { ABANDON_DEADLINE_MS = 10000, PUT_MARGIN_MS = 60000 };

/* What the worker calls back: it may outlive the attempt, so it never points to it directly. */
struct put_job {
    struct allocation *allocation; /* NULL: nobody wants to know any more */
    bool cancelled;
};

static void put_fail(struct allocation *allocation, Ckpt__V1__Reason reason, const char *detail)
{
    attempt_finish(allocation, CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED, reason,
                   detail);
}

static void put_failed(struct allocation *allocation, const struct worker_result *result)
{
    Ckpt__V1__Reason reason = CKPT__V1__REASON__REASON_WRITE_FAILED;

    if (result->timed_out || result->exit_code == WORKER_EXIT_UNAVAILABLE)
        reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    else if (result->exit_code == WORKER_EXIT_CORRUPT)
        reason = CKPT__V1__REASON__REASON_VERIFY_FAILED;
    else if (result->exit_code == WORKER_EXIT_EMPTY)
        reason = CKPT__V1__REASON__REASON_EMPTY_CHECKPOINT;
    log_warning("put_failed", "allocation=%s hint=%s exit_code=%d timed_out=%d text=\"%s\"",
                allocation->entry.allocation_id, allocation->attempt.hint, result->exit_code,
                result->timed_out, result->error);
    put_fail(allocation, reason, result->error);
}

static void put_done(void *data, const struct worker_result *result)
{
    struct put_job *job = data;
    struct allocation *allocation = job->allocation;
    bool cancelled = job->cancelled;
    struct attempt_shard shard = {.write_ms = result->duration_ms};
    char detail[ATTEMPT_DETAIL_BYTES];
    char size[32];

    free(job);
    if (allocation == NULL)
        return;
    allocation->attempt.worker = NULL;
    allocation->attempt.put_job = NULL;
    if (cancelled) {
        CHECK(allocation->attempt.state == ATTEMPT_CLEANING);
        attempt_clean(allocation);
        return;
    }
    if (result->exit_code != WORKER_EXIT_OK) {
        put_failed(allocation, result);
        return;
    }
    if (worker_output_get(result->output, "size_bytes", size, sizeof(size)) != 0 ||
        worker_output_get(result->output, "manifest_sha256", shard.manifest_sha256,
                          sizeof(shard.manifest_sha256)) != 0) {
        put_fail(allocation, CKPT__V1__REASON__REASON_WRITE_FAILED,
                 "the worker did not tell size and manifest");
        return;
    }
    shard.size_bytes = strtoull(size, NULL, 10);
    if (shard.size_bytes < allocation->attempt.told_bytes) {
        snprintf(detail, sizeof(detail),
                 "the application says it wrote %" PRIu64 " bytes, %" PRIu64 " are there",
                 allocation->attempt.told_bytes, shard.size_bytes);
        put_fail(allocation, CKPT__V1__REASON__REASON_VERIFY_FAILED, detail);
        return;
    }
    attempt_verified(allocation, &shard);
}

static int start_worker(struct allocation *allocation, const char *const *arguments,
                        uint64_t deadline_ms, worker_done_fn *done, struct err *err)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct attempt *attempt = &allocation->attempt;
    struct put_job *job = check_calloc(1, sizeof(*job));

    job->allocation = allocation;
    if (machine->worker_start(machine->context, arguments, allocation_user(allocation), deadline_ms,
                              done, job, &attempt->worker, err) != 0) {
        free(job);
        attempt->worker = NULL;
        return -1;
    }
    attempt->put_job = job;
    return 0;
}

/* The deadline only ends a worker that hangs for ever: who gives up an attempt in time is the
 * broker. */
void attempt_put(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    struct err err = {0};
    char rate[24];
    const char *arguments[] = {"put",
                               "--prefix",
                               attempt->target_prefix,
                               "--path",
                               attempt->path,
                               "--node",
                               allocation->agent->node_id,
                               "--source",
                               attempt->directory,
                               "--rate",
                               rate,
                               NULL};

    CHECK(attempt->state == ATTEMPT_PUTTING && attempt->worker == NULL);
    snprintf(rate, sizeof(rate), "%" PRIu64, attempt->granted_bytes_per_s);
    attempt->put_started = true;
    if (start_worker(allocation, arguments, 2 * attempt->timeout_ms + PUT_MARGIN_MS, put_done,
                     &err) != 0)
        put_fail(allocation, CKPT__V1__REASON__REASON_WRITE_FAILED, err.text);
}

void attempt_put_cancel(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    if (attempt->state != ATTEMPT_PUTTING || attempt->worker == NULL)
        return;
    attempt->put_job->cancelled = true;
    allocation_machine(allocation)->worker_cancel(attempt->worker);
}

void attempt_put_detach(struct allocation *allocation)
{
    if (allocation->attempt.put_job == NULL)
        return;
    allocation->attempt.put_job->allocation = NULL;
    allocation_machine(allocation)->worker_cancel(allocation->attempt.worker);
}

static void abandon_done(void *data, const struct worker_result *result)
{
    struct put_job *job = data;
    struct allocation *allocation = job->allocation;

    free(job);
    if (allocation == NULL)
        return;
    allocation->attempt.worker = NULL;
    allocation->attempt.put_job = NULL;
    if (result->exit_code != WORKER_EXIT_OK && result->exit_code != WORKER_EXIT_NOT_FOUND)
        log_warning("abandon_failed", "allocation=%s hint=%s exit_code=%d text=\"%s\"",
                    allocation->entry.allocation_id, allocation->attempt.hint, result->exit_code,
                    result->error);
    attempt_clean_local(allocation);
}

/* What the destination keeps in spite of this is a temporary folder that no restore ever reads; the
 * next put of this node for the allocation, of whatever checkpoint, or the collection of this one
 * removes it. So an unreachable destination does not hold the report back. */
void attempt_clean(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    struct err err = {0};
    const char *arguments[] = {"abandon",     "--prefix", attempt->target_prefix,     "--path",
                               attempt->path, "--node",   allocation->agent->node_id, NULL};

    CHECK(attempt->state == ATTEMPT_CLEANING);
    if (attempt->worker != NULL)
        return; /* put_done comes back here */
    if (!attempt->put_started) {
        attempt_clean_local(allocation);
        return;
    }
    if (start_worker(allocation, arguments, ABANDON_DEADLINE_MS, abandon_done, &err) != 0) {
        log_warning("abandon_failed", "allocation=%s hint=%s text=\"%s\"",
                    allocation->entry.allocation_id, attempt->hint, err.text);
        attempt_clean_local(allocation);
    }
}
