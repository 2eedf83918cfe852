/* The wait for the cluster's restart. See run_comeback.h. */
#include "src/agent/run/run_comeback.h"

#include <stdlib.h>

#include "src/agent/run/run_say.h"
#include "src/base/check.h"

enum comeback_state { COMEBACK_NONE, COMEBACK_ASKED, COMEBACK_TOLD };

static struct comeback {
    uv_timer_t timer;
    enum comeback_state state;
    bool endless;
    int cause_status;
    void (*over)(void);
} comeback;

static void comeback_over(uv_timer_t *timer)
{
    CHECK(timer == &comeback.timer);
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
    if (state != COMEBACK_NONE && !comeback.endless)
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

void run_comeback_ask(bool by_cluster)
{
    uint64_t wait_ms = by_cluster ? COMEBACK_ANSWER_MS : COMEBACK_FAILED_MS;

    comeback_enter(COMEBACK_ASKED, comeback_wait_ms(wait_ms));
}

void run_comeback_told(uint64_t restart_wait_ms)
{
    CHECK(restart_wait_ms > 0);
    if (comeback.state != COMEBACK_TOLD)
        comeback_enter(COMEBACK_TOLD, comeback_wait_ms(restart_wait_ms));
}

void run_comeback_cause(uint32_t wait_status)
{
    comeback.cause_status = (int)wait_status > 0 ? (int)wait_status : 0; /* -1: nobody saw it */
}

int run_comeback_status(int own_wait_status)
{
    return comeback.cause_status != 0 ? comeback.cause_status : own_wait_status;
}

void run_comeback_stop(void)
{
    comeback.cause_status = 0;
    comeback_enter(COMEBACK_NONE, 0);
}

bool run_comeback_wanted(void)
{
    return comeback.state != COMEBACK_NONE;
}
