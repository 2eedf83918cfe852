/* From (prefix, path) to an open folder, component by component below the prefix.
 *
 * Flow     place_claim() as root makes the folders down to the allocation's and gives that to the
 *          job's user; place_create() as that user makes the rest, down to the checkpoint's, or to
 *          that of all of the job's, as the place says. Where the agent is not root, place_create()
 *          makes all of them.
 * Shapes   folders above the allocation's belong to root, to the prefix' owner or to this process'
 *          user, and nobody else may write into them (or they are sticky): who may could exchange
 *          what is below. Those from the allocation's on belong to the job's user: 0700, or 02770
 *          in the prefix' group when the prefix has the set-group-id bit, so that members of that
 *          group can remove them; files are 0600 in any case.
 * Errors   ERR_UNAVAILABLE when the prefix is missing; ERR_REFUSED when the path is not below it,
 *          passes a symbolic link or a folder that is not as above; ERR_AUTH when the kernel or the
 *          server does not let this user make a folder there.
 */
#ifndef CKPT_DEST_PLACE_H
#define CKPT_DEST_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "src/dest/manifest.h"
#include "src/dest/posix/posix.h"

/* A job's folders lie in its allocation's, in one of this name. */
#define PLACE_CHECKPOINTS "checkpoints"

/* The functions below return an open folder, which the caller closes, or -1 with err. */

/* The prefix itself, which is never created. */
int place_open_prefix(const char *prefix, struct err *err);
/* `path` without the prefix; every component valid, at least one. Compares texts, opens nothing: 0,
 * or -1 with ERR_REFUSED. */
int place_relative(const char *prefix, const char *path, char ret_relative[MANIFEST_PATH_MAX_BYTES],
                   struct err *err);
/* The checkpoint's folder, as it is; ERR_NOT_FOUND when there is none. */
int place_open(const struct destination_place *place, struct err *err);
/* Of a checkpoint that was written once: there is nothing below the prefix on the way to it, not
 * even the tenant's folder, as in the empty folder where its file system is to be mounted. */
bool place_is_bare(const struct destination_place *place);
/* Leaves place->mark in the checkpoint's folder, which is its caller's to make durable. One that is
 * there already is fine, and a place without a mark has nothing to leave. 0, or -1 with err:
 * ERR_MISMATCH when the folder has another cluster's. */
int place_mark(int checkpoint, const struct destination_place *place, struct err *err);
/* The last part of that alone: whether the folder has another cluster's mark. */
int place_check_mark(int checkpoint, const struct destination_place *place, struct err *err);
/* A target's note, of whoever may be trusted there; one that is not there is all zeros. ERR_IO and
 * others: it cannot be read. */
int place_read_note(int prefix, const char *mark, struct mark_note *ret_note, struct err *err);
/* place_open(), created with its parents where missing, each synced into the one above. A collect
 * of a neighbour may remove an empty parent meanwhile: it is tried three times. */
int place_create(const struct destination_place *place, struct err *err);
/* Folders on the way to a checkpoint that hold what was there already: it may be that nobody has
 * made it durable yet. Zeros: none. */
enum { PLACE_PENDING_MAX = MANIFEST_DEPTH_MAX };
struct place_pending {
    size_t count;
    int folders[PLACE_PENDING_MAX]; /* open */
};
/* place_create(), but that ret_pending takes these; what it makes itself is durable, and so is the
 * checkpoint's own folder. Whoever finds a finished shard in a checkpoint beside it need not
 * settle them: its writer has. ret_pending is to be forgotten in any case. */
int place_create_pending(const struct destination_place *place, struct place_pending *ret_pending,
                         struct err *err);
/* Makes them durable. */
int place_settle(struct place_pending *pending, struct err *err);
/* NULL allowed. */
void place_forget(struct place_pending *pending);
/* Makes the folders down to the allocation's, gives that one to the owner, and gives folders that
 * were made before the prefix had its set-group-id bit to its group. 0 or -1: nothing is left open.
 * ERR_REFUSED when the allocation's folder is somebody else's and not empty: two jobs of different
 * users have one name. */
int place_claim(const struct destination_place *place, uid_t owner, struct err *err);
/* Whether place_claim() has nothing to do: the allocation's folder is there, and has the group of a
 * prefix that has its set-group-id bit. */
bool place_is_claimed(const struct destination_place *place);
/* Whether the name of a part can be that of a folder here: ERR_INVALID otherwise. */
int place_check_part(const char *part, struct err *err);

#endif
