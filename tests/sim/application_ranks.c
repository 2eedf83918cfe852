/* The ranks of a simulated application. See application_ranks.h. */
#include "tests/sim/application_ranks.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "tests/sim/application_line.h"

enum { SUFFIX_BYTES = 16, SLICE_US = 300000 };

struct rank {
    struct application_ranks *ranks;
    unsigned number;
    struct machine_process *process; /* NULL: dead */
    struct clock_timer *answer;
    struct application_restored from; /* its identity, and the state it went on from */
    uint64_t from_us;
    struct application_line *line;      /* NULL: it is asked by a signal, or is not there yet */
    bool streams;                       /* ... the latter */
    struct application_request request; /* in hand */
    uint64_t step;                      /* that it was to save it at; 0: any */
    uint64_t most_deferral_ms;
    struct answering answering;
    bool due; /* its answer, while it stands still */
    struct application_state snapshot;
};

struct application_ranks {
    struct application *application; /* NULL: its launcher is dead */
    struct agent_machine *machine;
    struct application_setup setup;
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[APPLICATION_PATH_BYTES], socket[APPLICATION_PATH_BYTES];
    struct clock_ops clock;
    unsigned living;
    struct rank items[];
};

static void ranks_unused(struct application_ranks *ranks)
{
    if (ranks->application != NULL || ranks->living > 0)
        return;
    for (unsigned i = 0; i < ranks->setup.ranks; i++)
        ranks->clock.timer_free(ranks->items[i].answer);
    free(ranks);
}

static const char *suffix_of(const struct rank *rank, char text[SUFFIX_BYTES])
{
    snprintf(text, SUFFIX_BYTES, ".%u", rank->number);
    return text;
}

static struct application_state state_now(const struct rank *rank)
{
    uint64_t passed_us = sim_now_us(rank->ranks->machine->sim) - rank->from_us;

    if (rank->process == NULL || rank->process->stopped)
        return rank->from.state;
    return application_iterate(rank->from.state,
                               rank->from.state.iteration + passed_us / APPLICATION_STEP_US);
}

/* ---- its answer ---- */

static void file_write(const struct rank *rank, const char *name)
{
    const struct application_ranks *ranks = rank->ranks;
    const struct application_owner owner = {ranks->allocation_id, ranks->machine->name,
                                            rank->from.identity};
    char path[APPLICATION_PATH_BYTES + 64], suffix[SUFFIX_BYTES];

    snprintf(path, sizeof(path), "%s/%s%s", rank->request.directory, name, suffix_of(rank, suffix));
    application_state_write(ranks->machine, path, &owner, rank->request.hint, rank->snapshot);
}

static uint64_t bytes_written(const struct rank *rank)
{
    char suffix[SUFFIX_BYTES];

    return application_bytes_written(rank->ranks->machine, rank->request.directory,
                                     suffix_of(rank, suffix));
}

static void done_write(const struct rank *rank, const struct application_done *done)
{
    char name[32];

    snprintf(name, sizeof(name), "done.%u", rank->number);
    application_done_write(rank->ranks->machine, rank->ranks->work_dir, name, done);
}

static void name_label(const struct rank *rank, char label[LABEL_MAX_BYTES + 1])
{
    const struct application_ranks *ranks = rank->ranks;
    struct sim *sim = ranks->machine->sim;

    if (rank->step == 0)
        application_label(&ranks->setup, sim, rank->request.hint, label);
    else
        snprintf(label, LABEL_MAX_BYTES + 1, "%" PRIu64,
                 rank->step + sim_chance(sim, ranks->setup.manners->mislabels_in));
}

static void say(const struct rank *rank, uint64_t bytes, const char *status)
{
    const struct application_ranks *ranks = rank->ranks;
    const struct application_checks *checks = ranks->setup.checks;
    char label[LABEL_MAX_BYTES + 1] = "";

    if (strcmp(status, "0") == 0) {
        name_label(rank, label);
        checks->done(checks->data, ranks->machine, &ranks->setup, rank->request.hint, rank->number,
                     label);
    }
    done_write(rank, &(struct application_done){rank->request.hint, status, bytes, label});
    if (rank->line != NULL)
        application_line_done(rank->line);
}

static void slice_write(struct rank *rank)
{
    struct answering *answering = &rank->answering;
    uint64_t wait_us = answering->left_us < SLICE_US ? answering->left_us : SLICE_US;
    char name[32];

    snprintf(name, sizeof(name), "slice-%u", answering->parts++);
    file_write(rank, name);
    answering->left_us -= wait_us;
    if (rank->line != NULL)
        application_line_progress(rank->line, answering->parts * 10000);
    rank->ranks->clock.timer_start(rank->answer, wait_us);
}

