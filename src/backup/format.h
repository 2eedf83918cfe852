/* What writer.c and reader.c share: the sizes of the parts of a backup file. See backup.h.
 *
 * Shapes   head | header (protobuf) | its CRC | chunks, each with a head and LZ4 bytes | end |
 *          SHA-256 of everything before it. Numbers are little-endian.
 */
#ifndef CKPT_BACKUP_FORMAT_H
#define CKPT_BACKUP_FORMAT_H

#include "src/backup/backup.h"

/* A reader that knows another BACKUP_VERSION stops behind the head: all that follows may differ. */
enum {
    FORMAT_MAGIC_BYTES = 8,
    FORMAT_HEAD_BYTES = 16, /* magic, version, length */
    FORMAT_CHUNK_HEAD_BYTES = 12,
    FORMAT_END_BYTES = 24, /* magic, raw bytes, chunks; the digest follows */
};
#define FORMAT_MAGIC     "CKPTBKUP"
#define FORMAT_END_MAGIC "CKPTBEND"

#endif
