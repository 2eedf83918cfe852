/* What a worker may have signed: its task's own keys, in the ways that the task needs. The worker
 * runs as the user of a job; whoever takes it over, or may trace it, asks in its place (README.md,
 * Who may trace what).
 *
 * Flow     scope_of() once, from the worker's arguments; scope_allows() for each request.
 * Shapes   two places below one bucket: the task's own, and the allocation's other checkpoints,
 *          from which a put may read and copy what has not changed. A place is a beginning of keys,
 *          percent-encoded, which ends with a slash (a probe's: with its name): `part-1/` is none
 *          of `part-10/`.
 *
 *              task             own place                 there           elsewhere
 *              put              {path}/{part}/            read, write,    read {allocation}/
 *                                                         remove          checkpoints/
 *              abandon          {path}/{part}/            read, remove
 *              verify, restore, {path}/{part}/            read
 *              get
 *              collect          {path}/                   read, remove
 *              probe            {prefix}/.probe           read, write,
 *                                                         remove
 *              scan             {prefix}/                 read           of s3://: lists of
 *                                                                        all buckets
 *
 *          put, abandon, collect and probe that are given their cluster (`--cluster MARK@EPOCH`)
 *          read its notes as well, {prefix}/.cluster.{mark}. and what follows. collect and probe
 *          are the leader's own, and write there too: whoever may do that can keep the cluster
 *          from its target.
 *
 * Errors   ERR_REFUSED with the value that is not allowed. What is not listed is refused: access
 *          lists, tags, versions, policies, settings of buckets, requests with a payload that
 *          nobody hashed, and the removal of many keys at once, whose names are in a payload that
 *          only the worker sees.
 */
#ifndef CKPT_DEST_S3_SCOPE_H
#define CKPT_DEST_S3_SCOPE_H

#include "src/dest/s3/signer.h"

enum { SCOPE_KEY_BYTES = 1100, SCOPE_BUCKET_BYTES = 64 };

struct scope {
    char bucket[SCOPE_BUCKET_BYTES]; /* "": of a probe or a scan of all tenants' buckets */
    bool lists_all;                  /* any bucket of their store may be listed */
    char own[SCOPE_KEY_BYTES];
    char shared[SCOPE_KEY_BYTES]; /* may be read; "": nothing */
    unsigned may;                 /* in `own`: bits of scope.c */
    char notes[SCOPE_KEY_BYTES];  /* where the notes of the task's cluster begin; "": nowhere */
    unsigned may_note;            /* there */
};

/* arguments as of a worker (worker.h): verb first. ERR_REFUSED: no task of this kind of
 * destination, or one that leaves its prefix. */
int scope_of(const char *const *arguments, struct scope *ret_scope, struct err *err);
int scope_allows(const struct scope *scope, const struct signer_request *request, struct err *err);

#endif
