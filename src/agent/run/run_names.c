/* How ckpt-run names what it starts. See run_names.h. */
#include "src/agent/run/run_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *run_part_name(const Ckpt__V1__AttachReady *ready, char text[RUN_NAME_BYTES])
{
    text[0] = '\0';
    if (ready->parts > 1)
        snprintf(text, RUN_NAME_BYTES, " as part %" PRIu32 " of %" PRIu32 " on node %s",
                 ready->part, ready->parts, ready->node_id);
    return text;
}

const char *run_checkpoint_name(const Ckpt__V1__AttachReady *ready, char text[RUN_NAME_BYTES])
{
    const char *label = ready->restore_label;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    snprintf(text, RUN_NAME_BYTES, "%s%s%.64s", checkpoint_id_format(ready->checkpoint_id, id),
             label[0] == '\0'      ? ""
             : id_is_number(label) ? ", step "
                                   : ", ",
             label);
    return text;
}

const char *run_end_name(int wait_status, bool will_restart, bool noted, char text[RUN_END_BYTES])
{
    char how[32];

    if (WIFSIGNALED(wait_status))
        snprintf(how, sizeof(how), "by signal %d", WTERMSIG(wait_status));
    else
        snprintf(how, sizeof(how), "with status %d", WEXITSTATUS(wait_status));
    snprintf(text, RUN_END_BYTES, "the application has ended %s, which the agent is to hear%s; ",
             how,
             will_restart ? " before another one starts"
             : noted      ? ", now, or when it comes back by what is left in the work folder"
                          : "");
    return text;
}

const char *run_again_for(bool moment, uint64_t wait_for_ms)
{
    if (moment)
        return " for a moment";
    return wait_for_ms == 0 ? " until it answers (--wait-for limits that)" : "";
}

/* An import has its checkpoint made as a move of the job does. */
const char *run_over_name(const char *reason, bool import, char text[RUN_OVER_BYTES])
{
    static const char moved[] = "migrated";
    const size_t length = sizeof(moved) - 1;

    if (import && strncmp(reason, moved, length) == 0)
        snprintf(text, RUN_OVER_BYTES, "the folder is imported on this node%s", reason + length);
    else
        snprintf(text, RUN_OVER_BYTES, "the allocation is over on this node: %s", reason);
    return text;
}
