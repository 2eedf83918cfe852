/* The socket of the ranks over a network and a clock of the test: who is taken, what is told to
 * whom, and when a stream ends. */
#include "src/agent/app/app_line_server.h"
#include "src/base/check.h"
#include "tests/support/test.h"

/* With the word that steps are heard unasked. */
#define READY "ready 1 n1 1 2\nstep - 1\n"

enum { SAID_BYTES = 16384, LOG_BYTES = 65536, UID = 1000, RUN = 7, STREAMS = 6000 };

struct network_stream {
    struct network_events events;
    struct network_peer peer;
    bool started, closed; /* by the server */
    size_t unsent;
    char *said; /* to the rank, not looked at yet */
    size_t said_length;
};

struct clock_timer {
    void (*fire)(void *data);
    void *data;
    uint64_t at_us; /* 0: not started */
};

static struct network_stream *dialled[STREAMS];
static size_t dialled_count;
static void (*accepted)(void *data, struct network_stream *stream);
static void *accepted_data;
static struct clock_timer timer;
static uint64_t now_us;
static struct app_line_server *server;

/* what the job's side does */
static char told[LOG_BYTES]; /* what it heard, a line each */
static struct rank_stream *known[APP_LINE_NODE_RANKS_MAX + 1];
static const char *refuse_why;
static bool ask_at_once;
static bool take_later;
static const char *close_in; /* the event in which it closes the stream of whom it hears */

/* ---- network and clock ---- */

static int fake_listen(void *context, const char *address,
                       void (*on_accepted)(void *data, struct network_stream *stream), void *data,
                       struct network_listener **ret_listener, struct err *err)
{
    (void)context;
    if (strcmp(address, "unix:/s") != 0)
        return err_set(err, ERR_IO, "%s: no such folder", address);
    accepted = on_accepted;
    accepted_data = data;
    *ret_listener = NULL;
    return 0;
}

static void fake_listener_close(struct network_listener *listener)
{
    assert_null(listener);
}

static void fake_start(struct network_stream *stream, const struct network_events *events)
{
    assert_false(stream->started);
    stream->started = true;
    stream->events = *events;
}

static void fake_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    assert_true(stream->started && !stream->closed);
    assert_true(length > 0 && length <= APP_LINE_BYTES && take_bytes[length - 1] == '\n');
    assert_true(stream->said_length + length < SAID_BYTES);
    memcpy(stream->said + stream->said_length, take_bytes, length);
    stream->said_length += length;
    stream->said[stream->said_length] = '\0';
    free(take_bytes);
}

static size_t fake_unsent_bytes(const struct network_stream *stream)
{
    assert_false(stream->closed);
    return stream->unsent;
}

static void fake_peer(const struct network_stream *stream, struct network_peer *ret_peer)
{
    *ret_peer = stream->peer;
}

static void fake_close(struct network_stream *stream)
{
    if (stream == NULL)
        return;
    assert_false(stream->closed);
    stream->closed = true;
}

static uint64_t fake_monotonic_us(void *context)
{
    (void)context;
    return now_us;
}

static struct clock_timer *fake_timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context;
    timer = (struct clock_timer){fire, data, 0};
    return &timer;
}

static void fake_timer_start(struct clock_timer *started, uint64_t delay_us)
{
    started->at_us = now_us + delay_us;
}

static void fake_timer_free(struct clock_timer *freed)
{
    freed->fire = NULL;
}

static void pass_ms(uint64_t ms)
{
    for (uint64_t end_us = now_us + ms * 1000; now_us < end_us;) {
        now_us += 100000;
        if (timer.at_us != 0 && timer.at_us <= now_us) {
            timer.at_us = 0;
            timer.fire(timer.data);
        }
    }
}

/* ---- the job's side ---- */

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    size_t length = strlen(told);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(told + length, sizeof(told) - length, format, arguments);
    va_end(arguments);
}

