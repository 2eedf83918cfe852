/* Certificates that were revoked by their serial numbers, before they end by themselves.
 *
 * Flow     an operator revokes one (apply); each member refuses it from the entry on
 *          (src/broker/daemon/credentials.h).
 * Shapes   at most FSM_REVOKED_MAX, the oldest first. None leaves: a serial number is never given
 *          twice. The answer to a full list is another CA.
 * When     from feature level 2 on.
 * Source   K-009.
 */
#ifndef CKPT_FSM_REVOKED_H
#define CKPT_FSM_REVOKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fsm;

enum {
    FSM_REVOKED_MAX = 1024,
    FSM_SERIAL_MIN_BYTES = 2, /* digits 0-9 a-f, two for each byte of the number */
    FSM_SERIAL_MAX_BYTES = 40
};

struct fsm_revoked {
    const char *serial, *note; /* the state's; never NULL */
    uint64_t at_ms;
};
/* The i-th, or NULL. */
const struct fsm_revoked *fsm_revoked_at(const struct fsm *fsm, size_t i);
/* Of the whole list: equal lists have equal ones. 0: it is empty. */
uint64_t fsm_revoked_hash(const struct fsm *fsm);

#endif
