/* What was made in a folder is made durable. See tree.h. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/tree.h"

#define XFS_MAGIC 0x58465342 /* <linux/magic.h> has it since 5.16 only */

int tree_sync(int directory, const char *label, struct err *err)
{
    return fsync(directory) == 0 ? 0 : fault_set(err, "fsync folder", label);
}

static bool kernel_is(unsigned wanted_major, unsigned wanted_minor)
{
    struct utsname name;
    unsigned major = 0, minor = 0;

    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           (major > wanted_major || (major == wanted_major && minor >= wanted_minor));
}

/* syncfs(2) tells what failed since the folder was opened from Linux 5.8 on. */
static bool kernel_tells(void)
{
    return kernel_is(5, 8);
}

/* Of a line of /proc/self/mountinfo, proc(5): the type is the word behind " - ". */
static bool mount_is(const char *line, unsigned major, unsigned minor, const char *type)
{
    unsigned line_major = 0, line_minor = 0;
    const char *found = strstr(line, " - ");
    size_t length = strlen(type);

    return found != NULL && sscanf(line, "%*u %*u %u:%u ", &line_major, &line_minor) == 2 &&
           line_major == major && line_minor == minor && strncmp(found + 3, type, length) == 0 &&
           found[3 + length] == ' ';
}

/* ext2 has the same magic, and its own driver does not flush the disk's cache in syncfs(2). */
static bool is_ext4(int folder)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    bool found = false;
    struct stat status;
    char *line = NULL;
    size_t size = 0;

    if (mounts == NULL)
        return false;
    while (fstat(folder, &status) == 0 && !found && getline(&line, &size, mounts) > 0)
        found = mount_is(line, major(status.st_dev), minor(status.st_dev), "ext4");
    free(line);
    fclose(mounts);
    return found;
}

/* Local file systems: what a network file system's server does is not for the client to know. */
static const struct file_system {
    unsigned long magic;
    bool bypasses; /* tmpfs has nothing but the page cache; btrfs would write each block anew */
} file_systems[] = {
    {EXT4_SUPER_MAGIC, true}, {XFS_MAGIC, true}, {BTRFS_SUPER_MAGIC, false}, {TMPFS_MAGIC, false}};

/* NULL: it is none of these. */
static const struct file_system *file_system_of(int folder)
{
    struct statfs status;

    for (size_t i = 0; fstatfs(folder, &status) == 0 && i < ARRAY_COUNT(file_systems); i++) {
        if ((unsigned long)status.f_type == file_systems[i].magic)
            return &file_systems[i];
    }
    return NULL;
}

bool tree_settles(int folder)
{
    const struct file_system *file_system = kernel_tells() ? file_system_of(folder) : NULL;

    return file_system != NULL && (file_system->magic != EXT4_SUPER_MAGIC || is_ext4(folder));
}

bool tree_is_local(int folder)
{
    return file_system_of(folder) != NULL;
}

/* These four had it first ("multigrain timestamps"). */
bool tree_stamps_each(int folder)
{
    return kernel_is(6, 13) && tree_is_local(folder);
}

/* ext2 has no fallocate(2), so that nothing is written so there. */
bool tree_bypasses(int folder)
{
    const struct file_system *file_system = file_system_of(folder);

    return file_system != NULL && file_system->bypasses;
}

int tree_settle(int folder, const char *label, struct err *err)
{
    return syncfs(folder) == 0 ? 0 : fault_set(err, "sync the file system of", label);
}

static size_t count_folders(const struct manifest *manifest)
{
    return manifest->count - manifest->file_count;
}

/* Entries ascend by path, so from the end on contents come before their folder. */
int tree_sync_folders(int base, const char *label, const struct manifest *manifest,
                      enum tree_sync_how how, struct err *err)
{
    bool settle = how != TREE_SYNC_OTHERS && count_folders(manifest) >= TREE_SETTLE_COUNT &&
                  tree_settles(base);

    for (size_t i = manifest->count; i-- > 0;) {
        const struct manifest_entry *entry = &manifest->entries[i];
        int fd, result = 0;
        if (!entry->is_directory || (settle && how != TREE_SYNC_WITH_MODES))
            continue;
        fd = tree_open_beneath(base, entry->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            return fault_set(err, "open folder", entry->path);
        if (how == TREE_SYNC_WITH_MODES && fchmod(fd, entry->mode) != 0)
            result = fault_set(err, "chmod", entry->path);
        if (result == 0 && !settle)
            result = tree_sync(fd, entry->path, err);
        close(fd);
        if (result != 0)
            return -1;
    }
    return settle ? tree_settle(base, label, err) : tree_sync(base, label, err);
}
