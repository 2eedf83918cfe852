/* The lines by which ckpt-run tells of a start of its application. */
#ifndef CKPT_AGENT_RUN_STARTED_H
#define CKPT_AGENT_RUN_STARTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/v1/app.pb-c.h"

struct run_started {
    pid_t pid;
    bool wants_restore;
    struct {
        uint64_t started_at_ms; /* wall clock; 0: none has begun */
        uint64_t ended_at_ms;   /* 0: none has */
        uint64_t began_from;    /* a checkpoint; 0: from scratch */
    } last;                     /* run before this one, of this ckpt-run */
};

/* From which checkpoint, and how much work was lost. */
void run_say_started(const Ckpt__V1__AttachReady *ready, const struct run_started *started);
/* It is started again in place, and how it ended, where it was not by a signal, which was told.
 * Nothing is said of one of several parts: all begin again, or none,
 * as the cluster says. */
void run_say_restart(uint32_t number, uint32_t most, int wait_status);
uint64_t run_wall_ms(void);

#endif
