/* The wait for the cluster's restart. See run_comeback.h. */
#include "src/agent/run/run_comeback.h"

#include <stdlib.h>

#include "src/agent/run/run_say.h"
#include "src/base/check.h"

enum comeback_state {
    COMEBACK_NONE,
    COMEBACK_FINISHED,
    COMEBACK_ASKED,
    COMEBACK_TOLD,
    COMEBACK_LEAVES
};

static struct comeback {
    uv_timer_t timer;
    enum comeback_state state;
    bool endless, may_finish;
    int cause_status;
    void (*over)(void);
} comeback;

static void comeback_over(uv_timer_t *timer)
{
    CHECK(timer == &comeback.timer);
    if (comeback.state == COMEBACK_FINISHED)
        run_say("the agent is away, and this part of the allocation has finished");
    else if (comeback.state != COMEBACK_LEAVES)
        run_say("%s; it goes on when the same line is started again",
                comeback.state == COMEBACK_TOLD
                    ? "the allocation was not restarted in time (restart_wait)"
                    : "nobody has said in time whether the cluster restarts it");
    comeback.over();
}

static void comeback_enter(enum comeback_state state, uint64_t wait_ms)
{
    CHECK(comeback.over != NULL);
    comeback.state = state;
    uv_timer_stop(&comeback.timer);
    if (state != COMEBACK_NONE && (!comeback.endless || state == COMEBACK_LEAVES))
        uv_timer_start(&comeback.timer, comeback_over, wait_ms, 0);
}

void run_comeback_open(uv_loop_t *loop, bool endless, void (*over)(void))
{
    CHECK(uv_timer_init(loop, &comeback.timer) == 0);
    comeback.endless = endless;
    comeback.over = over;
}

/* A scheduler that holds nodes for this program could give them to others. */
static uint64_t comeback_wait_ms(uint64_t wait_ms)
{
    static const char *const jobs[] = {"SLURM_JOB_ID", "LSB_JOBID",    "PBS_JOBID",
                                       "JOB_ID",       "_CONDOR_SLOT", "FLUX_JOB_ID"};

    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++)
        if (getenv(jobs[i]) != NULL && wait_ms > COMEBACK_BATCH_MS)
            return COMEBACK_BATCH_MS;
    return wait_ms;
}

bool run_comeback_finished(void)
{
    if (!comeback.may_finish)
        return false;
    CHECK(comeback.state == COMEBACK_NONE);
    uv_timer_stop(&comeback.timer);
    comeback.state = COMEBACK_FINISHED;
    run_say("this part of the allocation has finished; it is kept until the others have");
    return true;
}

bool run_comeback_is_finished(void)
{
    return comeback.state == COMEBACK_FINISHED;
}

void run_comeback_reaches(bool reached)
{
    if (comeback.state != COMEBACK_FINISHED)
        return;
    if (reached)
        uv_timer_stop(&comeback.timer);
    else if (!uv_is_active((uv_handle_t *)&comeback.timer))
        uv_timer_start(&comeback.timer, comeback_over, COMEBACK_AWAY_MS, 0);
}

void run_comeback_ask(bool by_cluster)
{
    uint64_t wait_ms = by_cluster ? COMEBACK_ANSWER_MS : COMEBACK_FAILED_MS;

    comeback_enter(COMEBACK_ASKED, comeback_wait_ms(wait_ms));
}

void run_comeback_leave(void)
{
    comeback_enter(COMEBACK_LEAVES, COMEBACK_FAILED_MS);
}

bool run_comeback_leaves(void)
{
    return comeback.state == COMEBACK_LEAVES;
}

void run_comeback_told(uint64_t restart_wait_ms)
{
    CHECK(restart_wait_ms > 0);
    if (comeback.state != COMEBACK_TOLD)
        comeback_enter(COMEBACK_TOLD, comeback_wait_ms(restart_wait_ms));
}

void run_comeback_say_over(const char *reason)
{
    if (comeback.state != COMEBACK_FINISHED)
        run_say_waiting("the run here is over (%s); waiting for another one%s", reason,
                        comeback.endless ? " (--stay)" : "");
}

void run_comeback_say_why(const char *why, bool failed)
{
    if (failed)
        run_say_waiting("%s", why);
}

void run_comeback_cause(uint32_t wait_status)
{
    comeback.cause_status = (int)wait_status > 0 ? (int)wait_status : 0; /* -1: nobody saw it */
}

int run_comeback_status(int own_wait_status)
{
    return comeback.cause_status != 0 ? comeback.cause_status : own_wait_status;
}

void run_comeback_stop(uint64_t run, bool may_finish)
{
    if (run != 0)
        comeback.may_finish = may_finish;
    comeback.cause_status = 0;
    comeback_enter(COMEBACK_NONE, 0);
}

bool run_comeback_wanted(void)
{
    return comeback.state != COMEBACK_NONE;
}

Ckpt__V1__AttachWait run_comeback_word(bool endless)
{
    if (run_comeback_leaves())
        return CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_NONE;
    if (endless)
        return CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_ANY;
    return run_comeback_wanted() ? CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_RESTART
                                 : CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_UNSPECIFIED;
}
