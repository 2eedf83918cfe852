/* Checkpoints of a job that runs under ckpt-run.
 *
 *     struct ckpt *ckpt = ckpt_open(NULL);   // NULL: not under ckpt-run; all calls accept it
 *     for (step = ckpt_restored_step(ckpt) + 1; step <= last; step++) {   // 1: from scratch
 *         if (ckpt_barrier(ckpt, step) == CKPT_NOW) {   // at the same step in all ranks of the job
 *             ok = save(ckpt_directory(ckpt), step - 1, &bytes);   // the state after that step
 *             if (!ok || (ckpt_done(ckpt, step - 1, bytes) != 0 && errno != ESTALE))
 *                 ckpt_failed(ckpt, "cannot write my part");   // and compute on: see Failures
 *         }
 *         compute(step);
 *     }
 *     ckpt_close(ckpt);
 *
 * Build       cc prog.c $(pkg-config --cflags --libs ckptapp); it needs libc alone.
 *
 * Choosing    ckpt_barrier() where all ranks count the same steps. The library makes no collective,
 *             and no rank waits: each goes on computing until the step that the cluster has agreed
 *             on. ckpt_poll() where a rank can save at any moment. Each rank then saves its present
 *             state, and the checkpoint is complete only when the labels of all ranks are equal.
 *             Each of several ranks names one, so that states of different steps are no checkpoint.
 *             A rank chooses by its first call of either. A rank that
 *             has called neither yet is not asked, but the others wait for it from its ckpt_open()
 *             on: open early, before long loading. After a rank's first ckpt_barrier() its
 *             ckpt_poll() never says CKPT_NOW.
 *
 * Ranks       number and count come from the launcher (OpenMPI, MPICH, MVAPICH, PMIx, torchrun,
 *             Slurm), or from the options of ckpt_open(). A program without a launcher is rank 0 of
 *             1.
 *
 * Saving      CKPT_NOW comes once for each wanted checkpoint. The rank answers with exactly one of
 *             ckpt_done(), ckpt_done_label(), ckpt_failed() and ckpt_defer(). It says done after
 *             the last communication that the saving needs: a job that is to be stopped is frozen
 *             as soon as all ranks of a node are done. Another thread may save while the program
 *             computes on; the saved state must be that of the label.
 *
 * Label       the last step of which the work is in the saved state: at the beginning of step 8
 *             that is 7. A job that begins again goes on with the step behind it.
 *
 * Failures    a save that fails ends no program: the disk is full, a file cannot be written. The
 *             rank calls ckpt_failed() and computes on. The attempt fails with the rank's number
 *             and the text, which the job's output shows, and the cluster asks again. ckpt_failed()
 *             ends the saving in any case. Where even the few bytes of the text cannot be written
 *             it returns -1, and the attempt ends when its time is over.
 *
 * Withdrawn   a checkpoint may be withdrawn at any time (cancelled, timed out, another rank
 *             failed). Before the saving, CKPT_NOW then does not come. During the saving,
 *             ckpt_progress(), ckpt_saved_at() and the call that ends the saving return ESTALE, and
 *             ckpt_deadline_ms() is 0. The program then computes on and writes nothing more. The
 *             folder is removed meanwhile, even while the program writes into it. A write that
 *             fails there is no reason to end: the program calls ckpt_failed(), and ckpt_failed()
 *             says ESTALE.
 *
 * Hangs       ckpt_barrier() tells the agent its step, once a second at most. When no rank of the
 *             job steps any more, for far longer than its steps take, the cluster says so, with the
 *             ranks that are behind and what their processes wait for. A program that calls
 *             ckpt_poll() says its steps by ckpt_step().
 *
 * Threads     any thread may call. Calls on one handle take turns of some microseconds, and wait
 *             for nothing else. One thread calls ckpt_open() before all other calls on the handle
 *             and ckpt_close() after them.
 *
 * Signals     [signal] marks async-signal-safe calls: no locks of libc, no allocation, errno stays
 *             when the call succeeds. A handler that interrupts a call of its own thread on this
 *             handle gets CKPT_GO_ON, or -1 and EAGAIN: set a flag and call later. A handler
 *             restores errno for the code that it interrupted, as any handler does. The library
 *             installs no handler and sends no signal.
 *
 * Blocking    no call waits for another rank or for the agent. While the agent is away (it is being
 *             exchanged), no checkpoint is asked for; ckpt_poll() and ckpt_barrier() look for the
 *             agent once a second. ckpt_done() and ckpt_failed() work without the agent: they write
 *             a file in the work folder.
 *
 * fork, exec  the child's handle is dead: its calls do nothing, and the child can only ckpt_close()
 *             it. exec closes it.
 *
 * Errors      -1 and errno; ckpt_error() has one line. It also has one when the agent refused this
 *             rank or speaks another version, and so never asks. Beside the errors of system calls:
 *             EINVAL a wrong argument, or no saving is under way; ESTALE withdrawn; EAGAIN see
 *             Signals; ECHILD the handle belongs to another process.
 */
