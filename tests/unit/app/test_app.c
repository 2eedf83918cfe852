/* libckptapp against an agent that speaks the protocol of its socket: each call, and what goes
 * wrong around it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/app/fake_agent.h"

#include "tests/support/test.h"

static struct fake_agent agent;

static int start(void **state)
{
    (void)state;
    fake_agent_start(&agent);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fake_agent_stop(&agent);
    return 0;
}

static struct ckpt *open_plain(void)
{
    struct ckpt *ckpt = ckpt_open(NULL);

    assert_non_null(ckpt);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 opened");
    assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 plain");
    return ckpt;
}

static struct ckpt *open_barrier(uint64_t step)
{
    struct ckpt *ckpt = ckpt_open(NULL);

    assert_non_null(ckpt);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 opened");
    assert_int_equal(ckpt_barrier(ckpt, step), CKPT_GO_ON);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 barrier");
    return ckpt;
}

#define ASK(hint) "ask " hint " 1700000000000 60000 out/" hint "/rank-00000\n"

static struct ckpt *open_saving(void)
{
    struct ckpt *ckpt = open_plain();

    fake_agent_say(&agent, "ready 1 n1 0 1\n" ASK("1-42-1"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    return ckpt;
}

/* as one second later */
static void redial(struct ckpt *ckpt)
{
    ckpt->dial_at_ns = 0;
}

static void outside_ckpt_run_all_calls_do_nothing(void **state)
{
    (void)state;
    unsetenv("CKPT_APP_SOCKET");
    errno = 7;
    assert_null(ckpt_open(NULL));
    assert_int_equal(errno, 0);
    assert_int_equal(ckpt_poll(NULL), CKPT_GO_ON);
    assert_int_equal(ckpt_barrier(NULL, 3), CKPT_GO_ON);
    assert_int_equal(ckpt_done(NULL, 3, 1), 0);
    assert_int_equal(ckpt_done_label(NULL, "x", 1), 0);
    assert_int_equal(ckpt_failed(NULL, "x"), 0);
    assert_int_equal(ckpt_defer(NULL, 1), 0);
    assert_int_equal(ckpt_saved_at(NULL, 1), 0);
    assert_int_equal(ckpt_progress(NULL, 1), 0);
    assert_null(ckpt_directory(NULL));
    assert_null(ckpt_hint(NULL));
    assert_uint_equal(ckpt_deadline_ms(NULL), 0);
    assert_int_equal(ckpt_rank(NULL), -1);
    assert_uint_equal(ckpt_parts(NULL), 1);
    assert_null(ckpt_restore_directory(NULL));
    assert_string_equal(ckpt_error(NULL), "");
    ckpt_close(NULL);
}

static void wrong_options_and_environments_are_refused(void **state)
{
    struct ckpt_options short_one = CKPT_OPTIONS, beyond = CKPT_OPTIONS;

    (void)state;
    short_one.size--;
    assert_null(ckpt_open(&short_one));
    assert_int_equal(errno, EINVAL);
    beyond.rank = 4, beyond.ranks = 4;
    assert_null(ckpt_open(&beyond));
    assert_int_equal(errno, EINVAL);
    setenv("CKPT_RUN", "-1", 1);
    assert_null(ckpt_open(NULL));
    assert_int_equal(errno, EINVAL);
    setenv("CKPT_RUN", "7", 1);
    setenv("OMPI_COMM_WORLD_RANK", "1x", 1);
    assert_null(ckpt_open(NULL));
    assert_int_equal(errno, EINVAL);
    unsetenv("OMPI_COMM_WORLD_RANK");
    setenv("CKPT_DIR", "relative", 1);
    assert_null(ckpt_open(NULL));
    assert_int_equal(errno, EINVAL);
}

static void assert_hello(const char *words)
{
    struct ckpt *ckpt = ckpt_open(NULL);
    char line[128];

    assert_non_null(ckpt);
    ckpt_poll(ckpt);
    fake_agent_accept(&agent);
    snprintf(line, sizeof(line), "hello 1 job%%20one 7 %s opened", words);
    fake_agent_hears(&agent, line);
    snprintf(line, sizeof(line), "hello 1 job%%20one 7 %s plain", words);
    fake_agent_hears(&agent, line);
    ckpt_close(ckpt);
}

