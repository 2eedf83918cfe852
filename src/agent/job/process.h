/* The application's process group: watched by pidfd, ended by SIGTERM, grace, SIGKILL. What is
 * decided when is process_step.h's; this part sees, writes into the journal what was decided, and
 * then does it.
 *
 * Flow     process_attached() from ckpt-run's message. The end is seen by the pidfd, by
 *          process_woken() and by looking now and then; how it ended stands in the note that
 *          ckpt-run leaves (end_note.h). process_stop() by an order, by walltime, or because
 *          another ckpt-run takes over. The end of a stop is one report: TERMINATED,
 *          WALLTIME_KILLED, or APPLICATION_EXITED: when it is started again, or had finished before
 *          the stop.
 *          Each of these is an event. One that comes about while another is carried out waits until
 *          that is done.
 * Shapes   one per allocation, inside it. The pid with its start time names the process; signals go
 *          to the group.
 * Errors   a process that does not die after SIGKILL (D state) is logged and waited for: its nodes
 *          are not released before.
 * Source   S1-090..S1-093, P-041, F-012, F-013, F-019, F-025; invariants I30, I33.
 */
#ifndef CKPT_AGENT_PROCESS_H
#define CKPT_AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/job/process_step.h"
#include "src/agent/node/machine.h"

struct allocation;
struct kin_look;
struct pid_watch;

enum { PROCESS_EVENTS_MAX = 32 };

struct process_executor {
    struct pid_watch *watch;
    struct clock_timer *timer;
    struct kin_look *look; /* for stragglers; NULL: none is under way */
    bool stepping;
    size_t waiting;
    struct process_event events[PROCESS_EVENTS_MAX];
};

struct process_identity {
    pid_t pid;
    uint64_t start_ticks;
    struct machine_user user;
};

void process_init(struct allocation *allocation);
void process_close(struct allocation *allocation);
/* The application that ckpt-run has just started. */
void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report);
/* It was to be started again in place, and will not be: the allocation has ended. Nothing when no
 * restart is awaited. */
void process_restart_failed(struct allocation *allocation, const char *why);
/* After the agent's own restart: the one in the journal, or the start that was awaited. */
void process_resume(struct allocation *allocation);
/* ckpt-run says that it has left its note (end_note.h), or that it could not: then it is `note`,
 * else "". The application has ended, or could not be started; or its end had to be told before
 * without its status, and it turns out that the work was done. */
void process_woken(struct allocation *allocation, const char *note);
/* The allocation ends, by an order or by walltime. A second stop may shorten the grace, never
 * lengthen it. */
void process_stop(struct allocation *allocation, const struct process_stop_ask *ask);
/* ckpt-run is gone for good and another one has come: this life of the application ends, the
 * allocation goes on. False when it is being stopped already. */
bool process_take_over(struct allocation *allocation);
/* Its ckpt-run has just gone, perhaps to come back. */
void process_unattended(struct allocation *allocation);
/* It runs, and its ckpt-run has not come back in the time that one needs for it. */
bool process_abandoned(const struct allocation *allocation);
bool process_stopping(const struct allocation *allocation);
/* For an attempt that the stop ends. */
Ckpt__V1__Reason process_stop_reason(const struct allocation *allocation);
/* The attempt ended: a report or a stop may have waited for it. */
void process_attempt_ended(struct allocation *allocation);

#endif
