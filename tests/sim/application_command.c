/* A command that saves a simulated application. See application_command.h. */
#include "tests/sim/application_command.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/rpc/server.h"

#define CHECKPOINT_METHOD "/ckpt.v1.AppCheckpointService/Checkpoint"

enum {
    KILL_AFTER_US = 5000000, /* as src/agent/run/run_command.c */
    PART_US = 300000,
    LOOK_US = 500000,
    UNWANTED_MAX_US = 2000000, /* for the word of the agent that nobody wants it any more */
    PATH_BYTES = APPLICATION_PATH_BYTES
};

enum command_state { COMMAND_IDLE, COMMAND_RUNNING, COMMAND_ENDING };

struct application_command {
    struct agent_machine *machine;
    struct application_setup setup; /* for its label and the checks */
    char allocation_id[ID_MAX_BYTES + 1];
    char endpoint[MACHINE_NAME_BYTES + ID_MAX_BYTES + 48];
    struct clock_ops clock;
    struct clock_timer *work, *kill, *look;
    struct rpc_server *server;
    struct application *application; /* NULL: none runs */
    enum command_state state;
    struct rpc_call *call;           /* RUNNING: whom its end is told */
    struct machine_process *process; /* NULL in IDLE */
    bool stops;                      /* the job ends with the checkpoint */
    bool stood_still;                /* the application did, before the command began */
    bool stopped_it;                 /* the command has stopped it */
    uint64_t unwanted_us;            /* since when no attempt of its agent has it; 0: one has */
    /* of the process */
    struct answering answering;
    char hint[HINT_TEXT_BYTES];
    char directory[PATH_BYTES];
    char identity[APPLICATION_IDENTITY_BYTES];
    struct application_state snapshot;
};

static bool draw(const struct application_command *command, uint64_t in)
{
    return sim_chance(command->machine->sim, in);
}

static void command_counts(const struct application_command *command,
                           enum application_command_event event)
{
    command->setup.checks->command(command->setup.checks->data, event);
}

static void assert_state(const struct application_command *command)
{
    CHECK((command->state == COMMAND_RUNNING) == (command->call != NULL));
    CHECK((command->state == COMMAND_IDLE) == (command->process == NULL));
}

/* ---- its application ---- */

static struct machine_process *application_of(const struct application_command *command)
{
    struct machine_process *process =
        command->application == NULL
            ? NULL
            : agent_machine_find(command->machine, application_process(command->application)->pid);

    return process != NULL && process->living ? process : NULL;
}

static void application_stop(struct application_command *command, bool stopped)
{
    struct machine_process *process = application_of(command);

    if (process != NULL)
        agent_machine_stop(command->machine, process, stopped);
}

/* run_application_goes_on() */
static void application_goes_on(struct application_command *command)
{
    if (!command->stood_still && command->stopped_it)
        application_stop(command, false);
    command->stopped_it = false;
}

/* ---- its answer ---- */

static void say(struct application_command *command, const Ckpt__V1__AppCheckpointUpdate *update)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__app_checkpoint_update__pack(
        update, buf_extend(&bytes, ckpt__v1__app_checkpoint_update__get_packed_size(update)));
    rpc_call_send(command->call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static void say_done(struct application_command *command, uint64_t bytes, const char *label)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES;
    update.done_bytes = bytes;
    update.label = (char *)(uintptr_t)label;
    say(command, &update);
}

static void say_failed(struct application_command *command)
{
    static char text[] = "the checkpoint command ended with status 1";
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED;
    update.failed = text;
    say(command, &update);
}

/* One in so many says its last word twice, the second one otherwise: the first one counts. */
static void answer_done(struct application_command *command)
{
    const struct application_checks *checks = command->setup.checks;
    uint64_t bytes = application_bytes_written(command->machine, command->directory, "");
    char label[LABEL_MAX_BYTES + 1];

    application_label(&command->setup, command->machine->sim, command->hint, label);
    checks->done(checks->data, command->machine, &command->setup, command->hint, 0, label);
    say_done(command, bytes, label);
    command_counts(command, COMMAND_SAVED);
    if (command->answering.fate == FATE_STALE && draw(command, 2))
        say_done(command, bytes, "said-twice");
    else if (command->answering.fate == FATE_STALE)
        say_failed(command);
}

/* ---- its process ---- */

