/* The files of the snapshot store: names, headers, verification, retention. See snapshot.h. */
#include "raft/snap/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/snap/snapshot_format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

/* A file is verified in pieces: it may be larger than the memory that is left. */
enum { VERIFY_CHUNK_BYTES = 1 << 20, NAMES_MAX = 256 };

static const char header_magic[8] = "CKPTSNAP";
static const char trailer_magic[8] = "CKPTSEND";

void snapshot_meta_close(struct snapshot_meta *meta)
{
    raft_configuration_close(&meta->configuration);
    raft_configuration_init(&meta->configuration);
}

int snapshot_configuration_copy(const struct raft_configuration *from,
                                struct raft_configuration *ret_to)
{
    raft_configuration_init(ret_to);
    for (unsigned i = 0; i < from->n; i++)
        if (raft_configuration_add(ret_to, from->servers[i].id, from->servers[i].address,
                                   from->servers[i].role) != 0) {
            raft_configuration_close(ret_to);
            raft_configuration_init(ret_to);
            return -1;
        }
    return 0;
}

char *snapshot_path(const struct folder *folder, uint64_t index, uint64_t term,
                    char text[FOLDER_PATH_BYTES])
{
    char name[FOLDER_NAME_BYTES];

    CHECK(folder != NULL);
    snprintf(name, sizeof(name), "snapshot-%016" PRIx64 "-%016" PRIx64, index, term);
    return folder_path(folder, name, text);
}

/* ---- header and trailer ---- */

void snapshot_header_encode(const struct snapshot_meta *meta, struct buf *buf)
{
    CHECK(meta != NULL);
    CHECK(buf->length == 0); /* the length and the checksum below count from its beginning */
    buf_append(buf, header_magic, 8);
    buf_put(buf, SNAPSHOT_VERSION, 4);
    buf_put(buf, 0, 4); /* its length, below */
    buf_put(buf, meta->index, 8);
    buf_put(buf, meta->term, 8);
    buf_put(buf, meta->configuration_index, 8);
    buf_put(buf, meta->configuration.n, 4);
    for (unsigned i = 0; i < meta->configuration.n; i++) {
        const struct raft_server *server = &meta->configuration.servers[i];
        buf_put(buf, server->id, 8);
        buf_put(buf, (uint64_t)server->role, 1);
        buf_put(buf, strlen(server->address), 2);
        buf_append(buf, server->address, strlen(server->address));
    }
    bytes_put(buf->bytes + 12, buf->length + 4, 4);
    buf_put(buf, crc32c(0, buf->bytes, buf->length), 4);
    CHECK(buf->length <= SNAPSHOT_HEADER_MAX_BYTES);
}

/* raft_configuration_add() refuses an id or address that is there twice, but takes a text of any
 * length: an address that our own buffers do not hold is refused here. */
static int servers_decode(struct bytes_reader *reader, size_t count,
                          struct raft_configuration *configuration)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t id = reader_get(reader, 8);
        int role = (int)reader_get(reader, 1);
        size_t length = reader_get(reader, 2);
        const uint8_t *text = reader_take(reader, length);
        char address[CONSENSUS_ADDRESS_BYTES];
        if (reader->failed || length >= sizeof(address) || id == 0)
            return -1;
        memcpy(address, text, length);
        address[length] = '\0';
        if (raft_configuration_add(configuration, id, address, role) != 0)
            return -1;
    }
    return 0;
}

int snapshot_header_decode(const uint8_t *bytes, size_t length, const char *path,
                           struct snapshot_meta *ret_meta, size_t *ret_length, struct err *err)
{
    struct bytes_reader reader = {bytes, length, false};
    const uint8_t *magic = reader_take(&reader, 8);
    uint64_t version = reader_get(&reader, 4), header_length = reader_get(&reader, 4), count;
    struct snapshot_meta meta;

