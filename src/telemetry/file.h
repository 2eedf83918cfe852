/* Small files that an operator writes: maps of names, credentials.
 *
 * Errors   ERR_NOT_FOUND, ERR_IO, ERR_FULL (longer than max_bytes), ERR_REFUSED (FILE_SECRET:
 *          others may read it).
 */
#ifndef CKPT_TELEMETRY_FILE_H
#define CKPT_TELEMETRY_FILE_H

#include "src/base/buf.h"
#include "src/base/err.h"

enum file_kind { FILE_ANY, FILE_SECRET };

int file_read(const char *path, size_t max_bytes, enum file_kind kind, struct buf *ret_text,
              struct err *err);

#endif
