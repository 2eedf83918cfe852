/* The agent's files in a work folder that belongs to somebody else: what lies there never holds the agent. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/machine.h"
#include "tests/support/test.h"

enum { PATIENCE_S = 10 }; /* then SIGALRM ends the test */

static void write_and_read(const struct machine_ops *machine, const char *path, const char *text)
{
    const struct machine_user user = {geteuid(), getegid()};
    char read[64];
    struct err err = {0};

    assert_int_equal(machine->file_write(machine->context, user, path, text, strlen(text), &err),
                     0);
    assert_int_equal(machine->file_read(machine->context, user, path, read, sizeof(read)),
                     strlen(text));
    assert_string_equal(read, text);
}

static void a_pipe_or_a_link_in_its_way_does_not_hold_a_write(void **state)
{
    char folder[] = "/tmp/test_machine.XXXXXX";
    char path[64], temporary[64], other[64];
    struct machine_ops machine;

    (void)state;
    alarm(PATIENCE_S);
    machine_uv_ops(NULL, &machine);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/request", folder);
    snprintf(temporary, sizeof(temporary), "%s/request.new", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    assert_int_equal(mkfifo(temporary, 0600), 0);
    write_and_read(&machine, path, "first");
    assert_int_equal(symlink(other, temporary), 0);
    write_and_read(&machine, path, "second");
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    write_and_read(&machine, path, "third");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_or_a_link_in_its_way_does_not_hold_a_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
