/* One file read to its end, hashed, optionally written. See copy.h. */
#include "src/dest/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/frame.h"
#include "src/dest/holes.h"

/* Large enough for few calls, small enough to stay in a processor's cache between reading, hashing
 * and writing. */
enum { COPY_BUFFER_BYTES = 1 << 20, HUGE_PAGE_BYTES = 2 << 20 };
_Static_assert(FRAME_BLOCK_BYTES <= (1 << 20), "a block of a frame fits into the buffer");

uint8_t *copy_alloc(size_t size)
{
    void *blocks = NULL;
    bool is_large = size >= HUGE_PAGE_BYTES;
    size_t whole = (size + COPY_BLOCK_BYTES - 1) / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;

    CHECK(posix_memalign(&blocks, is_large ? HUGE_PAGE_BYTES : COPY_BLOCK_BYTES, whole) == 0);
    if (is_large)
        (void)madvise(blocks, whole, MADV_HUGEPAGE);
    return blocks;
}

void copier_init(struct copier *copier, struct pace *pace)
{
    copier->buffer = copy_alloc(COPY_BUFFER_BYTES);
    sha256_init(&copier->sha256);
    copier->places = (struct copy_places){.count = 0};
    sha256_init(&copier->places.sha256);
    copier->pace = pace;
    copier->held = copier->compressed = NULL;
}

void copier_close(struct copier *copier)
{
    free(copier->buffer);
    free(copier->held);
    free(copier->compressed);
    copier->buffer = copier->held = copier->compressed = NULL;
    sha256_close(&copier->sha256);
    sha256_close(&copier->places.sha256);
}

/* ---- sums of places ---- */

void copy_want_places(struct copier *copier, const struct copy_range *at, size_t count)
{
    struct copy_places *places = &copier->places;

    CHECK(count <= COPY_PLACES_MAX);
    for (size_t i = 0; i < count; i++) {
        CHECK(at[i].length > 0);
        CHECK(i == 0 || at[i].offset >= at[i - 1].offset + at[i - 1].length);
        places->at[i] = at[i];
    }
    places->count = count;
    places->passed = 0;
}

void copy_take_places(struct copier *copier, uint64_t *ret_sums)
{
    struct copy_places *places = &copier->places;

    CHECK(places->passed == places->count);
    memcpy(ret_sums, places->sums, places->count * sizeof(*ret_sums));
    places->count = places->passed = 0;
}

/* Bytes pass once, in their order. */
static void pass_places(struct copier *copier, const uint8_t *bytes, struct copy_range passing)
{
    struct copy_places *places = &copier->places;
    const uint64_t passing_end = passing.offset + passing.length;
    uint8_t digest[SHA256_BYTES];

    for (; places->passed < places->count; places->passed++) {
        const struct copy_range at = places->at[places->passed];
        const uint64_t at_end = at.offset + at.length;
        uint64_t from = at.offset > passing.offset ? at.offset : passing.offset;
        uint64_t end = at_end < passing_end ? at_end : passing_end;

        if (from >= end)
            return; /* it comes later */
        if (from == at.offset)
            sha256_start(&places->sha256);
        sha256_update(&places->sha256, bytes + (from - passing.offset), (size_t)(end - from));
        if (end < at_end)
            return; /* the rest of it does */
        sha256_finish(&places->sha256, digest);
        memcpy(&places->sums[places->passed], digest, sizeof(places->sums[0]));
    }
}

