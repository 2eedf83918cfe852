/* An application that is started again finds the same standard input, and its output goes on
 * (V-004). */
#include "src/agent/run/run_input.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_inherited.h"
#include "src/agent/run/run_output.h"
#include "src/agent/run/run_say.h"
#include "tests/support/test.h"

static int own_stdin;

static int save_stdin(void **state)
{
    (void)state;
    run_say_quiet(true);
    own_stdin = dup(STDIN_FILENO);
    return own_stdin >= 0 ? 0 : -1;
}

static int give_back_stdin(void **state)
{
    (void)state;
    return dup2(own_stdin, STDIN_FILENO) == STDIN_FILENO && close(own_stdin) == 0 ? 0 : -1;
}

/* As the shell of `ckpt-run < ...` leaves it, and then the first start. */
static void begin(int fd)
{
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    run_input_open();
    run_input_prepare(true);
}

static void application_reads(const char *text)
{
    char read_of[16] = "";

    assert_int_equal(read(STDIN_FILENO, read_of, strlen(text)), strlen(text));
    assert_string_equal(read_of, text);
}

static int file_with(const char *text, int flags)
{
    char name[] = "/tmp/ckpt-run-input-XXXXXX";
    int made = mkstemp(name), file = open(name, flags | O_CLOEXEC);

    assert_true(made >= 0 && file >= 0);
    assert_int_equal(write(made, text, strlen(text)), strlen(text));
    close(made);
    unlink(name); /* as a shell does with what it keeps a here-document in */
    return file;
}

static void a_file_is_read_from_where_the_first_start_read(void **state)
{
    const int flags[] = {O_RDONLY, O_RDWR};

    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        int file = file_with("head body", flags[i]);

        assert_int_equal(lseek(file, 5, SEEK_SET), 5);
        begin(file);
        application_reads("bo");
        for (int start = 0; start < 2; start++) {
            assert_true(run_input_again());
            run_input_prepare(true);
            application_reads("body");
        }
        run_input_close();
        close(file);
    }
}

static void a_shell_that_shares_the_file_goes_on_behind_the_last_run(void **state)
{
    int file = file_with("1 2 3 4", O_RDONLY);

    (void)state;
    begin(file);
    application_reads("1 2 ");
    run_input_prepare(true);
    assert_int_equal(lseek(file, 0, SEEK_CUR), 4); /* a shell may be reading just now */
    application_reads("1 ");
    run_input_close();
    assert_int_equal(lseek(file, 0, SEEK_CUR), 2);
    run_input_open();
    run_input_prepare(true);
    application_reads("2 ");
    run_input_prepare(true);
    assert_int_equal(lseek(file, 6, SEEK_SET), 6); /* it was */
    run_input_close();
    assert_int_equal(lseek(file, 0, SEEK_CUR), 6);
    close(file);
}

static void null_gives_each_start_the_same(void **state)
{
    int null = open("/dev/null", O_RDWR);

    (void)state;
    begin(null);
    assert_true(run_input_again());
    run_input_close();
    close(null);
}

/* As a shell leaves `echo abcd | ckpt-run`, and a here-document. */
static void a_pipe_whose_writers_had_ended_is_given_again_until_it_is_read(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "abcd", 4), 4);
    close(ends[1]);
    begin(ends[0]);
    assert_true(run_input_again());
    application_reads("a");
    assert_false(run_input_again());
    close(ends[0]);
}

/* FIONREAD tells the same of it as before, and on new kernels nothing else tells more. */
static void a_pipe_that_can_be_written_to_is_never_given_again(void **state)
{
    int ends[2], before = 0, after = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "abcd", 4), 4);
    begin(ends[0]);
    assert_int_equal(ioctl(ends[0], FIONREAD, &before), 0);
    application_reads("abcd");
    assert_int_equal(write(ends[1], "efgh", 4), 4);
    close(ends[1]);
    assert_int_equal(ioctl(ends[0], FIONREAD, &after), 0);
    assert_int_equal(before, after);
    assert_false(run_input_again());
    close(ends[0]);
}

