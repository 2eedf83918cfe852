/* The parts of a running job that lie outside of any checkpoint, or hinder one: open sockets and
 * pipes, devices, files that were removed, handlers, linking, the machine itself.
 *
 * Flow     conditions_look() for each process of the job; conditions_print() afterwards.
 * Shapes   counts of one process; caller's storage.
 * Errors   a process that has ended, or may not be read, has no line.
 * Absent   judgement: a program that saves its state itself opens its sockets again. The lines say
 *          what it must do so with.
 * Source   S3-066.
 */
#ifndef CKPT_AGENT_RUN_CONDITIONS_H
#define CKPT_AGENT_RUN_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct conditions {
    pid_t pid;
    char name[64];
    unsigned sockets, pipes, devices, removed; /* open, but for the standard streams */
    bool standard_pipe;                        /* a standard stream is one */
    bool is_static;                            /* no loader: nothing can be put before its calls */
    uint64_t threads;
    uint64_t caught; /* bit n - 1 is signal n */
};

/* The target of a link of /proc/PID/fd; standard: of descriptor 0, 1 or 2. */
void conditions_add_open(struct conditions *conditions, const char *target, bool standard);
/* False: there is no such process. */
bool conditions_look(pid_t pid, struct conditions *ret_conditions);
void conditions_print(FILE *to, const struct conditions *conditions);
/* Of which machines what is saved here can go on. */
void conditions_print_machine(FILE *to);

#endif
