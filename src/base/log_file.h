/* A file that takes the log's lines instead of stderr, and is rotated by its size.
 *
 * Flow     log_file_open() names the file; from then on log_event() hands each line to a thread,
 *          which writes it. A line that would make the file larger than its limit first renames it
 *          to PATH.old, in the place of an earlier one, and begins a new file. Another program may
 *          rename or remove the file: the next line begins a new one.
 * Shapes   one file per process; LOG_FILE_QUEUE_BYTES of lines wait at most.
 * Errors   at the opening as below. Later none: what the file does not take (a full disk, a folder
 *          that is gone, a disk that hangs) goes to stderr, which says so once, until it takes
 *          lines again. Nobody who logs waits for the file.
 * Absent   the last words of a failed CHECK: log_dump() writes to stderr.
 */
#ifndef CKPT_BASE_LOG_FILE_H
#define CKPT_BASE_LOG_FILE_H

#include <stdint.h>

#include "src/base/err.h"

enum { LOG_FILE_QUEUE_BYTES = 1 << 18, LOG_FILE_PATH_BYTES = 4096, LOG_FILE_MIN_BYTES = 1 << 16 };

/* Appends to what is there. max_bytes: LOG_FILE_MIN_BYTES at least; 0: it is never rotated. Errors
 * name the path: ERR_NOT_FOUND its folder is missing, ERR_REFUSED it is no regular file, ERR_IO
 * another failure, such as a full disk. */
int log_file_open(const char *path, uint64_t max_bytes, struct err *err);
/* Writes what waits, for a second at most; stderr has the lines again. Does nothing without a file.
 * Also at exit(3). */
void log_file_close(void);

#endif
