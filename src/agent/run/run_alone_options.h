/* The options of a job without a cluster: ckpt-run --standalone.
 *
 * Flow     run_alone_take() for each of them; run_alone_check() once the line is read.
 * Errors   ERR_INVALID: one that is missing, or another one that names a cluster's job.
 */
#ifndef CKPT_AGENT_RUN_ALONE_OPTIONS_H
#define CKPT_AGENT_RUN_ALONE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"

struct run_options;

struct run_alone {
    bool wanted;
    const char *folder; /* as --dir says; NULL: it was not said */
    uint64_t every_ms;  /* 0: it was not said */
    uint32_t keep;      /* 0: it was not said */
};

enum { RUN_ALONE_KEEP = 3, RUN_ALONE_EVERY_MIN_MS = 1000 };

/* Letters of run_options.c. */
enum { RUN_ALONE = 'N', RUN_ALONE_EVERY = 'e', RUN_ALONE_DIR = 'd', RUN_ALONE_KEPT = 'y' };

/* -1 without a text: the letter is none of these. */
int run_alone_take(int option, const char *value, struct run_alone *alone, struct err *err);
/* Fills what was left out. */
int run_alone_check(struct run_options *options, struct err *err);

#endif
