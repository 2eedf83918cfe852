/* The kinds of destinations as daemons and ckpt-worker know them. See destination.h.
 *
 * Shapes   ckpt-worker-s3 has a table of its own, with all that an object store takes
 *          (s3/s3_worker_main.c): so nothing else links an HTTP client and its libraries.
 */
#include "src/dest/destination.h"
#include "src/dest/posix/posix.h"
#include "src/dest/s3/s3_form.h"

const struct destination_ops *const destinations[] = {
    &destination_posix,
    &destination_s3_apart,
    NULL,
};
