/* The stream to the leader: hello, heartbeats, reports up; welcome, acknowledgements, orders down.
 *
 * Flow     dial -> hello -> welcome (fence, acknowledged) -> reports in order -> ...; when the
 *          stream ends, the next endpoint, for ever.
 * Shapes   one stream at a time. A broker that is away changes nothing here: attempts go on,
 *          reports wait in the journal (F-009).
 * Errors   a welcome or order set below the fence ends the stream: that leader is an old one (I25).
 */
#ifndef CKPT_AGENT_SESSION_H
#define CKPT_AGENT_SESSION_H

#include <stdbool.h>

#include "src/agent/daemon/agent.h"

struct session;

int session_new(struct agent *agent, const char *brokers, uint64_t heartbeat_ms,
                struct session **ret_session, struct err *err);
void session_free(struct session *session);
/* The certificates of the broker at the other end are looked at again; not from its own message. */
void session_recheck(struct session *session);
bool session_open(const struct session *session);
/* Of the broker that is, or would be, at the other end. */
const char *session_address(const struct session *session);

#endif
