/* ckpt-run: runs an application under the node's agent; or, by a verb, asks the agent.
 *
 * Flow     attach (waits for the agent) -> ready, perhaps with restored files -> start the application -> tell the agent -> wait. An
 *          abnormal end: tell it, attach again, start again from what was restored. A broken stream: attach again, nothing else.
 *          SIGTERM, SIGINT, SIGQUIT and SIGHUP go to the application's group and end the restarts.
 *          An application that runs without its ckpt-run is gone on with (run_again.h).
 * Errors   RUN_EXIT_SELF with one line on stderr; else the application's own status.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/node/proc.h"
#include "src/agent/run/run_again.h"
#include "src/agent/run/run_alone.h"
#include "src/agent/run/run_attributes.h"
#include "src/agent/run/run_call.h"
#include "src/agent/run/run_child.h"
#include "src/agent/run/run_comeback.h"
#include "src/agent/run/run_command.h"
#include "src/agent/run/run_folder.h"
#include "src/agent/run/run_front.h"
#include "src/agent/run/run_inherited.h"
#include "src/agent/run/run_input.h"
#include "src/agent/run/run_linger.h"
#include "src/agent/run/run_names.h"
#include "src/agent/run/run_news.h"
#include "src/agent/run/run_next.h"
#include "src/agent/run/run_note.h"
#include "src/agent/run/run_options.h"
#include "src/agent/run/run_orphan.h"
#include "src/agent/run/run_region.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/run_signals.h"
#include "src/agent/run/run_started.h"
#include "src/agent/run/run_terminal.h"
#include "src/agent/run/run_up.h"
#include "src/agent/run/run_verbs.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/start.h"
#include "src/rpc/client.h"

#define ATTACH_METHOD "/ckpt.v1.AppService/Attach"

enum {
    ATTACH_AGAIN_MS = 200,
    REFUSED_AGAIN_MS = 5000, /* an application that goes on all the same */
    WAITING_NOTICE_MS = 3000,
    LAST_WORD_MS = 4000, /* to deliver the wait status to an agent that is away just now */
    TOLD_WAIT_MS = 1000, /* until an agent that was told has ended the stream, once it is to stop */
    ONLY_WORD_MS = 60000 /* ...when the work folder does not take it */
};

/*   ATTACHING --ready, started--> RUNNING --ended--> ENDED --told--> TOLD --stream over--> ATTACHING (restart) | exit   */
enum run_state {
    RUN_ATTACHING, /* no application */
    RUN_RUNNING,
    RUN_ENDED, /* the agent has not been told yet */
    RUN_TOLD
};

static struct run {
    struct run_options options;
    struct start_signals found; /* of whoever started this program */
    uv_loop_t loop;
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    uv_timer_t timer;     /* attach again; or the notice that it takes long */
    uv_timer_t last_word; /* the agent is away: leave without having told it */
    uv_timer_t patience;  /* --wait-for */
    char work_dir[PATH_MAX];
    enum run_state state;
    struct run_child child;
    pid_t pid; /* of this run's application; 0 in ATTACHING */
    uint64_t start_ticks;
    uint64_t run_number; /* of the allocation, as the agent told it */
    uint32_t restart_count;
    bool confirmed;        /* the agent has written this run's process down: before, it is held */
    bool adopted;          /* its keeper was killed, and this program is its parent */
    bool ready;            /* the agent answered on this stream */
    bool started_over;     /* its held application never began, and is to begin anew */
    bool refused;          /* ... and will not have the application that runs */
    bool ended;            /* the allocation is over, or somebody asked to stop: no restart */
    bool ended_by_cluster; /* ... and it was the cluster that ended the last run */
    bool end_wished;       /* somebody asked to stop: whatever the cluster says, no run follows */
    bool ran;              /* an application was started before */
    bool told_to_end;      /* this run, by a signal that was passed on */
    bool will_restart;
    int wait_status;        /* of the last run */
    uint64_t started_at_ms; /* of the last run, wall clock; 0: none has begun */
    uint64_t ended_at_ms;   /* ... and when it ended; 0: none has */
    uint64_t began_from;    /* ... and the checkpoint from which it went on; 0: from scratch */
    uint32_t parts;         /* ... and of how many the allocation consisted; 0: not known */
    bool failed;            /* the application could not be started, and the agent is being told */
    char note_left[END_NOTE_BYTES]; /* of the last run; "": the work folder took it */
} run = {.child = {.keeper_fd = -1}};