/* One that says what only a stream can; false: it has to answer. */
static bool give_line_answer(struct rank *rank)
{
    const struct application_checks *checks = rank->ranks->setup.checks;
    struct sim *sim = rank->ranks->machine->sim;
    uint64_t most_ms = rank->most_deferral_ms;

    if (rank->answering.fate == FATE_LIES) {
        application_line_progress(rank->line, rank->answering.parts++ * 1000 % 1000000);
        rank->ranks->clock.timer_start(rank->answer, SLICE_US);
        return true;
    }
    if (rank->answering.fate != FATE_DEFERS || most_ms == 0)
        return false;
    /* no library would ask for more than there is, but a program that speaks for itself */
    if (!application_line_defer(rank->line,
                                1 + sim_random(sim, sim_chance(sim, 4) ? 2 * most_ms : most_ms)))
        return false;
    if (rank->ranks->application != NULL)
        checks->deferred(checks->data, rank->ranks->application, rank->request.hint);
    return true;
}

static void give_answer(void *data)
{
    struct rank *rank = data;
    enum fate fate = rank->answering.fate;

    if (rank->process == NULL)
        return;
    rank->due = rank->process->stopped;
    if (rank->due)
        return;
    if (rank->line != NULL && give_line_answer(rank))
        return;
    if (rank->answering.left_us > 0) {
        slice_write(rank);
        return;
    }
    if (fate == FATE_REFUSES) {
        say(rank, 0, "not now");
        return;
    }
    file_write(rank, "state");
    if (fate == FATE_DIES) {
        agent_machine_end(rank->ranks->machine, rank->process, SIGSEGV);
        return;
    }
    if (fate == FATE_STALE) { /* once more from here, with the right one */
        done_write(rank, &(struct application_done){"1-1-77", "0", bytes_written(rank), ""});
        rank->answering.fate = FATE_ANSWERS;
        rank->ranks->clock.timer_start(rank->answer, SLICE_US);
        return;
    }
    if (fate == FATE_PARTIAL) {
        say(rank, 2 * bytes_written(rank), "0");
        return;
    }
    file_write(rank, "again");
    say(rank, bytes_written(rank), "0");
}

/* Of the request in hand. */
static void begin_answer(struct rank *rank)
{
    struct application_ranks *ranks = rank->ranks;
    struct sim *sim = ranks->machine->sim;
    uint64_t now_ms = ranks->clock.wall_ms(ranks->clock.context);
    uint64_t left_us =
        rank->request.deadline_ms > now_ms ? (rank->request.deadline_ms - now_ms) * 1000 : 0;

    rank->snapshot = state_now(rank);
    answering_draw(&rank->answering, sim, ranks->setup.manners, rank->line != NULL,
                   ranks->setup.ranks);
    /* a shard with its rank's part missing; one that is not heard of any more */
    if (rank->answering.fate == FATE_EMPTY || rank->answering.fate == FATE_HANGS_UP)
        rank->answering.fate = FATE_NEVER;
    if (rank->answering.fate == FATE_NEVER)
        ranks->clock.timer_stop(rank->answer);
    else
        ranks->clock.timer_start(rank->answer, answering_delay(&rank->answering, sim, left_us));
}

static void tell_asked(const struct rank *rank)
{
    const struct application_checks *checks = rank->ranks->setup.checks;

    if (rank->ranks->application != NULL)
        checks->asked(checks->data, rank->ranks->application, rank->number, rank->request.hint);
}

static void take_request(struct rank *rank)
{
    struct application_ranks *ranks = rank->ranks;
    const struct application_checks *checks = ranks->setup.checks;

    if (!application_request_read(ranks->machine, ranks->work_dir, &rank->request))
        checks->violation(checks->data, "I22", "a signal came and there is no request");
    rank->step = 0;
    tell_asked(rank);
    begin_answer(rank);
}

/* ---- its stream ---- */

static void line_asked(void *data, const struct app_line *ask)
{
    struct rank *rank = data;
    struct application_request *request = &rank->request;

    text_copy(request->hint, sizeof(request->hint), ask->hint);
    CHECK(snprintf(request->directory, sizeof(request->directory), "%s/%s", rank->ranks->work_dir,
                   ask->folder) < (int)sizeof(request->directory));
    agent_files_make_folder(rank->ranks->machine->files, request->directory); /* or it is there */
    request->deadline_ms = ask->deadline_ms;
    rank->most_deferral_ms = ask->max_deferral_ms;
    tell_asked(rank);
}

static void line_agreed(void *data, const char *hint, uint64_t step)
{
    const struct rank *rank = data;
    const struct application_ranks *ranks = rank->ranks;
    const struct application_checks *checks = ranks->setup.checks;

    checks->meets(checks->data, ranks->machine, &ranks->setup, hint, rank->number, step);
}

