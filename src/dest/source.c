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

/* More than a tick of the kernel's clock of changes; what a file system of FAT's age rounds to. */
enum { TICK_US = 20000, TICK_MAX_US = 2000000, LOOK_US = 1000 };

/* What the file system rounds its stamps to, as far as the latest one shows: none ends in zeros by
 * chance that matters, and then the wait is longer than it need be. */
static int64_t tick_of(int64_t changed_us)
{
    int64_t tick_us = TICK_US;

    for (int64_t step_us = 100000; step_us <= 1000000; step_us *= 10)
        if (changed_us % step_us == 0)
            tick_us = step_us < 1000000 ? step_us : TICK_MAX_US;
    return tick_us;
}

static int64_t clock_of_changes_us(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0); /* what the kernel stamps files with */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_us(int64_t us)
{
    struct timespec wait = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

/* A second change within the same tick would not be seen, but by a kernel that gives it another
 * stamp since the file was listed. Where stamps are of this machine's clock
 * they differ as soon as that has passed the latest one, which most often it has. A server's clock
 * is not this machine's: there, and where stamps are rounded, for a whole tick. */
static void await_tick(int fd, int64_t changed_us)
{
    const int64_t tick_us = tick_of(changed_us);
    int64_t waited_us = 0;

    CHECK(tick_us >= TICK_US);
    CHECK(tick_us <= TICK_MAX_US);
    if (tick_us > TICK_US || !tree_is_local(fd)) {
        sleep_us(tick_us);
        return;
    }
    if (tree_stamps_each(fd))
        return;
    for (; waited_us < tick_us && clock_of_changes_us() <= changed_us; waited_us += LOOK_US)
        sleep_us(LOOK_US);
}

/* What the application has closed to its own user is no fault of the destination's, and whoever
 * runs that could not mend it. Neither is what no checkpoint holds: the same files would be refused
 * again. */
static int source_failed(const struct err *why, struct err *err)
{
    if (why->code == ERR_AUTH)
        return err_set(err, ERR_UNFIT,
                       "%s: the application made it so that its own user cannot read it",
                       why->text);
    return err_set(err, why->code == ERR_REFUSED ? ERR_UNFIT : why->code, "%s", why->text);
}

int source_list(int fd, const char *source, struct manifest *ret_manifest, struct err *err)
{
    struct err why = {0};

    if (tree_list(fd, source, false, ret_manifest, &why) != 0)
        return source_failed(&why, err);
    if (ret_manifest->size_bytes == 0) {
        manifest_close(ret_manifest);
        return err_set(err, ERR_EMPTY,
                       "%s holds no bytes: an empty checkpoint is never recorded as complete; let "
                       "the application write its files there before it says done",
                       source);
    }
    await_tick(fd, ret_manifest->changed_us);
    return 0;
}

/* It is looked at as a whole before a byte is written. */
int source_open(const char *source, struct manifest *ret_manifest, struct err *err)
{
    int fd = open(source, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    struct err why = {0};

    if (fd < 0) {
        (void)fault_set(&why, "open source", source);
        return source_failed(&why, err);
    }
    if (source_list(fd, source, ret_manifest, err) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The copied bytes may be half of one state and half of another. */
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
                                       : source_failed(&local, err);
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
    struct err why = {0};

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
    if (manifest_links_compare(before, now, &why) != 0)
        return source_changed("a symbolic link", "was changed", err);
    return 0;
}

static int check_again(int source, const char *label, bool in_shard, const struct manifest *listed,
                       struct err *err)
{
    struct err why = {0};
    struct manifest now;
    int result;

    if (tree_list(source, label, in_shard, &now, &why) != 0)
        return source_failed(&why, err);
    result = compare_sources(listed, &now, err);
    manifest_close(&now);
    return result;
}

/* A file that was read first may have been written since, while the rest was read. */
int source_check(int source, const char *label, const struct manifest *listed, struct err *err)
{
    return check_again(source, label, false, listed, err);
}

int source_check_shard(int shard, const char *label, const struct manifest *listed, struct err *err)
{
    return check_again(shard, label, true, listed, err);
}
