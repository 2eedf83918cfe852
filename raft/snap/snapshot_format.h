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
/* An open file; path is for messages. */
struct snapshot_source {
    const struct disk_ops *disk;
    struct disk_file *file;
    const char *path;
};
struct snapshot_bytes {
    void *bytes;
    size_t length;
};
/* Short only at the end of the file. What cannot be read is not damaged: the error says where it
 * was. */
int snapshot_read_at(const struct snapshot_source *source, uint64_t offset,
                     struct snapshot_bytes into, size_t *ret_length, struct err *err);
/* A snapshot's file whose header and trailer were checked. The caller closes file and meta. */
struct snapshot_opened {
    struct disk_file *file;
    struct snapshot_meta meta;
    uint64_t begin, bytes; /* where the LZ4 frame lies */
    uint32_t crc;          /* of the frame, as the trailer has it */
};
int snapshot_open(const struct folder *folder, const char *path, struct snapshot_opened *ret_opened,
                  struct err *err);

#endif