static void line_at(void *data, const char *hint)
{
    line_agreed(data, hint, 0);
}

static void line_due(void *data, uint64_t step)
{
    struct rank *rank = data;

    rank->step = step;
    begin_answer(rank);
}

static void line_withdrawn(void *data)
{
    struct rank *rank = data;

    rank->answering.fate = FATE_NEVER;
    rank->ranks->clock.timer_stop(rank->answer);
    rank->due = false;
}

/* The texts of the setup are those of an application that may be dead. */
static struct application_setup setup_of(const struct application_ranks *ranks)
{
    struct application_setup setup = ranks->setup;

    setup.allocation_id = ranks->allocation_id;
    setup.work_dir = ranks->work_dir;
    return setup;
}

static void line_stepped(void *data)
{
    const struct rank *rank = data;
    const struct application_setup setup = setup_of(rank->ranks);

    setup.checks->stepped(setup.checks->data, rank->ranks->machine, &setup);
}

static bool line_hangs(void *data)
{
    const struct rank *rank = data;
    const struct application_setup setup = setup_of(rank->ranks);

    return setup.checks->hangs(setup.checks->data, rank->ranks->machine, &setup);
}

static void line_open(struct rank *rank)
{
    const struct application_ranks *ranks = rank->ranks;
    const struct application_line_setup setup = {.machine = ranks->machine,
                                                 .clock = &ranks->clock,
                                                 .socket = ranks->socket,
                                                 .allocation_id = ranks->allocation_id,
                                                 .run = ranks->setup.part_run,
                                                 .pid = rank->process->pid,
                                                 .number = rank->number,
                                                 .ranks = ranks->setup.ranks,
                                                 .barrier = ranks->setup.labels == LABELS_AGREED,
                                                 .says_steps = ranks->setup.says_steps,
                                                 .manners = ranks->setup.manners};
    const struct application_line_events events = {
        rank, line_asked, line_at, line_agreed, line_due, line_withdrawn, line_stepped, line_hangs};

    if (rank->line == NULL)
        rank->line = application_line_new(&setup, &events);
}

/* ---- its life ---- */

static void on_signal(void *data, int signal)
{
    struct rank *rank = data;

    if (signal == rank->ranks->setup.way->signal)
        take_request(rank);
    else if (signal == SIGTERM &&
             !sim_chance(rank->ranks->machine->sim, rank->ranks->setup.manners->deaf_in))
        agent_machine_end(rank->ranks->machine, rank->process, 143 << 8);
}

static void on_stopped(void *data, bool stopped)
{
    struct rank *rank = data;
    uint64_t now_us = sim_now_us(rank->ranks->machine->sim);

    if (rank->line != NULL)
        application_line_stopped(rank->line, stopped);
    if (stopped) {
        rank->from.state = application_iterate(rank->from.state,
                                               rank->from.state.iteration +
                                                   (now_us - rank->from_us) / APPLICATION_STEP_US);
        return;
    }
    rank->from_us = now_us;
    if (rank->due)
        rank->ranks->clock.timer_start(rank->answer, 1);
    rank->due = false;
}

static void on_ended(void *data, int wait_status)
{
    struct rank *rank = data;
    struct application_ranks *ranks = rank->ranks;

    rank->process = NULL;
    application_line_free(rank->line);
    rank->line = NULL;
    ranks->clock.timer_stop(rank->answer);
    ranks->living--;
    if (ranks->application != NULL && wait_status != 0 && wait_status != -1)
        application_lost_rank(ranks->application);
    ranks_unused(ranks);
}

/* I47: one that an earlier launcher left behind would write the same files. */
static void check_alone(const struct rank *rank)
{
    const struct application_ranks *ranks = rank->ranks;

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        const struct machine_process *process = ranks->machine->processes[i];
        const struct rank *other;
        if (process == NULL || !process->living || process->program.signalled != on_signal)
            continue;
        other = process->program.data;
        if (other->number == rank->number &&
            strcmp(other->ranks->allocation_id, ranks->allocation_id) == 0)
            ranks->setup.checks->violation(ranks->setup.checks->data, "I47",
                                           "a rank begins beside the one of the run before");
    }
}

/* As OpenMPI does it, in a group of its own, or in that of a launcher like torchrun. */
static void rank_spawn(struct rank *rank, const struct machine_process *main_process)
{
    struct application_ranks *ranks = rank->ranks;
    const struct machine_program program = {rank, "rank", on_signal, on_ended, NULL, on_stopped};

    rank->process = agent_machine_spawn(
        ranks->machine, ranks->setup.ranks_in_group ? main_process->group : 0, &program);
    rank->process->origin_ticks = main_process->start_ticks;
    rank->process->cgroup_ticks = main_process->cgroup_ticks;
    rank->process->rank = rank->number + 1;
    rank->process->ranks = ranks->setup.ranks_in_group ? ranks->setup.ranks : 0;
    rank->process->ranks_all = ranks->setup.ranks;
    rank->process->kept = false; /* its launcher reaps it */
    rank->process->ignored = UINT64_C(1) << (SIGUSR1 - 1) | UINT64_C(1) << (SIGUSR2 - 1);
    ranks->living++;
}

