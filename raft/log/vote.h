/* Term and vote, durable before anything acts on them (I8: at most one vote per term survives a
 * crash).
 *
 * Flow     vote_save() writes both slots of one file, one after the other, each synced: a torn
 *          write leaves the other slot whole, and a slot that rots later has a copy with the same
 *          content.
 * Shapes   file "vote": slot 0 at offset 0, slot 1 at offset 4096; the higher counter wins.
 * Errors   ERR_CORRUPT when neither slot can be read: the member must not vote again under this id.
 *          After a failed write the member stops: which of the two values the disk has is unknown.
 * Absent   work off the loop: libraft acts as soon as set_term and set_vote return.
 */
#ifndef CKPT_RAFT_VOTE_H
#define CKPT_RAFT_VOTE_H

#include "raft/log/folder.h"

/* The durable term and vote, free to read; only vote_save() changes them. */
struct vote_store {
    const struct folder *folder;
    struct disk_file *file;
    uint64_t counter;
    uint64_t term;
    uint64_t voted_for; /* 0: nobody */
};

/* create: makes a new file with term 0 and no vote. Else reads the file, and writes the newer slot
 * to both again. -1: nothing is open. */
int vote_open(struct vote_store *store, const struct folder *folder, bool create, struct err *err);
/* Durable when it returns 0, after two syncs. The term never falls, and a vote that was given in a
 * term is not given to another one. */
int vote_save(struct vote_store *store, uint64_t term, uint64_t voted_for, struct err *err);
/* Twice is fine. */
void vote_close(struct vote_store *store);

#endif
