/* The kinds of an application's inputs. See run_input_kind.h. */
#include "src/agent/run/run_input_kind.h"

#include <linux/magic.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MEMORY_DEVICES = 1 /* null, zero, random, ... */ };

enum input_kind input_kind_of(int fd)
{
    struct statfs system;
    struct stat stat;

    if (isatty(fd))
        return INPUT_TERMINAL;
    if (fstat(fd, &stat) != 0)
        return INPUT_OTHER;
    if (S_ISREG(stat.st_mode) || S_ISBLK(stat.st_mode) || S_ISDIR(stat.st_mode))
        return lseek(fd, 0, SEEK_CUR) >= 0 ? INPUT_FILE : INPUT_OTHER;
    if (S_ISCHR(stat.st_mode) && major(stat.st_rdev) == MEMORY_DEVICES)
        return INPUT_SAME;
    if (S_ISSOCK(stat.st_mode))
        return INPUT_SOCKET;
    if (S_ISFIFO(stat.st_mode) && fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC)
        return INPUT_PIPE;
    return INPUT_OTHER;
}

const char *input_kind_name(enum input_kind kind)
{
    switch (kind) {
    case INPUT_PIPE:
        return "a pipe";
    case INPUT_SOCKET:
        return "a socket";
    case INPUT_FILE:
        return "a file";
    case INPUT_TERMINAL:
        return "a terminal";
    case INPUT_UNKNOWN:
    case INPUT_SAME:
    case INPUT_OTHER:
        break;
    }
    return "a device or a named pipe";
}

bool input_is_stream(enum input_kind kind)
{
    return kind == INPUT_PIPE || kind == INPUT_SOCKET || kind == INPUT_OTHER;
}

struct input_sight input_look(int fd)
{
    struct input_sight sight = {.waiting_bytes = -1};
    struct pollfd poll_of = {.fd = fd, .events = POLLRDHUP};

    sight.ended = poll(&poll_of, 1, 0) == 1 && (poll_of.revents & (POLLHUP | POLLRDHUP)) != 0;
    if (ioctl(fd, FIONREAD, &sight.waiting_bytes) != 0)
        sight.waiting_bytes = -1;
    return sight;
}

bool input_unread(enum input_kind kind, const struct input_sight *was,
                  const struct input_sight *now)
{
    return kind != INPUT_OTHER && was->ended && now->waiting_bytes >= 0 &&
           now->waiting_bytes == was->waiting_bytes;
}

struct input_mark input_mark_of(int fd)
{
    struct input_mark mark = {.kind = input_kind_of(fd)};
    struct stat stat;

    if (fstat(fd, &stat) != 0)
        return mark;
    if (mark.kind == INPUT_SAME)
        mark.inode = stat.st_rdev;
    if (mark.kind != INPUT_FILE)
        return mark;
    mark.device = stat.st_dev;
    mark.inode = stat.st_ino;
    mark.first = lseek(fd, 0, SEEK_CUR);
    return mark;
}

bool input_mark_same(const struct input_mark *first, const struct input_mark *now)
{
    if (first->kind == INPUT_UNKNOWN || now->kind == INPUT_UNKNOWN)
        return true;
    if (first->kind != now->kind)
        return first->kind == INPUT_TERMINAL && now->kind == INPUT_SAME;
    return first->device == now->device && first->inode == now->inode && first->first == now->first;
}
