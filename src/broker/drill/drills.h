/* This member's part of a drill, and its measurements. A duty of every member.
 *
 * Flow     the record of the state (fsm/drill.h) says what is due. ARMED: the prober begins. FAULT:
 *          who is meant by its role brings the fault about, by the row of its kind (faults.h).
 *          SETTLING: the prober ends, and the member tells its word.
 * Shapes   a fault of this process ends by its own timer, whoever is heard by then. A leader fails
 *          in the term of the record alone, so one that comes back never fails again.
 * Units    milliseconds; instants of the state's clock, so that all members mean the same.
 * Errors   a fault that cannot come is told in the word, and fails the drill.
 */
#ifndef CKPT_BROKER_DRILLS_H
#define CKPT_BROKER_DRILLS_H

#include "src/broker/broker.h"
#include "src/broker/drill/faults.h"

struct drills_duty;

/* The faults and the certificates of the probes (NULL: plain) are borrowed. */
struct drills_duty *drills_new(struct broker *broker, const struct fault_ops *faults,
                               const struct tls_context *tls);
void drills_free(struct drills_duty *duty); /* NULL allowed */
/* Orders for an agent go out: a leader's first ones after a fault count. NULL allowed. */
void drills_note_orders(struct drills_duty *duty);
/* True: probes of the target are to fail now. NULL allowed. */
bool drills_target_fails(const struct drills_duty *duty, const char *target_id);

#endif
