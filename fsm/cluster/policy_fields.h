/* The fields of the replicated policy, with their defaults and bounds. The configuration file, the
 * log and the defaults read this one table, so none of them accepts a value that another refuses.
 * proto/ckpt/v1 says beside each field of Policy what it does.
 *
 * Shapes   DURATION(name, lowest, highest, default) in ms, the field is name_ms; COUNT32 and
 *          COUNT64 (name, lowest, highest, default). The default is a plain literal: it is also
 *          shown as text. CHOICE(name, lowest, highest, default) is an enum, by its numbers.
 * Zero     is a value where `lowest` is 0. A message leaves out a field at zero, so a bit of
 *          `zeros` says that the zero is meant. Where `lowest` is above 0, a zero means that the
 *          field stays as it is.
 * Order    the bit in `zeros` is the field's number in the message. So the number of a field whose
 *          `lowest` is 0 is below 60.
 */
#ifndef CKPT_FSM_POLICY_FIELDS_H
#define CKPT_FSM_POLICY_FIELDS_H

#include <stdint.h>

#include "fsm/limits.h"

#define FSM_SECOND_MS   UINT64_C(1000)
#define FSM_HOUR_MS     (3600 * FSM_SECOND_MS)
#define FSM_DAY_MS      (24 * FSM_HOUR_MS)
#define FSM_YEAR_MS     (365 * FSM_DAY_MS)
#define FSM_DAY_MINUTES 1440

/* clang-format off */
#define FSM_POLICY_FIELDS(DURATION, COUNT32, COUNT64, CHOICE)                                      \
    DURATION(evaluation_interval, 50, FSM_HOUR_MS, 30000)                                          \
    DURATION(min_interval, 1, 7 * FSM_DAY_MS, 300000)                                              \
    DURATION(max_interval, 1, FSM_YEAR_MS, 21600000)                                               \
    DURATION(checkpoint_timeout, 100, 7 * FSM_DAY_MS, 600000)                                      \
    DURATION(grace, 1, FSM_HOUR_MS, 30000)                                                         \
    DURATION(max_deferral, 1, FSM_DAY_MS, 300000)                                                  \
    COUNT32(max_victims, 1, FSM_VICTIMS_MAX, 3)                                                    \
    DURATION(near_completion, 0, FSM_DAY_MS, 300000)                                               \
    DURATION(retention, FSM_SECOND_MS, FSM_DURATION_MAX_MS, 604800000)                             \
    COUNT32(keep_complete, FSM_COMPLETE_KEPT_MIN, FSM_COMPLETE_KEPT_MAX, 2)                        \
    COUNT32(max_attempts, 1, FSM_ATTEMPTS_MAX, 3)                                                  \
    DURATION(retry_backoff, 1, FSM_HOUR_MS, 5000)                                                  \
    DURATION(node_degraded_after, 100, 30 * FSM_DAY_MS, 30000)                                     \
    DURATION(node_down_after, 100, 30 * FSM_DAY_MS, 90000)                                         \
    COUNT32(node_failures_per_1000_node_days_milli, 1, 1000000000, 2340)                           \
    DURATION(quiesce, 0, FSM_HOUR_MS, 2000)                                                        \
    COUNT32(stall_fraction_ppm, 1, FSM_PPM, 1000000)                                               \
    DURATION(restart_cost, 0, FSM_DAY_MS, 180000)                                                  \
    COUNT64(micro_usd_per_gpu_hour, 1, UINT64_C(1000000000000), 2000000)                           \
    COUNT64(default_write_bytes_per_s, 1000, FSM_BANDWIDTH_MAX, 2000000000)                        \
    COUNT32(max_requeue, 0, FSM_REQUEUE_MAX, 3)                                                    \
    DURATION(session_ttl, FSM_SECOND_MS, 30 * FSM_DAY_MS, 86400000)                                \
    COUNT32(node_chooses_target, 0, 1, 1)                                                          \
    DURATION(failover_after, FSM_SECOND_MS, FSM_DAY_MS, 60000)                                     \
    DURATION(max_discarded, 0, FSM_YEAR_MS, 3600000)                                               \
    DURATION(scrub_interval, 0, FSM_YEAR_MS, 86400000)                                             \
    COUNT64(scrub_bytes_per_s, 0, FSM_BANDWIDTH_MAX, 100000000)                                    \
    DURATION(release_check, 0, FSM_HOUR_MS, 30000)                                                 \
    DURATION(orphan_age, 0, FSM_YEAR_MS, 86400000)                                                 \
    DURATION(orphan_scan_interval, FSM_SECOND_MS, FSM_YEAR_MS, 86400000)                           \
    DURATION(sensitive_min_interval, 1, 7 * FSM_DAY_MS, 600000)                                    \
    DURATION(sensitive_max_interval, 1, FSM_YEAR_MS, 3600000)                                      \
    DURATION(sensitive_timeout, 100, 7 * FSM_DAY_MS, 900000)                                       \
    DURATION(queue_max_age, FSM_SECOND_MS, FSM_DAY_MS, 300000)                                     \
    DURATION(learned_interval, FSM_SECOND_MS, FSM_DAY_MS, 300000)                                  \
    DURATION(hazard_forget, FSM_HOUR_MS, FSM_DURATION_MAX_MS, 2592000000)                          \
    DURATION(demand_forget, 60 * FSM_SECOND_MS, FSM_YEAR_MS, 21600000)                             \
    COUNT32(f8_weight_hpc_ppm, 0, FSM_PPM, 50000)                                                  \
    COUNT32(f8_weight_ml_ppm, 0, FSM_PPM, 100000)                                                  \
    COUNT32(f8_weight_service_ppm, 0, FSM_PPM, 100000)                                             \
    COUNT32(f8_weight_sensitive_ppm, 0, FSM_PPM, 0)                                                \
    COUNT32(f8_weight_interactive_ppm, 0, FSM_PPM, 0)                                              \
    CHOICE(owner_rule, 1, 2, 1)                                                                    \
    DURATION(scale_cooldown, 0, FSM_DAY_MS, 300000)                                                \
    CHOICE(domain_rule, 1, 3, 1)                                                                   \
    COUNT32(node_gpus, 0, FSM_GPUS_PER_NODE_MAX, 1)                                                \
    CHOICE(orphan_rule, 1, 2, 1)                                                                   \
    DURATION(orphan_remove_age, FSM_SECOND_MS, FSM_YEAR_MS, 5184000000)                            \
    DURATION(restart_wait, FSM_SECOND_MS, FSM_DAY_MS, 600000)                                      \
    DURATION(hang_after, FSM_SECOND_MS, FSM_DAY_MS, 300000)                                        \
    CHOICE(transparent, 1, 2, 1)                                                                   \
    DURATION(drill_max_age, FSM_SECOND_MS, FSM_YEAR_MS, 2592000000)                                \
    COUNT32(drill_window_from_minute, 1, FSM_DAY_MINUTES, 1440)                                    \
    COUNT32(drill_window_minutes, 1, FSM_DAY_MINUTES, 1440)
/* clang-format on */

/* The first must not be above the second. The merged policy is checked: two fields may be right
 * alone and wrong together. */
#define FSM_POLICY_ORDERED(X)                                                                      \
    X(min_interval_ms, max_interval_ms)                                                            \
    X(sensitive_min_interval_ms, sensitive_max_interval_ms)                                        \
    X(node_degraded_after_ms, node_down_after_ms)

#endif
