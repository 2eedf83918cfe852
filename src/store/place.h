/* From (prefix, path) to an open folder, component by component below the prefix.
 *
 * Errors   ERR_UNAVAILABLE when the prefix is missing, ERR_REFUSED when the path is not below it or passes a
 *          symbolic link.
 */
#ifndef CKPT_STORE_PLACE_H
#define CKPT_STORE_PLACE_H

#include "src/store/manifest.h"
#include "src/store/posix.h"

int place_open_prefix(const char *prefix, struct err *err);
/* `path` without the prefix; every component valid, at least one. */
int place_relative(const char *prefix, const char *path, char ret_relative[MANIFEST_PATH_MAX_BYTES],
                   struct err *err);
/* The checkpoint's folder. */
int place_open(const struct posix_place *place, struct err *err);
/* The same, created with its parents where missing. */
int place_create(const struct posix_place *place, struct err *err);
int place_check_node(const char *node, struct err *err);

#endif