#ifndef CKPTAPP_H
#define CKPTAPP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CKPTAPP_VERSION 1

struct ckpt;

/* A field that stays as in CKPT_OPTIONS is read from the launcher. */
struct ckpt_options {
    uint32_t size;        /* sizeof(struct ckpt_options) */
    int64_t rank;         /* of this process in the whole job, from 0; -1: the launcher's */
    int64_t local_rank;   /* among the ranks of this node; -1: the launcher's */
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
    CKPT_LATER = 2, /* a checkpoint is wanted at a later step: compute on */
};

/* Reads the environment, and tells the agent that this rank is coming. When the agent is away, the
 * first poll or barrier looks for it. NULL and errno 0: not under ckpt-run. NULL and errno: EINVAL
 * impossible options or environment, ENAMETOOLONG, ENOMEM. */
struct ckpt *ckpt_open(const struct ckpt_options *options);
/* Gives a saving under way up, without telling the agent. NULL: does nothing. */
void ckpt_close(struct ckpt *ckpt);

/* [signal] CKPT_NOW: save now. It costs about as much as a recv() that finds nothing. Never
 * fails. */
int ckpt_poll(struct ckpt *ckpt);
/* Call it at the beginning of each step, with steps that rise and are the same for all ranks (every
 * tenth step is enough). CKPT_NOW comes at the first step that is not below the agreed one. A rank
 * that has gone past the agreed step tells the agent, and the cluster asks for a later step. Never
 * fails. */
int ckpt_barrier(struct ckpt *ckpt, uint64_t step);
/* [signal] This rank is at that step: beside ckpt_poll(), for a program without ckpt_barrier(). It
 * costs some nanoseconds at any rate; the agent hears one call a second at most. Never fails. */
void ckpt_step(struct ckpt *ckpt, uint64_t step);

/* [signal] A checkpoint is welcome now, as at the end of an epoch. The cluster asks for it as for
 * any other one: CKPT_NOW comes at a later poll or barrier. All ranks may call it, at the same
 * step; one checkpoint comes of it, and within 10 s of another request none. -1 and ENOTCONN: the
 * agent is away, or no poll or barrier was called yet; ENOTSUP: the agent is an older one. Both do
 * no harm. A refusal of the cluster stands in the job's output. */
int ckpt_request(struct ckpt *ckpt);

/* After CKPT_NOW and until the saving ends: an empty folder of this rank alone. Else NULL.
 * It may hold regular files, folders, and symbolic links with relative texts that stay within it
 * (last.ckpt -> step-100.ckpt): they come back as links. With a socket, a FIFO, another link or a
 * file called MANIFEST in it the checkpoint fails, and is not tried again with the same files. */
const char *ckpt_directory(const struct ckpt *ckpt);
/* ... and the attempt, as "1-42-1". */
const char *ckpt_hint(const struct ckpt *ckpt);
/* ... and its deadline in ms since the epoch (it grows when the agent extends it); 0: no saving is
 * wanted. */
uint64_t ckpt_deadline_ms(const struct ckpt *ckpt);