/* O_DIRECT is read from the descriptor: the code that opened the file chose it. */
static bool is_direct(int fd)
{
    return fd >= 0 && (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

/* At the offset, or where the file stands when that is negative. */
static int write_all(struct copy_end to, const uint8_t *bytes, size_t length, off_t offset,
                     struct err *err)
{
    while (length > 0) {
        ssize_t written =
            offset < 0 ? write(to.fd, bytes, length) : pwrite(to.fd, bytes, length, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fault_set(err, "write", to.path);
        bytes += written;
        length -= (size_t)written;
        offset = offset < 0 ? offset : offset + written;
    }
    return 0;
}

/* Past the page cache: in whole blocks, with zeros behind the end. bytes has room for them. A file
 * system that does not take it so (a block larger than ours) gets the rest in the usual way. */
static int write_blocks(struct copy_end to, uint8_t *bytes, size_t length, off_t offset,
                        struct err *err)
{
    size_t whole = (length + COPY_BLOCK_BYTES - 1) / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;
    size_t done = 0;
    bool usual = false;

    memset(bytes + length, 0, whole - length);
    while (done < whole) {
        ssize_t written = pwrite(to.fd, bytes + done, whole - done, offset + (off_t)done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno == EINVAL && !usual) /* another thread may have been the first */
            usual = fcntl(to.fd, F_SETFL, O_WRONLY) == 0;
        else if (errno != EINTR)
            return fault_set(err, "write", to.path);
    }
    return 0;
}

static int write_at(struct copy_end to, uint8_t *bytes, size_t length, off_t offset, bool direct,
                    struct err *err)
{
    return direct ? write_blocks(to, bytes, length, offset, err)
                  : write_all(to, bytes, length, offset, err);
}

/* Whether the file may be left without bytes there, of zeros. One that is new reads as zeros where
 * nothing was written; room that was taken before is given back. Of a place that may have been
 * written before, the file system says whether it takes a hole. */
enum copy_before { COPY_INTO_NEW, COPY_INTO_TAKEN, COPY_INTO_ANY };

static bool leave_hole(int fd, off_t offset, size_t length, enum copy_before before)
{
    return before == COPY_INTO_NEW ||
           fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)length) == 0 ||
           before == COPY_INTO_TAKEN;
}

/* Up to the next place where a hole may begin or end, or the end of all. */
static size_t hole_piece(off_t offset, size_t left)
{
    size_t piece = HOLE_BYTES - (size_t)(offset % HOLE_BYTES);

    return piece < left ? piece : left;
}

/* How many of the bytes are of one kind: holes, or to be written. */
static size_t hole_run(const uint8_t *bytes, size_t length, off_t offset, bool *ret_hole)
{
    size_t run = 0;

    while (run < length) {
        size_t piece = hole_piece(offset + (off_t)run, length - run);
        bool hole = piece == HOLE_BYTES && holes_are_zero(bytes + run, piece);

        if (run > 0 && hole != *ret_hole)
            break;
        *ret_hole = hole;
        run += piece;
    }
    return run;
}

/* As write_at(), with holes for zeros: a file that was sparse stays so. Runs begin and end at whole
 * blocks, but for the last one. ret_written: bytes that were, which the pace counts. */
static int write_sparse(struct copy_end to, uint8_t *bytes, struct copy_range range,
                        enum copy_before before, size_t *ret_written, struct err *err)
{
    const bool direct = is_direct(to.fd);
    size_t length = (size_t)range.length;
    off_t offset = (off_t)range.offset;

    *ret_written = 0;
    while (length > 0) {
        bool hole = false;
        size_t run = hole_run(bytes, length, offset, &hole);

        hole = hole && leave_hole(to.fd, offset, run, before);
        if (!hole && write_at(to, bytes, run, offset, direct, err) != 0)
            return -1;
        *ret_written += hole ? 0 : run;
        bytes += run;
        offset += (off_t)run;
        length -= run;
    }
    return 0;
}

/* A file that is made here is new; past the page cache its room was taken first. */
static enum copy_before before_of(bool direct)
{
    return direct ? COPY_INTO_TAKEN : COPY_INTO_NEW;
}

int copy_append(struct copy_end to, const uint8_t *bytes, size_t length, struct err *err)
{
    return write_all(to, bytes, length, -1, err);
}

int copy_write(struct copy_end to, uint8_t *bytes, struct copy_range range, struct err *err)
{
    size_t written;

    return write_sparse(to, bytes, range, COPY_INTO_ANY, &written, err);
}

/* Whether somebody wrote meanwhile: the size and the time of change tell, as for make(1). */
static bool same_moment(const struct stat *before, const struct stat *after)
{
    return before->st_size == after->st_size && before->st_mtim.tv_sec == after->st_mtim.tv_sec &&
           before->st_mtim.tv_nsec == after->st_mtim.tv_nsec;
}

/* What is only read goes at full speed, unless the rate is of that. */
static bool copy_is_paced(const struct copier *copier, struct copy_end to)
{
    return to.fd >= 0 || copier->pace->of_reading;
}

static int copy_stream(struct copier *copier, struct copy_end from, struct copy_end to,
                       uint64_t *ret_size_bytes, struct err *err)
{
    bool paced = copy_is_paced(copier, to);
    size_t chunk = paced ? pace_piece(copier->pace, COPY_BUFFER_BYTES) : COPY_BUFFER_BYTES;
    uint64_t size_bytes = 0;

    for (;;) {
        ssize_t got = read(from.fd, copier->buffer, chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_set(err, "read", from.path);
        if (got == 0)
            break;
        sha256_update(&copier->sha256, copier->buffer, (size_t)got);
        size_bytes += (uint64_t)got;
        if (to.fd >= 0 && write_all(to, copier->buffer, (size_t)got, -1, err) != 0)
            return -1;
        if (paced)
            pace_book(copier->pace, (size_t)got);
    }
    *ret_size_bytes = size_bytes;
    return 0;
}

/* All of it, or ERR_IO where the file ends before. */
static int read_all(struct copy_end from, uint8_t *bytes, struct copy_range range, struct err *err)
{
    for (uint64_t done = 0; done < range.length;) {
        ssize_t got = pread(from.fd, bytes + done, (size_t)(range.length - done),
                            (off_t)(range.offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_set(err, "read", from.path);
        if (got == 0)
            return err_set(err, ERR_IO, "%s became shorter while it was read", from.path);
        done += (uint64_t)got;
    }
    return 0;
}

/* How much to move next: at most a buffer, at most what is left, at most what the rate allows at a
 * time, in whole blocks where they are asked for. */
static size_t piece_of(const struct copier *copier, uint64_t left, bool paced, bool direct)
{
    size_t piece = paced ? pace_piece(copier->pace, COPY_BUFFER_BYTES) : COPY_BUFFER_BYTES;

    if (direct)
        piece = piece < COPY_BLOCK_BYTES ? COPY_BLOCK_BYTES : piece - piece % COPY_BLOCK_BYTES;
    return left < piece ? (size_t)left : piece;
}

/* Storage begins to write what has come by now, so that a sync finds little left. Small files are
 * left to that: begun one by one, they would take longer. */
static void begin_write_out(struct copy_end to, struct copy_range *written, uint64_t end)
{
    written->length = end - written->offset;
    if (to.fd < 0 || written->length < COPY_WRITE_OUT_BYTES)
        return;
    (void)sync_file_range(to.fd, (off_t)written->offset, (off_t)written->length,
                          SYNC_FILE_RANGE_WRITE);
    *written = (struct copy_range){end, 0};
}

int copy_range(struct copier *copier, struct copy_end from, struct copy_end to,
               struct copy_range range, uint8_t ret_digest[SHA256_BYTES], struct err *err)
{
    const uint64_t end = range.offset + range.length;
    bool paced = copy_is_paced(copier, to), direct = is_direct(to.fd);
    struct copy_range written = {range.offset, 0};
    size_t moved;

    sha256_start(&copier->sha256);
    while (range.offset < end) {
        range.length = piece_of(copier, end - range.offset, paced, direct);
        if (read_all(from, copier->buffer, range, err) != 0)
            return -1;
        sha256_update(&copier->sha256, copier->buffer, (size_t)range.length);
        pass_places(copier, copier->buffer, range);
        moved = (size_t)range.length;
        if (to.fd >= 0 &&
            write_sparse(to, copier->buffer, range, before_of(direct), &moved, err) != 0)
            return -1;
        if (paced)
            pace_book(copier->pace, moved);
        range.offset += range.length;
        begin_write_out(to, &written, range.offset);
    }
    sha256_finish(&copier->sha256, ret_digest);
    return 0;
}

bool copy_hash_blocks(struct copier *copier, int from, struct copy_range range,
                      uint8_t ret_digest[SHA256_BYTES])
{
    const size_t before = (size_t)(range.offset % COPY_BLOCK_BYTES);
    const size_t wanted = before + (size_t)range.length;
    const size_t whole = (wanted + COPY_BLOCK_BYTES - 1) / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;
    size_t done = 0;

    CHECK(is_direct(from));
    CHECK(whole <= COPY_BUFFER_BYTES);
    while (done < wanted) {
        ssize_t got =
            pread(from, copier->buffer + done, whole - done, (off_t)(range.offset - before + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    sha256_start(&copier->sha256);
    sha256_update(&copier->sha256, copier->buffer + before, (size_t)range.length);
    sha256_finish(&copier->sha256, ret_digest);
    return true;
}

/* Hashed piece by piece, while each is in the processor's cache. */
int copy_hold(struct copier *copier, struct copy_end from, struct copy_range range,
              uint8_t *ret_digest, struct err *err)
{
    CHECK(range.length <= COPY_HELD_BYTES);
    if (copier->held == NULL)
        copier->held = copy_alloc(COPY_HELD_BYTES);
    sha256_start(&copier->sha256);
    for (uint64_t done = 0; done < range.length;) {
        const struct copy_range piece = {range.offset + done,
                                         piece_of(copier, range.length - done, false, false)};
        if (read_all(from, copier->held + done, piece, err) != 0)
            return -1;
        if (ret_digest != NULL)
            sha256_update(&copier->sha256, copier->held + done, (size_t)piece.length);
        pass_places(copier, copier->held + done, piece);
        done += piece.length;
    }
    if (ret_digest != NULL)
        sha256_finish(&copier->sha256, ret_digest);
    return 0;
}

int copy_release(struct copier *copier, struct copy_end to, struct copy_range range,
                 struct err *err)
{
    struct copy_range written = {range.offset, 0};
    bool direct = is_direct(to.fd);

    for (uint64_t done = 0; done < range.length;) {
        size_t piece = piece_of(copier, range.length - done, true, direct), moved;
        if (write_sparse(to, copier->held + done, (struct copy_range){range.offset + done, piece},
                         before_of(direct), &moved, err) != 0)
            return -1;
        pace_book(copier->pace, moved);
        done += piece;
        begin_write_out(to, &written, range.offset + done);
    }
    return 0;
}

/* ---- compressed ---- */

static void make_room(struct copier *copier)
{
    if (copier->compressed == NULL)
        copier->compressed = copy_alloc(frame_bound(COPY_HELD_BYTES));
}

size_t copy_compress(struct copier *copier, size_t length)
{
    CHECK(length <= COPY_HELD_BYTES);
    CHECK(copier->held != NULL);
    make_room(copier);
    return frame_make(copier->compressed, copier->held, length);
}

int copy_write_compressed(struct copier *copier, struct copy_end to, struct copy_range place,
                          struct err *err)
{
    CHECK(place.length <= frame_bound(COPY_HELD_BYTES));
    pass_places(copier, copier->compressed, place);
    for (uint64_t done = 0; done < place.length;) {
        size_t piece = piece_of(copier, place.length - done, true, false);
        if (write_all(to, copier->compressed + done, piece, (off_t)(place.offset + done), err) != 0)
            return -1;
        pace_book(copier->pace, piece);
        done += piece;
    }
    return 0;
}

static int read_frame(struct copier *copier, struct copy_end from, struct copy_range stored,
                      bool paced, struct err *err)
{
    CHECK(stored.length <= frame_bound(COPY_HELD_BYTES));
    make_room(copier);
    for (uint64_t done = 0; done < stored.length;) {
        const struct copy_range piece = {stored.offset + done,
                                         piece_of(copier, stored.length - done, paced, false)};
        if (read_all(from, copier->compressed + done, piece, err) != 0)
            return -1;
        if (paced)
            pace_book(copier->pace, (size_t)piece.length);
        done += piece.length;
    }
    return 0;
}

/* Block by block, while each is in the processor's cache. ret_whole: it is a frame of just that
 * range. */
static int expand_blocks(struct copier *copier, struct copy_end to, const struct copy_frame *frame,
                         bool *ret_whole, struct err *err)
{
    struct copy_range left = frame->range, written = {left.offset, 0};
    struct frame reading;
    size_t length = 0, moved;

    *ret_whole = false;
    if (!frame_open(&reading, copier->compressed, (size_t)frame->stored.length))
        return 0;
    do {
        if (!frame_next(&reading, copier->buffer, &length) || length > left.length)
            return 0;
        sha256_update(&copier->sha256, copier->buffer, length);
        if (to.fd >= 0 && write_sparse(to, copier->buffer, (struct copy_range){left.offset, length},
                                       COPY_INTO_NEW, &moved, err) != 0)
            return -1;
        left.offset += length;
        left.length -= length;
        begin_write_out(to, &written, left.offset);
    } while (length > 0);
    *ret_whole = left.length == 0;
    return 0;
}

int copy_expand(struct copier *copier, struct copy_end from, struct copy_end to,
                const struct copy_frame *frame, uint8_t ret_digest[SHA256_BYTES], struct err *err)
{
    bool whole;

    if (read_frame(copier, from, frame->stored, copy_is_paced(copier, to), err) != 0)
        return -1;
    sha256_start(&copier->sha256);
    if (expand_blocks(copier, to, frame, &whole, err) != 0)
        return -1;
    sha256_finish(&copier->sha256, ret_digest);
    if (whole)
        return 0;
    return err_set(err, ERR_CORRUPT,
                   "%s is not what was written: its %" PRIu64 " bytes at %" PRIu64
                   " are no LZ4 frame of %" PRIu64 " bytes",
                   from.path, frame->stored.length, frame->stored.offset, frame->range.length);
}

int copy_file(struct copier *copier, struct copy_end from, struct copy_end to,
              uint64_t *ret_size_bytes, uint8_t ret_digest[SHA256_BYTES], struct err *err)
{
    struct stat before, after;
    uint64_t size_bytes = 0;

    if (fstat(from.fd, &before) != 0)
        return fault_set(err, "fstat", from.path);
    sha256_start(&copier->sha256);
    if (copy_stream(copier, from, to, &size_bytes, err) != 0)
        return -1;
    if (fstat(from.fd, &after) != 0)
        return fault_set(err, "fstat", from.path);
    if (!same_moment(&before, &after) || size_bytes != (uint64_t)after.st_size)
        return err_set(err, ERR_IO,
                       "%s changed while it was read; let the application finish writing before it "
                       "says done",
                       from.path);
    sha256_finish(&copier->sha256, ret_digest);
    *ret_size_bytes = size_bytes;
    return 0;
}
