/* A client inside of a member, which asks the cluster for one change after the other while a drill
 * measures: so a member knows for how long the service was away, and what was acknowledged.
 *
 * Flow     prober_start() begins; a probe (ProbeDrill) goes to the leader's API as any client's
 *          would, with the redirects. prober_stop() begins no other one; quiet() when the last one
 *          is answered. Then prober_tell() sends the member's word (TellDrill) until it is taken.
 * Shapes   one probe in flight; PROBER_INTERVAL_MS between begins. A probe that finds nobody is
 *          repeated with its request id, so that each of them is answered, and counted once.
 * Units    milliseconds of the monotonic clock.
 * Absent   measurements of the leader itself: drills.c.
 */
#ifndef CKPT_BROKER_PROBER_H
#define CKPT_BROKER_PROBER_H

#include "ckpt/v1/drill.pb-c.h"
#include "src/broker/broker.h"

enum { PROBER_INTERVAL_MS = 20, PROBER_TIMEOUT_MS = 500, PROBER_RETRY_MS = 20 };

struct prober;

struct prober_config {
    uint64_t drill_id, member_id, run;
    const struct tls_context *tls; /* NULL: plain */
    void (*quiet)(void *data);     /* after prober_stop(), once */
    void (*told)(void *data);      /* after prober_tell(), once: taken, or refused for good */
    void *data;
};

/* NULL: no address of any member is known. */
struct prober *prober_start(struct broker *broker, const struct prober_config *config);
void prober_free(struct prober *prober); /* NULL allowed; no callback comes afterwards */
void prober_stop(struct prober *prober);
/* When it is quiet. The word is packed before this returns. */
void prober_tell(struct prober *prober, const Ckpt__V1__DrillWord *word);
uint64_t prober_answered(const struct prober *prober); /* probes */
/* The longest time between two answers, with that since the last one. */
uint64_t prober_away_ms(const struct prober *prober);

#endif
