/* Overwrites what a file holds before its name goes: what a sensitive job wrote.
 *
 * Shapes   only where the bytes that are written take the place of those that were: not on file
 *          systems that copy on write (btrfs, ZFS, bcachefs), where none are, which is told
 *          (unwiped); nor of a file with another name, whose bytes are somebody's still: its last
 *          name wipes it, even when two go at a time; but for NFS, where a file that is open keeps
 *          a name. Nor of blocks that another file has as well (reflinks).
 * Errors   a file that cannot be overwritten is not to be removed: who looks for it finds it. But
 *          where a file system has no room for it, or blocks are shared, waiting helps nothing: it
 *          goes, and is told (unwiped).
 */
#ifndef CKPT_DEST_WIPE_H
#define CKPT_DEST_WIPE_H

#include <stdbool.h>

#include "src/base/err.h"

struct wipe_result {
    bool removed; /* it was a file, and its name is gone */
    bool wiped;   /* its bytes were overwritten */
    bool unwiped; /* it went without, or without all of it: see Errors */
};
/* Removes the file parent/name, whose data are overwritten before, durably; what is none, or has
 * gone, is left to the caller. in_folder: it lies in a folder that goes as well, and gets a name
 * there that nobody knows, so that no put links it while it is overwritten. Links are not
 * followed. */
int wipe_file(int parent, const char *name, bool in_folder, struct wipe_result *ret_result,
              struct err *err);

#endif
