/* What scans have found without a record, as the leader keeps it.
 *
 * Shapes   a list owns its texts; at most ORPHANS_MAX entries, what comes then is counted.
 */
#ifndef CKPT_BROKER_ORPHANS_H
#define CKPT_BROKER_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/base/id.h"

enum { ORPHANS_MAX = 10000, ORPHAN_ERROR_BYTES = 512 };

struct orphan {
    uint64_t checkpoint_id;
    uint32_t target_slot;
    uint64_t size_bytes, age_ms;
    char tenant[ID_MAX_BYTES + 1], project[ID_MAX_BYTES + 1], allocation_id[ID_MAX_BYTES + 1];
    char owner[ID_MAX_BYTES + 1]; /* "": not known */
};

struct orphan_list {
    struct orphan *items;
    size_t count, capacity;
    uint64_t left_out; /* came when it was full */
};

/* One scan of a target. */
struct orphan_scan {
    uint64_t ended_at_ms; /* 0: it did not come to its end */
    uint64_t looked, foreign, denied;
    uint64_t left_out;           /* orphans for which there was no place in the list */
    char node[ID_MAX_BYTES + 1]; /* that looked; "": the leader */
    char error[ORPHAN_ERROR_BYTES];
};

/* TENANT/PROJECT/ALLOCATION/checkpoints/CHECKPOINT; false: it is none. The other fields stay. */
bool orphan_of_path(const char *path, struct orphan *orphan);
/* One of the same id at the same target is the same, and they are summed up: a killed removal
 * leaves two folders. */
void orphan_list_add(struct orphan_list *list, const struct orphan *orphan);
/* As commands and answers name it; its texts are the orphan's, and it has no path. */
void orphan_to_message(const struct orphan *orphan, const char *target_id,
                       Ckpt__V1__Orphan *ret_message);
/* One that has gone. */
void orphan_list_drop(struct orphan_list *list, uint64_t checkpoint_id);
void orphan_list_clear(struct orphan_list *list);
/* In the place of what the list has of that target; `found` stays the caller's. Returns how many of
 * that target there are without a place. */
uint64_t orphan_list_replace(struct orphan_list *list, uint32_t target_slot,
                             const struct orphan_list *found);

#endif
