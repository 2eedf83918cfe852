/* Logs a reload of the keys of a daemon's object stores: one line for a success, another one for a
 * failure. src/dest/s3/stores.h has the stores and calls it.
 */
#ifndef CKPT_SERVE_KEYS_H
#define CKPT_SERVE_KEYS_H

#include "src/base/err.h"

/* store: the name; failed NULL: its keys were read. */
void keys_told(const char *store, const struct err *failed);

#endif