static void attach(void);
static void reap(uv_signal_t *handle, int number);
static void give_up(uv_timer_t *timer);

__attribute__((noreturn)) static void leave(int code)
{
    run_alone_close(run.state != RUN_RUNNING);
    run_input_close();
    run_command_close();
    fflush(NULL);
    _exit(code);
}

/* How the job goes on is said, unless its work is done. */
__attribute__((noreturn)) static void leave_saying(int code)
{
    if (code != 0 && !run.options.quiet && !run.options.once)
        run_next_say(run.options.socket, run.options.allocation_id);
    leave(code);
}

/* ---- up ---- */

/* Not at a first start that is to be from scratch. */
static bool wants_restore(void)
{
    return !run.options.from_scratch || run.restart_count > 0 || run.ran;
}

static void send_hello(void)
{
    const struct run_up_hello facts = {
        .work_dir = run.work_dir,
        .pid = run.pid,
        .start_ticks = run.start_ticks,
        .run_number = run.state != RUN_ATTACHING || run_comeback_is_finished() ? run.run_number : 0,
        .restart_count = run.restart_count,
        .running = run.state != RUN_ATTACHING,
        .held = run.state == RUN_RUNNING && !run.confirmed,
        .want_restore = wants_restore(),
        .wait = run_comeback_word(run.options.stay)};

    run_up_hello(run.call, &run.options, &facts);
}

static void wait_ms(uint64_t delay_ms, uv_timer_cb fire)
{
    uv_timer_start(&run.timer, fire, delay_ms, 0);
}

static void attach_fire(uv_timer_t *timer)
{
    (void)timer;
    attach();
}

static void waiting_notice(uv_timer_t *timer);

/* Then either the next run, or the end. */
static void send_exited(void)
{
    run_up_ended(run.call, run.note_left);
    run.state = RUN_TOLD;
    wait_ms(WAITING_NOTICE_MS, waiting_notice);
}

/* ---- the application ---- */

static void leave_fire(uv_timer_t *timer)
{
    (void)timer;
    leave(run_exit_code(run.wait_status));
}

/* For an agent that is to hear of it; without a next start, it is not waited for. */
static void last_word(const struct end_note *note)
{
    struct err err = {0};
    bool left = run_note_leave(note, run.note_left, &err) == 0;

    if (!left && (run.call == NULL || !run.ready))
        run_say_error("the agent is away, and how the application ended cannot be left for it: %s",
                      err.text);
    if (!note->will_restart && !run.ended_by_cluster)
        uv_timer_start(&run.last_word, leave_fire, left ? LAST_WORD_MS : ONLY_WORD_MS, 0);
}

static struct end_note note_of_end(void)
{
    return (struct end_note){.pid = (uint32_t)run.pid,
                             .start_ticks = run.start_ticks,
                             .run = run.run_number,
                             .wait_status = run.wait_status,
                             .told_to_end = run.told_to_end,
                             .will_restart = run.will_restart};
}

/* No application runs: --wait-for says for how long that may be. */
static void patience_begins(void)
{
    if (run.options.wait_for_ms != 0 && !run_comeback_is_finished() &&
        !uv_is_active((uv_handle_t *)&run.patience))
        uv_timer_start(&run.patience, give_up, run.options.wait_for_ms, 0);
}

static void application_ended(int wait_status)
{
    struct end_note note;

    if (run_terminal_end(wait_status)) {
        run_say("the application was ended at the terminal");
        run.told_to_end = run.ended = run.end_wished = true;
        run.options.stay = run.ended_by_cluster = false;
    }
    run_command_of(0);
    run.wait_status = wait_status;
    run.ended_at_ms = run_wall_ms();
    run.will_restart = !run.ended && run_restarts(&run.options, wait_status, run.restart_count) &&
                       run_input_again();
    if (run.will_restart)
        kill(-run.pid, SIGKILL); /* what is left of this run must not write beside the next one */
    run.state = RUN_ENDED;
    run.refused = false;
    run_say_over();
    if (run.call == NULL)
        wait_ms(ATTACH_AGAIN_MS, attach_fire);
    else if (!run.ready)
        wait_ms(WAITING_NOTICE_MS, waiting_notice);
    note = note_of_end();
    last_word(&note);
    run_child_tell(&run.child, KEEPER_NOTED);
    patience_begins();
    if (run.call != NULL && run.ready)
        send_exited();
}

