/* Saving by DMTCP with a stand-in for its programs, which lie as those of the releases do: codes of
 * 0 with nothing written, images that are half, a coordinator that is gone. S1-049, S3-065. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/transparent/program.h"
#include "src/agent/transparent/tool.h"
#include "src/base/check.h"

/* $SITE/how says what they do; $SITE/asked counts requests for a checkpoint. */
static const char program_text[] =
    "#!/bin/sh\n"
    "how=$(cat $SITE/how); images=$SITE/ckpt-dmtcp/images\n"
    "case $0 in\n"
    "*coordinator) [ \"$1\" = --version ] && { echo 'dmtcp_coordinator (DMTCP) 3.0.0'; exit; }\n"
    "    echo \"$@\" > $SITE/coordinator; [ \"$how\" = mute ] && exit 0\n"
    "    while [ $# -gt 0 ]; do [ $1 = --port-file ] && echo 7779 > $2; shift; done; exit 0;;\n"
    "*command) for last; do :; done\n"
    "    if [ $last = -s ]; then\n"
    "        [ \"$how\" = gone ] && { echo 'Error: cannot connect'; exit 2; }\n"
    "        peers=2; running=yes\n"
    "        [ \"$how\" = busy ] && running=no\n"
    "        [ \"$how\" = stuck ] && [ -e $SITE/asked ] && running=no\n"
    "        [ \"$how\" = ended ] && [ -e $SITE/asked ] && peers=0\n"
    "        echo Status...; echo NUM_PEERS=$peers; echo RUNNING=$running; exit 0\n"
    "    fi\n"
    "    script() { echo \"# Number of processes in the computation = $1\" > $images/of_7.sh;\n"
    "        ln -s of_7.sh $images/dmtcp_restart_script.sh; }\n"
    "    echo x >> $SITE/asked; [ -e $images/ckpt_a_1.dmtcp ] && echo old > $SITE/old\n"
    "    case $how in\n"
    "    lies | stuck | ended) ;;\n"
    "    half) script 2; echo 1 > $images/ckpt_a_1.dmtcp; echo 2 > $images/ckpt_a_2.dmtcp.temp;;\n"
    "    fewer) script 1; echo 1 > $images/ckpt_a_1.dmtcp;;\n"
    "    more) script 3; echo 1 > $images/ckpt_a_1.dmtcp; echo 2 > $images/ckpt_a_2.dmtcp;;\n"
    "    'no script') echo 1 > $images/ckpt_a_1.dmtcp; echo 2 > $images/ckpt_a_2.dmtcp;;\n"
    "    slow) script 2; (sleep 0.3; echo 2 > $images/ckpt_a_2.dmtcp) > /dev/null 2>&1 &\n"
    "        echo 1 > $images/ckpt_a_1.dmtcp;;\n"
    "    *) script 2; echo 1 > $images/ckpt_a_1.dmtcp; echo 2 > $images/ckpt_a_2.dmtcp;\n"
    "        mkdir $images/ckpt_a_1_files; echo no path > $images/ckpt_a_1_files/1;;\n"
    "    esac; exit 0;;\n"
    "*) echo \"$DMTCP_COORD_HOST:$DMTCP_COORD_PORT $@\" > $SITE/line;;\n"
    "esac\n";

static char folder[] = "/tmp/test_dmtcp_XXXXXX";
static char saved[64];
static struct err err;
static pid_t front;
static bool not_wanted;

static void path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
}

