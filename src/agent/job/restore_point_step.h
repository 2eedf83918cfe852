/* The common ground of the files of a restore's step: its subject, its moves, and its parts.
 *
 * Shapes   all of it is for restore_step.c and its like alone.
 */
#ifndef CKPT_AGENT_RESTORE_POINT_STEP_H
#define CKPT_AGENT_RESTORE_POINT_STEP_H

#include "src/agent/job/restore_step.h"

enum { RESTORE_RETRY_MS = 500, RESTORE_STORAGE_RETRY_MS = 2000 };

#define WAIT(name)  CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_##name
#define BEGIN(name) CKPT__V1__BEGIN_STATE__BEGIN_STATE_##name
#define READ(name)  CKPT__V1__READ_STATE__READ_STATE_##name
#define MODE(name)  CKPT__V1__RESTORE_MODE__RESTORE_MODE_##name

/* The subject of a step. */
struct restore_stepping {
    struct restore *restore;
    const struct restore_facts *facts;
    struct restore_effects *effects;
};

/* ---- moves: restore_move_step.c ---- */
void restore_move_to(const struct restore_stepping *step, enum restore_state to);
struct restore_effect *restore_add(const struct restore_stepping *step,
                                   enum restore_effect_kind kind);
void restore_say(const struct restore_stepping *step, enum restore_saying says);
/* The leader is asked anew; hold: when the state has changed. over: the restore has ended. */
void restore_pause(const struct restore_stepping *step, uint64_t delay_ms);
void restore_hold(const struct restore_stepping *step);
void restore_over(const struct restore_stepping *step, enum restore_over over);
/* Nobody is told in the first moment: an election is over, or a registration there, before. */
bool restore_is_patient(const struct restore_stepping *step);
/* The allocation may be there in a moment. True: it has had its time. */
bool restore_count_refusal(struct restore *restore);

/* ---- the leader's answer: restore_point_step.c ---- */
void restore_take_point(const struct restore_stepping *step);
void restore_begin(const struct restore_stepping *step);
void restore_take_outage(struct restore *restore, const Ckpt__V1__RestartPoint *point);

/* ---- the line of a target: restore_line_step.c ---- */
/* It needs nothing of the target, or was let in; else it says so and is held. */
bool restore_may_read(const struct restore_stepping *step);
/* The node's copy of the part has gone since. */
bool restore_lacks_place(const struct restore_stepping *step, const Ckpt__V1__ShardInfo *shard);
/* It reads no more. */
void restore_leave_line(const struct restore_stepping *step);

/* ---- the shards of a part: restore_parts_step.c ---- */
/* The files that were brought last are those that the point wants here. */
bool restore_is_of(const struct restore *restore, const Ckpt__V1__RestartPoint *point);
void restore_bring(const struct restore_stepping *step);
/* It begins. */
void restore_ready(const struct restore_stepping *step);
void restore_take_started(const struct restore_stepping *step);
void restore_take_read(const struct restore_stepping *step, const struct restore_event *event);

#endif
