/* The signals that ckpt-run takes. See run_signals.h. */
#include "src/agent/run/run_signals.h"

#include <signal.h>

#include "src/base/check.h"

static const int forwarded[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
static uv_signal_t forwards[ARRAY_COUNT(forwarded)], ended;

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
    CHECK(uv_signal_init(loop, &ended) == 0);
    CHECK(uv_signal_start(&ended, reap, SIGCHLD) == 0);
}