/* It is not started again: whichever agent comes back must not wait for that. The note says so, and
 * how it ended. */
static void leave_ended(uv_timer_t *timer)
{
    struct end_note note;
    struct err err = {0};

    (void)timer;
    CHECK(run.state == RUN_ENDED || run.state == RUN_TOLD);
    if (run.will_restart) {
        run.will_restart = false;
        note = note_of_end();
        (void)run_note_leave(&note, run.note_left,
                             &err); /* that it cannot be left was said when it ended */
    }
    leave(run_exit_code(run.wait_status));
}

static void application_changed(int wait_status)
{
    CHECK(run.state == RUN_RUNNING);
    if (WIFSTOPPED(wait_status) || WIFCONTINUED(wait_status)) {
        run_terminal_changed(wait_status);
        return;
    }
    if (WIFSIGNALED(wait_status) && !run.options.once)
        run_say("the application was ended by signal %d (%s)", WTERMSIG(wait_status),
                strsignal(WTERMSIG(wait_status)));
    run_news_stop();
    run_linger_begin(run.child.keeper, wait_status, application_ended);
}

/* No start will follow, whoever said so. */
static void take_end_wish(void)
{
    run.ended = run.end_wished = true;
    run.options.stay = run.ended_by_cluster = false;
    if (run.state == RUN_RUNNING)
        run.told_to_end = true;
}

static void orphan_ended(void)
{
    run_say_error("the application has ended, and nobody knows how: its keeper was killed");
    leave(RUN_EXIT_SELF);
}

/* The application is adopted where this program began it. */
static void keeper_lost(void)
{
    run_news_stop();
    run.adopted = run.child.keeper > 0;
    close(run.child.keeper_fd);
    if (run.adopted)
        reap(NULL, SIGCHLD);
    else
        run_orphan_watch(&run.loop, run.pid, run.start_ticks, orphan_ended);
}

static void take_news(const struct keeper_news *news)
{
    if (news == NULL)
        keeper_lost();
    else if (news->kind == KEEPER_TOLD)
        take_end_wish();
    else if (run.state == RUN_RUNNING && news->kind != KEEPER_STARTED)
        application_changed(news->value);
}

/* What the keeper or the application has left is adopted (a subreaper). An application that the
 * agent does not know yet keeps its entry in /proc. */
static void reap(uv_signal_t *handle, int number)
{
    siginfo_t child;
    int wait_status;

    (void)handle, (void)number;
    for (;;) {
        child.si_pid = 0;
        if (waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) != 0 ||
            child.si_pid == 0 || (child.si_pid == run.pid && !run.confirmed) ||
            waitpid(child.si_pid, &wait_status, WNOHANG | WUNTRACED | WCONTINUED) != child.si_pid)
            return;
        if (!run_command_reaped(child.si_pid, wait_status) &&
            !run_alone_reaped(child.si_pid, wait_status) && child.si_pid == run.pid &&
            run.state == RUN_RUNNING && run.adopted)
            application_changed(wait_status);
    }
}

static void forward(uv_signal_t *handle, int number)
{
    (void)handle;
    run_news_read(); /* it may have ended before */
    (void)run_linger_hurry();
    take_end_wish();
    if (run.state == RUN_RUNNING) {
        run_child_tell(&run.child, KEEPER_TELL);
        kill(-run.pid, number);
        run_terminal_told();
    } else if (run.state == RUN_ATTACHING) {
        leave(run.failed ? run_exit_code(run.wait_status) : 128 + number);
    } else if (run.state == RUN_ENDED) {
        leave_ended(NULL); /* an agent that is away may stay away, and finds the note */
    } else {
        uv_timer_start(&run.last_word, leave_ended, TOLD_WAIT_MS, 0);
    }
}

