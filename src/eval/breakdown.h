/* The terms of one job as raw amounts, each with the weight that makes it GPU-seconds (S1-018).
 *
 * Flow     eval_score() sums value and cost; eval_breakdown() says for one job what each summand is
 *          made of: raw x weight.
 * Shapes   at most EVAL_PARTS_MAX parts, in the order of the terms; a term may have two parts,
 *          their sum is the term.
 * Units    each part names its own.
 * Errors   a row that eval_score() refuses has no parts.
 */
#ifndef CKPT_EVAL_BREAKDOWN_H
#define CKPT_EVAL_BREAKDOWN_H

#include "src/eval/model.h"

enum { EVAL_PARTS_MAX = 7 };

struct eval_part {
    const char *term; /* a column of the result */
    const char *what;
    double raw;
    const char *raw_unit;
    double weight;
    const char *weight_unit;
};
size_t eval_breakdown(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                      struct eval_part ret_parts[EVAL_PARTS_MAX]);

#endif
