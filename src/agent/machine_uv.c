/* The machine that the program runs on: /proc, POSIX files as the job's user, libuv. See machine.h.
 *
 * Flow     the context is the loop. Processes: proc.c, pid_watch.c; folders: here, ask_watch.c, cleanup.c;
 *          workers: src/store/worker.c.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/agent/ask_watch.h"
#include "src/agent/cleanup.h"
#include "src/agent/machine.h"
#include "src/agent/network_fs.h"
#include "src/agent/pid_watch.h"
#include "src/agent/user.h"
#include "src/base/check.h"
#include "src/store/manifest.h"

enum { GROWTH_NAMES_MAX = 4096 };

/* ---- processes ---- */

static int real_process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                             struct proc_status *ret_status)
{
    int result = ret_stat == NULL ? 0 : proc_read_stat(pid, ret_stat);

    (void)context;
    return result != 0 || ret_status == NULL ? result : proc_read_status(pid, ret_status);
}

static size_t real_group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    (void)context;
    return proc_group(group, each, data);
}

static int real_group_signal(void *context, pid_t group, int signal, struct err *err)
{
    (void)context;
    CHECK(group > 1);
    if (kill(-group, signal) != 0)
        return err_set(err, ERR_IO, "signal %d to group %d: %s", signal, (int)group,
                       strerror(errno));
    return 0;
}

static struct kin_look *real_kin_kill(void *context, const struct kin *kin,
                                      void (*done)(void *data, size_t count), void *data)
{
    return kin_start(context, kin, done, data);
}

static struct pid_watch *real_pid_watch(void *context, pid_t pid, void (*ended)(void *data),
                                        void *data)
{
    return pid_watch_new(context, pid, ended, data);
}

static uint32_t real_load_milli(void *context)
{
    double load = 0;

    (void)context;
    return getloadavg(&load, 1) == 1 ? (uint32_t)(load * 1000) : 0;
}

static struct sensors_reading *real_sensors_start(void *context, const char *root,
                                                  void (*done)(void *data,
                                                               const struct sensors *sensors),
                                                  void *data)
{
    return sensors_start(context, root, done, data);
}

/* ---- work folders ---- */

static bool real_folder_owned(void *context, const char *path, uid_t uid)
{
    struct stat stat;

    (void)context;
    return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) && stat.st_uid == uid;
}

static const char *real_folder_network(void *context, const char *path)
{
    struct statfs of;

    (void)context;
    return statfs(path, &of) == 0 ? network_fs_name((uint32_t)of.f_type) : NULL;
}

static bool real_socket_owned(void *context, const char *path, uid_t uid)
{
    struct stat stat;

    (void)context;
    return lstat(path, &stat) == 0 && S_ISSOCK(stat.st_mode) && stat.st_uid == uid;
}

static int real_folder_make(void *context, struct machine_user user, const char *path,
                            bool may_exist, struct err *err)
{
    int failure;

    (void)context;
    user_enter(user.uid, user.gid);
    failure = mkdir(path, 0700) == 0 || (may_exist && errno == EEXIST) ? 0 : errno;
    user_leave();
    return failure == 0 ? 0 : err_set(err, ERR_IO, "create %s: %s", path, strerror(failure));
}

struct walk {
    struct machine_growth growth;
    size_t names; /* of every kind */
};

