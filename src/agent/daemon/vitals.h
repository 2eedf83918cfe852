/* The node's own health in heartbeats: read before each, and since when its error counts rise.
 *
 * Flow     vitals_fill() writes what the last reading said into a heartbeat and begins the next
 *          reading.
 * Shapes   one reading under way; one that hangs on a slow bus is waited for, and what is known
 *          grows old.
 * Units    milliseconds on the wire; the agent's monotonic clock inside.
 * Errors   after VITALS_OLD_HEARTBEATS heartbeats without a new reading nothing is said any more:
 *          unknown, not 0.
 */
#ifndef CKPT_AGENT_VITALS_H
#define CKPT_AGENT_VITALS_H

#include "ckpt/v1/agent.pb-c.h"
#include "src/agent/node/machine.h"
#include "src/base/ops.h"

enum { VITALS_OLD_HEARTBEATS = 3 };

struct vitals {
    const struct machine_ops *machine;
    const struct clock_ops *clock;
    const char *root; /* of sysfs; "": nothing is read */
    struct sensors_reading *reading;
    struct sensors sensors;
    bool known;
    unsigned heartbeats; /* since the last reading */
    bool counted;        /* the counts below were seen: they can rise */
    uint64_t correctable_count, uncorrectable_count;
    uint64_t correctable_risen_us, uncorrectable_risen_us; /* 0: never */
};

void vitals_open(struct vitals *vitals, const struct machine_ops *machine,
                 const struct clock_ops *clock, const char *root);
void vitals_close(struct vitals *vitals);
void vitals_fill(struct vitals *vitals, Ckpt__V1__AgentHeartbeat *heartbeat);

#endif
