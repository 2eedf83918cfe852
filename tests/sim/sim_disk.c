/* Memory disks with what a power cut leaves behind. See sim.h.
 *
 * Shapes   a file has what the process sees (content) and what the platter holds (durable), both
 *          kept as far as anything was ever written; behind that are zeros. Writes mark ranges
 *          dirty; sync copies them. A crash lets each dirty range through whole, not at all, or
 *          sector by sector, and a prefix of the directory changes since the last sync of the
 *          folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "tests/sim/sim_disk_internal.h"

/* ---- helpers ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

struct entry *disk_entry_find(struct directory *directory, const char *name)
{
    for (size_t i = 0; i < directory->count; i++)
        if (strcmp(directory->entries[i].name, name) == 0)
            return &directory->entries[i];
    return NULL;
}

void disk_entry_set(struct directory *directory, const char *name, struct inode *inode)
{
    struct entry *entry = disk_entry_find(directory, name);

    if (inode == NULL) {
        if (entry != NULL)
            *entry = directory->entries[--directory->count];
        return;
    }
    if (entry == NULL) {
        CHECK(directory->count < NAMES_MAX);
        entry = &directory->entries[directory->count++];
        snprintf(entry->name, sizeof(entry->name), "%s", name);
    }
    entry->inode = inode;
}

static void directory_change(struct sim_disk *disk, const char *name, struct inode *inode)
{
    struct change *change;

    disk_entry_set(&disk->seen, name, inode);
    disk->changes = check_realloc(disk->changes, disk->change_count + 1, sizeof(*disk->changes));
    change = &disk->changes[disk->change_count++];
    snprintf(change->name, sizeof(change->name), "%s", name);
    change->inode = inode;
}

/* True when the disk is dead now. */
static bool spend(struct sim_disk *disk, struct err *err)
{
    if (!disk->dead && disk->operations_left > 0 && --disk->operations_left == 0)
        disk->dead = true;
    if (disk->dead) {
        err_set(err, ERR_IO, "simulated disk of node %u is dead", disk->node);
        return true;
    }
    if (disk->failure_left > 0 && --disk->failure_left == 0) {
        err_set(err, ERR_IO, "simulated disk of node %u had an error", disk->node);
        return true;
    }
    return false;
}

/* True when a read fails now. The text is the system's: where it was is for the caller to say. */
static bool read_fails(struct sim_disk *disk, const char *what, const char *path, struct err *err)
{
    if (disk->dead || disk->reads_left == 0 || --disk->reads_left > 0)
        return false;
    err_set(err, ERR_DISK, "%s %s: Input/output error", what, path);
    return true;
}

/* False: there is no room for so much more. */
static bool room_take(struct sim_disk *disk, uint64_t bytes, struct err *err)
{
    if (!disk->filling || bytes <= disk->room) {
        disk->room -= disk->filling ? bytes : 0;
        return true;
    }
    err_set(err, ERR_FULL, "simulated disk of node %u is full", disk->node);
    return false;
}

static uint8_t *grown(uint8_t *bytes, uint64_t size, uint64_t capacity)
{
    bytes = check_realloc(bytes, capacity, 1);
    memset(bytes + size, 0, capacity - size);
    return bytes;
}

/* Room for what is written below size. */
void disk_inode_reserve(struct inode *inode, uint64_t size)
{
    uint64_t capacity = inode->capacity == 0 ? INODE_MIN_BYTES : inode->capacity;

    if (size <= inode->capacity)
        return;
    while (capacity < size)
        capacity *= 2;
    inode->content = grown(inode->content, inode->capacity, capacity);
    inode->durable = grown(inode->durable, inode->capacity, capacity);
    inode->capacity = capacity;
}

/* Zeros from `begin` on, as far as there may be anything else. */
void disk_zero_from(const struct inode *inode, uint8_t *bytes, uint64_t begin, uint64_t end)
{
    end = least(end, inode->capacity);
    if (begin < end)
        memset(bytes + begin, 0, end - begin);
}

/* One form takes over what the other has there. */
void disk_range_copy(const struct inode *inode, uint8_t *to, const uint8_t *from,
                     struct range range)
{
    uint64_t end = least(range.offset + range.length, inode->capacity);

    if (range.offset < end)
        memcpy(to + range.offset, from + range.offset, end - range.offset);
}

