/* A rank's end of its stream. See application_line.h. */
#include "tests/sim/application_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum {
    DIAL_EVERY_US = 1000000,
    AT_EVERY_US = 20000,
    STUCK_US = 3000000, /* at most */
    SAYS_US = 300000,   /* a step, while nothing is asked: a library does it more rarely */
    LOADS_IN = 4,       /* one in so many loads for long before it comes to its loop... */
    LOADS_US = 9000000, /* ... at most */
    PACE_NS = APPLICATION_STEP_US * 1000,
    ADDRESS_MAX_BYTES = 64
};

enum line_state { LINE_NOTHING, LINE_HEARD, LINE_TOLD, LINE_DUE, LINE_SAVING };

struct application_line {
    struct application_line_setup setup;
    struct application_line_events events;
    char address[ADDRESS_MAX_BYTES], allocation_id[ID_MAX_BYTES + 1];
    struct clock_ops clock;
    struct network_ops network;
    struct clock_timer *turn; /* its next call that matters */
    struct clock_timer *dial, *come, *says;
    struct network_stream *stream; /* NULL: none */
    bool came;                     /* it is at its loop; until then it says no more than that */
    bool announced;                /* ... on this stream */
    bool open;                     /* hello was said */
    bool broken;                   /* in the middle of what is being taken */
    bool stopped;
    bool hung;       /* its job hangs */
    bool hears_step; /* the agent wants to hear of steps, on this stream */
    uint64_t dialled_us;
    uint64_t stuck_us; /* until then it is in one step; 0: it is not */
    uint64_t behind;   /* the step in which it is, or was, when it goes on; 0: not held up */
    struct app_line_input input;
    struct buf held; /* has arrived and is not read yet */
    enum line_state state;
    char hint[HINT_TEXT_BYTES];     /* of the question; "": there is none */
    char heard[HINT_TEXT_BYTES];    /* told by asked() */
    char at[HINT_TEXT_BYTES];       /* of which it said where it is */
    char answered[HINT_TEXT_BYTES]; /* and done */
    uint64_t agreed;                /* DUE, SAVING: the step; 0: it has none */
    bool say_done;
    char missed[HINT_TEXT_BYTES]; /* to be said; "": nothing */
    uint64_t missed_step;
};

static struct sim *line_sim(const struct application_line *line)
{
    return line->setup.machine->sim;
}

static uint64_t step_now(const struct application_line *line)
{
    return line->behind != 0 ? line->behind : sim_now_us(line_sim(line)) / APPLICATION_STEP_US;
}

static bool line_listens(const struct application_line *line)
{
    return !line->stopped && !line->hung && line->stuck_us == 0;
}

/* ---- what it says ---- */

static void dial_again(struct application_line *line)
{
    uint64_t since_us = sim_now_us(line_sim(line)) - line->dialled_us;

    line->clock.timer_start(line->dial, since_us < DIAL_EVERY_US ? DIAL_EVERY_US - since_us : 1);
}

static void line_hang_up(struct application_line *line)
{
    line->network.close(line->stream);
    line->stream = NULL;
    line->open = line->announced = line->hears_step = false;
    line->broken = true;
    line->input = (struct app_line_input){.length = 0};
    buf_clear(&line->held);
}

/* False: it could not be said. */
static bool line_say(struct application_line *line, const struct app_line *words)
{
    char text[APP_LINE_BYTES];
    size_t length = app_line_format(words, text);
    uint8_t *bytes;

    CHECK(length > 0);
    if (!line->open)
        return false;
    bytes = check_alloc(length);
    memcpy(bytes, text, length);
    line->network.send(line->stream, bytes, length);
    if (!sim_chance(line_sim(line), line->setup.manners->breaks_in))
        return true;
    line_hang_up(line); /* what was said last may not have arrived */
    dial_again(line);
    return true;
}

static struct app_line line_about(enum app_line_verb verb, const char *hint)
{
    struct app_line words = {.verb = verb};

    text_copy(words.hint, sizeof(words.hint), hint);
    return words;
}

/* Sooner or later than it is, at times: the step that is agreed is behind it then, or far away. */
static uint64_t pace_told(struct application_line *line)
{
    static const uint64_t paces[] = {0, PACE_NS / 10, UINT64_C(10) * PACE_NS};

    if (!sim_chance(line_sim(line), line->setup.manners->mispaces_in))
        return PACE_NS;
    return paces[sim_random(line_sim(line), ARRAY_COUNT(paces))];
}

