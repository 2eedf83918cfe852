/* Whether a process is one of a job's. See member_look.h. */
#include "src/agent/node/member_look.h"

#include <stdlib.h>

#include "src/base/check.h"

struct member_look {
    uv_work_t work;
    struct job_members job;
    pid_t pid;
    enum member_verdict verdict;
    uint64_t start_ticks;
    member_done_fn *done; /* NULL: not wanted any more */
    void *data;
};

static enum member_verdict member_judge(const struct member_table *table,
                                        const struct member *member)
{
    if (member != NULL && member->belongs)
        return MEMBER_BELONGS;
    if (table->unread)
        return MEMBER_UNREAD;
    return member != NULL && proc_living(&member->stat) ? MEMBER_STRANGER : MEMBER_ENDED;
}

static void work_look(uv_work_t *work)
{
    struct member_look *look = work->data;
    const struct member *member;
    struct member_table table;

    members_init(&table);
    members_read_one(&table, &look->job, look->pid);
    member = members_find(&table, look->pid);
    look->verdict = member_judge(&table, member);
    look->start_ticks = member == NULL ? 0 : member->stat.start_ticks;
    members_close(&table);
}

static void work_done(uv_work_t *work, int status)
{
    struct member_look *look = work->data;

    (void)status;
    if (look->done != NULL)
        look->done(look->data, look->verdict, look->start_ticks);
    free(look);
}

struct member_look *member_look_start(uv_loop_t *loop, const struct job_members *job, pid_t pid,
                                      member_done_fn *done, void *data)
{
    struct member_look *look = check_calloc(1, sizeof(*look));

    CHECK(pid > 0);
    look->work.data = look;
    look->job = *job;
    look->pid = pid;
    look->done = done;
    look->data = data;
    CHECK(uv_queue_work(loop, &look->work, work_look, work_done) == 0);
    return look;
}

void member_look_detach(struct member_look *look)
{
    if (look != NULL)
        look->done = NULL;
}
