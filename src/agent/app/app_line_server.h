/* The socket on which ranks with libckptapp speak to the agent: one stream per rank, in the lines
 * of app_line.h.
 *
 * Flow     a rank dials and says hello; the stream is compared with the job of that name, whose
 *          side looks at the rank (registered), takes it (rank_stream_take()) or refuses it, and
 *          hears from then on what it says. It asks by rank_stream_ask() and the others. A stream
 *          that breaks changes nothing: the rank dials again and says hello anew, and who is asked
 *          is asked again by the job's side then.
 * Who      the caller is whom the kernel says it is: of the job's user. That its process is one of
 *          the job's, and no other living one has its number, is for the job's side to say.
 * Again    a rank that comes back takes the place of the stream it had, whose end is told after
 *          the new one was taken. The end of a stream is not that of a rank: a child may hold the
 *          other end, and the library closes streams by itself.
 * Shapes   all on the loop; nothing waits for a rank. A stream belongs to the server; the job's
 *          side may use it from registered() until gone() was told for it or it closed it. Events
 *          are never told from inside a call of this header. A job's side that ends closes its
 *          streams.
 * Limits   per user, per job and on the whole below; one that says no hello, says too much, or
 *          takes nothing of what it is told is ended. No user shuts another one out: when all
 *          places are taken, one who has fewer gets the place of the latest stream of the user who
 *          has most.
 * Errors   the rank hears `refused` with one line, which ckpt_error() shows, and the stream ends.
 *          What is refused is logged, every 10 s at most.
 */
#ifndef CKPT_AGENT_APP_LINE_SERVER_H
#define CKPT_AGENT_APP_LINE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/app/app_line.h"
#include "src/ask/ask.h"
#include "src/base/err.h"
#include "src/base/ops.h"
#include "src/net/network.h"

struct app_line_server;
struct rank_stream;

enum {
    APP_LINE_STREAMS_MAX = 4096,
    APP_LINE_USER_STREAMS_MAX = 1024,                   /* also before hello */
    APP_LINE_JOB_STREAMS_MAX = APP_LINE_NODE_RANKS_MAX, /* after hello */
    APP_LINE_HELLO_MS = 10000,
    /* A rank says at which step it is each 10 ms at most, and hardly anything else. */
    APP_LINE_LINES_PER_S_MAX = 125,
    /* That may come at once: for an agent that stood still the kernel keeps some 280. */
    APP_LINE_LINES_AT_ONCE_MAX = 500,
    /* That may follow hello before the rank is taken: missed, done and at. */
    APP_LINE_EARLY_BYTES_MAX = 4 * APP_LINE_BYTES,
    APP_LINE_UNSENT_BYTES_MAX = 65536
};

/* What a stream must know of a job. */
struct app_line_job {
    void *job; /* given with each event; different for different jobs */
    uid_t uid; /* the only user that may speak for it */
    uint64_t run;
    const char *node; /* stays where it is while the job is there */
    uint32_t part, parts;
};

/* The job's side; constant while the server is there. */
struct app_line_events {
    void *context;
    /* false: there is none of that name. */
    bool (*find)(void *context, const char *allocation_id, struct app_line_job *ret_job);
    /* NULL: rank_stream_take() or one of those that end it follows, in here or later. Else why it
     * is not taken, one line. */
    const char *(*registered)(void *job, const struct app_line *hello, pid_t pid,
                              struct rank_stream *stream);
    /* hint APP_LINE_NO_HINT: nobody asked. */
    void (*at)(void *job, uint32_t rank, const char *hint, uint64_t step, uint64_t ns_per_step);
    void (*missed)(void *job, uint32_t rank, const char *hint, uint64_t step);
    void (*done)(void *job, uint32_t rank, const char *hint); /* look at its file */
    void (*defer)(void *job, uint32_t rank, const char *hint, uint64_t defer_ms);
    void (*alive)(void *job, uint32_t rank, const char *hint, uint32_t ppm);
    void (*request)(void *job, uint64_t step); /* a checkpoint is welcome; 0: no step is known */
    void (*gone)(void *job, struct rank_stream *stream);
};

/* address: "unix:PATH". */
int app_line_server_new(const struct network_ops *network, const struct clock_ops *clock,
                        const char *address, const struct app_line_events *events,
                        struct app_line_server **ret_server, struct err *err);
/* Ends all streams, untold. Not from inside an event. NULL allowed. */
void app_line_server_free(struct app_line_server *server);

/* The rank hears `ready`, and what it has said meanwhile is told: not from inside an event but
 * registered(). True: the stream is still there. */
bool rank_stream_take(struct rank_stream *stream);
/* folder: below the work folder, APP_LINE_FOLDER_BYTES with its NUL. */
void rank_stream_ask(struct rank_stream *stream, const struct ask_request *request,
                     const char *folder);
void rank_stream_step(struct rank_stream *stream, const char *hint, uint64_t step);
void rank_stream_withdrawn(struct rank_stream *stream, const char *hint);
/* The stream must not be used after either of these; gone() is not told. */
void rank_stream_close(struct rank_stream *stream);
void rank_stream_refuse(struct rank_stream *stream, const char *text);

#endif
