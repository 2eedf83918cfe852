/* The knowledge of object stores in a program that leaves the work to ckpt-worker-s3: the form of
 * their locations, and the services for their workers.
 *
 * Shapes   an HTTP client comes with some thirty libraries, which take longer to load than a small
 *          checkpoint to write: only ckpt-worker-s3 links one.
 */
#ifndef CKPT_DEST_S3_S3_FORM_H
#define CKPT_DEST_S3_S3_FORM_H

#include "src/dest/destination.h"

#define S3_KIND    "s3"
#define S3_PROGRAM "ckpt-worker-s3"

/* Without what touches a store. */
extern const struct destination_ops destination_s3_apart;

/* Of both rows. */
bool s3_parse(const char *location);
/* Without touching the store: daemons ask. */
int s3_validate(const char *location, struct err *err);

#endif
