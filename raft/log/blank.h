/* The mark of a member that was begun on an empty folder and is not known to hold what was acknowledged since (S17 in safety.h).
 *
 * Flow     written before the identity by a bootstrap and by a restore; removed, durably, before the vote comes (folder_remove).
 * Shapes   file FOLDER_BLANK_FILE; the origin is the index that the log began with: all members that were begun together have that much.
 * Errors   ERR_CORRUPT with path and offset.
 * Source   empty after a bootstrap, whose log begins with the one entry 1; after a restore, little endian: origin u64, crc32c u32.
 */
#ifndef CKPT_RAFT_BLANK_H
#define CKPT_RAFT_BLANK_H

#include "raft/log/folder.h"

enum { BLANK_ORIGIN_FIRST = 1 }; /* of a bootstrap */

int blank_write(const struct folder *folder, uint64_t origin, struct err *err);
/* 0 when there is no mark. */
int blank_read(const struct folder *folder, uint64_t *ret_origin, struct err *err);

#endif
