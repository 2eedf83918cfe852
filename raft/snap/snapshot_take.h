/* Writing an own snapshot beside the running loop: the state in slices (slices.h), compressed on
 * their way into the file. Shapes: one at a time; memory: one slice, and what the state holds back
 * for it. */
#ifndef CKPT_RAFT_SNAPSHOT_TAKE_H
#define CKPT_RAFT_SNAPSHOT_TAKE_H

#include "raft/snap/slices.h"
#include "raft/snap/snapshot.h"

struct snapshot_take {
    const struct consensus_hooks *hooks;
    struct slices slices;
    void *state; /* what hooks.snapshot_begin() gave */
    struct snapshot_encoder *encoder;
    const struct snapshot_meta *meta;
    uint64_t content_bytes; /* before compression; of the last one, when none is running */
    char path[FOLDER_PATH_BYTES];
};

#define TAKE_FILE "tmp-snapshot-take"

/* Writes TAKE_FILE. meta and hooks must live until finished(), which is never called from
 * inside. */
void take_begin(struct snapshot_take *take, const struct folder *folder,
                const struct consensus_hooks *hooks, const struct snapshot_meta *meta,
                void (*finished)(void *context, int status, const struct err *err), void *context);
static inline bool take_running(const struct snapshot_take *take)
{
    return take->slices.running;
}

#endif
