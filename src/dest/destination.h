/* Kinds of destinations of checkpoints: one row per kind, in the table of destination.c.
 *
 * Flow     a location (a target's prefix, or a folder below one) is read where it enters the
 *          program. destination_of() finds its kind by the form of the text, destination_named() by
 *          the name in a configuration. Nobody else asks for the kind of a destination: the row
 *          does the work. The callers, always in a ckpt-worker:
 *
 *              the agent of each node    claim and prepare, before its application starts.
 *                                        claim and put, when its application has written.
 *                                        Or claim and stage before it is asked, and publish then.
 *                                        restore of its own part, before the application starts
 *                                        again; verify of parts that it need not copy.
 *                                        abandon, when an attempt was given up
 *              the leader                probe, each storage_watch.interval.
 *                                        collect, when a checkpoint has expired; where the leader
 *                                        may not, an agent does, with the owner's rights
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
 *          ERR_REFUSED      a path outside the prefix, or one through a symbolic link
 *          ERR_UNFIT        put, publish: a source that no checkpoint carries; again the next time
 *          ERR_MISMATCH     another cluster's checkpoint, or a later epoch's target (mark.h)
 *          ERR_INVALID      a location that no kind takes
 *          ERR_FULL, ERR_QUOTA  no space at all; none left for this user
 *          ERR_AUTH         keys or rights are refused, have expired or are missing
 *          ERR_TIMEOUT, ERR_BUSY  no answer in time; the store asks for fewer requests
 *          ERR_IO           everything else
 * Absent   the API's number of a kind: src/broker/api/target_kinds.h joins it to the row by the
 *          kind's word.
 */
#ifndef CKPT_DEST_DESTINATION_H
#define CKPT_DEST_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/dest/mark.h"
#include "src/dest/sample.h"
#include "src/dest/serve.h"
#include "src/dest/sha256.h"

enum { DESTINATION_NAME_BYTES = 200 }; /* of a folder in a checkpoint's, with its NUL */

/* Where a shard lies. Texts are the caller's and are read during a call only. */
struct destination_place {
    /* A target's. NULL: `path` itself is trusted (verify, restore, abandon only). */
    const char *prefix;
    const char *path; /* of the checkpoint, below prefix */
    /* prepare, and claim before it: path is ALLOCATION/checkpoints, the folder of all checkpoints
     * of a job */
    bool all_checkpoints;
    /* likewise: an existing checkpoint, which is missing only when the file system is not mounted;
     * NULL: none exists */
    const char *beside;
    const char *part; /* the shard's name; an id that does not begin with '.' */
    /* verify, restore: the recorded hash of MANIFEST; NULL: any valid one */
    const char *manifest_sha256;
    /* restore: the place is a node's own copy: files lie there as they were put, although the
     * MANIFEST says that they are stored compressed */
    bool as_put;
    /* the mark of the checkpoint's cluster (mark.h). put, stage: left beside the files. They and
     * publish, collect, abandon: a checkpoint with another one's is refused, ERR_MISMATCH. NULL:
     * none, no scan of any cluster tells the checkpoint, and whose it is does not matter */
    const char *mark;
    /* put: the text of the shard's MANIFEST is appended; NULL: not wanted */
    struct buf *manifest_text;
};

/* Options of one call; all zeros are the defaults. Read during a call only. */
struct destination_how {
    uint64_t rate_bytes_per_s; /* of all threads together; 0: as fast as it goes */
    unsigned threads;          /* 0: two for each processor, at most POOL_THREADS_MAX */
    /* put: the amount that is read back from storage before the shard gets its name */
    enum sample_policy read_back;
    /* put: files that are equal in the part's shard of the checkpoint before are taken over from
     * there, unless they were taken over so many times already; 0: all files are written */
    unsigned generations_max;
    /* put: files that become smaller by a tenth are stored compressed, by kinds that can */
    bool compresses;
};

/* The facts of a shard. */
struct destination_summary {
    uint64_t size_bytes;                    /* of all files, without the MANIFEST */
    uint64_t file_count;                    /* without folders */
    char manifest_sha256[SHA256_HEX_BYTES]; /* as `sha256sum MANIFEST` prints it */
    /* put: the same shard was there; restore: the target already holds the same files */
    bool reused;
    uint64_t saved_bytes; /* put: bytes that were taken over or compressed away */
};

/* The result of a removal. A removal that follows a killed one counts only the rest. */
struct destination_removed {
    bool removed;   /* the checkpoint, or a part of it, was there */
    uint64_t bytes; /* of files whose size is known */
    uint64_t files;
    uint64_t wiped; /* of these: overwritten before */
    /* of these: not overwritten, or not whole, although they should have been: wipe.h; S3 */
    uint64_t unwiped;
};

