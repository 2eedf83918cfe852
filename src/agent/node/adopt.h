/* What runs on this node although the journal is new: its folder was lost, the applications were
 * not.
 *
 * Flow     once, before anything else, and only with an empty journal, or where the start before
 *          has found pretenders: the main processes of groups in /proc whose environment says that
 *          they were started through this agent's socket. Those in a control group that the agent
 *          made for that run become entries, as if the journal had known them. Their ckpt-runs
 *          attach again; without them their applications are ended by orders and walltimes all the
 *          same. All of them are written at once: killed before, the next start finds them again.
 *          Of the others nothing but their environment tells, which anybody may write: they are
 *          pretenders (job/pretenders.h).
 * Shapes   one per allocation, the oldest: what an application starts inherits its environment. Of
 *          pretenders, the oldest of each allocation, run and user. A work folder that is gone or
 *          another user's does not matter: without one that is its user's, checkpoints fail.
 * Errors   a process whose environment cannot be read is not found: an agent that is not root sees
 *          its own user's only.
 * Absent   attempts, reports and the fence: those are lost.
 * Source   I30, F-025.
 */
#ifndef CKPT_AGENT_ADOPT_H
#define CKPT_AGENT_ADOPT_H

#include "src/agent/durable/ledger.h"
#include "src/agent/node/machine.h"

enum { PRETENDERS_MAX = 1024 };

/* A process that says that it is a job's. */
struct pretender {
    struct list node;
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    uint64_t run;
    pid_t pid; /* its group's, too */
    uint64_t start_ticks;
    uid_t uid;
    uint64_t kill_at_us; /* it is being ended; 0: it is not */
};

/* The agent whose applications they are. */
struct adopt_for {
    const char *node_id;
    const char *socket;
    bool again; /* pretenders were found before: also with a journal, which tells what is none */
};

/* Adds to `ret_pretenders`, whose items the caller frees. -1: the journal cannot be written. */
int adopt_running(const struct machine_ops *machine, const struct adopt_for *whose,
                  struct ledger *ledger, struct list *ret_pretenders, struct err *err);

#endif
