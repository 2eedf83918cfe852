/* Lock, identity and reserve of the data folder. See folder.h.
 *
 * Source   identity file, little endian: "CKPTIDNT", version u32, member id u64, length u8 and
 *          bytes of the cluster id, incarnation u64, epoch u64, crc32c u32 of all before it.
 */
#include "raft/log/folder.h"

#include <stdio.h>
#include <string.h>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { IDENTITY_VERSION = 2, IDENTITY_BYTES_MAX = 256 };

static const char identity_magic[8] = "CKPTIDNT";

char *folder_path(const struct folder *folder, const char *name, char text[FOLDER_PATH_BYTES])
{
    CHECK(folder != NULL);
    CHECK(name != NULL);
    CHECK(strlen(name) < FOLDER_NAME_BYTES - 1);
    snprintf(text, FOLDER_PATH_BYTES, "%s/%s", folder->path, name);
    return text;
}

int folder_fill(const struct folder *folder, struct disk_file *file, const char *path,
                const void *bytes, size_t length, struct err *err)
{
    CHECK(folder != NULL);
    CHECK(file != NULL);
    CHECK(path != NULL);
    if (folder->disk->write(file, 0, bytes, length, err) != 0)
        return err_wrap(err, "%s from offset 0", path);
    return folder->disk->sync(file, err) == 0 ? 0
                                              : err_wrap(err, "%s up to offset %zu", path, length);
}

int folder_write_file(const struct folder *folder, const char *name, const void *bytes,
                      size_t length, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    char temporary[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES], tmp_name[FOLDER_NAME_BYTES];
    struct disk_file *file;
    int status;

    CHECK(name != NULL);
    snprintf(tmp_name, sizeof(tmp_name), "tmp-%.40s", name);
    folder_path(folder, tmp_name, temporary);
    folder_path(folder, name, path);
    if (disk->open(disk->context, temporary, DISK_OPEN_CREATE, &file, err) != 0)
        return -1;
    status = folder_fill(folder, file, temporary, bytes, length, err);
    disk->close(file);
    if (status != 0 || disk->rename(disk->context, temporary, path, err) != 0)
        return -1;
    return disk->sync_dir(disk->context, folder->path, err);
}

/* Damage is told before another version, and whose folder it is last: each answer asks for
 * something else of the operator. */
static int identity_decode(struct folder *folder, const uint8_t *bytes, size_t length,
                           const char *cluster_id, uint64_t member_id, struct err *err)
{
    struct bytes_reader reader = {bytes, length, false};
    const uint8_t *magic = reader_take(&reader, sizeof(identity_magic));
    uint64_t version = reader_get(&reader, 4), member = reader_get(&reader, 8);
    size_t cluster_length = reader_get(&reader, 1);
    const uint8_t *cluster = reader_take(&reader, cluster_length);
    uint64_t incarnation = reader_get(&reader, 8);
    uint64_t epoch_min = reader_get(&reader, 8);
    size_t covered = length - reader.left;
    uint32_t crc = (uint32_t)reader_get(&reader, 4);

    if (reader.failed || memcmp(magic, identity_magic, sizeof(identity_magic)) != 0 ||
        crc32c(0, bytes, covered) != crc)
        return err_set(
            err, ERR_CORRUPT,
            "%s/identity offset 0: the identity is damaged; remove the member and add it "
            "under a new id with an empty folder",
            folder->path);
    if (version != IDENTITY_VERSION)
        return err_set(err, ERR_MISMATCH,
                       "%s/identity has version %llu, this program reads %d: start the build "
                       "of ckptd that wrote it, or a later one",
                       folder->path, (unsigned long long)version, IDENTITY_VERSION);
    if (member_id != 0 && member != member_id)
        return err_set(err, ERR_MISMATCH,
                       "%s belongs to member %llu, not %llu: start the right member on it",
                       folder->path, (unsigned long long)member, (unsigned long long)member_id);
    if (cluster_length != strlen(cluster_id) || memcmp(cluster, cluster_id, cluster_length) != 0)
        return err_set(err, ERR_MISMATCH,
                       "%s belongs to cluster %.*s, not %s: start it with the configuration of its "
                       "cluster, or give another data_dir",
                       folder->path, (int)cluster_length, (const char *)cluster, cluster_id);
    folder->member_id = member;
    folder->incarnation = incarnation;
    folder->epoch_min = epoch_min;
    return 0;
}

