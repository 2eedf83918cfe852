/* The table of processes that all jobs' looks share: it finds whom reading all of /proc finds, and
 * reads what follows the job alone (I30, S1-031). */
#include "tests/unit/agent/process_world.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static struct job_identity job, other;

/* A second listing of all is needed once: before it there is no number that was the last long
 * enough ago. */
static void settle_world(void)
{
    for (int i = 0; i < 3; i++) {
        world_look(&job, PROCESS_KNOWN);
        world_wait(6 * SECOND);
    }
    world_look(&job, PROCESS_KNOWN);
}

static const char *pids(pid_t first, pid_t second)
{
    static char text[64];

    if (second == 0)
        snprintf(text, sizeof(text), "%d", (int)first);
    else
        snprintf(text, sizeof(text), "%d %d", (int)first, (int)second);
    return text;
}

/* The reads of a look among so many strangers of the job's user, which are younger than it. */
static unsigned reads_among(unsigned strangers)
{
    unsigned reads;
    pid_t rank;

    world_job(&job, "a", WORLD_OF("a"));
    rank = world_start(1, WORLD_OF("a"));
    world_find(rank)->uid = WORLD_USER;
    for (unsigned i = 0; i < strangers; i++)
        world_stranger(WORLD_USER);
    settle_world();
    world_wait(SECOND);
    world_fork(rank);
    assert_string_equal(world_look(&job, PROCESS_KNOWN), world_whole(&job));
    world_wait(30 * SECOND);
    world_fork(rank);
    world_look(&job, PROCESS_KNOWN);
    reads = world.reads;
    assert_int_equal(world.lists_all, 0);
    assert_int_equal(world.lists_part, 1);
    world_close(NULL);
    world_open(NULL);
    return reads;
}

static void reads_of_a_look_do_not_grow_with_foreign_processes(void **state)
{
    const unsigned few = reads_among(PROCESS_TURN + 10), many = reads_among(700);

    (void)state;
    assert_int_equal(many, few);
    assert_true(few <= 2 * PROCESS_TURN + 32);
}

/* Nothing was started in between: not even a list is read. */
static void what_has_not_changed_is_not_listed_again(void **state)
{
    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    world_stranger(WORLD_USER);
    settle_world();
    world_wait(300 * SECOND);
    world_look(&job, PROCESS_KNOWN);
    assert_int_equal(world.lists_all + world.lists_part, 0);
    assert_string_equal(world_looked, pids(job.group, 0));
}

static void another_jobs_processes_are_strangers_that_are_known(void **state)
{
    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    world_job(&other, "b", WORLD_OF("b"));
    for (int i = 0; i < 40; i++)
        world_start(other.group, WORLD_OF("b"));
    settle_world();
    world_look(&other, PROCESS_KNOWN);
    assert_string_equal(world_looked, world_whole(&other));
    assert_int_equal(world.lists_all + world.lists_part, 0);
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, pids(job.group, 0));
    assert_true(world.reads <= 2 * PROCESS_TURN + 3);
}

static void who_is_new_is_found_by_a_part_of_the_list(void **state)
{
    pid_t child, rank;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    for (int i = 0; i < 10; i++)
        world_stranger(WORLD_USER);
    settle_world();
    world_wait(60 * SECOND);
    child = world_start(job.group, "PATH=/bin");
    world_find(child)->group = world_find(child)->session = child;
    rank = world_start(1, WORLD_OF("a")); /* of a launcher elsewhere, as srun's */
    world_find(rank)->uid = WORLD_USER;
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, world_whole(&job));
    assert_non_null(strstr(world_looked, pids(rank, 0)));
    assert_int_equal(world.lists_all, 0);
    assert_int_equal(world.lists_part, 1);
}

/* It had its number when the list was read, and was not in it. */
static void who_appears_late_is_found(void **state)
{
    struct world_process *late;
    pid_t rank;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    settle_world();
    world_wait(10 * SECOND);
    late = world_put(world_next_pid(), 1);
    rank = late->pid;
    world_start(1, "PATH=/bin");
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, pids(job.group, 0));
    world_appear(world_find(rank));
    world_execute(rank, WORLD_OF("a"));
    world_find(rank)->uid = WORLD_USER;
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, pids(job.group, rank));
    assert_int_equal(world.lists_all, 0);
}

