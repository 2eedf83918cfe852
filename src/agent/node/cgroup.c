/* Control groups of jobs. See cgroup.h. */
#include "src/agent/node/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"

enum {
    CGROUP_TEXT_BYTES = 65536,
    CGROUP_DEPTH_MAX = 32 /* of groups that an application makes below its own */
};

/* ---- texts ---- */

/* The kernel writes blanks and backslashes of a path as three octal digits. */
static int take_escaped(const char *from, size_t length, char *to, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        char byte = from[i];
        if (byte == '\\' && i + 3 < length) {
            byte =
                (char)((from[i + 1] - '0') << 6 | (from[i + 2] - '0') << 3 | (from[i + 3] - '0'));
            i += 3;
        }
        if (used + 1 >= size)
            return -1;
        to[used++] = byte;
    }
    to[used] = '\0';
    return 0;
}

/* "41 31 0:38 ROOT FOLDER rw,relatime [optional ...] - cgroup2 cgroup2 rw" */
static int parse_mount(const char *line, size_t length, struct cgroup_mount *ret_mount)
{
    const char *word[5];
    size_t bytes[5], at = 0;
    const char *kind = memmem(line, length, " - cgroup2 ", strlen(" - cgroup2 "));

    if (kind == NULL)
        return -1;
    for (size_t i = 0; i < ARRAY_COUNT(word); i++) {
        word[i] = line + at;
        bytes[i] = strcspn(word[i], " \n");
        at += bytes[i] + 1;
        if (at >= length)
            return -1;
    }
    if (take_escaped(word[3], bytes[3], ret_mount->root, sizeof(ret_mount->root)) != 0)
        return -1;
    return take_escaped(word[4], bytes[4], ret_mount->folder, sizeof(ret_mount->folder));
}

int cgroup_parse_mounts(const char *mountinfo, struct cgroup_mount *ret_mount)
{
    struct cgroup_mount mount;
    bool found = false;

    for (const char *line = mountinfo; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (parse_mount(line, length, &mount) == 0 &&
            (!found || (strcmp(mount.root, "/") == 0 && strcmp(ret_mount->root, "/") != 0))) {
            *ret_mount = mount; /* one that shows the whole hierarchy is the best */
            found = true;
        }
        line += length + (line[length] == '\n' ? 1 : 0);
    }
    return found ? 0 : -1;
}

/* The path of a line "ID:CONTROLLERS:PATH"; NULL: none. */
static const char *path_of(const char *line, size_t length)
{
    const char *first = memchr(line, ':', length);
    size_t left = first == NULL ? 0 : length - (size_t)(first + 1 - line);
    const char *second = first == NULL ? NULL : memchr(first + 1, ':', left);

    return second == NULL ? NULL : second + 1;
}

int cgroup_parse_own(const char *text, char ret_path[CGROUP_PATH_BYTES])
{
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, "0::/", 4) == 0) {
            size_t length = strcspn(line + 3, "\n");
            if (length >= CGROUP_PATH_BYTES)
                return -1;
            snprintf(ret_path, CGROUP_PATH_BYTES, "%.*s", (int)length, line + 3);
            return 0;
        }
    }
    return -1;
}

/* A part of a path that begins so was made by one of these. */
static const char *const foreign[] = {
    "slurm",  "pbs",        "torque",         "lsf",  "sge",    "uge",
    "condor", "htcondor",   "flux",           "kube", "docker", "libpod",
    "crio",   "containerd", "cri-containerd", "lxc",  "machine"};

static bool is_foreign(const char *path, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t begin = at + (path[at] == '/' ? 1 : 0);
        for (size_t i = 0; i < ARRAY_COUNT(foreign); i++) {
            size_t name = strlen(foreign[i]);
            if (length - begin >= name && strncmp(path + begin, foreign[i], name) == 0)
                return true;
        }
        at = begin;
        while (at < length && path[at] != '/')
            at++;
    }
    return false;
}

