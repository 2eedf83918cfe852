/* What writer.c and reader.c share. See backup.h. */
#ifndef CKPT_BACKUP_FORMAT_H
#define CKPT_BACKUP_FORMAT_H

#include "src/backup/backup.h"

enum {
    FORMAT_MAGIC_BYTES = 8,
    FORMAT_HEAD_BYTES = 16, /* magic, version, length */
    FORMAT_CHUNK_HEAD_BYTES = 12,
    FORMAT_END_BYTES = 24, /* magic, raw bytes, chunks; the digest follows */
};
#define FORMAT_MAGIC     "CKPTBKUP"
#define FORMAT_END_MAGIC "CKPTBEND"

#endif
