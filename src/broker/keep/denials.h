/* Calls that were denied, for the audit trail: one record for each caller, method and minute, with
 * a count. Agents that speak for another node than their certificate's are among them.
 *
 * Flow     a denied call is noted by the part that denies it; once a minute the leader proposes
 *          the notes (AuditCalls).
 * Shapes   at most DENIALS_MAX callers and methods a minute and DENIALS_PER_HOUR records an hour;
 *          what is beyond has one record, "others".
 * Absent   denials of members that do not lead: they count them (ckpt_denied_total) and log them.
 * Source   K-001, V-016.
 */
#ifndef CKPT_BROKER_DENIALS_H
#define CKPT_BROKER_DENIALS_H

#include "src/broker/broker.h"

enum { DENIALS_MAX = FSM_AUDIT_CALLS_MAX - 1, DENIALS_EVERY_MS = 60000 };
/* of these 60 for the others of each minute */
enum { DENIALS_PER_HOUR = 1000, DENIALS_NAMED_PER_HOUR = DENIALS_PER_HOUR - 60 };

struct denials *denials_new(struct broker *broker);
void denials_free(struct denials *denials);
/* path: of the method. spoofed_node_id: the node for which an agent spoke; NULL: it is something
 * else. denials NULL: nothing is noted. */
void denials_note(struct denials *denials, const struct rpc_peer *peer, const char *path,
                  const char *spoofed_node_id);

#endif
