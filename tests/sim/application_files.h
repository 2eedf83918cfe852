/* What simulated applications read and write in their folders: requests, states, sentinels.
 *
 * Shapes   a state is a text that names whose it is: the job, the node that wrote it, the part of
 *          the job's state (identity) and the attempt. Whoever reads one finds out whose it is.
 * Errors   what cannot be written is not there: the work folder has gone, and who wrote it ends.
 */
#ifndef CKPT_TESTS_SIM_APPLICATION_FILES_H
#define CKPT_TESTS_SIM_APPLICATION_FILES_H

#include "src/ask/sentinel.h"
#include "tests/sim/agent_machine.h"

enum {
    APPLICATION_STATE_BYTES = 512,
    APPLICATION_PATH_BYTES = 256,
    APPLICATION_IDENTITY_BYTES = ID_MAX_BYTES + 16
};

struct application_state {
    uint64_t iteration;
    uint64_t value;
};

/* Of whom a state is. */
struct application_owner {
    const char *allocation_id;
    const char *node_id;  /* that writes it */
    const char *identity; /* the part of the job's state: another one has other values */
};

/* What a part writes into each of its files. */
void application_state_text(const struct application_owner *owner, const char *hint,
                            struct application_state state, char text[APPLICATION_STATE_BYTES]);
void application_state_write(struct agent_machine *machine, const char *path,
                             const struct application_owner *owner, const char *hint,
                             struct application_state state);

struct application_restored {
    char writer[ID_MAX_BYTES + 1];
    char identity[APPLICATION_IDENTITY_BYTES];
    struct application_state state;
};
/* There, or with file:// before it at a destination. */
bool application_folder_there(const struct agent_machine *machine, const char *path);
/* -1: the file, there or at a destination, is not one of this job and checkpoint. */
int application_state_read(const struct agent_machine *machine, const char *path,
                           const char *allocation_id, uint64_t checkpoint_id,
                           struct application_restored *ret_restored);

struct application_request {
    char hint[HINT_TEXT_BYTES];
    char directory[APPLICATION_PATH_BYTES];
    uint64_t deadline_ms;
};
/* False: there is none. */
bool application_request_read(const struct agent_machine *machine, const char *work_dir,
                              struct application_request *ret_request);

struct application_done {
    const char *hint, *status;
    uint64_t bytes;
    const char *label; /* "": none */
};
/* By rename. name: "done", or with a rank's number behind it. */
void application_done_write(const struct agent_machine *machine, const char *work_dir,
                            const char *name, const struct application_done *done);

/* Of the files below the folder whose paths end so. */
uint64_t application_bytes_written(const struct agent_machine *machine, const char *directory,
                                   const char *end);

#endif