static const char *read_text(const char *name)
{
    static char text[1024];
    char path[128];
    ssize_t got;
    int fd;

    path_of(name, path);
    fd = open(path, O_RDONLY);
    got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[got < 0 ? 0 : got] = '\0';
    return text;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    char path[128];
    int fd;

    path_of(name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static bool there_is(const char *name)
{
    char path[128];

    path_of(name, path);
    return access(path, F_OK) == 0;
}

static void remove_file(const char *name)
{
    char path[128];

    path_of(name, path);
    (void)unlink(path);
}

static void remove_folder(const char *name)
{
    char path[128];

    path_of(name, path);
    (void)rmdir(path);
}

static bool is_unwanted(void)
{
    return not_wanted;
}

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int save_as(const char *how, uint64_t within_ms)
{
    const struct tool_save save = {.work_dir = folder,
                                   .folder = saved,
                                   .front = front,
                                   .deadline_ms = wall_ms() + within_ms,
                                   .unwanted = is_unwanted};

    write_file("how", how, 0600);
    remove_file("asked");
    remove_file("old");
    remove_file("saved/ckpt_a_1.dmtcp");
    remove_file("saved/ckpt_a_2.dmtcp");
    remove_file("saved/ckpt_a_1_files/1");
    remove_folder("saved/ckpt_a_1_files");
    memset(&err, 0, sizeof(err));
    return tool_find("dmtcp")->save(&save, &err);
}

static void its_images_are_moved_into_the_checkpoint(void **state)
{
    (void)state;
    for (int generation = 0; generation < 2; generation++) { /* with the same names */
        assert_int_equal(save_as(generation == 0 ? "works" : "slow", 5000), 0);
        assert_true(there_is("saved/ckpt_a_1.dmtcp") && there_is("saved/ckpt_a_2.dmtcp"));
        assert_false(there_is("ckpt-dmtcp/images/ckpt_a_1.dmtcp"));
        assert_int_equal(there_is("saved/ckpt_a_1_files/1"), generation == 0);
        assert_false(there_is("ckpt-dmtcp/images/ckpt_a_1_files"));
        assert_false(there_is("old"));
    }
    /* a process has ended between the question and the moment when all stood still */
    assert_int_equal(save_as("fewer", 5000), 0);
    assert_true(there_is("saved/ckpt_a_1.dmtcp") && !there_is("saved/ckpt_a_2.dmtcp"));
}

static void what_it_says_is_not_believed(void **state)
{
    enum { SAVES_MS = 3000, SEES_MS = 60000 }; /* the stand-in is a script */
    static const struct {
        const char *how, *reason;
        uint64_t timeout_ms;
    } rows[] = {
        {"lies", "DMTCP has written 0 of 2 images by the deadline", 400},
        {"half", "DMTCP has written 1 of 2 images by the deadline", SAVES_MS},
        {"no script", "DMTCP has written 2 of 2 images by the deadline", SAVES_MS},
        {"more", "DMTCP has written 2 of 3 images by the deadline", SAVES_MS},
        {"stuck", "of 2 images by the deadline, and the program still stands still", SAVES_MS},
        {"ended", "it has ended while DMTCP saved it", SEES_MS},
        {"busy", "DMTCP still writes a checkpoint of before, of 2 processes", SEES_MS},
        {"gone", "its coordinator does not answer at port 7779", SEES_MS}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(save_as(rows[i].how, rows[i].timeout_ms), -1);
        assert_contains(err.text, rows[i].reason);
        assert_false(there_is("saved/ckpt_a_1.dmtcp"));
        assert_int_equal(there_is("asked"), i < 6); /* the last two are not asked at all */
    }
    write_file("ckpt-dmtcp/images/ckpt_a_1.dmtcp", "of before", 0600);
    assert_int_equal(save_as("lies", 300), -1);
    assert_false(there_is("old")); /* an image of before cannot be taken for a new one */
    not_wanted = true;
    assert_int_equal(save_as("lies", 60000), -1);
    assert_contains(err.text, "not wanted any more");
    not_wanted = false;
}

static void each_start_has_a_coordinator_of_its_own(void **state)
{
    static char word[] = "./solver", argument[] = "a b";
    char *const command[] = {word, argument, NULL};
    struct tool_start start = {.work_dir = folder, .restore_dir = "", .command = command};
    pid_t pid;

    (void)state;
    write_file("how", "mute", 0600);
    assert_int_equal(tool_find("dmtcp")->prepare(&start, &err), -1);
    assert_contains(err.text, "has not left its port");
    write_file("how", "works", 0600);
    assert_int_equal(tool_find("dmtcp")->prepare(&start, &err), 0);
    assert_contains(read_text("coordinator"), "--daemon --exit-on-last -q -p 0 --port-file");
    for (int again = 0; again < 2; again++) {
        if (again == 1) {
            start.restore_dir = saved;
            assert_int_equal(save_as("works", 5000), 0);
        }
        pid = fork();
        if (pid == 0) {
            tool_find("dmtcp")->become(&start);
            _exit(99);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_contains(read_text("line"), "127.0.0.1:7779 -q -j --ckptdir ");
        assert_contains(read_text("line"),
                        again == 0 ? "--no-gzip ./solver a b" : "/saved/ckpt_a_1.dmtcp");
        assert_int_equal(there_is("ckpt-dmtcp/images/ckpt_a_1_files/1"), again);
    }
}

static void it_is_found_or_its_next_step_is_said(void **state)
{
    char version[TOOL_VERSION_BYTES];

    (void)state;
    write_file("how", "works", 0600);
    assert_int_equal(tool_find("dmtcp")->check(version, &err), 0);
    assert_string_equal(version, "3.0.0");
    remove_file("bin/dmtcp_restart");
    assert_int_equal(tool_find("dmtcp")->check(version, &err), -1);
    assert_contains(err.text, "there is no dmtcp_restart on this node: install DMTCP");
    write_file("bin/dmtcp_restart", program_text, 0700);
    program_version("Version: 4.1.1\nGitID: v4", version, sizeof(version));
    assert_string_equal(version, "4.1.1");
    program_version("none", version, sizeof(version));
    assert_string_equal(version, "");
}

static int open_site(void **state)
{
    static const char *const programs[] = {"coordinator", "command", "launch", "restart"};
    char path[4400], name[64], bin[128];

    (void)state;
    assert_non_null(mkdtemp(folder));
    path_of("bin", bin);
    assert_int_equal(mkdir(bin, 0700), 0);
    snprintf(saved, sizeof(saved), "%s/saved", folder);
    assert_int_equal(mkdir(saved, 0700), 0);
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++) {
        snprintf(name, sizeof(name), "bin/dmtcp_%s", programs[i]);
        write_file(name, program_text, 0700);
    }
    snprintf(path, sizeof(path), "%s:%s", bin, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("SITE", folder, 1);
    path_of("ckpt-dmtcp", bin);
    assert_int_equal(mkdir(bin, 0700), 0);
    path_of("ckpt-dmtcp/images", bin);
    assert_int_equal(mkdir(bin, 0700), 0);
    write_file("ckpt-dmtcp/port", "7779\n", 0600);
    front = fork();
    if (front == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    return 0;
}

static int close_site(void **state)
{
    char line[64];

    (void)state;
    kill(front, SIGKILL);
    (void)waitpid(front, NULL, 0);
    snprintf(line, sizeof(line), "rm -rf %s", folder);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_images_are_moved_into_the_checkpoint),
        cmocka_unit_test(what_it_says_is_not_believed),
        cmocka_unit_test(each_start_has_a_coordinator_of_its_own),
        cmocka_unit_test(it_is_found_or_its_next_step_is_said),
    };

    return cmocka_run_group_tests(tests, open_site, close_site);
}
