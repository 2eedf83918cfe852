/* The ranks of a job on this node, as its side of their streams: who is one, what they say, and
 * what they are told.
 *
 * Flow     a rank that dials says hello: ranks_registered(), and is taken when its process has been
 *          seen to be one of the job's; then what it says arrives by the other calls, ranks_gone()
 *          when its stream ends. The attempt asks all ranks at once: those with a stream by
 *          rank_stream_ops, the others as their job's profile says (src/ask).
 * Shapes   the table of calls is the agent's (agent.h) and constant; a stream belongs to who has it
 *          registered, and may be used until ranks_gone() or until it was closed.
 * Errors   what is refused is one line for people. A stream never is the truth: what counts are the
 *          done files, which are looked at whenever a stream says something.
 * Absent   sockets and lines (src/agent/app).
 */
#ifndef CKPT_AGENT_JOB_RANKS_H
#define CKPT_AGENT_JOB_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/job/ranks_step.h"
#include "src/ask/ask.h"

struct allocation;
struct rank_stream;

/* How it is to be asked. */
enum rank_way {
    RANK_PLAIN,   /* at any moment */
    RANK_BARRIER, /* it counts steps, and meets the others at one */
    RANK_OPENED   /* not yet: it has opened the library, and is not at its loop */
};

/* Of a rank that has come. UINT32_MAX: it does not know. */
struct rank_hello {
    uint32_t number; /* over all nodes */
    uint32_t local;  /* on this node */
    uint32_t ranks, local_ranks;
    enum rank_way way;
    pid_t pid; /* as the kernel says */
};

/* What ranks are told. */
struct rank_stream_ops {
    /* It is one. True: the stream is still there. */
    bool (*take)(struct rank_stream *stream);
    /* folder: below the work folder. */
    void (*ask)(struct rank_stream *stream, const struct ask_request *request, const char *folder);
    void (*step)(struct rank_stream *stream, const char *hint, uint64_t step);
    void (*withdrawn)(struct rank_stream *stream, const char *hint);
    /* The stream must not be used after either of these. */
    void (*close)(struct rank_stream *stream);
    void (*refuse)(struct rank_stream *stream, const char *text);
};

/* ---- who they are ---- */

/* Looks at the job's processes off the loop, and tells the attempt by ATTEMPT_LOOKED. True once,
 * when what was seen is fresh and the job can be asked, with its ranks (NULL: one is asked for all
 * of it). Else why not. */
bool ranks_see(struct allocation *allocation, const struct ranks_table **ret_table,
               char ret_why[JOB_DETAIL_BYTES]);
/* The job's first process is another program than when it was looked at, and no ranks were seen:
 * which, for people. A look takes its time, and so does asking what catches a signal. */
bool ranks_executed_since(const struct allocation *allocation, char ret_why[JOB_DETAIL_BYTES]);
/* Room for what each of the entry's ranks has answered. */
struct rank_fact *ranks_answers(struct allocation *allocation);
/* One of them has opened the library and says later how it is to be asked: which, for people. */
bool ranks_opening(struct allocation *allocation, char ret_why[JOB_DETAIL_BYTES]);
/* Nothing is looked for any more. */
void ranks_forget(struct allocation *allocation);

/* ---- what they say ---- */

/* NULL: its process is looked at, then it is taken or refused (rank_stream_ops). Else why it is not
 * taken. */
const char *ranks_registered(struct allocation *allocation, const struct rank_hello *hello,
                             struct rank_stream *stream);
/* Each is a step of its pace (pace.h), whatever the hint: "-" is that of no question. */
void ranks_at(struct allocation *allocation, uint32_t rank, const char *hint, uint64_t step,
              uint64_t ns_per_step);
void ranks_missed(struct allocation *allocation, uint32_t rank, const char *hint, uint64_t step);
void ranks_done(struct allocation *allocation, uint32_t rank, const char *hint);
void ranks_defer(struct allocation *allocation, uint32_t rank, const char *hint, uint64_t defer_ms);
void ranks_alive(struct allocation *allocation, uint32_t rank, const char *hint);
void ranks_gone(struct allocation *allocation, struct rank_stream *stream);

/* ---- what is told of them ---- */

struct rank_word {
    uint32_t number;
    uint32_t pid;      /* 0: nothing tells it from others of the job */
    const char *state; /* in words */
    uint64_t step;     /* that it told or saved last; 0: none */
};
/* By rising number: those that live and were asked last, or have registered themselves. */
size_t ranks_told(const struct allocation *allocation,
                  struct rank_word ret_words[LEDGER_RANKS_MAX]);

#endif
