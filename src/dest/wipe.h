/* Overwrites what a file holds before its name goes: what a sensitive job wrote.
 *
 * Shapes   only where the bytes that are written take the place of those that were: not on file
 *          systems that copy on write (btrfs, ZFS, bcachefs), where nothing is overwritten; nor of
 *          a file with another name, whose bytes are somebody's still: its last name wipes it.
 * Errors   a file that cannot be overwritten is not to be removed: who looks for it finds it.
 */
#ifndef CKPT_DEST_WIPE_H
#define CKPT_DEST_WIPE_H

#include <stdbool.h>

#include "src/base/err.h"

/* Overwrites all data of parent/name, and makes that durable. *ret_wiped false: nothing was to be
 * overwritten, or it cannot be there. Links are not followed, what is no file is left alone. */
int wipe_file(int parent, const char *name, bool *ret_wiped, struct err *err);

#endif