static void the_launcher_tells_the_rank(void **state)
{
    (void)state;
    assert_hello("0 0 1 1");
    setenv("SLURM_PROCID", "5", 1);
    assert_hello("0 0 1 1"); /* a batch shell hands it to everyone */
    setenv("SLURM_STEP_ID", "0", 1);
    assert_hello("5 - - -");
    setenv("RANK", "2", 1);
    assert_hello("5 - - -");
    setenv("WORLD_SIZE", "4", 1);
    assert_hello("2 - 4 -");
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    assert_hello("3 1 4 2");
    setenv("LOCAL_RANK", "2", 1); /* each of two mpirun started a torchrun of four */
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    assert_hello("2 2 4 4");
    setenv("SLURM_STEP_TASKS_PER_NODE", "2(x3),5,1", 1);
    setenv("SLURM_NODEID", "3", 1);
    setenv("SLURM_LOCALID", "1", 1);
    assert_hello("5 1 - 5");
    setenv("SLURM_STEP_ID", "4294967291", 1); /* a batch script's */
    assert_hello("2 2 4 4");
    unsetenv("SLURM_STEP_TASKS_PER_NODE");
    unsetenv("SLURM_NODEID");
    unsetenv("SLURM_LOCALID");
    unsetenv("SLURM_STEP_ID");
    unsetenv("WORLD_SIZE");
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_RANK");
}

