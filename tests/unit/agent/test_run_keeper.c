/* An application has a parent that outlives its ckpt-run: it hands the application to the next one,
 * and leaves the note of its end when there is none (V-012). */
#include "src/agent/run/run_keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/durable/end_note.h"
#include "src/agent/run/run_child.h"
#include "tests/support/test.h"

enum { RUN = 77 };

static struct start_signals found;
static const struct run_environment environment = {.allocation_id = "job",
                                                   .node_id = "n1",
                                                   .work_dir = "/nowhere",
                                                   .restore_dir = "",
                                                   .run = "1-5",
                                                   .socket = "/nowhere/agent.sock",
                                                   .app_socket = "",
                                                   .restore_uri = "",
                                                   .restore_label = "",
                                                   .signals = &found};
static char folder[64];
static char shell[] = "/bin/sh", dash_c[] = "-c";
static struct run_child child;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ckpt-run-keeper-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char name[128];

    (void)state;
    snprintf(name, sizeof(name), "%s/%s", folder, END_NOTE_NAME);
    unlink(name);
    snprintf(name, sizeof(name), "%s/%s", folder, KEEPER_SOCKET_NAME);
    unlink(name);
    return rmdir(folder);
}

/* Its ckpt-run has begun it, and was killed. */
static void begin_and_leave(char *script)
{
    char *command[] = {shell, dash_c, script, NULL};
    const struct keeper_start start = {.work_dir = folder,
                                       .line = {"job", command, "/here"},
                                       .card = {.run = RUN, .restart_count = 2}};

    assert_int_equal(run_child_start(&start, &environment, start.line.command, &child), 0);
    run_child_tell(&child, KEEPER_CONFIRM);
    assert_int_equal(run_child_release(&child), 0);
    close(child.keeper_fd);
}

/* The keeper takes a moment to see that its ckpt-run has gone. */
static int ask_from(const char *started_in, const char *allocation_id, char *script,
                    struct keeper_reply *ret_reply)
{
    char *command[] = {shell, dash_c, script, NULL};
    const struct keeper_call call = {.request = KEEPER_ATTACH,
                                     .line = {allocation_id, command, started_in}};
    int fd;

    do
        fd = run_keeper_call(folder, &call, ret_reply);
    while (fd == 0 && ret_reply->answer == KEEPER_ATTENDED);
    return fd;
}

static int ask(const char *allocation_id, char *script, struct keeper_reply *ret_reply)
{
    return ask_from("/here", allocation_id, script, ret_reply);
}

static int tell_to_end(uint64_t grace_ms, struct keeper_reply *ret_reply)
{
    const struct keeper_call call = {.request = KEEPER_END, .grace_ms = grace_ms};

    return run_keeper_call(folder, &call, ret_reply);
}

static struct keeper_news next_news(int fd)
{
    struct keeper_news news;

    assert_int_equal(recv(fd, &news, sizeof(news), 0), sizeof(news));
    return news;
}

