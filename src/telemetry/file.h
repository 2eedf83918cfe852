/* Small files that an operator writes: maps of names, credentials.
 *
 * Shapes   read at once, in the caller's turn of the loop: they are expected on a local file
 *          system.
 * Errors   ERR_NOT_FOUND, ERR_IO, ERR_FULL (longer than max_bytes), ERR_REFUSED (FILE_SECRET:
 *          others may read it).
 */
#ifndef CKPT_TELEMETRY_FILE_H
#define CKPT_TELEMETRY_FILE_H

#include "src/base/buf.h"
#include "src/base/err.h"

/* Of a secret the group and others may have no rights, or it is not read. */
enum file_kind { FILE_ANY, FILE_SECRET };

/* 0 and the text without a terminator, which the caller closes; or -1, and nothing is to be closed.
 * A pipe or a device is ERR_INVALID. */
int file_read(const char *path, size_t max_bytes, enum file_kind kind, struct buf *ret_text,
              struct err *err);

#endif
