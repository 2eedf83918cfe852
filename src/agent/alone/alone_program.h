/* The note of the program that a job without a cluster has started last: {folder}/.ckpt-run.program
 *
 * Flow     alone_program_look() at the start of each ckpt-run, which holds the folder's lock; then
 *          alone_program_reserve(); alone_program_write() before each program is released;
 *          alone_program_clear() when that has ended.
 * Shapes   a program may outlive its ckpt-run, and another one beside it would spoil the work of
 *          both. So the note has its room on the disk before anything is started, and is written in
 *          place: a disk that has become full since takes it all the same. A note that was torn is
 *          one of a program that was never released.
 *          A number of another PID namespace says nothing here. The program's keeper holds a lock
 *          of the note as long as it lives: a free one says that the program has ended, or that
 *          its container has.
 * Units    start_ticks as in proc.h.
 * Errors   ERR_IO names the note, its length and the next step.
 */
#ifndef CKPT_AGENT_ALONE_PROGRAM_H
#define CKPT_AGENT_ALONE_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

#define ALONE_PROGRAM ".ckpt-run.program"

/* The process, and the work folder in which its ckpt-run finds it again. */
struct alone_program {
    pid_t pid;
    uint64_t start_ticks;
    char work_dir[PATH_MAX];
};

/* Room for any program of this work folder. It may wait for the file system. */
int alone_program_reserve(const char *folder, const char *work_dir, struct err *err);
/* Durable when it returns 0. It may wait for the file system. */
int alone_program_write(const char *folder, const struct alone_program *program, struct err *err);

/* In the program's keeper, before it is released: the descriptor that holds the lock; -1: the file
 * system knows none, and whoever looks from another PID namespace takes the program for living. */
int alone_program_hold(const char *folder);

enum alone_program_state {
    ALONE_PROGRAM_GONE, /* or of another machine, or there is no note */
    ALONE_PROGRAM_LIVES,
    ALONE_PROGRAM_UNSEEN /* of another PID namespace of this machine: it may live */
};
/* Of the caller who holds the folder's lock. ret_program is written unless it has gone. */
enum alone_program_state alone_program_look(const char *folder, struct alone_program *ret_program);
/* The program of the note has gone. One that has not, or that is not of here, stays noted. */
void alone_program_clear(const char *folder);

#endif
