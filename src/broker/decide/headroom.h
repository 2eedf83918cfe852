/* What storage systems say of themselves, made into what their targets can take: duty of the
 * leader.
 *
 * Flow     telemetry.c hands on what a VMS said of its cluster (vast.h) -> its health is evidence
 *          for the storage watch beside the probes; its bandwidth becomes each target's measured
 *          bandwidth, by a TargetAvailability command when it has changed.
 * Formula  of a source: headroom = min(write_limit_bytes_per_s, what the VMS says it can write) -
 *          what everybody writes + what the broker's own checkpoints write (vast_headroom()); at
 *          least VAST_FLOOR_PPM of what its targets are configured for, at most all of that. Its
 *          targets share it in proportion to what they are configured for. Own writes are the
 *          grants of checkpoints that are WRITING, the mean of the last HEADROOM_WINDOW looks.
 * Shapes   by slot of the target; a target belongs to one source at most. One proposal per change
 *          of a tenth (HEADROOM_CHANGE_PPM), or of a hundredth of what is configured
 *          (HEADROOM_NOISE_PPM) where that is more.
 * Units    bytes per second; microseconds of the monotonic clock.
 * Errors   a VMS that is silent, or whose answer cannot be used, is a warning (telemetry.c). After
 *          SOURCE_STALE_INTERVALS without a rate the measured one is forgotten: what is configured
 *          counts again. After as many without a word, its health is.
 * Source   S1-005, S1-052, S1-061.
 */
#ifndef CKPT_BROKER_HEADROOM_H
#define CKPT_BROKER_HEADROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "src/telemetry/source.h"

struct broker;
struct headroom;

enum {
    HEADROOM_WINDOW = 10,
    HEADROOM_CHANGE_PPM = 100000,
    HEADROOM_NOISE_PPM = 10000,
    HEADROOM_PROBLEM_BYTES = 256
};

struct headroom *headroom_new(struct broker *broker);
void headroom_free(struct headroom *headroom); /* NULL allowed */
/* A new leader, or other sources: what is known begins anew. */
void headroom_restart(struct headroom *headroom);
void headroom_take(struct headroom *headroom, const struct sources *sources, size_t source,
                   const struct vast_cluster *cluster);
/* Every second: notes own writes, forgets what is old, proposes what could not be proposed. */
void headroom_look(struct headroom *headroom, const struct sources *sources);
/* Why a source that answers measures nothing for a target, and what to do; "": no such problem. */
const char *headroom_problem(const struct headroom *headroom, size_t source);

/* Whether the difference is worth a log entry. 0: not known. */
bool headroom_differs(uint64_t old_bytes_per_s, uint64_t new_bytes_per_s,
                      uint64_t configured_bytes_per_s);

#endif
