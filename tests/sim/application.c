/* One simulated application process. See application.h. */
#include "tests/sim/application.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/application_call.h"
#include "tests/sim/application_ranks.h"
#include "tests/sim/application_region.h"

enum {
    HANDLER_US = 200000,
    LAUNCHER_US = 1000000,
    FROZEN_US = 8000000,
    HUNG_US = 1000000,
    LOOK_US = 100000, /* as src/agent/run/run_stand_in.c */
    PATH_BYTES = APPLICATION_PATH_BYTES
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
    struct clock_timer *looks;  /* for a request, where nothing tells it of one */
    struct application_state from;
    char rank
        [APPLICATION_IDENTITY_BYTES]; /* the node on which the rank began that it goes on with */
    char writer[ID_MAX_BYTES + 1];    /* of the shard that it began from; "": none */
    uint64_t from_us;
    /* the request in hand */
    struct answering answering;
    char hint[HINT_TEXT_BYTES];
    char directory[PATH_BYTES];
    struct application_state snapshot;
    struct application_call *call;   /* NULL: it is asked by a signal, or not served yet */
    uint64_t most_deferral_ms;       /* that it may put the request off by */
    char region[PATH_BYTES];         /* "": it is asked otherwise */
    uint32_t word;                   /* taken there last */
    struct application_ranks *ranks; /* NULL: it has none but itself */
    /* its last label, and the question of it: an answer that is said twice is the same */
    char said_hint[HINT_TEXT_BYTES], said_label[LABEL_MAX_BYTES + 1];
    bool lost_rank;            /* its launcher is about to notice */
    bool answer_due, life_due; /* while it stands still */
    bool ends_after_answer;    /* SIGTERM came while it wrote */
    bool life_ends_well;
    struct application_point point; /* that it began from */
};

/* What asks it, and SIGTERM. The other signal of SIGUSR1 and SIGUSR2 would kill it, and both a
 * launcher. */