static void numbers_that_begin_anew_are_found(void **state)
{
    pid_t rank;

    (void)state;
    world_skip(WORLD_PID_MAX - 20);
    world_job(&job, "a", WORLD_OF("a"));
    for (int i = 0; i < 10; i++)
        world_stranger(WORLD_USER);
    settle_world();
    world_skip(WORLD_PID_MAX - 2);
    for (int i = 0; i < 3; i++)
        rank = world_start(job.group, WORLD_OF("a"));
    assert_true(rank < 400);
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, world_whole(&job));
    for (int i = 0; i < 4; i++) {
        world_wait(2 * SECOND);
        world_start(job.group, WORLD_OF("a"));
        assert_string_equal(world_look(&job, PROCESS_KNOWN), world_whole(&job));
    }
    assert_int_equal(world.lists_all, 0); /* parts of the list are enough again */
}

/* More have been started than there are numbers: the last one says nothing. */
static void a_whole_round_of_numbers_is_seen_by_the_count(void **state)
{
    pid_t rank;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    settle_world();
    rank = world_start(1, WORLD_OF("a"));
    world_find(rank)->uid = WORLD_USER;
    world.forks.count += WORLD_PID_MAX;
    world.forks.last = rank - 1;
    world_look(&job, PROCESS_KNOWN);
    assert_int_equal(world.lists_all, 1);
    assert_string_equal(world_looked, world_whole(&job));
}

static void a_number_that_came_again_is_another_process(void **state)
{
    pid_t stranger, process;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    for (int i = 0; i < 4 * PROCESS_TURN; i++)
        world_stranger(WORLD_USER); /* it is not found by turns */
    stranger = world_stranger(WORLD_USER);
    process = world_start(1, WORLD_OF("a"));
    world_find(process)->uid = WORLD_USER;
    world_find(process)->group = world_find(process)->session = process;
    settle_world();
    assert_string_equal(world_looked, pids(job.group, process));
    world_wait(60 * SECOND);
    world_exit(stranger);
    world_exit(process);
    world_put(stranger, 1)->uid = WORLD_USER; /* a rank, where a stranger was */
    world_appear(world_find(stranger));
    world_execute(stranger, WORLD_OF("a"));
    world_put(process, 1)->uid = WORLD_USER; /* and one of another job, where a process was */
    world_appear(world_find(process));
    world_execute(process, WORLD_OF("b"));
    world.forks.last = WORLD_PID_MAX - 1; /* ... after a round of all numbers */
    world.forks.count += 30000;
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, pids(job.group, stranger));
    assert_string_equal(world_looked, world_whole(&job));
}

/* As a launcher's daemon does: a child that waits, becomes the user, and executes the rank. */
static void a_child_that_waits_is_found_when_it_executes(void **state)
{
    pid_t daemon, child;

    (void)state;
    daemon = world_stranger(0);
    world_wait(600 * SECOND);
    world_job(&job, "a", WORLD_OF("a"));
    child = world_fork(daemon);
    settle_world();
    for (int i = 0; i < 20; i++) { /* so long that it is read by turns, if at all */
        world_wait(7 * SECOND);
        assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, 0));
    }
    world_find(child)->uid = WORLD_USER;
    world_execute(child, WORLD_OF("a"));
    world_wait(world.now_ticks - world_find(child)->start_ticks);
    for (int i = 0; i < 2 * PROCESS_TURN; i++)
        world_stranger(WORLD_USER); /* its turn does not come */
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, child));
}

/* A shell that executes something else after some seconds. */
static void a_young_stranger_is_read_again(void **state)
{
    pid_t shell;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    settle_world();
    for (int i = 0; i < 3 * PROCESS_TURN; i++)
        world_stranger(WORLD_USER);
    shell = world_stranger(WORLD_USER);
    world_wait(SECOND);
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, 0));
    world_execute(shell, WORLD_OF("a"));
    world_wait(SECOND);
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, shell));
}

/* Of strangers that have long executed what they are, some are read again with each look. */
static void a_stranger_that_executes_at_last_is_found_by_turns_and_at_once_anew(void **state)
{
    enum { STRANGERS = 200 };
    pid_t last = 0;
    int looks = 0;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    for (int i = 0; i < STRANGERS; i++)
        last = world_stranger(WORLD_USER);
    world_wait(60 * SECOND);
    settle_world();
    world_execute(last, WORLD_OF("a"));
    while (strcmp(world_look(&job, PROCESS_KNOWN), pids(job.group, last)) != 0) {
        looks++;
        assert_true(looks <= STRANGERS / PROCESS_TURN + 2);
        assert_true(world.reads <= 2 * PROCESS_TURN + 6);
    }
    last = world_stranger(WORLD_USER);
    world_wait(60 * SECOND);
    settle_world();
    settle_world();
    world_execute(last, WORLD_OF("a"));
    assert_string_equal(world_look(&job, PROCESS_ANEW), world_whole(&job));
    assert_non_null(strstr(world_looked, pids(last, 0)));
}

