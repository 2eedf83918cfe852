/* A simulated rank's end of its stream to the agent, in the lines of src/agent/app/app_line.h: what
 * libckptapp does (src/app/handle.h), with one that is slow, and streams that break.
 *
 *   NOTHING --ask--> HEARD --at, again and again--> TOLD --step--> DUE --that step--> SAVING
 *                    HEARD, of one without steps -----------------------------------> SAVING
 *   any --withdrawn, put off, done--> NOTHING     DUE --that step is behind it: missed--> NOTHING
 *
 * Flow     application_line_new() when the program comes to its loop: it dials, once a second while
 *          it cannot, and says hello; then events, application_line_done() or _defer().
 * Steps    all count them alike, by the world's time, and say them unasked to an agent that wants
 *          to hear. A rank that is stuck, or hangs with its job, stays in one for a while, hears
 *          nothing, and goes through those that it is behind at once.
 * Shapes   what arrives while it is stuck, or stands still, waits as in the kernel. The process is
 *          not ended from inside an event.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_LINE_H
#define CKPT_TESTS_SIM_APPLICATION_LINE_H

#include "src/agent/app/app_line.h"
#include "tests/sim/application.h"

struct application_line;

struct application_line_events {
    void *data;
    /* A question that it had not heard, or that was withdrawn from it. */
    void (*asked)(void *data, const struct app_line *ask);
    /* It is at a step of this question for the first time. */
    void (*at)(void *data, const char *hint);
    /* The step that was agreed; it may be told again. */
    void (*agreed)(void *data, const char *hint, uint64_t step);
    /* It saves now; step 0: of one without steps. */
    void (*due)(void *data, uint64_t step);
    void (*withdrawn)(void *data);
    /* It has said a step while nothing was asked. */
    void (*stepped)(void *data);
    /* Its job hangs: no rank of it says anything, or hears. */
    bool (*hangs)(void *data);
};

struct application_line_setup {
    struct agent_machine *machine;
    const struct clock_ops *clock;
    const char *socket; /* a path */
    const char *allocation_id;
    uint64_t run;
    pid_t pid;
    unsigned number, ranks; /* of so many on the node */
    bool barrier;
    bool says_steps;                           /* ... unasked */
    const struct application_manners *manners; /* read each time */
};

struct application_line *application_line_new(const struct application_line_setup *setup,
                                              const struct application_line_events *events);
void application_line_free(struct application_line *line); /* NULL allowed */

/* Its sentinel is there. */
void application_line_done(struct application_line *line);
/* False: its agent is away, and nothing is put off. */
bool application_line_defer(struct application_line *line, uint64_t ms);
void application_line_progress(struct application_line *line, uint32_t ppm);
/* It stands still, or goes on. */
void application_line_stopped(struct application_line *line, bool stopped);
/* What is in hand is given up. */
void application_line_calm(struct application_line *line);

#endif
