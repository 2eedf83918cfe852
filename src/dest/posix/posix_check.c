/* check: a shard or a checkpoint by its folder alone, for people. See posix.h.
 *
 * Flow     a folder with a MANIFEST is a shard; else each folder in it that has one is, as parts of
 *          a checkpoint are. All are read, also behind a damaged one, and each is told with a line.
 * Shapes   a download from an object store lacks links and folders without files: there the
 *          manifest alone has them, and they are forgiven where the caller says so.
 * Errors   ERR_CORRUPT with the number of damaged shards, or with the text of a single one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/dest/fault.h"
#include "src/dest/line.h"
#include "src/dest/names.h"
#include "src/dest/posix/shard.h"
#include "src/dest/tree.h"

struct check {
    const struct destination_check *asked;
    struct pool pool;
    uint64_t whole, damaged;
    struct err first; /* of the first damaged one */
};

/* Only what is missing is made up for: another text of a link stays a difference. */
static int add_missing(const struct manifest *manifest, struct manifest *found, struct err *err)
{
    size_t count = found->count;

    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        const struct manifest listed = {.entries = found->entries, .count = count};

        if (entry->is_directory && manifest_find(&listed, entry->path) == NULL)
            manifest_add(found, entry->path, true);
    }
    if (found->link_count == 0)
        manifest_copy_links(found, manifest);
    return manifest_finish(found, err);
}

static int compare_listing(const struct check *check, int shard, const char *label,
                           const struct manifest *manifest, struct err *err)
{
    struct manifest found;
    int result;

    if (tree_list(shard, label, true, &found, err) != 0)
        return -1;
    result = check->asked->downloaded ? add_missing(manifest, &found, err) : 0;
    if (result == 0)
        result = manifest_compare_stored(manifest, &found, err);
    manifest_close(&found);
    return result == 0 ? 0 : err_wrap(err, "%s", label);
}

static int check_bytes(struct check *check, int shard, const char *label,
                       struct manifest *ret_manifest, struct err *err)
{
    struct buf text = {0};
    int result = shard_read_manifest(shard, label, &text, ret_manifest, err);

    buf_close(&text);
    if (result == 0)
        result = compare_listing(check, shard, label, ret_manifest, err);
    if (result == 0)
        result = shard_check_files(&(struct transfer_side){shard, label}, ret_manifest, NULL,
                                   &check->pool, err);
    return result;
}

static void check_shard(struct check *check, int shard, const char *label)
{
    char told[MANIFEST_PATH_MAX_BYTES + 80];
    struct manifest manifest;
    struct err err = {0};

    manifest_init(&manifest);
    if (check_bytes(check, shard, label, &manifest, &err) == 0) {
        snprintf(told, sizeof(told), "%s: %zu files, %" PRIu64 " bytes", label, manifest.file_count,
                 manifest.size_bytes);
        line_print(check->asked->out, "whole", told);
        check->whole++;
    } else {
        line_print(check->asked->out, "damaged", err.text);
        if (check->damaged++ == 0)
            check->first = err;
    }
    (void)fflush(check->asked->out);
    manifest_close(&manifest);
}

static bool has_manifest(int folder)
{
    return faccessat(folder, MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The folders in it whose names have no leading dot, in the order of bytes. */
static int list_parts(int folder, const char *path, struct names *names, struct err *err)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (directory == NULL) {
        if (fd >= 0)
            close(fd);
        return fault_set(err, "list", path);
    }
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            names_add(names, entry->d_name);
    closedir(directory);
    names_sort(names);
    return 0;
}

/* A folder beside the parts that has no MANIFEST is one that lost it, or nothing of ours. */
static void check_parts(struct check *check, int folder, const char *path,
                        const struct names *names)
{
    char label[MANIFEST_PATH_MAX_BYTES];

    for (size_t i = 0; i < names->count; i++) {
        int fd = tree_open_beneath(folder, names->items[i], O_RDONLY | O_DIRECTORY, 0);

        if (fd < 0)
            continue;
        snprintf(label, sizeof(label), "%s/%s", path, names->items[i]);
        if (has_manifest(fd) || strncmp(names->items[i], "part-", 5) == 0)
            check_shard(check, fd, label);
        close(fd);
    }
}

static int check_end(const struct check *check, const char *path, struct err *err)
{
    if (check->damaged == 1)
        return err_set(err, check->first.code, "%s", check->first.text);
    if (check->damaged > 1)
        return err_set(err, check->first.code, "%" PRIu64 " parts are damaged; the first: %s",
                       check->damaged, check->first.text);
    if (check->whole > 0)
        return 0;
    return err_set(err, ERR_NOT_FOUND,
                   "%s has no MANIFEST, and no folder in it has one: it is neither a checkpoint's "
                   "nor a part's",
                   path);
}

int posix_check(const struct destination_check *asked, struct err *err)
{
    struct check check = {.asked = asked};
    int folder = open(asked->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
    struct names names = {0};

    if (folder < 0)
        return fault_set(err, "open", asked->path);
    pool_init(&check.pool, asked->how->threads, asked->how->rate_bytes_per_s);
    check.pool.pace.of_reading = true;
    if (has_manifest(folder)) {
        check_shard(&check, folder, asked->path);
    } else {
        result = list_parts(folder, asked->path, &names, err);
        if (result == 0)
            check_parts(&check, folder, asked->path, &names);
        names_free(&names);
    }
    pool_close(&check.pool);
    close(folder);
    return result == 0 ? check_end(&check, asked->path, err) : -1;
}
