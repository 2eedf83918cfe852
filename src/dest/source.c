/* What was written after the application had said done is found. See source.h. */
#include "src/dest/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/tree.h"

/* More than a tick of the kernel's clock of changes. */
enum { TICK_US = 20000 };

/* A second change within the same tick would not be seen. */
static void await_tick(int64_t changed_us)
{
    struct timespec now, wait;
    int64_t since_us;

    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    since_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - changed_us;
    if (since_us >= TICK_US)
        return;
    wait = (struct timespec){0, (since_us < 0 ? TICK_US : TICK_US - since_us) * 1000};
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

/* It is looked at as a whole before a byte is written. */
int source_open(const char *source, struct manifest *ret_manifest, struct err *err)
{
    int fd = open(source, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return fault_set(err, "open source", source);
    if (tree_list(fd, source, false, ret_manifest, err) != 0)
        goto fail;
    if (ret_manifest->size_bytes == 0) {
        manifest_close(ret_manifest);
        err_set(err, ERR_EMPTY,
                "%s holds no bytes: an empty checkpoint is never recorded as complete; let the "
                "application write its files there before it says done",
                source);
        goto fail;
    }
    await_tick(ret_manifest->changed_us);
    return fd;
fail:
    close(fd);
    return -1;
}

/* What was copied may be half of one state and half of another. */
static int source_changed(const char *path, const char *how, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "%s %s after the application had said done; let each rank end all its writes, "
                   "with msync() of what it has mapped, before it says done",
                   path, how);
}

int source_open_file(int source, const char *label, const struct manifest_entry *entry,
                     struct err *err)
{
    struct err local = {0};
    int fd = tree_open_file(source, entry->path, label, &local);

    if (fd >= 0)
        return fd;
    return local.code == ERR_NOT_FOUND ? source_changed(entry->path, "went away", err)
                                       : err_set(err, local.code, "%s", local.text);
}

int source_check_file(int fd, const struct manifest_entry *entry, struct err *err)
{
    struct stat status;

    if (fstat(fd, &status) == 0 && tree_stamp(&status) == entry->stamp)
        return 0;
    return source_changed(entry->path, "was written", err);
}

/* Both are sorted. */
static int compare_sources(const struct manifest *before, const struct manifest *now,
                           struct err *err)
{
    for (size_t i = 0; i < before->count || i < now->count; i++) {
        const struct manifest_entry *was = i < before->count ? &before->entries[i] : NULL;
        const struct manifest_entry *is = i < now->count ? &now->entries[i] : NULL;
        int order = was == NULL ? 1 : is == NULL ? -1 : strcmp(was->path, is->path);

        if (order < 0)
            return source_changed(was->path, "went away", err);
        if (order > 0)
            return source_changed(is->path, "came", err);
        if (was->stamp != is->stamp)
            return source_changed(was->path, "was written", err);
    }
    return 0;
}

/* What was read first may have been written since, while the rest was read. */
int source_check(int source, const char *label, const struct manifest *listed, struct err *err)
{
    struct manifest now;
    int result;

    if (tree_list(source, label, false, &now, err) != 0)
        return -1;
    result = compare_sources(listed, &now, err);
    manifest_close(&now);
    return result;
}
