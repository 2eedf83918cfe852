/* Paths of files that are saved. See run_saved_paths.h. */
#include "src/agent/run/run_saved_paths.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum { LEFT_OUT_MAX = 8 };

static struct {
    struct {
        dev_t device;
        ino_t number;
    } items[LEFT_OUT_MAX];
    size_t count;
} left_out;

void saved_path_leave_out(int descriptor)
{
    struct stat stat_of;

    if (descriptor < 0 || fstat(descriptor, &stat_of) != 0 || left_out.count == LEFT_OUT_MAX)
        return;
    left_out.items[left_out.count].device = stat_of.st_dev;
    left_out.items[left_out.count++].number = stat_of.st_ino;
}

bool saved_path_leaves_out(const struct stat *stat)
{
    for (size_t i = 0; i < left_out.count; i++)
        if (left_out.items[i].number == stat->st_ino && left_out.items[i].device == stat->st_dev)
            return true;
    return false;
}

/* The file, or a folder that its name leads through. */
bool saved_path_lies_left_out(const char *path)
{
    char part[PATH_MAX];
    struct stat stat_of;
    size_t length = 0;

    CHECK(path[0] != '\0');
    while (left_out.count > 0 && path[length] != '\0') {
        length += strspn(path + length, "/");
        length += strcspn(path + length, "/");
        snprintf(part, sizeof(part), "%.*s", (int)length, path);
        if (lstat(part, &stat_of) == 0 && saved_path_leaves_out(&stat_of))
            return true;
    }
    return false;
}

int saved_path_make_parents(const char *path)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return 0;
}
