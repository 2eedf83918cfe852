/* What the ranks of a job have said on their streams (ranks.h), as its steps see it.
 *
 *   a rank   comes, is asked, says at which step it is, hears the agreed one, is done
 *
 * Shapes   one place for each number that has registered, kept while its process lives: a stream
 *          that breaks is none of a rank's end, and it comes back. What was said holds for one
 *          question and goes with it.
 * Absent   who else is a rank: launchers tell that (src/agent/node/ranks.h).
 */
#ifndef CKPT_AGENT_JOB_RANKS_STREAM_H
#define CKPT_AGENT_JOB_RANKS_STREAM_H

#include "src/agent/job/attempt_step.h"
#include "src/agent/job/pace_step.h"
#include "src/agent/job/ranks.h"
#include "src/agent/node/ranks.h"

struct rank_places;

/* Who has registered stands for the rank of its number, whatever its launcher told. */
void ranks_lay_over(struct allocation *allocation, struct ranks_seen *seen);
/* Has a stream on which it can be asked. */
bool ranks_stream_tells(void *allocation, const struct ledger_rank *rank);
void ranks_stream_tell(void *allocation, const struct ledger_rank *rank,
                       const struct ask_request *request);
/* Of the open question. */
void ranks_see_barrier(const struct allocation *allocation, struct barrier_facts *ret_facts);
/* To all of them that hear: the agreed step; what was asked is asked no more. */
void ranks_tell_step(struct allocation *allocation);
void ranks_withdraw(struct allocation *allocation);
/* Those that live and have said a step, in no order; how many. */
struct rank_pace {
    uint32_t number;
    pid_t pid;
    uint64_t start_ticks;
    const struct pace_rank *pace;
};
size_t ranks_paces(struct allocation *allocation, struct rank_pace ret_paces[LEDGER_RANKS_MAX]);
/* Of all of them; NULL: none has registered. */
struct pace *ranks_pace(const struct allocation *allocation);
/* One that said steps to the agent before: it counts while its process lives, also when it never
 * comes back, as a rank that hangs. Takes the pace. */
void ranks_recall(struct allocation *allocation, const struct rank_pace *rank,
                  struct pace_rank *take_pace);
/* The allocation goes: its streams end. */
void ranks_hang_up(struct allocation *allocation);

#endif
