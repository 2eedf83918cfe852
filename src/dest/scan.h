/* The checkpoints below a prefix with this cluster's mark, page by page: `ckpt-worker scan`. This
 * file does not ask whether they have a record.
 *
 * Flow     scan_run() lets the row walk, and prints the checkpoints. scan_read() takes the text
 *          apart again, in the process that got it from a worker.
 * Shapes   found=BYTES AGE_S OWNER PATH   one line per checkpoint; the path is below the prefix,
 *                                         {tenant}/{project}/{allocation}/checkpoints/{checkpoint},
 *                                         the owner "-" where the kind knows none
 *          looked= foreign= denied=       folders of checkpoints; those without the mark; folders
 *                                         that could not be opened
 *          denied_error=TEXT              of the first of these
 *          next=PATH                      there is more behind it; none: this was the last page
 * Errors   those of the row; a folder that may not be opened is counted, and is none.
 * Units    seconds of the destination's own stamps; bytes as manifests and listings tell them.
 */
#ifndef CKPT_DEST_SCAN_H
#define CKPT_DEST_SCAN_H

#include <stdio.h>

#include "src/dest/destination.h"

enum { SCAN_PATH_BYTES = 4096, SCAN_OWNER_BYTES = 128, SCAN_TEXT_BYTES = 65536 };

int scan_run(const struct destination_ops *destination, const struct destination_scan *scan,
             FILE *out, struct err *err);

/* As printed. */
struct scan_found {
    uint64_t size_bytes, age_s;
    char owner[SCAN_OWNER_BYTES];
    char path[SCAN_PATH_BYTES];
};
/* The line at *at, which moves behind it; false: it was the last. Lines that are none of these, or
 * that are damaged, are passed over: the text may come from another machine. */
bool scan_read(const char **at, struct scan_found *ret_found);

#endif
