/* What this cluster went through, as whatif takes it: jobs from ListAllocations, events from the
 * kept ones.
 *
 * Flow     whatif_history_read() asks the leader for both; whatif_history_event_of() translates one
 *          event.
 * Shapes   the copy owns its arrays. A job counts from its first start in the window, or the
 *          window's beginning, to its end.
 * Units    seconds since the window's beginning.
 * Absent   declared periods and walltimes of jobs, and nodes that failed idle: counted, not
 *          replayed; the time in between during which a stopped job held nothing; what nobody
 *          reported of queues.
 */
#ifndef CKPT_CLI_WHATIF_HISTORY_H
#define CKPT_CLI_WHATIF_HISTORY_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"
#include "src/whatif/whatif.h"

struct whatif_history_copy {
    struct whatif_history history; /* its pointers are those below */
    struct whatif_history_job *jobs;
    struct whatif_name {
        char *name;
        uint32_t job;
        bool seen;    /* an event of it was taken */
        bool resumes; /* it was started again, and its application has not said so yet */
    } * names;        /* sorted by whatif_history_sort_names() */
    struct whatif_history_event *events;
    size_t job_room, event_room;
    uint64_t from_ms, to_ms, reaches_ms;
    size_t checkpoints;        /* completed in the window */
    size_t periods, walltimes; /* jobs that declared one: the rules do not know it */
    size_t nodes_down;         /* in the window, with jobs or without */
    bool gap; /* older events were dropped: the window begins with the first one kept */
    char *queues[WHATIF_QUEUES_MAX]; /* names; the last one stands for all that came later */
    uint32_t queue_count;
};

/* The cluster's policy also sets the scenario's cycle, stall fraction and restart cost. */
enum cli_exit whatif_history_read(struct cli *cli, uint64_t since_ms,
                                  struct whatif_scenario *scenario,
                                  struct whatif_history_copy *copy);
void whatif_history_free(struct whatif_history_copy *copy);
/* False: it says nothing about jobs or storage. */
bool whatif_history_event_of(const Ckpt__V1__Event *event, enum whatif_happening *ret_what);
void whatif_history_add_job(struct whatif_history_copy *copy, const Ckpt__V1__Allocation *job,
                            uint64_t default_write_bytes_per_s);
/* After the last job, before the first event. */
void whatif_history_sort_names(struct whatif_history_copy *copy);
/* After the last event: what lies before the first kept one is cut off. */
void whatif_history_cut(struct whatif_history_copy *copy);
void whatif_history_add_event(struct whatif_history_copy *copy, const Ckpt__V1__Event *event);

#endif