/* The agent hears that it will not come: the allocation would be starting for ever. */
static void cannot_run(int failure, const char *why, uint64_t run_number)
{
    const char *program = run_front_program(run.options.command);
    struct end_note note = {.run = run_number, .wait_status = run_start_status(failure)};

    run_say_error("%s: %s", program, why);
    run.wait_status = note.wait_status;
    run.failed = true;
    snprintf(note.why, sizeof(note.why), "%.50s: %.140s", program, why);
    last_word(&note);
    run_up_ended(run.call, run.note_left);
}

static void start_application(const Ckpt__V1__AttachReady *ready)
{
    char run_number[CHECKPOINT_ID_TEXT_BYTES], socket[PATH_MAX], folder[PATH_MAX];
    struct run_environment environment = {.allocation_id = run.options.allocation_id,
                                          .work_dir = run.work_dir,
                                          .run = checkpoint_id_format(ready->run, run_number),
                                          .socket = socket,
                                          .restart_count = run.restart_count,
                                          .begins_without = run_alone_lacks(run.restart_count),
                                          .signals = &run.found};
    const struct keeper_start start = {
        .work_dir = run.work_dir,
        .held_folder = run_alone_held(),
        .line = {run.options.allocation_id, run.options.command, folder, run_input_mark()},
        .card = {.run = ready->run,
                 .started_at_ms = run_wall_ms(),
                 .began_from = ready->checkpoint_id,
                 .restart_count = run.restart_count}};
    struct proc_stat stat;
    struct err err = {0};
    char *const *command = run_attributes_line(&run.options, ready, &err);
    int failure = run_start_prepare(run_front_program(command), &run.options, ready, &err);

    run_note_drop();
    run_environment_take(&environment, ready, run_region_path());
    run_keeper_folder(folder);
    if (proc_socket_name(run.options.socket, socket) != 0)
        socket[0] = '\0';
    if (failure == 0)
        run_input_prepare(run_may_restart(&run.options));
    if (failure == 0)
        failure = run_child_start(&start, &environment, command, &run.child);
    if (failure != 0) {
        cannot_run(failure, err.text[0] != '\0' ? err.text : strerror(failure), ready->run);
        return;
    }
    run.pid = run.child.pid;
    run_command_of(run.pid);
    run_terminal_begin(run.pid);
    run.adopted = false;
    run_news_watch(&run.loop, run.child.keeper_fd, take_news);
    /* our child, not reaped: its entry in /proc is there even if it ended already */
    CHECK(proc_read_stat(run.pid, &stat) == 0);
    run.start_ticks = stat.start_ticks;
    if (run_alone_started(run.pid, run.start_ticks) != 0) {
        run_child_drop(&run.child);
        leave(RUN_EXIT_SELF);
    }
    run.run_number = ready->run;
    if (!run.options.once)
        run_say_started(ready, &(struct run_started){.pid = run.pid,
                                                     .wants_restore = wants_restore(),
                                                     .last = {.started_at_ms = run.started_at_ms,
                                                              .ended_at_ms = run.ended_at_ms,
                                                              .began_from = run.began_from}});
    run.ran = true;
    run.parts = ready->parts;
    run.started_at_ms = run_wall_ms();
    run.ended_at_ms = 0;
    run.began_from = ready->checkpoint_id;
    run.state = RUN_RUNNING;
    run.told_to_end = false;
    run.confirmed = false;
    run_up_started(run.call, run.pid, run.start_ticks, ready->checkpoint_id);
}

/* The agent has it in its journal: from here on the application is one that will be found again. */
static void release_application(void)
{
    int failure;

    run_child_tell(&run.child, KEEPER_CONFIRM);
    failure = run_child_release(&run.child);
    if (failure != 0) {
        run_say_error("%s: %s", run.options.command[0], strerror(failure));
        run.ended = true; /* its exit status says the rest; another try would end the same */
    }
}

/* ---- down ---- */

static void leave_waiting(void) /* no run will follow */
{
    leave_saying(run.ran ? run_exit_code(run_comeback_status(run.wait_status)) : RUN_EXIT_SELF);
}