/* The cluster that a task is of, and where it is to write or to remove. Texts are the caller's. */
struct destination_hold {
    const char *prefix;
    const char *path;               /* below it; NULL: the task is about the prefix alone */
    const struct mark_claim *claim; /* with an epoch */
    const char *cluster_id;         /* for the note; NULL: not known here */
    bool takes;                     /* a lower epoch's note, or none, is replaced by an own one */
};
/* A folder that a person looks at, by whatever way it came there. */
struct destination_check {
    const char *path; /* of a checkpoint, or of one part of it */
    const struct destination_how *how;
    bool downloaded; /* from a kind that has neither links nor folders: missing ones are forgiven */
    FILE *out;       /* a line for each part: whole=TEXT, damaged=TEXT */
};
/* The checkpoints that a scan looks for. Texts are the caller's. */
struct destination_scan {
    const char *prefix; /* a target's */
    const char *mark;   /* only checkpoints with this mark are told (mark.h) */
    const char *after;  /* a found path: the walk begins behind it; NULL: at the start */
    uint64_t min_age_s; /* checkpoints that were used since are not told */
};
/* A checkpoint, or the rest of one. Texts are valid during the call. */
struct destination_found {
    const char *path;    /* below the prefix: TENANT/PROJECT/ALLOCATION/checkpoints/CHECKPOINT */
    const char *owner;   /* a name, or a number; "": the kind knows none */
    uint64_t size_bytes; /* of its files, by manifests or listings */
    /* since the last use, by the destination's stamps and this clock: of files their last access or
     * change, of objects their last change */
    uint64_t age_s;
};
struct destination_sink {
    /* false: enough; a later walk can go on behind this one */
    bool (*found)(void *data, const struct destination_found *found);
    void *data;
};
struct destination_scanned {
    uint64_t looked;         /* folders of checkpoints */
    uint64_t foreign;        /* of these: without the mark, or with another mark as well */
    uint64_t denied;         /* folders that could not be looked into */
    struct err denied_error; /* of the first denied folder */
    bool more;               /* the sink said enough: there may be more behind `next` */
    char next[4096];
};

/* The functions of a kind. Each returns 0, or -1 with an err of the list above, unless its comment
 * says otherwise. A function may be killed at any system call and run again: the second run finds
 * the rest of the first one and comes to the same end. Several nodes may call put, verify and
 * restore for parts of one checkpoint at a time; a part has one writer. */
