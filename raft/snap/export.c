/* See export.h. */
#include "raft/snap/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/log/folder.h"
#include "src/base/check.h"

/* READING is also the state while the written file is opened: it means that a job is under way,
 * which has the file, so that a close must wait for it. */
enum export_state { EXPORT_WRITING, EXPORT_IDLE, EXPORT_READING, EXPORT_FAILED };

struct export_call {
    struct export_request request;
    enum export_state state;
    bool closing; /* freed as soon as nothing is under way */
    char path[FOLDER_PATH_BYTES];
    struct slices slices;
    struct disk_job job; /* opening and reading; removing */
    struct disk_file *file;
    uint64_t size_bytes;
    uint64_t offset;
    size_t length, got_length;
    uint8_t *bytes;
    int status;
    struct err err;
    void (*got)(void *context, int status, const uint8_t *bytes, size_t length,
                const struct err *err);
    void *got_context;
};

/* Two exports of one process have different files; those of a former process are removed at
 * open. */
static uint64_t export_number;

static struct export_call *of_job(struct disk_job *job)
{
    return (struct export_call *)(void *)((char *)job - offsetof(struct export_call, job));
}

const char *export_path(const struct export_call *call)
{
    CHECK(call != NULL);
    return call->path;
}

/* ---- end ---- */

/* The removal runs off the loop: of a large file it may take as long as many heartbeats. */
static void remove_work(struct disk_job *job)
{
    struct export_call *call = of_job(job);
    const struct disk_ops *disk = call->request.disk;

    disk->close(call->file);
    /* What cannot be removed now is removed at the next open. */
    (void)disk->unlink(disk->context, call->path, NULL);
}

static void remove_done(struct disk_job *job)
{
    struct export_call *call = of_job(job);

    free(call->bytes);
    free(call);
}

static void export_remove(struct export_call *call)
{
    call->job.work = remove_work;
    call->job.done = remove_done;
    call->request.disk->submit(call->request.disk->context, &call->job);
}

void export_close(struct export_call *call)
{
    if (call == NULL)
        return;
    CHECK(!call->closing);
    /* What is under way ends by itself and finds `closing` set; else the removal begins now. */
    call->closing = true;
    if (call->state == EXPORT_WRITING)
        slices_cancel(&call->slices);
    else if (call->state != EXPORT_READING)
        export_remove(call);
}

/* ---- writing ---- */

/* The slices have closed their file, which was open for writing; it is opened again for reading. */
static void open_work(struct disk_job *job)
{
    struct export_call *call = of_job(job);
    const struct disk_ops *disk = call->request.disk;

    call->status = disk->open(disk->context, call->path, DISK_OPEN_READ, &call->file, &call->err);
    if (call->status == 0)
        call->status = disk->size(call->file, &call->size_bytes, &call->err);
}

static void open_done(struct disk_job *job)
{
    struct export_call *call = of_job(job);

    call->state = call->status == 0 ? EXPORT_IDLE : EXPORT_FAILED;
    if (call->closing)
        export_remove(call);
    else
        call->request.done(call->request.context, call->status, call->size_bytes,
                           call->status == 0 ? NULL : &call->err);
}

static void export_written(void *context, int status, const struct err *err)
{
    struct export_call *call = context;

    if (call->closing) {
        export_remove(call);
    } else if (status != 0) {
        call->state = EXPORT_FAILED;
        call->request.done(call->request.context, -1, 0, err);
    } else {
        call->state = EXPORT_READING; /* busy: close waits */
        call->job.work = open_work;
        call->job.done = open_done;
        call->request.disk->submit(call->request.disk->context, &call->job);
    }
}

int export_start(const struct export_request *request, struct export_call **ret_export,
                 struct err *err)
{
    const struct disk_ops *disk = request->disk;
    uint64_t free_bytes = disk->free_bytes(disk->context, request->data_dir);
    struct export_call *call;

    if (free_bytes < request->room_bytes)
        return err_set(err, ERR_FULL,
                       "%s has %" PRIu64 " MB free and a backup needs %" PRIu64
                       " MB there while it is made; free space, or ask another member",
                       request->data_dir, free_bytes / 1000000, request->room_bytes / 1000000);
    call = check_calloc(1, sizeof(*call));
    call->request = *request;
    snprintf(call->path, sizeof(call->path), "%s/tmp-export-%" PRIu64, request->data_dir,
             ++export_number);
    slices_begin(&call->slices, disk, call->path, &request->source, export_written, call);
    *ret_export = call;
    return 0;
}

/* ---- reading ---- */

static void read_work(struct disk_job *job)
{
    struct export_call *call = of_job(job);

    call->status = call->request.disk->read(call->file, call->offset, call->bytes, call->length,
                                            &call->got_length, &call->err);
}

static void read_done(struct disk_job *job)
{
    struct export_call *call = of_job(job);

    call->state = EXPORT_IDLE;
    if (call->closing)
        export_remove(call);
    else
        call->got(call->got_context, call->status, call->bytes, call->got_length,
                  call->status == 0 ? NULL : &call->err);
}

void export_read(struct export_call *call, uint64_t offset, size_t length,
                 void (*got)(void *context, int status, const uint8_t *bytes, size_t length,
                             const struct err *err),
                 void *context)
{
    CHECK(call->state == EXPORT_IDLE && !call->closing && length > 0);
    if (call->length != length) {
        free(call->bytes);
        call->bytes = check_alloc(length);
        call->length = length;
    }
    call->state = EXPORT_READING;
    call->offset = offset;
    call->got = got;
    call->got_context = context;
    call->job.work = read_work;
    call->job.done = read_done;
    call->request.disk->submit(call->request.disk->context, &call->job);
}
