/* Calls to a member's disk that fail, lie, or are the last that its process makes. Preloaded by
 * disks.py.
 *
 * Flow     $BROKEN_CALLS is a file that the test and the process map: calls of the kinds that are
 *          armed, to files whose path contains a text, are counted; what the test wants befalls
 *          those from `first` to `last`.
 * Shapes   struct control is laid out by disks.py, too.
 * Absent   what goes through stdio, readdir(3) and statvfs(3): the members' folders are read and
 *          written by the calls below.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, SYNCS = 4 };
/* What befalls a call; else the errno with which it fails. */
enum { LIE = 0, KILL_BEFORE = -1, KILL_AFTER = -2, NOTHING = 1 << 30 };

struct control {
    uint32_t kinds;
    int32_t action;
    uint64_t first, last; /* of the calls counted */
    uint64_t count;
    char path[232]; /* a part of it */
};

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static struct control *control;

__attribute__((constructor)) static void control_map(void)
{
    const char *path = getenv("BROKEN_CALLS");
    int fd = path == NULL ? -1 : REAL(open)(path, O_RDWR | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (mapped == MAP_FAILED)
        abort();
    close(fd);
    control = mapped;
}

static int befalls(unsigned kinds, const char *path)
{
    uint64_t number;

    if ((control->kinds & kinds) == 0 || strstr(path, control->path) == NULL)
        return NOTHING;
    number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    if (number < control->first || number > control->last)
        return NOTHING;
    if (control->action == KILL_BEFORE)
        kill(getpid(), SIGKILL);
    return control->action;
}

static int befalls_fd(unsigned kinds, int fd)
{
    char link[64], path[4096];
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return NOTHING;
    path[length] = '\0';
    return befalls(kinds, path);
}

/* The call returns `result` unless something befell it. */
#define AFTER(fate, result, failed)                                                                \
    do {                                                                                           \
        if ((fate) > 0 && (fate) != NOTHING) {                                                     \
            errno = (fate);                                                                        \
            return (failed);                                                                       \
        }                                                                                          \
        __typeof__(result) returned = (result);                                                    \
        if ((fate) == KILL_AFTER)                                                                  \
            kill(getpid(), SIGKILL);                                                               \
        return returned;                                                                           \
    } while (0)

int open(const char *path, int flags, ...)
{
    int fate = (flags & O_CREAT) != 0 ? befalls(WRITES, path) : NOTHING;
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    AFTER(fate, REAL(open)(path, flags, mode), -1);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    int fate = befalls_fd(READS, fd);

    AFTER(fate, REAL(pread)(fd, bytes, length, offset), -1);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    int fate = befalls_fd(WRITES, fd);

    AFTER(fate, REAL(pwrite)(fd, bytes, length, offset), -1);
}

ssize_t pwritev2(int fd, const struct iovec *vectors, int count, off_t offset, int flags)
{
    int fate = befalls_fd(WRITES | SYNCS, fd);

    if (fate == LIE) /* it is written, and not synced */
        return pwritev(fd, vectors, count, offset);
    AFTER(fate, REAL(pwritev2)(fd, vectors, count, offset, flags), -1);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    int fate = befalls_fd(WRITES, fd);

    AFTER(fate, REAL(posix_fallocate)(fd, offset, length), fate);
}

int ftruncate(int fd, off_t length)
{
    int fate = befalls_fd(WRITES, fd);

    AFTER(fate, REAL(ftruncate)(fd, length), -1);
}

int rename(const char *from, const char *to)
{
    int fate = befalls(WRITES, to);

    AFTER(fate, REAL(rename)(from, to), -1);
}

int unlink(const char *path)
{
    int fate = befalls(WRITES, path);

    AFTER(fate, REAL(unlink)(path), -1);
}

int mkdir(const char *path, mode_t mode)
{
    int fate = befalls(WRITES, path);

    AFTER(fate, REAL(mkdir)(path, mode), -1);
}

int fsync(int fd)
{
    int fate = befalls_fd(SYNCS, fd);

    AFTER(fate, fate == LIE ? 0 : REAL(fsync)(fd), -1);
}

int fdatasync(int fd)
{
    int fate = befalls_fd(SYNCS, fd);

    AFTER(fate, fate == LIE ? 0 : REAL(fdatasync)(fd), -1);
}
