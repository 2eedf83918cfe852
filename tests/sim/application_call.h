/* What an application under `ckpt-run --profile grpc` serves, and how its agent learns where.
 *
 * Flow     application_call_new() listens and registers, again and again until its agent has taken
 *          it; asked() per question; then progress, and one of the last words. withdrawn(): nobody
 *          listens to the answer any more.
 * Shapes   one question at a time; words without one go nowhere. Of the process of that pid, whose
 *          end it shares.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_CALL_H
#define CKPT_TESTS_SIM_APPLICATION_CALL_H

#include "ckpt/v1/app.pb-c.h"
#include "tests/sim/agent_machine.h"

struct application_call;

struct application_call_events {
    void *data;
    void (*asked)(void *data, const Ckpt__V1__AppCheckpointRequest *request);
    void (*withdrawn)(void *data);
};

struct application_call *application_call_new(struct agent_machine *machine, pid_t pid,
                                              const char *allocation_id,
                                              const struct application_call_events *events);
void application_call_free(struct application_call *call); /* NULL allowed */

void application_call_progress(struct application_call *call, uint32_t ppm);
/* Last words. */
void application_call_done(struct application_call *call, uint64_t bytes, const char *label);
void application_call_failed(struct application_call *call, const char *why);
void application_call_defer(struct application_call *call, uint64_t ms);
void application_call_end(struct application_call *call); /* without an answer */

#endif
