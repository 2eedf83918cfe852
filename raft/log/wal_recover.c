/* Reading the log back: decode, scan, tell a torn tail from damage. See wal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/log/wal.h"
#include "raft/snap/snapshot.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { SEGMENT_VERSION = 1, SEGMENT_FILE_MAX_BYTES = 64 << 20, ALIGNMENT = 8 };

static const char segment_magic[8] = "CKPTWAL1";

void wal_segment_header_encode(uint8_t bytes[WAL_SEGMENT_HEADER_BYTES], uint64_t first_index)
{
    memset(bytes, 0, WAL_SEGMENT_HEADER_BYTES);
    memcpy(bytes, segment_magic, 8);
    bytes_put(bytes + 8, SEGMENT_VERSION, 4);
    bytes_put(bytes + 16, first_index, 8);
    bytes_put(bytes + 60, crc32c(0, bytes, 60), 4);
}

/* The limits are checked before the length is believed, and the checksum last, when all of the
 * record is known to be there. */
bool wal_record_decode(const uint8_t *bytes, size_t left, struct wal_record *ret_record,
                       size_t *ret_bytes)
{
    struct wal_record record;
    size_t padded;

    CHECK(bytes != NULL);
    if (left < WAL_RECORD_HEADER_BYTES)
        return false;
    record.length = bytes_get(bytes + 4, 4);
    record.index = bytes_get(bytes + 8, 8);
    record.term = bytes_get(bytes + 16, 8);
    record.type = bytes[24];
    record.ordinal = (uint32_t)bytes_get(bytes + 28, 4);
    record.payload = bytes + WAL_RECORD_HEADER_BYTES;
    if (record.length > WAL_PAYLOAD_MAX_BYTES || record.index == 0 || record.term == 0 ||
        record.type < RAFT_COMMAND || record.type > RAFT_CHANGE || bytes_get(bytes + 25, 3) != 0)
        return false;
    padded = WAL_RECORD_HEADER_BYTES + ((record.length + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    if (padded > left)
        return false;
    if (crc32c(0, bytes + 4, WAL_RECORD_HEADER_BYTES - 4 + record.length) != bytes_get(bytes, 4))
        return false;
    *ret_record = record;
    *ret_bytes = padded;
    return true;
}

/* After the last whole record: a whole record of a later batch proves that the missing one had been
 * synced. */
static int judge_tail(const uint8_t *bytes, size_t length, size_t end, uint64_t last_index,
                      const char *path, struct err *err)
{
    for (size_t at = end; at + WAL_RECORD_HEADER_BYTES <= length; at += ALIGNMENT) {
        struct wal_record later;
        size_t size;
        if (!wal_record_decode(bytes + at, length - at, &later, &size))
            continue;
        if (later.index > last_index && later.index - last_index - 1 > later.ordinal)
            return err_set(
                err, ERR_CORRUPT,
                "%s offset %zu: record %" PRIu64
                " is damaged but later ones are whole, so acknowledged data was lost on this disk; "
                "remove the member and add it under a new id with an empty folder",
                path, end, last_index + 1);
        at += size - ALIGNMENT;
    }
    return 0;
}

/* A header is synced before its file has its name, so that one that is not whole is damage and
 * never a torn write. */
static int header_check(const uint8_t *bytes, size_t length, const char *path,
                        uint64_t *ret_first_index, struct err *err)
{
    if (length < WAL_SEGMENT_HEADER_BYTES || memcmp(bytes, segment_magic, 8) != 0 ||
        bytes_get(bytes + 60, 4) != crc32c(0, bytes, 60) || bytes_get(bytes + 16, 8) == 0)
        return err_set(
            err, ERR_CORRUPT,
            "%s offset 0: segment header is damaged; remove the member and add it under a "
            "new id with an empty folder",
            path);
    if (bytes_get(bytes + 8, 4) != SEGMENT_VERSION)
        return err_set(err, ERR_MISMATCH,
                       "%s has version %" PRIu64
                       ", this program reads %d: start the build of ckptd "
                       "that wrote it, or a later one",
                       path, bytes_get(bytes + 8, 4), SEGMENT_VERSION);
    *ret_first_index = bytes_get(bytes + 16, 8);
    return 0;
}

/* The first byte is 0, and each one equals the next. */
static bool all_zero(const uint8_t *bytes, size_t length)
{
    return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

int wal_segment_scan(const struct wal_image *image, const struct wal_visitor *visitor,
                     struct wal_segment *ret_segment, bool *ret_torn, struct err *err)
{
    const uint8_t *bytes = image->bytes;
    size_t length = image->length;
    size_t at = WAL_SEGMENT_HEADER_BYTES, size;
    struct wal_record record;
    uint64_t first_index = 0, next;

    if (header_check(bytes, length, image->path, &first_index, err) != 0)
        return -1;
    next = first_index;
    while (wal_record_decode(bytes + at, length - at, &record, &size) && record.index == next) {
        if (visitor != NULL && visitor->visit(visitor->data, &record, err) != 0)
            return -1;
        next++;
        at += size;
    }
    *ret_torn = !all_zero(bytes + at, length - at);
    if (image->is_last && *ret_torn &&
        judge_tail(bytes, length, at, next - 1, image->path, err) != 0)
        return -1;
    *ret_segment = (struct wal_segment){first_index, next - 1, at, length};
    return 0;
}

char *wal_segment_path(const struct wal *wal, uint64_t first_index, char text[FOLDER_PATH_BYTES])
{
    char name[FOLDER_NAME_BYTES];

    CHECK(wal != NULL);
    snprintf(name, sizeof(name), "wal-%016" PRIx64, first_index);
    return folder_path(wal->folder, name, text);
}

int wal_segment_load(const struct wal *wal, uint64_t first_index, uint64_t most,
                     uint8_t **ret_bytes, size_t *ret_length, struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    uint8_t *bytes = NULL;
    uint64_t size;
    int status = -1;

    wal_segment_path(wal, first_index, path);
    if (disk->open(disk->context, path, DISK_OPEN_READ, &file, err) != 0)
        return -1;
    if (disk->size(file, &size, err) != 0)
        goto out;
    /* A file that somebody else put there must not take all memory. */
    if (size > SEGMENT_FILE_MAX_BYTES) {
        err_set(err, ERR_CORRUPT,
                "%s has %" PRIu64 " bytes, at most %d are ever written; remove the member and add "
                "it under a new id with an empty folder",
                path, size, SEGMENT_FILE_MAX_BYTES);
        goto out;
    }
    if (size > most)
        size = most;
    bytes = check_alloc(size);
    if (disk->read(file, 0, bytes, size, ret_length, err) != 0) {
        err_wrap(err, "%s", path);
        free(bytes);
        goto out;
    }
    *ret_bytes = bytes;
    status = 0;
out:
    disk->close(file);
    return status;
}

/* ---- open ---- */

struct found_segments {
    uint64_t *first;
    size_t count;
};

/* The whole name must fit: tmp-wal-* are no segments. */
static void found_add(void *data, const char *name)
{
    struct found_segments *found = data;
    uint64_t first;
    int used = 0;

    if (strlen(name) != 20 || sscanf(name, "wal-%16" SCNx64 "%n", &first, &used) != 1 || used != 20)
        return;
    found->first = check_realloc(found->first, found->count + 1, sizeof(*found->first));
    found->first[found->count++] = first;
}

static int compare_index(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The last segment must reach what was synced once. */
static int end_check(const struct wal *wal, const struct wal_segment *segment, const char *path,
                     struct err *err)
{
    if (segment->last_index >= wal->mark.index)
        return 0;
    return err_set(
        err, ERR_CORRUPT,
        "%s offset %" PRIu64 ": the log ends with record %" PRIu64 ", but up to %" PRIu64
        " it had been synced: its end was zeroed, or a file of it removed, and acknowledged "
        "data with it; remove the member and add it under a new id with an empty folder",
        path, segment->used_bytes, segment->last_index, wal->mark.index);
}

/* After a failed sync the system keeps in memory what it could not write, calls it clean, and shows
 * it to whoever reads: before anything is built on these bytes they are written again. The same
 * bytes, so whatever is torn was right before and is right then. */
static int tail_rewrite(struct wal *wal, const uint8_t *bytes, size_t used, const char *path,
                        struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;

    if (disk->open(disk->context, path, DISK_OPEN_WRITE, &wal->tail, err) != 0)
        return -1;
    return folder_fill(wal->folder, wal->tail, path, bytes, used, err) == 0
               ? 0
               : err_wrap(err, "write again");
}

/* Appends one verified segment to wal->segments. */
static int segment_recover(struct wal *wal, uint64_t first_index, bool is_last, struct err *err)
{
    char path[FOLDER_PATH_BYTES];
    struct wal_segment segment = {0};
    bool torn = false;
    uint8_t *bytes;
    size_t length;
    int status;

    wal_segment_path(wal, first_index, path);
    if (wal_segment_load(wal, first_index, UINT64_MAX, &bytes, &length, err) != 0)
        return -1;
    status = wal_segment_scan(&(struct wal_image){bytes, length, path, is_last}, NULL, &segment,
                              &torn, err);
    if (status == 0 && length < wal->segment_bytes)
        status =
            err_set(err, ERR_CORRUPT,
                    "%s has %zu bytes of %" PRIu64 ": it was cut, and acknowledged data with it; "
                    "remove the member and add it under a new id with an empty folder",
                    path, length, wal->segment_bytes);
    if (status == 0 && segment.first_index != first_index)
        status = err_set(err, ERR_CORRUPT,
                         "%s says it begins at record %" PRIu64
                         ": it was renamed or copied; remove the member and add it under a new id "
                         "with an empty folder",
                         path, segment.first_index);
    if (status == 0 && is_last)
        status = end_check(wal, &segment, path, err);
    /* Never acknowledged; gone for good before anything is written after it. */
    if (status == 0 && is_last && torn)
        status = wal_segment_replace(wal, first_index, bytes, segment.used_bytes, err);
    else if (status == 0 && is_last)
        status = tail_rewrite(wal, bytes, segment.used_bytes, path, err);
    free(bytes);
    if (status != 0)
        return -1;
    wal->segments = check_realloc(wal->segments, wal->segment_count + 1, sizeof(*wal->segments));
    wal->segments[wal->segment_count++] = segment;
    return 0;
}

/* A snapshot was installed, an empty segment follows it, and the member died before the older ones
 * were removed. */
static int reset_was_cut_short(const struct wal *wal, bool *ret_was, struct err *err)
{
    const struct wal_segment *last = &wal->segments[wal->segment_count - 1];
    struct snapshot_name newest;
    size_t count;

    if (snapshot_list(wal->folder, &newest, 1, &count, err) != 0)
        return -1;
    *ret_was =
        last->last_index + 1 == last->first_index && count > 0 && newest.index == last->last_index;
    return 0;
}

static int gap_refuse(const struct wal *wal, size_t i, uint64_t next_first, struct err *err)
{
    char path[FOLDER_PATH_BYTES];

    return err_set(err, ERR_CORRUPT,
                   "%s offset %" PRIu64 ": record %" PRIu64
                   " is damaged or missing, the next segment begins at %" PRIu64
                   "; remove the member and add it under a new id with an empty folder",
                   wal_segment_path(wal, wal->segments[i].first_index, path),
                   wal->segments[i].used_bytes, wal->segments[i].last_index + 1, next_first);
}

/* The names show a gap before anything is read of the later segment. Only before the last one a gap
 * may be right: a reset that was cut short. */
static int segments_recover(struct wal *wal, const struct found_segments *found, struct err *err)
{
    for (size_t i = 0; i < found->count; i++) {
        bool is_last = i + 1 == found->count;
        bool reset = false, gap = i > 0 && wal->segments[i - 1].last_index + 1 != found->first[i];
        if (gap && !is_last)
            return gap_refuse(wal, i - 1, found->first[i], err);
        if (segment_recover(wal, found->first[i], is_last, err) != 0)
            return -1;
        if (gap && reset_was_cut_short(wal, &reset, err) != 0)
            return -1;
        if (gap)
            return reset ? wal_drop_all_but_last(wal, err)
                         : gap_refuse(wal, i - 1, found->first[i], err);
    }
    return 0;
}

int wal_recover(struct wal *wal, struct err *err)
{
    struct found_segments found = {NULL, 0};
    const struct disk_ops *disk = wal->folder->disk;
    int status = disk->list_dir(disk->context, wal->folder->path, found_add, &found, err);

    if (status == 0 && found.count > WAL_SEGMENTS_MAX)
        status = err_set(err, ERR_CORRUPT,
                         "%s holds %zu log segments, at most %d are kept; remove the member and "
                         "add it under a new id with an empty folder",
                         wal->folder->path, found.count, WAL_SEGMENTS_MAX);
    /* The identity is written when the log is there: a member without segments has lost them. */
    if (status == 0 && found.count == 0 && wal->folder->claimed)
        status =
            err_set(err, ERR_CORRUPT,
                    "%s holds no log segment (wal-*): files are missing; remove the member and "
                    "add it under a new id with an empty folder",
                    wal->folder->path);
    if (status == 0 && found.count > 0) {
        qsort(found.first, found.count, sizeof(*found.first), compare_index);
        status = segments_recover(wal, &found, err);
    }
    free(found.first);
    return status;
}

int wal_walk(struct wal *wal,
             int (*visit)(void *data, const struct wal_record *record, struct err *err), void *data,
             struct err *err)
{
    CHECK(wal != NULL);
    for (size_t i = 0; i < wal->segment_count; i++) {
        struct wal_segment segment;
        char path[FOLDER_PATH_BYTES];
        uint8_t *bytes;
        size_t length;
        bool torn;
        int status;
        /* what follows was looked at when the log was opened, or is not written yet */
        if (wal_segment_load(wal, wal->segments[i].first_index, wal->segments[i].used_bytes, &bytes,
                             &length, err) != 0)
            return -1;
        wal_segment_path(wal, wal->segments[i].first_index, path);
        status =
            wal_segment_scan(&(struct wal_image){bytes, length, path, i + 1 == wal->segment_count},
                             &(struct wal_visitor){visit, data}, &segment, &torn, err);
        free(bytes);
        if (status != 0)
            return -1;
    }
    return 0;
}
