/* The socket of the ranks. See app_line_server.h.
 *
 * A stream:   GREETING --hello--> REGISTERING --taken--> READY --the end, by either side--> OVER
 *                 '--no hello, wrong line-----'--not taken----------------------------------^
 */
#include "src/agent/app/app_line_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/base/log.h"
#include "src/base/text.h"

enum {
    SWEEP_US = 1000000,
    LINE_US = 1000000 / APP_LINE_LINES_PER_S_MAX,
    LOG_US = 10000000,
    WHY_BYTES = 256
};

enum stream_state { STREAM_GREETING, STREAM_REGISTERING, STREAM_READY, STREAM_OVER };

/* Somebody who has streams. */
struct stream_user {
    struct list node;
    uid_t uid;
    struct list streams; /* as they came */
    size_t stream_count;
};

struct rank_stream {
    struct list node;
    struct list in_user;
    struct stream_user *user;
    struct app_line_server *server;
    struct network_stream *network; /* NULL: it is closed */
    pid_t pid;
    uid_t uid;
    enum stream_state state;
    struct app_line_job job; /* from REGISTERING on */
    uint32_t rank;
    bool opened; /* its hello said no more than that: another one follows */
    bool stuck;  /* the rank takes nothing; ended by the next sweep */
    bool busy;   /* a line of it is being taken: it is freed afterwards */
    uint64_t since_us;
    uint64_t lines_us; /* until when it has said what it may */
    struct app_line_input input;
    uint8_t *early; /* came before it was taken; NULL: nothing did */
    size_t early_bytes;
};

struct app_line_server {
    struct network_ops network;
    struct clock_ops clock;
    struct app_line_events events;
    struct network_listener *listener;
    struct clock_timer *sweep;
    bool sweeping;
    struct list streams;
    size_t stream_count;
    struct list users;
    uint64_t logged_us; /* a refusal; 0: none yet */
    uint64_t unlogged;  /* refusals since */
};

static uint64_t server_now(const struct app_line_server *server)
{
    return server->clock.monotonic_us(server->clock.context);
}

/* ---- ends ---- */

static void stream_release(struct rank_stream *stream)
{
    if (stream->state != STREAM_OVER || stream->busy)
        return;
    free(stream->early);
    free(stream);
}

/* Untold. */
static void stream_end(struct rank_stream *stream)
{
    struct app_line_server *server = stream->server;

    CHECK(stream->state != STREAM_OVER);
    CHECK(server->stream_count > 0);
    stream->state = STREAM_OVER;
    list_remove(&stream->node);
    list_remove(&stream->in_user);
    server->stream_count--;
    if (--stream->user->stream_count == 0) {
        list_remove(&stream->user->node);
        free(stream->user);
    }
    server->network.close(stream->network);
    stream->network = NULL;
    stream_release(stream);
}

/* The job's side hears of it, when it knows the stream. */
static void stream_lose(struct rank_stream *stream)
{
    if (stream->state == STREAM_REGISTERING || stream->state == STREAM_READY) {
        bool busy = stream->busy;

        stream->busy = true; /* it may be closed in there */
        stream->server->events.gone(stream->job.job, stream);
        stream->busy = busy;
    }
    if (stream->state != STREAM_OVER)
        stream_end(stream);
    else
        stream_release(stream);
}

/* ---- what is said to a rank ---- */

static void stream_send(struct rank_stream *stream, const struct app_line *line)
{
    struct app_line_server *server = stream->server;
    char text[APP_LINE_BYTES];
    size_t length = app_line_format(line, text);

    CHECK(length > 0);
    if (server->network.unsent_bytes(stream->network) > APP_LINE_UNSENT_BYTES_MAX)
        stream->stuck = true;
    if (stream->stuck)
        return; /* it hears what stands after its next hello */
    uint8_t *bytes = check_alloc(length);
    memcpy(bytes, text, length);
    server->network.send(stream->network, bytes, length);
}

static void stream_welcome(struct rank_stream *stream)
{
    struct app_line line = {.verb = APP_LINE_READY};

    text_copy(line.id, sizeof(line.id), stream->job.node);
    line.part = stream->job.part;
    line.parts = stream->job.parts;
    stream_send(stream, &line);
    line = (struct app_line){.verb = APP_LINE_STEP, .hint = APP_LINE_NO_HINT, .step = 1};
    stream_send(stream, &line);
}