/* Of its parent, which takes its status. */
static void command_ended(void *data, int wait_status)
{
    struct application_command *command = data;
    struct machine_process *process = command->process;
    struct rpc_call *call = command->call;

    command->clock.timer_stop(command->work);
    command->clock.timer_stop(command->kill);
    command->clock.timer_stop(command->look);
    if (wait_status == -1) { /* the power has gone, and all of them with it */
        command->state = COMMAND_IDLE;
        command->call = NULL;
        command->process = NULL;
        return;
    }
    agent_machine_reap(command->machine, process);
    if (command->state == COMMAND_RUNNING && wait_status == 0)
        answer_done(command);
    else if (command->state == COMMAND_RUNNING)
        say_failed(command);
    if (command->state == COMMAND_ENDING || wait_status != 0 || !command->stops)
        application_goes_on(command);
    command->state = COMMAND_IDLE;
    command->call = NULL;
    command->process = NULL;
    if (call != NULL)
        rpc_call_finish(call, RPC_OK, NULL);
    assert_state(command);
}

static void command_end(struct application_command *command, int wait_status)
{
    agent_machine_end(command->machine, command->process, wait_status);
}

static void command_signalled(void *data, int signal)
{
    (void)data, (void)signal;
}

/* False: its folder has gone. */
static bool write_part(struct application_command *command, const char *name)
{
    const struct application_owner owner = {command->allocation_id, command->machine->name,
                                            command->identity};
    char path[PATH_BYTES + 64];

    snprintf(path, sizeof(path), "%s/%s", command->directory, name);
    application_state_write(command->machine, path, &owner, command->hint, command->snapshot);
    return agent_files_find(command->machine->files, path) != NULL;
}

/* It lets an application go on that it has stopped, or forgets it; for one that ends with its
 * checkpoint it need not. */
static void command_succeeds(struct application_command *command)
{
    if (!draw(command, command->stops ? 2 : 4))
        application_goes_on(command);
    command_end(command, 0);
}

/* A tool that takes the application along has saved it, or has not. */
static void command_dies(struct application_command *command)
{
    struct machine_process *process = application_of(command);

    if (process != NULL && draw(command, 2))
        agent_machine_kill(command->machine, process->pid, SIGKILL);
    command_end(command, SIGSEGV);
}

static void command_works(void *data)
{
    struct application_command *command = data;
    const enum fate fate = command->answering.fate;
    char name[32];

    if (command->answering.left_us > 0) { /* a part now, the next one later */
        uint64_t wait_us =
            command->answering.left_us < PART_US ? command->answering.left_us : PART_US;
        snprintf(name, sizeof(name), "part-%u", command->answering.parts++);
        (void)write_part(command, name);
        command->answering.left_us -= wait_us;
        command->clock.timer_start(command->work, wait_us);
    } else if (fate == FATE_NEVER) { /* hangs, and writes on */
        (void)write_part(command, "state");
        command->clock.timer_start(command->work, PART_US);
    } else if (fate == FATE_REFUSES) {
        command_end(command, 1 << 8);
    } else if (fate == FATE_EMPTY) {
        command_succeeds(command);
    } else if (!write_part(command, "state")) {
        command_end(command, 1 << 8);
    } else if (fate == FATE_DIES) {
        command_dies(command);
    } else if (fate == FATE_PARTIAL || !write_part(command, "again")) {
        command_end(command, 1 << 8);
    } else {
        command_succeeds(command);
    }
}

/* COMMAND: what its attempt does not want any more is ended, within a moment of its agent's. */
static void command_look(void *data)
{
    struct application_command *command = data;
    const struct application_checks *checks = command->setup.checks;
    const uint64_t now_us = sim_now_us(command->machine->sim);

    command->clock.timer_start(command->look, LOOK_US);
    if (command->state != COMMAND_RUNNING ||
        checks->wants(checks->data, command->machine, command->allocation_id, command->hint))
        command->unwanted_us = 0;
    else if (command->unwanted_us == 0)
        command->unwanted_us = now_us;
    else if (now_us - command->unwanted_us > UNWANTED_MAX_US)
        checks->violation(checks->data, "COMMAND",
                          "a checkpoint command goes on whose attempt is over");
}

/* ---- questions ---- */

static void command_start(struct application_command *command,
                          const Ckpt__V1__AppCheckpointRequest *request)
{
    const struct machine_program program = {command,       "command", command_signalled,
                                            command_ended, NULL,      NULL};
    struct sim *sim = command->machine->sim;
    const uint64_t now_ms = command->clock.wall_ms(command->clock.context);
    const uint64_t timeout_us =
        request->deadline_ms > now_ms ? (request->deadline_ms - now_ms) * 1000 : 0;

    command->process = agent_machine_spawn(command->machine, 0, &program);
    command->process->saves = true;
    command->stood_still = application_process(command->application)->stopped;
    command->stopped_it = draw(command, 3);
    if (command->stopped_it)
        application_stop(command, true);
    if (draw(command, command->setup.manners->deaf_in))
        command->process->ignored = UINT64_C(1) << (SIGTERM - 1);
    command->snapshot = application_now(command->application);
    snprintf(command->identity, sizeof(command->identity), "%s",
             application_identity(command->application));
    answering_draw(&command->answering, sim, command->setup.manners, false, 1);
    command->unwanted_us = 0;
    command->clock.timer_start(command->look, LOOK_US);
    if (command->answering.fate == FATE_NEVER)
        command->clock.timer_start(command->work, PART_US);
    else
        command->clock.timer_start(command->work,
                                   answering_delay(&command->answering, sim, timeout_us));
}