static void inode_dirty(struct inode *inode, uint64_t offset, uint64_t length)
{
    struct range *last = inode->dirty_count > 0 ? &inode->dirty[inode->dirty_count - 1] : NULL;

    if (length == 0)
        return;
    if (last != NULL && last->offset <= offset && offset <= last->offset + last->length &&
        offset / SECTOR_BYTES == (last->offset + last->length) / SECTOR_BYTES) {
        if (offset + length > last->offset + last->length)
            last->length = offset + length - last->offset;
        return;
    }
    inode->dirty = check_realloc(inode->dirty, inode->dirty_count + 1, sizeof(*inode->dirty));
    inode->dirty[inode->dirty_count++] = (struct range){offset, length};
}

/* ---- the table ---- */

static int sim_make_dir(void *context, const char *path, struct err *err)
{
    (void)context;
    (void)path;
    (void)err;
    return 0;
}

static int sim_list_dir(void *context, const char *path,
                        void (*visit)(void *data, const char *name), void *data, struct err *err)
{
    struct sim_disk *disk = context;
    size_t count = disk->seen.count;
    struct entry *copy; /* visitors unlink */

    if (disk->dead)
        return err_set(err, ERR_IO, "dead");
    if (read_fails(disk, "read folder", path, err))
        return -1;
    copy = check_calloc(count + 1, sizeof(*copy));
    memcpy(copy, disk->seen.entries, count * sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        visit(data, copy[i].name);
    free(copy);
    return 0;
}

bool disk_inode_named(const struct directory *directory, const struct inode *inode)
{
    for (size_t i = 0; i < directory->count; i++)
        if (directory->entries[i].inode == inode)
            return true;
    return false;
}

void disk_inode_free(struct inode *inode)
{
    free(inode->content);
    free(inode->durable);
    free(inode->dirty);
    free(inode->lost);
    free(inode);
}

/* Those without a name, on the platter neither, that nobody has open. */
void disk_inodes_collect(struct sim_disk *disk)
{
    struct inode **at = &disk->inodes;

    while (*at != NULL) {
        struct inode *inode = *at;
        if (inode->open_count > 0 || disk_inode_named(&disk->seen, inode) ||
            disk_inode_named(&disk->durable, inode)) {
            at = &inode->next;
        } else {
            *at = inode->next;
            disk_inode_free(inode);
        }
    }
}

static int sim_sync_dir(void *context, const char *path, struct err *err)
{
    struct sim_disk *disk = context;

    (void)path;
    if (spend(disk, err))
        return -1;
    for (size_t i = 0; i < disk->change_count; i++)
        disk_entry_set(&disk->durable, disk->changes[i].name, disk->changes[i].inode);
    disk->change_count = 0;
    disk_inodes_collect(disk);
    return 0;
}

static int sim_rename(void *context, const char *from, const char *to, struct err *err)
{
    struct sim_disk *disk = context;
    struct entry *entry = disk_entry_find(&disk->seen, base_name(from));
    struct inode *inode;

    if (spend(disk, err))
        return -1;
    if (entry == NULL)
        return err_set(err, ERR_NOT_FOUND, "rename %s: no such file", from);
    inode = entry->inode;
    directory_change(disk, base_name(to), inode);
    directory_change(disk, base_name(from), NULL);
    return 0;
}

static int sim_unlink(void *context, const char *path, struct err *err)
{
    struct sim_disk *disk = context;
    const struct entry *entry = disk_entry_find(&disk->seen, base_name(path));

    if (spend(disk, err))
        return -1;
    if (entry == NULL)
        return err_set(err, ERR_NOT_FOUND, "unlink %s: no such file", path);
    if (disk->filling)
        disk->room += entry->inode->size;
    directory_change(disk, base_name(path), NULL);
    return 0;
}

static int sim_lock(void *context, const char *path, struct disk_lock **ret_lock, struct err *err)
{
    struct sim_disk *disk = context;

    if (disk->dead)
        return err_set(err, ERR_IO, "simulated disk of node %u is dead", disk->node);
    if (disk->locked)
        return err_set(err, ERR_LOCKED, "%s is locked", path);
    disk->locked = true;
    *ret_lock = check_alloc(sizeof(**ret_lock));
    (*ret_lock)->disk = disk;
    return 0;
}

static void sim_unlock(void *context, struct disk_lock *lock)
{
    (void)context;
    if (lock != NULL)
        lock->disk->locked = false;
    free(lock);
}

static uint64_t sim_free_bytes(void *context, const char *path)
{
    const struct sim_disk *disk = context;

    (void)path;
    return disk->filling && !disk->fills_unseen ? disk->room : disk->free_bytes;
}

static uint64_t sim_total_bytes(void *context, const char *path)
{
    (void)context, (void)path;
    return UINT64_C(1) << 40;
}

static int sim_open(void *context, const char *path, enum disk_open_mode mode,
                    struct disk_file **ret_file, struct err *err)
{
    struct sim_disk *disk = context;
    struct entry *entry = disk_entry_find(&disk->seen, base_name(path));
    struct inode *inode = entry == NULL ? NULL : entry->inode;
    struct disk_file *file;

    if (mode == DISK_OPEN_CREATE ? spend(disk, err) : disk->dead)
        return err_set(err, ERR_IO, "dead");
    if (mode == DISK_OPEN_CREATE) {
        /* A new inode also when the file exists: its old content may survive a crash under the
         * name. */
        inode = check_calloc(1, sizeof(*inode));
        inode->next = disk->inodes;
        disk->inodes = inode;
        directory_change(disk, base_name(path), inode);
    }
    if (inode == NULL)
        return err_set(err, ERR_NOT_FOUND, "open %s: no such file", path);
    if (mode != DISK_OPEN_CREATE && read_fails(disk, "open", path, err))
        return -1;
    file = check_alloc(sizeof(*file));
    *file = (struct disk_file){disk, inode};
    inode->open_count++;
    *ret_file = file;
    return 0;
}

static void sim_close(struct disk_file *file)
{
    if (file != NULL)
        file->inode->open_count--;
    free(file);
}

static int sim_size(struct disk_file *file, uint64_t *ret_bytes, struct err *err)
{
    (void)err;
    *ret_bytes = file->inode->size;
    return 0;
}

static int sim_read(struct disk_file *file, uint64_t offset, void *bytes, size_t length,
                    size_t *ret_length, struct err *err)
{
    struct inode *inode = file->inode;
    uint64_t left = offset < inode->size ? inode->size - offset : 0;

    if (file->disk->dead)
        return err_set(err, ERR_IO, "dead");
    if (read_fails(file->disk, "read", "file", err))
        return -1;
    *ret_length = least(length, left);
    left = offset < inode->capacity ? least(*ret_length, inode->capacity - offset) : 0;
    if (left > 0)
        memcpy(bytes, inode->content + offset, left);
    memset((uint8_t *)bytes + left, 0, *ret_length - left);
    return 0;
}

static int sim_write(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                     struct err *err)
{
    struct inode *inode = file->inode;
    bool was_dead = file->disk->dead, died, full;
    uint64_t more = offset + length > inode->size ? offset + length - inode->size : 0;

    if (was_dead)
        return err_set(err, ERR_IO, "dead");
    died = spend(file->disk, err);
    if (died && !file->disk->dead)
        return -1;
    if (file->disk->fills_writes && more < length) /* what is there is written elsewhere first */
        more = length;
    full = !room_take(file->disk, more, err);
    if (full && length > 0) /* as far as it went */
        length = sim_random(file->disk->sim, length);
    if (length == 0)
        return died || full ? -1 : 0;
    disk_inode_reserve(inode, offset + length);
    memcpy(inode->content + offset, bytes, length);
    if (offset + length > inode->size)
        inode->size = offset + length;
    inode_dirty(inode, offset, length);
    return died || full ? -1 : 0;
}

static int sim_allocate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    struct inode *inode = file->inode;
    uint64_t more = bytes > inode->size ? bytes - inode->size : 0;

    if (spend(file->disk, err))
        return -1;
    if (more > file->disk->free_bytes)
        return err_set(err, ERR_FULL, "simulated disk of node %u is full", file->disk->node);
    if (!room_take(file->disk, more, err))
        return -1;
    if (bytes > inode->size)
        inode->size = bytes;
    return 0;
}

