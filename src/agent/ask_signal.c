/* Asking by a signal: a request file, one signal to the process group, a sentinel file when the application has written.
 *
 * Flow     preflight reads SigCgt of every process; prepare makes <work>/out/<hint>/ and <work>/request; fire signals the group;
 *          poll reads <work>/done.
 * Shapes   profiles: "signal" (SIGUSR1) and "signal-usr2".
 * Errors   a sentinel that is incomplete or of another hint counts as nothing yet.
 * Source   S1-031, S1-032, decisions 11 and 14.
 */
#include "src/agent/ask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/proc.h"
#include "src/agent/user.h"
#include "src/base/check.h"

enum { PROGRESS_DEPTH_MAX = 4, PROGRESS_FILES_MAX = 4096 };

static enum ask_ready signal_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                       char *ret_detail, size_t size)
{
    struct proc_stat culprit = {0};

    switch (proc_group_catches(target->group, ops->signal, &culprit)) {
    case PROC_CATCHES:
        return ASK_READY;
    case PROC_WOULD_DIE:
        snprintf(ret_detail, size,
                 "pid %d (%s) of the group does not catch signal %d (%s) and would die from it",
                 (int)culprit.pid, culprit.name, ops->signal, strsignal(ops->signal));
        return ASK_NO_HANDLER;
    case PROC_NONE_CATCHES:
        snprintf(ret_detail, size, "no process of group %d catches signal %d (%s)",
                 (int)target->group, ops->signal, strsignal(ops->signal));
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("proc_catches");
}

static int write_request(const struct ask_target *target, const char *text, size_t length,
                         struct err *err)
{
    char temporary[PATH_MAX];
    char final[PATH_MAX];
    int fd;

    snprintf(temporary, sizeof(temporary), "%s/request.new", target->work_dir);
    snprintf(final, sizeof(final), "%s/request", target->work_dir);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO, "create %s: %s", temporary, strerror(errno));
    if (write(fd, text, length) != (ssize_t)length) {
        close(fd);
        return err_set(err, ERR_IO, "write %s: %s", temporary, strerror(errno));
    }
    close(fd);
    if (rename(temporary, final) != 0)
        return err_set(err, ERR_IO, "rename to %s: %s", final, strerror(errno));
    return 0;
}

static int prepare_as_user(const struct ask_target *target, const char *hint, const char *directory,
                           uint64_t deadline_ms, struct err *err)
{
    char text[PATH_MAX + 256];
    char path[PATH_MAX];
    size_t length = request_format(hint, directory, deadline_ms, text, sizeof(text));

    if (length == 0)
        return err_set(err, ERR_INVALID, "the work folder's path is too long");
    /* a sentinel of an earlier life of the cluster may carry the same hint */
    snprintf(path, sizeof(path), "%s/done", target->work_dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/out", target->work_dir);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "create %s: %s", path, strerror(errno));
    if (mkdir(directory, 0700) != 0)
        return err_set(err, ERR_IO, "create %s: %s", directory, strerror(errno));
    return write_request(target, text, length, err);
}

static int signal_prepare(const struct ask_target *target, const char *hint, const char *directory,
                          uint64_t deadline_ms, struct err *err)
{
    int result;

    user_enter(target->uid, target->gid);
    result = prepare_as_user(target, hint, directory, deadline_ms, err);
    user_leave();
    return result;
}

static int signal_fire(const struct ask_ops *ops, const struct ask_target *target, struct err *err)
{
    CHECK(target->group > 1);
    if (kill(-target->group, ops->signal) != 0)
        return err_set(err, ERR_IO, "signal %d to group %d: %s", ops->signal, (int)target->group,
                       strerror(errno));
    return 0;
}

/* At most size - 1 bytes of a regular file of the work folder; -1 when there is none. */
static ssize_t read_small(const struct ask_target *target, const char *name, char *text,
                          size_t size)
{
    char path[PATH_MAX];
    struct stat stat;
    ssize_t length = -1;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", target->work_dir, name);
    user_enter(target->uid, target->gid);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    user_leave();
    if (fd < 0)
        return -1;
    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode))
        length = read(fd, text, size - 1);
    close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

