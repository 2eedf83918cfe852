/* One simulated application process. See application.h. */
#include "tests/sim/application.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/application_call.h"

enum {
    HANDLER_US = 200000,
    FROZEN_US = 8000000,
    PATH_BYTES = 256,
    TEXT_BYTES = APPLICATION_STATE_BYTES
};

enum fate {
    FATE_ANSWERS,
    FATE_NEVER,
    FATE_LATE,    /* at 100, 149 or 151 % of the timeout */
    FATE_SLOW,    /* a file more every now and then, up to 140 % */
    FATE_DIES,    /* in its handler, half of the files written */
    FATE_PARTIAL, /* half of the files, and says the bytes of all */
    FATE_REFUSES,
    FATE_EMPTY, /* done, and no file */
    FATE_STALE, /* an old hint first */
    /* of calls */
    FATE_DEFERS,  /* for longer than it may, at times */
    FATE_LIES,    /* tells of progress for ever */
    FATE_HANGS_UP /* without an answer */
};

struct application {
    struct agent_machine *machine;
    struct application_setup setup;
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[PATH_BYTES];
    struct machine_process *process;
    bool released;
    struct clock_ops clock;
    struct clock_timer *life;   /* its handler; then its own crash */
    struct clock_timer *answer; /* to the request in hand */
    struct application_state from;
    char rank[ID_MAX_BYTES + 1];   /* the node on which the rank began that it goes on with */
    char writer[ID_MAX_BYTES + 1]; /* of the shard that it began from; "": none */
    uint64_t from_us;
    /* the request in hand */
    enum fate fate;
    char hint[HINT_TEXT_BYTES];
    char directory[PATH_BYTES];
    uint64_t left_us; /* of a slow answer */
    unsigned parts;
    struct application_state snapshot;
    struct application_call *call; /* NULL: it is asked by a signal, or not served yet */
    uint64_t most_deferral_ms;     /* that it may put the request off by */
    bool ends_after_answer;        /* SIGTERM came while it wrote */
    bool life_ends_well;
};

/* What asks it, and SIGTERM. The other signal of SIGUSR1 and SIGUSR2 would kill it. */
static uint64_t handled_signals(const struct application *application)
{
    return UINT64_C(1) << (application->setup.way->signal - 1) | UINT64_C(1) << (SIGTERM - 1);
}

/* ---- the computation ---- */

static uint64_t step(uint64_t value, uint64_t iteration)
{
    uint64_t z = value + iteration * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 27);
}