/* What was allocated reads as zeros here and needs no note of any file system. */
static int sim_write_zeros(struct disk_file *file, uint64_t bytes, struct err *err)
{
    CHECK(bytes <= file->inode->size);
    return file->disk->dead ? err_set(err, ERR_IO, "dead") : 0;
}

static int sim_truncate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    struct inode *inode = file->inode;

    if (spend(file->disk, err))
        return -1;
    if (bytes < inode->size) {
        disk_zero_from(inode, inode->content, bytes, inode->size);
        inode_dirty(inode, bytes, inode->size - bytes);
    }
    inode->size = bytes;
    return 0;
}

/* The n-th sync fails: some of it has reached the platter, and the system calls all of it clean,
 * shows it to whoever reads and never writes it again. */
static bool sync_fails(struct disk_file *file, struct err *err)
{
    struct sim_disk *disk = file->disk;
    struct inode *inode = file->inode;

    if (disk->syncs_left == 0 || --disk->syncs_left > 0)
        return false;
    inode->lost = check_realloc(inode->lost, inode->lost_count + inode->dirty_count + 1,
                                sizeof(*inode->lost));
    for (size_t i = 0; i < inode->dirty_count; i++) {
        if (sim_chance(disk->sim, 3))
            disk_range_copy(inode, inode->durable, inode->content, inode->dirty[i]);
        inode->lost[inode->lost_count++] = inode->dirty[i];
    }
    inode->dirty_count = 0;
    disk->cache_stays = true; /* it is the process that ends of it */
    err_set(err, ERR_DISK, "sync file: Input/output error");
    return true;
}