static void a_socket_is_given_again_only_when_its_peer_had_ended_and_nothing_was_read(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    begin(ends[0]);
    assert_false(run_input_again()); /* it may have been, and nobody could tell */
    assert_int_equal(write(ends[1], "abcd", 4), 4);
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    begin(ends[0]);
    assert_true(run_input_again());
    application_reads("a");
    assert_false(run_input_again());
    close(ends[0]);
    close(ends[1]);
}

/* Anybody may open it, write and end. */
static void a_named_pipe_is_never_given_again(void **state)
{
    char folder[] = "/tmp/ckpt-run-fifo-XXXXXX", name[64];
    int fifo;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof(name), "%s/input", folder);
    assert_int_equal(mkfifo(name, 0600), 0);
    fifo = open(name, O_RDWR);
    assert_true(fifo >= 0);
    begin(fifo);
    assert_false(run_input_again());
    close(fifo);
    unlink(name);
    rmdir(folder);
}

/* ---- beside the standard streams ---- */

/* As `3< FILE`: the number is what the application knows. */
static void begin_with(int fd, char *const *command)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_int_equal(dup2(null, STDIN_FILENO), STDIN_FILENO);
    close(null);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    run_input_open();
    run_inherited_name(command);
    run_input_prepare(true);
}

static char *const nothing[] = {NULL};

static void a_file_on_another_descriptor_is_read_again_as_well(void **state)
{
    int file = file_with("head body", O_RDONLY), shell = dup(file);
    char text[8] = "";

    (void)state;
    assert_int_equal(fcntl(shell, F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(lseek(file, 5, SEEK_SET), 5);
    begin_with(file, nothing);
    for (int start = 0; start < 3; start++) {
        assert_int_equal(read(file, text, sizeof(text)), 4);
        assert_string_equal(text, "body");
        assert_true(run_input_again());
        run_input_prepare(true);
    }
    assert_int_equal(lseek(shell, 0, SEEK_CUR), 9); /* where the first start has left it */
    close(file);
    close(shell);
}

/* `bash <(generate)`: another start would find an empty script, and end well. */
static void a_pipe_that_the_command_names_is_not_given_again_once_it_was_read(void **state)
{
    char name[32], *command[] = {name, NULL}, byte;
    int ends[2];

    (void)state;
    for (int named = 0; named < 2; named++) {
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(write(ends[1], "abcd", 4), 4);
        close(ends[1]);
        snprintf(name, sizeof(name), named ? "--script=/dev/fd/%d" : "/dev/fd/%d0", ends[0]);
        begin_with(ends[0], command);
        assert_true(run_input_again()); /* it has died before it read */
        assert_int_equal(read(ends[0], &byte, 1), 1);
        assert_false(run_input_again());
        close(ends[0]);
    }
    /* nobody knows what a pipe has carried that others can still write to, unless none names it */
    for (int named = 0; named < 2; named++) {
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        snprintf(name, sizeof(name), named ? "/proc/self/fd/%d" : "other", ends[0]);
        begin_with(ends[0], command);
        assert_int_equal(run_input_again(), !named);
        assert_int_equal(write(ends[1], "a", 1), 1);
        assert_false(run_input_again()); /* something goes through it */
        close(ends[0]);
        close(ends[1]);
    }
}

/* A pipe that a supervisor or make keeps open is no input: a healthy job is started again. */
static void what_nothing_is_read_from_hinders_no_restart(void **state)
{
    int ends[2], sockets[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "++", 2), 2);
    assert_int_equal(fcntl(ends[1], F_SETFD, 0), 0); /* make's tokens: both ends */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    begin_with(ends[0], nothing);
    assert_int_equal(write(ends[1], "+", 1), 1);
    assert_true(run_input_again());
    close(ends[0]);
    close(ends[1]);
    close(sockets[0]);
    close(sockets[1]);
}

static void two_starts_read_the_same_when_their_marks_say_so(void **state)
{
    int file = file_with("one two", O_RDONLY), other = file_with("one two", O_RDONLY);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), zero = open("/dev/zero", O_RDONLY);
    struct input_mark begin = input_mark_of(file), later, untold = {.kind = INPUT_UNKNOWN};
    struct input_mark marks[] = {
        input_mark_of(other), input_mark_of(null), input_mark_of(zero), {.kind = INPUT_PIPE}};
    struct input_mark terminal = {.kind = INPUT_TERMINAL};

    (void)state;
    later = input_mark_of(file);
    assert_true(input_mark_same(&begin, &later));
    assert_int_equal(lseek(file, 4, SEEK_SET), 4);
    later = input_mark_of(file);
    assert_false(input_mark_same(&begin, &later));
    assert_true(input_mark_same(&begin, &untold));
    assert_true(input_mark_same(&untold, &begin));
    assert_true(input_mark_same(&terminal, &marks[1])); /* the same line, by nohup */
    assert_false(input_mark_same(&terminal, &begin));
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        assert_false(input_mark_same(&begin, &marks[i]));
        assert_false(input_mark_same(&marks[i], &begin));
    }
    assert_false(input_mark_same(&marks[1], &marks[2]));
    close(file);
    close(other);
    close(null);
    close(zero);
}

