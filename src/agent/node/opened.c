/* A user's folder or socket, held by a descriptor. See opened.h. */
#include "src/agent/node/opened.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"

struct opened *opened_here(const char *path)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct opened *opened;

    if (fd < 0)
        return NULL;
    opened = check_calloc(1, sizeof(*opened));
    opened->fd = fd;
    return opened;
}

void opened_close(struct opened *opened)
{
    if (opened == NULL)
        return;
    close(opened->fd);
    free(opened);
}

const char *opened_address(const struct opened *opened, char text[OPENED_ADDRESS_BYTES])
{
    snprintf(text, OPENED_ADDRESS_BYTES, "unix:/proc/self/fd/%d", opened->fd);
    return text;
}

int opened_at(const struct opened *folder, const char *name, int flags, mode_t mode)
{
    const struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
                                 .mode = mode,
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};

    return (int)syscall(SYS_openat2, folder->fd, name, &how, sizeof(how));
}
