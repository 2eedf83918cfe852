/* What /proc tells about processes. See proc.h. */
#include "src/agent/node/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"

enum { PROC_TEXT_BYTES = 32768 }; /* of status, the groups may be thousands */

/* Numbers of the fields of /proc/PID/stat, which count from 1 (proc(5)). */
enum {
    STAT_STATE = 3,
    STAT_PARENT = 4,
    STAT_GROUP = 5,
    STAT_SESSION = 6,
    STAT_FLAGS = 9,
    STAT_THREADS = 20,
    STAT_START = 22,
    STAT_IMAGE_FIRST = 26, /* where the program begins, and its stack */
    STAT_IMAGE_LAST = 28,
    STAT_TEXTS_FIRST = 48, /* where its arguments and its environment begin and end */
    STAT_TEXTS_LAST = 51,
    STAT_FIELDS
};

/* Of the flags: PF_FORKNOEXEC and PF_KTHREAD of the kernel's sched.h. */
#define FLAG_NOT_EXECUTED UINT64_C(0x40)
#define FLAG_KERNEL       UINT64_C(0x200000)

static atomic_uint_least64_t files_opened;

uint64_t proc_files_opened(void)
{
    return atomic_load(&files_opened);
}

/* The numbers after the state; returns the number of the first field that is missing. */
static int parse_fields(const char *text, uint64_t fields[STAT_FIELDS])
{
    int at = STAT_PARENT;

    for (; at < STAT_FIELDS; at++) {
        char *end;
        fields[at] = strtoull(text, &end, 10); /* of one below 0, its complement */
        if (end == text)
            break;
        text = end;
    }
    return at;
}

static uint64_t hash_image(const uint64_t fields[STAT_FIELDS])
{
    uint64_t hash = 0, any = 0;

    for (int at = STAT_IMAGE_FIRST; at <= STAT_TEXTS_LAST; at++) {
        if (at > STAT_IMAGE_LAST && at < STAT_TEXTS_FIRST)
            continue;
        hash = hash * UINT64_C(1099511628211) + fields[at];
        any |= fields[at];
    }
    return any == 0 ? 0 : hash | 1;
}

