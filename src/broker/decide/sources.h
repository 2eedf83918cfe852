/* Where the model's inputs come from, and how old each source was.
 *
 * Flow     the evaluator notes the ages beside each decision that it proposes; explain tells them
 *          beside each input.
 * Shapes   a fixed list of sources, appended to only: its order is in the log.
 * Units    milliseconds, saturated at 49 days.
 * Errors   SOURCE_NOTHING: the source said nothing yet, and the input is a prior.
 * When     Ages of what only this member heard (agents, sensors) are of the moment of the call, so
 *          that they are noted when the decision is made and cannot be asked for afterwards.
 */
#ifndef CKPT_BROKER_SOURCES_H
#define CKPT_BROKER_SOURCES_H

#include <stddef.h>
#include <stdint.h>

struct fsm;
struct fsm_allocation;
struct nodes;

#define SOURCES(X)                                                                                 \
    X(STATE, "replicated state")           /* as of the evaluation: no age */                      \
    X(OWN, "its last complete checkpoint") /* what a job teaches about itself */                   \
    X(AGENTS, "heartbeats of its nodes")   /* the oldest one */                                    \
    X(QUEUE, "queue reports")              /* the oldest one that counts */                        \
    X(TARGET, "its storage target")        /* since its last change */                             \
    X(FLEET, "what the fleet taught")      /* since that entered the log */                        \
    X(SENSORS, "telemetry of its nodes")   /* the oldest fresh one */                              \
    X(OUTCOMES, "how its attempts ended")  /* since the last one */

/* Room for the longest subject: an id of 128 bytes and a word. */
enum { SOURCE_SUBJECT_BYTES = 160 };

enum source {
#define X(name, text) SOURCE_##name,
    SOURCES(X)
#undef X
        SOURCE_COUNT
};
#define SOURCE_NOTHING UINT32_MAX

/* Names as people read them in an explanation; static texts. */
const char *source_name(enum source source);
/* Of one of the model's numbers, by its name; STATE for one that is not listed. */
enum source source_of(const char *number);
/* What is said of an input that has no source yet. */
const char *source_prior(enum source source);

/* The object that the source spoke of, looked up in the present state: "checkpoint 1-42", "node
 * gpu-a", "vcluster hpc"; "" when there is none. Returns text. */
const char *sources_subject(const struct fsm *fsm, const struct nodes *nodes,
                            const struct fsm_allocation *allocation, uint64_t at_ms,
                            enum source source, char text[SOURCE_SUBJECT_BYTES]);

/* As of at_ms of the state's clock; AGENTS and SENSORS as of now. */
void sources_age(const struct fsm *fsm, const struct nodes *nodes,
                 const struct fsm_allocation *allocation, uint64_t at_ms,
                 uint32_t ret_age_ms[SOURCE_COUNT]);

#endif
