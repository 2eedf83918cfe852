/* Memory disks with what a power cut leaves behind. See sim.h.
 *
 * Shapes   a file has what the process sees (content) and what the platter holds (durable), both kept as far as anything was ever
 *          written; behind that are zeros. Writes mark ranges dirty; sync copies them. A crash lets each dirty range through whole, not at all, or sector by sector, and a prefix of the directory
 *          changes since the last sync of the folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/consensus.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "tests/sim/sim.h"

enum { SECTOR_BYTES = 512, NAMES_MAX = 256, NAME_BYTES = 64, INODE_MIN_BYTES = 4096 };

struct range {
    uint64_t offset, length;
};

struct inode {
    uint8_t *content, *durable;
    uint64_t size, durable_size;
    uint64_t capacity; /* of both; may be less than the sizes */
    struct range *dirty;
    size_t dirty_count;
    unsigned open_count;
    struct inode *next; /* all of the disk */
};

struct entry {
    char name[NAME_BYTES];
    struct inode *inode;
};

struct directory {
    struct entry entries[NAMES_MAX];
    size_t count;
};

struct change { /* inode NULL: unlink */
    char name[NAME_BYTES];
    struct inode *inode;
};

/* A copy of the platter: contents by name. */
struct kept_file {
    char name[NAME_BYTES];
    uint8_t *bytes;
    uint64_t size;
};

struct sim_disk {
    struct sim *sim;
    unsigned node;
    struct inode *inodes;
    struct directory seen, durable;
    struct change *changes;
    size_t change_count;
    uint64_t operations_left; /* 0: never dies */
    uint64_t failure_left;    /* 0: none comes */
    unsigned slowness;
    bool dead;
    bool locked;
    uint64_t free_bytes;
    struct kept_file *kept;
    size_t kept_count;
};

struct disk_file {
    struct sim_disk *disk;
    struct inode *inode;
};

struct disk_lock {
    struct sim_disk *disk;
};

/* ---- helpers ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static struct entry *entry_find(struct directory *directory, const char *name)
{
    for (size_t i = 0; i < directory->count; i++)
        if (strcmp(directory->entries[i].name, name) == 0)
            return &directory->entries[i];
    return NULL;
}

static void entry_set(struct directory *directory, const char *name, struct inode *inode)
{
    struct entry *entry = entry_find(directory, name);

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

    entry_set(&disk->seen, name, inode);
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

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint8_t *grown(uint8_t *bytes, uint64_t size, uint64_t capacity)
{
    bytes = check_realloc(bytes, capacity, 1);
    memset(bytes + size, 0, capacity - size);
    return bytes;
}

/* Room for what is written below size. */
static void inode_reserve(struct inode *inode, uint64_t size)
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
static void zero_from(const struct inode *inode, uint8_t *bytes, uint64_t begin, uint64_t end)
{
    end = least(end, inode->capacity);
    if (begin < end)
        memset(bytes + begin, 0, end - begin);
}