/* The name stands in brackets and may itself hold brackets and blanks: the last ')' ends it. */
int proc_parse_stat(const char *text, struct proc_stat *ret_stat)
{
    struct proc_stat stat = {0};
    uint64_t fields[STAT_FIELDS] = {0};
    const char *open = strchr(text, '(');
    const char *close = strrchr(text, ')');
    int count, pid;
    size_t length;

    if (open == NULL || close == NULL || close < open || sscanf(text, "%d", &pid) != 1)
        return -1;
    if (sscanf(close + 1, " %c%n", &stat.state, &count) != 1)
        return -1;
    count = parse_fields(close + 1 + count, fields);
    if (count <= STAT_START)
        return -1;
    length = (size_t)(close - open) - 1;
    if (length >= sizeof(stat.name))
        length = sizeof(stat.name) - 1;
    memcpy(stat.name, open + 1, length);
    stat.pid = pid;
    stat.parent = (pid_t)fields[STAT_PARENT];
    stat.group = (pid_t)fields[STAT_GROUP];
    stat.session = (pid_t)fields[STAT_SESSION];
    stat.threads = fields[STAT_THREADS];
    stat.start_ticks = fields[STAT_START];
    stat.executed =
        (fields[STAT_FLAGS] & FLAG_NOT_EXECUTED) == 0 || (fields[STAT_FLAGS] & FLAG_KERNEL) != 0;
    stat.image = count < STAT_FIELDS ? 0 : hash_image(fields);
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

/* "NSpid:\t4321\t17". */
static void proc_namespaces(const char *text, struct proc_status *status)
{
    const char *value = proc_line(text, "NSpid:");

    while (value != NULL) {
        size_t blanks = strspn(value, " \t"), digits = strspn(value + blanks, "0123456789");

        if (digits == 0)
            return;
        status->inner_pid = (pid_t)strtol(value + blanks, NULL, 10);
        status->nested++;
        value += blanks + digits;
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
    proc_namespaces(text, &status);
    *ret_status = status;
    return 0;
}

/* With hidepid others' processes are there and hidden: none of them is one that this program
 * watches. */
static int proc_failure(int number)
{
    return number == ENOENT || number == ESRCH || number == EACCES || number == EPERM ? -1 : 1;
}

static int proc_open(pid_t pid, const char *file)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    atomic_fetch_add(&files_opened, 1);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int proc_read_text(pid_t pid, const char *file, char text[PROC_TEXT_BYTES])
{
    size_t used = 0;
    ssize_t got = 0;
    int failure;
    int fd = proc_open(pid, file);

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

char *proc_read_bytes(pid_t pid, const char *file, size_t max, size_t *ret_bytes, int *ret_result)
{
    int fd = proc_open(pid, file);
    char *bytes = NULL;
    size_t used = 0, capacity = 0;
    ssize_t got = 1;

    *ret_result = fd < 0 ? proc_failure(errno) : 0;
    while (fd >= 0 && got > 0 && used < max) {
        if (used == capacity) {
            capacity = capacity == 0 ? 4096 : 2 * capacity;
            bytes = check_realloc(bytes, capacity, 1);
        }
        got = read(fd, bytes + used, (capacity < max ? capacity : max) - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0 && got < 0)
        *ret_result = proc_failure(errno);
    if (fd >= 0)
        close(fd);
    *ret_bytes = used;
    if (used > 0)
        return bytes;
    free(bytes);
    return NULL;
}

void proc_read_waits(pid_t pid, char *ret_where, size_t size)
{
    size_t length;
    int result;
    char *bytes = proc_read_bytes(pid, "wchan", size - 1, &length, &result);

    ret_where[0] = '\0';
    if (bytes == NULL)
        return;
    if (length > 1 || bytes[0] != '0') { /* 0: nowhere */
        memcpy(ret_where, bytes, length);
        ret_where[length] = '\0';
        for (char *byte = ret_where; *byte != '\0'; byte++)
            if (*byte <= ' ' || *byte >= 0x7f)
                *byte = '?';
    }
    free(bytes);
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

/* Asking the kernel for a group costs a tenth of opening a file, and each process of the node is
 * asked. */
static bool may_be_in_group(pid_t pid, pid_t group)
{
    const pid_t now = getpgid(pid);

    return now == group || (now < 0 && errno != ESRCH);
}

size_t proc_group(pid_t group, proc_each_fn *each, void *data)
{
    struct dirent *entry;
    DIR *folder;
    size_t count = 0;
    bool unread;

    CHECK(group > 1);
    if (kill(-group, 0) != 0 && errno == ESRCH)
        return 0; /* not even a zombie */
    folder = opendir("/proc");
    unread = folder == NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct proc_stat stat;
        int result;
        if (pid <= 0 || !may_be_in_group(pid, group))
            continue;
        result = proc_read_stat(pid, &stat);
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

bool proc_catching_add(struct proc_catching *catching, const struct proc_stat *stat,
                       const struct proc_status *status, int signal)
{
    uint64_t bit;

    CHECK(signal >= 1 && signal <= 64);
    bit = UINT64_C(1) << (signal - 1);
    if (status->caught & bit) {
        catching->any = true;
    } else if (!(status->ignored & bit)) {
        catching->culprit = stat->pid;
        memcpy(catching->culprit_name, stat->name, sizeof(catching->culprit_name));
    }
    return catching->culprit == 0;
}

enum proc_catches proc_catching_end(const struct proc_catching *catching)
{
    if (catching->culprit != 0)
        return PROC_WOULD_DIE;
    if (catching->unread)
        return PROC_UNREAD;
    return catching->any ? PROC_CATCHES : PROC_NONE_CATCHES;
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
