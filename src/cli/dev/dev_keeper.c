/* The process that outlives ckptctl dev for a moment and leaves nothing. See dev.h.
 *
 * Flow     the stage runs as its child. Every process whose parent ends becomes its child too
 *          (PR_SET_CHILD_SUBREAPER), so that what it kills in a round are all processes that are
 *          left, in whatever session, and the next round has their children. Jobs that people
 *          started are no children, and end before (dev_own.c).
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/dev/dev.h"

enum {
    LOOK_MS = 100,
    ROUND_MS = 10,
    ROUNDS_MAX = 1000 /* a process may be in a call that does not end */
};

/* How many there were. */
static size_t kill_children(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;

    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        const pid_t pid = id_is_number(entry->d_name) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;

        if (pid == 0 || dev_parent_of(pid) != getpid())
            continue;
        (void)kill(pid, SIGKILL);
        count++;
    }
    closedir(folder);
    return count;
}

static void end_all(void)
{
    for (int i = 0; i < ROUNDS_MAX && kill_children() > 0; i++) {
        (void)poll(NULL, 0, ROUND_MS);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

/* True: the stage has ended with *ret_code. Ends of others, whose parents are gone, are taken. */
static bool stage_ended(pid_t stage, int *ret_code)
{
    int status;
    pid_t ended;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        if (ended == stage) {
            *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
            return true;
        }
    }
    return false;
}

int dev_keep(struct dev *dev, int alive_fd)
{
    struct pollfd alive = {.fd = alive_fd, .events = POLLIN};
    int code = EXIT_SUCCESS;
    pid_t stage;

    (void)setsid(); /* keys of the terminal are for ckptctl */
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    stage = fork();
    CHECK(stage >= 0);
    if (stage == 0) {
        close(alive_fd);
        _exit(dev_stage(dev));
    }
    while (!stage_ended(stage, &code))
        if (poll(&alive, 1, LOOK_MS) > 0)
            break;
    dev_own_end(dev);
    end_all();
    if (code == EXIT_SUCCESS || !dev->keep)
        dev_folder_remove(dev);
    else
        fprintf(stderr, "  the logs stay in %s\n", dev->folder);
    if (code != EXIT_SUCCESS && !dev->keep)
        fprintf(stderr, "  try: ckptctl dev --keep   its folder and the logs in it stay then\n");
    return code;
}
