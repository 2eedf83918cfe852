/* The parts of a restorer: restorer.c (the steps, life, the leader), restorer_do.c (workers),
 * restorer_say.c (why it waits), restorer_end.c (how it is over), restore_refusal.c (why nothing
 * may begin here). */
#ifndef CKPT_AGENT_RESTORER_INTERNAL_H
#define CKPT_AGENT_RESTORER_INTERNAL_H

#include "src/agent/job/restorer.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/dest/worker.h"

enum { RESTORER_EVENTS_MAX = 8 };

struct restorer {
    struct agent *agent;
    struct restart_points *points; /* may be gone when a cancelled worker ends */
    struct restore restore;
    const struct restore_caller *caller;
    void *data;
    const struct opened *folder; /* the work folder, until it is cancelled */
    struct machine_user user;
    Ckpt__V1__RestartPoint *point; /* the leader's last answer; NULL: none came */
    uint64_t said_sequence;        /* of the report by which it wanted to read */
    bool stepping;
    size_t waiting;
    struct restore_event events[RESTORER_EVENTS_MAX];
    struct clock_timer *timer;
    struct clock_timer *look_timer;
    struct rpc_client_call *call; /* to the leader */
    struct rpc_client_call *look; /* likewise, while a worker reads */
    struct worker *worker;
    bool copy_lost; /* it was not there any more, or not what it was; copy_why: see below */
    char copy_why[RESTORE_TEXT_BYTES]; /* the worker could not use the node's own copy */
    bool cancelled;                    /* the worker still runs; freed when it ends */
};

/* restorer.c. free: what has neither call nor worker. */
void restorer_post(struct restorer *restorer, const struct restore_event *event);
void restorer_free(struct restorer *restorer);

/* restorer_do.c. The three workers. */
void restorer_name(struct restorer *restorer);
void restorer_prepare(struct restorer *restorer);
void restorer_read(struct restorer *restorer);
/* Of the part that is read now, in the log. */
void restorer_warn(const struct restorer *restorer, const struct restore_event *event);

/* restorer_say.c. */
void restorer_say(const struct restorer *restorer, enum restore_saying says,
                  const struct restore_event *event);

/* restorer_end.c. */
/* The leader does not know the allocation: what is to be typed. */
void restorer_unregistered(const struct restorer *restorer, char *text, size_t size);
void restorer_end(struct restorer *restorer, enum restore_over over,
                  const struct restore_event *event);

/* restore_refusal.c. Why nothing may begin on this node. */
void restore_refusal_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                          const char *node_id, char ret_text[RESTORE_TEXT_BYTES]);

#endif