/* What runs well is not ended because its agent cannot have it: it is asked again, and the application goes on. */
static void take_refusal(const Ckpt__V1__AttachReady *ready)
{
    if (run.state == RUN_ATTACHING && run.options.stay && ready->may_come &&
        !run_comeback_leaves()) {
        run_say_waiting("%s; waiting for that (--stay)", ready->error); /* an agent of before */
        return;
    }
    run_comeback_cause(ready->cause_wait_status);
    if (run.started_over && !ready->may_come) { /* however it ended before, this run has failed */
        run_say_error("the agent refuses: %s", ready->error);
        leave(RUN_EXIT_SELF);
    }
    if (run.state == RUN_ATTACHING && run_comeback_wanted()) {
        run_comeback_say_why(ready->error, ready->may_come || run.wait_status != 0);
        leave_waiting();
    }
    if (!run.refused || run.state == RUN_ATTACHING)
        run_say_error("the agent refuses: %s", ready->error);
    if (run.state == RUN_ENDED || run.state == RUN_TOLD)
        leave(run_exit_code(run.wait_status));
    if (run.state == RUN_RUNNING && run.confirmed && !ready->must_end) {
        run.refused = true;
        return;
    }
    if (run.state == RUN_RUNNING)
        kill(-run.pid, SIGTERM);
    if (run.options.stay && run.state == RUN_ATTACHING)
        leave_waiting();
    leave_saying(RUN_EXIT_SELF);
}

static void take_ready(const Ckpt__V1__AttachReady *ready)
{
    if (ready->error[0] != '\0') {
        take_refusal(ready);
        return;
    }
    if (run_comeback_leaves())
        leave_waiting(); /* the agent is older and does not know that nothing may begin */
    run.refused = run.started_over = false;
    run_comeback_stop(ready->run, ready->stays_when_finished);
    if (ready->notice[0] != '\0')
        run_say("%s", ready->notice);
    run.ready = true;
    uv_timer_stop(&run.timer);
    if (run.state == RUN_ENDED)
        send_exited();
    else if (run.state == RUN_ATTACHING) {
        if (run_alone_refuses(ready->scratch))
            leave(RUN_EXIT_SELF);
        uv_timer_stop(&run.patience);
        if (run.restart_count > 1 && ready->checkpoint_id > run.began_from)
            run.restart_count = 1; /* the first since progress: a new complete checkpoint */
        start_application(ready);
    } else if (run.state == RUN_RUNNING) {
        if (!run.confirmed)
            release_application();
        run.confirmed = true;
        reap(NULL, SIGCHLD);
    }
}

/* As if this program were started now. */
static void begin_anew(void)
{
    run.ended = run.ended_by_cluster = false;
    run_child_done(&run.child);
    run.restart_count = 0;
    run.pid = 0;
    run.state = RUN_ATTACHING;
    uv_timer_stop(&run.last_word);
}

/* Another run of it may come. Without --stay the cluster's own restart alone is waited for. */
static void stay_on(bool by_cluster)
{
    if (by_cluster || !run_comeback_is_finished())
        run_comeback_ask(by_cluster);
    else
        uv_timer_stop(&run.patience); /* the other parts run */
    begin_anew();
}

/* No other run may begin here. Of a job of several parts the one that ended first says how it
 * ended. */
static void leave_with_cause(void)
{
    CHECK(run.ran);
    if (run.parts == 1)
        leave_saying(run_exit_code(run.wait_status));
    run_comeback_leave();
    begin_anew();
    wait_ms(0, attach_fire);
}

static void take_end(const Ckpt__V1__AttachEnd *end)
{
    bool stays = (!end->for_good || run.options.stay) && !run.options.once;

    if (run.state == RUN_ATTACHING && run_comeback_leaves())
        return;                                /* others still end it */
    if (run.state == RUN_ATTACHING && stays) { /* perhaps once more, while others still end it */
        run_comeback_say_over(end->reason);
        stay_on(true);
        return;
    }
    run_say("%s", run_over_name(end->reason, run.options.once, (char[RUN_OVER_BYTES]){""}));
    if (run.state == RUN_ATTACHING)
        leave_waiting();
    run.ended_by_cluster = stays && !run.end_wished; /* it may be the consequence of that wish */
    run.ended = true;
}

