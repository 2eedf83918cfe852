/* The machine that the program runs on: /proc, POSIX files as the job's user, libuv. See machine.h.
 *
 * Flow     the context is the loop. Processes: proc.c, pid_watch.c; folders: here, opened.c, path_open.c, folder_watch.c,
 *          cleanup.c;
 *          workers: src/dest/worker.c.
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
#include <unistd.h>

#include "src/agent/node/cleanup.h"
#include "src/agent/node/folder_fault.h"
#include "src/agent/node/folder_watch.h"
#include "src/agent/node/machine.h"
#include "src/agent/node/pid_watch.h"
#include "src/agent/node/region.h"
#include "src/agent/node/user.h"
#include "src/base/check.h"
#include "src/dest/manifest.h"

enum { GROWTH_NAMES_MAX = 4096 };

/* ---- processes ---- */

static int real_process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                             struct proc_status *ret_status)
{
    int result = ret_stat == NULL ? 0 : proc_read_stat(pid, ret_stat);

    (void)context;
    return result != 0 || ret_status == NULL ? result : proc_read_status(pid, ret_status);
}

static void real_process_waits(void *context, pid_t pid, char ret_where[MACHINE_WAITS_BYTES])
{
    (void)context;
    proc_read_waits(pid, ret_where, MACHINE_WAITS_BYTES);
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

static struct stragglers_look *real_stragglers_find(void *context, const struct job_identity *job,
                                                    bool kill,
                                                    void (*done)(void *data, size_t count),
                                                    void *data)
{
    return stragglers_start(context, job, kill, done, data);
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

/* ---- whole jobs ---- */

static struct job_process_look *real_job_process_look(void *context, const struct job_identity *job,
                                                      pid_t pid, process_done_fn *done, void *data)
{
    return job_process_look_start(context, job, pid, done, data);
}

static struct ranks_look *real_ranks_look(void *context, const struct job_identity *job, int signal,
                                          ranks_done_fn *done, void *data)
{
    return ranks_start(context, job, signal, done, data);
}

static int real_process_signal(void *context, pid_t pid, uint64_t start_ticks, int signal,
                               struct err *err)
{
    (void)context;
    return proc_signal(pid, start_ticks, signal) == 0
               ? 0
               : err_set(err, ERR_NOT_FOUND, "signal %d to process %d: %s", signal, (int)pid,
                         strerror(errno));
}

static struct job_still *real_job_still(void *context, const struct job_identity *job,
                                        enum still_way way, still_done_fn *done, void *data)
{
    return still_start(context, job, way, done, data);
}

static int real_job_place(void *context, const struct cgroups *cgroups, struct job_identity *job,
                          struct err *err)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];

    (void)context;
    checkpoint_id_format(job->stragglers.run, run);
    return cgroup_place(cgroups, job->stragglers.allocation_id, run, job->group, job->cgroup, err);
}

static void real_job_find(void *context, struct job_identity *job)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];

    (void)context;
    checkpoint_id_format(job->stragglers.run, run);
    if (cgroup_find(job->stragglers.allocation_id, run, job->group, job->cgroup) != 0)
        job->cgroup[0] = '\0';
}

static void real_job_leave(void *context, const char *cgroup)
{
    (void)context;
    cgroup_remove(cgroup, NULL); /* what does not go now goes when an agent starts next */
}

/* ---- what users name ---- */

static struct path_open *real_path_open(void *context, enum opened_kind kind, const char *path,
                                        uid_t uid, opened_done_fn *done, void *data)
{
    return path_open_start(context, kind, path, uid, done, data);
}

static int file_open(const struct machine_file *file, const char *name, int flags, mode_t mode)
{
    if (file->folder != NULL)
        return opened_at(file->folder, name, flags, mode);
    errno = ESTALE;
    return -1;
}

/* The folder that holds it, and its name there. */
static int parent_open(const struct machine_file *file, const char **ret_name)
{
    const char *slash = strrchr(file->name, '/');
    char parent[PATH_MAX];

    *ret_name = slash == NULL ? file->name : slash + 1;
    snprintf(parent, sizeof(parent), "%.*s", slash == NULL ? 1 : (int)(slash - file->name),
             slash == NULL ? "." : file->name);
    return file_open(file, parent, O_PATH | O_DIRECTORY, 0);
}

static int real_folder_make(void *context, const struct machine_file *folder, bool may_exist,
                            struct err *err)
{
    const char *name;
    int parent, failure;

