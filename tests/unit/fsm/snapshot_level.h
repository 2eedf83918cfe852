/* The highest feature level of what a snapshot holds. */
#ifndef CKPT_TESTS_FSM_SNAPSHOT_LEVEL_H
#define CKPT_TESTS_FSM_SNAPSHOT_LEVEL_H

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "fsm/fsm.h"
#include "tests/unit/fsm/script_bytes.h"

/* Fails with the field's name when a record holds something above level 1. */
static inline void assert_of_level_1(const struct script_bytes *bytes)
{
    for (size_t at = 0; at < bytes->length;) {
        size_t length = (size_t)bytes->bytes[at] | (size_t)bytes->bytes[at + 1] << 8 |
                        (size_t)bytes->bytes[at + 2] << 16;
        Ckpt__Log__V1__SnapshotRecord *record =
            ckpt__log__v1__snapshot_record__unpack(NULL, length, bytes->bytes + at + 4);
        const char *field;

        assert_non_null(record);
        if (fsm_message_level(&record->base, &field) != FSM_LEVEL_FIRST)
            fail_msg("a snapshot of level 1 has %s", field);
        ckpt__log__v1__snapshot_record__free_unpacked(record, NULL);
        at += 4 + length;
    }
}

#endif
