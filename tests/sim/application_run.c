/* A model of ckpt-run. See application_run.h; names and states are those of
 * src/agent/run/run_main.c. */
#include "tests/sim/application_run.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/durable/end_note.h"
#include "src/agent/run/run_comeback.h"
#include "src/base/check.h"
#include "src/rpc/client.h"
#include "tests/sim/application_command.h"
#include "tests/sim/application_region.h"

#define ATTACH_METHOD "/ckpt.v1.AppService/Attach"

enum {
    ATTACH_AGAIN_US = 200000,
    REFUSED_AGAIN_US = 5000000,
    LAST_WORD_US = 4000000,
    WORK_DIR_BYTES = 256,
    REASON_BYTES = 256
};
enum run_state { RUN_ATTACHING, RUN_RUNNING, RUN_ENDED, RUN_TOLD };
enum comeback_state { COMEBACK_NONE, COMEBACK_ASKED, COMEBACK_TOLD };

struct application_run {
    struct agent_machine *machine;
    struct application_run_setup setup;
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[WORK_DIR_BYTES];
    struct clock_ops clock;
    struct clock_timer *timer, *last_word, *leaving, *comeback_over;
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    enum run_state state;
    struct application *child;           /* NULL: dead, or none */
    struct application_command *command; /* NULL: nothing saves it from outside */
    pid_t pid; /* of this run's application; not reaped while it is not 0 */
    uint64_t start_ticks;
    uint64_t run_number;
    struct application_point point; /* what it starts from */
    char restore[WORK_DIR_BYTES], ranks_socket[WORK_DIR_BYTES], region[WORK_DIR_BYTES];
    uint32_t restart_count;
    bool started_over; /* its held application never began */
    bool confirmed, ready, refused_running, ended, told_to_end, will_restart;
    bool ended_by_cluster; /* its last run */
    bool ran;              /* an application was started before */
    bool stays;            /* --stay */
    enum comeback_state comeback;
    bool kept;    /* its agent said so on this stream */
    bool ordered; /* by its agent to end */
    bool waits;   /* a dead child waits to be reaped */
    bool left;
    int wait_status;
    int exit_code;
    char refused[REASON_BYTES];
};

static void attach(void *data);

/* ---- the end ---- */

static void run_free(struct application_run *run)
{
    application_command_free(run->command);
    rpc_channel_free(run->channel);
    run->clock.timer_free(run->timer);
    run->clock.timer_free(run->last_word);
    run->clock.timer_free(run->leaving);
    run->clock.timer_free(run->comeback_over);
    free(run);
}

/* What its parent's end means for the application, whatever its state. */
static void child_release(struct application_run *run)
{
    struct machine_process *process;

    if (run->child != NULL) {
        application_orphan(run->child);
        return;
    }
    process = run->pid == 0 ? NULL : agent_machine_find(run->machine, run->pid);
    if (process != NULL && process->start_ticks == run->start_ticks)
        agent_machine_reap(run->machine, process);
}

static void leave_now(void *data)
{
    struct application_run *run = data;
    struct application_run_setup setup = run->setup;
    int exit_code = run->exit_code;
    char refused[REASON_BYTES];

    snprintf(refused, sizeof(refused), "%s", run->refused);
    child_release(run);
    setup.ended(setup.data, run, exit_code, refused[0] == '\0' ? NULL : refused);
    run_free(run);
}

/* From the loop: the caller is in the middle of something. */
static void leave(struct application_run *run, int exit_code)
{
    if (run->left)
        return;
    run->left = true;
    run->exit_code = exit_code;
    run->clock.timer_stop(run->timer);
    run->clock.timer_stop(run->last_word);
    run->clock.timer_stop(run->comeback_over);
    run->clock.timer_start(run->leaving, 0);
}

void application_run_kill(struct application_run *run)
{
    child_release(run);
    run_free(run);
}

/* ---- the wait for the cluster's restart: run_comeback.c ---- */

static void comeback_enter(struct application_run *run, enum comeback_state state, uint64_t wait_ms)
{
    run->comeback = state;
    run->clock.timer_stop(run->comeback_over);
    if (state != COMEBACK_NONE && !run->stays)
        run->clock.timer_start(run->comeback_over, 1000 * wait_ms);
}

static int exit_code_of(int wait_status)
{
    return (wait_status & 0x7f) != 0 ? 128 + (wait_status & 0x7f) : wait_status >> 8;
}

static void not_restarted(void *data)
{
    struct application_run *run = data;

    leave(run, run->ran ? exit_code_of(run->wait_status) : 125);
}

