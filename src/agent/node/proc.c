/* What /proc tells about processes. See proc.h. */
#include "src/agent/node/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"

enum { PROC_TEXT_BYTES = 32768 }; /* of status, the groups may be thousands */

/* The name stands in brackets and may itself hold brackets and blanks: the last ')' ends it. */
int proc_parse_stat(const char *text, struct proc_stat *ret_stat)
{
    struct proc_stat stat = {0};
    const char *open = strchr(text, '(');
    const char *close = strrchr(text, ')');
    int pid;
    int parent;
    int group;
    int session;
    unsigned long long threads;
    unsigned long long ticks;
    size_t length;

    if (open == NULL || close == NULL || close < open || sscanf(text, "%d", &pid) != 1)
        return -1;
    if (sscanf(close + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %llu %*d %llu",
               &stat.state, &parent, &group, &session, &threads, &ticks) != 6)
        return -1;
    length = (size_t)(close - open) - 1;
    if (length >= sizeof(stat.name))
        length = sizeof(stat.name) - 1;
    memcpy(stat.name, open + 1, length);
    stat.pid = pid;
    stat.parent = parent;
    stat.group = group;
    stat.session = session;
    stat.threads = threads;
    stat.start_ticks = ticks;
    *ret_stat = stat;
    return 0;
}

/* The value of the line that begins with `key`, or NULL. */
static const char *proc_line(const char *text, const char *key)
{
    size_t length = strlen(key);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, key, length) == 0)
            return text + length;
        text = strchr(text, '\n');
        if (text != NULL)
            text++;
    }
    return NULL;
}

static int proc_hex(const char *text, const char *key, uint64_t *ret_value)
{
    const char *value = proc_line(text, key);
    char *end;

    if (value == NULL)
        return -1;
    value += strspn(value, " \t");
    errno = 0;
    *ret_value = strtoull(value, &end, 16);
    return errno != 0 || end == value || (*end != '\n' && *end != '\0') ? -1 : 0;
}

static int proc_first_id(const char *text, const char *key, uint32_t *ret_id)
{
    const char *value = proc_line(text, key);
    unsigned id;

    if (value == NULL || sscanf(value, "%u", &id) != 1)
        return -1;
    *ret_id = id;
    return 0;
}

/* Real, effective, saved and file system's. */
static bool proc_one_user(const char *text)
{
    const char *value = proc_line(text, "Uid:");
    unsigned ids[4];
    int count =
        value == NULL ? 0 : sscanf(value, "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]);

    for (int i = 1; i < count; i++)
        if (ids[i] != ids[0])
            return false;
    return true;
}

/* A program with the set-user-id bit may have taken on the groups of another user, whom it is about
 * to become. */
static void proc_groups(const char *text, char groups[PROC_GROUPS_BYTES])
{
    const char *value = proc_one_user(text) ? proc_line(text, "Groups:") : NULL;
    size_t used = 0;

    groups[0] = '\0';
    while (value != NULL) {
        size_t length;

        value += strspn(value, " \t");
        length = strspn(value, "0123456789");
        if (length == 0 || used + 1 + length >= PROC_GROUPS_BYTES)
            return;
        used += (size_t)snprintf(groups + used, PROC_GROUPS_BYTES - used, "%s%.*s",
                                 used == 0 ? "" : ",", (int)length, value);
        value += length;
    }
}

int proc_parse_status(const char *text, struct proc_status *ret_status)
{
    struct proc_status status = {0};
    uint32_t uid;
    uint32_t gid;

    if (proc_first_id(text, "Uid:", &uid) != 0 || proc_first_id(text, "Gid:", &gid) != 0)
        return -1;
    if (proc_hex(text, "SigCgt:", &status.caught) != 0 ||
        proc_hex(text, "SigIgn:", &status.ignored) != 0)
        return -1;
    status.uid = uid;
    status.gid = gid;
    proc_groups(text, status.groups);
    *ret_status = status;
    return 0;
}

/* With hidepid others' processes are there and hidden: none of them is one that this program
 * watches. */
static int proc_failure(int number)
{
    return number == ENOENT || number == ESRCH || number == EACCES || number == EPERM ? -1 : 1;
}

static int proc_read_text(pid_t pid, const char *file, char text[PROC_TEXT_BYTES])
{
    char path[64];
    size_t used = 0;
    ssize_t got = 0;
    int failure;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return proc_failure(errno);
    while (used < PROC_TEXT_BYTES - 1 &&
           (got = read(fd, text + used, PROC_TEXT_BYTES - 1 - used)) > 0)
        used += (size_t)got;
    failure = got < 0 ? proc_failure(errno) : 0;
    close(fd);
    text[used] = '\0';
    return failure != 0 || used > 0 ? failure : -1;
}

int proc_read_stat(pid_t pid, struct proc_stat *ret_stat)
{
    char text[PROC_TEXT_BYTES];
    int result = proc_read_text(pid, "stat", text);

    return result != 0 ? result : proc_parse_stat(text, ret_stat);
}

int proc_read_status(pid_t pid, struct proc_status *ret_status)
{
    char text[PROC_TEXT_BYTES];
    int result = proc_read_text(pid, "status", text);

    return result != 0 ? result : proc_parse_status(text, ret_status);
}

int proc_read_thread(pid_t pid, pid_t thread, struct proc_stat *ret_stat)
{
    char text[PROC_TEXT_BYTES];
    char file[32];
    int result;

    snprintf(file, sizeof(file), "task/%d/stat", (int)thread);
    result = proc_read_text(pid, file, text);
    return result != 0 ? result : proc_parse_stat(text, ret_stat);
}

bool proc_living(const struct proc_stat *stat)
{
    return (stat->state != 'Z' && stat->state != 'X') || stat->threads > 1;
}

int proc_socket_name(const char *path, char ret_name[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char folder[PATH_MAX];
    size_t length;

    if (strlen(path) >= sizeof(folder))
        return -1;
    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(name - path),
             slash == NULL ? "." : path);
    if (realpath(folder, ret_name) == NULL)
        return -1;
    length = strlen(ret_name);
    return (size_t)snprintf(ret_name + length, PATH_MAX - length, "/%s", name) < PATH_MAX - length
               ? 0
               : -1;
}

size_t proc_group(pid_t group, proc_each_fn *each, void *data)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    bool unread = folder == NULL;
    size_t count = 0;

    CHECK(group > 1);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct proc_stat stat;
        int result;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        result = proc_read_stat((pid_t)strtol(entry->d_name, NULL, 10), &stat);
        unread = unread || result > 0;
        if (result != 0 || stat.group != group || !proc_living(&stat))
            continue;
        count++;
        if (!each(data, &stat))
            break;
    }
    if (folder != NULL)
        closedir(folder);
    return count + (unread ? 1 : 0);
}

/* The descriptor keeps what was looked at apart from a process that gets its number meanwhile. */
int proc_signal(pid_t pid, uint64_t start_ticks, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool old_kernel = fd < 0 && errno == ENOSYS;
    struct proc_stat stat;
    int result = -1, failure;

    if (!old_kernel && fd < 0)
        return -1;
    if (proc_read_stat(pid, &stat) != 0 || stat.start_ticks != start_ticks)
        errno = ESRCH;
    else
        result = old_kernel ? kill(pid, signal)
                            : (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    failure = errno;
    if (fd >= 0)
        close(fd);
    errno = failure;
    return result;
}
