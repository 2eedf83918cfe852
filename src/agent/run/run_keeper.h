/* The keeper: the parent of an application, which outlives ckpt-run, knows how the application
 * ended, and hands it to the next ckpt-run.
 *
 * Flow     run_child_start() makes it; it starts the application, tells its one ckpt-run of each
 *          stop, continuation and end, and leaves when that has said KEEPER_DONE. While it has
 *          none, any ckpt-run of the same user can ask at its socket in the work folder
 *          (run_keeper_call()): with the same line that becomes its ckpt-run. An application
 *          that ends meanwhile gets its end note (end_note.h) from the keeper. Whoever tells it to
 *          end says how long its grace is; then the keeper kills its group, and the agent the rest.
 * Shapes   one for each start of the application. It has no descriptors but its own, blocks all
 *          signals, and is in a process group of its own: what is meant for the job or for ckpt-run
 *          does not reach it. ckpt-run adopts the application when the keeper is killed.
 * Errors   run_keeper_call: -1, no keeper of this user is there.
 */
#ifndef CKPT_AGENT_RUN_KEEPER_H
#define CKPT_AGENT_RUN_KEEPER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/run/run_input_kind.h"
#include "src/base/id.h"

#define KEEPER_SOCKET_NAME "ckpt-run.keeper" /* in the work folder */
enum { KEEPER_COMMAND_BYTES = 16384 };

/* To its ckpt-run, one message each. */
enum keeper_news_kind {
    KEEPER_STARTED, /* value: pid; negative: errno of fork */
    KEEPER_CHANGED, /* value: wait status of one that was stopped or goes on */
    KEEPER_ENDED,   /* value: wait status */
    KEEPER_TOLD     /* `ckpt-run end` */
};
struct keeper_news {
    enum keeper_news_kind kind;
    int32_t value;
};

/* From its ckpt-run, a byte each. */
enum keeper_word {
    KEEPER_CONFIRM = 'c', /* the agent knows the application: its end can be taken and noted */
    KEEPER_TELL = 't',    /* it is told to end */
    KEEPER_NOTED = 'n',   /* its end is noted: it need not be a zombie any more */
    KEEPER_DONE = 'd'     /* no news are wanted any more */
};

/* A start as its keeper knows it. */
struct keeper_card {
    uint32_t pid;
    uint64_t start_ticks;
    uint64_t run;
    uint64_t started_at_ms;
    uint64_t began_from; /* a checkpoint; 0: from scratch */
    uint32_t restart_count;
};

/* Two starts with these are the same one. */
struct keeper_line {
    const char *allocation_id;
    char *const *command; /* with its arguments */
    const char *folder;   /* where it is started: names in the command begin there */
    struct input_mark input;
};

struct keeper_start {
    const char *work_dir;
    const char *held_folder; /* of a job without a cluster: alone_program_hold(); NULL: none */
    struct keeper_line line;
    struct keeper_card card; /* pid and start_ticks are filled in */
};

enum keeper_request { KEEPER_ATTACH, KEEPER_END };
enum keeper_answer {
    KEEPER_YES,
    KEEPER_OTHER,     /* of ATTACH: it keeps another command, or allocation */
    KEEPER_ATTENDED,  /* of ATTACH: it has a ckpt-run */
    KEEPER_ELSEWHERE, /* of ATTACH: it keeps the same command, started in another folder */
    KEEPER_UNSEEN     /* of ATTACH, never sent: it is in another PID namespace, and so is all that
                       * its numbers mean; nothing else of the reply is known */
};
/* Members are added at the end: a keeper may be of the release before its caller's, or after. */
struct keeper_reply {
    enum keeper_answer answer;
    struct keeper_card card;
    char allocation_id[ID_MAX_BYTES + 1];
    char command[200]; /* for people */
    char folder[200];  /* likewise; "": it does not tell */
    bool other_input;  /* of ATTACH: its application was started with another one */
};

struct keeper_call {
    enum keeper_request request;
    struct keeper_line line; /* of ATTACH */
    uint64_t grace_ms;       /* of END: SIGTERM to SIGKILL; 0: SIGKILL at once */
};

/* Of the keeper's process, which never returns. application: becomes it, never returns. */
__attribute__((noreturn)) void run_keeper_main(const struct keeper_start *start, int socket,
                                               void (*application)(void *data), void *data);
/* The folder of this process as the kernel names it, also when it has been removed. */
void run_keeper_folder(char ret_folder[PATH_MAX]);
/* A socket for the news, which KEEPER_END and answers other than YES close again (0). A keeper of
 * another PID namespace is not asked by ATTACH. */
int run_keeper_call(const char *work_dir, const struct keeper_call *call,
                    struct keeper_reply *ret_reply);

#endif
