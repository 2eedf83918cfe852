/* Shared by snapshot.c (files), snapshot_content.c (content) and a sender that checks a file as it
 * reads it (snapshot_transfer.c). The layout is in snapshot.h.
 *
 * Shapes   nothing is kept between calls.
 * Units    bytes; offsets from the beginning of the file.
 * Errors   decoding and opening trust nothing: bytes of a disk or a peer give ERR_CORRUPT or
 *          ERR_MISMATCH, never an assertion.
 */
#ifndef CKPT_RAFT_SNAPSHOT_FORMAT_H
#define CKPT_RAFT_SNAPSHOT_FORMAT_H

#include "raft/snap/snapshot.h"
#include "src/base/buf.h"

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_TRAILER_BYTES = 28 };

/* Puts the header into a buffer that must be empty. */
void snapshot_header_encode(const struct snapshot_meta *meta, struct buf *buf);
/* Checks and takes the header at the beginning of bytes, of which there may be more. ret_length is
 * its own length: the frame begins there. path is for messages. The caller closes ret_meta. */
int snapshot_header_decode(const uint8_t *bytes, size_t length, const char *path,
                           struct snapshot_meta *ret_meta, size_t *ret_length, struct err *err);
/* crc: CRC-32C of the compressed frame, so that a file is verified without being unpacked. */
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
/* Reads into.length bytes; fewer only at the end of the file. A file that cannot be read is not
 * damaged: the error has the place and keeps its code. */
int snapshot_read_at(const struct snapshot_source *source, uint64_t offset,
                     struct snapshot_bytes into, size_t *ret_length, struct err *err);
/* A snapshot's file whose header and trailer were checked. The caller closes file and meta. */
struct snapshot_opened {
    struct disk_file *file;
    struct snapshot_meta meta;
    uint64_t begin, bytes; /* where the LZ4 frame lies */
    uint32_t crc;          /* of the frame, as the trailer has it */
};
/* Opens the file and checks header, trailer and size; the content is not looked at. On -1 nothing
 * is open. */
int snapshot_open(const struct folder *folder, const char *path, struct snapshot_opened *ret_opened,
                  struct err *err);

#endif