/* [signal] All files are written and closed (fsync is not needed); bytes: their sum. -1 and ESTALE:
 * the checkpoint was withdrawn. -1 and another errno, as ENOSPC: the saving has not ended, call
 * ckpt_failed() (its few bytes are reserved) or try again. The labels of all ranks must be equal.
 * The label is a step (see Label), or in the second function 1 to 64 of A-Z a-z 0-9 . _ : -. A
 * program of one rank may have none (NULL or ""). One of several ranks or parts gets -1 and EINVAL
 * for that: it says "unordered" where the states of all ranks fit together whenever each was
 * saved. */
int ckpt_done(struct ckpt *ckpt, uint64_t step, uint64_t bytes);
int ckpt_done_label(struct ckpt *ckpt, const char *label, uint64_t bytes);
/* [signal] Before ckpt_done(), by a program that hands over files of before it was asked, such as
 * its own last checkpoint: their state is of that instant, in ms since 1970. Losses and the cost
 * model count from then; of several ranks the oldest counts. It holds for this saving alone. -1 and
 * EINVAL: 0, or more than 2^63 - 1. */
int ckpt_saved_at(struct ckpt *ckpt, uint64_t at_ms);
/* [signal] The attempt fails as a whole, with this rank's number and the text (up to 200 bytes).
 * The saving has ended, unless errno is EAGAIN. */
int ckpt_failed(struct ckpt *ckpt, const char *text);
/* [signal] Instead of saving: all ranks of the job are asked again in ms milliseconds, 1 at least.
 * -1 and ERANGE: more than is allowed; -1 and ENOTCONN: the agent is away. The rank must save then.
 * A rank fails the attempt when it defers after another rank was done, or beside a rank that was
 * asked by a signal and cannot hear of the deferral. */
int ckpt_defer(struct ckpt *ckpt, uint64_t ms);
/* [signal] A sign of life, in parts of a million: it earns the one extension of the deadline. Call
 * it at any rate; the agent hears ten calls a second at most. */
int ckpt_progress(struct ckpt *ckpt, uint32_t ppm);

/* The place of this node among the job's nodes when this run began, and their count. The job may
 * shrink or move since. */
uint32_t ckpt_part(const struct ckpt *ckpt);
uint32_t ckpt_parts(const struct ckpt *ckpt);
/* This process's number; -1: not under ckpt-run. */
int64_t ckpt_rank(const struct ckpt *ckpt);

/* The checkpoint to begin from; both NULL: from scratch. The folder holds the files of all ranks of
 * this part (`restore own`), or the files of each part in part-0000, part-0001 ... (`all`). With
 * `path` the folder is NULL, and the URI names the place of the parts, which all nodes read.
 * Without a handle, which is not under ckpt-run: what CKPT_RESTORE_DIR of the environment names
 * (the folder of `ckpt-run get`). ckpt_open() says so in one line on standard error. */
const char *ckpt_restore_directory(const struct ckpt *ckpt);
const char *ckpt_restore_uri(const struct ckpt *ckpt);
/* The count of its parts, and its label (the step); 0 and NULL: none. */
uint32_t ckpt_restore_parts(const struct ckpt *ckpt);
const char *ckpt_restore_label(const struct ckpt *ckpt);
/* The label as a number; 0: from scratch, or a label that is none. */
uint64_t ckpt_restored_step(const struct ckpt *ckpt);
/* The ranks of which files are to be restored here, one after the other: the lowest above `rank`
 * (-1: the first one), with its folder. These are the ranks of this part, or those of all parts
 * (`all` and `path`). -1 and ENOENT: there is no further one. Else -1 and errno: ENOTSUP, the URI
 * is no file:///; ERANGE, the folder's name needs more than size bytes.
 *
 *     for (rank = -1; (rank = ckpt_restored_next(ckpt, rank, folder, sizeof(folder))) >= 0;)
 *         load(rank, folder);
 */
int64_t ckpt_restored_next(const struct ckpt *ckpt, int64_t rank, char *folder, size_t size);

/* The last error, one line; "": none. */
const char *ckpt_error(const struct ckpt *ckpt);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
