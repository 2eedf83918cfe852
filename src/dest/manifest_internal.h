/* Shared by manifest.c, manifest_links.c and manifest_parse.c only. */
#ifndef CKPT_DEST_MANIFEST_INTERNAL_H
#define CKPT_DEST_MANIFEST_INTERNAL_H

#include "src/dest/manifest.h"

/* What one takes of the text. */
#define MANIFEST_CHUNK_PREFIX "# chunk "
/* Two lines of a link. */
#define MANIFEST_LINK_PREFIX    "# link name="
#define MANIFEST_LINK_TO_PREFIX "# link to="
/* The number in the first line: with links and without. */
#define MANIFEST_HEAD "# ckpt-manifest "
/* Of version 3: version 2 has no room for a word to whoever looks into one. */
#define MANIFEST_ADVICE                                                                            \
    "# all of this is checked by: ckpt-worker verify FOLDER (sha256sum -c: lines without # "       \
    "only)\n"
enum { MANIFEST_VERSION = 2, MANIFEST_VERSION_LINKS = 3 };
enum { MANIFEST_CHUNK_LINE_BYTES = sizeof(MANIFEST_CHUNK_PREFIX) - 1 + 2 * SHA256_BYTES + 1 };

/* Checks names, order, parents and modes as they stand, without sorting: of a text that was read
 * the order is part of the form. Sets the totals. ERR_REFUSED names the entry. */
int manifest_check(struct manifest *manifest, struct err *err);
/* As sha256sum writes names, with the end of the line. */
void manifest_append_name(struct buf *text, const char *name);
void manifest_links_close(struct manifest *manifest);
void manifest_links_sort(struct manifest *manifest);
void manifest_links_encode(const struct manifest *manifest, struct buf *text);
/* Why a file cannot be cut into chunks of that size, which is not MANIFEST_CHUNK_BYTES; NULL: it
 * can. */
const char *manifest_cut_problem(uint64_t size_bytes, uint64_t chunk_bytes);

#endif
