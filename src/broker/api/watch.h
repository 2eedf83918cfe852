/* BrokerService/Watch: the events of the replicated state, from a sequence number on, then live.
 *
 * Flow     a call starts behind its after_sequence once a read is confirmed: one that ends well
 *          leaves nothing out that was acknowledged before it began, also where the leader was
 *          deposed and does not know it. Each turn of the loop sends what its buffer takes, after
 *          each applied entry there may be more. Resuming on another leader is the same call with
 *          the last sequence seen.
 * Shapes   at most WATCH_CALLS_MAX calls; nothing is kept per call but the sequence: a slow reader
 *          holds no memory beyond its stream's buffer, and learns by `gap` that it was too slow.
 * Errors   not the leader, or no longer: as in answer.h, the client goes on with the new leader.
 */
#ifndef CKPT_BROKER_WATCH_H
#define CKPT_BROKER_WATCH_H

#include "src/broker/broker.h"

/* Events looked at per call and turn of the loop. */
enum { WATCH_CALLS_MAX = 256, WATCH_TURN_EVENTS = 512 };

struct watch *watch_new(struct broker *broker);
/* After the server is freed: no call is left. */
void watch_free(struct watch *watch);

#endif
