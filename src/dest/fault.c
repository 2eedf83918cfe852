/* errno as one line of error text. See fault.h. The steps name no destination: a path may also be
 * one in the work folder. */
#include "src/dest/fault.h"

#include <errno.h>
#include <string.h>

/* What an errno means to who decides about another try (the code), and to people (the next
 * step). */
struct fault_kind {
    int number;
    enum err_code code;
    const char *next_step;
};

/* Those that have a code or a next step of their own; fault_set() has the one of all others. */
static const struct fault_kind kinds[] = {
    {ENOSPC, ERR_FULL, "free space in its file system, then retry"},
    {EDQUOT, ERR_QUOTA, "raise the quota or free space, then retry"},
    {ENOENT, ERR_NOT_FOUND, "check that the path is right"},
    {ELOOP, ERR_REFUSED, "replace the symbolic link by a real folder or file"},
    {ENOTDIR, ERR_REFUSED, "replace what lies there by a real folder"},
    {EACCES, ERR_AUTH, "give the user that this runs as access to the path"},
    {EPERM, ERR_AUTH, "give the user that this runs as access to the path"},
    {EROFS, ERR_IO, "remount its file system for writing"},
    {ESTALE, ERR_IO, "check the NFS server and the mount, then retry"},
    {EMFILE, ERR_IO, "raise the limit of open files"},
};

int fault_set(struct err *err, const char *operation, const char *path)
{
    int number = errno;
    struct fault_kind kind = {number, ERR_IO, "check its file system and the mount, then retry"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].number == number)
            kind = kinds[i];
    }
    return err_set(err, kind.code, "%s %s: %s; %s", operation, path, strerror(number),
                   kind.next_step);
}
