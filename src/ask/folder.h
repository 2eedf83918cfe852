/* What ways of asking have in common: the job's work folder.
 *
 * Flow     prepare makes <work>/out/<hint>/ and <work>/request; poll reads <work>/done.RANK, which
 *          that rank writes. An application whose ranks nothing numbers writes <work>/done, or the
 *          agent for one that answered it by a call; so may a rank that is alone on its node. One
 *          that speaks for all (ckpt-run --ranks 1) may write <work>/done.0 as well.
 * Errors   a sentinel that is incomplete or of another hint counts as nothing yet. `done` of a job
 *          of several ranks says nothing of the others: it is wrong.
 * Source   S1-032, decision 14.
 */
#ifndef CKPT_ASK_FOLDER_H
#define CKPT_ASK_FOLDER_H

#include "src/ask/ask.h"

/* Removes the sentinels of before, which may carry the same hint after the cluster was made anew,
 * and then makes the folder and the request, in this order: who sees the request finds all else. */
int ask_folder_prepare(const struct ask_target *target, const struct ask_request *request,
                       struct err *err);
/* Whether the request that lies there is that of the hint: after a restart of the agent. */
bool ask_folder_prepared(const struct ask_target *target, const char *hint);
enum ask_answer ask_folder_poll(const struct ask_target *target, const char *hint, size_t rank,
                                struct sentinel *ret_sentinel, struct err *err);
uint64_t ask_folder_growth(const struct ask_target *target, const char *hint);
/* The request and the sentinels go; what was written into out/ stays. */
void ask_folder_clear(const struct ask_target *target);

/* For rows: what all of them take from here. */
#define ASK_FOLDER_OPS                                                                             \
    .prepare = ask_folder_prepare, .prepared = ask_folder_prepared, .poll = ask_folder_poll,       \
    .growth = ask_folder_growth, .clear = ask_folder_clear

#endif
