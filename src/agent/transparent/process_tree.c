/* The processes below one, and the files that they have open. See process_tree.h. */
#include "src/agent/transparent/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/base/check.h"
#include "src/base/id.h"

enum { PATH_BYTES = 64, INFO_BYTES = 512, FD_MAX = 1 << 20 };

/* ---- processes ---- */

struct pair {
    pid_t pid, parent;
};

static struct pair *read_pairs(size_t *ret_count)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    struct pair *pairs = NULL;
    struct proc_stat stat;
    size_t count = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!id_is_number(entry->d_name) ||
            proc_read_stat((pid_t)strtol(entry->d_name, NULL, 10), &stat) != 0 || stat.state == 'Z')
            continue;
        pairs = check_realloc(pairs, count + 1, sizeof(*pairs));
        pairs[count++] = (struct pair){stat.pid, stat.parent};
    }
    if (folder != NULL)
        closedir(folder);
    *ret_count = count;
    return pairs;
}

static bool add_children(struct process_tree *tree, size_t at, const struct pair *pairs,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].parent != tree->pids[at])
            continue;
        if (tree->count == PROCESS_TREE_MAX)
            return false;
        tree->pids[tree->count++] = pairs[i].pid;
    }
    return true;
}

int process_tree_look(pid_t root, struct process_tree *ret_tree, struct err *err)
{
    struct process_tree tree = {check_calloc(PROCESS_TREE_MAX, sizeof(*tree.pids)), 1};
    struct proc_stat stat;
    size_t count;
    struct pair *pairs = read_pairs(&count);
    int result = 0;

    CHECK(root > 1);
    tree.pids[0] = root;
    if (proc_read_stat(root, &stat) != 0 || stat.state == 'Z')
        result = err_set(err, ERR_NOT_FOUND, "process %d has ended", (int)root);
    for (size_t i = 0; result == 0 && i < tree.count; i++)
        if (!add_children(&tree, i, pairs, count))
            result = err_set(err, ERR_FULL, "it has more than %d processes", PROCESS_TREE_MAX);
    free(pairs);
    if (result != 0)
        process_tree_free(&tree);
    else
        *ret_tree = tree;
    return result;
}

void process_tree_free(struct process_tree *tree)
{
    free(tree->pids);
    tree->pids = NULL;
    tree->count = 0;
}

size_t process_children(pid_t pid, pid_t *ret_child)
{
    size_t count, found = 0;
    struct pair *pairs = read_pairs(&count);

    for (size_t i = 0; i < count; i++) {
        if (pairs[i].parent != pid)
            continue;
        *ret_child = pairs[i].pid;
        found++;
    }
    free(pairs);
    return found;
}

int process_program(pid_t parent, pid_t *ret_root, struct err *err)
{
    struct proc_stat stat;
    size_t count;

    CHECK(parent > 1);
    count = process_children(parent, ret_root);
    if (count == 1)
        return 0;
    if (count == 0)
        return err_set(err, ERR_NOT_FOUND, "the application has ended, or has not begun yet");
    if (proc_read_stat(*ret_root, &stat) != 0)
        stat = (struct proc_stat){.name = "?"};
    return err_set(err, ERR_UNFIT,
                   "%zu of its processes have no parent in it any more, as pid %d (%s): they "
                   "cannot be saved from outside; start them without a daemon's double fork",
                   count - 1, (int)*ret_root, stat.name);
}

/* ---- files ---- */

static bool opened_for_writing(pid_t pid, int fd)
{
    char path[PATH_BYTES], text[INFO_BYTES];
    const char *line;
    ssize_t got;
    int info;

    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, fd);
    info = open(path, O_RDONLY | O_CLOEXEC);
    if (info < 0)
        return false;
    got = read(info, text, sizeof(text) - 1);
    close(info);
    text[got < 0 ? 0 : got] = '\0';
    line = strstr(text, "flags:");
    return line != NULL &&
           (strtoul(line + strlen("flags:"), NULL, 8) & O_ACCMODE) != (unsigned long)O_RDONLY;
}

int process_open_file(pid_t pid, int fd, struct open_file *ret_file)
{
    char path[PATH_BYTES];
    struct stat stat_of;
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    length = readlink(path, ret_file->target, sizeof(ret_file->target) - 1);
    if (length < 0 || stat(path, &stat_of) != 0)
        return -1;
    ret_file->target[length] = '\0';
    ret_file->is_regular = S_ISREG(stat_of.st_mode);
    ret_file->is_written = opened_for_writing(pid, fd);
    ret_file->bytes = ret_file->is_regular ? (uint64_t)stat_of.st_size : 0;
    return 0;
}

int process_each_file(pid_t pid, process_file_fn *each, void *data)
{
    char path[PATH_BYTES];
    const struct dirent *entry;
    struct open_file file;
    DIR *folder;
    int result = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    while (result == 0 && folder != NULL && (entry = readdir(folder)) != NULL) {
        long fd = id_is_number(entry->d_name) ? strtol(entry->d_name, NULL, 10) : -1;
        if (fd >= 0 && fd <= FD_MAX && process_open_file(pid, (int)fd, &file) == 0)
            result = each(data, &file);
    }
    if (folder != NULL)
        closedir(folder);
    return result;
}
