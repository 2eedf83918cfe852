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
    int made = mkstemp(name), file = open(name, flags);

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
        cmocka_unit_test(output_goes_on_at_the_end_whoever_has_written_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
