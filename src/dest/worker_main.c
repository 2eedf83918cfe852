/* ckpt-worker: blocking work on destinations. src/dest/README.md lists verbs, arguments and exit
 * codes.
 *
 * Flow     the kernel is asked to kill this process when its daemon dies, so that no put outlives
 *          the one who counts on it; then verbs_main().
 */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "src/dest/parent.h"
#include "src/dest/verbs.h"
#include "src/dest/worker.h"

int main(int argc, char **argv)
{
    struct err err;

    if (parent_bind(&err) != 0) {
        fprintf(stderr, "ckpt-worker: %s\n", err.text);
        return WORKER_EXIT_UNAVAILABLE;
    }
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    return verbs_main(argc, argv, stdout, stderr);
}