static bool read_note(struct end_note *ret_note)
{
    char name[128], text[END_NOTE_BYTES] = "";
    ssize_t length = -1;
    int fd;

    snprintf(name, sizeof(name), "%s/%s", folder, END_NOTE_NAME);
    fd = open(name, O_RDONLY);
    if (fd >= 0) {
        length = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    return length > 0 && end_note_read(text, ret_note);
}

static void the_same_line_alone_gets_the_application(void **state)
{
    char waits[] = "exec sleep 60", other[] = "exec sleep 61";
    struct keeper_reply reply;
    struct keeper_news news;
    struct end_note note;
    int fd;

    (void)state;
    begin_and_leave(waits);
    assert_int_equal(ask("job", other, &reply), 0);
    assert_int_equal(reply.answer, KEEPER_OTHER);
    assert_string_equal(reply.command, "/bin/sh -c exec sleep 60");
    assert_int_equal(ask("another", waits, &reply), 0);
    assert_int_equal(reply.answer, KEEPER_OTHER);
    assert_int_equal(ask_from("/elsewhere", "job", waits, &reply), 0);
    assert_int_equal(reply.answer, KEEPER_ELSEWHERE);
    assert_string_equal(reply.folder, "/here");
    fd = ask("job", waits, &reply);
    assert_true(fd > 0);
    assert_int_equal(reply.card.pid, child.pid);
    assert_int_equal(reply.card.run, RUN);
    assert_int_equal(reply.card.restart_count, 2);
    assert_int_equal(tell_to_end(60000, &reply), 0);
    assert_int_equal(next_news(fd).kind, KEEPER_TOLD);
    do
        news = next_news(fd);
    while (news.kind == KEEPER_CHANGED);
    assert_int_equal(news.kind, KEEPER_ENDED);
    assert_int_equal(WTERMSIG(news.value), SIGTERM);
    child.keeper_fd = fd;
    run_child_done(&child);
    assert_false(read_note(&note)); /* its ckpt-run leaves it */
    assert_int_equal(tell_to_end(60000, &reply), -1);
}

/* Of another user, in a folder that all may write to. */
static void nobody_elses_keeper_is_believed(void **state)
{
    char waits[] = "exec sleep 60", *command[] = {shell, dash_c, waits, NULL};
    const struct keeper_call call = {.request = KEEPER_ATTACH, .line = {"job", command, "/here"}};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct keeper_reply reply = {.answer = KEEPER_ATTENDED};
    int ready[2], got;
    char byte;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip(); /* it becomes another user */
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, KEEPER_SOCKET_NAME);
    pid = fork();
    if (pid == 0) {
        const struct keeper_reply lie = {.answer = KEEPER_YES, .card = {.pid = 1}};
        int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;

        if (setuid(65534) != 0 || bind(listening, (struct sockaddr *)&address, sizeof(address)) ||
            listen(listening, 1) != 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        fd = accept(listening, NULL, NULL);
        if (fd >= 0)
            (void)!send(fd, &lie, sizeof(lie), MSG_NOSIGNAL);
        pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    got = run_keeper_call(folder, &call, &reply);
    kill(pid, SIGKILL); /* first of all: it would live on */
    waitpid(pid, NULL, 0);
    close(ready[0]);
    assert_int_equal(unlink(address.sun_path), 0);
    assert_int_equal(got, -1);
}

/* Its words wait, and its end behind them: a caller then is not told that it is still there. */
static void a_ckpt_run_that_has_gone_attends_nobody(void **state)
{
    char waits[] = "exec sleep 60", *command[] = {shell, dash_c, waits, NULL};
    const struct keeper_start start = {.work_dir = folder, .line = {"job", command, "/here"}};
    const struct keeper_call call = {.request = KEEPER_ATTACH, .line = {"job", command, "/here"}};
    struct keeper_reply reply;
    int fd;

    (void)state;
    assert_int_equal(run_child_start(&start, &environment, start.line.command, &child), 0);
    run_child_tell(&child, KEEPER_CONFIRM);
    assert_int_equal(run_child_release(&child), 0);
    assert_int_equal(kill(child.keeper, SIGSTOP), 0);
    for (int i = 0; i < 20; i++)
        run_child_tell(&child, KEEPER_CONFIRM);
    close(child.keeper_fd);
    if (fork() == 0) { /* it answers when all of that has come, and the question too */
        usleep(200000);
        kill(child.keeper, SIGCONT);
        _exit(0);
    }
    fd = run_keeper_call(folder, &call, &reply);
    assert_int_equal(reply.answer, KEEPER_YES);
    assert_true(fd > 0);
    kill(child.pid, SIGKILL);
    child.keeper_fd = fd;
    run_child_done(&child);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

/* It takes no notice of SIGTERM. A later word does not lengthen its time, and shortens it. */
static void who_does_not_end_within_the_grace_is_killed(void **state)
{
    static const struct {
        uint64_t first_ms, second_ms;
    } rounds[] = {{300, 60000}, {60000, 0}};
    char stays[200], ready[96];

    (void)state;
    snprintf(ready, sizeof(ready), "%s/ready", folder);
    snprintf(stays, sizeof(stays), "trap '' TERM; echo > %s; while :; do sleep 0.05; done", ready);
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        struct keeper_reply reply;
        struct end_note note = {0};

        begin_and_leave(stays);
        while (access(ready, F_OK) != 0)
            ;
        assert_int_equal(unlink(ready), 0);
        assert_int_equal(tell_to_end(rounds[i].first_ms, &reply), 0);
        assert_int_equal(tell_to_end(rounds[i].second_ms, &reply), 0);
        assert_int_equal(waitpid(child.keeper, NULL, 0), child.keeper);
        assert_true(read_note(&note));
        assert_int_equal(WTERMSIG(note.wait_status), SIGKILL);
        assert_true(note.told_to_end);
    }
}

/* One of the release before says neither in which folder it was started nor a grace. */
static void a_caller_of_the_release_before_is_understood(void **state)
{
    enum { BEFORE_BYTES = 16384 + 160 };
    char waits[] = "exec sleep 60", message[BEFORE_BYTES] = {0};
    char *command[] = {shell, dash_c, waits, NULL};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct keeper_before {
        int request;
        char allocation_id[129];
        size_t command_bytes;
        char command[16384];
    } *question = (struct keeper_before *)message;
    struct {
        int answer;
        struct keeper_card card;
        char allocation_id[129];
        char command[200];
    } reply;
    int fd;

    (void)state;
    _Static_assert(sizeof(struct keeper_before) <= BEFORE_BYTES, "it fits");
    begin_and_leave(waits);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, KEEPER_SOCKET_NAME);
    snprintf(question->allocation_id, sizeof(question->allocation_id), "job");
    for (size_t i = 0; command[i] != NULL; i++) {
        memcpy(question->command + question->command_bytes, command[i], strlen(command[i]));
        question->command_bytes += strlen(command[i]) + 1;
    }
    do {
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(send(fd, question, sizeof(*question), 0), sizeof(*question));
        assert_int_equal(recv(fd, &reply, sizeof(reply), 0), sizeof(reply));
        if (reply.answer == KEEPER_ATTENDED)
            close(fd);
    } while (reply.answer == KEEPER_ATTENDED);
    assert_int_equal(reply.answer, KEEPER_YES);
    assert_int_equal(reply.card.pid, child.pid);
    kill(child.pid, SIGKILL);
    child.keeper_fd = fd;
    run_child_done(&child);
}

static void without_any_ckpt_run_the_end_is_noted(void **state)
{
    char ends[] = "exit 0", fails[] = "exit 3";
    const struct {
        char *script;
        int code;
    } rounds[] = {{ends, 0}, {fails, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        struct end_note note = {0};

        begin_and_leave(rounds[i].script);
        assert_int_equal(waitpid(child.keeper, NULL, 0), child.keeper);
        assert_true(read_note(&note));
        assert_int_equal(note.pid, child.pid);
        assert_int_equal(note.run, RUN);
        assert_int_equal(WEXITSTATUS(note.wait_status), rounds[i].code);
        assert_false(note.told_to_end || note.will_restart);
    }
}

/* It was killed with its ckpt-run, whose next one decides whether it is started again. */
static void an_end_that_has_just_been_is_told_to_the_next_ckpt_run(void **state)
{
    char fails[] = "kill -9 $$";
    struct keeper_reply reply;
    struct end_note note;
    int fd;

    (void)state;
    begin_and_leave(fails);
    fd = ask("job", fails, &reply);
    assert_true(fd > 0);
    assert_int_equal(next_news(fd).kind, KEEPER_ENDED);
    child.keeper_fd = fd;
    run_child_done(&child);
    assert_false(read_note(&note));
}

/* The agent may not know of it: nothing is said in its name. */
static void a_start_that_was_never_released_leaves_nothing(void **state)
{
    char waits[] = "exec sleep 60";
    char *command[] = {shell, dash_c, waits, NULL};
    const struct keeper_start start = {.work_dir = folder, .line = {"job", command, "/here"}};
    struct end_note note;

    (void)state;
    assert_int_equal(run_child_start(&start, &environment, start.line.command, &child), 0);
    close(child.gate_fd);
    close(child.failure_fd);
    close(child.keeper_fd);
    assert_int_equal(waitpid(child.keeper, NULL, 0), child.keeper);
    assert_false(read_note(&note));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_same_line_alone_gets_the_application),
        CASE(nobody_elses_keeper_is_believed),
        CASE(a_ckpt_run_that_has_gone_attends_nobody),
        CASE(who_does_not_end_within_the_grace_is_killed),
        CASE(a_caller_of_the_release_before_is_understood),
        CASE(without_any_ckpt_run_the_end_is_noted),
        CASE(an_end_that_has_just_been_is_told_to_the_next_ckpt_run),
        CASE(a_start_that_was_never_released_leaves_nothing),
    };

    alarm(60); /* whoever waits for a keeper in vain waits for ever */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
