/* An agent on a clock that a test moves by hand, beside no broker: for tests of what it does by
 * itself.
 *
 * Flow     still_agent_open(), then still_now_us moves and `agent` is looked at.
 * Shapes   timers never fire by themselves; still_first_fire is what the first one that an
 *          allocation makes would call.
 */
#ifndef TESTS_UNIT_AGENT_STILL_AGENT_H
#define TESTS_UNIT_AGENT_STILL_AGENT_H

#include "src/agent/job/allocation.h"
#include "tests/support/test.h"

enum { SECOND_US = 1000000 };

static struct agent agent;
static uint64_t still_now_us;
static void (*still_first_fire)(void *data);

static uint64_t still_clock_now(void *context)
{
    (void)context;
    return still_now_us;
}

static struct clock_timer *still_timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context, (void)data;
    if (still_first_fire == NULL)
        still_first_fire = fire;
    return NULL;
}

static void still_timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    (void)timer, (void)delay_us;
}

static void still_timer_stop(struct clock_timer *timer)
{
    (void)timer;
}

static struct pid_watch *still_pid_watch(void *context, pid_t pid, void (*ended)(void *data),
                                         void *data)
{
    (void)context, (void)pid, (void)ended, (void)data;
    return NULL;
}

static void still_pid_watch_free(struct pid_watch *watch)
{
    (void)watch;
}

/* Nothing is looked at: a test that needs a work folder opens it itself. */
static struct path_open *still_path_open(void *context, enum opened_kind kind, const char *path,
                                         uid_t uid, opened_done_fn *done, void *data)
{
    (void)context, (void)kind, (void)path, (void)uid, (void)done, (void)data;
    return NULL;
}

static void still_path_open_detach(struct path_open *open)
{
    (void)open;
}

/* Nothing numbers ranks. */
static struct ranks_look *still_ranks_look(void *context, const struct job_identity *identity,
                                           int signal, ranks_done_fn *done, void *data)
{
    (void)context, (void)identity, (void)signal, (void)done, (void)data;
    return NULL;
}

/* Done at once. */
static struct job_still *still_job_still(void *context, const struct job_identity *job,
                                         enum still_way way, still_done_fn *done, void *data)
{
    (void)context, (void)job, (void)way, (void)done, (void)data;
    return NULL;
}

/* The system's, for what a test does not replace, and without its loop: no end of a process is
 * told. */
static void still_machine_ops(struct machine_ops *ret_machine)
{
    machine_uv_ops(NULL, ret_machine);
    ret_machine->pid_watch = still_pid_watch;
    ret_machine->pid_watch_free = still_pid_watch_free;
    ret_machine->ranks_look = still_ranks_look;
    ret_machine->job_still = still_job_still;
    ret_machine->path_open = still_path_open;
    ret_machine->path_open_detach = still_path_open_detach;
}

/* As the program's start does, with what its journal holds. */
static void still_agent_begin(const struct machine_ops *machine, const char *boot_id,
                              struct ledger *ledger)
{
    static const struct clock_ops clock = {.monotonic_us = still_clock_now,
                                           .wall_ms = still_clock_now,
                                           .timer_new = still_timer_new,
                                           .timer_start = still_timer_start,
                                           .timer_stop = still_timer_stop,
                                           .timer_free = still_timer_stop};

    agent_init(&agent, NULL, &clock, machine, "node-a", boot_id, ledger);
    still_first_fire = NULL; /* not the agent's own */
}

/* Without a journal. */
__attribute__((unused)) static void still_agent_open(const struct machine_ops *machine)
{
    still_now_us = 10 * SECOND_US;
    still_agent_begin(machine, "boot-1", ledger_new());
}

/* On the system's machine. */
__attribute__((unused)) static int still_agent_set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    still_machine_ops(&machine);
    still_agent_open(&machine);
    return 0;
}

/* Of orders from a leader, without one. */
__attribute__((unused)) static void still_take_set(uint64_t runs_until)
{
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    uint8_t bytes[64];

    set.runs_until = runs_until;
    agent_take_orders(
        &agent, ckpt__v1__order_set__unpack(NULL, ckpt__v1__order_set__pack(&set, bytes), bytes));
}

static int still_agent_close(void **state)
{
    (void)state;
    agent_close(&agent);
    ledger_close(agent.ledger);
    return 0;
}

#endif
