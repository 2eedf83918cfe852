/* One shard: a folder with files and their MANIFEST. See shard.h. */
#include "src/dest/posix/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/tree.h"

int shard_open(int folder, const char *name, const char *label, struct err *err)
{
    int fd = tree_open_beneath(folder, name, O_RDONLY | O_DIRECTORY, 0);

    return fd >= 0 ? fd : fault_set(err, "open shard", label);
}

static int read_all(int fd, const char *path, struct buf *text, struct err *err)
{
    for (;;) {
        size_t before = text->length;
        ssize_t got = read(fd, buf_extend(text, 1 << 16), 1 << 16);
        text->length = before + (got > 0 ? (size_t)got : 0);
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return fault_set(err, "read", path);
        if (text->length > MANIFEST_MAX_BYTES)
            return err_set(err, ERR_CORRUPT, "%s is over %d bytes", path, MANIFEST_MAX_BYTES);
    }
}

int shard_read_manifest(int shard, const char *label, struct buf *ret_text,
                        struct manifest *ret_manifest, struct err *err)
{
    struct err local = {0};
    int result;
    int fd = tree_open_file(shard, MANIFEST_NAME, label, &local);

    if (fd < 0) {
        bool absent = local.code == ERR_NOT_FOUND || local.code == ERR_REFUSED;
        return err_set(err, absent ? ERR_CORRUPT : local.code, "%s: the shard has no manifest: %s",
                       label, local.text);
    }
    result = read_all(fd, label, ret_text, err);
    close(fd);
    if (result == 0 && manifest_parse(ret_text->bytes, ret_text->length, ret_manifest, err) != 0)
        result = err_wrap(err, "%s", label);
    return result;
}

int shard_read_file(struct copier *copier, struct copy_end from, struct copy_end to,
                    const struct manifest_entry *entry, struct err *err)
{
    uint8_t digest[SHA256_BYTES];
    struct copy_range range = {0, 0};
    struct stat status;

    if (fstat(from.fd, &status) != 0)
        return fault_set(err, "fstat", from.path);
    if ((uint64_t)status.st_size != entry->size_bytes)
        return err_set(err, ERR_CORRUPT, "%s has %" PRIu64 " bytes, the manifest says %" PRIu64,
                       from.path, (uint64_t)status.st_size, entry->size_bytes);
    for (size_t i = 0; i == 0 || i < entry->chunk_count; i++) {
        range.offset += range.length;
        range.length = manifest_chunk_bytes(entry, i);
        if (copy_range(copier, from, to, range, digest, err) != 0)
            return -1;
        if (memcmp(digest, manifest_chunk_hash(entry, i), SHA256_BYTES) != 0)
            return err_set(err, ERR_CORRUPT,
                           "%s is not what was written: the %" PRIu64 " bytes at %" PRIu64
                           " do not match the SHA-256 in the manifest",
                           from.path, range.length, range.offset);
    }
    return 0;
}

static int check_file(int shard, const char *label, const struct manifest_entry *entry,
                      struct copier *copier, struct err *err)
{
    int result;
    int fd = tree_open_file(shard, entry->path, label, err);

    if (fd < 0)
        return -1;
    /* a wish: where it is not granted the page cache is checked, which is better than nothing */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    result = shard_read_file(copier, (struct copy_end){fd, entry->path},
                             (struct copy_end){-1, NULL}, entry, err);
    close(fd);
    return result == 0 ? 0 : err_wrap(err, "%s", label);
}

int shard_check_files(int shard, const char *label, const struct manifest *manifest,
                      struct copier *copier, struct err *err)
{
    for (size_t i = 0; i < manifest->count; i++) {
        if (!manifest->entries[i].is_directory &&
            check_file(shard, label, &manifest->entries[i], copier, err) != 0)
            return -1;
    }
    return 0;
}

int shard_check_listing(int shard, const char *label, bool in_shard,
                        const struct manifest *manifest, struct err *err)
{
    struct manifest found;
    int result;

    if (tree_list(shard, label, in_shard, &found, err) != 0)
        return -1;
    result = manifest_compare(manifest, &found, err);
    manifest_close(&found);
    return result == 0 ? 0 : err_wrap(err, "%s", label);
}

/* Entries ascend by path, so from the end on contents come before their folder. */
int shard_sync_folders(int shard, const char *label, const struct manifest *manifest,
                       struct err *err)
{
    for (size_t i = manifest->count; i-- > 0;) {
        const struct manifest_entry *entry = &manifest->entries[i];
        int fd, result;
        if (!entry->is_directory)
            continue;
        fd = tree_open_beneath(shard, entry->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            return fault_set(err, "open folder", entry->path);
        result = tree_sync(fd, entry->path, err);
        close(fd);
        if (result != 0)
            return -1;
    }
    return tree_sync(shard, label, err);
}

void shard_summarize(const struct manifest *manifest, const struct buf *text,
                     struct destination_summary *ret_summary)
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(text->bytes, text->length, digest);
    sha256_format(digest, ret_summary->manifest_sha256);
    ret_summary->size_bytes = manifest->size_bytes;
    ret_summary->file_count = manifest->file_count;
    ret_summary->reused = false;
}
