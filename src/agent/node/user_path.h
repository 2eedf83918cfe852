/* What an allocation's user has named, its work folder or its socket, and whether it is open.
 *
 * Flow     user_path_ready() has it opened off the loop (opened.h) and says whether it is;
 *          looked() is called when that has come to an end. What could not be opened
 *          is looked at again after a second, by who asks again.
 */
#ifndef CKPT_AGENT_USER_PATH_H
#define CKPT_AGENT_USER_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "src/agent/durable/ledger.h"
#include "src/agent/node/machine.h"
#include "src/base/ops.h"

struct user_path {
    const struct machine_ops *machine;
    const struct clock_ops *clock;
    void (*looked)(void *data);
    void *data;
    enum opened_kind kind;
    char path[LEDGER_WORK_DIR_BYTES]; /* that is open, or was looked at last; "": none */
    struct opened *opened;            /* NULL: it is not */
    struct path_open *opening;        /* NULL: it is not being looked at */
    uint64_t looked_us;
    char why[OPENED_WHY_BYTES]; /* it could not be opened */
};

/* uid: who may own it. */
bool user_path_ready(struct user_path *user_path, const char *path, uid_t uid);
/* One that was opened already. */
void user_path_take(struct user_path *user_path, const char *path, struct opened *take);
/* It is looked at anew when somebody asks. */
void user_path_close(struct user_path *user_path);

#endif
