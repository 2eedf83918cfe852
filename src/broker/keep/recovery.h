/* When a majority of the data folders is lost: looking at the ones that are left, and going on from
 * one of them.
 *
 * Flow     recovery_run() boots each folder in memory (snapshot, then log) and prints what it
 *          holds; with `recover` it compares this member's folder with the others, says what may be
 *          lost, wants the hash of the survivor repeated, and makes it a cluster of one voter
 *          (raft/log/offline.h). Members are added afterwards like to any cluster.
 * Shapes   the new incarnation is drawn by chance, and the epoch depends on the member's place in
 *          the last configuration: two members that are recovered separately refuse each other and
 *          give ids that never meet.
 * Errors   ERR_REFUSED another folder is ahead, ends with the same entry and another hash, or
 *          belongs to another incarnation; the hash is another one.
 * When     Only while the member whose folder it is does not run: the folder is locked. The other
 *          folders are read and never written.
 */
#ifndef CKPT_BROKER_RECOVERY_H
#define CKPT_BROKER_RECOVERY_H

#include <stdio.h>

#include "src/broker/daemon/config.h"

enum { RECOVERY_FOLDERS_MAX = 9 };

struct consensus_member;
struct consensus_config;
struct disk_ops;

/* As they were given on the command line. */
struct recovery_options {
    bool recover;                             /* else: look only */
    const char *others[RECOVERY_FOLDERS_MAX]; /* folders of other members, or copies of them */
    size_t other_count;
    const char *confirm; /* the survivor's hash; NULL: asked for */
    bool accept_loss;    /* although another is ahead or differs, or this one was being filled */
};

/* Looks, and recovers when it is asked to; `in` is where a person types, `out` what is told. 0:
 * done. -1: err, and no folder was changed. */
int recovery_run(const struct config *config, const struct recovery_options *options, FILE *in,
                 FILE *out, struct err *err);

/* What work on a folder without a loop needs; members and disk are the caller's. */
void recovery_consensus_config(const struct config *config, struct consensus_member *members,
                               struct disk_ops *disk, struct consensus_config *ret_consensus);

#endif