static bool find(void *context, const char *allocation_id, struct app_line_job *ret_job)
{
    static int jobs[2];

    assert_ptr_equal(context, &timer);
    if (strcmp(allocation_id, "j1") != 0 && strcmp(allocation_id, "j2") != 0)
        return false;
    *ret_job = (struct app_line_job){&jobs[allocation_id[1] - '1'], UID, RUN, "n1", 1, 2};
    return true;
}

/* Whether the stream is closed now. */
static bool closes(const char *event, uint32_t rank)
{
    if (close_in == NULL || strcmp(close_in, event) != 0)
        return false;
    if (strcmp(event, "defer") == 0)
        rank_stream_refuse(known[rank], "later is too late");
    else
        rank_stream_close(known[rank]);
    known[rank] = NULL;
    return true;
}

static const char *registered(void *job, const struct app_line *hello, pid_t pid,
                              struct rank_stream *stream)
{
    struct ask_request request = {
        .hint = "1-42-1", .deadline_ms = 1700000000000, .max_deferral_ms = 60000};

    (void)job;
    note("registered %d %d %s\n", (int)hello->rank, (int)pid,
         hello->way == APP_LINE_OPENED    ? "opened"
         : hello->way == APP_LINE_BARRIER ? "barrier"
                                          : "plain");
    if (refuse_why != NULL)
        return refuse_why;
    known[hello->rank] = stream;
    if (closes("registered", (uint32_t)hello->rank) || take_later)
        return NULL;
    assert_true(rank_stream_take(stream));
    if (ask_at_once)
        rank_stream_ask(stream, &request, "out/1-42-1/rank-00003");
    return NULL;
}

static void at(void *job, uint32_t rank, const char *hint, uint64_t step, uint64_t ns_per_step)
{
    (void)job;
    note("at %u %s %" PRIu64 " %" PRIu64 "\n", rank, hint, step, ns_per_step);
    closes("at", rank);
}

static void missed(void *job, uint32_t rank, const char *hint, uint64_t step)
{
    (void)job;
    note("missed %u %s %" PRIu64 "\n", rank, hint, step);
    closes("missed", rank);
}

static void done(void *job, uint32_t rank, const char *hint)
{
    (void)job;
    note("done %u %s\n", rank, hint);
    closes("done", rank);
}

static void defer(void *job, uint32_t rank, const char *hint, uint64_t defer_ms)
{
    (void)job;
    note("defer %u %s %" PRIu64 "\n", rank, hint, defer_ms);
    closes("defer", rank);
}

static void alive(void *job, uint32_t rank, const char *hint, uint32_t ppm)
{
    (void)job;
    note("alive %u %s %u\n", rank, hint, ppm);
    closes("alive", rank);
}

static void request(void *job, uint64_t step)
{
    (void)job;
    note("request %" PRIu64 "\n", step);
}

static void gone(void *job, struct rank_stream *stream)
{
    uint32_t rank = 0;

    (void)job;
    while (rank <= APP_LINE_NODE_RANKS_MAX && known[rank] != stream)
        rank++;
    if (rank > APP_LINE_NODE_RANKS_MAX) {
        note("gone, replaced\n");
        return;
    }
    note("gone %u\n", rank);
    known[rank] = NULL;
}

/* ---- ranks ---- */

static struct network_stream *dial(pid_t pid, uid_t uid)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    assert_true(dialled_count < STREAMS);
    dialled[dialled_count++] = stream;
    stream->said = check_calloc(1, SAID_BYTES);
    stream->peer = (struct network_peer){.local = true, .pid = pid, .uid = uid};
    accepted(accepted_data, stream);
    assert_true(stream->started || stream->closed);
    return stream;
}

static void say(struct network_stream *stream, const char *text)
{
    assert_false(stream->closed);
    stream->events.received(stream->events.data, (const uint8_t *)text, strlen(text));
}

