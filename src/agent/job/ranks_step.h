/* The ranks of a question as a pure table: who is to be asked, and what follows from what each of
 * them has answered.
 *
 *   SEEN --asked--> TOLD --its done file, status 0--> DONE
 *                    |--its done file, another status--> REFUSED
 *                    '--its process is gone before--> GONE
 *
 * Flow     ranks_ready() turns what was seen of the job into the ranks to be asked, or says why it
 *          cannot be asked now. They are fixed by ranks_begin(), in the journal: who comes later is
 *          not part of the question. ranks_judge() takes what each has answered.
 * Shapes   the rows are the entry's (ledger.h). No rows: nothing numbers the job's ranks, and the
 *          whole job is the one rank, which is asked and answers without a number.
 * Errors   one that refuses, ends or says another step than the others fails the question, with its
 *          number. Several that all name no step fail it too.
 * Absent   I/O, clocks: the lint holds this file to what fsm/ may call.
 */
#ifndef CKPT_AGENT_RANKS_STEP_H
#define CKPT_AGENT_RANKS_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/durable/ledger.h"
#include "src/agent/job/job_effect.h"
#include "src/agent/node/ranks.h"
#include "src/ask/sentinel.h"

struct ranks_table {
    uint32_t all; /* on all nodes, as their launcher counts; 0: it told none */
    size_t count;
    struct ledger_rank items[LEDGER_RANKS_MAX]; /* by rising number */
};

/* Where nothing numbers them and several hear the signal, it is for the user to say who speaks.
 * False: it cannot be asked now, and why. declared: how many there are on this node, as the user
 * said; 0: nothing said. */
bool ranks_ready(const struct ranks_seen *seen, uint32_t declared, struct ranks_table *ret_table,
                 char ret_why[JOB_DETAIL_BYTES]);
/* NULL: it has none. */
void ranks_begin(struct ledger_entry *entry, const struct ranks_table *table);

/* What one has answered. */
struct rank_fact {
    enum ask_answer answer;
    bool gone; /* its process, seen before its answer was looked for */
    struct sentinel sentinel;
    char text[JOB_DETAIL_BYTES]; /* of an answer that is not right */
};

enum ranks_verdict { RANKS_AWAITED, RANKS_UNFINISHED, RANKS_FAILED, RANKS_DONE };
struct ranks_outcome {
    enum ranks_verdict verdict;
    Ckpt__V1__Reason reason; /* FAILED */
    char text[JOB_DETAIL_BYTES];
    /* DONE */
    uint64_t bytes;
    uint64_t stall_ms;    /* of the one that stood still longest; 0: none told */
    uint64_t saved_at_ms; /* of the oldest state, as told; 0: none told */
    char label[LABEL_MAX_BYTES + 1];
};
/* facts: one for each row. judge_gone: that a process is gone counts. */
void ranks_judge(struct ledger_entry *entry, const struct rank_fact *facts, bool judge_gone,
                 struct ranks_outcome *ret_outcome);
/* Several ranks or parts speak for themselves, and this one has named no step: nothing shows that
 * what they saved fits together. ret_text: what to do. */
bool ranks_step_missing(const struct ledger_entry *entry, const char *label,
                        char ret_text[JOB_DETAIL_BYTES]);
/* The entry's, such as "ranks 0, 1". It has one at least. */
void ranks_name(const struct ledger_entry *entry, char ret_text[JOB_DETAIL_BYTES]);
/* One line that names those that are not done. */
void ranks_name_silent(const struct ledger_entry *entry, char ret_text[JOB_DETAIL_BYTES]);
/* What holds when all of them are done; anything else is a bug. */
void ranks_check_done(const struct ledger_entry *entry);

#endif