/* Only a file that is not there means that nobody has claimed the folder. One that cannot be read
 * must not let a bootstrap begin over it. */
static int identity_read(struct folder *folder, const char *cluster_id, uint64_t member_id,
                         struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    char path[FOLDER_PATH_BYTES];
    uint8_t bytes[IDENTITY_BYTES_MAX];
    struct disk_file *file;
    struct err open_err;
    size_t length;
    int status;

    folder_path(folder, "identity", path);
    if (disk->open(disk->context, path, DISK_OPEN_READ, &file, &open_err) != 0) {
        if (open_err.code == ERR_NOT_FOUND)
            return 0;
        return err_set(err, open_err.code, "%s", open_err.text);
    }
    status = disk->read(file, 0, bytes, sizeof(bytes), &length, err);
    disk->close(file);
    if (status != 0)
        return err_wrap(err, "%s", path);
    if (identity_decode(folder, bytes, length, cluster_id, member_id, err) != 0)
        return -1;
    folder->claimed = true;
    return 0;
}

int folder_claim(struct folder *folder, struct err *err)
{
    size_t cluster_length = strlen(folder->cluster_id);
    struct buf buf;
    int status;

    buf_init(&buf);
    buf_append(&buf, identity_magic, sizeof(identity_magic));
    buf_put(&buf, IDENTITY_VERSION, 4);
    buf_put(&buf, folder->member_id, 8);
    buf_put(&buf, cluster_length, 1);
    buf_append(&buf, folder->cluster_id, cluster_length);
    buf_put(&buf, folder->incarnation, 8);
    buf_put(&buf, folder->epoch_min, 8);
    buf_put(&buf, crc32c(0, buf.bytes, buf.length), 4);
    status = folder_write_file(folder, "identity", buf.bytes, buf.length, err);
    buf_close(&buf);
    folder->claimed |= status == 0;
    return status;
}

int folder_adopt(struct folder *folder, uint64_t incarnation, struct err *err)
{
    CHECK(folder->claimed && folder->incarnation == 0 && incarnation != 0);
    folder->incarnation = incarnation;
    return folder_claim(folder, err);
}

static void remove_temporary(void *data, const char *name)
{
    const struct folder *folder = data;
    char path[FOLDER_PATH_BYTES];

    /* A leftover that cannot be removed costs space only; the next write of that name empties
     * it. */
    if (strncmp(name, "tmp-", 4) == 0 && strlen(name) < FOLDER_NAME_BYTES - 1)
        (void)folder->disk->unlink(folder->disk->context, folder_path(folder, name, path), NULL);
}

int folder_open(struct folder *folder, const struct disk_ops *disk, const char *path,
                const struct folder_owner *owner, bool create, struct err *err)
{
    char lock_path[FOLDER_PATH_BYTES];

    CHECK(folder != NULL);
    CHECK(disk != NULL);
    CHECK(path != NULL);
    CHECK(owner != NULL);
    memset(folder, 0, sizeof(*folder));
    folder->disk = disk;
    folder->accepts_writes = true;
    if (strlen(path) >= sizeof(folder->path))
        return err_set(err, ERR_INVALID,
                       "data_dir has %zu characters, at most %zu are possible: choose a shorter "
                       "path",
                       strlen(path), sizeof(folder->path) - 1);
    CHECK(strlen(owner->cluster_id) <= ID_MAX_BYTES);
    memcpy(folder->path, path, strlen(path) + 1);
    memcpy(folder->cluster_id, owner->cluster_id, strlen(owner->cluster_id) + 1);
    folder->member_id = owner->member_id;
    if (create && disk->make_dir(disk->context, path, err) != 0)
        return -1;
    if (disk->lock(disk->context, folder_path(folder, "lock", lock_path), &folder->lock, err) !=
        0) {
        if (!create && err->code == ERR_NOT_FOUND)
            err_set(err, ERR_NOT_FOUND,
                    "%s does not exist: members of a new cluster are started once with --bootstrap",
                    path);
        return -1;
    }
    /* A process that died before its sync of the folder leaves names that the system shows and the
     * disk does not have: what is written under them from here on would be lost with them. */
    if (disk->list_dir(disk->context, folder->path, remove_temporary, folder, err) != 0 ||
        disk->sync_dir(disk->context, folder->path, err) != 0 ||
        identity_read(folder, owner->cluster_id, owner->member_id, err) != 0) {
        folder_close(folder);
        return -1;
    }
    return 0;
}

/* The folder is synced also when the file was not there: a process that died before that sync may
 * have removed it. */
