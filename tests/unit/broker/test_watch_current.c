/* The present state as the first thing of a watch (O-002). */
#include "src/broker/api/watch_current.h"
#include "tests/unit/broker/fake_replica.h"

#define KIND(name) CKPT__V1__EVENT_KIND__EVENT_KIND_##name

enum { TOLD_MAX = 16, STEPS_MAX = 4096 };

static struct watch_told told[TOLD_MAX];
static size_t told_count;

static void tell(struct fake *fake, const char *allocation_id)
{
    struct watch_current current;

    told_count = 0;
    watch_current_begin(&current);
    for (int i = 0; watch_current_left(&current); i++) {
        assert_true(i < STEPS_MAX);
        assert_true(told_count < TOLD_MAX);
        told_count +=
            watch_current_next(&current, fake->replica.fsm, allocation_id, &told[told_count]);
    }
}

static const Ckpt__V1__Event *find(Ckpt__V1__EventKind kind, const char *allocation_id)
{
    const Ckpt__V1__Event *found = NULL;

    for (size_t i = 0; i < told_count; i++) {
        if (told[i].event.kind != kind || strcmp(told[i].event.allocation_id, allocation_id) != 0)
            continue;
        assert_null(found); /* each once */
        found = &told[i].event;
    }
    return found;
}

static void end_job(struct fake *fake, const char *name)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest request = CKPT__V1__END_ALLOCATION_REQUEST__INIT;

    request.request_id = command.request_id = (char[]){"end"};
    request.allocation_id = (char *)(uintptr_t)name;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &request;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);

    assert_int_equal(fake_register(fake, "runs", 1, 1, NULL).status, FSM_OK);
    assert_int_equal(fake_register(fake, "over", 2, 1, NULL).status, FSM_OK);
    end_job(fake, "over");
    return fake;
}

static void assert_end(const struct fake *fake)
{
    const Ckpt__V1__Event *end = &told[told_count - 1].event;
    struct fsm_summary summary;

    fsm_get_summary(fake->replica.fsm, &summary);
    assert_int_equal(end->kind, KIND(CURRENT_END));
    assert_uint_equal(end->sequence, summary.next_event_sequence - 1);
    for (size_t i = 0; i < told_count; i++) {
        assert_true(told[i].event.current);
        assert_true(i + 1 == told_count || told[i].event.sequence == 0);
    }
}

/* O-002: targets, jobs that have not ended, their active checkpoints with their paths. */
static void all_that_is_current_is_told_once(void **state)
{
    struct fake *fake = start();
    uint64_t checkpoint = fake_request_checkpoint(fake, "runs", "hint");
    const Ckpt__V1__Event *event;

    (void)state;
    tell(fake, "");
    assert_uint_equal(told_count, 4);
    assert_string_equal(find(KIND(TARGET_UP), "")->subject, "scratch");
    event = find(KIND(ALLOCATION_STATE), "runs");
    assert_int_equal(event->new_state, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING);
    assert_int_equal(event->old_state, event->new_state);
    event = find(KIND(CHECKPOINT_STATE), "runs");
    assert_uint_equal(event->checkpoint_id, checkpoint);
    assert_int_equal(event->new_state, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED);
    assert_non_null(strstr(event->path, "/scratch/"));
    assert_non_null(strstr(event->path, "/runs/checkpoints/1-1"));
    assert_end(fake);
    fake_set_available(fake, false);
    tell(fake, "");
    assert_string_equal(find(KIND(TARGET_DOWN), "")->subject, "scratch");
    fake_free(fake);
}

static void node_command(struct fake *fake, const char *node, bool drain)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;
    Ckpt__Log__V1__DrainNode want = CKPT__LOG__V1__DRAIN_NODE__INIT;

    seen.node_id = want.node_id = (char *)(uintptr_t)node;
    seen.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    seen.boot_id = (char[]){"boot"};
    command.request_id = (char *)(uintptr_t)(drain ? node : "");
    command.body_case =
        drain ? CKPT__LOG__V1__COMMAND__BODY_DRAIN_NODE : CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    if (drain)
        command.drain_node = &want;
    else
        command.node_seen = &seen;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* O-002, L-002: nodes that take nothing new, or are not heard, but none of the thousands that are
 * well. */
static void nodes_that_are_not_ready_are_current_too(void **state)
{
    struct fake *fake = start();
    const struct fsm_node *of_job;
    const Ckpt__V1__Event *event;

    (void)state;
    fake_set_level(fake, 2);
    of_job = fsm_node_find_slot(fake->replica.fsm,
                                fsm_allocation_find(fake->replica.fsm, "runs")->nodes[0].node_slot);
    node_command(fake, of_job->id, false);
    node_command(fake, "empty", false);
    tell(fake, "");
    assert_null(find(KIND(NODE_STATE), ""));
    node_command(fake, of_job->id, true);
    node_command(fake, "empty", true);
    tell(fake, "");
    event = find(KIND(NODE_STATE), "");
    assert_string_equal(event->subject, of_job->id);
    assert_int_equal(event->new_state, CKPT__LOG__V1__NODE_STATE__NODE_STATE_DRAINING);
    assert_int_equal(event->old_state, event->new_state);
    event = find(KIND(NODE_DRAINED), "");
    assert_string_equal(event->subject, "empty");
    assert_end(fake);
    tell(fake, "runs");
    assert_null(find(KIND(NODE_STATE), ""));
    fake_free(fake);
}

/* Of one job also when it has ended: who asks for it knows that there is one. */
static void of_one_job_nothing_else_is_told(void **state)
{
    struct fake *fake = start();

    (void)state;
    tell(fake, "over");
    assert_uint_equal(told_count, 2);
    assert_int_equal(find(KIND(ALLOCATION_STATE), "over")->new_state,
                     CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED);
    assert_end(fake);
    tell(fake, "nobody");
    assert_uint_equal(told_count, 1);
    assert_end(fake);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_is_current_is_told_once),
        cmocka_unit_test(nodes_that_are_not_ready_are_current_too),
        cmocka_unit_test(of_one_job_nothing_else_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
