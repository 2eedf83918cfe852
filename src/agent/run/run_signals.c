/* The signals that ckpt-run takes. See run_signals.h. */
#include "src/agent/run/run_signals.h"

#include <signal.h>

#include <string.h>

#include "src/agent/run/run_say.h"
#include "src/base/check.h"

static const int forwarded[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
static const int warnings[] = {SIGUSR1, SIGUSR2, SIGXCPU};
static uv_signal_t forwards[ARRAY_COUNT(forwarded)], warned[ARRAY_COUNT(warnings)], ended;

/* Batch systems send these to what they have started, some to its children as well, before a limit
 * is reached. The application may have no handler, or one that takes the signal for the cluster's
 * question. */
static void on_warning(uv_signal_t *handle, int number)
{
    CHECK(handle >= warned && handle < warned + ARRAY_COUNT(warned));
    run_say("signal %d (%s) came and is not passed on: the cluster asks the application for "
            "checkpoints (ckptctl hint JOB does at once), and SIGTERM ends it",
            number, strsignal(number));
}

void run_signals_open(uv_loop_t *loop, const struct start_signals *found, uv_signal_cb forward,
                      uv_signal_cb reap)
{
    CHECK(forward != NULL && reap != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(forwarded); i++) {
        if (forwarded[i] != SIGTERM && sigismember(&found->ignored, forwarded[i]) == 1)
            continue;
        CHECK(uv_signal_init(loop, &forwards[i]) == 0);
        CHECK(uv_signal_start(&forwards[i], forward, forwarded[i]) == 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(warnings); i++) {
        if (sigismember(&found->ignored, warnings[i]) == 1)
            continue;
        CHECK(uv_signal_init(loop, &warned[i]) == 0);
        CHECK(uv_signal_start(&warned[i], on_warning, warnings[i]) == 0);
    }
    CHECK(uv_signal_init(loop, &ended) == 0);
    CHECK(uv_signal_start(&ended, reap, SIGCHLD) == 0);
}
