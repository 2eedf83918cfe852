/* Writing an own snapshot beside the running loop: the state is packed in slices on it, each is compressed and written off it.
 *
 * Flow     take_begin() marks the instant and packs the first slice -> job: compress, checksum, write -> next slice ... -> the job
 *          of the last one writes the trailer -> finished(). The loop is held for a slice at a time, and for none while one is
 *          being written.
 * Shapes   one at a time; memory: one slice, and what the state holds back for it.
 * Units    bytes of a slice before compression.
 * Errors   finished(-1): the disk, or take_cancel(). The file is left as it is.
 */
#ifndef CKPT_RAFT_SNAPSHOT_TAKE_H
#define CKPT_RAFT_SNAPSHOT_TAKE_H

#include "raft/snapshot.h"
#include "src/base/buf.h"

enum { TAKE_SLICE_BYTES = 128 << 10 };

struct snapshot_take {
    const struct folder *folder;
    const struct consensus_hooks *hooks;
    bool running;
    bool cancelled;
    bool last; /* the slice at work ends the state */
    char path[FOLDER_PATH_BYTES];
    struct disk_job job;
    int job_status;
    struct buf slice;
    struct disk_file *file;
    uint64_t file_bytes;
    struct snapshot_encoder *encoder;
    const struct snapshot_meta *meta;
    uint64_t slice_count; /* of this one */
    void (*finished)(void *context, int status);
    void *context;
};

void take_init(struct snapshot_take *take, const struct folder *folder,
               const struct consensus_hooks *hooks, void (*finished)(void *context, int status),
               void *context);
/* Writes the file `name`. meta must live until finished(), which is never called from inside. */
void take_begin(struct snapshot_take *take, const char *name, const struct snapshot_meta *meta);
void take_cancel(struct snapshot_take *take); /* finished(-1) follows soon, if one is running */
/* Forgets one that is running. Only when no job is, or jobs never come back. */
void take_close(struct snapshot_take *take);

#endif
