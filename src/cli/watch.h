/* The stream of events, followed from leader to leader.
 *
 * Flow     watch_run opens BrokerService/Watch at the leader; when the stream breaks it opens it
 *          again at the next leader after the last sequence seen. Sequences are replicated, so
 *          nothing is lost and nothing comes twice.
 * Shapes   a loop of its own; returns when the stream ends (follow false), when on_event says so,
 *          or on an error that no other member can mend.
 */
#ifndef CKPT_CLI_WATCH_H
#define CKPT_CLI_WATCH_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"

struct watch_options {
    uint64_t after_sequence;
    char *allocation_id; /* "": all */
    bool follow;
    bool stale;   /* from the member that knows most; not with follow */
    bool current; /* begins with the present state; not with after_sequence */
};

/* false ends the watch. */
typedef bool watch_event_fn(struct cli *cli, void *data, const Ckpt__V1__Event *event);

enum cli_exit watch_run(struct cli *cli, const struct watch_options *options,
                        watch_event_fn *on_event, void *data);

#endif
