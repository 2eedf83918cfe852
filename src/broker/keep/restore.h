/* ckptd --bootstrap --restore FILE: the members of a new incarnation of the cluster begin with the
 * state of a backup.
 *
 * Flow     the file is loaded in memory with every check (backup_load.h) -> the state becomes the
 *          first snapshot of an empty data folder (raft/log/offline.h) -> the members agree on an
 *          incarnation, as in every first start (raft/log/founding.h); the first leader's first
 *          command is the new epoch.
 * Shapes   only members that were restored from the same bytes, to the same epoch, with the same
 *          list of members, begin together. They never talk to members of the cluster as it was.
 * Errors   ERR_REFUSED the folder is not empty, or the file is of another cluster and
 *          new_cluster_id is not set.
 * When     Before daemon_run(), in the same process, on every member of the new cluster with the
 *          same file. No other process may use the folder, which is locked.
 */
#ifndef CKPT_BROKER_RESTORE_H
#define CKPT_BROKER_RESTORE_H

#include <stdio.h>

#include "src/broker/daemon/config.h"

/* As they were given on the command line; nothing of them is checked before restore_run(). */
struct restore_options {
    const char *path;
    bool new_cluster_id; /* the file may be of another cluster */
    const char *epoch;   /* as it was given; NULL: the backup's + 1 */
};

/* Writes the data folder of this member and prints what it did. 0: the member can be started with
 * --bootstrap. -1: err says why nothing was written, and the next step. */
int restore_run(const struct config *config, const struct restore_options *options, FILE *out,
                struct err *err);

#endif
