/* When anything below a folder was last read or changed. See tree.h.
 *
 * Flow     a list of folders is its own queue, as in tree_list.c; of the files only their times are
 *          looked at.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/tree.h"

struct use_walk {
    int base;
    struct tree_use *use;
    struct manifest folders;
};

static void note_time(struct tree_use *use, time_t at)
{
    if (at > use->newest)
        use->newest = at;
}

/* False: it cannot be told. Neither sockets nor links count: nobody restores from them. */
static bool use_entry(struct use_walk *walk, int folder, const char *path, const char *name)
{
    bool top = strcmp(path, name) == 0;
    struct stat status;

    walk->use->names++;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (S_ISDIR(status.st_mode)) {
        if (walk->folders.count == MANIFEST_ENTRIES_MAX)
            return false;
        manifest_add(&walk->folders, path, true);
    } else if (S_ISREG(status.st_mode) && !(top && strcmp(name, MANIFEST_NAME) == 0)) {
        note_time(walk->use, status.st_mtim.tv_sec);
        note_time(walk->use, status.st_atim.tv_sec);
    }
    return true;
}

static bool use_folder(struct use_walk *walk, const char *folder)
{
    int fd = tree_open_beneath(walk->base, folder, O_RDONLY | O_DIRECTORY, 0);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    char path[MANIFEST_PATH_MAX_BYTES];
    const struct dirent *entry;
    bool told = directory != NULL;

    if (directory == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (told && (entry = readdir(directory)) != NULL) {
        int length = snprintf(path, sizeof(path), "%s%s%s", folder, *folder == '\0' ? "" : "/",
                              entry->d_name);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        told =
            length > 0 && (size_t)length < sizeof(path) && use_entry(walk, fd, path, entry->d_name);
    }
    closedir(directory);
    return told;
}

bool tree_find_use(int base, struct tree_use *use)
{
    struct use_walk walk = {.base = base, .use = use};
    char folder[MANIFEST_PATH_MAX_BYTES];
    bool told;

    manifest_init(&walk.folders);
    told = use_folder(&walk, "");
    for (size_t i = 0; i < walk.folders.count && told; i++) {
        /* copied: the entries move while the list grows */
        snprintf(folder, sizeof(folder), "%s", walk.folders.entries[i].path);
        told = use_folder(&walk, folder);
    }
    manifest_close(&walk.folders);
    return told;
}
