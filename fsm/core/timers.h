/* Deadlines: a binary heap whose items know their place, so that one can be moved or taken out in
 * O(log n).
 *
 * Flow     a function that changes the facts behind a deadline arms the timer anew at once. A Tick
 *          takes the first timers that are due (apply_cluster.c). Nothing fires by itself.
 * Shapes   one timer per allocation, checkpoint, preemption, target, verification and node,
 *          inside them, one of the drill under way and one of a pause; it is disarmed before its
 *          record leaves. The order (instant, kind, key) is total: two members fire alike, whatever
 *          the history of their heaps.
 * Units    milliseconds of the state's clock.
 */
#ifndef CKPT_FSM_TIMERS_H
#define CKPT_FSM_TIMERS_H

#include <stddef.h>
#include <stdint.h>

enum timer_kind {
    TIMER_CHECKPOINT = 1,
    TIMER_ALLOCATION = 2,
    TIMER_PREEMPTION = 3,
    TIMER_TARGET = 4,
    TIMER_VERIFICATION = 5,
    TIMER_NODE = 6,
    TIMER_DRILL = 7,
    TIMER_PAUSE = 8
};

/* kind and key are set once, when the record is made; the rest is fsm_timer_set()'s. */
struct timer {
    uint64_t at_ms;
    uint64_t key;      /* checkpoint id, slot or preemption id */
    uint32_t position; /* 1 + place in the heap; 0: not armed */
    uint32_t kind;
};

struct timers {
    struct timer **heap;
    uint32_t count;
    uint32_t capacity;
};

/* Arms, moves or disarms. An instant that has passed is allowed: it is due at the next Tick. */
void fsm_timer_set(struct timers *timers, struct timer *timer, uint64_t at_ms); /* 0: disarm */
/* The earliest; NULL: none is armed. It stays armed: its handler sets it anew. */
struct timer *fsm_timer_first(const struct timers *timers);
/* The timers themselves lie in their records and are not touched. */
void fsm_timers_free(struct timers *timers);

#endif
