/* Jobs that people started themselves at the agents of ckptctl dev. See dev.h.
 *
 * Flow     they are found in /proc: a ckpt-run or a keeper by the socket that it was given, and all
 *          that runs below it. They are told to end, and killed a moment later.
 * Errors   another user's may not be killed: it is named, and stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/dev/dev.h"

enum {
    TEXT_BYTES = 256 << 10, /* of words, or of an environment */
    ANCESTORS_MAX = 256,
    STAT_BYTES = 512,
    LOOK_MS = 50,
    GRACE_LOOKS = 40, /* 2 s */
    KILL_LOOKS = 100
};

/* A file of /proc with a NUL behind it; its length. */
static size_t read_text(pid_t pid, const char *name, char *text)
{
    size_t length = 0;
    char path[64];
    ssize_t count;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && length < TEXT_BYTES &&
           (count = read(fd, text + length, TEXT_BYTES - length)) > 0)
        length += (size_t)count;
    if (fd >= 0)
        close(fd);
    text[length] = '\0';
    return length;
}

pid_t dev_parent_of(pid_t pid)
{
    char path[64], text[STAT_BYTES + 1];
    const char *behind;
    size_t length;
    FILE *file;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    length = fread(text, 1, STAT_BYTES, file);
    fclose(file);
    text[length] = '\0';
    behind = strrchr(text, ')'); /* the name before it may have any letters */
    if (behind == NULL || sscanf(behind, ") %*c %d", &parent) != 1)
        return 0;
    return parent;
}

static bool is_below_keeper(pid_t pid)
{
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        if (pid == getpid())
            return true;
        pid = dev_parent_of(pid);
    }
    return false;
}

static bool is_ckpt_run(const char *words)
{
    const char *slash = strrchr(words, '/');

    return strcmp(slash == NULL ? words : slash + 1, "ckpt-run") == 0;
}

/* The value of an option among the words before "--"; NULL: it is not there. */
static const char *value_in(const char *words, size_t length, const char *option)
{
    for (const char *at = words; at < words + length; at += strlen(at) + 1) {
        const char *behind = at + strlen(option);

        if (strcmp(at, "--") == 0)
            break;
        if (strncmp(at, option, strlen(option)) != 0)
            continue;
        if (*behind == '=')
            return behind + 1;
        if (*behind == '\0' && behind + 1 < words + length)
            return behind + 1;
    }
    return NULL;
}

/* A ckpt-run, or its keeper, by the socket that it was given. */
static bool is_run_here(const struct dev *dev, pid_t pid, char *text)
{
    static const char name[] = "CKPT_AGENT_SOCKET=";
    char wanted[DEV_FOLDER_BYTES + 32];
    size_t length = read_text(pid, "cmdline", text);
    const char *socket;

    if (!is_ckpt_run(text))
        return false;
    snprintf(wanted, sizeof(wanted), "%s/node-", dev->folder);
    socket = value_in(text, length, "--socket");
    if (socket != NULL)
        return strncmp(socket, wanted, strlen(wanted)) == 0;
    length = read_text(pid, "environ", text);
    for (const char *at = text; at < text + length; at += strlen(at) + 1)
        if (strncmp(at, name, strlen(name)) == 0)
            return strncmp(at + strlen(name), wanted, strlen(wanted)) == 0;
    return false;
}

/* Such a one and all below it, but never a process above this one. */
static bool is_own(const struct dev *dev, pid_t pid, char *text)
{
    for (pid_t above = getpid(); above > 1; above = dev_parent_of(above))
        if (above == pid)
            return false;
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        if (is_run_here(dev, pid, text))
            return true;
        pid = dev_parent_of(pid);
    }
    return false;
}

/* Each job is told of once, by the process that its user sees. */
static void tell_end(const struct dev *dev, pid_t pid, bool stays, char *text)
{
    const bool inner = is_own(dev, dev_parent_of(pid), text);
    const size_t length = read_text(pid, "cmdline", text);
    const char *job = is_ckpt_run(text) ? value_in(text, length, "--alloc") : NULL;

    if (!stays && (inner || job == NULL))
        return;
    printf("job %s (pid %d) ran at an agent of this cluster: it %s\n", job == NULL ? "?" : job,
           (int)pid, stays ? "is another user's and goes on" : "is ended");
    fflush(stdout);
}

/* How many it reached. */
static size_t signal_own(const struct dev *dev, int number, bool tell, char *text)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;

    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        const pid_t pid = id_is_number(entry->d_name) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
        bool reached;

        if (pid <= 1 || !is_own(dev, pid, text) || is_below_keeper(pid))
            continue;
        reached = kill(pid, number) == 0;
        count += reached;
        if (tell && (reached || errno == EPERM))
            tell_end(dev, pid, !reached, text);
    }
    closedir(folder);
    return count;
}

void dev_own_end(const struct dev *dev)
{
    char *text = check_alloc(TEXT_BYTES + 1);
    size_t left = signal_own(dev, SIGTERM, true, text);

    for (int i = 0; left > 0 && i < GRACE_LOOKS; i++) {
        (void)poll(NULL, 0, LOOK_MS);
        left = signal_own(dev, 0, false, text);
    }
    for (int i = 0; left > 0 && i < KILL_LOOKS; i++) {
        left = signal_own(dev, SIGKILL, false, text);
        (void)poll(NULL, 0, LOOK_MS);
    }
    free(text);
}
