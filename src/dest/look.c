/* Opens a path for a daemon. See look.h. */
#include "src/dest/look.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/dest/tree.h"

/* fd -1: the text alone. */
static int send_text(int output_fd, char *text, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {text, strlen(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *head;

    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    }
    if (sendmsg(output_fd, &message, MSG_NOSIGNAL) >= 0)
        return 0;
    return errno == ENOTSOCK && write(output_fd, text, strlen(text)) >= 0 ? 0 : -1;
}

/* Not through /proc/PID/root or the like: these lead into mounts that a user makes without
 * anybody's leave, such as a local file system whose files are those of a server of the user's,
 * which hangs. */
int look_path(const char *path, int output_fd, struct err *err)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                                 .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    char text[128];
    struct statfs system;
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat) != 0 || fstatfs(fd, &system) != 0) {
        snprintf(text, sizeof(text), "%s\n", strerror(errno));
        (void)send_text(output_fd, text, -1);
        if (fd >= 0)
            close(fd);
        return err_set(err, ERR_NOT_FOUND, "%.200s: %.*s", path, (int)strcspn(text, "\n"), text);
    }
    snprintf(text, sizeof(text), "mode=%o uid=%u type=%x\n", (unsigned)stat.st_mode,
             (unsigned)stat.st_uid, (unsigned)system.f_type);
    if (send_text(output_fd, text, fd) != 0) {
        close(fd);
        return err_set(err, ERR_IO, "the descriptor cannot be handed over: %s", strerror(errno));
    }
    close(fd);
    return 0;
}

/* Through the parent's descriptor: the folder itself is the user's, and may be exchanged for a
 * link. */
int look_sweep(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];
    int fd, result;

    if (slash == NULL || slash == path || (size_t)(slash - path) >= sizeof(parent))
        return err_set(err, ERR_INVALID, "%.200s is no absolute path of a folder", path);
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_NOT_FOUND, "%.200s: %s", parent, strerror(errno));
    result = tree_remove(fd, slash + 1, err);
    close(fd);
    return result;
}