static void stream_say(struct rank_stream *stream, const struct app_line *line)
{
    CHECK(stream->state == STREAM_READY);
    stream_send(stream, line);
}

static void refusal_log(struct rank_stream *stream, const char *text)
{
    struct app_line_server *server = stream->server;
    uint64_t now_us = server_now(server);
    char shown[WHY_BYTES];

    server->unlogged++;
    if (server->logged_us != 0 && now_us - server->logged_us < LOG_US)
        return;
    log_warning("rank_refused", "pid=%d uid=%u refused=%" PRIu64 " text=\"%s\"", (int)stream->pid,
                (unsigned)stream->uid, server->unlogged, text_shown(text, shown, sizeof(shown)));
    server->logged_us = now_us;
    server->unlogged = 0;
}

static void stream_tell_refused(struct rank_stream *stream, const char *text)
{
    struct app_line line = {.verb = APP_LINE_REFUSED};

    text_shown(text, line.text, sizeof(line.text));
    refusal_log(stream, line.text);
    stream_send(stream, &line);
}

static void stream_refuse(struct rank_stream *stream, const char *text)
{
    stream_tell_refused(stream, text);
    stream_lose(stream);
}

void rank_stream_ask(struct rank_stream *stream, const struct ask_request *request,
                     const char *folder)
{
    struct app_line line = {.verb = APP_LINE_ASK,
                            .deadline_ms = request->deadline_ms,
                            .max_deferral_ms = request->max_deferral_ms};

    CHECK(strlen(folder) < sizeof(line.folder) && strlen(request->hint) < sizeof(line.hint));
    text_copy(line.hint, sizeof(line.hint), request->hint);
    text_copy(line.folder, sizeof(line.folder), folder);
    stream_say(stream, &line);
}

void rank_stream_step(struct rank_stream *stream, const char *hint, uint64_t step)
{
    struct app_line line = {.verb = APP_LINE_STEP, .step = step};

    CHECK(strlen(hint) < sizeof(line.hint));
    text_copy(line.hint, sizeof(line.hint), hint);
    stream_say(stream, &line);
}

void rank_stream_withdrawn(struct rank_stream *stream, const char *hint)
{
    struct app_line line = {.verb = APP_LINE_WITHDRAWN};

    CHECK(strlen(hint) < sizeof(line.hint));
    text_copy(line.hint, sizeof(line.hint), hint);
    stream_say(stream, &line);
}

void rank_stream_close(struct rank_stream *stream)
{
    stream_end(stream);
}

void rank_stream_refuse(struct rank_stream *stream, const char *text)
{
    stream_tell_refused(stream, text);
    stream_end(stream);
}

/* ---- hello ---- */

/* Another stream of that rank, or of all ranks of the job; counts them. */
static size_t job_streams(const struct rank_stream *stream, struct rank_stream **ret_same)
{
    const struct list *head = &stream->server->streams;
    size_t count = 0;

    *ret_same = NULL;
    for (struct list *node = head->next; node != head; node = node->next) {
        struct rank_stream *other = LIST_ITEM(node, struct rank_stream, node);

        if (other == stream || other->state != STREAM_READY || other->job.job != stream->job.job)
            continue;
        count++;
        if (other->rank == stream->rank)
            *ret_same = other;
    }
    return count;
}

/* Who is not of the job's user does not hear whether there is one. */
static bool job_is_wrong(struct rank_stream *stream, const struct app_line *hello,
                         char why[WHY_BYTES])
{
    const struct app_line_events *events = &stream->server->events;
    struct rank_stream *same;

    if (!events->find(events->context, hello->id, &stream->job) || stream->job.uid != stream->uid)
        snprintf(why, WHY_BYTES,
                 "user %u has no job %s on this node; start the program by ckpt-run as its owner",
                 (unsigned)stream->uid, hello->id);
    else if (hello->run != stream->job.run)
        snprintf(why, WHY_BYTES,
                 "job %s is at run %" PRIu64 ", this program was started for run %" PRIu64,
                 hello->id, stream->job.run, hello->run);
    else if (job_streams(stream, &same) >= APP_LINE_JOB_STREAMS_MAX && same == NULL)
        snprintf(why, WHY_BYTES, "%d ranks of job %s have registered on this node, no more can",
                 APP_LINE_JOB_STREAMS_MAX, hello->id);
    else
        return false;
    return true;
}