static uint64_t seed_of(const char *allocation_id, const char *node_id)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);

    for (const char *at = allocation_id; *at != '\0'; at++)
        value = (value ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    for (const char *at = node_id; *at != '\0'; at++)
        value = (value ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return value;
}

static struct application_state iterate(struct application_state state, uint64_t until)
{
    for (; state.iteration < until; state.iteration++)
        state.value = step(state.value, state.iteration);
    return state;
}

struct application_state application_truth(const char *allocation_id, const char *node_id,
                                           uint64_t iteration)
{
    return iterate((struct application_state){0, seed_of(allocation_id, node_id)}, iteration);
}

struct application_state application_now(const struct application *application)
{
    uint64_t passed_us = sim_now_us(application->machine->sim) - application->from_us;

    if (!application->released)
        return application->from;
    return iterate(application->from,
                   application->from.iteration + passed_us / APPLICATION_STEP_US);
}

/* ---- its files ---- */

void application_state_text(const char *allocation_id, const char *node_id, const char *rank,
                            const char *hint, struct application_state state,
                            char text[APPLICATION_STATE_BYTES])
{
    CHECK(snprintf(text, APPLICATION_STATE_BYTES,
                   "allocation=%s\nnode=%s\nrank=%s\nhint=%s\niteration=%" PRIu64
                   "\nvalue=%016" PRIx64 "\n",
                   allocation_id, node_id, rank, hint, state.iteration,
                   state.value) < APPLICATION_STATE_BYTES);
}

static void state_write(const struct application *application, const char *directory,
                        const char *name)
{
    char path[PATH_BYTES + 64];
    char text[APPLICATION_STATE_BYTES];

    application_state_text(application->allocation_id, application->machine->name,
                           application->rank, application->hint, application->snapshot, text);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    agent_files_write(application->machine->files, path, text, strlen(text)); /* or it is gone */
}

static bool file_line(const char *text, const char *key, char *ret_value, size_t size)
{
    const char *at = strstr(text, key);
    size_t length;

    if (at == NULL)
        return false;
    at += strlen(key);
    length = strcspn(at, "\n");
    if (length >= size)
        return false;
    memcpy(ret_value, at, length);
    ret_value[length] = '\0';
    return true;
}

/* Of a restored folder: -1 when the file is not one of a rank of this job. */
static int state_read(struct application *application, const char *directory, const char *name,
                      uint64_t checkpoint_id, struct application_state *ret_state)
{
    char path[PATH_BYTES + 64];
    char text[TEXT_BYTES];
    char head[TEXT_BYTES];
    char id[CHECKPOINT_ID_TEXT_BYTES];
    const struct agent_file *file;
    unsigned attempt;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = agent_files_find(application->machine->files, path);
    if (file == NULL || file->content.length >= sizeof(text))
        return -1;
    memcpy(text, file->content.bytes, file->content.length);
    text[file->content.length] = '\0';
    if (!file_line(text, "\nnode=", application->writer, sizeof(application->writer)) ||
        !file_line(text, "\nrank=", application->rank, sizeof(application->rank)))
        return -1;
    snprintf(head, sizeof(head), "allocation=%s\nnode=%s\nrank=%s\nhint=%s-",
             application->allocation_id, application->writer, application->rank,
             checkpoint_id_format(checkpoint_id, id));
    if (strncmp(text, head, strlen(head)) != 0)
        return -1;
    return sscanf(text + strlen(head), "%u\niteration=%" SCNu64 "\nvalue=%" SCNx64 "\n", &attempt,
                  &ret_state->iteration, &ret_state->value) == 3
               ? 0
               : -1;
}

static void done_write(const struct application *application, const char *hint, uint64_t bytes,
                       const char *status)
{
    struct agent_files *files = application->machine->files;
    char from[PATH_BYTES + 16];
    char to[PATH_BYTES + 16];
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof(text), "hint=%s\nbytes=%" PRIu64 "\nstatus=%s\n", hint,
                          bytes, status);

    snprintf(from, sizeof(from), "%s/done.new", application->work_dir);
    snprintf(to, sizeof(to), "%s/done", application->work_dir);
    if (agent_files_write(files, from, text, (size_t)length) == 0)
        CHECK(agent_files_rename(files, from, to) == 0);
}

static uint64_t bytes_written(const struct application *application)
{
    const struct agent_file *file;
    uint64_t bytes = 0;

    for (size_t i = 0;
         (file = agent_files_below(application->machine->files, application->directory, i)) != NULL;
         i++)
        bytes += file->content.length;
    return bytes;
}

/* ---- a request ---- */

static bool draw(const struct application *application, uint64_t in)
{
    return sim_chance(application->machine->sim, in);
}

static enum fate draw_fate(const struct application *application)
{
    const struct application_manners *manners = application->setup.manners;
    const uint64_t chances[] = {
        [FATE_NEVER] = manners->never_in,     [FATE_LATE] = manners->late_in,
        [FATE_SLOW] = manners->slow_in,       [FATE_DIES] = manners->dies_in,
        [FATE_PARTIAL] = manners->partial_in, [FATE_REFUSES] = manners->refuses_in,
        [FATE_EMPTY] = manners->empty_in,     [FATE_STALE] = manners->stale_in};

    for (size_t i = FATE_NEVER; i < ARRAY_COUNT(chances); i++)
        if (draw(application, chances[i]))
            return (enum fate)i;
    return FATE_ANSWERS;
}

/* False: there is none. */
static bool request_read(struct application *application, uint64_t *ret_timeout_us)
{
    char path[PATH_BYTES + 16];
    char text[2 * TEXT_BYTES];
    char number[32];
    const struct agent_file *file;
    uint64_t deadline_ms;
    uint64_t now_ms = application->clock.wall_ms(application->clock.context);

    snprintf(path, sizeof(path), "%s/request", application->work_dir);
    file = agent_files_find(application->machine->files, path);
    if (file == NULL || file->content.length >= sizeof(text))
        return false;
    memcpy(text, file->content.bytes, file->content.length);
    text[file->content.length] = '\0';
    if (!file_line(text, "hint=", application->hint, sizeof(application->hint)) ||
        !file_line(text, "directory=", application->directory, sizeof(application->directory)) ||
        !file_line(text, "deadline_ms=", number, sizeof(number)))
        return false;
    deadline_ms = strtoull(number, NULL, 10);
    *ret_timeout_us = deadline_ms > now_ms ? (deadline_ms - now_ms) * 1000 : 0;
    return true;
}

