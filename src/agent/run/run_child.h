/* Starts the application in a process group of its own, held at a gate until the agent knows it.
 *
 * Flow     run_child_find() once; run_child_start() makes its keeper (run_keeper.h) and by that the
 *          process, held; run_child_release()
 *          lets it become the command. A held process whose ckpt-run ends first ends itself: no
 *          application runs that the agent has not written down.
 * Errors   errno values: of fork or pipe, of looking for the command, of execve.
 */
#ifndef CKPT_AGENT_RUN_CHILD_H
#define CKPT_AGENT_RUN_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/run/run_keeper.h"
#include "src/base/start.h"

struct run_environment {
    const char *allocation_id;
    const char *node_id;
    const char *work_dir;
    const char *restore_dir;   /* "": from scratch */
    const char *run;           /* src/base/id.h */
    const char *socket;        /* of the agent; proc_socket_name() */
    const char *app_socket;    /* of the agent, for the ranks; "": none */
    bool app_requests;         /* ranks may ask there by themselves */
    const char *shm;           /* memory in which it is asked; "" or NULL: otherwise */
    const char *restore_uri;   /* restore path: where the checkpoint lies; "": not so */
    const char *restore_label; /* of the checkpoint; "": none */
    uint64_t restored_id;      /* 0: none */
    bool begins_without;       /* restored_id 0: one was wanted */
    uint32_t restore_parts;    /* of which the checkpoint consists; 0: not known */
    uint32_t restart_count;
    uint32_t part, parts; /* parts 0: not known */
    /* of whoever started ckpt-run; those by which it is asked and ended reach it all the same */
    const struct start_signals *signals;
};

/* The words of the agent for this start; the texts stay the message's. shm: as it was made. */
void run_environment_take(struct run_environment *environment, const Ckpt__V1__AttachReady *ready,
                          const char *shm);

struct run_child {
    pid_t pid;      /* a process group of its own from the start */
    int gate_fd;    /* -1 once it is released */
    int failure_fd; /* tells what execve said */
    pid_t keeper;   /* its parent; 0: it is no child of this program */
    int keeper_fd;  /* -1: the keeper has gone */
};

/* 0 when the command can probably be run, as execvp would look for it. */
int run_child_find(const char *command);
/* command: as it is started, which may be another one than its line's. */
int run_child_start(const struct keeper_start *start, const struct run_environment *environment,
                    char *const *command, struct run_child *ret_child);
/* 0 also when it ended before; else errno of what failed, and the child exits with 126 or 127.
 * Once. */
int run_child_release(struct run_child *child);
/* Ends one that is still held. */
void run_child_drop(struct run_child *child);
void run_child_tell(const struct run_child *child, enum keeper_word word);
/* Its end is known: the keeper leaves. */
void run_child_done(struct run_child *child);

#endif
