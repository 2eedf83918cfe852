/* The signals that ckpt-run takes: those that it passes on, those by which batch systems warn, and
 * SIGCHLD.
 *
 * Flow     run_signals_open() once. forward() with each of SIGTERM, SIGINT, SIGQUIT and SIGHUP;
 *          reap() when a child has changed. SIGUSR1, SIGUSR2 and SIGXCPU are told and go no
 *          further: their default action would end ckpt-run, and with it a batch system's job.
 * Shapes   found: a signal but SIGTERM that was ignored at the start stays so, as under nohup or in
 *          a shell's background; the application ignores it as well.
 */
#ifndef CKPT_AGENT_RUN_SIGNALS_H
#define CKPT_AGENT_RUN_SIGNALS_H

#include <uv.h>

#include "src/base/start.h"

void run_signals_open(uv_loop_t *loop, const struct start_signals *found, uv_signal_cb forward,
                      uv_signal_cb reap);

#endif
