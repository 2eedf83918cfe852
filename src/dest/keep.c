/* See keep.h. */
#include "src/dest/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/copy.h"
#include "src/dest/fault.h"

enum { NAME_BYTES = 256 };

struct kept {
    char name[NAME_BYTES];
    uint64_t size_bytes;
};

/* ---- the new file ---- */

static int copy_in(int folder, const char *part, const char *source, uint64_t *ret_bytes,
                   struct err *err)
{
    uint8_t written[SHA256_BYTES], found[SHA256_BYTES];
    struct copier copier;
    struct pace pace;
    uint64_t read_back = 0;
    int from, to, status;

    from = open(source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return fault_set(err, "open", source);
    to = openat(folder, part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0) {
        fault_set(err, "create", part);
        close(from);
        return -1;
    }
    pace_init(&pace, 0);
    copier_init(&copier, &pace);
    status = copy_file(&copier, (struct copy_end){from, source}, (struct copy_end){to, part},
                       ret_bytes, written, err);
    if (status == 0 && fsync(to) != 0)
        status = fault_set(err, "sync", part);
    if (status == 0 && lseek(to, 0, SEEK_SET) != 0)
        status = fault_set(err, "read back", part);
    if (status == 0)
        status = copy_file(&copier, (struct copy_end){to, part}, (struct copy_end){-1, NULL},
                           &read_back, found, err);
    if (status == 0 && (read_back != *ret_bytes || memcmp(written, found, SHA256_BYTES) != 0))
        status =
            err_set(err, ERR_CORRUPT,
                    "%s was read back as something else than was written: check that disk", part);
    copier_close(&copier);
    pace_close(&pace);
    close(from);
    if (close(to) != 0 && status == 0)
        status = fault_set(err, "close", part);
    return status;
}

/* ---- the old ones ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kept *)a)->name, ((const struct kept *)b)->name);
}

/* Oldest first. Killed copies of the series are removed on the way. */
static int list_series(int folder, const char *prefix, struct kept **ret_files, size_t *ret_count,
                       struct err *err)
{
    int duplicate = dup(folder);
    DIR *dir = duplicate < 0 ? NULL : fdopendir(duplicate);
    struct kept *files = NULL;
    struct dirent *entry;
    size_t count = 0;

    if (dir == NULL)
        return fault_set(err, "read", "the folder of backups");
    rewinddir(dir);
    while ((entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        struct stat status;
        if (name[0] == '.' && strncmp(name + 1, prefix, strlen(prefix)) == 0)
            (void)unlinkat(folder, name, 0);
        if (strncmp(name, prefix, strlen(prefix)) != 0 || strlen(name) >= NAME_BYTES ||
            fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        files = check_realloc(files, count + 1, sizeof(*files));
        memcpy(files[count].name, name, strlen(name) + 1);
        files[count++].size_bytes = (uint64_t)status.st_size;
    }
    closedir(dir);
    if (count > 0)
        qsort(files, count, sizeof(*files), by_name);
    *ret_files = files;
    *ret_count = count;
    return 0;
}

/* Whatever its name says: the clock may be behind those that named the others. */
static void new_one_last(struct kept *files, size_t count, const char *name)
{
    for (size_t i = 0; i + 1 < count; i++) {
        struct kept next = files[i + 1];

        if (strcmp(files[i].name, name) == 0) {
            files[i + 1] = files[i];
            files[i] = next;
        }
    }
}

/* Names sort by age, since they hold the time; the new one counts as the newest whatever it is
 * called. */
static int remove_oldest(int folder, const struct keep_request *request,
                         struct keep_summary *summary, struct err *err)
{
    struct kept *files = NULL;
    size_t count = 0, first = 0;
    uint64_t bytes = 0;
    int status = 0;

    if (list_series(folder, request->prefix, &files, &count, err) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        bytes += files[i].size_bytes;
    new_one_last(files, count, request->name);
    while (status == 0 && first + 1 < count &&
           (count - first > request->keep ||
            (request->keep_bytes != 0 && bytes > request->keep_bytes))) {
        if (unlinkat(folder, files[first].name, 0) != 0 && errno != ENOENT)
            status = fault_set(err, "remove", files[first].name);
        bytes -= files[first++].size_bytes;
    }
    summary->removed = first;
    summary->kept = count - first;
    free(files);
    return status;
}

int keep_file(const struct keep_request *request, struct keep_summary *ret_summary, struct err *err)
{
    struct keep_summary summary = {0};
    char part[NAME_BYTES + 8];
    int folder, status;

    if (strlen(request->name) >= NAME_BYTES || strchr(request->name, '/') != NULL ||
        strncmp(request->name, request->prefix, strlen(request->prefix)) != 0 ||
        request->prefix[0] == '.' || request->prefix[0] == '\0' || request->keep == 0)
        return err_set(err, ERR_INVALID, "--name must begin with --prefix and hold no slash");
    folder = open(request->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return fault_set(err, "open", request->folder);
    snprintf(part, sizeof(part), ".%s.part", request->name);
    status = copy_in(folder, part, request->source, &summary.size_bytes, err);
    if (status == 0 && renameat(folder, part, folder, request->name) != 0)
        status = fault_set(err, "rename to", request->name);
    if (status == 0 && fsync(folder) != 0)
        status = fault_set(err, "sync", request->folder);
    if (status != 0)
        (void)unlinkat(folder, part, 0); /* its space is wanted back */
    else
        status = remove_oldest(folder, request, &summary, err);
    close(folder);
    if (status == 0)
        *ret_summary = summary;
    return status;
}
