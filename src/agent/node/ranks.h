/* The ranks of a job: the processes that save a part of the state of their own, their numbers, and
 * whether they survive the signal that asks for a checkpoint.
 *
 * A launcher gives each rank its number by the environment:
 *
 *     CKPT_RANK (a script of the user)    OMPI_COMM_WORLD_RANK    PMIX_RANK    PMI_RANK
 *     MV2_COMM_WORLD_RANK                 RANK with WORLD_SIZE    SLURM_PROCID with SLURM_STEP_ID
 *
 *   One launcher counts: the one that told the most different numbers, and of several the first
 *       above. A torchrun under srun has a number of srun, its ranks have theirs.
 *   Inherited from outside: a number that the job's main process holds in the same step is
 *       nobody's (sbatch gives its script one), unless the launcher started that process as one of
 *       several, which shows by another number in a process that does not descend from it.
 *   Inherited inside: wrapper scripts above a rank and data loaders below hold its number. The rank
 *       is the topmost that catches the signal; when none does, the topmost.
 *   Launchers have no number and are ancestors of a rank; before there is any they are known by
 *       name. They are never signalled: mpirun passes signals on to its ranks.
 *
 * Without a number, who hears the signal is found by the same rule: whoever catches it, and has no
 * living ancestor in the job that catches it too. A process that was forked from one that catches
 * has its handler and a copy of its state, which is no state of the job. One whose parent has ended
 * is known by its memory, which lies where that of its origin lies until it executes a program.
 * Where both have lost their parents to the same new one, neither is the other's origin.
 *
 * A user may say that the process that ckpt-run started saves for all (`asks_started`): then that
 * one alone is asked, whatever it has started and however that is numbered.
 *
 * Flow     ranks_find() is pure, over a settled table. ranks_start() takes the picture off the
 *          loop, from the known processes of the node, and takes it anew when it shows less than a
 *          job that can be asked.
 * Shapes   ranks by number, then launchers. At most RANKS_NODE_MAX ranks on a node, or as many that
 *          hear the signal without one.
 * Errors   `why`, with the ranks that were found: the picture is not whole, or there are too many.
 * Absent   registered ranks: who calls lays them over by number. Numbers that a program has set for
 *          itself by setenv(): /proc shows what exec() was given.
 */
#ifndef CKPT_AGENT_RANKS_H
#define CKPT_AGENT_RANKS_H

#include <uv.h>

#include "src/agent/node/job_processes.h"

enum { RANKS_NODE_MAX = 256, RANKS_LAUNCHERS_MAX = 32, RANK_NONE = -1, RANKS_WHY_BYTES = 160 };

/* A rank, or a launcher. */
struct rank_seen {
    uint32_t number;      /* of the whole job, as the launcher told it; 0 of a launcher */
    int32_t local;        /* on this node; RANK_NONE: not told */
    uint32_t local_count; /* of ranks on this node; 0: not told */
    uint32_t all_count;   /* of ranks on all nodes; 0: not told */
    pid_t pid;
    uint64_t start_ticks;
    pid_t twin; /* has the same number with the same right to it; 0: none */
    bool catches_usr1;
    bool catches_usr2;
    bool catches_asked; /* the signal that they were looked at with */
    bool launcher;
    bool registered; /* it said so itself; not found here... */
    bool barrier;    /* ... and that it meets the others at a step */
    char name[64];
};

struct ranks_seen {
    struct rank_seen items[RANKS_NODE_MAX + RANKS_LAUNCHERS_MAX];
    size_t count;
    char why[RANKS_WHY_BYTES]; /* "": all of it was seen */
    char main_name[64];        /* program of the main process; "": it is gone, or not the job's */
    /* Where there are no ranks: who hears the signal, or all of the main process's group. */
    bool asks_group;
    enum proc_catches catches;  /* the effect of the signal on them */
    struct proc_catching group; /* asks_group: who would die */
    size_t hearer_count;
    struct process_id hearers[RANKS_NODE_MAX];
};

/* `signal` is the one that would ask; 0: none, then any process can be the rank. */
void ranks_find(const struct job_processes *table, const struct job_identity *job, int signal,
                struct ranks_seen *ret_seen);

/* It is no launcher, though it has the name of one: its parent is the one rank. */
bool ranks_serves_one(const struct job_process *process);

/* The result is valid during the call. */
typedef void ranks_done_fn(void *data, const struct ranks_seen *seen);
struct ranks_look;
struct ranks_look *ranks_start(uv_loop_t *loop, const struct job_identity *job, int signal,
                               ranks_done_fn *done, void *data);
void ranks_detach(struct ranks_look *look); /* NULL allowed; done() does not come */

#endif