static void a_job_process_that_executes_something_else_is_seen_at_once(void **state)
{
    pid_t rank;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    world_job(&other, "b", WORLD_OF("b"));
    rank = world_start(1, WORLD_OF("a"));
    world_find(rank)->uid = WORLD_USER;
    settle_world();
    assert_string_equal(world_looked, pids(job.group, rank));
    world_execute(rank, WORLD_OF("b"));
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, 0));
    assert_string_equal(world_look(&other, PROCESS_KNOWN), pids(other.group, rank));
}

/* Of its own session, whose group it joins without having been started anew. */
static void who_joins_the_group_is_found(void **state)
{
    pid_t sibling, stranger;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    stranger = world_stranger(WORLD_USER);
    sibling = world_start(world_find(job.group)->parent, "PATH=/bin");
    world_find(sibling)->group = sibling;
    world_wait(20 * SECOND);
    settle_world();
    assert_string_equal(world_looked, pids(job.group, 0));
    assert_true(world_find(stranger)->session != world_find(sibling)->session);
    assert_int_equal(world.groups, 2); /* the kernel is asked for that session alone */
    world_find(sibling)->group = job.group;
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, sibling));
    world_exit(job.group);
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(sibling, 0));
}

static void who_is_moved_into_the_control_group_is_found(void **state)
{
    char folder[] = "/tmp/test_process_table.XXXXXX", path[64];
    pid_t stranger, below, odd = 500;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
    stranger = world_stranger(WORLD_USER);
    world_wait(20 * SECOND); /* older than the job */
    world_job(&job, "a", WORLD_OF("a"));
    snprintf(job.cgroup, sizeof(job.cgroup), "%s", folder);
    below = world_start(stranger, "PATH=/bin");
    world_find(below)->group = world_find(below)->session = below;
    settle_world();
    assert_string_equal(world_looked, pids(job.group, 0));
    assert_non_null(file = fopen(path, "w"));
    fprintf(file, "%d\n%d\n%d\n", (int)stranger, (int)odd, (int)world_next_pid() /* gone */);
    fclose(file);
    world_put(odd, 1); /* with a number that was chosen, not given in turn */
    world_appear(world_find(odd));
    world_look(&job, PROCESS_KNOWN);
    assert_string_equal(world_looked, world_whole(&job));
    assert_int_equal(world.lists_all, 0);
    assert_non_null(strstr(world_looked, pids(odd, stranger)));
    assert_non_null(strstr(world_looked, pids(below, 0)));
    assert_int_equal(unlink(path), 0);
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, 0));
    assert_int_equal(rmdir(folder), 0);
}

/* Its parent is dead, and init's child it is: the environment says whose. */
static void a_rank_whose_parent_is_gone_stays_found(void **state)
{
    pid_t launcher, rank, lost;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    launcher = world_start(job.group, WORLD_OF("a"));
    rank = world_start(launcher, WORLD_OF("a"));
    lost = world_start(launcher, "PATH=/bin");
    world_find(rank)->group = world_find(rank)->session = rank;
    world_find(lost)->group = world_find(lost)->session = lost;
    settle_world();
    assert_non_null(strstr(world_looked, pids(lost, 0)));
    world_exit(launcher);
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, rank));
    assert_string_equal(world_looked, world_whole(&job));
}

static void who_cannot_be_read_is_new_the_next_time(void **state)
{
    pid_t rank;

    (void)state;
    world_job(&job, "a", WORLD_OF("a"));
    world_job(&other, "b", WORLD_OF("b"));
    settle_world();
    rank = world_start(1, WORLD_OF("a"));
    world_find(rank)->uid = WORLD_USER;
    world_find(rank)->unread = true;
    world_look(&other, PROCESS_KNOWN); /* the one that misses it is not the one that needs it */
    assert_true(world_unread);
    world_look(&job, PROCESS_KNOWN);
    assert_true(world_unread);
    world_find(rank)->unread = false;
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, rank));
    assert_false(world_unread);
    world_find(rank)->unread = true; /* also one that was known */
    world_look(&job, PROCESS_KNOWN);
    assert_true(world_unread);
    world_find(rank)->unread = false;
    assert_string_equal(world_look(&job, PROCESS_KNOWN), pids(job.group, rank));
}

/* ---- whatever happens ---- */

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static struct world_process *any_process(void)
{
    struct world_process *process = &world.items[draw(world.count)];

    return process->pid > 1 && !process->unborn ? process : NULL;
}

