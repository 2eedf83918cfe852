/* The kind posix: checkpoints on a mounted file system (NFS, VAST, Lustre, local). Every call here
 * may block for ever and belongs into a ckpt-worker process, never into a daemon.
 *
 * Flow     prepare  make {allocation}/checkpoints; write, rename and remove a file in it.
 *          put      list the source; copy and hash into {path}/.{part}.tmp.{random}/ by several
 *                   threads (transfer.h), files durable; list the source again; read back what the
 *                   policy asks for; write MANIFEST; folders durable bottom-up; rename to
 *                   {path}/{part}; fsync {path}. A shard that has its name is complete.
 *          stage    {path}/.{part}.tmp.{inode}/ for an application that writes there itself;
 *                   publish  hash it where it lies, durable, read back, MANIFEST, rename, and list
 *                   it once more: what was written meanwhile is found.
 *          verify   MANIFEST against its own hash, the folder's listing against MANIFEST, every
 *                   file against its hash.
 *          restore  the same checks while copying into a temporary folder beside the target, then
 *                   rename.
 *          collect  rename the checkpoint's folder away, remove it, then its parents that became
 *                   empty.
 *          scan     walk down to the checkpoints' folders, and tell those that have the mark.
 * Shapes   {prefix}/{tenant}/{project}/{allocation}/checkpoints/{checkpoint}/{part}/ with MANIFEST
 *          inside. Whose the folders are: place.h. What the functions take and promise:
 *          destination.h.
 * Absent   resuming a half-copied shard (a retry copies again: after a failed fsync nothing old
 *          may be trusted).
 */
#ifndef CKPT_DEST_POSIX_H
#define CKPT_DEST_POSIX_H

#include "src/dest/destination.h"

extern const struct destination_ops destination_posix;

/* The row's functions; destination.h says what each promises. */
int posix_put(const struct destination_place *place, const char *source,
              const struct destination_how *how, struct destination_summary *ret_summary,
              struct err *err);
int posix_stage(const struct destination_place *place, char ret_name[DESTINATION_NAME_BYTES],
                struct err *err);
int posix_publish(const struct destination_place *place, const char *name,
                  const struct destination_how *how, struct destination_summary *ret_summary,
                  struct err *err);
int posix_verify(const struct destination_place *place, const struct destination_how *how,
                 struct destination_summary *ret_summary, struct err *err);
int posix_restore(const struct destination_place *place, const char *to,
                  const struct destination_how *how, struct destination_summary *ret_summary,
                  struct err *err);
int posix_abandon(const struct destination_place *place, struct err *err);
int posix_collect(const struct destination_place *place, struct destination_removed *ret_removed,
                  struct err *err);
int posix_owner(const char *prefix, const char *path, uid_t *ret_uid, struct err *err);
void posix_tidy(const char *prefix, const char *path);
int posix_probe(const char *prefix, struct err *err);
int posix_check(const struct destination_check *check, struct err *err);
int posix_hold(const struct destination_hold *hold, struct err *err);
int posix_prepare(const struct destination_place *place, struct err *err);
int posix_scan(const struct destination_scan *scan, const struct destination_sink *sink,
               struct destination_scanned *ret_scanned, struct err *err);

#endif
