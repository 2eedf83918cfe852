/* Which of a cycle's decisions are proposed: as many as the targets can take before the next ones,
 * the best first.
 *
 * Flow     admission_begin() with what each target has room for; admission_add() for each job that
 *          fires: whichever is not among the best (any more) is told to left_out() at once;
 *          admission_close(), then admission_next() gives those that stayed, best first.
 * Shapes   of each target a heap whose root is the worst; ADMISSION_MAX in all, so that a cycle
 *          writes a bounded log however many jobs fire at once. What is left out goes on computing
 *          and is weighed again in the next cycle.
 * Wait     what is written in a cycle makes room in the next: a better job waits for one only where
 *          less is written than two cycles could take and ADMISSION_WAITING_MIN wait already. There
 *          a few are admitted all the same when they are clearly better than all that wait: they
 *          are granted first, and the next cycle counts them among those that wait.
 * Units    gain in GPU-seconds per byte, bytes.
 * Absent   deadlines: what would be too late afterwards is proposed past this.
 * Source   src/eval/README.md (pacing); rows D-001, D-002.
 */
#ifndef CKPT_BROKER_ADMISSION_H
#define CKPT_BROKER_ADMISSION_H

#include "fsm/fsm.h"

enum {
    ADMISSION_MAX = 65536,        /* of a cycle: 32 MB of log */
    ADMISSION_WAITING_MIN = 1024, /* so many may wait for a target however slow it is */
    ADMISSION_BETTER_MAX = 64     /* a cycle and target: clearly better than what waits */
};

/* A job whose row says that a checkpoint is worth it. */
struct admission_candidate {
    double gain_gpu_s_per_byte; /* decision_gain() */
    double size_bytes;          /* that its checkpoint is expected to have */
    uint64_t registered_index;  /* whose slot it is */
    uint32_t slot;              /* of the allocation */
    uint32_t target;            /* slot of its storage target */
    uint8_t verdict;            /* enum eval_verdict */
};

#define ADMISSION_CLEARLY 1.25 /* times the best gain of those that wait */

/* A candidate is admitted while the better ones together leave room in bytes, or are fewer than
 * `count`, or while it gains more than `clear_gain_gpu_s_per_byte` and they are fewer than
 * ADMISSION_BETTER_MAX. */
struct admission_room {
    double bytes;
    uint64_t count;
    double clear_gain_gpu_s_per_byte;
};

/* What the available targets can write in window_ms, less what writes and waits already. */
void admission_rooms(const struct fsm *fsm, const struct fsm_grantable_scan *waiting,
                     uint64_t now_ms, uint64_t window_ms,
                     struct admission_room ret_rooms[FSM_TARGETS_MAX]);

struct admission;
typedef void admission_left_out(void *context, const struct admission_candidate *candidate);

struct admission *admission_new(admission_left_out *left_out, void *context);
void admission_free(struct admission *admission); /* NULL allowed */
void admission_begin(struct admission *admission,
                     const struct admission_room rooms[FSM_TARGETS_MAX]);
void admission_add(struct admission *admission, const struct admission_candidate *candidate);
void admission_close(struct admission *admission);
/* NULL: no more. Valid until the next admission_begin(). */
const struct admission_candidate *admission_next(struct admission *admission);

/* The least gain that was admitted to a target; false: it took all, or nothing. Of the last cycle
 * that was closed. */
bool admission_line(const struct admission *admission, uint32_t target, double *ret_gain);

#endif