static struct application_state truth_of(const struct application_ranks *ranks,
                                         const char *identity, uint64_t iteration)
{
    const struct application_checks *checks = ranks->setup.checks;

    return application_truth(checks->computes(checks->data, ranks->allocation_id), identity,
                             iteration);
}

void application_ranks_start(struct application_ranks *ranks, const struct application_point *point)
{
    const struct machine_process *main_process = application_process(ranks->application);

    for (unsigned i = 0; i < ranks->setup.ranks; i++) {
        struct rank *rank = &ranks->items[i];
        char suffix[SUFFIX_BYTES], own[32]; /* what one with a stream had */
        snprintf(own, sizeof(own), "rank-%05u", rank->number);
        snprintf(rank->from.identity, sizeof(rank->from.identity), "%s/%u", ranks->machine->name,
                 i);
        rank->from.state = truth_of(ranks, rank->from.identity, 0);
        if (point->checkpoint_id != 0)
            application_restore(ranks->application, point, own, suffix_of(rank, suffix),
                                &rank->from);
        rank->streams =
            ranks->setup.ranks_with_streams && ranks->socket[0] != '\0' &&
            (ranks->setup.labels == LABELS_AGREED || sim_chance(ranks->machine->sim, 2));
        rank->from_us = sim_now_us(ranks->machine->sim);
        check_alone(rank);
        rank_spawn(rank, main_process);
    }
}

void application_ranks_catch(struct application_ranks *ranks)
{
    for (unsigned i = 0; i < ranks->setup.ranks; i++) {
        struct rank *rank = &ranks->items[i];
        if (rank->process == NULL)
            continue;
        rank->process->caught = UINT64_C(1) << (SIGTERM - 1);
        if (rank->streams)
            line_open(rank);
        else
            rank->process->caught |= UINT64_C(1) << (ranks->setup.way->signal - 1);
    }
}

void application_ranks_calm(struct application_ranks *ranks)
{
    for (unsigned i = 0; i < ranks->setup.ranks; i++) {
        ranks->items[i].answering.fate = FATE_NEVER;
        ranks->clock.timer_stop(ranks->items[i].answer);
        if (ranks->items[i].line != NULL)
            application_line_calm(ranks->items[i].line);
    }
}

bool application_ranks_move(const struct application_ranks *ranks)
{
    for (unsigned i = 0; i < ranks->setup.ranks; i++)
        if (ranks->items[i].process != NULL && !ranks->items[i].process->stopped)
            return true;
    return false;
}

bool application_ranks_told(const struct application_ranks *ranks, unsigned rank)
{
    CHECK(rank < ranks->setup.ranks);
    return ranks->items[rank].streams;
}

void application_ranks_end(struct application_ranks *ranks, int wait_status)
{
    for (unsigned i = 0; i < ranks->setup.ranks; i++) {
        struct rank *rank = &ranks->items[i];
        struct application_state now = state_now(rank);
        if (rank->process == NULL)
            continue;
        if (truth_of(ranks, rank->from.identity, now.iteration).value != now.value)
            ranks->setup.checks->violation(ranks->setup.checks->data, "I27",
                                           "the result is not that of an undisturbed run");
        agent_machine_end(ranks->machine, rank->process, wait_status);
    }
}

void application_ranks_leave(struct application_ranks *ranks)
{
    if (ranks == NULL)
        return;
    ranks->application = NULL;
    ranks_unused(ranks);
}

struct application_ranks *application_ranks_new(struct application *application,
                                                const struct application_setup *setup,
                                                const struct clock_ops *clock)
{
    struct application_ranks *ranks =
        check_calloc(1, sizeof(*ranks) + setup->ranks * sizeof(ranks->items[0]));

    ranks->application = application;
    ranks->machine = application_machine(application);
    ranks->setup = *setup;
    snprintf(ranks->allocation_id, sizeof(ranks->allocation_id), "%s", setup->allocation_id);
    snprintf(ranks->work_dir, sizeof(ranks->work_dir), "%s", setup->work_dir);
    snprintf(ranks->socket, sizeof(ranks->socket), "%s", setup->ranks_socket);
    ranks->clock = *clock;
    for (unsigned i = 0; i < setup->ranks; i++) {
        struct rank *rank = &ranks->items[i];
        rank->ranks = ranks;
        rank->number = i;
        rank->answer = clock->timer_new(clock->context, give_answer, rank);
    }
    return ranks;
}