    CHECK(bytes != NULL);
    CHECK(path != NULL);
    /* The checksum comes before the version: a rotten version would send the operator to look for
     * another build. 48 bytes are a header without members. */
    if (reader.failed || memcmp(magic, header_magic, 8) != 0 || header_length > length ||
        header_length < 48 ||
        crc32c(0, bytes, header_length - 4) != bytes_get(bytes + header_length - 4, 4))
        return err_set(err, ERR_CORRUPT, "%s offset 0: snapshot header is damaged", path);
    if (version != SNAPSHOT_VERSION)
        return err_set(err, ERR_MISMATCH,
                       "%s has version %" PRIu64
                       ", this program reads %d: start the build of ckptd "
                       "that wrote it, or a later one",
                       path, version, SNAPSHOT_VERSION);
    meta.index = reader_get(&reader, 8);
    meta.term = reader_get(&reader, 8);
    meta.configuration_index = reader_get(&reader, 8);
    count = reader_get(&reader, 4);
    raft_configuration_init(&meta.configuration);
    if (meta.index == 0 || meta.term == 0 || meta.configuration_index > meta.index || count == 0 ||
        count > CONSENSUS_MEMBERS_MAX || servers_decode(&reader, count, &meta.configuration) != 0) {
        snapshot_meta_close(&meta);
        return err_set(err, ERR_CORRUPT, "%s offset 0: snapshot header makes no sense", path);
    }
    *ret_meta = meta;
    *ret_length = header_length;
    return 0;
}

void snapshot_trailer_encode(uint64_t frame_bytes, uint32_t crc,
                             uint8_t bytes[SNAPSHOT_TRAILER_BYTES])
{
    memcpy(bytes, trailer_magic, 8);
    bytes_put(bytes + 8, frame_bytes, 8);
    bytes_put(bytes + 16, 0, 4);
    bytes_put(bytes + 20, crc, 4);
    bytes_put(bytes + 24, crc32c(0, bytes, 24), 4);
}

/* ---- verification ---- */

int snapshot_read_at(const struct snapshot_source *source, uint64_t offset,
                     struct snapshot_bytes into, size_t *ret_length, struct err *err)
{
    CHECK(source != NULL);
    CHECK(into.bytes != NULL);
    if (source->disk->read(source->file, offset, into.bytes, into.length, ret_length, err) != 0)
        return err_wrap(err, "%s offset %" PRIu64, source->path, offset);
    return 0;
}

/* A frame length that fits the size of the file finds a file that lacks bytes in its middle, which
 * magic and checksum of the trailer alone do not. */
static int trailer_check(const uint8_t trailer[SNAPSHOT_TRAILER_BYTES], size_t length,
                         uint64_t frame_bytes, const char *path, struct err *err)
{
    if (length == SNAPSHOT_TRAILER_BYTES && memcmp(trailer, trailer_magic, 8) == 0 &&
        bytes_get(trailer + 24, 4) == crc32c(0, trailer, 24) &&
        bytes_get(trailer + 8, 8) == frame_bytes)
        return 0;
    return err_set(err, ERR_CORRUPT, "%s: snapshot is cut short or its trailer is damaged", path);
}

int snapshot_open(const struct folder *folder, const char *path, struct snapshot_opened *ret_opened,
                  struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    struct snapshot_source source = {disk, NULL, path};
    uint8_t header[SNAPSHOT_HEADER_MAX_BYTES], trailer[SNAPSHOT_TRAILER_BYTES];
    size_t header_read, header_length, trailer_read;
    struct snapshot_meta meta;
    uint64_t size, trailer_at;

    if (disk->open(disk->context, path, DISK_OPEN_READ, &source.file, err) != 0)
        return -1;
    if (disk->size(source.file, &size, err) != 0 ||
        snapshot_read_at(&source, 0, (struct snapshot_bytes){header, sizeof(header)}, &header_read,
                         err) != 0 ||
        snapshot_header_decode(header, header_read, path, &meta, &header_length, err) != 0) {
        disk->close(source.file);
        return -1;
    }
    /* A file that is too short for both gives a short read here, and so the error of a short
     * file. */
    trailer_at = size < header_length + sizeof(trailer) ? header_length : size - sizeof(trailer);
    if (snapshot_read_at(&source, trailer_at, (struct snapshot_bytes){trailer, sizeof(trailer)},
                         &trailer_read, err) != 0 ||
        trailer_check(trailer, trailer_read, trailer_at - header_length, path, err) != 0) {
        disk->close(source.file);
        snapshot_meta_close(&meta);
        return -1;
    }
    *ret_opened =
        (struct snapshot_opened){source.file, meta, header_length, bytes_get(trailer + 8, 8),
                                 (uint32_t)bytes_get(trailer + 20, 4)};
    return 0;
}

