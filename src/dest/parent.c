/* See parent.h. */
#include "src/dest/parent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "src/dest/worker.h"

int parent_bind(struct err *err)
{
    const char *wanted = getenv(WORKER_PARENT);

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return err_set(err, ERR_IO, "prctl: %s", strerror(errno));
    /* A parent that ended before the call above is not told of any more. */
    if (wanted != NULL && strtol(wanted, NULL, 10) != (long)getppid())
        return err_set(err, ERR_UNAVAILABLE, "the daemon (pid %s) that started this is gone",
                       wanted);
    return 0;
}