struct destination_ops {
    /* In configurations; in upper case the name of its value in the API's TargetKind. */
    const char *kind;
    /* True: the text has the form of this kind's locations. Forms of two kinds never overlap. */
    bool (*parse)(const char *location);
    /* Checks a location without touching it. The location is one that parse() takes, or that is
     * said to be of this kind. */
    int (*validate)(const char *location, struct err *err);
    /* Writes a file directly below prefix, makes it durable and removes it. Failures in a row pause
     * the checkpoints that are bound for the target, successes in a row resume them
     * (src/broker/health/storage_watch.h). */
    int (*probe)(const char *prefix, struct err *err);
    /* Before anything is written or removed: ERR_MISMATCH when a later epoch of this cluster has
     * the target (mark.h). One small read. A note that cannot be written is no failure: it is
     * tried again with the next probe. */
    int (*hold)(const struct destination_hold *hold, struct err *err);
    /* Root calls it before it becomes `owner` for a put or prepare. NULL: the kind needs nothing.
     * ERR_AUTH is no failure: where root is nobody, the user's own rights are tried. */
    int (*claim)(const struct destination_place *place, uid_t owner, struct err *err);
    /* True: claim has nothing to do any more, as this user sees it. NULL where claim is. */
    bool (*claimed)(const struct destination_place *place);
    /* Makes the folder of a job's checkpoints, place->path, where it is missing, and tries as probe
     * does whether this user can write there. place->part is not read. ERR_UNAVAILABLE: not even
     * the tenant's folder of place->beside is there, and nothing is made. NULL: the kind has
     * neither folders nor users. */
    int (*prepare)(const struct destination_place *place, struct err *err);
    /* Copies the folder `source` into the shard, at how->rate_bytes_per_s at most, reads back as
     * how->read_back says, and gives the shard its name as the last step. A shard with a name is
     * complete and durable. An existing shard with the same contents that verifies is success; any
     * other one is replaced. ERR_CORRUPT: a file of the source was written, came or went before it
     * was copied, since its writer was not done; the shard gets no name. verify and restore will
     * compare with ret_summary->manifest_sha256. */
    int (*put)(const struct destination_place *place, const char *source,
               const struct destination_how *how, struct destination_summary *ret_summary,
               struct err *err);
    /* Makes a hidden folder for the part in the checkpoint's folder; the application then writes
     * into it. Removes the hidden folders of earlier attempts. ret_name: the folder's name. stage
     * and publish are NULL when only put can write to the kind. */
    int (*stage)(const struct destination_place *place, char ret_name[DESTINATION_NAME_BYTES],
                 struct err *err);
    /* Makes the folder `name` the shard: hashes each file once, makes it durable, reads back as
     * how->read_back says, and gives the shard its name. It then looks whether somebody has written
     * meanwhile. ERR_CORRUPT: somebody has, and the shard has no name any more. A shard that got
     * its name from a killed publish is verified as a whole. ERR_NOT_FOUND: neither the folder nor
     * the shard is there. */
    int (*publish)(const struct destination_place *place, const char *name,
                   const struct destination_how *how, struct destination_summary *ret_summary,
                   struct err *err);
    /* Reads the shard as how->read_back says, at how->rate_bytes_per_s at most. Compares the files
     * with the manifest, and the manifest with place->manifest_sha256. Writes nothing. */
    int (*verify)(const struct destination_place *place, const struct destination_how *how,
                  struct destination_summary *ret_summary, struct err *err);
    /* Reads all of a folder that is a shard, or has shards in it, by its MANIFESTs alone. NULL: the
     * kind has no folders. */
    int (*check)(const struct destination_check *check, struct err *err);
    /* Verifies while copying into `to`, at how->rate_bytes_per_s at most; `to` appears with all its
     * files at once. Its parent must exist; `to` must be absent, empty, or hold exactly these
     * files. */
    int (*restore)(const struct destination_place *place, const char *to,
                   const struct destination_how *how, struct destination_summary *ret_summary,
                   struct err *err);
    /* Removes the whole checkpoint, all parts, and tells the amount; a missing checkpoint is
     * success. The rest of a killed removal looks like no checkpoint, and the next removal takes it
     * away. ERR_NOT_FOUND: nothing at all is there, as where a file system is not mounted. Only the
     * caller knows whether a checkpoint was ever written there. */
    int (*collect)(const struct destination_place *place, struct destination_removed *ret_removed,
                   struct err *err);
    /* The user of this machine who owns the files of the checkpoint's job. Nobody else may read or
     * remove them, on some servers not even root. ERR_NOT_FOUND: nothing of the job is there. NULL:
     * the kind does not know users. */
    int (*owner)(const char *prefix, const char *path, uid_t *ret_uid, struct err *err);
    /* Removes the folders above a collected checkpoint that became empty, and no others: root must
     * not walk through files that the owner puts there meanwhile. NULL where owner is. */
    void (*tidy)(const char *prefix, const char *path);
    /* Removes the rest of killed puts of this part. A finished shard stays. */
    int (*abandon)(const struct destination_place *place, struct err *err);
    /* Tells the checkpoints below a prefix with a cluster's mark, in an order that stays; each
     * once, or more often where removals were killed. Changes nothing. */
    int (*scan)(const struct destination_scan *scan, const struct destination_sink *sink,
                struct destination_scanned *ret_scanned, struct err *err);
    /* The daemon's service for its workers meanwhile. NULL: none. */
    const struct destination_serve *serve;
    /* put knows how->compresses. */
    bool compresses;
    /* The program beside ckpt-worker that does the work of this kind; this row then has only what
     * can be told without touching a destination. NULL: this row does the work. */
    const char *program;
};

/* All rows; the last one is followed by NULL. */
extern const struct destination_ops *const destinations[];

/* The row of a kind's word; NULL: no such kind. */
const struct destination_ops *destination_named(const char *kind);
/* The row for the form of a location; NULL with ERR_INVALID: no kind takes it. Touches nothing, so
 * a daemon may call it. */
const struct destination_ops *destination_of(const char *location, struct err *err);
/* The row for a worker's task (worker.h): of its --prefix, or else of its --path. NULL: it has
 * none. */
const struct destination_ops *destination_asked(const char *const *arguments);
/* Checks a location of any kind from outside, by its form and the kind's validate(), without
 * touching it. The text of err reads on behind the location's name ("must be ..."). */
int destination_validate(const char *location, struct err *err);

#endif