/* Also one that came after the question: nobody made it before. */
static void the_folder_of_a_rank_is_made_by_the_rank(void **state)
{
    static const char *const folders[] = {"out", "out/1-42-1", "out/1-42-1/rank-00000"};
    char path[3][128];
    struct stat status;
    struct ckpt *ckpt;

    (void)state;
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof(path[i]), "%s/%s", agent.folder, folders[i]);
    assert_int_equal(mkdir(path[0], 0700), 0);
    assert_int_equal(mkdir(path[1], 0700), 0);
    ckpt = open_saving();
    assert_string_equal(ckpt_directory(ckpt), path[2]);
    assert_int_equal(stat(path[2], &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    for (int i = 3; i-- > 0;)
        assert_int_equal(rmdir(path[i]), 0);
    ckpt_close(ckpt);
}

static void a_poll_saves_once_and_done_writes_its_file(void **state)
{
    struct ckpt *ckpt = open_saving();
    char directory[128];

    (void)state;
    snprintf(directory, sizeof(directory), "%s/out/1-42-1/rank-00000", agent.folder);
    assert_string_equal(ckpt_directory(ckpt), directory);
    assert_string_equal(ckpt_hint(ckpt), "1-42-1");
    assert_uint_equal(ckpt_deadline_ms(ckpt), 1700000000000);
    assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
    assert_int_equal(ckpt_progress(ckpt, 250000), 0);
    fake_agent_hears(&agent, "progress 1-42-1 250000");
    assert_int_equal(ckpt_progress(ckpt, 1000001), -1);
    assert_int_equal(ckpt_done(ckpt, 127, 4096), 0);
    fake_agent_hears(&agent, "done 1-42-1");
    assert_string_equal(fake_agent_done(&agent, 0),
                        "hint=1-42-1\nbytes=4096\nstatus=0\nstep=127\n");
    assert_null(ckpt_directory(ckpt));
    assert_int_equal(ckpt_done(ckpt, 127, 4096), -1);
    assert_int_equal(errno, EINVAL);
    fake_agent_say(&agent, ASK("1-42-1")); /* the agent has not read the file yet */
    assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
    fake_agent_hears(&agent, "done 1-42-1");
    ckpt_close(ckpt);
}

/* V-014: of one saving, and not of the next one. */
static void files_of_before_say_of_when_their_state_is(void **state)
{
    struct ckpt *ckpt = open_saving();

    (void)state;
    assert_int_equal(ckpt_saved_at(ckpt, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ckpt_saved_at(ckpt, UINT64_C(1) << 63), -1);
    assert_int_equal(errno, EINVAL);
    errno = 7;
    assert_int_equal(ckpt_saved_at(ckpt, 1600000000123), 0);
    assert_int_equal(errno, 7);
    assert_int_equal(ckpt_done(ckpt, 127, 1), 0);
    assert_string_equal(fake_agent_done(&agent, 0),
                        "hint=1-42-1\nbytes=1\nstatus=0\nstep=127\nsaved_at=1600000000123\n");
    assert_int_equal(ckpt_saved_at(ckpt, 1), -1); /* nothing is being saved */
    assert_int_equal(errno, EINVAL);
    fake_agent_say(&agent, ASK("1-42-2"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    assert_int_equal(ckpt_done(ckpt, 128, 1), 0);
    assert_string_equal(fake_agent_done(&agent, 0), "hint=1-42-2\nbytes=1\nstatus=0\nstep=128\n");
    fake_agent_say(&agent, ASK("1-42-3"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    fake_agent_say(&agent, "withdrawn 1-42-3\n");
    assert_int_equal(ckpt_saved_at(ckpt, 1600000000123), -1);
    assert_int_equal(errno, ESTALE);
    ckpt_close(ckpt);
}

static void labels_are_checked_and_none_is_one(void **state)
{
    static const char *const wrong[] = {
        "a b", "a\n", "ü", "12345678901234567890123456789012345678901234567890123456789012345"};
    struct ckpt *ckpt = open_saving();

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ckpt_done_label(ckpt, wrong[i], 1), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(ckpt_done_label(ckpt, NULL, 1), 0);
    assert_string_equal(fake_agent_done(&agent, 0), "hint=1-42-1\nbytes=1\nstatus=0\n");
    ckpt_close(ckpt);
}

static void a_refusal_is_one_line_and_never_a_success(void **state)
{
    struct ckpt *ckpt = open_saving();

    (void)state;
    assert_int_equal(ckpt_failed(ckpt, "no\nroom"), 0);
    assert_string_equal(fake_agent_done(&agent, 0), "hint=1-42-1\nbytes=0\nstatus=no room\n");
    fake_agent_say(&agent, ASK("1-42-2"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    assert_int_equal(ckpt_failed(ckpt, "0"), 0);
    assert_string_equal(fake_agent_done(&agent, 0), "hint=1-42-2\nbytes=0\nstatus=failed: 0\n");
    ckpt_close(ckpt);
}

/* The agent is exchanged while a program comes to its loop. */
static void who_opens_without_an_agent_is_heard_at_its_first_call(void **state)
{
    struct ckpt *ckpt;

    (void)state;
    fake_agent_die(&agent);
    errno = 7;
    ckpt = ckpt_open(NULL);
    assert_non_null(ckpt);
    assert_int_equal(errno, 0);
    fake_agent_return(&agent);
    assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 plain");
    ckpt_close(ckpt);
}

static void what_was_withdrawn_is_stale_once(void **state)
{
    struct ckpt *ckpt = open_saving();

    (void)state;
    fake_agent_say(&agent, "withdrawn 1-42-1\n");
    assert_int_equal(ckpt_progress(ckpt, 1), -1);
    assert_int_equal(errno, ESTALE);
    assert_uint_equal(ckpt_deadline_ms(ckpt), 0);
    fake_agent_say(&agent, ASK("1-42-2"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_LATER); /* the old one has not ended yet */
    assert_int_equal(ckpt_done(ckpt, 1, 1), -1);
    assert_int_equal(errno, ESTALE);
    assert_contains(ckpt_error(ckpt), "1-42-1");
    assert_string_equal(fake_agent_done(&agent, 0), "");
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    assert_string_equal(ckpt_hint(ckpt), "1-42-2");
    ckpt_close(ckpt);
}

static void a_deferral_is_asked_again(void **state)
{
    struct ckpt *ckpt = open_saving();

    (void)state;
    assert_int_equal(ckpt_defer(ckpt, 60001), -1);
    assert_int_equal(errno, ERANGE);
    assert_int_equal(ckpt_defer(ckpt, 500), 0);
    fake_agent_hears(&agent, "defer 1-42-1 500");
    assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
    fake_agent_say(&agent, "ask 1-42-1 1700000000000 0 out/1-42-1/rank-00000\n");
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    assert_int_equal(ckpt_defer(ckpt, 1), -1);
    assert_int_equal(errno, ERANGE);
    fake_agent_die(&agent);
    assert_int_equal(ckpt_done(ckpt, 5, 1), 0); /* without an agent: the file is what counts */
    assert_contains(fake_agent_done(&agent, 0), "step=5\n");
    ckpt_close(ckpt);
}

static void a_barrier_meets_at_the_first_step_not_below_the_agreed_one(void **state)
{
    struct ckpt *ckpt = open_barrier(10);
    char line[128];

    (void)state;
    fake_agent_say(&agent, ASK("1-9-1"));
    assert_int_equal(ckpt_barrier(ckpt, 20), CKPT_LATER);
    snprintf(line, sizeof(line), "%s", fake_agent_line(&agent));
    assert_int_equal(strncmp(line, "at 1-9-1 20 ", 12), 0);
    assert_true(strtoull(line + 12, NULL, 10) > 0);
    assert_int_equal(ckpt_poll(ckpt), CKPT_LATER); /* a barrier's rank saves at barriers alone */
    fake_agent_say(&agent, "step 1-9-1 31\n");
    assert_int_equal(ckpt_barrier(ckpt, 30), CKPT_LATER);
    assert_int_equal(ckpt_barrier(ckpt, 40),
                     CKPT_NOW); /* each rank counts by ten: all meet at 40 */
    assert_int_equal(ckpt_barrier(ckpt, 50), CKPT_GO_ON); /* another thread saves */
    assert_int_equal(ckpt_done(ckpt, 40, 1), 0);
    fake_agent_hears(&agent, "done 1-9-1");
    ckpt_close(ckpt);
}

static void a_rank_that_went_past_says_so(void **state)
{
    struct ckpt *ckpt = open_barrier(10);

    (void)state;
    fake_agent_say(&agent, ASK("1-9-1"));
    assert_int_equal(ckpt_barrier(ckpt, 11), CKPT_LATER);
    fake_agent_line(&agent);
    fake_agent_say(&agent, "step 1-9-1 11\n");
    assert_int_equal(ckpt_barrier(ckpt, 12), CKPT_GO_ON);
    fake_agent_hears(&agent, "missed 1-9-1 12");
    fake_agent_say(&agent, "withdrawn 1-9-1\n" ASK("1-9-2") "step 1-9-2 14\n");
    assert_int_equal(ckpt_barrier(ckpt, 13), CKPT_LATER);
    assert_int_equal(ckpt_barrier(ckpt, 14), CKPT_NOW);
    assert_string_equal(ckpt_hint(ckpt), "1-9-2");
    ckpt_close(ckpt);
}

static void a_plain_rank_that_turns_to_the_barrier_says_hello_anew(void **state)
{
    struct ckpt *ckpt = open_plain();

    (void)state;
    assert_int_equal(ckpt_barrier(ckpt, 1), CKPT_GO_ON);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 barrier");
    fake_agent_say(&agent, ASK("1-9-1"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_LATER);
    ckpt_close(ckpt);
}

static void an_agent_that_dies_and_returns_changes_nothing(void **state)
{
    struct ckpt *ckpt = open_barrier(10);

    (void)state;
    fake_agent_say(&agent, ASK("1-9-1"));
    assert_int_equal(ckpt_barrier(ckpt, 11), CKPT_LATER);
    fake_agent_line(&agent);
    fake_agent_die(&agent);
    assert_int_equal(ckpt_barrier(ckpt, 12), CKPT_LATER);
    redial(ckpt);
    assert_int_equal(ckpt_barrier(ckpt, 13), CKPT_LATER); /* nobody listens */
    fake_agent_return(&agent);
    assert_int_equal(ckpt_barrier(ckpt, 14), CKPT_LATER); /* not yet again */
    assert_int_equal(ckpt->descriptor, -1);
    redial(ckpt);
    assert_int_equal(ckpt_barrier(ckpt, 15), CKPT_LATER);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 barrier");
    fake_agent_say(&agent, ASK("1-9-1"));
    while (ckpt_barrier(ckpt, 16) == CKPT_LATER &&
           strstr(fake_agent_line(&agent), "at 1-9-1 16 ") == NULL)
        continue;
    fake_agent_say(&agent, "step 1-9-1 18\n");
    assert_int_equal(ckpt_barrier(ckpt, 18), CKPT_NOW);
    fake_agent_die(&agent);
    assert_int_equal(ckpt_done(ckpt, 18, 1), 0);
    fake_agent_return(&agent);
    redial(ckpt);
    assert_int_equal(ckpt_barrier(ckpt, 19), CKPT_GO_ON);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 barrier");
    fake_agent_hears(&agent, "done 1-9-1"); /* what could not be said then */
    ckpt_close(ckpt);
}

static void half_a_line_waits_for_the_rest(void **state)
{
    static const char line[] = "ready 1 n1 0 1\n" ASK("1-42-1");
    struct ckpt *ckpt = open_plain();

    (void)state;
    for (size_t i = 0; line[i] != '\0'; i++) {
        char one[2] = {line[i], '\0'};

        assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
        fake_agent_say(&agent, one);
    }
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    ckpt_close(ckpt);
}

static void assert_breaks(const char *bytes, size_t length, const char *error)
{
    struct ckpt *ckpt = open_plain();
    char rest;

    assert_int_equal(send(agent.stream, bytes, length, MSG_NOSIGNAL), length);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ckpt_poll(ckpt), CKPT_GO_ON);
    assert_int_equal(ckpt->descriptor, -1);
    assert_contains(ckpt_error(ckpt), error);
    assert_true(recv(agent.stream, &rest, 1, 0) <= 0); /* -1: it left bytes unread */
    assert_true(ckptapp_sound(ckpt));
    redial(ckpt);
    ckpt_poll(ckpt);
    fake_agent_accept(&agent);
    fake_agent_hears(&agent, "hello 1 job%20one 7 0 0 1 1 plain");
    fake_agent_say(&agent, ASK("1-42-1"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW);
    ckpt_close(ckpt);
}

static void garbage_ends_the_stream_and_the_next_one_is_good(void **state)
{
    static const char *const lines[] = {
        "\n",
        " \n",
        "ask\n",
        "ask 1-42-1 1700000000000 0 /etc/passwd\n",
        "ask 1-42-1 1700000000000 0 out/../../x\n",
        "ask 1-42-1 1700000000000 0 out/%2e%2e/x\n",
        "ask 1-42-1 0 0 out\n",
        "ask 1-42-1 18446744073709551616 0 out\n",
        "ask 1-42-1 1 -1 out\n",
        "ask 1/42 1 0 out\n",
        "ask 1-42-1 1 0 out%0\n",
        "ask 1-42-1 1 0 out%00\n",
        "ask 1-42-1  1 0 out\n",
        "ask 1-42-1 1 0 out \n",
        "step 1-42-1 0\n",
        "step 1-42-1 1e3\n",
        "withdrawn\n",
        "ready 1 n 1 1\n",
        "\x01\n",
        "a b c d e f g h i j k l\n",
        "ASK 1-42-1 1 0 out\n",
    };
    char bytes[2000];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        assert_breaks(lines[i], strlen(lines[i]), "does not understand");
    assert_breaks("ready 2 n 0 1\n", 14, "version 1");
    assert_breaks("refused rank%203%20is%0Ataken\n", 30, "the agent refused: rank 3 is taken");
    memset(bytes, 'a', sizeof(bytes));
    assert_breaks(bytes, sizeof(bytes), "too long");
    memcpy(bytes, "ask\0 1-42-1 1 0 out\n", 20);
    assert_breaks(bytes, 20, "NUL");
}

static void random_bytes_leave_it_sound(void **state)
{
    uint64_t seed = test_seed();
    struct ckpt *ckpt = ckpt_open(NULL);

    (void)state;
    assert_non_null(ckpt);
    fake_agent_accept(&agent);
    ckptapp_stream_close(ckpt);
    for (int round = 0; round < 300; round++) {
        char bytes[700];
        size_t length = test_random(&seed) % sizeof(bytes);

        redial(ckpt);
        ckpt_poll(ckpt);
        fake_agent_accept(&agent);
        for (size_t i = 0; i < length; i++)
            bytes[i] = "ask step withdrawn 1-42-1\n\n 0123/%\x80"[test_random(&seed) % 35];
        assert_int_equal(send(agent.stream, bytes, length, MSG_NOSIGNAL), length);
        for (int i = 0; i < 3; i++)
            ckpt_poll(ckpt);
        assert_true(ckptapp_sound(ckpt));
        ckptapp_stream_close(ckpt);
    }
    ckpt_close(ckpt);
}

static void a_full_socket_holds_nobody_up(void **state)
{
    struct ckpt *ckpt = open_saving();
    struct timespec before, after;

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(ckpt_progress(ckpt, 0), 0);
    while (send(ckpt->descriptor, "progress 1-42-1 1\n", 18, MSG_DONTWAIT) == 18)
        continue; /* the agent reads nothing */
    for (int i = 0; i < 20000; i++)
        assert_int_equal(ckpt_progress(ckpt, (uint32_t)i), 0);
    assert_int_equal(ckpt_defer(ckpt, 100), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(ckpt_done(ckpt, 1, 1), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(after.tv_sec - before.tv_sec < 10);
    while (strcmp(fake_agent_line(&agent), "progress 1-42-1 0") != 0)
        continue;
    for (const char *line = ""; strcmp(line, "done 1-42-1") != 0;) {
        ckpt_poll(ckpt); /* says it as soon as there is room */
        line = fake_agent_line(&agent);
        assert_true(strncmp(line, "progress 1-42-1 ", 16) == 0 || strcmp(line, "done 1-42-1") == 0);
    }
    ckpt_close(ckpt);
}

static void a_full_disk_is_reported(void **state)
{
    char path[128], fill[4096] = {0};
    struct ckpt *ckpt;
    int file;

    (void)state;
    if (mount("none", agent.folder, "tmpfs", 0, "size=32k") != 0)
        skip(); /* only root may */
    fake_agent_die(&agent);
    fake_agent_return(&agent);
    ckpt = open_saving();
    snprintf(path, sizeof(path), "%s/fill", agent.folder);
    file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    while (write(file, fill, sizeof(fill)) > 0)
        continue;
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(ckpt_failed(ckpt, "no space left in the work folder"),
                     0); /* its bytes were reserved */
    assert_contains(fake_agent_done(&agent, 0), "status=no space left in the work folder\n");
    fake_agent_hears(&agent, "done 1-42-1");
    fake_agent_say(&agent, ASK("1-42-2"));
    assert_int_equal(ckpt_poll(ckpt), CKPT_NOW); /* no room for a reserve this time */
    assert_int_equal(ckpt_done(ckpt, 1, 1), -1);
    assert_int_equal(errno, ENOSPC);
    assert_contains(ckpt_error(ckpt), agent.folder);
    assert_string_equal(ckpt_hint(ckpt), "1-42-2");
    close(file);
    unlink(path);
    assert_int_equal(ckpt_done(ckpt, 1, 1), 0);
    ckpt_close(ckpt);
    fake_agent_die(&agent);
    assert_int_equal(umount2(agent.folder, MNT_DETACH), 0);
}

static struct ckpt *handled;
static atomic_uint handled_now, handled_answers, handled_again;

/* Polls, and answers what it gets. */
static void on_signal(int number)
{
    int kept = errno;

    (void)number;
    if (ckpt_poll(handled) == CKPT_NOW)
        atomic_fetch_add(&handled_now, 1);
    if (atomic_load(&handled_now) > atomic_load(&handled_answers)) {
        if (ckpt_done(handled, 1, 1) == 0)
            atomic_fetch_add(&handled_answers, 1);
        else if (errno == EAGAIN)
            atomic_fetch_add(&handled_again, 1); /* it interrupted a call */
    }
    errno = kept; /* of what it interrupted: a call that failed has set it */
}

static void a_handler_may_interrupt_each_call(void **state)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    struct itimerspec often = {{0, 50000}, {0, 50000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;

    (void)state;
    handled = open_plain();
    handled_now = handled_answers = handled_again = 0;
    sigaction(SIGUSR1, &action, &before);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    timer_settime(timer, 0, &often, NULL);
    for (unsigned round = 1; round <= 200; round++) {
        char ask[128];

        snprintf(ask, sizeof(ask), "ask 1-%u-1 1700000000000 0 out/x\n", round);
        fake_agent_say(&agent, ask);
        while (atomic_load(&handled_answers) < round) {
            errno = 4711;
            if (ckpt_poll(handled) == CKPT_NOW)
                atomic_fetch_add(&handled_now, 1);
            assert_int_equal(errno, 4711);
            ckpt_progress(handled, 1);
        }
    }
    timer_delete(timer);
    sigaction(SIGUSR1, &before, NULL);
    assert_uint_equal(handled_now, 200);
    print_message("200 answered by a handler, %u times it interrupted a call\n", handled_again);
    assert_true(ckptapp_sound(handled));
    ckpt_close(handled);
}

static atomic_uint thread_nows;
static atomic_bool threads_end;

static void *poll_and_answer(void *data)
{
    struct ckpt *ckpt = data;

    while (!atomic_load(&threads_end)) {
        if (ckpt_poll(ckpt) != CKPT_NOW)
            continue;
        atomic_fetch_add(&thread_nows, 1);
        ckpt_progress(ckpt, 5);
        if (ckpt_done(ckpt, 1, 1) != 0)
            atomic_fetch_add(&thread_nows, 1000000);
    }
    return NULL;
}

static void threads_share_a_handle(void **state)
{
    struct ckpt *ckpt = open_plain();
    pthread_t threads[4];

    (void)state;
    atomic_store(&thread_nows, 0);
    atomic_store(&threads_end, false);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, poll_and_answer, ckpt);
    for (unsigned round = 1; round <= 100; round++) {
        char text[128];

        snprintf(text, sizeof(text), "ask 1-%u-1 1700000000000 0 out/x\n", round);
        fake_agent_say(&agent, text);
        snprintf(text, sizeof(text), "done 1-%u-1", round);
        while (strcmp(fake_agent_line(&agent), text) != 0)
            continue;
    }
    atomic_store(&threads_end, true);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_uint_equal(thread_nows, 100); /* each was said to one thread, once */
    ckpt_close(ckpt);
}

static void a_forked_child_does_nothing(void **state)
{
    struct ckpt *ckpt = open_saving();
    int status;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        bool dead = ckpt_poll(ckpt) == CKPT_GO_ON && ckpt_barrier(ckpt, 1) == CKPT_GO_ON;

        dead = dead && ckpt_done(ckpt, 1, 1) == -1 && errno == ECHILD;
        dead = dead && ckpt_failed(ckpt, "x") == -1 && ckpt_defer(ckpt, 1) == -1;
        dead = dead && strstr(ckpt_error(ckpt), "another process") != NULL;
        ckpt_close(ckpt);
        _exit(dead ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fake_agent_hears_nothing(&agent);
    assert_int_equal(ckpt_done(ckpt, 1, 1), 0); /* the parent's is as it was */
    fake_agent_hears(&agent, "done 1-42-1");
    child = fork();
    if (child == 0) { /* holds a copy of the stream, and lives on */
        pause();
        _exit(0);
    }
    ckpt_close(ckpt);
    char rest;
    assert_int_equal(recv(agent.stream, &rest, 1, 0), 0);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(outside_ckpt_run_all_calls_do_nothing, start, stop),
        cmocka_unit_test_setup_teardown(wrong_options_and_environments_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(the_launcher_tells_the_rank, start, stop),
        cmocka_unit_test_setup_teardown(the_folder_of_a_rank_is_made_by_the_rank, start, stop),
        cmocka_unit_test_setup_teardown(a_poll_saves_once_and_done_writes_its_file, start, stop),
        cmocka_unit_test_setup_teardown(files_of_before_say_of_when_their_state_is, start, stop),
        cmocka_unit_test_setup_teardown(labels_are_checked_and_none_is_one, start, stop),
        cmocka_unit_test_setup_teardown(a_refusal_is_one_line_and_never_a_success, start, stop),
        cmocka_unit_test_setup_teardown(what_was_withdrawn_is_stale_once, start, stop),
        cmocka_unit_test_setup_teardown(a_deferral_is_asked_again, start, stop),
        cmocka_unit_test_setup_teardown(a_barrier_meets_at_the_first_step_not_below_the_agreed_one,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_rank_that_went_past_says_so, start, stop),
        cmocka_unit_test_setup_teardown(who_opens_without_an_agent_is_heard_at_its_first_call,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_plain_rank_that_turns_to_the_barrier_says_hello_anew,
                                        start, stop),
        cmocka_unit_test_setup_teardown(an_agent_that_dies_and_returns_changes_nothing, start,
                                        stop),
        cmocka_unit_test_setup_teardown(half_a_line_waits_for_the_rest, start, stop),
        cmocka_unit_test_setup_teardown(garbage_ends_the_stream_and_the_next_one_is_good, start,
                                        stop),
        cmocka_unit_test_setup_teardown(random_bytes_leave_it_sound, start, stop),
        cmocka_unit_test_setup_teardown(a_full_socket_holds_nobody_up, start, stop),
        cmocka_unit_test_setup_teardown(a_full_disk_is_reported, start, stop),
        cmocka_unit_test_setup_teardown(a_handler_may_interrupt_each_call, start, stop),
        cmocka_unit_test_setup_teardown(threads_share_a_handle, start, stop),
        cmocka_unit_test_setup_teardown(a_forked_child_does_nothing, start, stop),
    };

    return cmocka_run_group_tests_name("app", tests, NULL, NULL);
}
