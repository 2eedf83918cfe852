/* An application as ways of asking see it: what they take from this node (src/ask/ask.h), over
 * machine.h.
 *
 * Flow     the owner fills a struct asked, and fills it anew before each look; a target has
 *          asked_node and this as its context.
 */
#ifndef CKPT_AGENT_ASKED_H
#define CKPT_AGENT_ASKED_H

#include <stdbool.h>

#include "src/agent/node/machine.h"
#include "src/ask/ask.h"
#include "src/ask/region.h"

struct asked {
    const struct machine_ops *machine;
    pid_t group;
    /* its ranks as they were journalled with the question... */
    const struct ledger_rank *ranks;
    size_t rank_count;
    const struct ranks_seen *seen; /* ...or as they were seen, to be asked; NULL: not now */
    /* ranks with a stream of their own are told on it */
    bool (*tells)(void *teller, const struct ledger_rank *rank);
    void (*tell)(void *teller, const struct ledger_rank *rank, const struct ask_request *request);
    void *teller;
    struct machine_user user;
    const struct opened *folder;        /* the work folder; NULL: it is not open */
    bool registered;                    /* it said where it is to be called... */
    const struct opened *socket;        /* ... and what lies there; NULL: it is not open */
    const char *why;                    /* it is not */
    char region[ASK_REGION_PATH_BYTES]; /* of memory shared with it; "": its way needs none */
};

extern const struct ask_node asked_node;

#endif