static bool say_at(struct application_line *line)
{
    struct app_line words = line_about(APP_LINE_AT, line->hint);
    bool first = strcmp(line->at, line->hint) != 0;

    words.step = step_now(line);
    words.ns_per_step = pace_told(line);
    if (!line_say(line, &words))
        return false;
    text_copy(line->at, sizeof(line->at), line->hint);
    if (first)
        line->events.at(line->events.data, line->hint);
    return true;
}

/* What could not be said before. */
static void say_rest(struct application_line *line)
{
    struct app_line words = line_about(APP_LINE_MISSED, line->missed);

    words.step = line->missed_step;
    if (line->missed[0] != '\0' && line_say(line, &words))
        line->missed[0] = '\0';
    words = line_about(APP_LINE_DONE, line->answered);
    if (line->say_done && line_say(line, &words))
        line->say_done = false;
}

/* ---- its calls ---- */

static void line_forget(struct application_line *line)
{
    line->state = LINE_NOTHING;
    line->hint[0] = '\0';
    line->agreed = 0;
    line->clock.timer_stop(line->turn);
}

static void stick(struct application_line *line, uint64_t most_us)
{
    line->behind = step_now(line);
    line->stuck_us = sim_now_us(line_sim(line)) + 1 + sim_random(line_sim(line), most_us);
    line->clock.timer_start(line->turn, line->stuck_us - sim_now_us(line_sim(line)));
}

static void save(struct application_line *line)
{
    line->state = LINE_SAVING;
    line->events.due(line->events.data, line->agreed);
}

static void call_at(struct application_line *line)
{
    if (!line->setup.barrier) {
        save(line);
        return;
    }
    if (say_at(line))
        line->state = LINE_TOLD;
    if (sim_chance(line_sim(line), line->setup.manners->stuck_in))
        stick(line, STUCK_US);
    else
        line->clock.timer_start(line->turn, AT_EVERY_US);
}

/* When it comes to the agreed step, which is ahead. */
static void await_step(struct application_line *line)
{
    uint64_t now_us = sim_now_us(line_sim(line)), step_us = line->agreed * APPLICATION_STEP_US;

    line->clock.timer_start(line->turn, step_us > now_us ? step_us - now_us : 1);
}

static void line_goes_on(struct application_line *line);

static void line_turn(void *data)
{
    struct application_line *line = data;

    if (line->stopped || line->hung)
        return;
    if (line->stuck_us != 0) {
        line_goes_on(line);
        return;
    }
    switch (line->state) {
    case LINE_HEARD:
    case LINE_TOLD:
        call_at(line);
        return;
    case LINE_DUE:
        if (step_now(line) < line->agreed)
            await_step(line);
        else
            save(line);
        return;
    case LINE_NOTHING:
    case LINE_SAVING:
        return;
    }
}

/* ---- what it hears ---- */

static void take_ask(struct application_line *line, const struct app_line *ask)
{
    bool stuck = sim_chance(line_sim(line), line->setup.manners->stuck_in);

    if (line->state == LINE_SAVING && strcmp(ask->hint, line->hint) == 0)
        return;
    if (strcmp(ask->hint, line->answered) == 0) {
        line->say_done = true;
        say_rest(line);
        return;
    }
    if (strcmp(ask->hint, line->hint) == 0) {
        if (line->state == LINE_TOLD) /* its agent may have forgotten it */
            say_at(line);
        return;
    }
    if (line->state == LINE_SAVING)
        line->events.withdrawn(line->events.data);
    text_copy(line->hint, sizeof(line->hint), ask->hint);
    line->state = LINE_HEARD;
    line->agreed = 0;
    if (strcmp(ask->hint, line->heard) != 0) {
        text_copy(line->heard, sizeof(line->heard), ask->hint);
        line->events.asked(line->events.data, ask);
    }
    if (stuck)
        stick(line, STUCK_US);
    else
        line->clock.timer_start(line->turn,
                                1 + sim_random(line_sim(line), 2 * APPLICATION_STEP_US));
}

static void take_step(struct application_line *line, const struct app_line *words)
{
    if (strcmp(words->hint, APP_LINE_NO_HINT) == 0) {
        line->hears_step = line->setup.says_steps;
        return;
    }
    if (strcmp(words->hint, line->hint) != 0 || line->state == LINE_SAVING)
        return;
    line->events.agreed(line->events.data, words->hint, words->step);
    line->state = LINE_DUE;
    line->agreed = words->step;
    if (step_now(line) < words->step) {
        await_step(line);
        return;
    }
    text_copy(line->missed, sizeof(line->missed), line->hint);
    line->missed_step = step_now(line);
    line_forget(line);
    say_rest(line);
}

