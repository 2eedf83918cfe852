/* Processes that say that they are a job's: which word of a broker ends them (I30, F-025). */
#include <signal.h>
#include <string.h>

#include "src/agent/job/pretenders.h"
#include "tests/support/test.h"

enum { ALICE = 1001, BOB = 1002, GRACE_MS = 500, PRETENDER_PID = 70 };

static uint64_t now_us;
static struct {
    uint64_t due_us; /* 0: it is stopped */
    void (*fire)(void *data);
    void *data;
} timer;
static bool living[PRETENDER_PID + 8];
static int signals[PRETENDER_PID + 8][65];
static size_t stragglers;

static uint64_t clock_now(void *context)
{
    (void)context;
    return now_us;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context;
    timer.fire = fire;
    timer.data = data;
    return (struct clock_timer *)&timer;
}

static void timer_start(struct clock_timer *of, uint64_t delay_us)
{
    (void)of;
    timer.due_us = now_us + delay_us;
}

static void timer_free(struct clock_timer *of)
{
    (void)of;
    timer.due_us = 0;
}

static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    (void)context, (void)ret_status;
    if (!living[pid])
        return -1;
    *ret_stat =
        (struct proc_stat){.pid = pid, .group = pid, .state = 'S', .threads = 1, .start_ticks = 5};
    return 0;
}

static size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    struct proc_stat stat;

    if (process_read(context, group, &stat, NULL) != 0)
        return 0;
    each(data, &stat);
    return 1;
}

static int group_signal(void *context, pid_t group, int signal, struct err *err)
{
    (void)context, (void)err;
    signals[group][signal]++;
    if (signal == SIGKILL)
        living[group] = false;
    return 0;
}

static struct stragglers_look *find_stragglers(void *context, const struct job_identity *job,
                                               bool kill, void (*done)(void *data, size_t count),
                                               void *data)
{
    (void)context, (void)done, (void)data;
    assert_true(kill);
    assert_true(job->stragglers.uid == ALICE || job->stragglers.uid == BOB);
    stragglers++;
    return NULL;
}

static struct agent agent;
static Ckpt__V1__OrderSet set;
static Ckpt__V1__AllocationPart part;
static Ckpt__V1__AllocationPart *parts[] = {&part};

static int set_up(void **state)
{
    static char job[] = "job";

    (void)state;
    now_us = 10000000;
    memset(living, 0, sizeof(living));
    memset(signals, 0, sizeof(signals));
    stragglers = 0;
    timer.due_us = 0;
    agent = (struct agent){.clock = {.monotonic_us = clock_now,
                                     .timer_new = timer_new,
                                     .timer_start = timer_start,
                                     .timer_free = timer_free},
                           .machine = {.process_read = process_read,
                                       .group_each = group_each,
                                       .group_signal = group_signal,
                                       .stragglers_find = find_stragglers}};
    list_init(&agent.pretenders);
    ckpt__v1__order_set__init(&set);
    ckpt__v1__allocation_part__init(&part);
    part.allocation_id = job;
    part.run = run_make(1, 7);
    part.grace_ms = GRACE_MS;
    set.epoch = 1;
    set.runs_until = run_make(1, 20);
    set.parts = parts;
    set.n_parts = 1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent.orders = NULL;
    pretenders_free(&agent);
    return 0;
}

static void pretender(int number, uint64_t run, uid_t uid)
{
    struct pretender pretender = {.allocation_id = "job",
                                  .work_dir = "/w",
                                  .run = run,
                                  .pid = PRETENDER_PID + number,
                                  .start_ticks = 5,
                                  .uid = uid};

    living[pretender.pid] = true;
    pretenders_add(&agent, &pretender);
    pretenders_add(&agent, &pretender); /* counts once */
}

static bool told_to_end(int number)
{
    return signals[PRETENDER_PID + number][SIGTERM] > 0;
}

static void take_orders(void)
{
    agent.orders = &set;
    pretenders_take_orders(&agent);
}

