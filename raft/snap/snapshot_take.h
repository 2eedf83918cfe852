/* Writing an own snapshot beside the running loop: the state in slices (slices.h), compressed on
 * their way into the file.
 *
 * Flow     take_begin() marks the instant by hooks.snapshot_begin(); each slice is one
 *          hooks.snapshot_next() on the loop, and is compressed and written off it; the last one is
 *          followed by hooks.snapshot_end() and finished(). To give it up: slices_cancel() of
 *          take->slices.
 * Shapes   one at a time; memory: one slice, and what the state holds back for it.
 * Units    bytes.
 * Errors   finished(-1, err): the disk or the hook, and no file is left; or it was given up.
 * Absent   sync and name: snapshot_keep_work() makes the file a snapshot.
 */
#ifndef CKPT_RAFT_SNAPSHOT_TAKE_H
#define CKPT_RAFT_SNAPSHOT_TAKE_H

#include "raft/snap/slices.h"
#include "raft/snap/snapshot.h"

struct snapshot_take {
    const struct consensus_hooks *hooks;
    struct slices slices;
    void *state; /* of hooks.snapshot_begin() */
    struct snapshot_encoder *encoder;
    const struct snapshot_meta *meta;
    uint64_t content_bytes; /* before compression; of the last one, when none is running */
    char path[FOLDER_PATH_BYTES];
};

/* In the data folder; as a tmp-* file it is removed at the next open when it is left by a crash. */
#define TAKE_FILE "tmp-snapshot-take"

/* Writes TAKE_FILE. meta and hooks must live until finished(), which is never called from inside.
 * Not while take_running(). */
void take_begin(struct snapshot_take *take, const struct folder *folder,
                const struct consensus_hooks *hooks, const struct snapshot_meta *meta,
                void (*finished)(void *context, int status, const struct err *err), void *context);
static inline bool take_running(const struct snapshot_take *take)
{
    return take->slices.running;
}

#endif