int snapshot_verify(const struct folder *folder, const char *path, struct snapshot_meta *ret_meta,
                    struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    struct snapshot_opened opened;
    struct snapshot_source source;
    uint64_t at = 0;
    uint32_t got = 0;
    uint8_t *chunk;
    size_t length;
    int status = 0;

    CHECK(path != NULL);
    if (snapshot_open(folder, path, &opened, err) != 0)
        return -1;
    source = (struct snapshot_source){disk, opened.file, path};
    chunk = check_alloc(VERIFY_CHUNK_BYTES);
    while (status == 0 && at < opened.bytes) {
        uint64_t left = opened.bytes - at;
        size_t want = left < VERIFY_CHUNK_BYTES ? left : VERIFY_CHUNK_BYTES;
        status = snapshot_read_at(&source, opened.begin + at, (struct snapshot_bytes){chunk, want},
                                  &length, err);
        if (status == 0 && length != want)
            status = err_set(err, ERR_CORRUPT, "%s is cut short", path);
        if (status == 0)
            got = crc32c(got, chunk, want);
        at += want;
    }
    free(chunk);
    disk->close(opened.file);
    if (status == 0 && got != opened.crc)
        status = err_set(err, ERR_CORRUPT, "%s offset %" PRIu64 ": snapshot content is damaged",
                         path, opened.begin);
    if (status != 0 || ret_meta == NULL)
        snapshot_meta_close(&opened.meta);
    else
        *ret_meta = opened.meta;
    return status;
}

/* ---- the folder ---- */

struct listing {
    struct snapshot_name names[NAMES_MAX];
    size_t count;
};

/* The whole name must fit: the temporary and the damaged ones of the folder look alike. */
static void listing_add(void *data, const char *name)
{
    struct listing *listing = data;
    struct snapshot_name found;
    int used = 0;

    if (listing->count == NAMES_MAX || strlen(name) != 42 ||
        sscanf(name, "snapshot-%16" SCNx64 "-%16" SCNx64 "%n", &found.index, &found.term, &used) !=
            2 ||
        used != 42)
        return;
    listing->names[listing->count++] = found;
}

static int newest_first(const void *a, const void *b)
{
    const struct snapshot_name *x = a, *y = b;

    if (x->index != y->index)
        return x->index > y->index ? -1 : 1;
    return x->term > y->term ? -1 : x->term < y->term;
}

int snapshot_list(const struct folder *folder, struct snapshot_name *ret_names, size_t max,
                  size_t *ret_count, struct err *err)
{
    struct listing listing = {.count = 0};

    CHECK(folder != NULL);
    if (folder->disk->list_dir(folder->disk->context, folder->path, listing_add, &listing, err) !=
        0)
        return -1;
    qsort(listing.names, listing.count, sizeof(listing.names[0]), newest_first);
    *ret_count = listing.count < max ? listing.count : max;
    memcpy(ret_names, listing.names, *ret_count * sizeof(*ret_names));
    return 0;
}

/* The order is what a crash at any point must find: content synced before it has the name of a
 * snapshot, the name durable before an older one goes. At every moment at least one whole snapshot
 * is there under its name. */
int snapshot_keep_work(const struct folder *folder, const char *temporary, uint64_t index,
                       uint64_t term, struct err *err)
{
    const struct disk_ops *disk = folder->disk;
    struct snapshot_name names[NAMES_MAX];
    char from[FOLDER_PATH_BYTES], to[FOLDER_PATH_BYTES];
    struct disk_file *file;
    uint64_t size = 0;
    size_t count;
    int status;

    CHECK(temporary != NULL);
    folder_path(folder, temporary, from);
    if (disk->open(disk->context, from, DISK_OPEN_WRITE, &file, err) != 0)
        return -1;
    status = disk->sync(file, err);
    if (status != 0) {
        (void)disk->size(file, &size, NULL);
        err_wrap(err, "%s up to offset %" PRIu64, from, size);
    }
    disk->close(file);
    if (status != 0 ||
        disk->rename(disk->context, from, snapshot_path(folder, index, term, to), err) != 0 ||
        disk->sync_dir(disk->context, folder->path, err) != 0 ||
        snapshot_list(folder, names, NAMES_MAX, &count, err) != 0)
        return err_wrap(err, "keep %s", snapshot_path(folder, index, term, to));
    for (size_t i = SNAPSHOTS_KEPT; i < count; i++)
        if (disk->unlink(disk->context, snapshot_path(folder, names[i].index, names[i].term, to),
                         err) != 0)
            return err_wrap(err, "remove %s", to);
    return 0;
}
