/* Shared by manifest.c and manifest_parse.c only. */
#ifndef CKPT_DEST_MANIFEST_INTERNAL_H
#define CKPT_DEST_MANIFEST_INTERNAL_H

#include "src/dest/manifest.h"

/* What one takes of the text. */
#define MANIFEST_CHUNK_PREFIX "# chunk "
enum { MANIFEST_CHUNK_LINE_BYTES = sizeof(MANIFEST_CHUNK_PREFIX) - 1 + 2 * SHA256_BYTES + 1 };

/* Checks names, order, parents and modes as they stand, without sorting: of a text that was read
 * the order is part of the form. Sets the totals. ERR_REFUSED names the entry. */
int manifest_check(struct manifest *manifest, struct err *err);
/* Why a file cannot be cut into chunks of that size, which is not MANIFEST_CHUNK_BYTES; NULL: it
 * can. */
const char *manifest_cut_problem(uint64_t size_bytes, uint64_t chunk_bytes);

#endif
