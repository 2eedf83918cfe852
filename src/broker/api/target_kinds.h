/* Kinds of storage targets: the numbers of the API, and the rows of src/dest that do the work, joined by their words.
 *
 * Flow     a configuration or a caller of PutTarget names a target: here its kind and its location are read and checked, once.
 *          Behind this edge a kind is a number that is kept and shown, and a location is a text that is handed on.
 * Errors   a kind that the API knows and this version does not write is UNIMPLEMENTED, a location that its kind does not take
 *          PREFIX_INVALID.
 */
#ifndef CKPT_BROKER_TARGET_KINDS_H
#define CKPT_BROKER_TARGET_KINDS_H

#include "ckpt/v1/common.pb-c.h"
#include "fsm/fsm.h"
#include "src/base/err.h"
#include "src/dest/destination.h"

/* NULL: this version does not write it. */
const struct destination_ops *target_kind_row(Ckpt__V1__TargetKind kind);
/* "posix" */
int target_kind_parse(const char *word, Ckpt__V1__TargetKind *ret_kind, struct err *err);
/* Of a caller's target: a kind that is not said follows from the form of the prefix. What is neither said stays as it is. */
enum fsm_status target_kind_settle(Ckpt__V1__TargetSpec *spec, struct fsm_outcome *ret_outcome);

#endif
