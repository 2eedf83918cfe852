/* How ckpt-run names what it starts. See run_names.h. */
#include "src/agent/run/run_names.h"

#include <inttypes.h>
#include <stdio.h>

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