/* A descriptor for each level while it goes on. */
static void walk_folder(struct walk *walk, int folder_fd, int depth)
{
    struct machine_growth *growth = &walk->growth;
    DIR *folder = fdopendir(folder_fd);
    struct dirent *entry;

    if (folder == NULL) {
        close(folder_fd);
        return;
    }
    while (walk->names < GROWTH_NAMES_MAX && (entry = readdir(folder)) != NULL) {
        struct stat stat;
        int fd;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        walk->names++;
        if (fstatat(dirfd(folder), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(stat.st_mode)) {
            growth->files++;
            growth->sum = growth->sum * 1099511628211u + (uint64_t)stat.st_size +
                          (uint64_t)stat.st_mtim.tv_sec * 1000003u + (uint64_t)stat.st_mtim.tv_nsec;
        } else if (S_ISDIR(stat.st_mode) && depth < MANIFEST_DEPTH_MAX) {
            fd = openat(dirfd(folder), entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
            if (fd >= 0)
                walk_folder(walk, fd, depth + 1);
        }
    }
    closedir(folder);
}

static struct machine_growth real_folder_growth(void *context, struct machine_user user,
                                                const char *path)
{
    struct walk walk = {.names = 0};
    int fd;

    (void)context;
    user_enter(user.uid, user.gid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        walk_folder(&walk, fd, 0);
    user_leave();
    if (walk.names >= GROWTH_NAMES_MAX && walk.growth.files == 0)
        walk.growth.files = 1; /* whether it is empty is for who looks at all of it */
    return walk.growth;
}

static struct cleanup *real_folders_remove(void *context, struct machine_user user,
                                           const char *const *folders, size_t folder_count,
                                           void (*done)(void *data), void *data)
{
    return cleanup_start(context, folders, folder_count, user.uid, user.gid, done, data);
}

static struct ask_watch *real_folder_watch(void *context, const char *path,
                                           void (*changed)(void *data), void *data)
{
    return ask_watch_new(context, path, changed, data);
}

static ssize_t text_read(struct machine_user user, bool own, const char *path, char *text,
                         size_t size)
{
    struct stat stat;
    ssize_t length = -1;
    int fd;

    user_enter(user.uid, user.gid);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    user_leave();
    if (fd < 0)
        return -1;
    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && (!own || stat.st_uid == user.uid))
        length = read(fd, text, size - 1);
    close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

static ssize_t real_file_read(void *context, struct machine_user user, const char *path, char *text,
                              size_t size)
{
    (void)context;
    return text_read(user, false, path, text, size);
}

static ssize_t real_file_read_own(void *context, struct machine_user user, const char *path,
                                  char *text, size_t size)
{
    (void)context;
    return text_read(user, true, path, text, size);
}

static int write_and_rename(const char *path, const char *text, size_t length, struct err *err)
{
    char temporary[PATH_MAX];
    int fd;

    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
        return err_set(err, ERR_IO, "the path %s is too long", path);
    (void)unlink(temporary); /* of an agent before; or a pipe, which would hold this one for ever */
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO, "create %s: %s", temporary, strerror(errno));
    if (write(fd, text, length) != (ssize_t)length) {
        close(fd);
        return err_set(err, ERR_IO, "write %s: %s", temporary, strerror(errno));
    }
    close(fd);
    if (rename(temporary, path) != 0)
        return err_set(err, ERR_IO, "rename to %s: %s", path, strerror(errno));
    return 0;
}

static int real_file_write(void *context, struct machine_user user, const char *path,
                           const char *text, size_t length, struct err *err)
{
    int result;

    (void)context;
    user_enter(user.uid, user.gid);
    result = write_and_rename(path, text, length, err);
    user_leave();
    return result;
}

static void real_file_remove(void *context, struct machine_user user, const char *path)
{
    (void)context;
    user_enter(user.uid, user.gid);
    unlink(path);
    user_leave();
}

/* ---- destinations ---- */

static int real_worker_start(void *context, const char *const *arguments, struct machine_user user,
                             uint64_t deadline_ms, worker_done_fn *done, void *data,
                             struct worker **ret_worker, struct err *err)
{
    return worker_start(context, arguments, user_worker_uid(user.uid), user_worker_gid(user.gid),
                        deadline_ms, done, data, ret_worker, err);
}

__attribute__((noreturn)) static void real_fail(void *context)
{
    (void)context;
    exit(EXIT_FAILURE);
}

void machine_uv_ops(uv_loop_t *loop, struct machine_ops *ret_ops)
{
    *ret_ops = (struct machine_ops){
        .context = loop,
        .process_read = real_process_read,
        .group_each = real_group_each,
        .group_signal = real_group_signal,
        .kin_kill = real_kin_kill,
        .kin_detach = kin_detach,
        .pid_watch = real_pid_watch,
        .pid_watch_free = pid_watch_free,
        .load_milli = real_load_milli,
        .sensors_start = real_sensors_start,
        .sensors_detach = sensors_detach,
        .folder_owned = real_folder_owned,
        .folder_network = real_folder_network,
        .socket_owned = real_socket_owned,
        .folder_make = real_folder_make,
        .folder_growth = real_folder_growth,
        .folders_remove = real_folders_remove,
        .remove_detach = cleanup_detach,
        .folder_watch = real_folder_watch,
        .folder_watch_free = ask_watch_free,
        .file_read = real_file_read,
        .file_read_own = real_file_read_own,
        .file_write = real_file_write,
        .file_remove = real_file_remove,
        .worker_start = real_worker_start,
        .worker_cancel = worker_cancel,
        .fail = real_fail,
    };
}