int folder_remove(const struct folder *folder, const char *name, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    char path[FOLDER_PATH_BYTES];

    CHECK(name != NULL);
    if (disk->unlink(disk->context, folder_path(folder, name, path), err) != 0 &&
        err->code != ERR_NOT_FOUND)
        return err_wrap(err, "%s", path);
    return disk->sync_dir(disk->context, folder->path, err);
}

void folder_close(struct folder *folder)
{
    CHECK(folder != NULL);
    if (folder->lock != NULL)
        folder->disk->unlock(folder->disk->context, folder->lock);
    folder->lock = NULL;
}

/* ---- reserve ---- */

/* The blocks must be there: a file with a hole would give nothing back. Half a reserve is given
 * back at once. */
static void reserve_make(struct folder *folder)
{
    const struct disk_ops *disk = folder->disk;
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;

    folder_path(folder, "reserve", path);
    if (disk->open(disk->context, path, DISK_OPEN_CREATE, &file, NULL) != 0)
        return;
    if (disk->allocate(file, folder->reserve_bytes, NULL) == 0 && disk->sync(file, NULL) == 0)
        atomic_store(&folder->reserve_present, true);
    else
        (void)disk->truncate(file, 0, NULL);
    disk->close(file);
}

static void reserve_work(struct disk_job *job)
{
    reserve_make((struct folder *)(void *)((char *)job - offsetof(struct folder, reserve_job)));
}

static void reserve_done(struct disk_job *job)
{
    struct folder *folder =
        (struct folder *)(void *)((char *)job - offsetof(struct folder, reserve_job));

    folder->reserve_in_work = false;
}

bool folder_busy(const struct folder *folder)
{
    CHECK(folder != NULL);
    return folder->reserve_in_work;
}

/* The flag goes before the file: the loop, which reads it meanwhile, never counts on a reserve that
 * is gone. */
bool folder_spend_reserve(struct folder *folder)
{
    char path[FOLDER_PATH_BYTES];

    CHECK(folder != NULL);
    if (!atomic_exchange(&folder->reserve_present, false))
        return false;
    return folder->disk->unlink(folder->disk->context, folder_path(folder, "reserve", path),
                                NULL) == 0;
}

void folder_set_reserve(struct folder *folder, uint64_t bytes)
{
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    uint64_t size = 0;

    CHECK(folder != NULL);
    folder->reserve_bytes = bytes;
    folder->free_bytes = folder->disk->free_bytes(folder->disk->context, folder->path);
    folder_path(folder, "reserve", path);
    if (folder->disk->open(folder->disk->context, path, DISK_OPEN_READ, &file, NULL) == 0) {
        (void)folder->disk->size(file, &size, NULL);
        folder->disk->close(file);
    }
    /* A file of another size is of another configuration, or was cut short: it is made anew. */
    if (size == bytes)
        atomic_store(&folder->reserve_present, true);
    else if (folder->free_bytes > 2 * bytes)
        reserve_make(folder);
    folder_check_space(folder);
}

/* Low: less than the reserve's size is free, or the reserve is gone. Writes come back only when the
 * reserve is back, which needs twice its size: no flapping at the edge. */
void folder_check_space(struct folder *folder)
{
    folder->free_bytes = folder->disk->free_bytes(folder->disk->context, folder->path);
    folder->total_bytes = folder->disk->total_bytes(folder->disk->context, folder->path);
    if (folder->reserve_bytes == 0)
        return;
    if (!atomic_load(&folder->reserve_present) && !folder->reserve_in_work &&
        folder->free_bytes > 2 * folder->reserve_bytes) {
        folder->reserve_in_work = true;
        folder->reserve_job.work = reserve_work;
        folder->reserve_job.done = reserve_done;
        folder->disk->submit(folder->disk->context, &folder->reserve_job);
    }
    folder->accepts_writes =
        atomic_load(&folder->reserve_present) && folder->free_bytes > folder->reserve_bytes / 2;
}

int folder_holds(const struct folder *folder, const char *name, bool *ret_holds, struct err *err)
{
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;

    CHECK(folder != NULL);
    CHECK(name != NULL);
    *ret_holds = folder->disk->open(folder->disk->context, folder_path(folder, name, path),
                                    DISK_OPEN_READ, &file, err) == 0;
    if (*ret_holds)
        folder->disk->close(file);
    return *ret_holds || err->code == ERR_NOT_FOUND ? 0 : -1;
}
