/* One process per folder. See lockfile.h. */
#include "src/base/lockfile.h"

#include <errno.h>
#include <sys/file.h>
#include <time.h>

enum { LOCKFILE_TRIES = 50, LOCKFILE_PAUSE_MS = 20 };

int lockfile_take(int fd)
{
    const struct timespec pause = {0, LOCKFILE_PAUSE_MS * 1000000L};

    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCKFILE_TRIES)
            return -1;
        nanosleep(&pause, NULL);
    }
    return 0;
}
