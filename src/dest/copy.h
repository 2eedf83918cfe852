/* Files and ranges of files read to their end, hashed on the way, optionally written to others, at
 * the pace of their transfer.
 *
 * Shapes   a copier holds one buffer and one digest and is one thread's; files go through it one
 *          after another. Threads that work side by side share a pace (pool.h). Ranges may be
 *          written past the page cache (O_DIRECT): then they begin at whole blocks, and their end
 *          is padded with zeros to one, which the file's owner cuts off. Storage is asked to begin
 *          with each COPY_WRITE_OUT_BYTES of a range while the next ones are on their way. A chunk
 *          may be stored as an LZ4 frame (frame.h): hashes are of what it holds, the pace counts
 *          what is stored. Runs of zeros (holes.h) are not written: the file has holes there, and
 *          its owner gives it its size.
 * Errors   ERR_IO when a file changes while it is read, ERR_CORRUPT for what is no frame; fault.h
 *          for the rest.
 */
#ifndef CKPT_DEST_COPY_H
#define CKPT_DEST_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/dest/pace.h"
#include "src/dest/sha256.h"

/* Where bytes come from or go to. The descriptor stays its owner's. */
struct copy_end {
    int fd;           /* of the target: -1 hashes only */
    const char *path; /* for errors */
};

enum { COPY_HELD_BYTES = 16 << 20, COPY_BLOCK_BYTES = 4096, COPY_WRITE_OUT_BYTES = 4 << 20 };

/* Bytes of a file. */
struct copy_range {
    uint64_t offset;
    uint64_t length;
};

/* Places in the next range, ascending and apart, of which sums are wanted beside that of the whole:
 * of each the first 8 bytes of its SHA-256. */
enum { COPY_PLACES_MAX = 6 };
struct copy_places {
    struct copy_range at[COPY_PLACES_MAX];
    uint64_t sums[COPY_PLACES_MAX];
    size_t count;
    size_t passed; /* so many have their sum */
    struct sha256 sha256;
};

/* What a series of files shares: a buffer of 1 MiB and the digest of the file or range at hand.
 * Filled by copier_init(); nothing in it is for others, and no two threads use one at a time. */
struct copier {
    uint8_t *buffer; /* of the heap, until copier_close(); begins at a whole block */
    struct sha256 sha256;
    struct copy_places places; /* of copy_want_places() */
    struct pace *pace;
    uint8_t *held;       /* of copy_hold(), COPY_HELD_BYTES once it was called */
    uint8_t *compressed; /* a frame of so many bytes, once there was one */
};

/* A chunk that is stored as a frame: where that lies, and where what it holds belongs. */
struct copy_frame {
    struct copy_range stored;
    struct copy_range range;
};

/* Memory for bytes on their way, of whole blocks, and of huge pages where it is large: walking
 * through it costs a third less then. For free(). */
uint8_t *copy_alloc(size_t size);
/* All of it, at the offset; past the page cache where the descriptor says so. There is room behind
 * the bytes for the rest of a block. */
int copy_write(struct copy_end to, uint8_t *bytes, struct copy_range range, struct err *err);

/* All of it, where the file stands. */
int copy_append(struct copy_end to, const uint8_t *bytes, size_t length, struct err *err);

/* pace: the transfer's; it outlives the copier. */
void copier_init(struct copier *copier, struct pace *pace);
void copier_close(struct copier *copier);
/* Reads `from` from where it stands to its end and writes it to `to`, sleeping where the rate asks
 * for it. Says how many bytes there were and their SHA-256. Neither descriptor is closed, and what
 * was written is not synced: that is the caller's. 0; or -1 with err: ERR_IO when the file's size
 * or time of change is another one afterwards (its writer was not done), and what fault.h makes of
 * a failed read or write. After a failure `to` holds a part and is to be removed. */
int copy_file(struct copier *copier, struct copy_end from, struct copy_end to,
              uint64_t *ret_size_bytes, uint8_t ret_digest[SHA256_BYTES], struct err *err);
/* The same for a range of both files, wherever they stand: as many bytes as asked for, or ERR_IO
 * where the file ends before. Whether it is the same file afterwards is the caller's to ask. */
int copy_range(struct copier *copier, struct copy_end from, struct copy_end to,
               struct copy_range range, uint8_t ret_digest[SHA256_BYTES], struct err *err);

/* Hashes a range of at most 1 MiB that is read past the page cache: `from` is open with O_DIRECT,
 * and whole blocks around the range are read. False: they cannot be read so. */
bool copy_hash_blocks(struct copier *copier, int from, struct copy_range range,
                      uint8_t ret_digest[SHA256_BYTES]);

/* The sums of these places are taken while the next range is copied or held, or the next frame is
 * written. Offsets are those of the range, or of the file that gets the frame. */
void copy_want_places(struct copier *copier, const struct copy_range *at, size_t count);
/* All of them have passed; they are wanted no longer. */
void copy_take_places(struct copier *copier, uint64_t *ret_sums);

/* In two steps, for a range of at most COPY_HELD_BYTES that may turn out not to be wanted: reads it
 * into memory, and hashes it unless ret_digest is NULL; writes what was read last. */
int copy_hold(struct copier *copier, struct copy_end from, struct copy_range range,
              uint8_t *ret_digest, struct err *err);
int copy_release(struct copier *copier, struct copy_end to, struct copy_range range,
                 struct err *err);
/* In two steps as well: a frame of what was held last, whose length is returned; written to where
 * the caller has made a place for it. */
size_t copy_compress(struct copier *copier, size_t length);
int copy_write_compressed(struct copier *copier, struct copy_end to, struct copy_range place,
                          struct err *err);
/* As copy_range(), of a chunk that is stored as a frame. ERR_CORRUPT: it is none, or holds more or
 * fewer bytes. */
int copy_expand(struct copier *copier, struct copy_end from, struct copy_end to,
                const struct copy_frame *frame, uint8_t ret_digest[SHA256_BYTES], struct err *err);

#endif
