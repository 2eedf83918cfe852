/* What the table of processes reads of its node. See proc_source.h. */
#include "src/agent/node/proc_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"

enum { LIST_OFFSET_UNKNOWN = -1 };

/* Places in the folder /proc: that of a process is its pid and a constant, which a whole listing
 * shows, or shows not to be one. */
static long list_offset = LIST_OFFSET_UNKNOWN;

/* ---- who is new ---- */

/* All of it; the line of interrupts before "processes" may have 100 kB. NULL: it cannot be read. */
static char *read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0, capacity = 0;
    char *text = NULL;
    ssize_t got = fd < 0 ? 0 : 1;

    while (got > 0) {
        if (used + 1 >= capacity) {
            capacity = capacity == 0 ? 16384 : 2 * capacity;
            text = check_realloc(text, capacity, 1);
        }
        got = read(fd, text + used, capacity - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    if (text != NULL)
        text[used] = '\0';
    return text;
}

static int read_fork_count(struct proc_forks *forks)
{
    char *text = read_file("/proc/stat");
    const char *line = text == NULL ? NULL : strstr(text, "\nprocesses ");
    int result = line != NULL && sscanf(line, "\nprocesses %lu", &forks->count) == 1 ? 0 : -1;

    free(text);
    return result;
}

/* "0.20 0.18 0.12 1/80 11206": tasks that run, of how many, and the last number. */
static int read_last_pid(struct proc_forks *forks)
{
    char *text = read_file("/proc/loadavg");
    int result = -1;

    if (text != NULL && sscanf(text, "%*s %*s %*s %*u/%lu %d", &forks->tasks, &forks->last) == 2 &&
        forks->last > 0)
        result = 0;
    free(text);
    return result;
}

static int read_pid_max(struct proc_forks *forks)
{
    char *text = read_file("/proc/sys/kernel/pid_max");
    int result = text != NULL && sscanf(text, "%lu", &forks->pid_max) == 1 ? 0 : -1;

    free(text);
    return result;
}

/* The count comes first: what appears after it is counted the next time. */
static int node_forks(void *context, struct proc_forks *ret_forks)
{
    struct proc_forks forks = {.count = 0};

    (void)context;
    if (read_fork_count(&forks) != 0 || read_last_pid(&forks) != 0 || read_pid_max(&forks) != 0)
        return -1;
    *ret_forks = forks;
    return 0;
}

/* ---- who is there ---- */

struct listing {
    struct proc_span span;
    proc_listed_fn *each;
    void *data;
    long offset; /* of the places seen so far */
    bool offset_varies;
};

/* An entry has the place of the one after it. */
static void take_offset(struct listing *listing, long place, pid_t pid)
{
    long offset = place - pid;

    if (listing->offset == LIST_OFFSET_UNKNOWN)
        listing->offset = offset;
    listing->offset_varies = listing->offset_varies || offset < 0 || offset != listing->offset;
}

/* True: all of the span was seen. */
static bool list_entries(DIR *folder, struct listing *listing)
{
    const bool all = listing->span.until == 0;
    pid_t before = 0;
    long place = 0;
    struct dirent *entry;

    errno = 0;
    while ((entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0)
            continue;
        if (!all && (pid <= listing->span.after || pid < before))
            return false; /* the place was another one */
        if (!all && pid > listing->span.until)
            return true;
        if (before > 0)
            take_offset(listing, place, pid);
        listing->each(listing->data, pid, entry->d_ino);
        before = pid;
        place = entry->d_off;
    }
    return errno == 0;
}

static int node_list(void *context, struct proc_span span, proc_listed_fn *each, void *data)
{
    struct listing listing = {
        .span = span, .each = each, .data = data, .offset = LIST_OFFSET_UNKNOWN};
    const bool all = span.until == 0;
    DIR *folder = NULL;
    bool whole;

    (void)context;
    if (all || list_offset != LIST_OFFSET_UNKNOWN)
        folder = opendir("/proc");
    if (folder == NULL)
        return -1;
    if (!all)
        seekdir(folder, list_offset + span.after + 1);
    whole = list_entries(folder, &listing);
    closedir(folder);
    if (all)
        list_offset = listing.offset_varies ? LIST_OFFSET_UNKNOWN : listing.offset;
    return whole ? 0 : -1;
}

/* ---- one process ---- */

static int node_stat(void *context, pid_t pid, struct proc_stat *ret_stat)
{
    (void)context;
    return proc_read_stat(pid, ret_stat);
}

static int node_status(void *context, pid_t pid, struct proc_status *ret_status)
{
    (void)context;
    return proc_read_status(pid, ret_status);
}

static char *node_bytes(void *context, pid_t pid, const char *file, size_t max, size_t *ret_bytes,
                        int *ret_result)
{
    (void)context;
    return proc_read_bytes(pid, file, max, ret_bytes, ret_result);
}

static pid_t node_group(void *context, pid_t pid)
{
    (void)context;
    return getpgid(pid);
}

static uint64_t node_now_ticks(void *context)
{
    struct timespec now;
    const long hz = sysconf(_SC_CLK_TCK);

    (void)context;
    CHECK(hz > 0);
    CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (uint64_t)now.tv_sec * (uint64_t)hz +
           (uint64_t)now.tv_nsec / (1000000000 / (uint64_t)hz);
}

const struct proc_source *proc_source_node(void)
{
    static const struct proc_source node = {.forks = node_forks,
                                            .list = node_list,
                                            .stat = node_stat,
                                            .status = node_status,
                                            .bytes = node_bytes,
                                            .group = node_group,
                                            .now_ticks = node_now_ticks};

    return &node;
}