    (void)context;
    user_enter(folder->user.uid, folder->user.gid);
    parent = parent_open(folder, &name);
    failure = parent >= 0 && (mkdirat(parent, name, 0700) == 0 || (may_exist && errno == EEXIST))
                  ? 0
                  : errno;
    user_leave();
    if (parent >= 0)
        close(parent);
    return failure == 0 ? 0 : folder_fault(folder->folder, "create", folder->name, failure, err);
}

static int real_link_make(void *context, const struct machine_file *link, const char *to,
                          struct err *err)
{
    const char *name;
    int parent, failure;

    (void)context;
    user_enter(link->user.uid, link->user.gid);
    parent = parent_open(link, &name);
    failure = parent >= 0 && symlinkat(to, parent, name) == 0 ? 0 : errno;
    user_leave();
    if (parent >= 0)
        close(parent);
    return failure == 0 ? 0 : folder_fault(link->folder, "link", link->name, failure, err);
}

struct walk {
    struct machine_growth growth;
    size_t names; /* of every kind */
};

static void walk_folder(struct walk *walk, int folder_fd, int depth);

static void walk_name(struct walk *walk, int folder_fd, const char *name, int depth)
{
    struct machine_growth *growth = &walk->growth;
    const struct opened folder = {folder_fd};
    int fd = opened_at(&folder, name, O_PATH, 0); /* nothing that is mounted there is asked */
    struct stat stat;

    if (fd < 0)
        return;
    if (fstat(fd, &stat) != 0) {
        stat.st_mode = 0;
    } else if (S_ISREG(stat.st_mode)) {
        growth->files++;
        growth->sum = growth->sum * 1099511628211u + (uint64_t)stat.st_size +
                      (uint64_t)stat.st_mtim.tv_sec * 1000003u + (uint64_t)stat.st_mtim.tv_nsec;
    }
    close(fd);
    if (S_ISDIR(stat.st_mode) && depth < MANIFEST_DEPTH_MAX) {
        fd = opened_at(&folder, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd >= 0)
            walk_folder(walk, fd, depth + 1);
    }
}

/* A descriptor for each level while it goes on. */
static void walk_folder(struct walk *walk, int folder_fd, int depth)
{
    DIR *folder = fdopendir(folder_fd);
    struct dirent *entry;

    if (folder == NULL) {
        close(folder_fd);
        return;
    }
    while (walk->names < GROWTH_NAMES_MAX && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        walk->names++;
        walk_name(walk, dirfd(folder), entry->d_name, depth);
    }
    closedir(folder);
}

static struct machine_growth real_folder_growth(void *context, const struct machine_file *folder)
{
    struct walk walk = {.names = 0};
    int fd;

    (void)context;
    user_enter(folder->user.uid, folder->user.gid);
    fd = file_open(folder, folder->name, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0)
        walk_folder(&walk, fd, 0);
    user_leave();
    if (walk.names >= GROWTH_NAMES_MAX && walk.growth.files == 0)
        walk.growth.files = 1; /* whether it is empty is for who looks at all of it */
    return walk.growth;
}

static struct cleanup *real_folders_remove(void *context, struct machine_user user,
                                           const struct machine_folders *folders,
                                           void (*done)(void *data), void *data)
{
    return cleanup_start(context, folders, user, done, data);
}

/* By its descriptor's name: resolving that asks nothing of what its user mounts. */
static struct folder_watch *real_folder_watch(void *context, const struct opened *folder,
                                              void (*changed)(void *data), void *data)
{
    char path[32];

    if (folder == NULL)
        return NULL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", folder->fd);
    return folder_watch_new(context, path, changed, data);
}

