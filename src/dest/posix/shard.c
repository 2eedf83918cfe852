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

int shard_check_files(const struct transfer_side *shard, struct manifest *manifest,
                      const struct sample *sample, struct pool *pool, struct err *err)
{
    const struct transfer transfer = {.purpose = TRANSFER_CHECK,
                                      .manifest = manifest,
                                      .from = *shard,
                                      .to = {-1, ""},
                                      .sample = sample};

    return transfer_run(&transfer, pool, err);
}

int shard_check_listing(int shard, const char *label, bool in_shard,
                        const struct manifest *manifest, struct err *err)
{
    struct manifest found;
    int result;

    if (tree_list(shard, label, in_shard, &found, err) != 0)
        return -1;
    result = manifest_compare_stored(manifest, &found, err);
    manifest_close(&found);
    return result == 0 ? 0 : err_wrap(err, "%s", label);
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
    ret_summary->saved_bytes = 0;
}
