/* Whether a process is one of a job's. See job_process_look.h. */
#include "src/agent/node/job_process_look.h"

#include <stdlib.h>

#include "src/base/check.h"

struct job_process_look {
    uv_work_t work;
    struct job_identity job;
    pid_t pid;
    enum process_verdict verdict;
    uint64_t start_ticks;
    process_done_fn *done; /* NULL: not wanted any more */
    void *data;
};

static enum process_verdict process_judge(const struct job_processes *table,
                                          const struct job_process *process)
{
    if (process != NULL && process->belongs)
        return VERDICT_BELONGS;
    if (table->unread)
        return VERDICT_UNREAD;
    return process != NULL && proc_living(&process->stat) ? VERDICT_STRANGER : VERDICT_ENDED;
}

static void work_look(uv_work_t *work)
{
    struct job_process_look *look = work->data;
    const struct job_process *process;
    struct job_processes table;

    job_processes_init(&table);
    job_processes_read_one(&table, &look->job, look->pid);
    process = job_processes_find(&table, look->pid);
    look->verdict = process_judge(&table, process);
    look->start_ticks = process == NULL ? 0 : process->stat.start_ticks;
    job_processes_close(&table);
}

static void work_done(uv_work_t *work, int status)
{
    struct job_process_look *look = work->data;

    (void)status;
    if (look->done != NULL)
        look->done(look->data, look->verdict, look->start_ticks);
    free(look);
}

struct job_process_look *job_process_look_start(uv_loop_t *loop, const struct job_identity *job,
                                                pid_t pid, process_done_fn *done, void *data)
{
    struct job_process_look *look = check_calloc(1, sizeof(*look));

    CHECK(pid > 0);
    look->work.data = look;
    look->job = *job;
    look->pid = pid;
    look->done = done;
    look->data = data;
    CHECK(uv_queue_work(loop, &look->work, work_look, work_done) == 0);
    return look;
}

void job_process_look_detach(struct job_process_look *look)
{
    if (look != NULL)
        look->done = NULL;
}
