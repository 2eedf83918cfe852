/* How a job goes on whose ckpt-run leaves. See run_next.h. */
#include "src/agent/run/run_next.h"

#include <stdio.h>
#include <time.h>

#include "src/agent/run/run_alone.h"
#include "src/agent/run/run_owner.h"
#include "src/base/check.h"

enum { LOOK_MS = 100 };

static uint64_t now_ms(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void run_next_say(const char *socket, const char *allocation_id)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    const uint64_t end_ms = now_ms() + NEXT_MS;
    Ckpt__V1__Allocation *job =
        run_alone_say_next() ? NULL : run_owner_job(socket, allocation_id, NEXT_MS);

    while (job != NULL && !run_owner_stopped(job) && now_ms() < end_ms) {
        ckpt__v1__allocation__free_unpacked(job, NULL);
        nanosleep(&pause, NULL);
        job = run_owner_job(socket, allocation_id, NEXT_MS);
    }
    if (job == NULL)
        return;
    if (run_owner_stopped(job)) {
        fputs("ckpt-run: ", stderr);
        run_owner_job_next(stderr, socket, job);
    }
    ckpt__v1__allocation__free_unpacked(job, NULL);
}
