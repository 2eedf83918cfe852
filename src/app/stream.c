/* The stream to the agent: dialled again when it breaks, read without waiting. See handle.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/app/handle.h"

enum { READS_MAX = 16 }; /* of one turn: an agent that never stops talking holds nobody up */

void ckptapp_stream_close(struct ckpt *ckpt)
{
    if (ckpt->descriptor < 0)
        return;
    shutdown(ckpt->descriptor, SHUT_RDWR); /* a forked child may hold a copy */
    close(ckpt->descriptor);
    ckpt->descriptor = -1;
    ckpt->greeted = ckpt->announced = ckpt->takes_steps = false;
    ckpt->line_length = 0;
}

int ckptapp_stream_say(struct ckpt *ckpt, const struct ckptapp_text *line)
{
    ssize_t sent;

    if (ckpt->descriptor < 0 || line->full)
        return -1;
    do
        sent = send(ckpt->descriptor, line->bytes, line->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)line->length)
        return 0;
    /* a line that went out in part cannot be mended; a full buffer can wait */
    if (sent >= 0 || (errno != EAGAIN && errno != ENOBUFS))
        ckptapp_stream_close(ckpt);
    return -1;
}

static void put_known(struct ckptapp_text *line, int64_t number, bool known)
{
    ckptapp_put(line, " ");
    if (known)
        ckptapp_put_number(line, (uint64_t)number);
    else
        ckptapp_put(line, "-");
}

static void stream_greet(struct ckpt *ckpt)
{
    char bytes[LINE_BYTES];
    struct ckptapp_text line = {bytes, sizeof(bytes), 0, false};
    const struct ckptapp_rank *rank = &ckpt->rank;

    ckptapp_put(&line, "hello 1 ");
    ckptapp_put_word(&line, ckpt->job);
    ckptapp_put(&line, " ");
    ckptapp_put_number(&line, ckpt->run);
    put_known(&line, rank->rank, true);
    put_known(&line, rank->local_rank, rank->local_rank >= 0);
    put_known(&line, (int64_t)rank->ranks, rank->ranks > 0);
    put_known(&line, (int64_t)rank->local_ranks, rank->local_ranks > 0);
    ckptapp_put(&line, ckpt->barrier ? " barrier\n" : ckpt->plain ? " plain\n" : " opened\n");
    if (ckptapp_stream_say(ckpt, &line) == 0) {
        ckpt->announced = true;
        ckpt->greeted = ckpt->plain || ckpt->barrier;
    } else
        ckptapp_stream_close(ckpt); /* one that takes no hello is of no use */
}

/* Once a second at most: an agent that is being exchanged is looked for without a burst. */
static void stream_dial(struct ckpt *ckpt)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t now_ns = ckptapp_now_ns();

    if (now_ns < ckpt->dial_at_ns)
        return;
    ckpt->dial_at_ns = now_ns + DIAL_EVERY_NS;
    memcpy(address.sun_path, ckpt->socket, sizeof(ckpt->socket));
    ckpt->descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ckpt->descriptor < 0)
        return;
    if (connect(ckpt->descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(ckpt->descriptor);
        ckpt->descriptor = -1;
    }
}

static void stream_read(struct ckpt *ckpt)
{
    char bytes[LINE_BYTES];

    for (int reads = 0; reads < READS_MAX && ckpt->descriptor >= 0; reads++) {
        ssize_t length = recv(ckpt->descriptor, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            return;
        if (length <= 0 || ckptapp_bytes_take(ckpt, bytes, (size_t)length) != 0) {
            ckptapp_stream_close(ckpt);
            return;
        }
        if ((size_t)length < sizeof(bytes)) /* most often all there was */
            return;
    }
}

static int stream_say_at(struct ckpt *ckpt, const char *hint, uint64_t step)
{
    char bytes[LINE_BYTES];
    struct ckptapp_text line = {bytes, sizeof(bytes), 0, false};
    uint64_t sum_ns = 0, count = 0;

    for (size_t i = 0; i < PACES; i++) {
        sum_ns += ckpt->paces[i];
        count += ckpt->paces[i] > 0;
    }
    ckptapp_put(&line, "at ");
    ckptapp_put(&line, hint);
    ckptapp_put(&line, " ");
    ckptapp_put_number(&line, step);
    ckptapp_put(&line, " ");
    ckptapp_put_number(&line, count == 0 ? 0 : sum_ns / count);
    ckptapp_put(&line, "\n");
    return ckptapp_stream_say(ckpt, &line);
}

int ckptapp_stream_at(struct ckpt *ckpt)
{
    return stream_say_at(ckpt, ckpt->question.hint, ckpt->step);
}

int ckptapp_stream_step(struct ckpt *ckpt, uint64_t step)
{
    return stream_say_at(ckpt, NO_QUESTION, step);
}

/* What could not be said before, or must be said again on a new stream. */
static void stream_say_rest(struct ckpt *ckpt)
{
    char bytes[LINE_BYTES];
    struct ckptapp_text line = {bytes, sizeof(bytes), 0, false};

    if (ckpt->say_missed) {
        ckptapp_put(&line, "missed ");
        ckptapp_put(&line, ckpt->missed_hint);
        ckptapp_put(&line, " ");
        ckptapp_put_number(&line, ckpt->missed_step);
        ckptapp_put(&line, "\n");
        if (ckptapp_stream_say(ckpt, &line) != 0)
            return;
        ckpt->say_missed = false;
        line.length = 0;
    }
    if (ckpt->say_done) {
        ckptapp_put(&line, "done ");
        ckptapp_put(&line, ckpt->answered);
        ckptapp_put(&line, "\n");
        if (ckptapp_stream_say(ckpt, &line) != 0)
            return;
        ckpt->say_done = false;
    }
    if (ckpt->say_at && ckptapp_stream_at(ckpt) == 0)
        ckpt->say_at = false;
}

void ckptapp_stream_turn(struct ckpt *ckpt, bool may_dial)
{
    if (ckpt->descriptor < 0 && may_dial)
        stream_dial(ckpt);
    if (ckpt->announced && !ckpt->greeted)
        stream_read(ckpt); /* a refusal is heard before more is said to who has hung up */
    if (ckpt->descriptor >= 0 && !ckpt->greeted &&
        (ckpt->plain || ckpt->barrier || !ckpt->announced))
        stream_greet(ckpt);
    stream_read(ckpt);
    if (ckpt->descriptor >= 0 && ckpt->greeted &&
        (ckpt->say_missed || ckpt->say_done || ckpt->say_at))
        stream_say_rest(ckpt);
}
