/* Kinds of destinations of checkpoints: one row per kind, in the table of destination.c.
 *
 * Flow     a location (a target's prefix, or a folder below one) is read where it enters the
 *          program: destination_of() finds the kind whose form the text has, destination_named()
 *          the one that a configuration or a caller names. Nobody else asks of what kind a
 *          destination is: the row does the work.
 *          Who calls what, always in a ckpt-worker:
 *
 *              the agent of each node    claim and prepare, before its application starts
 *                                        claim and put, when its application has written; or
 *                                        claim and stage before it is asked, and publish then
 *                                        restore of its own part, before the application starts
 *                                        again; verify of parts that it only has to know to be good
 *                                        abandon, when an attempt was given up
 *              the leader                probe, each storage_watch.interval
 *                                        collect, when a checkpoint's time is over; where it may
 *                                        not, an agent does, with the rights of the owner
 *              people                    any of them, by hand
 *
 * Shapes   rows are constant. All but parse and validate may block for ever and belong into a
 *          ckpt-worker process, never into a daemon.
 * Units    bytes; bytes per second for the rate, 0 is unlimited.
 * Errors   ERR_UNAVAILABLE  the prefix is missing (an unmounted file system is never written
 *                           under), or nobody answers there
 *          ERR_NOT_FOUND    no such shard or source; collect: not even the folder of its tenant
 *          ERR_CORRUPT      a shard differs from its manifest, or a source changed during put
 *          ERR_EMPTY        the source holds no bytes
 *          ERR_REFUSED      a path outside the prefix, a symbolic link, a device
 *          ERR_INVALID      a location that no kind takes
 *          ERR_FULL, ERR_QUOTA  no space at all; none for whoever writes
 *          ERR_AUTH         keys or rights are refused, have expired or are missing
 *          ERR_TIMEOUT, ERR_BUSY  no answer in time; it asks to be asked less
 *          ERR_IO           everything else
 * Absent   the number that the API gives a kind: it is joined to the row by the kind's word
 *          (src/broker/api/target_kinds.h).
 */
#ifndef CKPT_DEST_DESTINATION_H
#define CKPT_DEST_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/dest/sample.h"
#include "src/dest/serve.h"
#include "src/dest/sha256.h"

enum { DESTINATION_NAME_BYTES = 200 }; /* of a folder in a checkpoint's, with its NUL */

/* Where a shard lies. Texts are the caller's and are read during a call only. */
struct destination_place {
    /* A target's. NULL: `path` itself is trusted (verify, restore, abandon only). */
    const char *prefix;
    const char *path; /* of the checkpoint, below prefix */
    /* prepare, and claim before it: path is ALLOCATION/checkpoints, where a job's checkpoints go */
    bool all_checkpoints;
    /* likewise: a checkpoint that is there, unless the file system is not mounted; NULL: none is */
    const char *beside;
    const char *part; /* the shard's name; an id that does not begin with '.' */
    /* verify, restore: the recorded hash of MANIFEST; NULL: any valid one */
    const char *manifest_sha256;
    /* restore: files lie there as they were put, whatever the MANIFEST says of how they are stored:
     * a node's own copy */
    bool as_put;
    /* put, stage: of the cluster whose checkpoint it is (mark.h), left beside what is written.
     * NULL: of none, and no scan ever takes it for its cluster's */
    const char *mark;
    /* put: where the text of the shard's MANIFEST goes, appended; NULL: nowhere */
    struct buf *manifest_text;
};

/* How the bytes of one call are moved; all zeros is the default of each. Read during a call
 * only. */
struct destination_how {
    uint64_t rate_bytes_per_s; /* of all threads together; 0: as fast as it goes */
    unsigned threads;          /* 0: two for each processor, at most POOL_THREADS_MAX */
    /* put: how much of what was written is read again from storage before it gets its name */
    enum sample_policy read_back;
    /* put: what is the same in the part's shard of the checkpoint before is taken over from
     * there, but for files that were taken over so often already; 0: everything is written */
    unsigned generations_max;
    /* put: files are stored compressed where that makes them smaller by a tenth; of kinds that do
     * it */
    bool compresses;
};

