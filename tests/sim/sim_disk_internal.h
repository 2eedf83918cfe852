/* Shared by sim_disk.c and sim_disk_faults.c: what a memory disk consists of. See sim.h. */
#ifndef CKPT_TESTS_SIM_SIM_DISK_INTERNAL_H
#define CKPT_TESTS_SIM_SIM_DISK_INTERNAL_H

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
    struct range *lost; /* seen, clean, and not on the platter; or on it again since */
    size_t lost_count;
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
    bool filling; /* what needs room takes it, and gets none when it is used up */
    bool fills_unseen, fills_writes; /* free_bytes looks fine; also what overwrites needs room */
    uint64_t room;                   /* while filling */
    uint64_t reads_left, syncs_left; /* 0: none fails */
    bool cache_stays;                /* the next crash is the process's alone */
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

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct entry *disk_entry_find(struct directory *directory, const char *name);
void disk_entry_set(struct directory *directory, const char *name, struct inode *inode);
bool disk_inode_named(const struct directory *directory, const struct inode *inode);
/* Room for what is written below size. */
void disk_inode_reserve(struct inode *inode, uint64_t size);
/* Zeros from `begin` on, as far as there may be anything else. */
void disk_zero_from(const struct inode *inode, uint8_t *bytes, uint64_t begin, uint64_t end);
/* One form takes over what the other has there. */
void disk_range_copy(const struct inode *inode, uint8_t *to, const uint8_t *from,
                     struct range range);
void disk_inode_free(struct inode *inode);
/* Those without a name, on the platter neither, that nobody has open. */
void disk_inodes_collect(struct sim_disk *disk);
void disk_kept_forget(struct sim_disk *disk);

#endif
