/* Kinds of storage targets: the numbers of the API, and the rows of src/dest that do the work,
 * joined by their words.
 *
 * Flow     a configuration or a caller of PutTarget names a target: here its kind and its location
 *          are read and checked, once. Behind this edge a kind is a number that is kept and shown,
 *          and a location is a text that is handed on.
 * Errors   a kind that the API knows and this version does not write is UNIMPLEMENTED, a location
 *          that its kind does not take PREFIX_INVALID.
 */
#ifndef CKPT_BROKER_TARGET_KINDS_H
#define CKPT_BROKER_TARGET_KINDS_H

#include "ckpt/v1/common.pb-c.h"
#include "fsm/fsm.h"
#include "src/base/err.h"
#include "src/dest/destination.h"

/* "posix" */
int target_kind_parse(const char *word, Ckpt__V1__TargetKind *ret_kind, struct err *err);
/* The prefix against its kind; a kind that is not said follows from the form of the prefix. */
int target_kind_check(Ckpt__V1__TargetSpec *spec, struct err *err);
/* Bit n: applications can write to targets of kind n by themselves. */
uint64_t target_kinds_direct(void);
/* Bit n: files can be stored compressed in targets of kind n. */
uint64_t target_kinds_compressing(void);
/* Of a target whose kind is settled: whether it can be written to as it asks for. The text reads on
 * behind the key's name. */
int target_staging_check(const Ckpt__V1__TargetSpec *spec, struct err *err);
int target_compression_check(const Ckpt__V1__TargetSpec *spec, struct err *err);
/* The kind and the prefix of a caller's target, of which nothing needs to be said: that stays as
 * it is. */
enum fsm_status target_kind_settle(Ckpt__V1__TargetSpec *spec, struct fsm_outcome *ret_outcome);

#endif
