/* The part's shard in the checkpoint before, of the same allocation: what has not changed since is
 * taken over from there and not written again.
 *
 * Flow     put opens it when there is one. A file whose bytes are the same is given a second name
 *          (a hard link); a chunk that is the same in a file that is not is shared by the file
 *          system (a reflink), or copied by its server (NFS 4.2), where that can be had.
 * Shapes   each shard stays whole in itself: removing one takes nothing from the others, since a
 *          file goes with its last name. But bytes that several shards share are lost together when
 *          storage damages them, so `generation` in the manifest counts how often a file was taken
 *          over, and at a limit it is written anew. A file that was written after its MANIFEST is
 *          not what that says, and is not taken over; damage that changes no time is for reading
 *          back to find.
 * Errors   none: what cannot be taken over is written.
 */
#ifndef CKPT_DEST_EARLIER_H
#define CKPT_DEST_EARLIER_H

#include <stdbool.h>
#include <time.h>

#include "src/dest/copy.h"
#include "src/dest/manifest.h"
#include "src/dest/posix/neighbours.h"

struct earlier {
    int folder; /* of the shard; -1: there is none, or nothing may be taken over */
    bool found; /* there is one: whoever wrote it has made all folders above it durable */
    struct timespec finished_at; /* when its MANIFEST was written, the last of its files */
    struct manifest manifest;
    unsigned generations_max; /* files that were taken over so often are written again */
};

/* The neighbours of the checkpoint in which the part is to be written. Always to be closed. */
void earlier_open(struct earlier *earlier, const struct neighbours *neighbours, const char *part,
                  unsigned generations_max);
void earlier_close(struct earlier *earlier);
/* The file of this name there, when it may be taken over; else NULL. */
const struct manifest_entry *earlier_find(const struct earlier *earlier,
                                          const struct manifest_entry *entry);
/* Gives the file the same name below `to`. -1: write it. */
int earlier_link(const struct earlier *earlier, const struct manifest_entry *file, int to);
/* The open file there; -1: there is none. The caller closes it. */
int earlier_open_file(const struct earlier *earlier, const struct manifest_entry *file);
/* The same range of two files, without its bytes passing through here. -1: write it. */
int earlier_clone(int from, int to, struct copy_range range);

#endif
