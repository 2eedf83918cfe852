/* What snapshot.c (files) and snapshot_content.c (content) share. See snapshot.h. */
#ifndef CKPT_RAFT_SNAPSHOT_FORMAT_H
#define CKPT_RAFT_SNAPSHOT_FORMAT_H

#include "raft/snap/snapshot.h"
#include "src/base/buf.h"

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_TRAILER_BYTES = 28 };

void snapshot_header_encode(const struct snapshot_meta *meta, struct buf *buf);
int snapshot_header_decode(const uint8_t *bytes, size_t length, const char *path,
                           struct snapshot_meta *ret_meta, size_t *ret_length, struct err *err);
void snapshot_trailer_encode(uint64_t frame_bytes, uint32_t crc,
                             uint8_t bytes[SNAPSHOT_TRAILER_BYTES]);
struct snapshot_bytes {
    void *bytes;
    size_t length;
};
/* Short only at the end of the file. What cannot be read is not damaged: the error says where it
 * was. */
int snapshot_read_at(const struct folder *folder, struct disk_file *file, const char *path,
                     uint64_t offset, struct snapshot_bytes into, size_t *ret_length,
                     struct err *err);
/* Checks header and trailer; the LZ4 frame lies at ret_begin, ret_bytes long. */
int snapshot_open(const struct folder *folder, const char *path, struct snapshot_meta *ret_meta,
                  struct disk_file **ret_file, uint64_t *ret_begin, uint64_t *ret_bytes,
                  uint32_t *ret_crc, struct err *err);

#endif
