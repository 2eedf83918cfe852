/* A daemon's messages to its supervisor, by the protocol of sd_notify(3): systemd with Type=notify
 * and WatchdogSec.
 *
 * Flow     supervisor_notify("READY=1") when it serves, "STOPPING=1" when it ends;
 *          supervisor_watch() feeds the watchdog from the loop, so the supervisor notices a loop
 *          that hangs.
 * Units    $WATCHDOG_USEC is in microseconds; it is fed twice in that time.
 * Errors   none: without $NOTIFY_SOCKET nobody listens, and nothing is sent.
 * Absent   libsystemd: the protocol is one datagram.
 */
#ifndef CKPT_SERVE_SUPERVISOR_H
#define CKPT_SERVE_SUPERVISOR_H

#include <stdbool.h>

#include <uv.h>

/* Sends one message, for example "READY=1\nSTATUS=follower"; "\n" separates its lines. Never waits:
 * a message that the supervisor's socket does not take is lost, and a debug line says so. */
void supervisor_notify(const char *message);

/* stderr is the journal's own stream ($JOURNAL_STREAM), where lines have priorities. */
bool supervisor_keeps_journal(void);

/* Sends WATCHDOG=1 from now on, for as long as the loop turns, and the first one at once. timer:
 * the caller's storage, until the loop has closed it. It does nothing when the supervisor wants no
 * watchdog of this process ($WATCHDOG_PID). */
void supervisor_watch(uv_loop_t *loop, uv_timer_t *timer);
void supervisor_unwatch(uv_timer_t *timer);

#endif