static void the_run_that_the_cluster_names_is_left_alone_and_others_are_ended(void **state)
{
    (void)state;
    pretender(0, run_make(1, 6), ALICE);
    pretender(1, run_make(1, 7), ALICE);
    pretender(2, run_make(1, 999999999), ALICE);
    pretender(3, run_make(1, 7), BOB);
    pretenders_take_orders(&agent); /* no set has come */
    assert_false(told_to_end(0) || told_to_end(2));
    assert_uint_equal(agent.pretender_count, 4);
    take_orders();
    assert_true(told_to_end(0) && told_to_end(2));
    assert_false(told_to_end(1) || told_to_end(3));
    /* one that ignores it is killed after the grace, with what it has started, and forgotten */
    living[PRETENDER_PID] = false;
    now_us += GRACE_MS * 1000;
    timer.fire(timer.data);
    assert_int_equal(signals[PRETENDER_PID + 2][SIGKILL], 1);
    assert_int_equal(stragglers, 1);
    timer.fire(timer.data);
    assert_uint_equal(agent.pretender_count, 2);
    assert_int_equal(signals[PRETENDER_PID][SIGKILL] + signals[PRETENDER_PID + 1][SIGKILL], 0);
}

/* It knows of that run, or it says nothing of it. */
static void a_set_that_names_no_run_of_the_job_ends_those_that_it_knows(void **state)
{
    (void)state;
    pretender(0, run_make(1, 7), ALICE);
    pretender(1, run_make(1, 21), ALICE);
    set.n_parts = 0;
    take_orders();
    assert_true(told_to_end(0));
    assert_false(told_to_end(1));
}

static void an_order_to_end_the_run_waits_for_its_pretenders(void **state)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;
    char job[] = "job", other[] = "other";

    (void)state;
    pretender(0, run_make(1, 7), ALICE);
    order.kind = CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE;
    order.allocation_id = other;
    order.run = run_make(1, 7);
    order.grace_ms = GRACE_MS;
    assert_false(pretenders_terminate(&agent, &order));
    order.allocation_id = job;
    order.run = run_make(1, 8);
    assert_false(pretenders_terminate(&agent, &order));
    assert_false(told_to_end(0));
    order.run = run_make(1, 7);
    assert_true(pretenders_terminate(&agent, &order));
    assert_true(told_to_end(0));
    living[PRETENDER_PID] = false;
    assert_false(pretenders_terminate(&agent, &order));
}

static void another_users_pretender_is_ended_when_the_owner_is_named(void **state)
{
    (void)state;
    pretender(0, run_make(1, 7), ALICE);
    pretender(1, run_make(1, 7), BOB);
    pretender(2, run_make(1, 7), 0); /* root has started it in the job */
    pretenders_take_owner(&agent, "job", ALICE);
    assert_true(told_to_end(1));
    assert_false(told_to_end(0) || told_to_end(2));
}

/* Of its own user's alone, once its ckpt-run had time to come back. */
static void a_new_start_waits_until_a_pretender_has_ended(void **state)
{
    (void)state;
    pretender(0, run_make(1, 7), ALICE);
    pretender(1, run_make(1, 7), BOB);
    agent.started_us = now_us;
    assert_int_equal(pretenders_take_over(&agent, "job", ALICE), PRETENDER_PID);
    assert_false(told_to_end(0));
    now_us += 3000000;
    assert_int_equal(pretenders_take_over(&agent, "job", ALICE), PRETENDER_PID);
    assert_true(told_to_end(0));
    assert_false(told_to_end(1));
    living[PRETENDER_PID] = false;
    assert_int_equal(pretenders_take_over(&agent, "job", ALICE), 0);
}

static void what_is_attached_is_a_pretender_no_more(void **state)
{
    static struct ledger_entry entry = {
        .allocation_id = "job", .pid = PRETENDER_PID, .start_ticks = 5, .uid = ALICE};

    (void)state;
    entry.run = run_make(1, 7);
    pretender(0, run_make(1, 7), ALICE);
    pretender(1, run_make(1, 7), ALICE); /* a rank in a group of its own */
    pretender(2, run_make(1, 7), BOB);
    pretender(3, run_make(1, 8), ALICE);
    pretenders_attached(&agent, &entry);
    assert_uint_equal(agent.pretender_count, 2);
    take_orders();
    assert_true(told_to_end(3));
    assert_false(told_to_end(0) || told_to_end(1) || told_to_end(2));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(the_run_that_the_cluster_names_is_left_alone_and_others_are_ended),
        CASE(a_set_that_names_no_run_of_the_job_ends_those_that_it_knows),
        CASE(an_order_to_end_the_run_waits_for_its_pretenders),
        CASE(another_users_pretender_is_ended_when_the_owner_is_named),
        CASE(a_new_start_waits_until_a_pretender_has_ended),
        CASE(what_is_attached_is_a_pretender_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
