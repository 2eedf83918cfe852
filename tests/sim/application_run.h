/* A model of ckpt-run: speaks Attach with the agent as src/agent/run/run_main.c does, and keeps one
 * application.
 *
 * Flow     application_run_new() attaches; ready: an application is held; started; ready again: it
 *          is released; its end is told, then the next run, the wait for the cluster's own restart,
 *          or the end of this program. A broken stream is opened again.
 * Shapes   belongs to who made it, until ended() or application_run_kill().
 * Faults   application_run_kill(): SIGKILL; its application lives on without it.
 * Source   src/agent/run/run_main.c, run_comeback.h, run_child.h
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_RUN_H
#define CKPT_TESTS_SIM_APPLICATION_RUN_H

#include "tests/sim/application.h"

struct application_run;

struct application_run_setup {
    const char *allocation_id;
    const struct application_way *way;
    const struct application_manners *manners;
    const struct application_checks *checks;
    enum world_labels labels;
    unsigned ranks; /* see application.h */
    bool ranks_in_group;
    bool ranks_with_streams;
    bool says_steps;
    uint32_t restarts_max;
    bool from_scratch; /* the first run is not restored */
    bool stays;        /* --stay: until the job runs here, or never will */
    /* It has left; do not touch it any more. refused: the agent's reason, NULL when it had a run
     * to end with. */
    void (*ended)(void *data, struct application_run *run, int exit_code, const char *refused);
    void *data;
};

struct application_run *application_run_new(struct agent_machine *machine,
                                            const struct application_run_setup *setup);
void application_run_kill(struct application_run *run); /* ended() does not come */
/* SIGTERM to it: to the application's group, and no restart. */
void application_run_terminate(struct application_run *run);
/* NULL: none. */
struct application *application_run_child(const struct application_run *run);
/* Its agent keeps it for a restart by the broker, and has said so. */
bool application_run_waits(const struct application_run *run);
bool application_run_ordered(const struct application_run *run); /* by its agent to end */
const char *application_run_allocation(const struct application_run *run);
uint64_t application_run_number(
    const struct application_run *run); /* of its part; 0: not told yet */

#endif