static int sim_sync(struct disk_file *file, struct err *err)
{
    struct inode *inode = file->inode;

    if (spend(file->disk, err) || sync_fails(file, err))
        return -1;
    for (size_t i = 0; i < inode->dirty_count; i++)
        disk_range_copy(inode, inode->durable, inode->content, inode->dirty[i]);
    inode->dirty_count = 0;
    inode->durable_size = inode->size;
    return 0;
}

/* Only what lies in the range: a caller that relies on more is wrong. */
static int sim_write_sync(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                          struct err *err)
{
    struct inode *inode = file->inode;
    size_t kept = 0;

    if (sim_write(file, offset, bytes, length, err) != 0 || spend(file->disk, err) ||
        sync_fails(file, err))
        return -1;
    memcpy(inode->durable + offset, inode->content + offset, length);
    for (size_t i = 0; i < inode->dirty_count; i++)
        if (inode->dirty[i].offset < offset ||
            inode->dirty[i].offset + inode->dirty[i].length > offset + length)
            inode->dirty[kept++] = inode->dirty[i];
    inode->dirty_count = kept;
    if (inode->durable_size < offset + length)
        inode->durable_size = offset + length;
    return 0;
}

/* ---- asynchronous ---- */

/* The work is done at one moment, the loop hears of it at a later one: a crash may come in
 * between. */
struct submission {
    struct sim_disk *disk;
    struct disk_job *job;
    unsigned left; /* of the latency, in times of what is usual */
    bool worked;
};

static uint64_t latency_us(const struct sim_disk *disk)
{
    uint64_t kind = sim_random(disk->sim, 100);

    if (kind == 0)
        return 20000 + sim_random(disk->sim, 200000);
    return 100 + sim_random(disk->sim, kind < 10 ? 10000 : 900);
}

static void submission_fire(void *data);

static void submission_schedule(struct submission *submission, uint64_t delay_us)
{
    sim_on_drop(sim_schedule(submission->disk->sim, submission->disk->node, delay_us,
                             submission_fire, submission),
                free);
}

static void submission_fire(void *data)
{
    struct submission *submission = data;
    struct sim_disk *disk = submission->disk;
    struct disk_job *job = submission->job;

    if (submission->left > disk->slowness)
        submission->left = disk->slowness; /* it has become faster meanwhile */
    if (submission->worked) {
        free(submission);
        job->done(job);
    } else if (disk->dead) {
        free(submission);
    } else if (--submission->left > 0) {
        submission_schedule(submission, latency_us(disk));
    } else {
        job->work(job);
        submission->worked = true;
        submission_schedule(submission, 1 + sim_random(disk->sim, 50));
    }
}

static void sim_submit(void *context, struct disk_job *job)
{
    struct sim_disk *disk = context;
    struct submission *submission = check_alloc(sizeof(*submission));

    *submission = (struct submission){disk, job, disk->slowness, false};
    submission_schedule(submission, latency_us(disk));
}

void sim_node_disk(struct sim *sim, unsigned node, struct disk_ops *ret_ops)
{
    *ret_ops = (struct disk_ops){
        .context = sim_disk_of(sim, node),
        .make_dir = sim_make_dir,
        .list_dir = sim_list_dir,
        .sync_dir = sim_sync_dir,
        .rename = sim_rename,
        .unlink = sim_unlink,
        .lock = sim_lock,
        .unlock = sim_unlock,
        .free_bytes = sim_free_bytes,
        .total_bytes = sim_total_bytes,
        .open = sim_open,
        .close = sim_close,
        .size = sim_size,
        .read = sim_read,
        .write = sim_write,
        .allocate = sim_allocate,
        .write_zeros = sim_write_zeros,
        .truncate = sim_truncate,
        .write_sync = sim_write_sync,
        .sync = sim_sync,
        .submit = sim_submit,
    };
}

struct sim_disk *sim_disk_new(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = check_calloc(1, sizeof(*disk));

    disk->sim = sim;
    disk->node = node;
    disk->slowness = 1;
    disk->free_bytes = UINT64_C(1) << 40;
    return disk;
}

void sim_disk_free(struct sim_disk *disk)
{
    while (disk->inodes != NULL) {
        struct inode *inode = disk->inodes;
        disk->inodes = inode->next;
        disk_inode_free(inode);
    }
    free(disk->changes);
    disk_kept_forget(disk);
    free(disk);
}