static ssize_t text_read(const struct machine_file *file, bool own, char *text, size_t size)
{
    struct stat stat;
    ssize_t length = -1;
    int fd, number;

    user_enter(file->user.uid, file->user.gid);
    fd = file_open(file, file->name, O_RDONLY | O_NONBLOCK, 0);
    number = errno;
    user_leave();
    if (fd < 0)
        return number == ENOENT || file->folder == NULL ? -1 : ASK_FILE_OTHER;
    if (fstat(fd, &stat) == 0 && !S_ISREG(stat.st_mode))
        length = ASK_FILE_OTHER;
    else if (!own || stat.st_uid == file->user.uid)
        length = read(fd, text, size - 1);
    close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

static ssize_t real_file_read(void *context, const struct machine_file *file, char *text,
                              size_t size)
{
    (void)context;
    return text_read(file, false, text, size);
}

static ssize_t real_file_read_own(void *context, const struct machine_file *file, char *text,
                                  size_t size)
{
    (void)context;
    return text_read(file, true, text, size);
}

static int write_and_rename(const struct machine_file *file, const char *text, size_t length,
                            struct err *err)
{
    char temporary[NAME_MAX + 8];
    const struct opened *folder = file->folder;
    int fd, failure;

    if (folder == NULL)
        return err_set(err, ERR_IO, "create %s: the work folder is not open", file->name);
    snprintf(temporary, sizeof(temporary), "%.255s.new", file->name);
    /* of an agent before; or a pipe, which would hold this one for ever */
    (void)unlinkat(folder->fd, temporary, 0);
    fd = opened_at(folder, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return folder_fault(folder, "create", temporary, errno, err);
    errno = ENOSPC; /* a part alone was written */
    failure = write(fd, text, length) == (ssize_t)length ? 0 : errno;
    close(fd);
    if (failure != 0)
        return folder_fault(folder, "write", temporary, failure, err);
    if (renameat(folder->fd, temporary, folder->fd, file->name) != 0)
        return folder_fault(folder, "rename to", file->name, errno, err);
    return 0;
}

static int real_file_write(void *context, const struct machine_file *file, const char *text,
                           size_t length, struct err *err)
{
    int result;

    (void)context;
    CHECK(strchr(file->name, '/') == NULL);
    user_enter(file->user.uid, file->user.gid);
    result = write_and_rename(file, text, length, err);
    user_leave();
    return result;
}

static void real_file_remove(void *context, const struct machine_file *file)
{
    (void)context;
    CHECK(strchr(file->name, '/') == NULL);
    if (file->folder == NULL)
        return;
    user_enter(file->user.uid, file->user.gid);
    (void)unlinkat(file->folder->fd, file->name, 0);
    user_leave();
}

/* ---- shared memory ---- */

static int real_region_read(void *context, const struct machine_region *region, size_t offset,
                            void *ret_bytes, size_t length, struct err *err)
{
    (void)context;
    return region_read(region, offset, ret_bytes, length, err);
}

static int real_region_write(void *context, const struct machine_region *region, size_t offset,
                             const void *bytes, size_t length, struct err *err)
{
    (void)context;
    return region_write(region, offset, bytes, length, err);
}

static int real_region_change(void *context, const struct machine_region *region,
                              enum ask_region_change change, const size_t *offsets, size_t count,
                              struct err *err)
{
    (void)context;
    return region_change(region, change, offsets, count, err);
}

static int real_region_claim(void *context, const struct machine_region *region, struct err *err)
{
    (void)context;
    return region_claim(region, err);
}

static void real_region_remove(void *context, const struct machine_region *region)
{
    (void)context;
    region_remove(region);
}

/* ---- destinations ---- */

static int real_worker_start(void *context, const char *const *arguments, struct machine_user user,
                             uint64_t deadline_ms, worker_done_fn *done, void *data,
                             struct worker **ret_worker, struct err *err)
{
    return user_worker_start(context, arguments, &user, deadline_ms, done, data, ret_worker, err);
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
        .process_waits = real_process_waits,
        .group_each = real_group_each,
        .group_signal = real_group_signal,
        .stragglers_find = real_stragglers_find,
        .stragglers_detach = stragglers_detach,
        .pid_watch = real_pid_watch,
        .pid_watch_free = pid_watch_free,
        .load_milli = real_load_milli,
        .sensors_start = real_sensors_start,
        .sensors_detach = sensors_detach,
        .ranks_look = real_ranks_look,
        .ranks_detach = ranks_detach,
        .job_process_look = real_job_process_look,
        .process_detach = job_process_look_detach,
        .process_signal = real_process_signal,
        .job_still = real_job_still,
        .job_still_change = still_change,
        .job_still_detach = still_detach,
        .job_place = real_job_place,
        .job_find = real_job_find,
        .job_leave = real_job_leave,
        .path_open = real_path_open,
        .path_open_detach = path_open_detach,
        .opened_close = opened_close,
        .opened_address = opened_address,
        .folder_make = real_folder_make,
        .link_make = real_link_make,
        .folder_growth = real_folder_growth,
        .folders_remove = real_folders_remove,
        .remove_detach = cleanup_detach,
        .folder_watch = real_folder_watch,
        .folder_watch_free = folder_watch_free,
        .file_read = real_file_read,
        .file_read_own = real_file_read_own,
        .file_write = real_file_write,
        .file_remove = real_file_remove,
        .region_read = real_region_read,
        .region_write = real_region_write,
        .region_change = real_region_change,
        .region_claim = real_region_claim,
        .region_remove = real_region_remove,
        .worker_start = real_worker_start,
        .worker_cancel = worker_cancel,
        .fail = real_fail,
    };
}
