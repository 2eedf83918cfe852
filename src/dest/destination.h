/* Kinds of destinations of checkpoints: one row per kind, in the table of destination.c.
 *
 * Flow     a location (a target's prefix, or a folder below one) is read where it enters the
 *          program: destination_of() finds the kind whose form the text has, destination_named()
 *          the one that a configuration or a caller names. Nobody else asks of what kind a
 *          destination is: the row does the work.
 * Shapes   rows are constant. All but parse and validate may block for ever and belong into a
 *          ckpt-worker process, never into a daemon.
 * Units    bytes; bytes per second for the rate, 0 is unlimited.
 * Errors   ERR_UNAVAILABLE  the prefix is missing (an unmounted file system is never written under)
 *          ERR_NOT_FOUND    no such shard or source
 *          ERR_CORRUPT      a shard differs from its manifest
 *          ERR_EMPTY        the source holds no bytes
 *          ERR_REFUSED      a path outside the prefix, a symbolic link, a device
 *          ERR_INVALID      a location that no kind takes
 *          ERR_FULL, ERR_IO no space; everything else
 * Absent   the number that the API gives a kind: it is joined to the row by the kind's word
 *          (src/broker/api/target_kinds.h).
 */
#ifndef CKPT_DEST_DESTINATION_H
#define CKPT_DEST_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"
#include "src/dest/sha256.h"

struct destination_place {
    /* A target's. NULL: `path` itself is trusted (verify, restore, abandon only). */
    const char *prefix;
    const char *path; /* of the checkpoint, below prefix */
    const char *part; /* the shard's name; an id that does not begin with '.' */
    /* verify, restore: the recorded hash of MANIFEST; NULL: any valid one */
    const char *manifest_sha256;
};

struct destination_summary {
    uint64_t size_bytes;
    uint64_t file_count;
    char manifest_sha256[SHA256_HEX_BYTES]; /* what `sha256sum MANIFEST` prints */
    /* put: the same shard was there; restore: the target already holds the same files */
    bool reused;
};

struct destination_ops {
    /* In configurations; in upper case the name of its value in the API's TargetKind. */
    const char *kind;
    /* Whether a text has the form of this kind's locations. Forms of two kinds never overlap. */
    bool (*parse)(const char *location);
    /* Of a location that parse() takes or that is said to be of this kind: all that can be told
     * without touching it. */
    int (*validate)(const char *location, struct err *err);
    /* Can something be written, made durable and removed directly below prefix? */
    int (*probe)(const char *prefix, struct err *err);
    /* What root does for a put by `owner` before it becomes that user. NULL: nothing. */
    int (*claim)(const struct destination_place *place, uid_t owner, struct err *err);
    /* An existing shard with the same contents that verifies is success; any other one is
     * replaced. */
    int (*put)(const struct destination_place *place, const char *source, uint64_t rate_bytes_per_s,
               struct destination_summary *ret_summary, struct err *err);
    int (*verify)(const struct destination_place *place, struct destination_summary *ret_summary,
                  struct err *err);
    /* The parent of `to` must exist; `to` must be absent, empty, or hold exactly these files. */
    int (*restore)(const struct destination_place *place, const char *to,
                   struct destination_summary *ret_summary, struct err *err);
    /* Removes the whole checkpoint; one that is not there is success. */
    int (*collect)(const char *prefix, const char *path, bool *ret_removed, struct err *err);
    /* Removes what killed puts of this part left. A finished shard stays. */
    int (*abandon)(const struct destination_place *place, struct err *err);
};

/* All rows; the last one is followed by NULL. */
extern const struct destination_ops *const destinations[];

/* By its word; NULL: no such kind. */
const struct destination_ops *destination_named(const char *kind);
/* By the form of a location; NULL: no kind takes it. */
const struct destination_ops *destination_of(const char *location, struct err *err);
/* A location as it comes from outside, of whatever kind. */
int destination_validate(const char *location, struct err *err);

#endif