/* Another run of it may come: as if this program were started now. */
static void stay_on(struct application_run *run)
{
    run->ended = run->ended_by_cluster = false;
    comeback_enter(run, COMEBACK_ASKED, COMEBACK_ANSWER_MS);
    run->restart_count = 0;
    run->pid = 0;
    run->state = RUN_ATTACHING;
    run->clock.timer_stop(run->last_word);
}

/* ---- up ---- */

static void send_up(struct application_run *run, const Ckpt__V1__AttachUp *up)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__attach_up__pack(up, buf_extend(&bytes, ckpt__v1__attach_up__get_packed_size(up)));
    rpc_client_call_send(run->call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

static bool from_scratch(const struct application_run *run)
{
    return run->setup.from_scratch && run->restart_count == 0 && !run->ran;
}

static void send_hello(struct application_run *run)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachHello hello = CKPT__V1__ATTACH_HELLO__INIT;

    hello.allocation_id = run->allocation_id;
    hello.profile = (char *)(uintptr_t)run->setup.way->profile;
    hello.work_dir = run->work_dir;
    hello.running = run->state != RUN_ATTACHING;
    hello.held = run->state == RUN_RUNNING && !run->confirmed;
    hello.pid = (uint32_t)run->pid;
    hello.start_time_ticks = run->start_ticks;
    hello.run = hello.running ? run->run_number : 0;
    hello.want_restore = !from_scratch(run);
    if (run->command != NULL)
        hello.endpoint = (char *)(uintptr_t)application_command_endpoint(run->command);
    hello.replace = true; /* nobody there finds another one's keeper */
    hello.restart_count = run->restart_count;
    hello.wait = run->stays                       ? CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_ANY
                 : run->comeback != COMEBACK_NONE ? CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_RESTART
                                                  : CKPT__V1__ATTACH_WAIT__ATTACH_WAIT_UNSPECIFIED;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_HELLO;
    up.hello = &hello;
    send_up(run, &up);
}

static void send_started(struct application_run *run)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachStarted started = CKPT__V1__ATTACH_STARTED__INIT;

    started.pid = (uint32_t)run->pid;
    started.start_time_ticks = run->start_ticks;
    started.restored_checkpoint_id = run->point.checkpoint_id;
    up.body_case = CKPT__V1__ATTACH_UP__BODY_STARTED;
    up.started = &started;
    send_up(run, &up);
}

static void send_exited(struct application_run *run)
{
    Ckpt__V1__AttachUp up = CKPT__V1__ATTACH_UP__INIT;
    Ckpt__V1__AttachEnded ended = CKPT__V1__ATTACH_ENDED__INIT;

    up.body_case = CKPT__V1__ATTACH_UP__BODY_ENDED;
    up.ended = &ended;
    send_up(run, &up);
    rpc_client_call_half_close(run->call);
    run->state = RUN_TOLD;
}

/* ---- the application ---- */

static void last_word_over(void *data)
{
    struct application_run *run = data;

    leave(run, exit_code_of(run->wait_status));
}

static const char *note_path(const struct application_run *run, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/" END_NOTE_NAME, run->work_dir);
    return path;
}

static void keep_end(struct application_run *run)
{
    const struct end_note note = {.pid = (uint32_t)run->pid,
                                  .start_ticks = run->start_ticks,
                                  .run = run->run_number,
                                  .wait_status = run->wait_status,
                                  .told_to_end = run->told_to_end,
                                  .will_restart = run->will_restart};
    char path[PATH_MAX], text[END_NOTE_BYTES];

    agent_files_write(run->machine->files, note_path(run, path), text,
                      end_note_format(&note, text));
}

static void application_ended(struct application_run *run)
{
    struct machine_process *process = agent_machine_find(run->machine, run->pid);

    run->waits = false;
    if (process != NULL && process->start_ticks == run->start_ticks)
        agent_machine_reap(run->machine, process);
    run->will_restart =
        !run->ended && run->wait_status != 0 && run->restart_count < run->setup.restarts_max;
    if (run->will_restart)
        agent_machine_kill_group(run->machine, run->pid, SIGKILL);
    run->state = RUN_ENDED;
    run->refused_running = false;
    keep_end(run);
    if (run->call == NULL)
        run->clock.timer_start(run->timer, ATTACH_AGAIN_US);
    if (!run->will_restart && !run->ended_by_cluster)
        run->clock.timer_start(run->last_word, LAST_WORD_US);
    if (run->call != NULL && run->ready)
        send_exited(run);
}

static void reap(struct application_run *run)
{
    if (run->state == RUN_RUNNING && run->confirmed && run->waits)
        application_ended(run);
}

static void child_ended(void *data, int wait_status)
{
    struct application_run *run = data;

    run->child = NULL;
    application_command_of(run->command, NULL);
    run->wait_status = wait_status;
    run->waits = true;
    if (run->left ||
        wait_status == -1) /* the machine has lost its power, and this program with it */
        return;
    reap(run);
}

