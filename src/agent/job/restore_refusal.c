/* Why the leader's word lets nothing begin on this node, for people. See restorer.h. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "src/agent/job/restorer_internal.h"
#include "src/agent/run/words.h"

/* The first cause of the stop, for people; "": none is known. */
static const char *cause_text(const Ckpt__V1__RestartPoint *point, char text[RESTORE_TEXT_BYTES])
{
    const int status = (int)point->cause_wait_status;

    CHECK(!restore_point_runs(point));
    text[0] = '\0';
    if (point->cause_node_id[0] == '\0')
        return text;
    if (status == 0)
        snprintf(text, RESTORE_TEXT_BYTES, " since node %.64s was lost", point->cause_node_id);
    else if (status == -1)
        snprintf(text, RESTORE_TEXT_BYTES,
                 " since its application on node %.64s ended, and nobody saw how",
                 point->cause_node_id);
    else if (WIFSIGNALED(status))
        snprintf(text, RESTORE_TEXT_BYTES,
                 " since its application on node %.64s ended by signal %d", point->cause_node_id,
                 WTERMSIG(status));
    else
        snprintf(text, RESTORE_TEXT_BYTES,
                 " since its application on node %.64s ended with status %d", point->cause_node_id,
                 WEXITSTATUS(status));
    return text;
}

/* How many nodes it is for, and which one does not count. */
static void restarts_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                          char text[RESTORE_TEXT_BYTES])
{
    char state[WORDS_BYTES], left[WORDS_BYTES], cause[RESTORE_TEXT_BYTES], nodes[64];

    CHECK(point->restarts);
    words_enum(&ckpt__v1__allocation_state__descriptor, (int)point->allocation_state, state);
    snprintf(nodes, sizeof(nodes), "%s",
             point->restart_needed == 1 ? "a node waits" : "enough nodes wait");
    if (point->restart_needed > 1)
        snprintf(nodes, sizeof(nodes), "%u nodes wait", point->restart_needed);
    if (point->excluded_for_ms > 0)
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %s is %s%.120s; the cluster restarts it when %s for it, and not on %s "
                 "for %s: it has failed there twice in a row",
                 restore->asked.allocation_id, state, cause_text(point, cause), nodes,
                 point->cause_node_id, words_duration(point->excluded_for_ms, left));
    else
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %s is %s%.120s; the cluster restarts it when %s for it",
                 restore->asked.allocation_id, state, cause_text(point, cause), nodes);
}

/* A completed job is never restarted: its checkpoints can go on under a new id. */
static void not_running_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                             char text[RESTORE_TEXT_BYTES])
{
    const char *id = restore->asked.allocation_id;
    char state[WORDS_BYTES], silence[WORDS_BYTES], cause[RESTORE_TEXT_BYTES];

    CHECK(!restore_point_runs(point));
    words_enum(&ckpt__v1__allocation_state__descriptor, (int)point->allocation_state, state);
    cause_text(point, cause);
    if (point->allocation_state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED)
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %s does not run, it is %s; register a new one, which can go on from "
                 "its checkpoint (ckptctl register --alloc NEW --continues %s)",
                 id, state, id);
    else if (point->restarts && point->silent_node_id[0] == '\0')
        restarts_text(restore, point, text);
    else if (point->silent_node_id[0] != '\0' && point->restarts)
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %.48s is %s, and may run on at node %.48s, silent for %s: the cluster "
                 "restarts it when that is heard, or is off (ckptctl node down %.48s --is-off)",
                 id, state, point->silent_node_id, words_duration(point->silent_for_ms, silence),
                 point->silent_node_id);
    else if (point->silent_node_id[0] != '\0')
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %.48s is %s, and may run on at node %.48s, silent for %s: ckptctl "
                 "restart when it is heard, or is off (ckptctl node down %.48s --is-off)",
                 id, state, point->silent_node_id, words_duration(point->silent_for_ms, silence),
                 point->silent_node_id);
    else if (point->requeues_used > 0)
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %.48s has failed%.60s, and was restarted without a complete "
                 "checkpoint as often as it may, %u of %u (max_requeue); ckptctl restart %.48s, "
                 "with --from-scratch where it has none, begins anew, ckptctl register --alloc NEW "
                 "--continues %.48s under a new id",
                 id, cause, point->requeues_used, point->requeues_used, id, id);
    else
        snprintf(
            text, RESTORE_TEXT_BYTES,
            "allocation %.80s does not run, it is %.32s%.90s; restart it first (ckptctl restart "
            "%.80s), or go on under a new id (ckptctl register --alloc NEW --continues %.80s)",
            id, state, cause, id, id);
}

/* It has nodes, and this one is none of them. */
static void elsewhere_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                           const char *node, char text[RESTORE_TEXT_BYTES])
{
    const char *id = restore->asked.allocation_id;
    const char *first = point->n_node_ids > 0 ? point->node_ids[0] : "no node";
    const char *more = point->n_node_ids > 1 ? " and others" : "";

    CHECK(restore_point_runs(point));
    if (restore->asked.wait == CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_ANY)
        snprintf(text, RESTORE_TEXT_BYTES, "allocation %s runs on %s%s, and %s is a spare for it",
                 id, first, more, node);
    else if (restore_starts_elsewhere(restore, point))
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %s is being restarted on %s%s, without node %s", id, first, more,
                 node);
    else if (restore->awaits)
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %s was restarted on %s%s and runs there: nothing is left to do on "
                 "node %s",
                 id, first, more, node);
    else
        snprintf(text, RESTORE_TEXT_BYTES,
                 "allocation %s is not registered on node %s but on %s%s; start it there, or "
                 "update the allocation's nodes",
                 id, node, first, more);
}

void restore_refusal_text(const struct restore *restore, const Ckpt__V1__RestartPoint *point,
                          const char *node_id, char ret_text[RESTORE_TEXT_BYTES])
{
    if (restore_point_runs(point))
        elsewhere_text(restore, point, node_id, ret_text);
    else
        not_running_text(restore, point, ret_text);
}
