/* Deadlines: a binary heap whose items know their place, so that one can be moved or taken out in
 * O(log n). Shapes: one timer per allocation, checkpoint and preemption, inside them. The order
 * (instant, kind, key) is total: two members fire alike. */
#ifndef CKPT_FSM_TIMERS_H
#define CKPT_FSM_TIMERS_H

#include <stddef.h>
#include <stdint.h>

enum timer_kind { TIMER_CHECKPOINT = 1, TIMER_ALLOCATION = 2, TIMER_PREEMPTION = 3 };

struct timer {
    uint64_t at_ms;
    uint64_t key;      /* checkpoint id, allocation slot or preemption id */
    uint32_t position; /* 1 + place in the heap; 0: not armed */
    uint32_t kind;
};

struct timers {
    struct timer **heap;
    uint32_t count;
    uint32_t capacity;
};

void fsm_timer_set(struct timers *timers, struct timer *timer, uint64_t at_ms); /* 0: disarm */
struct timer *fsm_timer_first(const struct timers *timers);                     /* NULL: none */
void fsm_timers_free(struct timers *timers);

#endif