static void take_point(struct application_run *run, const Ckpt__V1__AttachReady *ready)
{
    bool own = ready->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL &&
               ready->restore != CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH;

    snprintf(run->restore, sizeof(run->restore), "%s",
             ready->restore_uri[0] != '\0' ? ready->restore_uri : ready->restore_dir);
    run->point = (struct application_point){
        .checkpoint_id = ready->checkpoint_id,
        .folder = run->restore,
        .place = ready->part,
        .places = ready->parts,
        .parts = own || ready->checkpoint_id == 0 ? 0 : ready->checkpoint_parts};
}

static void hold_application(struct application_run *run, const Ckpt__V1__AttachReady *ready)
{
    snprintf(run->ranks_socket, sizeof(run->ranks_socket), "%s", ready->app_socket);
    snprintf(run->region, sizeof(run->region), "%s", ready->shm);
    const struct application_setup setup = {.allocation_id = run->allocation_id,
                                            .work_dir = run->work_dir,
                                            .way = run->setup.way,
                                            .labels = run->setup.labels,
                                            .ranks = run->setup.ranks,
                                            .ranks_in_group = run->setup.ranks_in_group,
                                            .ranks_with_streams = run->setup.ranks_with_streams,
                                            .says_steps = run->setup.says_steps,
                                            .ranks_socket = run->ranks_socket,
                                            .region = run->region,
                                            .part_run = ready->run,
                                            .from_scratch = from_scratch(run),
                                            .manners = run->setup.manners,
                                            .checks = run->setup.checks,
                                            .ended = child_ended,
                                            .data = run};

    char note[PATH_MAX];

    agent_files_remove(run->machine->files, note_path(run, note));
    snprintf(note, sizeof(note), "%s/request", run->work_dir);
    agent_files_remove(run->machine->files, note);
    application_region_make(run->machine, run->region);
    run->child = application_new(run->machine, &setup);
    application_command_of(run->command, run->child);
    run->pid = application_process(run->child)->pid;
    run->start_ticks = application_process(run->child)->start_ticks;
    take_point(run, ready);
    run->run_number = ready->run;
    run->state = RUN_RUNNING;
    run->ran = true;
    run->ordered = false;
    run->told_to_end = false;
    run->confirmed = false;
    send_started(run);
}

/* ---- down ---- */

static void take_refusal(struct application_run *run, const Ckpt__V1__AttachReady *ready)
{
    const bool attaching = run->state == RUN_ATTACHING;
    const bool has_status = !attaching || (run->ran && (!run->started_over || ready->may_come) &&
                                           (run->stays || run->comeback != COMEBACK_NONE));

    if (attaching && run->stays && ready->may_come)
        return; /* it asks again */
    if (run->state == RUN_RUNNING && run->confirmed && !ready->must_end) {
        run->refused_running = true;
        return;
    }
    snprintf(run->refused, sizeof(run->refused), "%s", ready->error);
    if (run->state == RUN_RUNNING)
        agent_machine_kill_group(run->machine, run->pid, SIGTERM);
    leave(run, has_status && run->state != RUN_RUNNING ? exit_code_of(run->wait_status) : 125);
}

static void take_ready(struct application_run *run, const Ckpt__V1__AttachReady *ready)
{
    if (ready->error[0] != '\0') {
        take_refusal(run, ready);
        return;
    }
    run->refused_running = run->started_over = false;
    comeback_enter(run, COMEBACK_NONE, 0);
    run->kept = false;
    run->ready = true;
    if (run->state == RUN_ENDED) {
        send_exited(run);
    } else if (run->state == RUN_ATTACHING) {
        hold_application(run, ready);
    } else if (run->state == RUN_RUNNING) {
        if (!run->confirmed && run->child != NULL)
            application_release(run->child, &run->point);
        run->confirmed = true;
        reap(run);
    }
}

static void take_end(struct application_run *run)
{
    run->ordered = true;
    if (run->state == RUN_ATTACHING)
        stay_on(run);
    else
        run->ended = run->ended_by_cluster = true;
}

/* Only the first answer counts: the wait does not begin anew with each. */
static void take_notice(struct application_run *run, const Ckpt__V1__AttachNotice *notice)
{
    if (run->state != RUN_ATTACHING || notice->restart_wait_ms == 0)
        return;
    run->kept = true;
    if (run->comeback != COMEBACK_TOLD)
        comeback_enter(run, COMEBACK_TOLD, notice->restart_wait_ms);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct application_run *run = data;
    Ckpt__V1__AttachDown *down = ckpt__v1__attach_down__unpack(NULL, length, bytes);

    (void)call;
    CHECK(down != NULL);
    if (run->left) {
        /* on its way out */
    } else if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_READY) {
        take_ready(run, down->ready);
    } else if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_END) {
        take_end(run);
    } else if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_NOTICE) {
        take_notice(run, down->notice);
    }
    ckpt__v1__attach_down__free_unpacked(down, NULL);
}