static bool signal_prepared(const struct ask_target *target, const char *hint)
{
    char text[SENTINEL_MAX_BYTES + 1];
    char line[HINT_TEXT_BYTES + 16];

    if (read_small(target, "request", text, sizeof(text)) <= 0)
        return false;
    snprintf(line, sizeof(line), "hint=%s\n", hint);
    return strncmp(text, line, strlen(line)) == 0;
}

static enum ask_answer signal_poll(const struct ask_target *target, const char *hint,
                                   struct sentinel *ret_sentinel)
{
    char text[SENTINEL_MAX_BYTES + 1];
    ssize_t length = read_small(target, "done", text, sizeof(text));
    struct sentinel sentinel;

    if (length <= 0 || sentinel_parse(text, (size_t)length, &sentinel) != 0)
        return ASK_NOTHING_YET;
    if (strcmp(sentinel.hint, hint) != 0)
        return ASK_NOTHING_YET; /* stale */
    *ret_sentinel = sentinel;
    return ASK_DONE;
}

struct walk {
    uint64_t sum;
    size_t files;
};

static void walk_folder(struct walk *walk, int folder_fd, int depth)
{
    DIR *folder = fdopendir(folder_fd);
    struct dirent *entry;

    if (folder == NULL) {
        close(folder_fd);
        return;
    }
    while (walk->files < PROGRESS_FILES_MAX && (entry = readdir(folder)) != NULL) {
        struct stat stat;
        int fd;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(folder), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(stat.st_mode)) {
            walk->files++;
            walk->sum = walk->sum * 1099511628211u + (uint64_t)stat.st_size +
                        (uint64_t)stat.st_mtim.tv_sec * 1000003u + (uint64_t)stat.st_mtim.tv_nsec;
        } else if (S_ISDIR(stat.st_mode) && depth < PROGRESS_DEPTH_MAX) {
            fd = openat(dirfd(folder), entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
            if (fd >= 0)
                walk_folder(walk, fd, depth + 1);
        }
    }
    closedir(folder);
}

static struct walk walk_directory(const struct ask_target *target, const char *directory)
{
    struct walk walk = {0};
    int fd;

    user_enter(target->uid, target->gid);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        walk_folder(&walk, fd, 0);
    user_leave();
    return walk;
}

static uint64_t signal_progress(const struct ask_target *target, const char *directory)
{
    return walk_directory(target, directory).sum;
}

static bool signal_empty(const struct ask_target *target, const char *directory)
{
    return walk_directory(target, directory).files == 0;
}

static void signal_clear(const struct ask_target *target)
{
    char path[PATH_MAX];

    user_enter(target->uid, target->gid);
    snprintf(path, sizeof(path), "%s/request", target->work_dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/done", target->work_dir);
    unlink(path);
    user_leave();
}

#define SIGNAL_OPS(name, number)                                                                   \
    {                                                                                              \
        .profile = name, .signal = number, .preflight = signal_preflight,                          \
        .prepare = signal_prepare, .fire = signal_fire, .prepared = signal_prepared,               \
        .poll = signal_poll, .progress = signal_progress, .empty = signal_empty,                   \
        .clear = signal_clear                                                                      \
    }
static const struct ask_ops ask_table[] = {
    SIGNAL_OPS("signal", SIGUSR1),
    SIGNAL_OPS("signal-usr2", SIGUSR2),
};

const struct ask_ops *ask_find(const char *profile)
{
    if (profile[0] == '\0')
        return &ask_table[0];
    for (size_t i = 0; i < ARRAY_COUNT(ask_table); i++) {
        if (strcmp(ask_table[i].profile, profile) == 0)
            return &ask_table[i];
    }
    return NULL;
}

const char *ask_profiles(void)
{
    return "signal (SIGUSR1), signal-usr2 (SIGUSR2); shm, grpc, exec, criu and dmtcp are "
           "UNIMPLEMENTED in this version";
}