static void take_withdrawn(struct application_line *line, const char *hint)
{
    if (strcmp(hint, line->heard) == 0)
        line->heard[0] = '\0';
    if (strcmp(hint, line->hint) != 0)
        return;
    if (line->state == LINE_SAVING)
        line->events.withdrawn(line->events.data);
    line_forget(line);
}

static void take_line(struct application_line *line, const struct app_line *words)
{
    switch (words->verb) {
    case APP_LINE_ASK:
        take_ask(line, words);
        return;
    case APP_LINE_STEP:
        take_step(line, words);
        return;
    case APP_LINE_WITHDRAWN:
        take_withdrawn(line, words->hint);
        return;
    case APP_LINE_READY:
    case APP_LINE_REFUSED: /* it dials again, as the library does */
        return;
    case APP_LINE_HELLO:
    case APP_LINE_AT:
    case APP_LINE_MISSED:
    case APP_LINE_DONE:
    case APP_LINE_DEFER:
    case APP_LINE_PROGRESS:
    case APP_LINE_REQUEST:
    case APP_LINE_VERB_COUNT:
        CHECK_UNREACHABLE("a line of a rank");
    }
}

static void take_bytes(struct application_line *line, const uint8_t *bytes, size_t length)
{
    line->broken = false;
    while (length > 0 && !line->broken && line_listens(line)) {
        struct app_line words;
        struct err err;
        int found = app_line_next(&line->input, APP_LINE_FROM_AGENT, &bytes, &length, &words, &err);

        CHECK(found >= 0);
        if (found > 0)
            take_line(line, &words);
    }
    if (length > 0 && !line->broken)
        buf_append(&line->held, bytes, length);
}

/* As the library does at its next call: it reads what waits, with the step before in mind. */
static void line_goes_on(struct application_line *line)
{
    struct buf held = line->held;

    buf_init(&line->held);
    line->stuck_us = 0;
    if (line->state != LINE_NOTHING && line->state != LINE_SAVING)
        line->clock.timer_start(line->turn, 1);
    take_bytes(line, held.bytes, held.length);
    buf_close(&held);
    if (line->stuck_us != 0)
        return;
    line->behind = 0;
    if (line->stream == NULL)
        dial_again(line);
}

/* ---- steps that nobody has asked for ---- */

static void say_step(struct application_line *line)
{
    struct app_line words = line_about(APP_LINE_AT, APP_LINE_NO_HINT);
    const struct network_stream *stream = line->stream;

    words.step = step_now(line);
    words.ns_per_step = pace_told(line);
    if (line_say(line, &words) && line->stream == stream) /* else it may not have arrived */
        line->events.stepped(line->events.data);
}

static void line_says(void *data)
{
    struct application_line *line = data;
    bool hung = line->events.hangs(line->events.data);

    line->clock.timer_start(line->says, SAYS_US + sim_random(line_sim(line), SAYS_US / 4));
    if (hung && !line->hung)
        line->behind = step_now(line);
    if (hung != line->hung) {
        line->hung = hung;
        if (line_listens(line))
            line_goes_on(line);
        else if (!hung && !line->stopped) /* it is stuck as well */
            line->clock.timer_start(line->turn, 1);
    }
    if (line_listens(line) && line->open && line->hears_step)
        say_step(line);
}

/* ---- the stream ---- */

static void say_hello(struct application_line *line, enum app_line_way way)
{
    const struct application_line_setup *setup = &line->setup;
    struct app_line hello = {.verb = APP_LINE_HELLO,
                             .version = APP_LINE_VERSION,
                             .run = setup->run,
                             .rank = setup->number,
                             .local_rank = setup->number,
                             .ranks = APP_LINE_UNKNOWN,
                             .local_ranks = setup->ranks,
                             .way = way};

    if (sim_chance(line_sim(line), 3)) /* its launcher tells */
        hello.local_rank = hello.local_ranks = APP_LINE_UNKNOWN;
    text_copy(hello.id, sizeof(hello.id), line->allocation_id);
    line->open = true;
    if (!line_say(line, &hello) || !line->open)
        return;
    line->open = way != APP_LINE_OPENED;
    if (line->open)
        say_rest(line);
}

