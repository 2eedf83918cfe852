/* The parts of a job that lie outside of a checkpoint. See run_conditions.h. */
#include "src/agent/run/run_conditions.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/base/check.h"

enum { MAPS_BYTES = 1 << 20 };

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Each process has these, and nothing of them is lost. */
static bool is_harmless_device(const char *target)
{
    static const char *const names[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                        "/dev/urandom"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(target, names[i]) == 0)
            return true;
    return begins_with(target, "/dev/shm/") || begins_with(target, "/dev/pts/") ||
           strcmp(target, "/dev/tty") == 0;
}

void conditions_add_open(struct conditions *conditions, const char *target, bool standard)
{
    if (begins_with(target, "socket:["))
        conditions->sockets += !standard;
    else if (begins_with(target, "pipe:[") && standard)
        conditions->standard_pipe = true;
    else if (begins_with(target, "pipe:["))
        conditions->pipes++;
    else if (begins_with(target, "/dev/") && !is_harmless_device(target))
        conditions->devices++;
    else if (begins_with(target, "/") && ends_with(target, " (deleted)"))
        conditions->removed++;
}

static void look_at_open(struct conditions *conditions)
{
    char folder[64], path[PATH_MAX], target[PATH_MAX];
    const struct dirent *entry;
    DIR *open_files;

    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)conditions->pid);
    open_files = opendir(folder);
    while (open_files != NULL && (entry = readdir(open_files)) != NULL) {
        ssize_t length;

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        length = isdigit((unsigned char)entry->d_name[0])
                     ? readlink(path, target, sizeof(target) - 1)
                     : -1;
        if (length < 0)
            continue;
        target[length] = '\0';
        conditions_add_open(conditions, target,
                            strlen(entry->d_name) == 1 && entry->d_name[0] < '3');
    }
    if (open_files != NULL)
        closedir(open_files);
}

/* By what is mapped: a program with a loader has that beside it. */
static bool has_no_loader(pid_t pid)
{
    size_t length = 0;
    int result;
    char *maps = proc_read_bytes(pid, "maps", MAPS_BYTES, &length, &result);
    bool found = maps == NULL || memmem(maps, length, "/ld-", 4) != NULL ||
                 memmem(maps, length, "/ld.", 4) != NULL;

    free(maps);
    return !found;
}

bool conditions_look(pid_t pid, struct conditions *ret_conditions)
{
    struct proc_status status;
    struct proc_stat stat;

    *ret_conditions = (struct conditions){.pid = pid};
    if (proc_read_stat(pid, &stat) != 0 || proc_read_status(pid, &status) != 0)
        return false;
    snprintf(ret_conditions->name, sizeof(ret_conditions->name), "%s", stat.name);
    ret_conditions->threads = stat.threads;
    ret_conditions->caught = status.caught;
    ret_conditions->is_static = has_no_loader(pid);
    look_at_open(ret_conditions);
    return true;
}

/* ---- words ---- */

static void print_count(FILE *to, unsigned count, const char *one, const char *why)
{
    if (count > 0)
        fprintf(to, "    %u %s%s: %s\n", count, one, count == 1 ? "" : "s", why);
}

static bool catches_signal(const struct conditions *conditions, int number)
{
    return (conditions->caught >> (number - 1) & 1) != 0;
}

static void print_handlers(FILE *to, const struct conditions *conditions)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP};
    const char *between = "    catches ";

    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (!catches_signal(conditions, numbers[i]))
            continue;
        fprintf(to, "%sSIG%s", between, sigabbrev_np(numbers[i]));
        between = ", ";
    }
    if (between[0] == ',')
        fputc('\n', to);
}

void conditions_print(FILE *to, const struct conditions *conditions)
{
    CHECK(conditions->pid > 0);
    fprintf(to, "  pid %d (%s), %" PRIu64 " thread%s\n", (int)conditions->pid, conditions->name,
            conditions->threads, conditions->threads == 1 ? "" : "s");
    print_count(to, conditions->sockets, "socket",
                "the other end goes on without it; the program opens it again, or it is gone");
    print_count(to, conditions->pipes, "pipe", "what is in it is lost with its processes");
    print_count(to, conditions->devices, "device", "its memory is in no file");
    print_count(to, conditions->removed, "removed file",
                "it has no name under which it comes back");
    if (conditions->standard_pipe)
        fprintf(to, "    a standard stream is a pipe: what is in it is lost, and an input that was "
                    "read is not given again\n");
    if (conditions->is_static)
        fprintf(to, "    linked statically: tools that put themselves before its calls cannot "
                    "save it from outside\n");
    print_handlers(to, conditions);
}

void conditions_print_machine(FILE *to)
{
    struct utsname name;

    if (uname(&name) == 0)
        fprintf(to, "  %s, %s: what it saves goes on on the same architecture and system\n",
                name.machine, name.sysname);
}