static enum fate draw_call_fate(const struct application *application)
{
    const struct application_manners *manners = application->setup.manners;

    if (draw(application, manners->defers_in))
        return FATE_DEFERS;
    if (draw(application, manners->lies_in))
        return FATE_LIES;
    if (draw(application, manners->hangs_up_in))
        return FATE_HANGS_UP;
    return draw_fate(application);
}

static uint64_t answer_delay(struct application *application, uint64_t timeout_us)
{
    static const unsigned late_percent[] = {100, 149, 151};

    application->left_us = 0;
    application->parts = 0;
    if (application->fate == FATE_LATE)
        return timeout_us * late_percent[sim_random(application->machine->sim, 3)] / 100;
    if (application->fate == FATE_SLOW)
        application->left_us = timeout_us * (40 + sim_random(application->machine->sim, 100)) / 100;
    return 1000 + sim_random(application->machine->sim, 400000);
}

/* Of the request in hand. */
static void take_request(struct application *application, uint64_t timeout_us)
{
    application->setup.checks->asked(application->setup.checks->data, application,
                                     application->hint);
    application->snapshot = application_now(application);
    application->fate =
        application->setup.way->calls ? draw_call_fate(application) : draw_fate(application);
    if (application->fate == FATE_NEVER)
        application->clock.timer_stop(application->answer);
    else
        application->clock.timer_start(application->answer, answer_delay(application, timeout_us));
}

static void handle_request(struct application *application)
{
    uint64_t timeout_us;

    if (application->setup.way->calls)
        application->setup.checks->violation(application->setup.checks->data, "S1-031",
                                             "a signal came to who is called");
    if (!request_read(application, &timeout_us))
        application->setup.checks->violation(application->setup.checks->data, "I22",
                                             "a signal came and there is no request");
    take_request(application, timeout_us);
}

static void call_asked(void *data, const Ckpt__V1__AppCheckpointRequest *request)
{
    struct application *application = data;
    uint64_t now_ms = application->clock.wall_ms(application->clock.context);
    char id[CHECKPOINT_ID_TEXT_BYTES];

    snprintf(application->hint, sizeof(application->hint), "%s-%" PRIu32,
             checkpoint_id_format(request->checkpoint_id, id), request->attempt);
    snprintf(application->directory, sizeof(application->directory), "%s", request->directory);
    application->most_deferral_ms = request->max_deferral_ms;
    take_request(application,
                 request->deadline_ms > now_ms ? (request->deadline_ms - now_ms) * 1000 : 0);
    if (application->process->frozen)
        application->clock.timer_stop(application->answer);
}

/* Half of them go on writing. */
static void call_withdrawn(void *data)
{
    struct application *application = data;

    if (draw(application, 2))
        application->clock.timer_stop(application->answer);
}

static void serve_calls(struct application *application)
{
    const struct application_call_events events = {application, call_asked, call_withdrawn};

    if (application->setup.way->calls && application->call == NULL)
        application->call = application_call_new(application->machine, application->process->pid,
                                                 application->allocation_id, &events);
}

static void answered(struct application *application)
{
    if (application->ends_after_answer)
        application_finish(application, 0);
}

/* Says so in its way. */
static void answer(const struct application *application, uint64_t bytes, const char *status)
{
    if (application->call == NULL)
        done_write(application, application->hint, bytes, status);
    else if (strcmp(status, "0") == 0)
        application_call_done(application->call, bytes);
    else
        application_call_failed(application->call, status);
}

/* True: this is the whole answer this time. */
static bool give_call_answer(struct application *application)
{
    struct sim *sim = application->machine->sim;

    switch (application->fate) {
    case FATE_DEFERS:
        application->setup.checks->deferred(application->setup.checks->data, application,
                                            application->hint);
        application_call_defer(application->call,
                               1 + sim_random(sim, 2 * application->most_deferral_ms + 1000));
        return true;
    case FATE_LIES:
        application_call_progress(application->call, application->parts++ * 1000);
        application->clock.timer_start(application->answer, 300000);
        return true;
    case FATE_HANGS_UP:
        application_call_end(application->call);
        return true;
    default:
        return false;
    }
}

