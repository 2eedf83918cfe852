/* Telling a program by a signal that it is to save.
 *
 * Flow     tell_whom() from the option; tell_by_signal() until it says TELL_DONE or why never.
 * Shapes   it goes to the program, to its process group, or to each process below it that catches
 *          the signal while none above it does. Or it goes to one rank, as its launcher numbers it,
 *          or to the shell that started ckpt-run. Only processes of the same user get it.
 * Errors   nobody who would get it catches it: to most programs it would be the end.
 * Source   S4-003, S1-031.
 */
#ifndef CKPT_AGENT_RUN_TELL_H
#define CKPT_AGENT_RUN_TELL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

enum tell_whom { TELL_STARTED, TELL_GROUP, TELL_EACH, TELL_RANK, TELL_SHELL };

struct tell {
    int signal; /* 0: none */
    enum tell_whom whom;
    uint32_t rank; /* of TELL_RANK */
};

/* "started", "group", "each", "rank=N" or "shell". -1: it is none of these. */
int tell_whom_parse(const char *text, struct tell *tell);
/* The word of tell_whom_parse(), for people. */
enum { TELL_WHOM_BYTES = 24 };
const char *tell_whom_name(const struct tell *tell, char text[TELL_WHOM_BYTES]);
/* -1: nobody has got it, and err says why; a program that has just begun may catch it later. */
int tell_by_signal(const struct tell *tell, pid_t program, struct err *err);

#endif