/* What a shard was found to be. */
struct destination_summary {
    uint64_t size_bytes;                    /* of all files, without the MANIFEST */
    uint64_t file_count;                    /* without folders */
    char manifest_sha256[SHA256_HEX_BYTES]; /* what `sha256sum MANIFEST` prints */
    /* put: the same shard was there; restore: the target already holds the same files */
    bool reused;
    uint64_t
        saved_bytes; /* put: of size_bytes, what was not written: taken over, compressed away */
};

/* What a removal took away; of one that another removal was killed in, the rest. */
struct destination_removed {
    bool removed;   /* the checkpoint, or a part of it, was there */
    uint64_t bytes; /* of files, as far as they could be told */
    uint64_t files;
    uint64_t wiped;   /* of these: overwritten before */
    uint64_t unwiped; /* of these: to be overwritten, and were not, or not all of it: wipe.h; S3 */
};

/* Which checkpoints are looked for. Texts are the caller's. */
struct destination_scan {
    const char *prefix; /* a target's */
    const char *mark;   /* only what has this one is told (mark.h) */
    const char *after;  /* the path, as found, behind which the walk begins; NULL: at the start */
    uint64_t min_age_s; /* what has changed since is not told */
};
/* A checkpoint, or what is left of one. Texts are good during the call. */
struct destination_found {
    const char *path;    /* below the prefix: TENANT/PROJECT/ALLOCATION/checkpoints/CHECKPOINT */
    const char *owner;   /* a name, or a number; "": the kind knows none */
    uint64_t size_bytes; /* of its files, as manifests or listings say */
    uint64_t age_s;      /* since the last change, by the destination's stamps and this clock */
};
struct destination_sink {
    /* false: enough; the walk can go on behind this one later */
    bool (*found)(void *data, const struct destination_found *found);
    void *data;
};
struct destination_scanned {
    uint64_t looked;         /* folders of checkpoints */
    uint64_t foreign;        /* of these, without the mark, or with another one as well */
    uint64_t denied;         /* folders that could not be looked into; what is in them is unknown */
    struct err denied_error; /* of the first of them */
    bool more;               /* the sink had enough: there may be more behind `next` */
    char next[4096];
};

/* What a kind does. Each function returns 0, or -1 with err as the head of this file has them,
 * unless its comment says otherwise. A function may be killed at any system call and run again: the
 * second run finds what the first one left and comes to the same end. Several nodes may call put,
 * verify and restore for parts of one checkpoint at a time; a part has one writer. */
