/* The attributes of a job's registration (fsm/attributes.h), where ckpt-run's own options say
 * nothing of how it saves: they put the same stand-in before its command.
 *
 * Errors   a value that only this node can judge, as the name of a signal.
 * Source   S5-004, S5-005, S5-006, S5-010.
 */
#ifndef CKPT_AGENT_RUN_ATTRIBUTES_H
#define CKPT_AGENT_RUN_ATTRIBUTES_H

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/run/run_options.h"

int run_attributes_read(const char *text, struct stand_in *ret_stand_in, struct err *err);
/* They never change: a start in an outage takes those of the start before. The command as it is
 * started: with its stand-in, or from a checkpoint by the job's own command
 * (run_command.h). err: untouched, or why nothing may be started. Valid until the next call. */
char *const *run_attributes_line(const struct run_options *options,
                                 const Ckpt__V1__AttachReady *ready, struct err *err);

#endif
