/* What a daemon says of the keys of its object stores: a line when they were read again, another
 * one when they could not be. The stores themselves are of src/dest/s3/stores.h, which calls it.
 */
#ifndef CKPT_SERVE_KEYS_H
#define CKPT_SERVE_KEYS_H

#include "src/base/err.h"

/* store: its name; failed NULL: its keys were read. */
void keys_told(const char *store, const struct err *failed);

#endif