bool cgroup_parse_foreign(const char *text, char ret_path[CGROUP_PATH_BYTES])
{
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *path = path_of(line, length);
        size_t bytes = path == NULL ? 0 : length - (size_t)(path - line);
        if (path != NULL && is_foreign(path, bytes)) {
            snprintf(ret_path, CGROUP_PATH_BYTES, "%.*s", (int)bytes, path);
            return true;
        }
        line += length + (line[length] == '\n' ? 1 : 0);
    }
    return false;
}

/* ---- files ---- */

/* -1 with errno. */
static int read_text(const char *path, char text[CGROUP_TEXT_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;

    if (fd < 0)
        return -1;
    while (used < CGROUP_TEXT_BYTES - 1 &&
           (got = read(fd, text + used, CGROUP_TEXT_BYTES - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return got < 0 ? -1 : 0;
}

/* A file of a group. -1 with errno. */
static int write_file(const char *folder, const char *file, const char *text)
{
    char path[CGROUP_PATH_BYTES + 32];
    size_t length = strlen(text);
    ssize_t written;
    int number;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    written = write(fd, text, length);
    number = errno;
    close(fd);
    errno = number;
    return written == (ssize_t)length ? 0 : -1;
}

static bool file_is_there(const char *folder, const char *file)
{
    char path[CGROUP_PATH_BYTES + 32];

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return access(path, W_OK) == 0;
}

static int path_join(char path[CGROUP_PATH_BYTES], const char *folder, const char *name,
                     struct err *err)
{
    int length = snprintf(path, CGROUP_PATH_BYTES, "%s/%s", folder, name);

    if (length < CGROUP_PATH_BYTES)
        return 0;
    return err_set(err, ERR_INVALID, "%s/%s has %d bytes, a control group's path has at most %d",
                   folder, name, length, CGROUP_PATH_BYTES - 1);
}

/* ---- where jobs may have groups ---- */

static void remove_leftovers(const char *jobs)
{
    DIR *folder = opendir(jobs);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[CGROUP_PATH_BYTES];
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            path_join(path, jobs, entry->d_name, NULL) == 0)
            cgroup_remove(path, NULL); /* one that still has processes stays */
    }
    if (folder != NULL)
        closedir(folder);
}

/* -1 with err: it is not of cgroup v2, or a group in which processes cannot be put. */
static int check_parent(const char *parent, struct err *err)
{
    char path[CGROUP_PATH_BYTES], text[CGROUP_TEXT_BYTES];
    struct statfs kind;

    if (statfs(parent, &kind) != 0 || kind.f_type != CGROUP2_SUPER_MAGIC)
        return err_set(err, ERR_INVALID,
                       "%s is no folder of the cgroup v2 hierarchy; set cgroup to one that is, to "
                       "auto or to off",
                       parent);
    if (path_join(path, parent, "cgroup.type", err) != 0)
        return -1;
    if (read_text(path, text) == 0 && strcmp(text, "domain\n") != 0)
        return err_set(err, ERR_REFUSED,
                       "%s is of a threaded subtree (cgroup.type: %.*s), in which no process has a "
                       "group of its own; set cgroup to another one, or to off",
                       parent, (int)strcspn(text, "\n"), text);
    return 0;
}

/* For as long as this process lives: what it finds there is its own. */
static int lock_jobs(const char *jobs, int *ret_lock, struct err *err)
{
    int fd = open(jobs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_set(err, ERR_IO, "%s cannot be opened: %s", jobs, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return err_set(err, ERR_LOCKED,
                       "%s is another agent's, which runs: give each agent a group of its own (key "
                       "cgroup), or end that one",
                       jobs);
    }
    *ret_lock = fd;
    return 0;
}

static int make_jobs(const char *parent, struct cgroups *ret_cgroups, struct err *err)
{
    char jobs[CGROUP_PATH_BYTES];

    if (path_join(jobs, parent, "jobs", err) != 0 || check_parent(parent, err) != 0)
        return -1;
    if (mkdir(jobs, 0755) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO,
                       "%s cannot be made (%s): give the agent's user that folder (Delegate=yes in "
                       "its unit), or set cgroup to off",
                       jobs, strerror(errno));
    if (!file_is_there(jobs, "cgroup.freeze") || !file_is_there(jobs, "cgroup.procs"))
        return err_set(
            err, ERR_REFUSED,
            "%s has no cgroup.freeze that may be written (kernels before 5.2 have none): "
            "set cgroup to off, then jobs are stopped by signals",
            jobs);
    if (lock_jobs(jobs, &ret_cgroups->lock, err) != 0)
        return -1;
    remove_leftovers(jobs);
    snprintf(ret_cgroups->jobs, sizeof(ret_cgroups->jobs), "%s", jobs);
    return 0;
}

/* Where the group lies that a /proc/PID/cgroup names. */
static int folder_of(const char *cgroup, char ret_folder[CGROUP_PATH_BYTES], struct err *err)
{
    char text[CGROUP_TEXT_BYTES], path[CGROUP_PATH_BYTES];
    struct cgroup_mount mount;
    size_t root;

    if (read_text("/proc/self/mountinfo", text) != 0 || cgroup_parse_mounts(text, &mount) != 0)
        return err_set(err, ERR_NOT_FOUND, "no cgroup v2 hierarchy is mounted");
    if (cgroup_parse_own(cgroup, path) != 0)
        return err_set(err, ERR_NOT_FOUND, "the process is in no group of cgroup v2");
    root = strcmp(mount.root, "/") == 0 ? 0 : strlen(mount.root);
    if (strncmp(path, mount.root, root) != 0)
        return err_set(err, ERR_NOT_FOUND, "the group %s is not mounted at %s", path, mount.folder);
    return path_join(ret_folder, mount.folder, path + root + (path[root] == '/' ? 1 : 0), err);
}

/* The folder of the agent's own group. */
static int find_own(char ret_folder[CGROUP_PATH_BYTES], struct err *err)
{
    char text[CGROUP_TEXT_BYTES], foreign_path[CGROUP_PATH_BYTES];

    if (read_text("/proc/self/cgroup", text) != 0)
        return err_set(err, ERR_NOT_FOUND, "this kernel has no control groups");
    if (folder_of(text, ret_folder, err) != 0)
        return -1;
    if (cgroup_parse_foreign(text, foreign_path))
        return err_set(err, ERR_REFUSED,
                       "the agent's own group %s is a scheduler's or a container's", foreign_path);
    if (ret_folder[strlen(ret_folder) - 1] == '/')
        return err_set(err, ERR_REFUSED,
                       "the agent is in the root of the hierarchy, which is nobody's");
    return 0;
}

/* The group below which jobs may have theirs. systemd marks what it delegates; the agent that is
 * restarted in place is in its leaf already. */
static int find_delegated(char ret_folder[CGROUP_PATH_BYTES], struct err *err)
{
    char mark[4] = "", *last;

    if (find_own(ret_folder, err) != 0)
        return -1;
    last = strrchr(ret_folder, '/');
    if (strcmp(last, "/agent") == 0)
        *last = '\0';
    if ((getxattr(ret_folder, "user.delegate", mark, sizeof(mark)) < 1 || mark[0] != '1') &&
        (getxattr(ret_folder, "trusted.delegate", mark, sizeof(mark)) < 1 || mark[0] != '1'))
        return err_set(err, ERR_REFUSED,
                       "the agent's own group %s is not delegated to it (Delegate=yes in its "
                       "unit)",
                       ret_folder);
    return 0;
}

static int open_own(struct cgroups *ret_cgroups, struct err *err)
{
    char folder[CGROUP_PATH_BYTES], leaf[CGROUP_PATH_BYTES], number[32];

    if (find_delegated(folder, err) != 0 || path_join(leaf, folder, "agent", err) != 0 ||
        make_jobs(folder, ret_cgroups, err) != 0)
        return -1;
    snprintf(number, sizeof(number), "%d", (int)getpid());
    if ((mkdir(leaf, 0755) != 0 && errno != EEXIST) ||
        write_file(leaf, "cgroup.procs", number) != 0) {
        close(ret_cgroups->lock);
        *ret_cgroups = (struct cgroups){.jobs = "", .lock = -1};
        return err_set(err, ERR_IO, "the agent cannot move to %s: %s", leaf, strerror(errno));
    }
    return 0;
}

/* The key is a path: without the slashes at its end. */
static int parent_of(const char *key, char ret_parent[CGROUP_PATH_BYTES], struct err *err)
{
    size_t length = strlen(key);

    if (key[0] != '/' || length >= CGROUP_PATH_BYTES)
        return err_set(err, ERR_INVALID,
                       "cgroup is \"%.64s\", not auto, off or the absolute path of a control group",
                       key);
    while (length > 1 && key[length - 1] == '/')
        length--;
    snprintf(ret_parent, CGROUP_PATH_BYTES, "%.*s", (int)length, key);
    return 0;
}

int cgroup_check(const char *key, struct err *err)
{
    char parent[CGROUP_PATH_BYTES];

    if (strcmp(key, "off") == 0)
        return err_set(err, ERR_REFUSED, "it is off");
    if (strcmp(key, "auto") == 0)
        return find_delegated(parent, err);
    if (parent_of(key, parent, err) != 0)
        return -1;
    if (access(parent, F_OK) != 0)
        *strrchr(parent, '/') = '\0'; /* it would be made there */
    if (check_parent(parent[0] == '\0' ? "/" : parent, err) != 0)
        return -1;
    if (access(parent, W_OK) != 0)
        return err_set(err, ERR_IO, "%s cannot be written to: %s", parent, strerror(errno));
    return 0;
}

int cgroup_open(const char *key, struct cgroups *ret_cgroups, struct err *ret_why, struct err *err)
{
    char parent[CGROUP_PATH_BYTES];

    *ret_cgroups = (struct cgroups){.jobs = "", .lock = -1};
    *ret_why = (struct err){.code = ERR_NONE};
    if (strcmp(key, "off") == 0)
        return 0;
    if (strcmp(key, "auto") == 0) {
        open_own(ret_cgroups, ret_why);
        return 0;
    }
    if (parent_of(key, parent, err) != 0)
        return -1;
    if (mkdir(parent, 0755) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO,
                       "cgroup: %s cannot be made (%s): make its parent first, or set cgroup to "
                       "auto or to off",
                       parent, strerror(errno));
    return make_jobs(parent, ret_cgroups, err);
}

/* ---- a job's group ---- */

/* What users could otherwise leave behind. */
static const char *const limits[] = {"memory.max", "memory.high", "memory.swap.max", "cpu.max"};

static bool has_limit(const char *folder)
{
    char path[CGROUP_PATH_BYTES], text[CGROUP_TEXT_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(limits); i++)
        if (path_join(path, folder, limits[i], NULL) == 0 && read_text(path, text) == 0 &&
            strncmp(text, "max", strlen("max")) != 0)
            return true;
    return false;
}

static bool is_at_or_below(const char *folder, const char *above)
{
    size_t length = strlen(above);

    return strncmp(folder, above, length) == 0 && (folder[length] == '\0' || folder[length] == '/');
}

bool cgroup_limited(char folder[CGROUP_PATH_BYTES], const char *jobs)
{
    while (folder[0] != '\0' && !is_at_or_below(jobs, folder)) {
        if (has_limit(folder))
            return true;
        *strrchr(folder, '/') = '\0';
    }
    return false;
}

/* -1 with err. */
static int read_groups(pid_t pid, char text[CGROUP_TEXT_BYTES], struct err *err)
{
    char file[64];

    snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
    if (read_text(file, text) == 0)
        return 0;
    return err_set(err, errno == ENOENT || errno == ESRCH ? ERR_NOT_FOUND : ERR_IO,
                   "the control group of process %d cannot be read: %s", (int)pid, strerror(errno));
}

/* Only a process that no scheduler has put where it is, and no limit holds there. */
static int may_be_moved(const struct cgroups *cgroups, pid_t pid, struct err *err)
{
    char text[CGROUP_TEXT_BYTES], path[CGROUP_PATH_BYTES];

    if (read_groups(pid, text, err) != 0)
        return -1;
    if (cgroup_parse_foreign(text, path))
        return err_set(err, ERR_REFUSED,
                       "process %d is in the group %s of a scheduler or container and stays there: "
                       "its job is stopped by signals",
                       (int)pid, path);
    if (folder_of(text, path, NULL) == 0 && cgroup_limited(path, cgroups->jobs))
        return err_set(err, ERR_REFUSED,
                       "process %d is in the group %s, which has a limit, and stays there: its job "
                       "is stopped by signals",
                       (int)pid, path);
    return 0;
}

/* Of one allocation a node runs one application: what is left of its other runs, by an agent that
 * died or lost its journal, is nobody's. */
static void end_other_runs(const char *jobs, const char *allocation_id, const char *own)
{
    const size_t length = strlen(allocation_id);
    DIR *folder = opendir(jobs);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        char path[CGROUP_PATH_BYTES];
        uint64_t run;
        if (strncmp(name, allocation_id, length) != 0 || name[length] != '.' ||
            checkpoint_id_parse(name + length + 1, &run) != 0 || strcmp(name, own) == 0 ||
            path_join(path, jobs, name, NULL) != 0)
            continue;
        cgroup_kill(path, NULL);
        cgroup_remove(path, NULL); /* or when an agent starts next */
    }
    if (folder != NULL)
        closedir(folder);
}

/* Another agent that starts with the same parent may remove the empty folder in between. */
int cgroup_place(const struct cgroups *cgroups, const char *allocation_id, const char *run,
                 pid_t pid, char ret_folder[CGROUP_PATH_BYTES], struct err *err)
{
    char name[ID_MAX_BYTES + CHECKPOINT_ID_TEXT_BYTES + 2], folder[CGROUP_PATH_BYTES], number[32];

    CHECK(id_valid(allocation_id));
    CHECK(pid > 1);
    if (cgroups->jobs[0] == '\0')
        return err_set(err, ERR_REFUSED, "jobs have no control groups here (key cgroup)");
    snprintf(name, sizeof(name), "%s.%s", allocation_id, run);
    snprintf(number, sizeof(number), "%d", (int)pid);
    if (path_join(folder, cgroups->jobs, name, err) != 0 || may_be_moved(cgroups, pid, err) != 0)
        return -1;
    end_other_runs(cgroups->jobs, allocation_id, name);
    for (int tries = 0; tries < 3; tries++) {
        if (mkdir(folder, 0755) != 0 && errno != EEXIST)
            return err_set(err, ERR_IO, "control group %s cannot be made: %s", folder,
                           strerror(errno));
        if (write_file(folder, "cgroup.procs", number) == 0) {
            snprintf(ret_folder, CGROUP_PATH_BYTES, "%s", folder);
            return 0;
        }
        if (errno != ENOENT)
            break;
    }
    err_set(err, errno == ESRCH ? ERR_NOT_FOUND : ERR_IO,
            "process %d cannot be moved to control group %s: %s", (int)pid, folder,
            strerror(errno));
    rmdir(folder); /* one that holds others of this run stays */
    return -1;
}

int cgroup_find(const char *allocation_id, const char *run, pid_t pid,
                char ret_folder[CGROUP_PATH_BYTES])
{
    char text[CGROUP_TEXT_BYTES], name[ID_MAX_BYTES + CHECKPOINT_ID_TEXT_BYTES + 8];
    char folder[CGROUP_PATH_BYTES];
    struct stat stat_of;
    size_t length, bytes;

    if (read_groups(pid, text, NULL) != 0 || folder_of(text, folder, NULL) != 0)
        return -1;
    bytes = (size_t)snprintf(name, sizeof(name), "/jobs/%s.%s", allocation_id, run);
    length = strlen(folder);
    if (length <= bytes || strcmp(folder + length - bytes, name) != 0 ||
        stat(folder, &stat_of) != 0 || stat_of.st_uid != geteuid())
        return -1;
    snprintf(ret_folder, CGROUP_PATH_BYTES, "%s", folder);
    return 0;
}

int cgroup_freeze(const char *folder, bool frozen, struct err *err)
{
    CHECK(folder[0] == '/');
    if (write_file(folder, "cgroup.freeze", frozen ? "1" : "0") == 0)
        return 0;
    return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s/cgroup.freeze: %s", folder,
                   strerror(errno));
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* 1, 0; -1: it cannot be read. A new read from the beginning rearms poll(). */
static int read_frozen(int fd)
{
    char text[256];
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    const char *found;

    if (got <= 0)
        return -1;
    text[got] = '\0';
    found = strstr(text, "frozen ");
    return found == NULL ? -1 : found[strlen("frozen ")] == '1';
}

bool cgroup_wait(const char *folder, bool frozen, int ms)
{
    char path[CGROUP_PATH_BYTES + 32];
    const uint64_t end_ms = now_ms() + (uint64_t)ms;
    bool reached = false;
    int fd;

    CHECK(ms >= 0);
    snprintf(path, sizeof(path), "%s/cgroup.events", folder);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (;;) {
        struct pollfd events = {.fd = fd, .events = POLLPRI};
        uint64_t now = now_ms();
        int is = read_frozen(fd);
        reached = is >= 0 && (is == 1) == frozen;
        if (reached || is < 0 || now >= end_ms)
            break;
        poll(&events, 1, (int)(end_ms - now));
    }
    close(fd);
    return reached;
}

int cgroup_kill(const char *folder, struct err *err)
{
    CHECK(folder[0] == '/');
    if (write_file(folder, "cgroup.kill", "1") == 0)
        return 0;
    return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s/cgroup.kill: %s", folder,
                   strerror(errno));
}

/* Calls each() for the groups below `folder`, the deepest first, and for itself. */
struct walk {
    void (*each)(void *data, const char *folder);
    void *data;
};

static void walk_groups(const char *top, size_t depth, const struct walk *walk)
{
    DIR *folder = depth < CGROUP_DEPTH_MAX ? opendir(top) : NULL;
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[CGROUP_PATH_BYTES];
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0 && path_join(path, top, entry->d_name, NULL) == 0)
            walk_groups(path, depth + 1, walk);
    }
    if (folder != NULL)
        closedir(folder);
    walk->each(walk->data, top);
}