struct destination_ops {
    /* In configurations; in upper case the name of its value in the API's TargetKind. */
    const char *kind;
    /* Whether a text has the form of this kind's locations. Forms of two kinds never overlap. */
    bool (*parse)(const char *location);
    /* Of a location that parse() takes or that is said to be of this kind: all that can be told
     * without touching it. */
    int (*validate)(const char *location, struct err *err);
    /* Can something be written, made durable and removed directly below prefix? Failures in a row
     * pause the checkpoints that are bound for it, successes in a row resume them
     * (src/broker/health/storage_watch.h). */
    int (*probe)(const char *prefix, struct err *err);
    /* What root does for a put or prepare by `owner` before it becomes that user. NULL: nothing.
     * ERR_AUTH, when root is nobody there, is no failure: the user's own rights are tried then. */
    int (*claim)(const struct destination_place *place, uid_t owner, struct err *err);
    /* Whether claim has nothing to do any more, as far as this user sees. NULL where claim is. */
    bool (*claimed)(const struct destination_place *place);
    /* Makes the folder of a job's checkpoints, place->path, where it is missing, and finds out as
     * probe does whether this user can write there; place->part is not asked for. ERR_UNAVAILABLE,
     * and nothing is made: not even the tenant's folder of place->beside is there. NULL: a
     * destination of this kind has neither folders nor users. */
    int (*prepare)(const struct destination_place *place, struct err *err);
    /* Copies the folder `source` into the shard, at how->rate_bytes_per_s at most, reads back what
     * how->read_back asks for, and gives it its name as the last step: a shard with a name is
     * complete and durable. An existing shard with the same contents that verifies is success; any
     * other one is replaced. A source in which a file is written, comes or goes until it was copied
     * is ERR_CORRUPT, and the shard gets no name: its writer was not done.
     * ret_summary->manifest_sha256 is what verify and restore will ask for. */
    int (*put)(const struct destination_place *place, const char *source,
               const struct destination_how *how, struct destination_summary *ret_summary,
               struct err *err);
    /* Makes a hidden folder for the part directly in the checkpoint's, into which an application
     * then writes by itself, and removes what others before it left. ret_name: of it. NULL, as
     * publish then is: nothing can be written there but by put. */
    int (*stage)(const struct destination_place *place, char ret_name[DESTINATION_NAME_BYTES],
                 struct err *err);
    /* The folder of that name, as it was written, becomes the shard: each file is hashed once and
     * made durable, how->read_back is read again, and the name is given as the last step; then it
     * is looked whether somebody has written meanwhile. ERR_CORRUPT: somebody has, and the shard
     * has no name any more. One that has its name already, from a publish that was killed, is
     * verified as a whole. ERR_NOT_FOUND: neither is there. */
    int (*publish)(const struct destination_place *place, const char *name,
                   const struct destination_how *how, struct destination_summary *ret_summary,
                   struct err *err);
    /* Reads of the shard what how->read_back says, at how->rate_bytes_per_s at most, and compares
     * it with its manifest, and that with place->manifest_sha256. Writes nothing. */
    int (*verify)(const struct destination_place *place, const struct destination_how *how,
                  struct destination_summary *ret_summary, struct err *err);
    /* Verifies while copying into `to`, at how->rate_bytes_per_s at most; `to` appears with all its
     * files at once. Its parent must exist; `to` must be absent, empty, or hold exactly these
     * files. */
    int (*restore)(const struct destination_place *place, const char *to,
                   const struct destination_how *how, struct destination_summary *ret_summary,
                   struct err *err);
    /* Removes the whole checkpoint, all parts, and says what was there; one that is not there is
     * success. What is left of one that is killed looks like no checkpoint, and the next one
     * removes it. ERR_NOT_FOUND: nothing at all is there, as where a file system is not mounted;
     * whether it was ever written there, the caller knows. */
    int (*collect)(const char *prefix, const char *path, struct destination_removed *ret_removed,
                   struct err *err);
    /* Which user of this machine the files of the checkpoint's job belong to; nobody else may read
     * or remove them, nor may root on some servers. ERR_NOT_FOUND: nothing of the job is there.
     * NULL: a destination of this kind does not ask for users. */
    int (*owner)(const char *prefix, const char *path, uid_t *ret_uid, struct err *err);
    /* Removes the folders above a collected checkpoint that became empty, and nothing that is not:
     * what the owner puts there meanwhile is not for root to walk through. NULL where owner is. */
    void (*tidy)(const char *prefix, const char *path);
    /* Removes what killed puts of this part left. A finished shard stays. */
    int (*abandon)(const struct destination_place *place, struct err *err);
    /* Tells the checkpoints below a prefix that have a cluster's mark, in an order that stays, each
     * once or, where removals were killed, more often. Changes nothing. */
    int (*scan)(const struct destination_scan *scan, const struct destination_sink *sink,
                struct destination_scanned *ret_scanned, struct err *err);
    /* What the daemon does for its workers meanwhile. NULL: nothing. */
    const struct destination_serve *serve;
    /* Whether put knows how->compresses. */
    bool compresses;
    /* The program beside ckpt-worker that does the work of this kind; this row then has only what
     * can be told without touching a destination. NULL: this row does the work. */
    const char *program;
};

/* All rows; the last one is followed by NULL. */
extern const struct destination_ops *const destinations[];

/* By its word; NULL: no such kind. */
const struct destination_ops *destination_named(const char *kind);
/* By the form of a location; NULL with ERR_INVALID: no kind takes it. Touches nothing, so a daemon
 * may ask. */
const struct destination_ops *destination_of(const char *location, struct err *err);
/* Of a worker's task (worker.h): that of its --prefix, or else of its --path. NULL: it has none. */
const struct destination_ops *destination_asked(const char *const *arguments);
/* A location as it comes from outside, of whatever kind: its form and what the kind says of it,
 * without touching it. The text of err reads on behind the location's name ("must be ..."). */
int destination_validate(const char *location, struct err *err);

#endif