static void stream_register(struct rank_stream *stream, const struct app_line *hello)
{
    const struct app_line_events *events = &stream->server->events;
    char why[WHY_BYTES];
    const char *refused;

    stream->rank = (uint32_t)hello->rank;
    stream->opened = hello->way == APP_LINE_OPENED;
    if (job_is_wrong(stream, hello, why)) {
        stream_refuse(stream, why);
        return;
    }
    stream->state = STREAM_REGISTERING;
    refused = events->registered(stream->job.job, hello, stream->pid, stream);
    if (refused != NULL && stream->state == STREAM_REGISTERING) {
        stream->state = STREAM_GREETING; /* the job's side does not know it */
        stream_refuse(stream, refused);
    }
}

/* A rank that had opened the library has come to its loop: it is taken as one that is new. */
static void stream_greet_again(struct rank_stream *stream, const struct app_line *hello)
{
    CHECK(stream->state == STREAM_READY && stream->busy);
    if (!stream->opened || hello->rank != stream->rank) {
        stream_refuse(stream, "hello is said once on a stream, and again after `opened` alone, by "
                              "the same rank");
        return;
    }
    stream->server->events.gone(stream->job.job, stream);
    if (stream->state != STREAM_READY)
        return;
    stream->state = STREAM_GREETING;
    stream_register(stream, hello);
}

/* ---- what a rank says ---- */

static void stream_tell(struct rank_stream *stream, const struct app_line *line)
{
    const struct app_line_events *events = &stream->server->events;
    void *job = stream->job.job;

    switch (line->verb) {
    case APP_LINE_HELLO:
        stream_greet_again(stream, line);
        break;
    case APP_LINE_AT:
        events->at(job, stream->rank, line->hint, line->step, line->ns_per_step);
        break;
    case APP_LINE_MISSED:
        events->missed(job, stream->rank, line->hint, line->step);
        break;
    case APP_LINE_DONE:
        events->done(job, stream->rank, line->hint);
        break;
    case APP_LINE_DEFER:
        events->defer(job, stream->rank, line->hint, line->defer_ms);
        break;
    case APP_LINE_PROGRESS:
        events->alive(job, stream->rank, line->hint, (uint32_t)line->ppm);
        break;
    case APP_LINE_REQUEST:
        events->request(job, line->step);
        break;
    case APP_LINE_READY:
    case APP_LINE_REFUSED:
    case APP_LINE_ASK:
    case APP_LINE_STEP:
    case APP_LINE_WITHDRAWN:
    case APP_LINE_VERB_COUNT:
        CHECK_UNREACHABLE("a line of an agent");
    }
}

/* Each line takes its time, and what was not said in the time before may come at once. */
static bool says_too_much(struct rank_stream *stream)
{
    const uint64_t now_us = server_now(stream->server);
    const uint64_t at_once_us = (uint64_t)LINE_US * APP_LINE_LINES_AT_ONCE_MAX;

    if (stream->lines_us + at_once_us < now_us)
        stream->lines_us = now_us - at_once_us;
    stream->lines_us += LINE_US;
    return stream->lines_us > now_us;
}

static void stream_take(struct rank_stream *stream, const struct app_line *line)
{
    char why[WHY_BYTES];

    if (says_too_much(stream)) {
        snprintf(
            why, sizeof(why),
            "more than %d lines a second, and %d at once; say at which step each 10 ms at most",
            APP_LINE_LINES_PER_S_MAX, APP_LINE_LINES_AT_ONCE_MAX);
        stream_refuse(stream, why);
    } else if (stream->state == STREAM_READY) {
        stream_tell(stream, line);
    } else if (line->verb == APP_LINE_HELLO) {
        stream_register(stream, line);
    } else {
        snprintf(why, sizeof(why), "%s came before hello", app_line_verb_name(line->verb));
        stream_refuse(stream, why);
    }
}