/* The wait for the cluster's restart begins with its first word. */
static void take_notice(const Ckpt__V1__AttachNotice *notice)
{
    if (run.state != RUN_ATTACHING) {
        run_say("%s", notice->text);
        return;
    }
    run_say_waiting("%s", notice->text);
    run_comeback_cause(notice->cause_wait_status);
    if (run_comeback_leaves() && notice->restart_wait_ms != 0)
        leave_waiting(); /* an older agent would keep it */
    if (notice->restart_wait_ms != 0)
        run_comeback_told(notice->restart_wait_ms);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    Ckpt__V1__AttachDown *down = ckpt__v1__attach_down__unpack(NULL, length, bytes);

    (void)call, (void)data;
    if (down == NULL)
        return;
    run_comeback_reaches(true);
    if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_READY)
        take_ready(down->ready);
    else if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_END)
        take_end(down->end);
    else if (down->body_case == CKPT__V1__ATTACH_DOWN__BODY_NOTICE)
        take_notice(down->notice);
    ckpt__v1__attach_down__free_unpacked(down, NULL);
}

static void next_run(void)
{
    if (run.ended)
        leave(run_exit_code(run.wait_status));
    run_child_done(&run.child);
    run.restart_count++;
    run_say_restart(run.restart_count, run.options.restarts_max, run.wait_status);
    run_say_over();
    run.pid = 0;
    run.state = RUN_ATTACHING;
    wait_ms(0, attach_fire);
}

/* The agent was away in the moment between the restore and the start: what it brought may be gone. */
static void start_over(void)
{
    if (run.ended && !run.ended_by_cluster)
        leave(RUN_EXIT_SELF);
    run_news_stop();
    run_child_drop(&run.child);
    run_terminal_begin(0);
    run.pid = 0;
    run.state = RUN_ATTACHING;
    run.started_over = true;
    if (run.ended_by_cluster)
        stay_on(true);
    wait_ms(0, attach_fire);
}

/* Why the agent is wanted although nothing runs; "" before a start. */
static const char *name_end(char text[RUN_END_BYTES])
{
    text[0] = '\0';
    if (run.state == RUN_ATTACHING || run.state == RUN_RUNNING)
        return text;
    return run_end_name(run.wait_status, run.will_restart || run.ended_by_cluster,
                        run.note_left[0] == '\0', text);
}

static void say_unreachable(const char *message)
{
    bool moment = run.state != RUN_ATTACHING && !run.will_restart && !run.ended_by_cluster;
    char end[RUN_END_BYTES];

    run_comeback_reaches(false);
    run_say_waiting("%scannot reach the agent at %s: %s; %s; trying again%s", name_end(end),
                    run.options.socket, message, run_unreachable_advice(run.options.socket),
                    run_again_for(moment, run.options.wait_for_ms));
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    (void)call, (void)data;
    run.call = NULL;
    if (run.state == RUN_RUNNING && !run.confirmed && end->status == RPC_ABORTED) {
        start_over();
        return;
    }
    if (run.state == RUN_ATTACHING && end->status == RPC_UNIMPLEMENTED) {
        run_say_error("what listens at %s is not an agent: %s", run.options.socket, end->message);
        leave(RUN_EXIT_SELF);
    }
    if (run.failed && end->status == RPC_OK)
        leave(run_exit_code(run.wait_status));
    if (run.state != RUN_RUNNING && end->status == RPC_UNAVAILABLE && !run.options.alone.wanted)
        say_unreachable(end->message);
    if (run.state == RUN_TOLD && end->status != RPC_OK)
        run.state = RUN_ENDED; /* it may not have arrived */
    if (run.state != RUN_TOLD)
        wait_ms(run.refused ? REFUSED_AGAIN_MS : ATTACH_AGAIN_MS, attach_fire);
    else if (run.will_restart && !run.ended_by_cluster)
        next_run();
    else if (!run.ended_by_cluster &&
             (run.ended || run.failed || run.options.once || run.options.alone.wanted))
        leave_saying(run_exit_code(run.wait_status));
    else if (run.ended_by_cluster
                 ? run_input_again()
                 : run_input_unread() && (run.wait_status != 0 || /* for the last time here */
                                          run_comeback_finished())) {
        stay_on(run.ended_by_cluster); /* also when the next run was decided upon before */
        wait_ms(0, attach_fire);
    } else if (!run.ended_by_cluster && run.wait_status == 0)
        leave(run_exit_code(run.wait_status));
    else
        leave_with_cause();
}

/* The agent has taken the hello: what it waits for it says itself, but for this. Of one that stands
 * still nothing comes. */
