/* errno as one line that names the operation, the path, the system's text and the next step.
 *
 * Errors   ENOSPC: ERR_FULL. EDQUOT: ERR_QUOTA. EACCES, EPERM: ERR_AUTH. ENOENT: ERR_NOT_FOUND.
 *          ELOOP, and ENOTDIR where a folder was
 *          wanted: ERR_REFUSED. Everything else: ERR_IO.
 */
#ifndef CKPT_DEST_FAULT_H
#define CKPT_DEST_FAULT_H

#include "src/base/err.h"

/* Reads errno, so it comes directly after the call that failed; returns -1 for `return
 * fault_set(...)`. operation: "write", "open" ...; path: as people know it, since descriptors say
 * nothing. err may be NULL. */
int fault_set(struct err *err, const char *operation, const char *path);

#endif