/* One form takes over what the other has there. */
static void range_copy(const struct inode *inode, uint8_t *to, const uint8_t *from,
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

    (void)path;
    if (disk->dead)
        return err_set(err, ERR_IO, "dead");
    copy = check_calloc(count + 1, sizeof(*copy));
    memcpy(copy, disk->seen.entries, count * sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        visit(data, copy[i].name);
    free(copy);
    return 0;
}

static bool inode_named(const struct directory *directory, const struct inode *inode)
{
    for (size_t i = 0; i < directory->count; i++)
        if (directory->entries[i].inode == inode)
            return true;
    return false;
}

static void inode_free(struct inode *inode)
{
    free(inode->content);
    free(inode->durable);
    free(inode->dirty);
    free(inode);
}

/* Those without a name, on the platter neither, that nobody has open. */
static void inodes_collect(struct sim_disk *disk)
{
    struct inode **at = &disk->inodes;

    while (*at != NULL) {
        struct inode *inode = *at;
        if (inode->open_count > 0 || inode_named(&disk->seen, inode) ||
            inode_named(&disk->durable, inode)) {
            at = &inode->next;
        } else {
            *at = inode->next;
            inode_free(inode);
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
        entry_set(&disk->durable, disk->changes[i].name, disk->changes[i].inode);
    disk->change_count = 0;
    inodes_collect(disk);
    return 0;
}

static int sim_rename(void *context, const char *from, const char *to, struct err *err)
{
    struct sim_disk *disk = context;
    struct entry *entry = entry_find(&disk->seen, base_name(from));
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

    if (spend(disk, err))
        return -1;
    if (entry_find(&disk->seen, base_name(path)) == NULL)
        return err_set(err, ERR_NOT_FOUND, "unlink %s: no such file", path);
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
    (void)path;
    return ((struct sim_disk *)context)->free_bytes;
}

static int sim_open(void *context, const char *path, enum disk_open_mode mode,
                    struct disk_file **ret_file, struct err *err)
{
    struct sim_disk *disk = context;
    struct entry *entry = entry_find(&disk->seen, base_name(path));
    struct inode *inode = entry == NULL ? NULL : entry->inode;
    struct disk_file *file;

    if (mode == DISK_OPEN_CREATE ? spend(disk, err) : disk->dead)
        return err_set(err, ERR_IO, "dead");
    if (mode == DISK_OPEN_CREATE) {
        /* A new inode also when the file exists: its old content may survive a crash under the name. */
        inode = check_calloc(1, sizeof(*inode));
        inode->next = disk->inodes;
        disk->inodes = inode;
        directory_change(disk, base_name(path), inode);
    }
    if (inode == NULL)
        return err_set(err, ERR_NOT_FOUND, "open %s: no such file", path);
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
    bool was_dead = file->disk->dead, died;

    if (was_dead)
        return err_set(err, ERR_IO, "dead");
    died = spend(file->disk, err);
    if (died && !file->disk->dead)
        return -1;
    if (length == 0)
        return died ? -1 : 0;
    inode_reserve(inode, offset + length);
    memcpy(inode->content + offset, bytes, length);
    if (offset + length > inode->size)
        inode->size = offset + length;
    inode_dirty(inode, offset, length);
    return died ? -1 : 0;
}

static int sim_allocate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    struct inode *inode = file->inode;
    uint64_t more = bytes > inode->size ? bytes - inode->size : 0;

    if (spend(file->disk, err))
        return -1;
    if (more > file->disk->free_bytes)
        return err_set(err, ERR_FULL, "simulated disk of node %u is full", file->disk->node);
    if (bytes > inode->size)
        inode->size = bytes;
    return 0;
}

static int sim_truncate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    struct inode *inode = file->inode;

    if (spend(file->disk, err))
        return -1;
    if (bytes < inode->size) {
        zero_from(inode, inode->content, bytes, inode->size);
        inode_dirty(inode, bytes, inode->size - bytes);
    }
    inode->size = bytes;
    return 0;
}

static int sim_sync(struct disk_file *file, struct err *err)
{
    struct inode *inode = file->inode;

    if (spend(file->disk, err))
        return -1;
    for (size_t i = 0; i < inode->dirty_count; i++)
        range_copy(inode, inode->durable, inode->content, inode->dirty[i]);
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

    if (sim_write(file, offset, bytes, length, err) != 0 || spend(file->disk, err))
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

/* The work is done at one moment, the loop hears of it at a later one: a crash may come in between. */
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
        .open = sim_open,
        .close = sim_close,
        .size = sim_size,
        .read = sim_read,
        .write = sim_write,
        .allocate = sim_allocate,
        .truncate = sim_truncate,
        .write_sync = sim_write_sync,
        .sync = sim_sync,
        .submit = sim_submit,
    };
}

/* ---- crash ---- */

static void range_survive(struct sim *sim, struct inode *inode, struct range range)
{
    uint64_t kind = sim_random(sim, 3), end = range.offset + range.length;

    for (uint64_t at = range.offset; kind != 0 && at < end;) {
        uint64_t next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        if (next > end)
            next = end;
        if (kind == 1 || sim_random(sim, 2) == 0)
            range_copy(inode, inode->durable, inode->content, (struct range){at, next - at});
        at = next;
    }
}

static void inode_crash(struct sim *sim, struct inode *inode)
{
    uint64_t used;

    for (size_t i = 0; i < inode->dirty_count; i++)
        range_survive(sim, inode, inode->dirty[i]);
    if (inode->size != inode->durable_size && sim_random(sim, 2) == 0)
        inode->durable_size = inode->size;
    used = inode->size > inode->durable_size ? inode->size : inode->durable_size;
    inode->size = inode->durable_size;
    for (size_t i = 0; i < inode->dirty_count; i++)
        range_copy(inode, inode->content, inode->durable, inode->dirty[i]);
    inode->dirty_count = 0;
    zero_from(inode, inode->content, inode->size, used);
    zero_from(inode, inode->durable, inode->size, used);
}