/* As far as it is known who says it. */
static void stream_keep(struct rank_stream *stream, const uint8_t *bytes, size_t length)
{
    CHECK(stream->state == STREAM_REGISTERING);
    if (length > APP_LINE_EARLY_BYTES_MAX - stream->early_bytes) {
        stream_refuse(stream, "too much came before `ready`; wait for it after hello");
        return;
    }
    if (stream->early == NULL)
        stream->early = check_alloc(APP_LINE_EARLY_BYTES_MAX);
    memcpy(stream->early + stream->early_bytes, bytes, length);
    stream->early_bytes += length;
}

static void stream_hear(struct rank_stream *stream, const uint8_t *bytes, size_t length)
{
    while (length > 0 && stream->state != STREAM_OVER) {
        struct app_line line;
        struct err err;
        int found;

        if (stream->state == STREAM_REGISTERING) {
            stream_keep(stream, bytes, length);
            return;
        }
        found = app_line_next(&stream->input, APP_LINE_FROM_RANK, &bytes, &length, &line, &err);
        if (found < 0)
            stream_refuse(stream, err.text);
        else if (found > 0)
            stream_take(stream, &line);
    }
}

static void stream_received(void *data, const uint8_t *bytes, size_t length)
{
    struct rank_stream *stream = data;

    CHECK(!stream->busy);
    stream->busy = true;
    stream_hear(stream, bytes, length);
    stream->busy = false;
    stream_release(stream);
}

bool rank_stream_take(struct rank_stream *stream)
{
    const bool busy = stream->busy;
    struct rank_stream *same;
    uint8_t *early = stream->early;
    size_t early_bytes = early == NULL ? 0 : stream->early_bytes;
    bool there;

    CHECK(stream->state == STREAM_REGISTERING);
    stream->busy = true;
    stream->state = STREAM_READY;
    stream->early = NULL;
    stream->early_bytes = 0;
    stream_welcome(stream);
    while (stream->state == STREAM_READY && job_streams(stream, &same) > 0 && same != NULL)
        stream_lose(same);
    stream_hear(stream, early, early_bytes);
    free(early);
    there = stream->state == STREAM_READY;
    stream->busy = busy;
    stream_release(stream);
    return there;
}

/* The network has freed its stream. */
static void stream_closed(void *data, const struct err *err)
{
    struct rank_stream *stream = data;

    (void)err;
    stream->network = NULL;
    stream_lose(stream);
}

/* ---- the server ---- */

static void server_sweep_soon(struct app_line_server *server)
{
    if (server->sweeping || list_empty(&server->streams))
        return;
    server->sweeping = true;
    server->clock.timer_start(server->sweep, SWEEP_US);
}

/* The first one that must go; each may take others along. */
static struct rank_stream *stream_overdue(const struct app_line_server *server, bool *ret_stuck)
{
    uint64_t now_us = server_now(server);

    for (struct list *node = server->streams.next; node != &server->streams; node = node->next) {
        struct rank_stream *stream = LIST_ITEM(node, struct rank_stream, node);

        *ret_stuck = stream->stuck;
        if (stream->stuck || (stream->state == STREAM_GREETING &&
                              now_us - stream->since_us >= UINT64_C(1000) * APP_LINE_HELLO_MS))
            return stream;
    }
    return NULL;
}

static void server_sweep(void *data)
{
    struct app_line_server *server = data;
    struct rank_stream *stream;
    char why[WHY_BYTES];
    bool stuck;

    server->sweeping = false;
    snprintf(why, sizeof(why), "no hello came within %d ms", APP_LINE_HELLO_MS);
    while ((stream = stream_overdue(server, &stuck)) != NULL) {
        if (stuck)
            stream_lose(stream);
        else
            stream_refuse(stream, why);
    }
    server_sweep_soon(server);
}

static struct stream_user *user_of(struct app_line_server *server, uid_t uid)
{
    struct stream_user *user;

    for (struct list *node = server->users.next; node != &server->users; node = node->next) {
        user = LIST_ITEM(node, struct stream_user, node);
        if (user->uid == uid)
            return user;
    }
    user = check_calloc(1, sizeof(*user));
    user->uid = uid;
    list_init(&user->streams);
    list_push_back(&server->users, &user->node);
    return user;
}

static struct stream_user *user_with_most(const struct app_line_server *server)
{
    struct stream_user *most = NULL;

