/* One file of a transfer: opened, ended, linked. See transfer_internal.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/holes.h"
#include "src/dest/posix/transfer_internal.h"
#include "src/dest/source.h"
#include "src/dest/tree.h"

struct copy_range transfer_range(const struct manifest_entry *entry, size_t chunk)
{
    return (struct copy_range){manifest_chunk_at(entry, chunk), manifest_chunk_bytes(entry, chunk)};
}

/* ---- its two ends ---- */

int transfer_open_from(const struct transfer *transfer, const struct manifest_entry *entry,
                       struct err *err)
{
    char stored[MANIFEST_PATH_MAX_BYTES];
    const char *path = manifest_stored_path(entry, stored);
    struct stat status;
    int fd;

    if (transfer->purpose == TRANSFER_TAKE)
        return source_open_file(transfer->from.folder, transfer->from.label, entry, err);
    fd = tree_open_file(transfer->from.folder, path, transfer->from.label, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) != 0) {
        fault_set(err, "fstat", path);
    } else if ((uint64_t)status.st_size != manifest_stored_bytes(entry)) {
        err_set(err, ERR_CORRUPT, "%s/%s has %" PRIu64 " bytes, the manifest says %" PRIu64,
                transfer->from.label, path, (uint64_t)status.st_size, manifest_stored_bytes(entry));
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

enum { BYPASS_MIN_CHUNKS = 8 };

/* Room is taken for what it has, not for its holes. */
static bool is_sparse(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && (uint64_t)status.st_blocks * 512 < (uint64_t)status.st_size;
}

/* Large files are written past the page cache where that costs less: nobody reads them here soon,
 * and nothing that an application needs has to make room. Smaller ones are on storage sooner
 * through it, which takes all of them at once (100 MiB: 135 instead of 158 ms, by hand 101). Their
 * room is taken first, as writes that make a file longer come one after another. Without it,
 * writing in the usual way tells what is wrong. */
static void bypass_cache(const struct transfer *transfer, int to,
                         const struct manifest_entry *entry, int from)
{
    if (transfer->purpose == TRANSFER_TAKE && !is_sparse(from) &&
        entry->chunk_count >= BYPASS_MIN_CHUNKS && entry->frame_ends == NULL &&
        tree_bypasses(transfer->to.folder) && fallocate(to, 0, 0, (off_t)entry->size_bytes) == 0)
        (void)fcntl(to, F_SETFL, O_WRONLY | O_DIRECT);
}

/* What is written is new in a folder that nobody else knows: a file that is there is a failure. */
int transfer_open_to(const struct transfer *transfer, const struct manifest_entry *entry, int from,
                     struct err *err)
{
    char stored[MANIFEST_PATH_MAX_BYTES];
    const char *path =
        transfer->purpose == TRANSFER_TAKE ? manifest_stored_path(entry, stored) : entry->path;
    int fd = tree_open_beneath(transfer->to.folder, path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd < 0)
        return fault_set(err, "create", path);
    bypass_cache(transfer, fd, entry, from);
    return fd;
}

/* What was written past the page cache ends with a whole block. */
static uint64_t length_of(const struct transfer *transfer, const struct manifest_entry *entry)
{
    return transfer->purpose == TRANSFER_TAKE ? manifest_stored_bytes(entry) : entry->size_bytes;
}

int transfer_finish_file(const struct job *job, const struct manifest_entry *entry,
                         const int fds[2], struct err *err)
{
    const struct transfer *transfer = job->transfer;
    int result = 0;

    if (transfer->purpose == TRANSFER_TAKE)
        result = source_check_file(fds[0], entry, err);
    /* Also after a syncfs(2): one that failed before this process came has told somebody else, and
     * only the file still has its error. */
    if (result == 0 && transfer->in_place && fsync(fds[0]) != 0)
        result = fault_set(err, "fsync", entry->path);
    close(fds[0]);
    if (fds[1] < 0)
        return result;
    if (result == 0 && (entry->chunk_count > 0 || entry->size_bytes >= HOLE_BYTES) &&
        ftruncate(fds[1], (off_t)length_of(transfer, entry)) != 0)
        result = fault_set(err, "cut the last block of", entry->path);
    if (result == 0 && transfer->with_modes && fchmod(fds[1], entry->mode) != 0)
        result = fault_set(err, "chmod", entry->path);
    if (result == 0 && !job->settle && fsync(fds[1]) != 0)
        result = fault_set(err, "fsync", entry->path);
    if (close(fds[1]) != 0 && result == 0)
        result = fault_set(err, "close", entry->path);
    return result;
}

int transfer_close_failed(const struct job *job, const struct manifest_entry *entry,
                          const int fds[2], struct err *err)
{
    if (job->transfer->purpose == TRANSFER_TAKE)
        (void)source_check_file(fds[0], entry, err);
    close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
    return -1;
}

/* ---- what is not written ---- */

void transfer_add_saved(struct job *job, uint64_t bytes)
{
    if (job->transfer->saved_bytes == NULL)
        return;
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    *job->transfer->saved_bytes += bytes;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
}

/* The second name is durable with the folder that it stands in, its bytes have long been. A
 * compressed file stays one, unless its stored name is another file's now. */
bool transfer_link_file(struct job *job, struct manifest_entry *entry,
                        const struct manifest_entry *earlier)
{
    if (!manifest_same_bytes(entry, earlier) ||
        (earlier->frame_ends != NULL &&
         manifest_compression_problem(job->transfer->manifest, entry) != NULL) ||
        earlier_link(job->transfer->earlier, earlier, job->transfer->to.folder) != 0)
        return false;
    if (earlier->frame_ends != NULL)
        transfer_forget_spots(job->transfer, entry);
    manifest_copy_frames(entry, earlier);
    entry->generation = earlier->generation + 1;
    transfer_add_saved(job, entry->size_bytes);
    return true;
}