static void waiting_notice(uv_timer_t *timer)
{
    char end[RUN_END_BYTES];

    (void)timer;
    if (run.state == RUN_ENDED || run.state == RUN_TOLD) {
        run_say_waiting("%sit does not answer at %s; waiting for it", name_end(end),
                        run.options.socket);
        wait_ms(RUN_SAY_AGAIN_MS, waiting_notice);
    } else if (!run.ready && run_say_cause()[0] == '\0' && !run_comeback_is_finished())
        run_say_waiting(
            "the agent is there; waiting until what ran here before has ended, or until the "
            "last checkpoint is found and copied");
}

static void give_up(uv_timer_t *timer)
{
    char waited[WORDS_BYTES];

    (void)timer;
    run_say_error("gave up after %s (--wait-for): %s",
                  words_duration(run.options.wait_for_ms, waited),
                  run_say_cause()[0] != '\0' ? run_say_cause()
                                             : "the agent had not said yet what is waited for");
    if (run.state == RUN_ENDED || run.state == RUN_TOLD)
        leave_ended(NULL);
    leave_waiting();
}

static void attach(void)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    const struct run_options *options = &run.options;
    struct err err;

    CHECK(run.call == NULL);
    run.ready = false;
    if (run.state != RUN_RUNNING) {
        if (run_folder_keep(options->work_dir, options->allocation_id, run.work_dir, &err) != 0)
            run_say_error("%s", err.text);
        wait_ms(WAITING_NOTICE_MS, waiting_notice);
        patience_begins();
    }
    run.call = rpc_channel_open(run.channel, ATTACH_METHOD, 0, false, &handlers, NULL);
    send_hello();
}

/* ---- start ---- */

/* The same line was started again: its application runs, and is this program's from here on. */
static void go_on_with_running(void)
{
    struct keeper_card card;
    int fd = -1;

    if (!run_again_find(run.work_dir, &run.options, &card, &fd))
        leave(RUN_EXIT_SELF);
    if (fd < 0)
        return;
    run.child = (struct run_child){(pid_t)card.pid, -1, -1, 0, fd};
    run.pid = (pid_t)card.pid;
    run.start_ticks = card.start_ticks;
    run.run_number = card.run;
    run.restart_count = card.restart_count;
    run.started_at_ms = card.started_at_ms;
    run.began_from = card.began_from;
    run.state = RUN_RUNNING;
    run.confirmed = run.ran = true;
    run_command_of(run.pid);
    run_terminal_begin(run.pid);
    run_news_watch(&run.loop, fd, take_news);
}

int main(int argc, char **argv)
{
    uv_timer_t *const timers[] = {&run.timer, &run.last_word, &run.patience};
    struct err err;
    int code;

    run_front(argc, argv);
    start_program(&run.found);
    if (run_answered(argc, argv, &run.options, &code))
        return code;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); /* for an application whose keeper is killed */
    run_input_open();
    run_say_quiet(run.options.quiet);
    run_inherited_name(run.options.command);
    signal(SIGPIPE, SIG_IGN);
    CHECK(uv_loop_init(&run.loop) == 0);
    if (run_alone_prepare(&run.options, &err) != 0 ||
        run_folder_make(run.options.work_dir, run.options.allocation_id, run.work_dir, &err) != 0 ||
        run_alone_open(&run.loop, &run.options, run.work_dir, &err) != 0 ||
        run_command_open(&run.loop, &run.options, run.work_dir, &err) != 0) {
        run_say_error("%s", err.text);
        return RUN_EXIT_SELF;
    }
    run_note_open(&run.loop, run.work_dir);
    run_comeback_open(&run.loop, run.options.stay, leave_waiting);
    run_linger_open(&run.loop);
    for (size_t i = 0; i < ARRAY_COUNT(timers); i++)
        CHECK(uv_timer_init(&run.loop, timers[i]) == 0);
    run_terminal_open(&run.loop, &run.found);
    run_signals_open(&run.loop, &run.found, forward, reap);
    run.channel = run_channel_new(&run.loop, run.options.socket);
    if (!run.options.replace)
        go_on_with_running();
    attach();
    uv_run(&run.loop, UV_RUN_DEFAULT);
    CHECK_UNREACHABLE("ckpt-run leaves by its status");
}
