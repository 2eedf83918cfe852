/* A folder of a user's, copied by that user to where a checkpoint of it is asked for.
 *
 * Flow     folder_copy_look() before anything is started: whether a checkpoint can hold it.
 *          folder_copy() when the checkpoint is asked for: folders, files with their holes, links,
 *          modes.
 * Shapes   a folder with a MANIFEST is a shard: each time it is compared with that, and what comes
 *          with it is what its program wrote.
 *          The folder is walked by descriptor (tree.h): no link in it is followed, so nothing
 *          outside is read.
 * Errors   ERR_UNFIT, ERR_REFUSED  it holds what no checkpoint carries, or its user may not read; a
 *                                  shard that is damaged, or has packed files
 *          ERR_EMPTY               no bytes
 *          ERR_CORRUPT             somebody changed it meanwhile
 */
#ifndef CKPT_DEST_FOLDER_COPY_H
#define CKPT_DEST_FOLDER_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

struct folder_sum {
    uint64_t size_bytes;
    size_t file_count;
};

int folder_copy_look(const char *folder, struct folder_sum *ret_sum, struct err *err);
/* to: a folder that is there and empty. */
int folder_copy(const char *folder, const char *to, struct folder_sum *ret_sum, struct err *err);

#endif
