/* The record of a founder's folder about the founding of its cluster: the file "founding".
 *
 * Flow     founding_begin() draws the folder's number when the folder is begun, by a bootstrap or a
 *          restore. When all founders are present and blank, the one with the lowest id draws the
 *          incarnation, and writes it down with the numbers that it heard; the others write down
 *          what it drew (consensus_founding.c). Only then the folder becomes a member, with its
 *          identity. A founder that was away hears of the incarnation from any other one, by its
 *          number: a folder that was begun since, on a replaced disk, has another number and is
 *          refused. When all founders have arrived the file goes.
 * Shapes   one record per folder, and a copy of it in the file.
 * Errors   ERR_CORRUPT with the path: the folder held nothing yet, so it is emptied and begun
 *          again.
 * Source   little endian: number u64, origin u64, epoch_min u64, basis u64, incarnation u64, count
 *          u8, count times {id u64, number u64}, crc32c u32 of all before it.
 */
#ifndef CKPT_RAFT_FOUNDING_H
#define CKPT_RAFT_FOUNDING_H

#include "raft/log/folder.h"
#include "raft/net/frame.h"

struct founding_record {
    uint64_t number;      /* of this folder; 0: there is no record */
    uint64_t origin;      /* digest of the state that was restored; 0: the cluster begins empty */
    uint64_t epoch_min;   /* for the identity */
    uint64_t basis;       /* founding_basis() as the incarnation was agreed on */
    uint64_t incarnation; /* 0: not agreed on */
    struct frame_founders founders; /* the founders that it was drawn for */
};

/* A record with number 0 when there is no file. -1: damaged, or not readable. */
int founding_read(const struct folder *folder, struct founding_record *ret_record, struct err *err);
/* Replaces the file by the record, whose number is not 0. Durable when it returns 0. */
int founding_write(const struct folder *folder, const struct founding_record *record,
                   struct err *err);
/* Draws a number by chance for a folder that has none and writes the record. Two folders that were
 * begun apart have different numbers, which is how a replaced disk is told from the former one. */
int founding_begin(const struct folder *folder, const struct random_ops *random,
                   struct founding_record *record, struct err *err);
/* A digest of what all founders must begin with alike: the cluster's name, ids and names of its
 * members in order, and the restored state. Never 0. Addresses are left out, for each founder may
 * reach the others by its own ones. */
uint64_t founding_basis(const struct founding_record *record, const char *cluster_id,
                        const struct consensus_member *members, size_t member_count);
/* The number of that founder's folder as the incarnation was drawn for it; 0: it is none of the
 * founders. */
uint64_t founding_number(const struct founding_record *record, uint64_t id);

#endif