    for (struct list *node = server->users.next; node != &server->users; node = node->next) {
        struct stream_user *user = LIST_ITEM(node, struct stream_user, node);

        if (most == NULL || user->stream_count > most->stream_count)
            most = user;
    }
    return most;
}

/* The latest; one that has not said hello before those that have. */
static struct rank_stream *user_latest(const struct stream_user *user)
{
    struct rank_stream *found = NULL;

    for (struct list *node = user->streams.next; node != &user->streams; node = node->next) {
        struct rank_stream *stream = LIST_ITEM(node, struct rank_stream, in_user);

        if (found == NULL || stream->state == STREAM_GREETING || found->state != STREAM_GREETING)
            found = stream;
    }
    return found;
}

/* NULL: there is, be it another user's who had more; else why not. */
static const char *user_room(struct app_line_server *server, const struct stream_user *user,
                             char why[WHY_BYTES])
{
    const struct stream_user *most = user_with_most(server);

    if (user->stream_count >= APP_LINE_USER_STREAMS_MAX) {
        snprintf(why, WHY_BYTES, "user %u has %zu streams, no more are taken", (unsigned)user->uid,
                 user->stream_count);
        return why;
    }
    if (server->stream_count < APP_LINE_STREAMS_MAX)
        return NULL;
    if (most->stream_count < user->stream_count + 2) {
        snprintf(why, WHY_BYTES,
                 "this node has %zu streams, %zu of them of user %u; no more are "
                 "taken",
                 server->stream_count, user->stream_count, (unsigned)user->uid);
        return why;
    }
    snprintf(why, WHY_BYTES,
             "this node has %zu streams, and user %u most of them; others need room",
             server->stream_count, (unsigned)most->uid);
    stream_refuse(user_latest(most), why);
    return NULL;
}

static struct rank_stream *stream_new(struct app_line_server *server, struct stream_user *user,
                                      struct network_stream *network,
                                      const struct network_peer *peer)
{
    struct rank_stream *stream = check_calloc(1, sizeof(*stream));
    struct network_events events = {
        .data = stream, .received = stream_received, .closed = stream_closed};

    stream->server = server;
    stream->network = network;
    stream->pid = peer->pid;
    stream->uid = peer->uid;
    stream->user = user;
    stream->since_us = server_now(server);
    list_push_back(&server->streams, &stream->node);
    list_push_back(&user->streams, &stream->in_user);
    server->stream_count++;
    user->stream_count++;
    server->network.start(network, &events);
    server_sweep_soon(server);
    return stream;
}

static void server_accepted(void *data, struct network_stream *network)
{
    struct app_line_server *server = data;
    struct network_peer peer;
    struct rank_stream *stream;
    struct stream_user *user;
    char why[WHY_BYTES];
    const char *refused;

    if (network == NULL)
        return;
    server->network.peer(network, &peer);
    user = user_of(server, peer.uid);
    refused = user_room(server, user, why);
    if (!peer.local || peer.pid <= 0)
        refused = "the kernel does not say which process this is; run it in the pid namespace of "
                  "ckpt-agentd";
    stream = stream_new(server, user, network, &peer);
    if (refused != NULL)
        stream_refuse(stream, refused);
}

int app_line_server_new(const struct network_ops *network, const struct clock_ops *clock,
                        const char *address, const struct app_line_events *events,
                        struct app_line_server **ret_server, struct err *err)
{
    struct app_line_server *server = check_calloc(1, sizeof(*server));

    server->network = *network;
    server->clock = *clock;
    server->events = *events;
    list_init(&server->streams);
    list_init(&server->users);
    if (network->listen(network->context, address, server_accepted, server, &server->listener,
                        err) != 0) {
        free(server);
        return err_wrap(err, "the socket of the ranks");
    }
    server->sweep = clock->timer_new(clock->context, server_sweep, server);
    *ret_server = server;
    return 0;
}

void app_line_server_free(struct app_line_server *server)
{
    if (server == NULL)
        return;
    while (!list_empty(&server->streams))
        stream_end(LIST_ITEM(server->streams.next, struct rank_stream, node));
    server->network.listener_close(server->listener);
    server->clock.timer_free(server->sweep);
    free(server);
}
