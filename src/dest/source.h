/* The folder that put reads: the application's, which may not have been done with it.
 *
 * Flow     source_open() lists it and waits until a further change would be seen; each file is
 *          opened by source_open_file() and, when it was read, looked at by source_check_file();
 *          source_check() looks at all of it once more at the end. So what is published is of one
 *          moment.
 * Errors   ERR_EMPTY     it holds no bytes
 *          ERR_CORRUPT   something was written, came or went since it was listed
 *          ERR_UNFIT     it holds what a checkpoint does not carry, or its own user may not read
 */
#ifndef CKPT_DEST_SOURCE_H
#define CKPT_DEST_SOURCE_H

#include "src/dest/manifest.h"

/* The open folder, or -1. The caller closes both; the manifest has sizes, modes and stamps. */
int source_open(const char *source, struct manifest *ret_manifest, struct err *err);
/* The same of a folder that is open already. 0, or -1. */
int source_list(int fd, const char *source, struct manifest *ret_manifest, struct err *err);
/* An open file, or -1. label: how errors name the source. */
int source_open_file(int source, const char *label, const struct manifest_entry *entry,
                     struct err *err);
/* Is it still the file that was listed? */
int source_check_file(int fd, const struct manifest_entry *entry, struct err *err);
/* The whole folder is listed again: ERR_CORRUPT names the first file that came, went away or was
 * written since `listed`. Called when the last byte was read. */
int source_check(int source, const char *label, const struct manifest *listed, struct err *err);
/* The same of one that has become a shard, with its MANIFEST. */
int source_check_shard(int shard, const char *label, const struct manifest *listed,
                       struct err *err);

#endif
