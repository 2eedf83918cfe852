/* verify and restore. See s3.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/copy.h"
#include "src/dest/posix/transfer.h"
#include "src/dest/s3/receive.h"
#include "src/dest/s3/s3.h"
#include "src/dest/target.h"

/* All bytes come over the network and through the hash: nothing that a store says of itself
 * (ETags, checksums kept beside an object) is taken for the bytes. */
int s3_verify(const struct destination_place *place, const struct destination_how *how,
              struct destination_summary *ret_summary, struct err *err)
{
    const struct client_how client_how = {how->rate_bytes_per_s, S3_PATIENCE_MS};
    struct client *client = client_open(&client_how, err);
    struct sample sample = {.policy = how->read_back};
    struct shard_found found;
    int result;

    if (client == NULL)
        return -1;
    result = shard_find(client, place, &found, err);
    if (result == 0)
        sample_draw(&sample, &found.manifest);
    if (result == 0)
        result = receive_files(&(struct receive_request){.client = client,
                                                         .sample = &sample,
                                                         .at = &found.at,
                                                         .manifest = &found.manifest,
                                                         .threads = how->threads},
                               err);
    if (result == 0)
        *ret_summary = found.summary;
    shard_found_close(&found);
    client_close(client);
    return result;
}

/* ---- restore ---- */

struct restore {
    const struct manifest *manifest;
    unsigned threads;
    struct target target;
    int *fds; /* of each entry that is being written; -1 */
};

static int begin_file(void *data, const struct manifest_entry *entry, struct err *err)
{
    struct restore *restore = data;
    int fd = target_create(&restore->target, entry, err);

    restore->fds[entry - restore->manifest->entries] = fd;
    return fd < 0 ? -1 : 0;
}

/* Chunks of a file come in any order and are written where they belong. Their hash was compared
 * before, so that no byte that is wrong is ever written. */
static int write_chunk(void *data, const struct receive_chunk *chunk, struct err *err)
{
    struct restore *restore = data;
    int fd = restore->fds[chunk->entry - restore->manifest->entries];
    const struct copy_range range = {manifest_chunk_at(chunk->entry, chunk->chunk), chunk->length};

    if (copy_write((struct copy_end){fd, chunk->entry->path}, chunk->bytes, range, err) != 0)
        return -1;
    /* on its way to the disk while the next chunk comes: the end of the file is short then */
    (void)sync_file_range(fd, (off_t)range.offset, (off_t)range.length, SYNC_FILE_RANGE_WRITE);
    return 0;
}

/* Durable before the folder gets its name; of an empty file this is all that is done. */
static int end_file(void *data, const struct manifest_entry *entry, struct err *err)
{
    struct restore *restore = data;
    int *fd = &restore->fds[entry - restore->manifest->entries];
    int open_fd = *fd;

    *fd = -1;
    return target_finish(open_fd, entry, err);
}

/* Files are open from their first chunk to their last: as many as chunks can be on their way,
 * and those that are being made durable. */
static int restore_contents(struct restore *restore, struct client *client,
                            const struct shard_found *found, struct err *err)
{
    static const struct receive_ops ops = {begin_file, write_chunk, end_file};
    const struct receive_request request = {.client = client,
                                            .at = &found->at,
                                            .manifest = &found->manifest,
                                            .threads = restore->threads,
                                            .ops = &ops,
                                            .data = restore};
    size_t count = found->manifest.count;
    int result;

    if (target_begin(&restore->target, &found->manifest, err) != 0)
        return -1;
    restore->manifest = &found->manifest;
    restore->fds = check_calloc(count + 1, sizeof(*restore->fds));
    for (size_t i = 0; i < count; i++)
        restore->fds[i] = -1;
    result = receive_files(&request, err);
    for (size_t i = 0; i < count; i++) {
        if (restore->fds[i] >= 0)
            close(restore->fds[i]);
    }
    free(restore->fds);
    return result == 0 ? target_publish(&restore->target, &found->manifest, err) : -1;
}

/* 1: the target holds these very files; 0: it is free; -1: it holds something else. */
static int target_state(const struct target *target, struct manifest *manifest, struct err *err)
{
    struct transfer transfer = {.purpose = TRANSFER_CHECK, .manifest = manifest, .to = {-1, NULL}};
    struct pool pool;
    int result, fd = target_look(target, manifest, err);

    if (fd < 0)
        return fd == TARGET_FREE ? 0 : -1;
    transfer.from = (struct transfer_side){fd, target->to};
    pool_init(&pool, 0, 0);
    result = transfer_run(&transfer, &pool, NULL);
    pool_close(&pool);
    close(fd);
    return result == 0 ? 1 : target_taken(target, err);
}

static int restore_run(struct restore *restore, struct client *client, struct shard_found *found,
                       struct err *err)
{
    int state = target_state(&restore->target, &found->manifest, err);

    found->summary.reused = state == 1;
    if (state != 0)
        return state < 0 ? -1 : 0;
    if (restore_contents(restore, client, found, err) == 0)
        return 0;
    target_drop(&restore->target);
    return -1;
}

int s3_restore(const struct destination_place *place, const char *to,
               const struct destination_how *how, struct destination_summary *ret_summary,
               struct err *err)
{
    const struct client_how client_how = {how->rate_bytes_per_s, S3_PATIENCE_MS};
    struct restore restore = {.threads = how->threads};
    struct shard_found found;
    struct client *client = client_open(&client_how, err);
    struct err why = {0};
    int result;

    if (client == NULL)
        return -1;
    result = shard_find(client, place, &found, err);
    if (result == 0) {
        result = target_open(&restore.target, to, &why);
        if (result == 0)
            result = restore_run(&restore, client, &found, &why);
        if (result == 0)
            *ret_summary = found.summary;
        else
            target_failed(&why, err);
        target_close(&restore.target);
    }
    shard_found_close(&found);
    client_close(client);
    return result;
}
