/* PauseCluster, and what Status says of a cluster that does nothing by itself.
 *
 * Shapes   texts live in the scratch, or are the state's.
 */
#ifndef CKPT_BROKER_SERVICE_PAUSE_H
#define CKPT_BROKER_SERVICE_PAUSE_H

#include "ckpt/v1/operator.pb-c.h"
#include "src/broker/api/request.h"

struct broker;
struct scratch;

/* Fills pause and passive_since_ms, and returns the warning of them; NULL: neither holds. */
char *pause_status(const struct broker *broker, struct scratch *scratch,
                   Ckpt__V1__StatusReply *reply);

#endif
