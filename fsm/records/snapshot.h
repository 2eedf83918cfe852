/* What snapshot_write.c, snapshot_take.c and snapshot_read.c share. */
#ifndef CKPT_FSM_SNAPSHOT_H
#define CKPT_FSM_SNAPSHOT_H

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "fsm/core/state.h"

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_LENGTH_BYTES = 4, SNAPSHOT_RECORD_MAX = 1 << 20 };

typedef Ckpt__Log__V1__SnapshotRecord snapshot_record;

/* snapshot_write.c: each writes records behind the ones before. After a failure nothing more is
 * written. */
struct snapshot_writer {
    int (*write)(void *context, const void *bytes, size_t length);
    void *context;
    uint8_t *buffer; /* for one record; the owner frees it */
    size_t capacity;
    uint64_t record_count;
    bool failed;
};
void fsm_write_prologue(struct snapshot_writer *writer, const struct fsm *fsm); /* before nodes */
void fsm_write_node(struct snapshot_writer *writer, const struct node *node);
void fsm_write_allocation(struct snapshot_writer *writer, const struct allocation *allocation);
void fsm_write_basis(struct snapshot_writer *writer, const struct basis *basis);
void fsm_write_checkpoint(struct snapshot_writer *writer, const struct checkpoint *checkpoint);
void fsm_write_undeleted(struct snapshot_writer *writer, const struct undeleted *undeleted);
void fsm_write_queue(struct snapshot_writer *writer, const struct queue *queue);
void fsm_write_preemption(struct snapshot_writer *writer, const struct preemption *preemption);
void fsm_write_past_request(struct snapshot_writer *writer, const struct past_request *past);
void fsm_write_event(struct snapshot_writer *writer, const Ckpt__V1__Event *source);
void fsm_write_audit_head(struct snapshot_writer *writer, const struct fsm *fsm);
void fsm_write_audit(struct snapshot_writer *writer, const struct fsm *fsm, uint64_t link);
void fsm_write_saved(struct snapshot_writer *writer, const uint8_t *bytes, size_t length); /* one */
void fsm_write_footer(struct snapshot_writer *writer, uint64_t state_hash);

/* restore.c: each adds one record to a state that is being built; false: the record contradicts the
 * ones before it. */
bool fsm_restore_record(struct fsm *fsm, const snapshot_record *record);

#endif
