/* The table of ckpt-worker-s3: tests drive all kinds from within. */
#include "src/dest/posix/posix.h"
#include "src/dest/s3/s3.h"

const struct destination_ops *const destinations[] = {
    &destination_posix,
    &destination_s3,
    NULL,
};
