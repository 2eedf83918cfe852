/* What unit tests of the state machine assert with. */
#ifndef CKPT_TESTS_FSM_EXPECT_H
#define CKPT_TESTS_FSM_EXPECT_H

#include "tests/support/test.h"
#include "tests/unit/fsm/script.h"

/* The line is applied with this status; invariants are verified by script_run. */
#define expect_status(script, status_name, ...)                                                    \
    assert_string_equal(fsm_status_name(script_run((script), __VA_ARGS__)), #status_name)
#define expect_ok(script, ...) expect_status(script, OK, __VA_ARGS__)

#define expect_job(script, id, state_name)                                                         \
    assert_string_equal(                                                                           \
        fsm_allocation_state_name(fsm_allocation_find((script)->fsm, (id))->state), #state_name)
#define expect_reason(script, id, reason_name)                                                     \
    assert_string_equal(fsm_reason_word(fsm_allocation_find((script)->fsm, (id))->reason,          \
                                        (char[FSM_WORD_BYTES]){0}),                                \
                        (reason_name))
#define expect_checkpoint(script, sequence, state_name)                                            \
    assert_string_equal(fsm_checkpoint_state_name(checkpoint_of((script), (sequence))->state),     \
                        #state_name)

#define expect_begin(part, state_name)                                                             \
    assert_int_equal((part).begin, CKPT__V1__BEGIN_STATE__BEGIN_STATE_##state_name)

/* Of the preemption that was asked for last, in their order. */
static inline void expect_victims(struct script *script, const char *names)
{
    char text[512] = "";

    for (uint32_t i = 0; i < script->outcome.victim_count; i++) {
        strcat(text, i == 0 ? "" : " ");
        strcat(text, script->outcome.victims[i].allocation_id);
    }
    assert_string_equal(text, names);
}

static inline const struct fsm_checkpoint *checkpoint_of(const struct script *script,
                                                         uint64_t sequence)
{
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(script->fsm, checkpoint_id_make(1, sequence));

    assert_non_null(checkpoint);
    return checkpoint;
}

/* A checkpoint of a job on n1 alone, from its request on: 1-NUMBER. */
static inline void expect_complete(struct script *script, const char *job, unsigned number)
{
    expect_ok(script, "request %s", job);
    expect_ok(script, "grant 1-%u bytes=1", number);
    expect_ok(script, "report n1 shard_verified %s ckpt=1-%u", job, number);
    expect_checkpoint(script, number, COMPLETE);
}

static inline struct fsm_summary summary_of(const struct script *script)
{
    struct fsm_summary summary;

    fsm_get_summary(script->fsm, &summary);
    return summary;
}

static inline const struct fsm_allocation *job_of(const struct script *script, const char *id)
{
    const struct fsm_allocation *job = fsm_allocation_find(script->fsm, id);

    assert_non_null(job);
    return job;
}

/* j1 is to stop for a preemption, and its checkpoint is dispatched. */
static inline void script_start_victim(struct script *script, unsigned timeout_ms)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1 class=1");
    expect_ok(script, "preempt class=5");
    expect_ok(script, "grant 1-1 timeout=%u", timeout_ms);
}

/* The first checkpoint stays in this state for so long from now on, and no longer. */
static inline void expect_times_out_after(struct script *script, const char *state, unsigned ms)
{
    expect_ok(script, "after %u", ms - 1);
    expect_ok(script, "tick");
    assert_string_equal(fsm_checkpoint_state_name(checkpoint_of(script, 1)->state), state);
    expect_ok(script, "after 1");
    expect_ok(script, "tick");
    expect_checkpoint(script, 1, TIMED_OUT);
}

/* GPU-ms that restarts had to repeat. */
static inline uint64_t repeated_of(const struct script *script, const char *id)
{
    struct fsm_account account;

    fsm_allocation_account(script->fsm, job_of(script, id), 0, &account);
    return fsm_account_repeated(&account);
}

/* How many orders the node has, and the first of them. */
static inline size_t orders_of(const struct script *script, const char *node,
                               struct fsm_order *ret_first)
{
    struct fsm_order orders[8];
    size_t count =
        fsm_orders_for_node(script->fsm, fsm_node_find(script->fsm, node)->slot, orders, 8);

    if (count > 0)
        *ret_first = orders[0];
    return count;
}

/* I12: goes on with the state as its snapshot gives it back. */
static inline void script_restore(struct script *script)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    char text[256] = "";

    assert_int_equal(fsm_snapshot_write(script->fsm, script_write, &bytes), 0);
    fsm_free(script->fsm);
    script->fsm = fsm_new();
    if (fsm_snapshot_read(script->fsm, script_read, &bytes, text, sizeof(text)) != 0)
        fail_msg("%s", text);
    free(bytes.bytes);
}

#endif
