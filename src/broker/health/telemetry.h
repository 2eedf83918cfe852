/* Asks the configured sources of telemetry and hands what they say to the nodes' health.
 *
 * Flow     sources (src/telemetry/source.h) -> samples with subjects -> the node of each subject,
 *          by the source's map or by name -> node_health.h. The leader asks at the configured
 *          interval; every other member asks too, follower_slowdown times more rarely: counters say
 *          something only beside what they were before, and a new leader should know that at once.
 *          When it begins to lead every endpoint is asked anew within an interval.
 * Shapes   at most SOURCES_MAX sources. A look every TELEMETRY_LOOK_MS counts who is fresh, stale
 *          and blind, and logs one line per source when that changes, at most one per
 *          TELEMETRY_LOG_MS.
 * Errors   a source that fails is a warning in log, status and metrics. It never decides anything:
 *          what it said before fades.
 * Absent   opinions about health (src/telemetry/health.h), replicated state.
 */
#ifndef CKPT_BROKER_TELEMETRY_H
#define CKPT_BROKER_TELEMETRY_H

#include "src/broker/explain/translate.h"

struct broker;
struct config;
struct metrics;
struct telemetry;

enum { TELEMETRY_LOOK_MS = 1000, TELEMETRY_LOG_MS = 60000 };

/* On every member, after broker->nodes and the replica; asks from then on. Freed after the replica
 * was closed. broker->loop carries the transfers. */
struct telemetry *telemetry_new(struct broker *broker);
void telemetry_free(struct telemetry *telemetry); /* NULL allowed */
/* Takes the sections telemetry and health; the rest is not looked at. NULL allowed. */
void telemetry_configure(struct telemetry *telemetry, const struct config *config);

/* Each with what to do. The texts live in scratch. NULL: none. */
void telemetry_warnings(const struct telemetry *telemetry, struct scratch *scratch,
                        void (*take)(void *context, char *text), void *context);
/* Sets the metrics of sources and of nodes' health to what they are now. NULL allowed. */
void telemetry_read_metrics(const struct telemetry *telemetry, struct metrics *metrics);
/* hazard_factor_milli, signals and sources; also without telemetry. */
void telemetry_fill_node(const struct broker *broker, uint32_t node_slot, struct scratch *scratch,
                         Ckpt__V1__NodeStatus *node);

#endif