static const char *const environments[] = {"PATH=/bin", WORLD_OF("a"), WORLD_OF("b"),
                                           "CKPT_ALLOCATION_ID=a CKPT_DIR=/w/a CKPT_RUN=1-43"};

/* The first process of a group begins no session. */
static bool leads_group(pid_t pid)
{
    for (size_t i = 0; i < world.count; i++)
        if (world.items[i].pid != 0 && world.items[i].group == pid)
            return true;
    return false;
}

/* An executed program begins with what it was given: of a process that is old, or that nobody gave
 * it to, only a look that is anew must know at once. */
static void happen(bool executes)
{
    struct world_process *process = any_process();
    uint64_t what = draw(12);
    pid_t pid;

    if (what < 5 && world.count < 120) {
        pid = world_fork(process == NULL ? 1 : process->pid);
        if (draw(2) == 0) {
            world_execute(pid, environments[draw(ARRAY_COUNT(environments))]);
            world_find(pid)->uid = draw(8) == 0 ? 0 : WORLD_USER;
        }
    } else if (process == NULL) {
        world_wait(draw(2 * SECOND));
    } else if (what < 8) {
        if (process->pid != job.group || draw(20) == 0)
            world_exit(process->pid);
    } else if (what == 8 && !leads_group(process->pid)) {
        process->session = process->group = process->pid;
    } else if (what == 9) {
        const struct world_process *into = any_process();
        process->group =
            into != NULL && into->session == process->session && process->session != process->pid
                ? into->group
                : process->group;
    } else if (what == 10 && executes) {
        world_execute(process->pid, environments[draw(ARRAY_COUNT(environments))]);
        process->uid = draw(8) == 0 ? 0 : WORLD_USER;
    } else {
        world_wait(draw(20 * SECOND));
    }
}

static void compare_worlds(bool executes)
{
    const enum process_look look = executes ? PROCESS_ANEW : PROCESS_KNOWN;

    world_job(&job, "a", WORLD_OF("a"));
    world_job(&other, "b", WORLD_OF("b"));
    for (int step = 0; step < 400; step++) {
        const struct job_identity *asks = draw(3) == 0 ? &other : &job;
        for (uint64_t i = draw(5); i > 0; i--)
            happen(executes);
        if (draw(40) == 0)
            world_skip(WORLD_PID_MAX - 3);
        if (draw(4) == 0 && job.known_count < 20 && any_process() != NULL) {
            const struct world_process *known = &world.items[draw(world.count)];
            if (known->pid > 1)
                job.known[job.known_count++] = (struct process_id){known->pid, known->start_ticks};
        }
        if (draw(100) == 0)
            job.known_count = 0;
        if (executes && draw(2) == 0)
            world_look(asks, PROCESS_KNOWN);
        world_look(asks, look);
        assert_string_equal(world_looked, world_whole(asks));
    }
}

static void whatever_happens_a_look_finds_whom_reading_all_finds(void **state)
{
    const char *given = getenv("SEED");
    const uint64_t first = given == NULL ? (uint64_t)time(NULL) : strtoull(given, NULL, 10);

    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        print_message("SEED=%llu\n", (unsigned long long)(first + i));
        seed = (first + i) * UINT64_C(2654435761) + 88172645463325252;
        compare_worlds((first + i) % 2 == 1);
        world_close(NULL);
        world_open(NULL);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)
    const struct CMUnitTest tests[] = {
        CASE(reads_of_a_look_do_not_grow_with_foreign_processes),
        CASE(what_has_not_changed_is_not_listed_again),
        CASE(another_jobs_processes_are_strangers_that_are_known),
        CASE(who_is_new_is_found_by_a_part_of_the_list),
        CASE(who_appears_late_is_found),
        CASE(numbers_that_begin_anew_are_found),
        CASE(a_whole_round_of_numbers_is_seen_by_the_count),
        CASE(a_number_that_came_again_is_another_process),
        CASE(a_child_that_waits_is_found_when_it_executes),
        CASE(a_young_stranger_is_read_again),
        CASE(a_stranger_that_executes_at_last_is_found_by_turns_and_at_once_anew),
        CASE(a_job_process_that_executes_something_else_is_seen_at_once),
        CASE(who_joins_the_group_is_found),
        CASE(who_is_moved_into_the_control_group_is_found),
        CASE(a_rank_whose_parent_is_gone_stays_found),
        CASE(who_cannot_be_read_is_new_the_next_time),
        CASE(whatever_happens_a_look_finds_whom_reading_all_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