static void give_answer(void *data)
{
    struct application *application = data;
    enum fate fate = application->fate;
    char name[32];

    if (application->call != NULL && give_call_answer(application))
        return;
    if (application->left_us > 0) { /* a part now, the next one later */
        uint64_t wait_us = application->left_us < 300000 ? application->left_us : 300000;
        snprintf(name, sizeof(name), "part-%u", application->parts++);
        state_write(application, application->directory, name);
        application->left_us -= wait_us;
        if (application->call != NULL)
            application_call_progress(application->call, application->parts * 10000);
        application->clock.timer_start(application->answer, wait_us);
        return;
    }
    if (fate == FATE_REFUSES || fate == FATE_EMPTY) {
        answer(application, 0, fate == FATE_EMPTY ? "0" : "not now");
        answered(application);
        return;
    }
    state_write(application, application->directory, "state");
    if (fate == FATE_DIES) {
        agent_machine_end(application->machine, application->process, SIGSEGV);
        return;
    }
    if (fate == FATE_STALE) { /* once more from here, with the right one */
        done_write(application, "1-1-77", bytes_written(application), "0");
        application->fate = FATE_ANSWERS;
        application->clock.timer_start(application->answer, 300000);
        return;
    }
    if (fate == FATE_PARTIAL) {
        answer(application, 2 * bytes_written(application), "0");
        answered(application);
        return;
    }
    state_write(application, application->directory, "again");
    answer(application, bytes_written(application), "0");
    answered(application);
}

/* ---- its life ---- */

static void helper_signalled(void *data, int signal)
{
    (void)data;
    (void)signal;
}

static void helper_ended(void *data, int wait_status)
{
    (void)data;
    (void)wait_status;
}

/* A process that outlives it until a signal that it does not ignore: in its group and with an
 * environment of its own, or the other way round. */
static void start_helper(struct application *application)
{
    const struct machine_program program = {NULL, "helper", helper_signalled, helper_ended};
    bool leaves = draw(application, 3);
    struct machine_process *helper =
        agent_machine_spawn(application->machine, leaves ? 0 : application->process->pid, &program);

    helper->origin_ticks = leaves ? application->process->start_ticks : 0;
    helper->kept = false;
    if (!draw(application, application->setup.manners->no_handler_in))
        helper->ignored = UINT64_C(1) << (application->setup.way->signal - 1);
    if (draw(application, application->setup.manners->deaf_in))
        helper->ignored |= UINT64_C(1) << (SIGTERM - 1);
}

static void handle_terminate(struct application *application)
{
    if (draw(application, application->setup.manners->deaf_in))
        return; /* SIGKILL will */
    if (application->fate == FATE_ANSWERS && draw(application, 2) &&
        application->process->caught != 0)
        application->ends_after_answer = true;
    if (application->ends_after_answer)
        application->clock.timer_start(application->answer, 1000);
    else
        application_finish(application, draw(application, 2) ? 0 : 143 << 8);
}

static void on_signal(void *data, int signal)
{
    struct application *application = data;

    if (!application->released)
        return;
    if (signal == application->setup.way->signal)
        handle_request(application);
    else if (signal == SIGTERM)
        handle_terminate(application);
}

static void on_ended(void *data, int wait_status)
{
    struct application *application = data;
    struct application_setup setup = application->setup;

    if (application->released)
        setup.checks->ended(setup.checks->data, application);
    application_call_free(application->call);
    application->clock.timer_free(application->life);
    application->clock.timer_free(application->answer);
    free(application);
    if (setup.ended != NULL)
        setup.ended(setup.data, wait_status);
}

/* What becomes of a run that has its handler: crash, hang, good end, or none of them. */
static void draw_life(struct application *application)
{
    const struct application_manners *manners = application->setup.manners;
    struct sim *sim = application->machine->sim;

    application->life_ends_well = manners->finishes;
    if (manners->finishes) {
        application->clock.timer_start(application->life, 1000000 + sim_random(sim, 5000000));
    } else if (draw(application, manners->crashes_in)) {
        application->clock.timer_start(application->life, 1 + sim_random(sim, 20000000));
    } else if (draw(application, manners->freezes_in)) {
        application->process->frozen = true;
        application->clock.timer_start(application->life, FROZEN_US);
    }
}