static void next_run(struct application_run *run)
{
    if (run->ended) {
        leave(run, exit_code_of(run->wait_status));
        return;
    }
    run->restart_count++;
    run->pid = 0;
    run->state = RUN_ATTACHING;
    run->clock.timer_start(run->timer, 0);
}

/* The held application never began. */
static void start_over(struct application_run *run)
{
    if (run->ended && !run->ended_by_cluster) {
        leave(run, 125);
        return;
    }
    run->state = RUN_ATTACHING;
    run->started_over = true;
    child_release(run);
    run->child = NULL;
    application_command_of(run->command, NULL);
    run->pid = 0;
    run->waits = false;
    if (run->ended_by_cluster)
        stay_on(run);
    run->clock.timer_start(run->timer, 0);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct application_run *run = data;

    (void)call;
    run->call = NULL;
    run->kept = false;
    if (run->left)
        return;
    if (run->state == RUN_RUNNING && !run->confirmed && end->status == RPC_ABORTED) {
        start_over(run);
        return;
    }
    if (run->state == RUN_TOLD && end->status != RPC_OK)
        run->state = RUN_ENDED;
    if (run->state != RUN_TOLD)
        run->clock.timer_start(run->timer,
                               run->refused_running ? REFUSED_AGAIN_US : ATTACH_AGAIN_US);
    else if (run->ended_by_cluster) { /* also when the next run was decided upon before */
        stay_on(run);
        run->clock.timer_start(run->timer, 0);
    } else if (run->will_restart)
        next_run(run);
    else
        leave(run, exit_code_of(run->wait_status));
}

static void attach(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    struct application_run *run = data;

    CHECK(run->call == NULL);
    run->ready = false;
    if (run->state == RUN_ATTACHING)
        run->setup.checks->attaches(run->setup.checks->data, run->machine, run->allocation_id);
    run->call = rpc_channel_open(run->channel, ATTACH_METHOD, 0, true, &handlers, run);
    send_hello(run);
}

/* ---- life ---- */

struct application_run *application_run_new(struct agent_machine *machine,
                                            const struct application_run_setup *setup)
{
    struct application_run *run = check_calloc(1, sizeof(*run));
    unsigned before = sim_enter(machine->sim, machine->config.applications_node);

    run->machine = machine;
    run->setup = *setup;
    snprintf(run->allocation_id, sizeof(run->allocation_id), "%s", setup->allocation_id);
    snprintf(run->work_dir, sizeof(run->work_dir), "/work/%s", setup->allocation_id);
    agent_files_make_folder(machine->files, run->work_dir); /* or it is there */
    sim_node_clock(machine->sim, machine->config.applications_node, &run->clock);
    run->timer = run->clock.timer_new(run->clock.context, attach, run);
    run->last_word = run->clock.timer_new(run->clock.context, last_word_over, run);
    run->leaving = run->clock.timer_new(run->clock.context, leave_now, run);
    run->comeback_over = run->clock.timer_new(run->clock.context, not_restarted, run);
    run->stays = setup->stays;
    run->channel = rpc_channel_new(&machine->applications_loop.uv, machine->address, NULL);
    if (setup->way->served)
        run->command = application_command_new(machine, run->allocation_id, setup->labels,
                                               setup->manners, setup->checks);
    run->state = RUN_ATTACHING;
    run->clock.timer_start(run->timer, 0);
    sim_leave(machine->sim, before);
    return run;
}

void application_run_terminate(struct application_run *run)
{
    run->ended = true;
    run->stays = run->ended_by_cluster = false;
    reap(run);
    if (run->state == RUN_RUNNING) {
        run->told_to_end = true;
        agent_machine_kill_group(run->machine, run->pid, SIGTERM);
    } else if (run->state == RUN_ATTACHING) {
        leave(run, 128 + SIGTERM);
    }
}

struct application *application_run_child(const struct application_run *run)
{
    return run->child;
}

bool application_run_waits(const struct application_run *run)
{
    return !run->left && run->kept && run->state == RUN_ATTACHING;
}

bool application_run_ordered(const struct application_run *run)
{
    return run->ordered;
}

const char *application_run_allocation(const struct application_run *run)
{
    return run->allocation_id;
}

uint64_t application_run_number(const struct application_run *run)
{
    return run->run_number;
}
