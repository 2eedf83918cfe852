/* Checkpoints of a job that runs under ckpt-run.
 *
 *     struct ckpt *ckpt = ckpt_open(NULL);   // NULL: not under ckpt-run; all calls accept it
 *     for (step = restored_step() + 1; step <= last; step++) {
 *         if (ckpt_barrier(ckpt, step) == CKPT_NOW) {   // at the same step in all ranks of the job
 *             ok = save(ckpt_directory(ckpt), step, &bytes);
 *             ok ? ckpt_done(ckpt, step, bytes) : ckpt_failed(ckpt, "cannot write my part");
 *         }
 *         compute(step);
 *     }
 *     ckpt_close(ckpt);
 *
 * Build       cc prog.c $(pkg-config --cflags --libs ckptapp); it needs libc alone.
 *
 * Which one   ckpt_barrier() where all ranks count the same steps. No collective of the program is
 *             needed, none is made, and no rank waits: each goes on computing until the step that
 *             the cluster has agreed on. ckpt_poll() where a rank can save at any moment: each
 *             saves what it has, and the checkpoint is complete only when the labels of all are
 *             equal (none at all is a label too). The first of the two that is called says which of
 *             them a rank uses; a rank that has called neither yet is not asked, but waited for
 *             from ckpt_open() on: open early, before what takes long to load. One that has
 *             called ckpt_barrier() uses the barrier from then on, and ckpt_poll() never says
 *             CKPT_NOW to it.
 *
 * Ranks       number and count are the launcher's (OpenMPI, MPICH, MVAPICH, PMIx, torchrun, Slurm),
 *             or those given to ckpt_open(). A program without a launcher is rank 0 of 1.
 *
 * Saving      CKPT_NOW is said once for each time that a checkpoint is wanted. What follows is
 *             exactly one of ckpt_done(), ckpt_done_label(), ckpt_failed() and ckpt_defer(). Say
 *             done after the last communication that the saving needs: a job that is to be stopped
 *             is frozen as soon as all ranks of a node have said so. Another thread may save while
 *             the program computes on; the state that is saved must be that of the step.
 *
 * Withdrawn   what was asked for may be withdrawn at any time (cancelled, timed out, another rank
 *             failed). The program hears of it by CKPT_NOW not coming, or, when it saves already,
 *             by ESTALE from ckpt_progress() and from the call that ends the saving, and by
 *             ckpt_deadline_ms() being 0. It then computes on and writes nothing more. The folder
 *             is removed meanwhile, also under who writes into it: what fails there is told by
 *             ckpt_failed(), which says ESTALE then, and is no reason to end.
 *
 * Threads     any thread may call. Calls on one handle take turns; none of them waits for anything
 *             but such a turn, which is some microseconds long. ckpt_open() and ckpt_close() of one
 *             handle are one thread's, before and after all others.
 *
 * Signals     [signal]: async-signal-safe: no locks of libc, no allocation, errno is kept when it
 *             succeeds. A handler that interrupts a call of its own thread on this handle gets
 *             CKPT_GO_ON, or -1 and EAGAIN: set a flag and call later. As any handler does, it
 *             keeps errno for what it interrupted. The library installs no handler and sends no
 *             signal.
 *
 * Blocking    no call waits for another rank or for the agent. While the agent is away (it is being
 *             exchanged) nothing new is asked; ckpt_poll() and ckpt_barrier() look for it once a
 *             second. ckpt_done() and ckpt_failed() work without it: they write a file in the work
 *             folder.
 *
 * fork, exec  the child's handle is dead: its calls do nothing, and only ckpt_close() is of use
 *             there. exec closes it.
 *
 * Errors      -1 and errno; ckpt_error() has one line, and it has one also when the agent refused
 *             this rank, or speaks another version, so that nothing is ever asked. Beside those of
 *             the calls of the system: EINVAL an argument, or nothing is being saved; ESTALE
 *             withdrawn; EAGAIN see Signals; ECHILD the handle is another process's.
 */
#ifndef CKPTAPP_H
#define CKPTAPP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CKPTAPP_VERSION 1

struct ckpt;