static void life_goes_on(void *data)
{
    struct application *application = data;

    if (application->process->caught == 0) {
        application->process->caught = handled_signals(application);
        serve_calls(application);
        draw_life(application);
    } else if (application->process->frozen) {
        agent_machine_thaw(application->machine, application->process);
    } else if (application->life_ends_well) {
        application_finish(application, 0);
    } else {
        agent_machine_end(application->machine, application->process, SIGSEGV);
    }
}

struct application *application_new(struct agent_machine *machine,
                                    const struct application_setup *setup)
{
    struct application *application = check_calloc(1, sizeof(*application));
    const struct machine_program program = {application, "application", on_signal, on_ended};

    application->machine = machine;
    application->setup = *setup;
    snprintf(application->allocation_id, sizeof(application->allocation_id), "%s",
             setup->allocation_id);
    snprintf(application->work_dir, sizeof(application->work_dir), "%s", setup->work_dir);
    sim_node_clock(machine->sim, machine->config.applications_node, &application->clock);
    application->life =
        application->clock.timer_new(application->clock.context, life_goes_on, application);
    application->answer =
        application->clock.timer_new(application->clock.context, give_answer, application);
    application->fate = FATE_NEVER;
    application->process = agent_machine_spawn(machine, 0, &program);
    return application;
}

static void start_from(struct application *application, uint64_t checkpoint_id,
                       const char *restore_dir)
{
    const struct application_checks *checks = application->setup.checks;
    struct application_state again;

    snprintf(application->rank, sizeof(application->rank), "%s", application->machine->name);
    application->from = application_truth(application->allocation_id, application->rank, 0);
    if (checkpoint_id == 0)
        return;
    if (state_read(application, restore_dir, "state", checkpoint_id, &application->from) != 0 ||
        state_read(application, restore_dir, "again", checkpoint_id, &again) != 0)
        checks->violation(checks->data, "I27",
                          "what was restored is not a whole shard of this rank and checkpoint");
    if (again.iteration != application->from.iteration || again.value != application->from.value ||
        application_truth(application->allocation_id, application->rank, again.iteration).value !=
            again.value)
        checks->violation(checks->data, "I27",
                          "what was restored is not the state of an undisturbed run");
}

void application_release(struct application *application, uint64_t checkpoint_id,
                         const char *restore_dir)
{
    CHECK(!application->released);
    start_from(application, checkpoint_id, restore_dir);
    application->from_us = sim_now_us(application->machine->sim);
    application->released = true;
    application->setup.checks->started(application->setup.checks->data, application, checkpoint_id);
    if (draw(application, application->setup.manners->helper_in))
        start_helper(application);
    if (!draw(application, application->setup.manners->no_handler_in))
        application->clock.timer_start(application->life,
                                       sim_random(application->machine->sim, HANDLER_US));
}

void application_orphan(struct application *application)
{
    struct agent_machine *machine = application->machine;

    application->setup.ended = NULL;
    agent_machine_reap(machine, application->process);
    if (!application->released)
        agent_machine_end(machine, application->process, APPLICATION_GATE_CLOSED);
}

void application_finish(struct application *application, int wait_status)
{
    struct application_state now = application_now(application);

    if (application->released &&
        application_truth(application->allocation_id, application->rank, now.iteration).value !=
            now.value)
        application->setup.checks->violation(application->setup.checks->data, "I27",
                                             "the result is not that of an undisturbed run");
    agent_machine_end(application->machine, application->process, wait_status);
}

void application_calm(struct application *application)
{
    if (!application->released)
        return;
    application->fate = FATE_NEVER; /* what is in hand is given up: the broker asks again */
    application->clock.timer_stop(application->answer);
    application->process->caught = handled_signals(application);
    serve_calls(application);
    application->clock.timer_stop(application->life);
    draw_life(application);
    if (application->process->frozen)
        agent_machine_thaw(application->machine, application->process);
}

const struct machine_process *application_process(const struct application *application)
{
    return application->process;
}

struct agent_machine *application_machine(const struct application *application)
{
    return application->machine;
}

const char *application_allocation(const struct application *application)
{
    return application->allocation_id;
}

uint64_t application_part_run(const struct application *application)
{
    return application->setup.part_run;
}

const char *application_shard_of(const struct application *application)
{
    return application->writer;
}

bool application_is_called(const struct application *application)
{
    return application->setup.way->calls;
}

bool application_from_scratch(const struct application *application)
{
    return application->setup.from_scratch;
}

bool application_released(const struct application *application)
{
    return application->released;
}
