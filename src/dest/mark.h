/* The mark of the cluster that owns a checkpoint, and what a target remembers of that cluster.
 *
 * Several clusters may share one destination, and a checkpoint that one of them does not know may
 * be another one's. A cluster that was restored or recovered has the epoch after that of its
 * backup, and whatever is left of it as it was before has a lower one.
 *
 * Flow     put leaves its cluster's mark beside the files. Whoever adds to a checkpoint or removes
 *          it refuses one with another mark. scan tells the checkpoints with the given mark, and
 *          counts all others as foreign; one without a mark is never removed because of a scan.
 *          The target itself has a note for each mark: the highest epoch that has taken it. The
 *          leader's workers write it (probe, collect); all that write or remove read it first, and
 *          a lower epoch is refused. A higher one may go on, also before its note is there.
 * Shapes   a mark is sixteen digits, the beginning of the SHA-256 of the cluster's id. Agents and
 *          journals carry it as a number; 0 means no mark. A claim is what a task says of its
 *          cluster: "MARK" or "MARK@EPOCH"; without an epoch no note is looked at.
 *          A note is lines of KEY=VALUE. One that cannot be read counts as one of epoch 0.
 * Errors   ERR_MISMATCH: another cluster's, or a later epoch's. Trying again does not help.
 */
#ifndef CKPT_DEST_MARK_H
#define CKPT_DEST_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"

enum {
    MARK_BYTES = 17, /* with its terminator, as all below */
    MARK_CLAIM_BYTES = 40,
    MARK_CLUSTER_BYTES = 129,
    MARK_HOST_BYTES = 65,
    MARK_TIME_BYTES = 24,
    MARK_NOTE_MAX_BYTES = 1024
};

/* How a mark is called where it lies: this and its digits. In a checkpoint's folder it is an empty
 * file, directly below a target's prefix the note. */
#define MARK_NAME ".cluster."

uint64_t mark_of(const char *cluster_id);
/* Returns text. */
char *mark_format(uint64_t mark, char text[MARK_BYTES]);
/* Exactly as mark_format() writes one, and not 0. */
bool mark_valid(const char *text);

struct mark_claim {
    char mark[MARK_BYTES]; /* "": none is given */
    uint64_t epoch;        /* 0: none is given */
};
/* Returns text. mark 0 is none of a claim's. */
char *mark_claim_format(uint64_t mark, uint64_t epoch, char text[MARK_CLAIM_BYTES]);
/* False: it is no claim. */
bool mark_claim_parse(const char *text, struct mark_claim *ret_claim);

struct mark_note {
    uint64_t epoch;
    char cluster[MARK_CLUSTER_BYTES]; /* its id; "": not told */
    char host[MARK_HOST_BYTES];       /* of the worker that wrote it; "": not told */
    char time[MARK_TIME_BYTES];       /* 2026-11-29T10:00:00Z; "": not told */
};
/* Appends the text of a note of this moment and host. cluster_id may be NULL. */
void mark_note_write(const struct mark_claim *claim, const char *cluster_id, struct buf *text);
void mark_note_read(const char *text, size_t length, struct mark_note *ret_note);

/* -1 with ERR_MISMATCH when the note is of a later epoch than the claim. where: the note's own
 * place, for people. */
int mark_check(const struct mark_claim *claim, const struct mark_note *note, const char *where,
               struct err *err);
/* Refuses a checkpoint with the mark of another cluster. note: that one's, as far as it is told;
 * NULL: not looked for. -1. */
int mark_refuse(const char *own, const char *others, const struct mark_note *note, const char *path,
                struct err *err);

#endif
