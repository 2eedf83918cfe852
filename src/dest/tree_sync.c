/* What was made in a folder is made durable. See tree.h. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
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

/* syncfs(2) tells what failed since the folder was opened from Linux 5.8 on. */
static bool kernel_tells(void)
{
    struct utsname name;
    unsigned major = 0, minor = 0;

    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 8));
}

/* Local ones: what a network file system's server does then is not for the client to know. */
bool tree_settles(int folder)
{
    static const unsigned long magics[] = {EXT4_SUPER_MAGIC, XFS_MAGIC, BTRFS_SUPER_MAGIC,
                                           TMPFS_MAGIC};
    struct statfs status;

    if (!kernel_tells() || fstatfs(folder, &status) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_COUNT(magics); i++) {
        if ((unsigned long)status.f_type == magics[i])
            return true;
    }
    return false;
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
int tree_sync_folders(int base, const char *label, const struct manifest *manifest, bool with_modes,
                      struct err *err)
{
    bool settle = count_folders(manifest) >= TREE_SETTLE_COUNT && tree_settles(base);

    for (size_t i = manifest->count; i-- > 0;) {
        const struct manifest_entry *entry = &manifest->entries[i];
        int fd, result = 0;
        if (!entry->is_directory || (settle && !with_modes))
            continue;
        fd = tree_open_beneath(base, entry->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            return fault_set(err, "open folder", entry->path);
        if (with_modes && fchmod(fd, entry->mode) != 0)
            result = fault_set(err, "chmod", entry->path);
        if (result == 0 && !settle)
            result = tree_sync(fd, entry->path, err);
        close(fd);
        if (result != 0)
            return -1;
    }
    return settle ? tree_settle(base, label, err) : tree_sync(base, label, err);
}