static void take_request(struct application_command *command, struct rpc_call *call,
                         const Ckpt__V1__AppCheckpointRequest *request)
{
    const struct application_checks *checks = command->setup.checks;
    char id[CHECKPOINT_ID_TEXT_BYTES];

    if (command->state != COMMAND_IDLE) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "the checkpoint command of before still runs");
        return;
    }
    if (application_of(command) == NULL || !application_released(command->application)) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "the application does not run");
        return;
    }
    snprintf(command->hint, sizeof(command->hint), "%s-%" PRIu32,
             checkpoint_id_format(request->checkpoint_id, id), request->attempt);
    CHECK(snprintf(command->directory, PATH_BYTES, "%s", request->directory) < PATH_BYTES);
    command->stops = request->stops;
    checks->asked(checks->data, command->application, 0, command->hint);
    command_counts(command, COMMAND_BEGAN);
    command_start(command, request);
    command->call = call;
    command->state = COMMAND_RUNNING;
    assert_state(command);
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    Ckpt__V1__AppCheckpointRequest *request =
        ckpt__v1__app_checkpoint_request__unpack(NULL, length, bytes);

    CHECK(request != NULL);
    take_request(data, call, request);
    ckpt__v1__app_checkpoint_request__free_unpacked(request, NULL);
}

static void command_kill(void *data)
{
    struct application_command *command = data;

    CHECK(command->state == COMMAND_ENDING);
    agent_machine_kill(command->machine, command->process->pid, SIGKILL);
}

/* One in four has died of what its agent died of. */
static void on_cancel(struct rpc_call *call, void *data)
{
    struct application_command *command = data;

    if (command->state != COMMAND_RUNNING || call != command->call)
        return;
    command->call = NULL;
    command->state = COMMAND_ENDING;
    command_counts(command, COMMAND_TOLD_TO_END);
    command->clock.timer_start(command->kill, KILL_AFTER_US);
    agent_machine_kill(command->machine, command->process->pid,
                       draw(command, 4) ? SIGKILL : SIGTERM);
}

/* ---- life ---- */

struct application_command *application_command_new(struct agent_machine *machine,
                                                    const char *allocation_id,
                                                    enum world_labels labels,
                                                    const struct application_manners *manners,
                                                    const struct application_checks *checks)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};
    const struct rpc_server_config config = {0};
    struct application_command *command = check_calloc(1, sizeof(*command));
    unsigned before = sim_enter(machine->sim, machine->config.applications_node);
    struct err err;

    command->machine = machine;
    snprintf(command->allocation_id, sizeof(command->allocation_id), "%s", allocation_id);
    command->setup = (struct application_setup){.allocation_id = command->allocation_id,
                                                .labels = labels,
                                                .manners = manners,
                                                .checks = checks};
    /* two ckpt-runs of one job are two programs */
    snprintf(command->endpoint, sizeof(command->endpoint), "unix:/run/%s-app-run-%" PRIx64 ".sock",
             machine->name, sim_random(machine->sim, UINT64_MAX));
    sim_node_clock(machine->sim, machine->config.applications_node, &command->clock);
    command->work = command->clock.timer_new(command->clock.context, command_works, command);
    command->kill = command->clock.timer_new(command->clock.context, command_kill, command);
    command->look = command->clock.timer_new(command->clock.context, command_look, command);
    command->server = rpc_server_new(&machine->applications_loop.uv, &config);
    rpc_server_add_method(command->server, CHECKPOINT_METHOD, false, true, &handlers, command);
    CHECK(rpc_server_listen(command->server, command->endpoint, &err) == 0);
    sim_leave(machine->sim, before);
    return command;
}

/* The end of a command whose ckpt-run has gone is nobody's. */
static void end_alone(struct application_command *command)
{
    command->state = COMMAND_ENDING;
    command->call = NULL;
    command_end(command, SIGKILL);
}

void application_command_free(struct application_command *command)
{
    if (command == NULL)
        return;
    if (command->state != COMMAND_IDLE)
        end_alone(command);
    rpc_server_free(command->server, NULL, NULL);
    command->clock.timer_free(command->work);
    command->clock.timer_free(command->kill);
    command->clock.timer_free(command->look);
    free(command);
}

const char *application_command_endpoint(const struct application_command *command)
{
    return command->endpoint;
}

void application_command_of(struct application_command *command, struct application *application)
{
    if (command != NULL)
        command->application = application;
}