static uint64_t handled_signals(const struct application *application)
{
    if (application->setup.ranks > 0)
        return UINT64_C(1) << (SIGTERM - 1);
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

struct application_state application_iterate(struct application_state state, uint64_t until)
{
    for (; state.iteration < until; state.iteration++)
        state.value = step(state.value, state.iteration);
    return state;
}

struct application_state application_truth(const char *allocation_id, const char *node_id,
                                           uint64_t iteration)
{
    return application_iterate((struct application_state){0, seed_of(allocation_id, node_id)},
                               iteration);
}

struct application_state application_now(const struct application *application)
{
    uint64_t passed_us = sim_now_us(application->machine->sim) - application->from_us;

    if (!application->released || application->process->stopped)
        return application->from;
    return application_iterate(application->from,
                               application->from.iteration + passed_us / APPLICATION_STEP_US);
}

/* ---- a request ---- */

static bool draw(const struct application *application, uint64_t in)
{
    return sim_chance(application->machine->sim, in);
}

static uint64_t left_us(const struct application *application, uint64_t deadline_ms)
{
    uint64_t now_ms = application->clock.wall_ms(application->clock.context);

    return deadline_ms > now_ms ? (deadline_ms - now_ms) * 1000 : 0;
}

/* False: there is none. */
static bool request_read(struct application *application, uint64_t *ret_timeout_us)
{
    struct application_request request;

    if (!application_request_read(application->machine, application->work_dir, &request))
        return false;
    memcpy(application->hint, request.hint, sizeof(application->hint));
    memcpy(application->directory, request.directory, sizeof(application->directory));
    *ret_timeout_us = left_us(application, request.deadline_ms);
    return true;
}

/* Of the request in hand. */
static void take_request(struct application *application, uint64_t timeout_us)
{
    struct sim *sim = application->machine->sim;

    application->setup.checks->asked(application->setup.checks->data, application, 0,
                                     application->hint);
    application->snapshot = application_now(application);
    answering_draw(&application->answering, sim, application->setup.manners,
                   application->setup.way->calls, 1);
    if (application->answering.fate == FATE_NEVER)
        application->clock.timer_stop(application->answer);
    else
        application->clock.timer_start(application->answer,
                                       answering_delay(&application->answering, sim, timeout_us));
}

static void handle_request(struct application *application)
{
    uint64_t timeout_us;

    if (application_is_called(application))
        application->setup.checks->violation(application->setup.checks->data, "S1-031, S1-037",
                                             "a signal came to who is asked in another way");
    if (!request_read(application, &timeout_us))
        application->setup.checks->violation(application->setup.checks->data, "I22",
                                             "a signal came and there is no request");
    take_request(application, timeout_us);
}

/* Whoever is woken looks; so does one that was asked before it looked for the first time. */
static void region_look(void *data)
{
    struct application *application = data;
    struct application_request request;
    uint32_t word = 0;

    if (application->released && application->region[0] != '\0' &&
        application->process->caught != 0)
        word = application_region_asked(application->machine, application->region, &request);
    if (word == 0 || word == application->word)
        return;
    application->word = word;
    memcpy(application->hint, request.hint, sizeof(application->hint));
    memcpy(application->directory, request.directory, sizeof(application->directory));
    take_request(application, left_us(application, request.deadline_ms));
}

/* Ten times a second: each question once. A question that is withdrawn is answered all the same, or
 * gives way to the next one. */
static void file_look(void *data)
{
    struct application *application = data;
    char before[HINT_TEXT_BYTES];
    uint64_t timeout_us;

    memcpy(before, application->hint, sizeof(before));
    application->clock.timer_start(application->looks, LOOK_US);
    if (!application->process->stopped && !application->process->frozen &&
        application->process->caught != 0 && request_read(application, &timeout_us) &&
        strcmp(before, application->hint) != 0)
        take_request(application, timeout_us);
}

static void call_asked(void *data, const Ckpt__V1__AppCheckpointRequest *request)
{
    struct application *application = data;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    snprintf(application->hint, sizeof(application->hint), "%s-%" PRIu32,
             checkpoint_id_format(request->checkpoint_id, id), request->attempt);
    snprintf(application->directory, sizeof(application->directory), "%s", request->directory);
    application->most_deferral_ms = request->max_deferral_ms;
    take_request(application, left_us(application, request->deadline_ms));
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

static void done_write(const struct application *application, const char *hint, uint64_t bytes,
                       const char *status, const char *label)
{
    const struct application_done done = {hint, status, bytes, label};

    if (application->region[0] != '\0')
        application_region_done(application->machine, application->region, application->word,
                                &done);
    else
        application_done_write(application->machine, application->work_dir, "done", &done);
}

static uint64_t bytes_written(const struct application *application)
{
    return application_bytes_written(application->machine, application->directory, "");
}

static void state_write(const struct application *application, const char *name)
{
    const struct application_owner owner = {application->allocation_id, application->machine->name,
                                            application->rank};
    char path[PATH_BYTES + 64];

    snprintf(path, sizeof(path), "%s/%s", application->directory, name);
    application_state_write(application->machine, path, &owner, application->hint,
                            application->snapshot);
}

/* Says so in its way. */
static void answer(struct application *application, uint64_t bytes, const char *status)
{
    const struct application_checks *checks = application->setup.checks;
    bool well = strcmp(status, "0") == 0;
    char label[LABEL_MAX_BYTES + 1] = "";

    if (well && strcmp(application->said_hint, application->hint) != 0) {
        application_label(&application->setup, application->machine->sim, application->hint,
                          application->said_label);
        strcpy(application->said_hint, application->hint);
    }
    if (well)
        strcpy(label, application->said_label);
    if (well)
        checks->done(checks->data, application->machine, &application->setup, application->hint, 0,
                     label);
    if (application->call == NULL)
        done_write(application, application->hint, bytes, status, label);
    else if (well)
        application_call_done(application->call, bytes, label);
    else
        application_call_failed(application->call, status);
}

/* True: this is the whole answer this time. */
static bool give_call_answer(struct application *application)
{
    struct sim *sim = application->machine->sim;

    switch (application->answering.fate) {
    case FATE_DEFERS:
        application->setup.checks->deferred(application->setup.checks->data, application,
                                            application->hint);
        application_call_defer(application->call,
                               1 + sim_random(sim, 2 * application->most_deferral_ms + 1000));
        return true;
    case FATE_LIES:
        application_call_progress(application->call, application->answering.parts++ * 1000);
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
    enum fate fate = application->answering.fate;
    char name[32];

    application->answer_due = application->process->stopped;
    if (application->answer_due)
        return;
    if (application->call != NULL && give_call_answer(application))
        return;
    if (application->answering.left_us > 0) { /* a part now, the next one later */
        uint64_t wait_us =
            application->answering.left_us < 300000 ? application->answering.left_us : 300000;
        snprintf(name, sizeof(name), "part-%u", application->answering.parts++);
        state_write(application, name);
        application->answering.left_us -= wait_us;
        if (application->call != NULL)
            application_call_progress(application->call, application->answering.parts * 10000);
        application->clock.timer_start(application->answer, wait_us);
        return;
    }
    if (fate == FATE_REFUSES || fate == FATE_EMPTY) {
        answer(application, 0, fate == FATE_EMPTY ? "0" : "not now");
        answered(application);
        return;
    }
    state_write(application, "state");
    if (fate == FATE_DIES) {
        agent_machine_end(application->machine, application->process, SIGSEGV);
        return;
    }
    if (fate == FATE_STALE) { /* once more from here, with the right one */
        if (application->region[0] != '\0')
            application_region_stale(application->machine, application->region,
                                     application->word - 2);
        else
            done_write(application, "1-1-77", bytes_written(application), "0", "");
        application->answering.fate = FATE_ANSWERS;
        application->clock.timer_start(application->answer, 300000);
        return;
    }
    if (fate == FATE_PARTIAL) {
        answer(application, 2 * bytes_written(application), "0");
        answered(application);
        return;
    }
    state_write(application, "again");
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
    const struct machine_program program = {NULL,         "helper", helper_signalled,
                                            helper_ended, NULL,     NULL};
    bool leaves = draw(application, 3);
    struct machine_process *helper =
        agent_machine_spawn(application->machine, leaves ? 0 : application->process->pid, &program);

    helper->origin_ticks = leaves ? application->process->start_ticks : 0;
    helper->cgroup_ticks = application->process->cgroup_ticks;
    if (helper->cgroup_ticks != 0 && helper->pid % 2 == 0)
        helper->origin_ticks = 0; /* it has cleared its environment */
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
    if (application->answering.fate == FATE_ANSWERS && draw(application, 2) &&
        application->process->caught != 0)
        application->ends_after_answer = true;
    if (application->ends_after_answer)
        application->clock.timer_start(application->answer, 1000);
    else
        application_finish(application, draw(application, 2) ? 0 : 143 << 8);
}

/* What it computes stands still; what was to happen does so when it goes on. */
static void on_stopped(void *data, bool stopped)
{
    struct application *application = data;
    uint64_t passed_us = sim_now_us(application->machine->sim) - application->from_us;

    if (stopped) {
        application->from = application_iterate(
            application->from, application->from.iteration + passed_us / APPLICATION_STEP_US);
        return;
    }
    application->from_us = sim_now_us(application->machine->sim);
    if (application->answer_due)
        application->clock.timer_start(application->answer, 1);
    if (application->life_due)
        application->clock.timer_start(application->life, 1);
    application->answer_due = application->life_due = false;
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
    application_ranks_leave(application->ranks);
    application->clock.timer_free(application->life);
    application->clock.timer_free(application->answer);
    application->clock.timer_free(application->looks);
    free(application);
    if (setup.ended != NULL)
        setup.ended(setup.data, wait_status);
}

/* With its job. */
static bool hangs(const struct application *application)
{
    struct application_setup setup = application->setup;

    setup.allocation_id = application->allocation_id;
    return setup.says_steps &&
           setup.checks->hangs(setup.checks->data, application->machine, &setup);
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

static void catch_signals(struct application *application)
{
    application->process->caught = handled_signals(application);
    if (application->region[0] != '\0')
        application_region_open(application->machine, application->region);
    if (application->ranks != NULL)
        application_ranks_catch(application->ranks);
}

void application_lost_rank(struct application *application)
{
    if (application->lost_rank || !application->process->living)
        return;
    application->lost_rank = true;
    application->clock.timer_start(application->life,
                                   sim_random(application->machine->sim, LAUNCHER_US));
}

static void life_goes_on(void *data)
{
    struct application *application = data;

    application->life_due = application->process->stopped;
    if (application->life_due)
        return;
    if (application->lost_rank) {
        application_ranks_end(application->ranks, SIGKILL);
        agent_machine_end(application->machine, application->process, 137 << 8);
    } else if (application->process->caught == 0) {
        catch_signals(application);
        serve_calls(application);
        draw_life(application);
    } else if (application->process->frozen) {
        agent_machine_thaw(application->machine, application->process);
    } else if (application->life_ends_well && hangs(application)) {
        application->clock.timer_start(application->life, HUNG_US);
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
    const struct machine_program program = {
        application, setup->ranks > 0 ? "mpirun" : "application", on_signal, on_ended, region_look,
        on_stopped};

    application->machine = machine;
    application->setup = *setup;
    snprintf(application->allocation_id, sizeof(application->allocation_id), "%s",
             setup->allocation_id);
    snprintf(application->work_dir, sizeof(application->work_dir), "%s", setup->work_dir);
    snprintf(application->region, sizeof(application->region), "%s", setup->region);
    sim_node_clock(machine->sim, machine->config.applications_node, &application->clock);
    application->life =
        application->clock.timer_new(application->clock.context, life_goes_on, application);
    application->answer =
        application->clock.timer_new(application->clock.context, give_answer, application);
    application->looks =
        application->clock.timer_new(application->clock.context, file_look, application);
    application->answering.fate = FATE_NEVER;
    application->process = agent_machine_spawn(machine, 0, &program);
    application->process->launcher = setup->ranks > 0;
    return application;
}

static struct application_state truth_of(const struct application *application,
                                         const char *identity, uint64_t iteration)
{
    const struct application_checks *checks = application->setup.checks;

    return application_truth(checks->computes(checks->data, application->allocation_id), identity,
                             iteration);
}

/* The state of one part of the shard, which it has twice; its identity is who wrote it first. */
static void restore_from(struct application *application, const char *folder,
                         uint64_t checkpoint_id, const char *suffix,
                         struct application_restored *ret_restored)
{
    const struct application_checks *checks = application->setup.checks;
    const char *writer = checks->wrote(checks->data, application->allocation_id, checkpoint_id);
    struct application_restored again;
    char state[PATH_BYTES + 96], second[PATH_BYTES + 96];

    snprintf(state, sizeof(state), "%s/state%s", folder, suffix);
    snprintf(second, sizeof(second), "%s/again%s", folder, suffix);
    if (application_state_read(application->machine, state, writer, checkpoint_id, ret_restored) !=
            0 ||
        application_state_read(application->machine, second, writer, checkpoint_id, &again) != 0)
        checks->violation(checks->data, "I27",
                          "what was restored is not a whole shard of this rank and checkpoint");
    if (again.state.iteration != ret_restored->state.iteration ||
        again.state.value != ret_restored->state.value ||
        strcmp(again.identity, ret_restored->identity) != 0 ||
        truth_of(application, again.identity, again.state.iteration).value != again.state.value)
        checks->violation(checks->data, "I27",
                          "what was restored is not the state of an undisturbed run");
    snprintf(application->writer, sizeof(application->writer), "%s", ret_restored->writer);
}

static void part_folder(const struct application_point *point, uint32_t part,
                        char folder[PATH_BYTES])
{
    char name[PART_NAME_BYTES];

    CHECK(part < point->parts);
    CHECK(snprintf(folder, PATH_BYTES, "%s/%s", point->folder, part_name_format(part, name)) <
          PATH_BYTES);
}

/* Of all parts that are there, its own the last. */
void application_restore(struct application *application, const struct application_point *point,
                         const char *own, const char *suffix,
                         struct application_restored *ret_restored)
{
    uint32_t count = point->parts == 0 ? 1 : point->parts;
    char folder[PATH_BYTES], in_own[PATH_BYTES + 64];

    for (uint32_t i = 1; i <= count; i++) {
        if (point->parts == 0)
            snprintf(folder, sizeof(folder), "%s", point->folder);
        else
            part_folder(point, (point->place + i) % count, folder);
        snprintf(in_own, sizeof(in_own), "%s/%s", folder, own == NULL ? "" : own);
        restore_from(application,
                     own != NULL && application_folder_there(application->machine, in_own) ? in_own
                                                                                           : folder,
                     point->checkpoint_id, suffix, ret_restored);
    }
}

/* At a destination they may have got lost since they were verified. */
static bool point_is_there(const struct application *application,
                           const struct application_point *point)
{
    char folder[PATH_BYTES];

    for (uint32_t i = 0; i < point->parts; i++) {
        part_folder(point, i, folder);
        if (!application_folder_there(application->machine, folder))
            return false;
    }
    return true;
}

static void start_from(struct application *application, const struct application_point *point)
{
    struct application_restored restored;

    snprintf(application->rank, sizeof(application->rank), "%s", application->machine->name);
    application->from = truth_of(application, application->rank, 0);
    if (point->checkpoint_id == 0)
        return;
    application_restore(application, point, NULL, "", &restored);
    application->from = restored.state;
    snprintf(application->rank, sizeof(application->rank), "%s", restored.identity);
}

void application_release(struct application *application, const struct application_point *point)
{
    CHECK(!application->released);
    if (!point_is_there(application, point)) {
        agent_machine_end(application->machine, application->process, 1 << 8);
        return;
    }
    application->point = *point;
    application->point.folder = NULL;
    if (application->setup.ranks == 0) {
        start_from(application, point);
    } else {
        application->ranks =
            application_ranks_new(application, &application->setup, &application->clock);
        application_ranks_start(application->ranks, point);
    }
    application->from_us = sim_now_us(application->machine->sim);
    application->released = true;
    if (application->setup.way->looks)
        application->clock.timer_start(application->looks, LOOK_US);
    application->setup.checks->started(application->setup.checks->data, application,
                                       point->checkpoint_id);
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

    if (application->ranks != NULL) {
        application->lost_rank = true; /* it knows */
        application_ranks_end(application->ranks, wait_status);
    } else if (application->released &&
               truth_of(application, application->rank, now.iteration).value != now.value)
        application->setup.checks->violation(application->setup.checks->data, "I27",
                                             "the result is not that of an undisturbed run");
    agent_machine_end(application->machine, application->process, wait_status);
}

void application_calm(struct application *application)
{
    if (!application->released)
        return;
    application->answering.fate =
        FATE_NEVER; /* what is in hand is given up: the broker asks again */
    application->clock.timer_stop(application->answer);
    if (application->ranks != NULL)
        application_ranks_calm(application->ranks);
    catch_signals(application);
    serve_calls(application);
    if (application->lost_rank)
        return;
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

const char *application_identity(const struct application *application)
{
    return application->rank;
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
    const struct application_way *way = application->setup.way;

    return !application_way_signals(way);
}

bool application_is_told(const struct application *application, unsigned rank)
{
    return application->ranks != NULL && application_ranks_told(application->ranks, rank);
}

bool application_from_scratch(const struct application *application)
{
    return application->setup.from_scratch;
}

bool application_moves(const struct application *application)
{
    if (application->ranks != NULL)
        return application_ranks_move(application->ranks);
    return application->released && application->process->living && !application->process->stopped;
}

bool application_released(const struct application *application)
{
    return application->released;
}

const struct application_point *application_point_of(const struct application *application)
{
    return &application->point;
}