/* What is not known stays as CKPT_OPTIONS says it: then it is the launcher's. */
struct ckpt_options {
    uint32_t size;        /* sizeof(struct ckpt_options) */
    int64_t rank;         /* of this process in the whole job, from 0; -1: the launcher's */
    int64_t local_rank;   /* among those of this node; -1: the launcher's */
    uint32_t ranks;       /* of the whole job; 0: the launcher's */
    uint32_t local_ranks; /* of this node; 0: the launcher's */
};
#define CKPT_OPTIONS                                                                               \
    {                                                                                              \
        sizeof(struct ckpt_options), -1, -1, 0, 0                                                  \
    }

enum {
    CKPT_GO_ON = 0, /* compute on */
    CKPT_NOW = 1,   /* save now */
    CKPT_LATER = 2, /* a checkpoint is wanted, at a later step: compute on */
};

/* Reads the environment, and tells the agent that this rank is coming; where that is away, the
 * first poll or barrier looks for it. NULL and errno 0: not
 * under ckpt-run. NULL and errno: EINVAL options or an environment that cannot be, ENAMETOOLONG,
 * ENOMEM. */
struct ckpt *ckpt_open(const struct ckpt_options *options);
/* Says nothing to anybody: what is being saved is given up. NULL: nothing happens. */
void ckpt_close(struct ckpt *ckpt);

/* [signal] CKPT_NOW: save now. Costs about what one recv() does that finds nothing. Never fails. */
int ckpt_poll(struct ckpt *ckpt);
/* To be called at each step's beginning, with steps that rise and that are the same for all ranks
 * (every tenth will do). CKPT_NOW at the first one that is not below the agreed one; a rank that
 * went past it says so to the agent, and the cluster asks for a later one. Never fails. */
int ckpt_barrier(struct ckpt *ckpt, uint64_t step);

/* After CKPT_NOW and until the saving ends: an empty folder of this rank alone. Else NULL. */
const char *ckpt_directory(const struct ckpt *ckpt);
/* ... and which attempt it is, as "1-42-1". */
const char *ckpt_hint(const struct ckpt *ckpt);
/* ... until when, in ms since the epoch (it grows when the agent extends it); 0: nothing is asked.
 * */
uint64_t ckpt_deadline_ms(const struct ckpt *ckpt);

/* [signal] All files are written and closed (fsync is not needed); bytes: of all of them together.
 * -1 and ESTALE: it was withdrawn. -1 and another errno, as ENOSPC: the saving has not ended, call
 * ckpt_failed() (its few bytes are reserved) or try again. The label of all ranks must be equal:
 * the step here, 1 to 64 of A-Z a-z 0-9 . _ : - in the second, NULL or "": none. */
int ckpt_done(struct ckpt *ckpt, uint64_t step, uint64_t bytes);
int ckpt_done_label(struct ckpt *ckpt, const char *label, uint64_t bytes);
/* [signal] The attempt fails as a whole, with this rank's number and the text (up to 200 bytes). */
int ckpt_failed(struct ckpt *ckpt, const char *text);
/* [signal] Instead of saving: all ranks of the job are asked again in ms milliseconds, 1 at least.
 * -1 and ERANGE: more than is allowed, ENOTCONN: the agent is away; the saving goes on, save then.
 * A rank that defers after another one was done, or beside one that was asked by a signal and does
 * not hear of it, fails the attempt. */
int ckpt_defer(struct ckpt *ckpt, uint64_t ms);
/* [signal] A sign of life in parts of a million: earns the one extension of the deadline. It may be
 * called at any rate; the agent hears ten a second at most. */
int ckpt_progress(struct ckpt *ckpt, uint32_t ppm);

/* The place of this node among those of the job when this run began; it may shrink or move since.
 * */
uint32_t ckpt_part(const struct ckpt *ckpt);
uint32_t ckpt_parts(const struct ckpt *ckpt);
/* This process's number; -1: not under ckpt-run. */
int64_t ckpt_rank(const struct ckpt *ckpt);

/* What to begin from: NULL: from scratch. The folder holds the files of all ranks of this part
 * (`restore own`), or those of each part in part-0000, part-0001 ... (`all`). With `path` it is
 * NULL, and the URI names the place where the parts lie, which all nodes read. */
const char *ckpt_restore_directory(const struct ckpt *ckpt);
const char *ckpt_restore_uri(const struct ckpt *ckpt);
/* Of how many parts it is, and the label (the step) that it was saved with; 0 and NULL: none. */
uint32_t ckpt_restore_parts(const struct ckpt *ckpt);
const char *ckpt_restore_label(const struct ckpt *ckpt);

/* What went wrong last, one line; "": nothing did. */
const char *ckpt_error(const struct ckpt *ckpt);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
