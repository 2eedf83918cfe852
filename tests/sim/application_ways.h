/* The ways of asking (src/ask/ask.h) that simulated applications know: what one that is started
 * under `ckpt-run --profile` does to be asked. The only place of the model that tells them apart.
 *
 * Shapes   application_way_at() refuses a row that src/ask does not have, or has otherwise.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_WAYS_H
#define CKPT_TESTS_SIM_APPLICATION_WAYS_H

#include <stdbool.h>

enum application_way_row {
    WAY_FIRST_SIGNAL,
    WAY_SECOND_SIGNAL,
    WAY_CALL,
    WAY_REGION,
    WAY_FILE,
    WAY_COMMAND
};

/* What the ranks of a job call what they save. */
enum world_labels {
    LABELS_NONE,  /* no step: "unordered" is their word, most of the time */
    LABELS_NAMED, /* all of them alike, most of the time */
    LABELS_AGREED /* the step that a barrier has found for all of them */
};

/* Events of commands that save, to be counted. */
enum application_command_event {
    COMMAND_BEGAN,
    COMMAND_SAVED,
    COMMAND_TOLD_TO_END,
    COMMAND_EVENTS
};

struct application_way {
    const char *profile;
    int signal;  /* that it catches: of one that is asked otherwise, to tell that none comes */
    bool calls;  /* it serves calls, and registers where */
    bool region; /* it is asked in memory that it shares with its agent */
    bool looks;  /* it looks for the question by itself, as a stand-in does */
    bool served; /* its ckpt-run serves the address, and runs a command that saves it */
};

/* By a signal alone, and so in processes of their own as well. */
bool application_way_signals(const struct application_way *way);
const struct application_way *application_way_at(enum application_way_row row);

#endif