static struct network_stream *hello(pid_t pid, unsigned rank)
{
    struct network_stream *stream = dial(pid, UID);
    char text[APP_LINE_BYTES];

    snprintf(text, sizeof(text), "hello 1 j1 %d %u - - - barrier\n", RUN, rank);
    say(stream, text);
    return stream;
}

static void hears(struct network_stream *stream, const char *text)
{
    assert_string_equal(stream->said, text);
    stream->said[stream->said_length = 0] = '\0';
}

static void heard(const char *text)
{
    assert_string_equal(told, text);
    told[0] = '\0';
}

/* It was refused so, and nobody uses it any more. */
static void refused(struct network_stream *stream, const char *part)
{
    assert_true(stream->closed);
    assert_contains(stream->said, "refused ");
    assert_contains(stream->said, part);
}

static int begin(void **state)
{
    static const struct network_ops network = {.listen = fake_listen,
                                               .listener_close = fake_listener_close,
                                               .start = fake_start,
                                               .send = fake_send,
                                               .unsent_bytes = fake_unsent_bytes,
                                               .peer = fake_peer,
                                               .close = fake_close};
    static const struct clock_ops fake_clock = {.monotonic_us = fake_monotonic_us,
                                                .timer_new = fake_timer_new,
                                                .timer_start = fake_timer_start,
                                                .timer_free = fake_timer_free};
    static const struct app_line_events events = {&timer, find,  registered, at,      missed,
                                                  done,   defer, alive,      request, gone};

    (void)state;
    told[0] = '\0';
    memset(known, 0, sizeof(known));
    refuse_why = close_in = NULL;
    ask_at_once = take_later = false;
    now_us = 50000000;
    assert_int_equal(app_line_server_new(&network, &fake_clock, "unix:/s", &events, &server, NULL),
                     0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    app_line_server_free(server);
    for (size_t i = 0; i < dialled_count; i++)
        free(dialled[i]->said), free(dialled[i]);
    dialled_count = 0;
    return 0;
}

/* ---- tests ---- */

static void a_rank_that_says_hello_is_told_its_place(void **state)
{
    struct network_stream *stream = dial(71, UID);

    (void)state;
    say(stream, "hello 1 j1 7 3 ");
    hears(stream, "");
    say(stream, "1 4 2 barrier\n");
    hears(stream, READY);
    heard("registered 3 71 barrier\n");
}

static void what_a_rank_says_is_told(void **state)
{
    struct network_stream *stream = hello(71, 3);

    (void)state;
    told[0] = '\0';
    say(stream, "at 1-42-1 128 250000\nmissed 1-42-1 131\ndefer 1-42-2 5000\nprogress 1-42-3 9\n"
                "done 1-42-3\nrequest 7\n");
    heard("at 3 1-42-1 128 250000\nmissed 3 1-42-1 131\ndefer 3 1-42-2 5000\nalive 3 1-42-3 9\n"
          "done 3 1-42-3\nrequest 7\n");
    assert_false(stream->closed);
}

static void what_the_agent_asks_is_said(void **state)
{
    struct ask_request request = {.hint = "1-42-1", .deadline_ms = 99, .max_deferral_ms = 0};
    struct network_stream *stream = hello(71, 3);

    (void)state;
    hears(stream, READY);
    rank_stream_ask(known[3], &request, "out/a b");
    rank_stream_step(known[3], "1-42-1", 131);
    rank_stream_withdrawn(known[3], "1-42-1");
    hears(stream, "ask 1-42-1 99 0 out/a%20b\nstep 1-42-1 131\nwithdrawn 1-42-1\n");
}

static void who_is_asked_at_once_hears_first_that_it_is_taken(void **state)
{
    (void)state;
    ask_at_once = true;
    hears(hello(71, 3), READY "ask 1-42-1 1700000000000 60000 out/1-42-1/rank-00003\n");
}

static void who_is_not_of_the_job_is_refused(void **state)
{
    struct network_stream *stream = dial(71, UID);

    (void)state;
    say(stream, "hello 1 j9 7 3 - - - plain\n");
    refused(stream, "user%201000%20has%20no%20job%20j9%20on%20this%20node");
    stream = dial(71, UID + 1); /* and does not hear that there is one */
    say(stream, "hello 1 j1 7 3 - - - plain\n");
    refused(stream, "user%201001%20has%20no%20job%20j1%20on%20this%20node");
    stream = dial(71, UID);
    say(stream, "hello 1 j1 6 3 - - - plain\ndone 1-1-1\n");
    refused(stream,
            "job%20j1%20is%20at%20run%207,%20this%20program%20was%20started%20for%20run%206");
    stream = dial(-1, UID);
    refused(stream, "the%20kernel%20does%20not%20say");
    heard("");
    refuse_why = "processes 71 and 90 are both rank 3";
    stream = hello(90, 3);
    refused(stream, "processes%2071%20and%2090%20are%20both%20rank%203");
    heard("registered 3 90 barrier\n");
}

static void who_has_opened_says_hello_once_more(void **state)
{
    struct network_stream *stream = dial(71, UID);

    (void)state;
    say(stream, "hello 1 j1 7 3 - - - opened\n");
    hears(stream, READY);
    say(stream, "hello 1 j1 7 3 - - - barrier\nat 1-1-1 5 5\n");
    hears(stream, READY);
    heard("registered 3 71 opened\ngone 3\nregistered 3 71 barrier\nat 3 1-1-1 5 5\n");
    say(stream, "hello 1 j1 7 3 - - - barrier\n");
    refused(stream, "hello%20is%20said%20once");
    heard("gone 3\n");
}

/* Both came before its process was looked at. */
static void what_follows_opened_at_once_is_taken_in_order(void **state)
{
    struct network_stream *stream = dial(71, UID);

    (void)state;
    take_later = true;
    say(stream, "hello 1 j1 7 3 - - - opened\nhello 1 j1 7 3 - - - plain\ndone 1-1-1\n");
    heard("registered 3 71 opened\n");
    assert_false(rank_stream_take(known[3]));
    heard("gone 3\nregistered 3 71 plain\n");
    assert_true(rank_stream_take(known[3]));
    heard("done 3 1-1-1\n");
    take_later = false;
}

static void another_rank_does_not_follow_on_a_stream_of_one_that_has_opened(void **state)
{
    struct network_stream *stream = dial(71, UID);

    (void)state;
    say(stream, "hello 1 j1 7 3 - - - opened\n");
    hears(stream, READY);
    say(stream, "hello 1 j1 7 2 - - - plain\n");
    refused(stream, "by%20the%20same%20rank");
    heard("registered 3 71 opened\ngone 3\n");
    stream = dial(71, UID);
    say(stream, "hello 1 j1 7 3 - - - opened\n");
    hears(stream, READY);
    refuse_why = "processes 71 and 90 are both rank 3";
    say(stream, "hello 1 j1 7 3 - - - plain\n");
    refused(stream, "processes%2071%20and%2090%20are%20both%20rank%203");
    heard("registered 3 71 opened\ngone 3\nregistered 3 71 plain\n");
}

static void a_stream_ends_with_what_is_wrong(void **state)
{
    static const struct {
        const char *said, *why;
    } wrong[] = {{"at 1-1-1 5\n", "at:%202%20words%20instead%20of%203"},
                 {"what is this\n", "\"what\"%20is%20nothing"},
                 {"hello 1 j1 7 3 - - - plain\n", "hello%20is%20said%20once"},
                 {"progress 1-1-1 1000001\n", "out%20of%20range"}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct network_stream *stream = hello(71, 3);
        char text[256];

        hears(stream, READY);
        snprintf(text, sizeof(text), "%sdone 1-1-1\n", wrong[i].said); /* not heard any more */
        say(stream, text);
        refused(stream, wrong[i].why);
        heard("registered 3 71 barrier\ngone 3\n");
    }
    struct network_stream *stream = dial(71, UID);
    say(stream, "done 1-1-1\n");
    refused(stream, "done%20came%20before%20hello");
    stream = dial(71, UID);
    say(stream, "hello 2 and whatever\n");
    refused(stream, "VERSION%20is%20\"2\"");
    heard("");
}

static void the_end_of_a_stream_is_told_once(void **state)
{
    struct network_stream *stream = hello(71, 3), *early = dial(72, UID);

    (void)state;
    told[0] = '\0';
    stream->events.closed(stream->events.data, &(struct err){.text = "gone"});
    early->events.closed(early->events.data, &(struct err){.text = "gone"});
    heard("gone 3\n");
    assert_false(stream->closed || early->closed); /* the network has freed them */
}

static void a_rank_that_comes_back_takes_its_place(void **state)
{
    struct network_stream *first = hello(71, 3), *other = dial(72, UID), *again;

    (void)state;
    say(other, "hello 1 j2 7 3 - - - plain\n"); /* of another job */
    told[0] = '\0';
    known[3] = NULL;
    again = hello(71, 3);
    assert_true(first->closed && !again->closed && !other->closed);
    heard("registered 3 71 barrier\ngone, replaced\n");
    refuse_why = "rank 3 is process 71, which lives";
    assert_true(hello(90, 3)->closed && !again->closed);
}

static void the_jobs_side_may_close_in_each_event(void **state)
{
    static const char *const names[] = {"registered", "at", "missed", "done", "defer", "alive"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct network_stream *stream = dial(71, UID);

        close_in = names[i];
        say(stream, "hello 1 j1 7 3 - - - plain\nat 1-1-1 5 5\nmissed 1-1-1 5\ndone 1-1-1\n"
                    "defer 1-1-1 5\nprogress 1-1-1 5\n");
        assert_true(stream->closed);
        assert_null(strstr(told, "gone"));
        told[0] = '\0';
        if (i == 4)
            assert_contains(stream->said, "refused later%20is%20too%20late\n");
    }
}

static void a_job_has_as_many_streams_as_ranks(void **state)
{
    struct network_stream *stream = NULL;

    (void)state;
    for (unsigned rank = 0; rank < APP_LINE_JOB_STREAMS_MAX; rank++)
        assert_false((stream = hello((pid_t)(100 + rank), rank))->closed);
    refused(hello(900, APP_LINE_JOB_STREAMS_MAX), "256%20ranks%20of%20job%20j1");
    assert_false(hello(355, 255)->closed); /* in the place of its own */
    assert_true(stream->closed);
    stream = dial(901, UID);
    say(stream, "hello 1 j2 7 0 - - - plain\n");
    assert_false(stream->closed);
}

static void a_user_has_so_many_streams(void **state)
{
    struct network_stream *first = NULL;

    (void)state;
    for (size_t i = 0; i < APP_LINE_USER_STREAMS_MAX; i++) {
        struct network_stream *stream = dial(100, UID);

        assert_false(stream->closed);
        first = first == NULL ? stream : first;
    }
    refused(dial(100, UID), "user%201000%20has%201024%20streams");
    assert_false(dial(100, UID + 1)->closed);
    first->events.closed(first->events.data, &(struct err){.text = ""});
    assert_false(dial(100, UID)->closed);
}

static void who_says_no_hello_is_ended(void **state)
{
    struct network_stream *early = dial(71, UID), *taken = hello(72, 1);

    (void)state;
    pass_ms(5000);
    struct network_stream *late = dial(73, UID);
    say(late, "hello 1 j1");
    assert_false(early->closed);
    pass_ms(6000);
    refused(early, "no%20hello%20came%20within%2010000%20ms");
    assert_false(late->closed || taken->closed);
    pass_ms(5000);
    assert_true(late->closed);
    assert_false(taken->closed);
}

/* A rank that follows its library's rules never is: each 10 ms, and what the kernel has kept of it
 * while the agent stood still. */
static void who_says_too_much_is_ended(void **state)
{
    struct network_stream *stream = hello(71, 3);

    (void)state;
    hears(stream, READY);
    for (int lines = 0; lines < 5000; lines++) { /* for 50 s */
        say(stream, "progress 1-1-1 5\n");
        now_us += 10000;
        told[0] = '\0';
    }
    now_us += 8000000; /* the agent */
    for (int lines = 0; lines < 290; lines++) {
        say(stream, "at 1-1-1 5 5\n");
        told[0] = '\0';
    }
    assert_false(stream->closed);
    now_us += 60000000;
    for (int lines = 0; lines < APP_LINE_LINES_AT_ONCE_MAX; lines++) {
        say(stream, "progress 1-1-1 5\n");
        told[0] = '\0';
    }
    assert_false(stream->closed);
    say(stream, "progress 1-1-1 5\n");
    refused(stream, "more%20than%20125%20lines%20a%20second,%20and%20500%20at%20once");
    heard("gone 3\n");
}

/* Twice as much as a rank needs. */
static void who_says_a_little_too_much_for_long_is_ended(void **state)
{
    struct network_stream *stream = hello(71, 3);

    (void)state;
    for (int lines = 0; lines < 2000 && !stream->closed; lines++) {
        say(stream, "progress 1-1-1 5\n");
        now_us += 5000;
        told[0] = '\0';
    }
    assert_true(stream->closed);
}

/* Its process is looked at meanwhile. */
static void what_comes_before_a_rank_is_taken_is_told_then(void **state)
{
    struct network_stream *stream, *early;

    (void)state;
    take_later = true;
    stream = hello(71, 3);
    say(stream, "done 1-42");
    say(stream, "-1\nat 1-42-2 5");
    hears(stream, "");
    heard("registered 3 71 barrier\n");
    assert_true(rank_stream_take(known[3]));
    hears(stream, READY);
    heard("done 3 1-42-1\n");
    say(stream, " 5\n");
    heard("at 3 1-42-2 5 5\n");
    early = hello(72, 4);
    say(early, "what is this\n");
    heard("registered 4 72 barrier\n");
    assert_false(rank_stream_take(known[4]));
    refused(early, READY "refused ");
    heard("gone 4\n");
}

static void who_says_much_before_it_is_taken_is_ended(void **state)
{
    struct network_stream *stream;

    (void)state;
    take_later = true;
    stream = hello(71, 3);
    told[0] = '\0';
    for (size_t bytes = 0; bytes < APP_LINE_EARLY_BYTES_MAX; bytes += 16)
        say(stream, "at 1-1-1 10 500\n");
    assert_false(stream->closed);
    say(stream, "a");
    refused(stream, "too%20much%20came%20before%20`ready`");
    heard("gone 3\n");
    stream = hello(71, 3);
    stream->events.closed(stream->events.data, &(struct err){.text = "gone"});
    heard("registered 3 71 barrier\ngone 3\n");
    stream = hello(71, 3);
    rank_stream_refuse(known[3], "process 71 is none of job j1");
    refused(stream, "process%2071%20is%20none");
}

/* Four users could take all places. */
static void no_user_shuts_another_one_out(void **state)
{
    struct network_stream *latest[4], *stream, *first = hello(70, 0);

    (void)state;
    for (unsigned user = 0; user < 4; user++)
        for (size_t i = user == 0; i < APP_LINE_USER_STREAMS_MAX; i++)
            latest[user] = dial(100, UID + user);
    for (unsigned user = 0; user < 4; user++)
        assert_false(latest[user]->closed);
    for (unsigned i = 0; i < 800; i++) /* an equal share of five is 819 */
        assert_false((stream = dial(200, UID + 4))->closed);
    assert_true(latest[0]->closed && latest[3]->closed);
    refused(latest[3],
            "this%20node%20has%204096%20streams,%20and%20user%201003%20most%20of%20them");
    assert_false(first->closed); /* it has said hello */
    for (unsigned i = 0; i < 30; i++)
        stream = dial(200, UID + 4);
    refused(stream, "this%20node%20has%204096%20streams,%20819%20of%20them%20of%20user%201004");
    assert_false(dial(300, UID + 5)->closed);
}

static void who_takes_nothing_is_ended_but_not_from_inside_a_call(void **state)
{
    struct network_stream *stream = hello(71, 3);

    (void)state;
    told[0] = '\0';
    hears(stream, READY);
    stream->unsent = APP_LINE_UNSENT_BYTES_MAX;
    rank_stream_step(known[3], "1-1-1", 5);
    hears(stream, "step 1-1-1 5\n");
    stream->unsent++;
    rank_stream_step(known[3], "1-1-1", 6);
    hears(stream, "");
    heard("");
    assert_false(stream->closed);
    pass_ms(2000);
    heard("gone 3\n");
    assert_true(stream->closed);
}

static void a_socket_that_cannot_be_is_told(void **state)
{
    struct network_ops network = {.listen = fake_listen};
    struct app_line_server *other = NULL;
    struct clock_ops no_clock = {0};
    struct err err;

    (void)state;
    assert_int_equal(app_line_server_new(&network, &no_clock, "unix:/t",
                                         &(struct app_line_events){0}, &other, &err),
                     -1);
    assert_string_equal(err.text, "the socket of the ranks: unix:/t: no such folder");
    assert_null(other);
    accepted(accepted_data, NULL); /* one for which no descriptor was left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_rank_that_says_hello_is_told_its_place, begin, end),
        cmocka_unit_test_setup_teardown(what_a_rank_says_is_told, begin, end),
        cmocka_unit_test_setup_teardown(what_the_agent_asks_is_said, begin, end),
        cmocka_unit_test_setup_teardown(who_is_asked_at_once_hears_first_that_it_is_taken, begin,
                                        end),
        cmocka_unit_test_setup_teardown(who_is_not_of_the_job_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(who_has_opened_says_hello_once_more, begin, end),
        cmocka_unit_test_setup_teardown(what_follows_opened_at_once_is_taken_in_order, begin, end),
        cmocka_unit_test_setup_teardown(
            another_rank_does_not_follow_on_a_stream_of_one_that_has_opened, begin, end),
        cmocka_unit_test_setup_teardown(a_stream_ends_with_what_is_wrong, begin, end),
        cmocka_unit_test_setup_teardown(the_end_of_a_stream_is_told_once, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_that_comes_back_takes_its_place, begin, end),
        cmocka_unit_test_setup_teardown(the_jobs_side_may_close_in_each_event, begin, end),
        cmocka_unit_test_setup_teardown(a_job_has_as_many_streams_as_ranks, begin, end),
        cmocka_unit_test_setup_teardown(a_user_has_so_many_streams, begin, end),
        cmocka_unit_test_setup_teardown(who_says_no_hello_is_ended, begin, end),
        cmocka_unit_test_setup_teardown(who_says_too_much_is_ended, begin, end),
        cmocka_unit_test_setup_teardown(who_says_a_little_too_much_for_long_is_ended, begin, end),
        cmocka_unit_test_setup_teardown(what_comes_before_a_rank_is_taken_is_told_then, begin, end),
        cmocka_unit_test_setup_teardown(who_says_much_before_it_is_taken_is_ended, begin, end),
        cmocka_unit_test_setup_teardown(no_user_shuts_another_one_out, begin, end),
        cmocka_unit_test_setup_teardown(who_takes_nothing_is_ended_but_not_from_inside_a_call,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_socket_that_cannot_be_is_told, begin, end),
    };

    return cmocka_run_group_tests_name("app_line_server", tests, NULL, NULL);
}