static void remove_group(void *data, const char *folder)
{
    int *number = data;

    *number = rmdir(folder) == 0 ? 0 : errno;
}

int cgroup_remove(const char *folder, struct err *err)
{
    int number = 0; /* of the last, which is the folder itself */
    const struct walk walk = {remove_group, &number};

    CHECK(folder[0] == '/');
    walk_groups(folder, 0, &walk);
    if (number == 0 || number == ENOENT)
        return 0;
    if (number == EBUSY)
        return err_set(err, ERR_LOCKED, "control group %s still has processes", folder);
    return err_set(err, ERR_IO, "control group %s cannot be removed: %s", folder, strerror(number));
}

struct pid_list {
    pid_t *pids;
    size_t count;
    size_t max;
};

static void take_pids(void *data, const char *folder)
{
    struct pid_list *list = data;
    char path[CGROUP_PATH_BYTES + 32];
    FILE *file;
    int pid;

    snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
    file = fopen(path, "re");
    while (file != NULL && list->count < list->max && fscanf(file, "%d", &pid) == 1)
        if (pid > 1) /* 0: of another namespace */
            list->pids[list->count++] = pid;
    if (file != NULL)
        fclose(file);
}

size_t cgroup_pids(const char *folder, pid_t *pids, size_t max)
{
    struct pid_list list = {.pids = pids, .max = max};
    const struct walk walk = {take_pids, &list};

    walk_groups(folder, 0, &walk);
    return list.count;
}