static void a_ckpt_run_with_another_input_starts_nothing_again(void **state)
{
    int file = file_with("other", O_RDONLY);

    (void)state;
    assert_int_equal(dup2(file, STDIN_FILENO), STDIN_FILENO);
    run_input_open();
    run_input_goes_on(false);
    assert_true(run_input_again());
    run_input_goes_on(true);
    assert_false(run_input_again());
    close(file);
}

static void output_goes_on_at_the_end_whoever_has_written_there(void **state)
{
    char name[] = "/tmp/ckpt-run-output-XXXXXX", text[64] = "";
    int out = mkstemp(name), errors = open(name, O_WRONLY);
    int own_out = dup(STDOUT_FILENO), own_errors = dup(STDERR_FILENO);

    (void)state;
    assert_true(out >= 0 && errors >= 0 && own_out >= 0 && own_errors >= 0);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    (void)!write(STDOUT_FILENO, "one ", 4);
    run_output_line("line ");
    (void)!write(STDOUT_FILENO, "two ", 4);
    (void)!lseek(STDOUT_FILENO, 0, SEEK_SET);
    run_output_continue();
    (void)!write(STDOUT_FILENO, "three ", 6);
    run_output_continue();
    (void)!write(STDERR_FILENO, "four", 4);
    fflush(NULL);
    dup2(own_out, STDOUT_FILENO);
    dup2(own_errors, STDERR_FILENO);
    assert_true(pread(out, text, sizeof(text) - 1, 0) > 0);
    assert_string_equal(text, "one line two three four");
    close(out);
    close(errors);
    close(own_out);
    close(own_errors);
    unlink(name);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, save_stdin, give_back_stdin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_is_read_from_where_the_first_start_read),
        CASE(a_shell_that_shares_the_file_goes_on_behind_the_last_run),
        CASE(null_gives_each_start_the_same),
        CASE(a_pipe_whose_writers_had_ended_is_given_again_until_it_is_read),
        CASE(a_pipe_that_can_be_written_to_is_never_given_again),
        CASE(a_socket_is_given_again_only_when_its_peer_had_ended_and_nothing_was_read),
        CASE(a_named_pipe_is_never_given_again),
        CASE(a_file_on_another_descriptor_is_read_again_as_well),
        CASE(a_pipe_that_the_command_names_is_not_given_again_once_it_was_read),
        CASE(what_nothing_is_read_from_hinders_no_restart),
        CASE(two_starts_read_the_same_when_their_marks_say_so),
        CASE(a_ckpt_run_with_another_input_starts_nothing_again),
        cmocka_unit_test(output_goes_on_at_the_end_whoever_has_written_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
