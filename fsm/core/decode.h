/* From a log entry's bytes to commands. Shapes: everything decoded lives in the arena until it is
 * reset. */
#ifndef CKPT_FSM_DECODE_H
#define CKPT_FSM_DECODE_H

#include "fsm/core/state.h"

/* One command of an entry, and what is known of it before it is applied. */
struct decoded {
    const fsm_command *command;
    const uint8_t *packed; /* in the entry */
    size_t packed_bytes;
    struct request request; /* its content: the body alone, equal for a retry of the same request */
    uint32_t allocation_hash, node_hash; /* of the ids of what it is about; 0: none or not known */
};

/* false: the bytes are not a well-formed Entry; nothing of it may be applied. *ret_commands lies in
 * the arena of fsm and may be empty. All commands of an entry are decoded before the first one is
 * applied: half of an entry is never applied, and tables can be asked ahead. */
bool fsm_decode_entry(struct fsm *fsm, const uint8_t *bytes, size_t length,
                      struct decoded **ret_commands, size_t *ret_count);

#endif
