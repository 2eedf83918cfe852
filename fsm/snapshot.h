/* What snapshot_write.c and snapshot_read.c share. */
#ifndef CKPT_FSM_SNAPSHOT_H
#define CKPT_FSM_SNAPSHOT_H

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "fsm/state.h"

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_LENGTH_BYTES = 4, SNAPSHOT_RECORD_MAX = 1 << 20 };

typedef Ckpt__Log__V1__SnapshotRecord snapshot_record;

/* restore.c: each adds one record to a state that is being built; false: the record contradicts the ones before it. */
bool fsm_restore_record(struct fsm *fsm, const snapshot_record *record);

#endif
