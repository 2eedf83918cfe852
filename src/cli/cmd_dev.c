/* ckptctl dev: a cluster on this machine until Ctrl-C. See dev/dev.h. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/dev/dev.h"

static void find_own_folder(struct dev *dev)
{
    const ssize_t length = readlink("/proc/self/exe", dev->programs, sizeof(dev->programs) - 1);
    char *slash;

    dev->programs[length < 0 ? 0 : length] = '\0';
    slash = strrchr(dev->programs, '/');
    if (slash != NULL)
        *slash = '\0';
}

/* Of another cluster, as the pages for operators have them exported: certificates would be used
 * with the clear text of this one. */
static void forget_environment(struct dev *dev)
{
    static const char prefix[] = "CKPT_";
    char name[128];

    dev->other_tls =
        getenv("CKPT_CA") != NULL || getenv("CKPT_CERT") != NULL || getenv("CKPT_KEY") != NULL;
    for (char **at = environ; *at != NULL;) {
        const size_t length = strcspn(*at, "=");

        if (strncmp(*at, prefix, strlen(prefix)) != 0 || length >= sizeof(name)) {
            at++;
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)length, *at);
        CHECK(unsetenv(name) == 0);
        at = environ; /* it has moved */
    }
}

static int prepare_files(struct cli *cli, struct dev *dev, struct err *err)
{
    static const char *const tools[] = {"ckptd", "ckpt-agentd", "ckpt-run", "ckpt-worker"};
    char path[PATH_MAX];

    find_own_folder(dev);
    for (size_t i = 0; i < ARRAY_COUNT(tools); i++)
        if (dev_find(dev, tools[i], path, err) != 0)
            return -1;
    if (dev_folder_make(dev, cli_text(cli, "dir"), err) != 0)
        return -1;
    if (dev_files_write(dev, err) == 0)
        return 0;
    dev_folder_remove(dev);
    return -1;
}

/* Until the keeper has ended. Other signals close the pipe, which ends the keeper. */
static int wait_for_keeper(pid_t keeper, const sigset_t *wanted, int alive_fd)
{
    int status;
    bool alive = true;

    while (waitpid(keeper, &status, WNOHANG) != keeper) {
        const int number = sigwaitinfo(wanted, NULL);

        if (number > 0 && number != SIGCHLD && alive) {
            close(alive_fd);
            alive = false;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

enum cli_exit command_dev(struct cli *cli)
{
    struct dev dev = {.started_ms = dev_now_ms(), .keep = cli_flag(cli, "keep")};
    sigset_t wanted, found;
    struct err err = {0};
    int ends[2];
    pid_t keeper;

    forget_environment(&dev);
    if (prepare_files(cli, &dev, &err) != 0)
        return cli_fail(cli, CLI_FAILED, NULL, "%s", err.text);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGHUP);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &wanted, &found) == 0);
    fflush(NULL);
    keeper = fork();
    CHECK(keeper >= 0);
    if (keeper == 0) {
        close(ends[1]);
        CHECK(sigprocmask(SIG_SETMASK, &found, NULL) == 0);
        _exit(dev_keep(&dev, ends[0]));
    }
    close(ends[0]);
    return wait_for_keeper(keeper, &wanted, ends[1]) == EXIT_SUCCESS ? CLI_OK : CLI_FAILED;
}
