/* What an application has started and what has left its process group. See stragglers.h. */
#include "src/agent/node/stragglers.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/agent/node/proc_environment.h"
#include "src/base/check.h"

/* Living, of its user, and not older: what is cheap to tell first. As proc_read_stat(); -1: no
 * stragglers. */
static int may_be_straggler(const struct stragglers *stragglers, pid_t pid,
                            uint64_t *ret_start_ticks)
{
    struct proc_stat stat;
    struct proc_status status;
    int result = proc_read_stat(pid, &stat);

    if (result == 0)
        result = proc_read_status(pid, &status);
    if (result != 0)
        return result;
    *ret_start_ticks = stat.start_ticks;
    return proc_living(&stat) && status.uid == stragglers->uid &&
                   stat.start_ticks >= stragglers->start_ticks
               ? 0
               : -1;
}

static bool is_straggler(const struct stragglers *stragglers, pid_t pid)
{
    struct proc_environment found;
    char run[CHECKPOINT_ID_TEXT_BYTES];

    return proc_read_environment(pid, &found) &&
           strcmp(found.allocation_id, stragglers->allocation_id) == 0 &&
           strcmp(found.work_dir, stragglers->work_dir) == 0 &&
           strcmp(found.run, checkpoint_id_format(stragglers->run, run)) == 0;
}

/* The descriptor keeps what was looked at apart from a process that gets its number meanwhile. */
static bool kill_straggler(const struct stragglers *stragglers, pid_t pid)
{
    uint64_t before, ticks;
    int result = may_be_straggler(stragglers, pid, &before);
    int fd = -1;
    bool found;

    if (result == 0)
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (result != 0 || (fd < 0 && errno == ESRCH))
        return result > 0;
    found = is_straggler(stragglers, pid) && may_be_straggler(stragglers, pid, &ticks) == 0 &&
            ticks == before;
    if (found && fd >= 0)
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    else if (found)
        kill(pid, SIGKILL); /* an old kernel */
    if (fd >= 0)
        close(fd);
    return found;
}

size_t stragglers_kill(const struct stragglers *stragglers)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = folder == NULL ? 1 : 0;

    CHECK(stragglers->start_ticks > 0 && stragglers->allocation_id[0] != '\0');
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && pid != getpid() && kill_straggler(stragglers, pid))
            count++;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* ---- off the loop ---- */

struct stragglers_look {
    uv_work_t work;
    struct stragglers stragglers;
    size_t count;
    void (*done)(void *data, size_t count); /* NULL: not wanted any more */
    void *data;
};

static void work_look(uv_work_t *work)
{
    struct stragglers_look *look = work->data;

    look->count = stragglers_kill(&look->stragglers);
}

static void work_done(uv_work_t *work, int status)
{
    struct stragglers_look *look = work->data;

    (void)status;
    if (look->done != NULL)
        look->done(look->data, look->count);
    free(look);
}

struct stragglers_look *stragglers_start(uv_loop_t *loop, const struct stragglers *stragglers,
                                         void (*done)(void *data, size_t count), void *data)
{
    struct stragglers_look *look = check_calloc(1, sizeof(*look));

    look->work.data = look;
    look->stragglers = *stragglers;
    look->done = done;
    look->data = data;
    CHECK(uv_queue_work(loop, &look->work, work_look, work_done) == 0);
    return look;
}

void stragglers_detach(struct stragglers_look *look)
{
    if (look != NULL)
        look->done = NULL;
}
