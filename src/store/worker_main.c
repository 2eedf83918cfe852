/* ckpt-worker: blocking work on destinations. src/store/README.md lists verbs, arguments and exit codes.
 *
 * Flow     the kernel is asked to kill this process when its daemon dies, so that no put outlives the one who
 *          counts on it; then verbs_main().
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "src/store/verbs.h"
#include "src/store/worker.h"

int main(int argc, char **argv)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        fprintf(stderr, "ckpt-worker: prctl: %s\n", strerror(errno));
        return WORKER_EXIT_UNAVAILABLE;
    }
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    return verbs_main(argc, argv, stdout, stderr);
}
