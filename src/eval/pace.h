/* Chooses the jobs that get the target's bandwidth now, among those that are worth a checkpoint.
 *
 * Flow     candidates of one target with their index -> eval_pace() orders them, admits from the
 *          front, and gives the price of a byte (the shadow price) and the wave of each other one.
 *          The same order holds after an outage.
 * Shapes   the caller's array is sorted in place; the admitted are its first elements.
 * Units    index in GPU-seconds per byte; bytes; bytes per second.
 * Errors   an index that is NaN counts as 0. Candidates with impossible sizes or rates are never
 *          admitted, and block nobody.
 * Absent   skipping: a small job behind a large one that must wait waits too, so that large ones do
 *          not starve.
 * Source   the multiplier of shared bandwidth in the Karush-Kuhn-Tucker conditions is the price of
 *          a byte: admit in falling order of (value - compute_waste - storage_cost) / size. Per
 *          second of the job's own write instead of per byte is worse.
 */
#ifndef CKPT_EVAL_PACE_H
#define CKPT_EVAL_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Admission stops when the running writers' own limits add up to more than this part of the
 * budget. */
#define EVAL_PACE_FULL 0.75

/* A job that is worth a checkpoint now. */
struct eval_candidate {
    uint32_t job;
    bool deadline; /* it would be too late afterwards: it passes the limit, in any order */
    double index;
    double size_bytes;
    double injection_bytes_per_s;
    /* written by eval_pace() */
    bool admitted;
    /* 0: admitted now; else the count of fills of the limit before its turn; UINT32_MAX: never */
    uint32_t wave;
};

/* The target's bandwidth at this moment. */
struct eval_window {
    double budget_bytes_per_s;  /* for checkpoints; 0: outage */
    double running_bytes_per_s; /* injection limits of present writers */
};

/* (value - compute_waste - storage_cost) / size. */
double eval_pace_index(double value_gpu_s, double compute_waste_gpu_s, double storage_gpu_s,
                       double size_bytes);
/* Returns how many were admitted. *ret_phi: index of the last one admitted while others wait, else
 * 0. */
size_t eval_pace(struct eval_window *window, struct eval_candidate *candidates, size_t count,
                 double *ret_phi);

#endif