void sim_disk_crash(struct sim_disk *disk)
{
    size_t survive = sim_random(disk->sim, disk->change_count + 1);
    struct inode **at = &disk->inodes;

    for (size_t i = 0; i < survive; i++)
        entry_set(&disk->durable, disk->changes[i].name, disk->changes[i].inode);
    disk->change_count = 0;
    disk->seen = disk->durable;
    while (*at != NULL) {
        struct inode *inode = *at;
        if (inode_named(&disk->seen, inode)) {
            inode_crash(disk->sim, inode);
            inode->open_count = 0;
            at = &inode->next;
        } else {
            *at = inode->next;
            inode_free(inode);
        }
    }
    disk->dead = false;
    disk->operations_left = 0;
    disk->failure_left = 0;
    disk->locked = false;
}

void sim_disk_die_after(struct sim *sim, unsigned node, uint64_t operations)
{
    sim_disk_of(sim, node)->operations_left = operations;
}

void sim_disk_fail_after(struct sim *sim, unsigned node, uint64_t operations)
{
    sim_disk_of(sim, node)->failure_left = operations;
}

void sim_disk_set_slowness(struct sim *sim, unsigned node, unsigned slowness)
{
    sim_disk_of(sim, node)->slowness = slowness;
}

bool sim_disk_dead(const struct sim *sim, unsigned node)
{
    return sim_disk_of((struct sim *)(uintptr_t)sim, node)->dead;
}

void sim_disk_set_free(struct sim *sim, unsigned node, uint64_t bytes)
{
    sim_disk_of(sim, node)->free_bytes = bytes;
}

uint8_t *sim_file(struct sim *sim, unsigned node, const char *name, size_t *ret_length)
{
    struct entry *entry = entry_find(&sim_disk_of(sim, node)->seen, name);

    if (entry == NULL)
        return NULL;
    inode_reserve(entry->inode, entry->inode->size);
    *ret_length = entry->inode->size;
    return entry->inode->content;
}

void sim_file_rot(struct sim *sim, unsigned node, const char *name, uint64_t offset, unsigned bit)
{
    struct entry *entry = entry_find(&sim_disk_of(sim, node)->seen, name);

    CHECK(entry != NULL && offset < entry->inode->size);
    inode_reserve(entry->inode, offset + 1);
    entry->inode->content[offset] ^= (uint8_t)(1u << bit);
    entry->inode->durable[offset] ^= (uint8_t)(1u << bit);
}

void sim_disk_wipe(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk->seen.count = 0;
    disk->durable.count = 0;
    disk->change_count = 0;
    inodes_collect(disk);
}

static void kept_forget(struct sim_disk *disk)
{
    while (disk->kept_count > 0)
        free(disk->kept[--disk->kept_count].bytes);
    free(disk->kept);
    disk->kept = NULL;
}

void sim_disk_keep(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    kept_forget(disk);
    disk->kept = check_calloc(disk->durable.count + 1, sizeof(*disk->kept));
    for (size_t i = 0; i < disk->durable.count; i++) {
        const struct entry *entry = &disk->durable.entries[i];
        struct kept_file *kept = &disk->kept[disk->kept_count++];
        snprintf(kept->name, sizeof(kept->name), "%s", entry->name);
        kept->size = entry->inode->durable_size;
        kept->bytes = check_calloc(kept->size + 1, 1);
        if (entry->inode->capacity > 0)
            memcpy(kept->bytes, entry->inode->durable, least(kept->size, entry->inode->capacity));
    }
}

bool sim_disk_put_back(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    if (disk->kept_count == 0)
        return false;
    sim_disk_wipe(sim, node);
    for (size_t i = 0; i < disk->kept_count; i++) {
        struct inode *inode = check_calloc(1, sizeof(*inode));
        inode->next = disk->inodes;
        disk->inodes = inode;
        inode_reserve(inode, disk->kept[i].size);
        if (disk->kept[i].size > 0) {
            memcpy(inode->content, disk->kept[i].bytes, disk->kept[i].size);
            memcpy(inode->durable, disk->kept[i].bytes, disk->kept[i].size);
        }
        inode->size = inode->durable_size = disk->kept[i].size;
        entry_set(&disk->seen, disk->kept[i].name, inode);
        entry_set(&disk->durable, disk->kept[i].name, inode);
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void sim_wipe(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk->durable.count = disk->seen.count = disk->change_count = 0;
}

const char *sim_file_name(struct sim *sim, unsigned node, const char *prefix, unsigned i)
{
    struct directory *seen = &sim_disk_of(sim, node)->seen;
    const char *found[NAMES_MAX];
    size_t count = 0;

    for (size_t j = 0; j < seen->count; j++)
        if (strncmp(seen->entries[j].name, prefix, strlen(prefix)) == 0)
            found[count++] = seen->entries[j].name;
    qsort(found, count, sizeof(found[0]), compare_names);
    return i < count ? found[i] : NULL;
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
        inode_free(inode);
    }
    free(disk->changes);
    kept_forget(disk);
    free(disk);
}
