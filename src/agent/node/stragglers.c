/* What is left of a job whose process group has ended. See stragglers.h. */
#include "src/agent/node/stragglers.h"

#include <signal.h>
#include <stdlib.h>

#include "src/base/check.h"

size_t stragglers_find(const struct job_identity *job, bool kill)
{
    struct job_processes table;
    size_t count;

    if (kill && job->cgroup[0] != '\0')
        cgroup_kill(job->cgroup, NULL);
    job_processes_init(&table);
    job_processes_look(&table, job, PROCESS_ANEW);
    count = table.unread ? 1 : 0;
    for (size_t i = 0; i < table.count; i++) {
        const struct job_process *process = &table.items[i];
        if (!process->belongs)
            continue;
        count++;
        if (kill)
            (void)proc_signal(process->stat.pid, process->stat.start_ticks, SIGKILL);
    }
    job_processes_close(&table);
    return count;
}

/* ---- off the loop ---- */

struct stragglers_look {
    uv_work_t work;
    struct job_identity job;
    bool kill;
    size_t count;
    void (*done)(void *data, size_t count); /* NULL: not wanted any more */
    void *data;
};

static void work_look(uv_work_t *work)
{
    struct stragglers_look *look = work->data;

    look->count = stragglers_find(&look->job, look->kill);
}

static void work_done(uv_work_t *work, int status)
{
    struct stragglers_look *look = work->data;

    (void)status;
    if (look->done != NULL)
        look->done(look->data, look->count);
    free(look);
}

struct stragglers_look *stragglers_start(uv_loop_t *loop, const struct job_identity *job, bool kill,
                                         void (*done)(void *data, size_t count), void *data)
{
    struct stragglers_look *look = check_calloc(1, sizeof(*look));

    look->work.data = look;
    look->job = *job;
    look->kill = kill;
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