static enum app_line_way way_of(const struct application_line *line)
{
    return line->setup.barrier ? APP_LINE_BARRIER : APP_LINE_PLAIN;
}

/* It comes to its loop, on the stream on which it had said that it would, or on none. */
static void line_come(void *data)
{
    struct application_line *line = data;

    if (!line_listens(line)) {
        line->clock.timer_start(line->come, AT_EVERY_US);
        return;
    }
    line->came = true;
    if (line->announced)
        say_hello(line, way_of(line));
    line->announced = false;
}

static void on_opened(void *data)
{
    struct application_line *line = data;

    line->announced = !line->came;
    say_hello(line, line->came ? way_of(line) : APP_LINE_OPENED);
}

static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    struct application_line *line = data;

    if (line_listens(line))
        take_bytes(line, bytes, length);
    else
        buf_append(&line->held, bytes, length);
}

static void on_closed(void *data, const struct err *err)
{
    struct application_line *line = data;

    (void)err;
    line->stream = NULL;
    line->open = line->announced = line->hears_step = false;
    if (line_listens(line))
        dial_again(line);
}

static void line_dial(void *data)
{
    struct application_line *line = data;
    const struct network_events events = {
        .data = line, .opened = on_opened, .received = on_received, .closed = on_closed};

    if (!line_listens(line) || line->stream != NULL)
        return;
    line->dialled_us = sim_now_us(line_sim(line));
    line->input = (struct app_line_input){.length = 0};
    line->stream = line->network.connect(line->network.context, line->address, &events);
}

/* ---- from outside ---- */

void application_line_done(struct application_line *line)
{
    text_copy(line->answered, sizeof(line->answered), line->hint);
    line_forget(line);
    line->say_done = true;
    say_rest(line);
}

bool application_line_defer(struct application_line *line, uint64_t ms)
{
    struct app_line words = line_about(APP_LINE_DEFER, line->hint);

    words.defer_ms = ms;
    if (!line_say(line, &words))
        return false;
    line->heard[0] = '\0';
    line_forget(line);
    return true;
}

void application_line_progress(struct application_line *line, uint32_t ppm)
{
    struct app_line words = line_about(APP_LINE_PROGRESS, line->hint);

    words.ppm = ppm;
    line_say(line, &words);
}

void application_line_stopped(struct application_line *line, bool stopped)
{
    line->stopped = stopped;
    if (stopped)
        line->behind = step_now(line);
    else if (line->hung)
        return;
    else if (line->stuck_us <= sim_now_us(line_sim(line)))
        line_goes_on(line);
    else
        line->clock.timer_start(line->turn, line->stuck_us - sim_now_us(line_sim(line)));
}

void application_line_calm(struct application_line *line)
{
    line_forget(line);
    if (line->stuck_us != 0 && !line->stopped && !line->hung)
        line_goes_on(line);
}

struct application_line *application_line_new(const struct application_line_setup *setup,
                                              const struct application_line_events *events)
{
    struct application_line *line = check_calloc(1, sizeof(*line));
    struct agent_machine *machine = setup->machine;

    line->setup = *setup;
    line->events = *events;
    line->clock = *setup->clock;
    sim_node_network(machine->sim, machine->config.applications_node, &line->network);
    CHECK(snprintf(line->address, sizeof(line->address), "unix:%s#%d", setup->socket,
                   (int)setup->pid) < (int)sizeof(line->address));
    text_copy(line->allocation_id, sizeof(line->allocation_id), setup->allocation_id);
    buf_init(&line->held);
    line->turn = line->clock.timer_new(line->clock.context, line_turn, line);
    line->dial = line->clock.timer_new(line->clock.context, line_dial, line);
    line->come = line->clock.timer_new(line->clock.context, line_come, line);
    line->says = line->clock.timer_new(line->clock.context, line_says, line);
    if (setup->says_steps)
        line->clock.timer_start(line->says, SAYS_US);
    line->clock.timer_start(line->dial, 1);
    line->came = !sim_chance(machine->sim, LOADS_IN);
    if (!line->came)
        line->clock.timer_start(line->come, 1 + sim_random(machine->sim, LOADS_US));
    return line;
}

void application_line_free(struct application_line *line)
{
    if (line == NULL)
        return;
    line->network.close(line->stream);
    line->clock.timer_free(line->turn);
    line->clock.timer_free(line->dial);
    line->clock.timer_free(line->come);
    line->clock.timer_free(line->says);
    buf_close(&line->held);
    free(line);
}
