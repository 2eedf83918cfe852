/* What befalls a memory disk: crashes, failing operations, rot, loss; and direct access to its
 * files. See sim.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/sim_disk_internal.h"

/* ---- crash ---- */

static void range_survive(struct sim *sim, struct inode *inode, struct range range)
{
    uint64_t kind = sim_random(sim, 3), end = range.offset + range.length;

    for (uint64_t at = range.offset; kind != 0 && at < end;) {
        uint64_t next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        if (next > end)
            next = end;
        if (kind == 1 || sim_random(sim, 2) == 0)
            disk_range_copy(inode, inode->durable, inode->content, (struct range){at, next - at});
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
        disk_range_copy(inode, inode->content, inode->durable, inode->dirty[i]);
    for (size_t i = 0; i < inode->lost_count; i++)
        disk_range_copy(inode, inode->content, inode->durable, inode->lost[i]);
    inode->dirty_count = inode->lost_count = 0;
    disk_zero_from(inode, inode->content, inode->size, used);
    disk_zero_from(inode, inode->durable, inode->size, used);
}

static void process_end(struct sim_disk *disk)
{
    disk->dead = false;
    disk->operations_left = 0;
    disk->failure_left = 0;
    disk->reads_left = 0;
    disk->syncs_left = 0;
    disk->cache_stays = false;
    disk->locked = false;
}

/* What was written is seen by the next process, whether it is on the platter or not. */
static void cache_survive(struct sim_disk *disk)
{
    for (struct inode *inode = disk->inodes; inode != NULL; inode = inode->next)
        inode->open_count = 0;
    process_end(disk);
}

void sim_disk_crash(struct sim_disk *disk)
{
    struct inode **at = &disk->inodes;
    size_t survive;

    if (disk->cache_stays) {
        cache_survive(disk);
        return;
    }
    survive = sim_random(disk->sim, disk->change_count + 1);
    for (size_t i = 0; i < survive; i++)
        disk_entry_set(&disk->durable, disk->changes[i].name, disk->changes[i].inode);
    disk->change_count = 0;
    disk->seen = disk->durable;
    while (*at != NULL) {
        struct inode *inode = *at;
        if (disk_inode_named(&disk->seen, inode)) {
            inode_crash(disk->sim, inode);
            inode->open_count = 0;
            at = &inode->next;
        } else {
            *at = inode->next;
            disk_inode_free(inode);
        }
    }
    process_end(disk);
}

void sim_disk_cache_stays(struct sim *sim, unsigned node)
{
    sim_disk_of(sim, node)->cache_stays = true;
}

void sim_disk_die_after(struct sim *sim, unsigned node, uint64_t operations)
{
    sim_disk_of(sim, node)->operations_left = operations;
}

void sim_disk_fail_after(struct sim *sim, unsigned node, uint64_t operations)
{
    sim_disk_of(sim, node)->failure_left = operations;
}

void sim_disk_fail_read_after(struct sim *sim, unsigned node, uint64_t reads)
{
    sim_disk_of(sim, node)->reads_left = reads;
}

void sim_disk_fail_sync_after(struct sim *sim, unsigned node, uint64_t syncs)
{
    sim_disk_of(sim, node)->syncs_left = syncs;
}

void sim_disk_fill(struct sim *sim, unsigned node, uint64_t room, bool unseen, bool writes)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk->filling = true;
    disk->room = room;
    disk->fills_unseen = unseen;
    disk->fills_writes = writes;
}

uint64_t sim_disk_bytes(struct sim *sim, unsigned node)
{
    const struct directory *seen = &sim_disk_of(sim, node)->seen;
    uint64_t bytes = 0;

    for (size_t i = 0; i < seen->count; i++)
        bytes += seen->entries[i].inode->size;
    return bytes;
}

bool sim_disk_shrink(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk->room /= 2;
    return disk->filling;
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
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk->free_bytes = bytes;
    disk->filling = disk->fills_unseen = disk->fills_writes = false;
}

uint8_t *sim_file(struct sim *sim, unsigned node, const char *name, size_t *ret_length)
{
    struct entry *entry = disk_entry_find(&sim_disk_of(sim, node)->seen, name);

    if (entry == NULL)
        return NULL;
    disk_inode_reserve(entry->inode, entry->inode->size);
    *ret_length = entry->inode->size;
    return entry->inode->content;
}

void sim_file_rot(struct sim *sim, unsigned node, const char *name, uint64_t offset, unsigned bit)
{
    struct entry *entry = disk_entry_find(&sim_disk_of(sim, node)->seen, name);

    CHECK(entry != NULL && offset < entry->inode->size);
    disk_inode_reserve(entry->inode, offset + 1);
    entry->inode->content[offset] ^= (uint8_t)(1u << bit);
    entry->inode->durable[offset] ^= (uint8_t)(1u << bit);
}

void sim_disk_wipe(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk->seen.count = 0;
    disk->durable.count = 0;
    disk->change_count = 0;
    disk_inodes_collect(disk);
}

void disk_kept_forget(struct sim_disk *disk)
{
    while (disk->kept_count > 0)
        free(disk->kept[--disk->kept_count].bytes);
    free(disk->kept);
    disk->kept = NULL;
}

void sim_disk_keep(struct sim *sim, unsigned node)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    disk_kept_forget(disk);
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
        disk_inode_reserve(inode, disk->kept[i].size);
        if (disk->kept[i].size > 0) {
            memcpy(inode->content, disk->kept[i].bytes, disk->kept[i].size);
            memcpy(inode->durable, disk->kept[i].bytes, disk->kept[i].size);
        }
        inode->size = inode->durable_size = disk->kept[i].size;
        disk_entry_set(&disk->seen, disk->kept[i].name, inode);
        disk_entry_set(&disk->durable, disk->kept[i].name, inode);
    }
    return true;
}

void sim_file_lose(struct sim *sim, unsigned node, const char *name)
{
    struct sim_disk *disk = sim_disk_of(sim, node);

    for (size_t i = 0; i < disk->change_count; i++) /* it was there before all that */
        disk_entry_set(&disk->durable, disk->changes[i].name, disk->changes[i].inode);
    disk->change_count = 0;
    disk_entry_set(&disk->seen, name, NULL);
    disk_entry_set(&disk->durable, name, NULL);
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
