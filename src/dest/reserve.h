/* The folder in a node's memory into which an application writes a checkpoint, before it is copied
 * to its destination.
 *
 * Flow     reserve_claim() as root: the user's folder in the memory's; reserve_folder() as the
 *          user: what is left of an attempt before goes, is there room then?, and an empty folder
 *          {home}/out/{name}.
 * Shapes   {home} is {memory}/{uid}, of mode 0700 and the user's, on a tmpfs, whose folder above
 *          nobody else may write to.
 * Units    bytes.
 * Errors   ERR_FULL: the tmpfs has less free, or its user too much there already; ERR_REFUSED: it
 *          is none, or is not as it must be.
 */
#ifndef CKPT_DEST_RESERVE_H
#define CKPT_DEST_RESERVE_H

#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

/* home: an absolute path. One that is there and that user's is fine. */
int reserve_claim(const char *home, uid_t uid, gid_t gid, struct err *err);
/* name: of one that an attempt before left behind, too, whose files then go. bytes: that it will
 * probably take; 0: not known. most: that this user may have there, these with all that lies in
 * home already; 0: as much as there is. */
int reserve_folder(const char *home, const char *name, uint64_t bytes, uint64_t most,
                   struct err *err);

#endif
