/* See neighbours.h. */
#include "src/dest/posix/neighbours.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"

/* The highest names, in falling order. */
struct highest {
    size_t count;
    char names[NEIGHBOURS_EACH][MANIFEST_NAME_MAX_BYTES + 1];
};

static void highest_add(struct highest *highest, const char *name)
{
    size_t at = highest->count;

    while (at > 0 && strverscmp(highest->names[at - 1], name) < 0)
        at--;
    if (at == NEIGHBOURS_EACH)
        return;
    if (highest->count < NEIGHBOURS_EACH)
        highest->count++;
    memmove(highest->names[at + 1], highest->names[at],
            (highest->count - 1 - at) * sizeof(highest->names[0]));
    snprintf(highest->names[at], sizeof(highest->names[at]), "%s", name);
}

static void take_names(struct neighbours *neighbours, const struct highest *highest)
{
    memcpy(neighbours->names[neighbours->count], highest->names,
           highest->count * sizeof(highest->names[0]));
    neighbours->count += highest->count;
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

void neighbours_open(struct neighbours *neighbours, int checkpoint, const char *path)
{
    struct highest before = {.count = 0}, behind = {.count = 0};
    const char *own = last_component(path);
    const struct dirent *entry;
    DIR *names;
    int fd;

    neighbours->count = 0;
    neighbours->folder = openat(checkpoint, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = neighbours->folder < 0 ? -1 : fcntl(neighbours->folder, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return;
    names = fdopendir(fd);
    CHECK(names != NULL);
    while ((entry = readdir(names)) != NULL) {
        int order = entry->d_name[0] == '.' ? 0 : strverscmp(entry->d_name, own);

        if (order < 0)
            highest_add(&before, entry->d_name);
        else if (order > 0)
            highest_add(&behind, entry->d_name);
    }
    closedir(names);
    take_names(neighbours, &before);
    take_names(neighbours, &behind);
}

void neighbours_close(struct neighbours *neighbours)
{
    if (neighbours->folder >= 0)
        close(neighbours->folder);
    neighbours->folder = -1;
    neighbours->count = 0;
}
