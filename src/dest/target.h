/* The folder that restore makes: it appears at once, with all its files.
 *
 * Flow     target_open() -> target_look() (are the files there already?) -> target_begin() ->
 *          target_create() and target_finish() for each file -> target_publish(). After a failure
 *          target_drop(). Until it is published all lies in a hidden folder beside the target.
 * Errors   ERR_INVALID for what is no target, ERR_REFUSED for one that holds something else,
 *          fault.h's for the rest; target_failed() says of these that they tell nothing of the
 *          checkpoint.
 */
#ifndef CKPT_DEST_TARGET_H
#define CKPT_DEST_TARGET_H

#include "src/dest/manifest.h"
#include "src/dest/tree.h"

/* A name in a folder that is there. */
struct target {
    const char *to;
    char name[MANIFEST_NAME_MAX_BYTES + 1];
    char temporary_name[TREE_TEMPORARY_BYTES];
    int parent;
    int temporary; /* -1 before target_begin() */
};

/* Opens its parent, and removes what a killed restore left beside it. Closed also after a
 * failure. */
/* to: an absolute path whose parent is there; only its last name is made. */
int target_open(struct target *target, const char *to, struct err *err);
void target_close(struct target *target);
/* Paths, kinds and sizes of what lies there: an open folder when they are those of the manifest,
 * whose contents the caller compares and which it closes. */
enum { TARGET_FREE = -2, TARGET_FAILED = -1 };
int target_look(const struct target *target, const struct manifest *manifest, struct err *err);
/* -1, with the error of a target that holds something else. */
int target_taken(const struct target *target, struct err *err);
/* The hidden folder with all its folders. */
int target_begin(struct target *target, const struct manifest *manifest, struct err *err);
/* A file of it, open for writing by copy_write(); or -1. A large one is written past the page cache
 * where that can be: what is restored may be larger than memory, and each page of it would have to
 * be found first. */
int target_create(const struct target *target, const struct manifest_entry *entry, struct err *err);
/* Its mode, and durable. Closes it in any case. */
int target_finish(int fd, const struct manifest_entry *entry, struct err *err);
/* Modes and durability of the folders, bottom-up, then the name. After a success the target is
 * whole, whatever happens to the machine. */
int target_publish(struct target *target, const struct manifest *manifest, struct err *err);
/* Removes the hidden folder with all that was written. What cannot be removed is left to the
 * next restore to the same place. */
void target_drop(struct target *target);
/* -1 with why, where NOT_FOUND is UNAVAILABLE: the shard was there, what is missing is the target,
 * which belongs to the job. Likewise what is FULL or of a QUOTA is NO_ROOM: the target has none. */
int target_failed(const struct err *why, struct err *err);

#endif
