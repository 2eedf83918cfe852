/* Copies of checkpoints on the nodes that wrote them: which are wanted, how many there may be, and
 * that a job can start from them alone. I48. */
#include "fsm/core/registry.h"
#include "fsm/limits.h"
#include "tests/unit/fsm/expect.h"

static const char nodes[] = "n1,n2,n3,n4";

static size_t copies_on(const struct script *script, const char *node)
{
    return fsm_copies_on_node(script->fsm, fsm_node_find(script->fsm, node)->slot, NULL, 0);
}

/* The checkpoint that a node is to keep, when it is one. */
static uint64_t only_copy_on(const struct script *script, const char *node)
{
    struct fsm_copy copy = {.checkpoint_id = 0};

    assert_int_equal(
        fsm_copies_on_node(script->fsm, fsm_node_find(script->fsm, node)->slot, &copy, 1), 1);
    return copy.checkpoint_id;
}

/* All of its parts are verified and no copy is told of. */
static void complete(struct script *script, int number)
{
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-%d bytes=1", number);
    for (int i = 1; i <= 4; i++)
        expect_ok(script, "report n%d shard_verified j1 ckpt=1-%d", i, number);
}

static void start(struct script *script)
{
    script_start(script);
    expect_ok(script, "policy min_interval=1 keep=2");
    expect_ok(script, "register j1 nodes=%s requeue=always", nodes);
    complete(script, 1);
}

/* What was the newest is not wanted when another one is whole, and not before. */
static void the_newest_whole_one_and_what_may_become_it_are_kept(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-1 part=0");
    expect_ok(&script, "report n2 copy_kept j1 ckpt=1-1 part=1");
    assert_int_equal(only_copy_on(&script, "n1"), checkpoint_id_make(1, 1));
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2 bytes=1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-2 part=0");
    assert_int_equal(copies_on(&script, "n1"), 2);
    for (int i = 2; i <= 4; i++)
        expect_ok(&script, "report n%d shard_verified j1 ckpt=1-2", i);
    assert_int_equal(only_copy_on(&script, "n1"), checkpoint_id_make(1, 2));
    assert_int_equal(copies_on(&script, "n2"), 0);
    expect_ok(&script, "report n2 copy_kept j1 ckpt=1-1 part=1"); /* it comes late */
    assert_int_equal(copies_on(&script, "n2"), 0);
    script_close(&script);
}

/* A part has FSM_SHARD_PLACES_MAX places, its target among them. */
static void a_part_lies_in_so_many_places(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    for (int i = 1; i <= 4; i++)
        expect_ok(&script, "report n%d copy_kept j1 ckpt=1-1 part=2", i);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(copies_on(&script, i == 4 ? "n4" : "n3"), i == 4 ? 0 : 1);
    assert_int_equal(checkpoint_of(&script, 1)->shards[2].place_count, FSM_SHARD_PLACES_MAX);
    expect_ok(&script, "report n1 copy_dropped j1 ckpt=1-1 part=2");
    expect_ok(&script, "report n4 copy_kept j1 ckpt=1-1 part=2");
    assert_int_equal(copies_on(&script, "n1"), 0);
    assert_int_equal(copies_on(&script, "n4"), 1);
    script_close(&script);
}

/* Jobs on one node until it has all that it may have, and one more. */
static void fill_node(struct script *script)
{
    script_start(script);
    script->unchecked = true; /* all rules after each line would take a minute */
    expect_ok(script, "policy min_interval=1 keep=2");
    for (int i = 1; i <= FSM_COPIES_PER_NODE_MAX + 1; i++) {
        expect_ok(script, "register k%d nodes=n1", i);
        expect_ok(script, "request k%d", i);
        expect_ok(script, "grant 1-%d bytes=1", i);
        expect_ok(script, "report n1 shard_verified k%d ckpt=1-%d", i, i);
        expect_ok(script, "report n1 copy_kept k%d ckpt=1-%d", i, i);
    }
    script->unchecked = false;
}

/* The next one's copy is not wanted there, and is when another has gone. */
static void a_node_keeps_so_many_and_no_more(void **unused)
{
    struct script script;

    (void)unused;
    fill_node(&script);
    assert_int_equal(copies_on(&script, "n1"), FSM_COPIES_PER_NODE_MAX);
    assert_int_equal(checkpoint_of(&script, FSM_COPIES_PER_NODE_MAX + 1)->shards[0].place_count, 1);
    expect_ok(&script, "report n1 copy_dropped k1 ckpt=1-1");
    expect_ok(&script, "report n1 copy_kept k%d ckpt=1-%d", FSM_COPIES_PER_NODE_MAX + 1,
              FSM_COPIES_PER_NODE_MAX + 1);
    assert_int_equal(copies_on(&script, "n1"), FSM_COPIES_PER_NODE_MAX);
    script_close(&script);
}

static int read_back(struct script *script)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    char text[256] = "";
    int result;

    assert_int_equal(fsm_snapshot_write(script->fsm, script_write, &bytes), 0);
    result = fsm_snapshot_read(script->fsm, script_read, &bytes, text, sizeof(text));
    free(bytes.bytes);
    return result;
}

/* What it read of the one too many is given back as well. */
static void a_snapshot_with_one_more_than_a_node_may_have_is_refused(void **unused)
{
    struct script script;
    struct fsm_shard *shard;

    (void)unused;
    fill_node(&script);
    assert_int_equal(read_back(&script), 0);
    assert_int_equal(copies_on(&script, "n1"), FSM_COPIES_PER_NODE_MAX);
    shard = &checkpoint_edit(
                 script.fsm,
                 checkpoint_find(script.fsm, checkpoint_id_make(1, FSM_COPIES_PER_NODE_MAX + 1)))
                 ->shards[0];
    assert_int_equal(shard->place_count, 1);
    shard->places[shard->place_count++] = fsm_place_make(FSM_PLACE_NODE, shard->node_slot);
    assert_int_not_equal(read_back(&script), 0);
    shard = &checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)))
                 ->shards[0];
    assert_int_equal(shard->place_count, 2); /* the state is as it was */
    script_close(&script);
}

/* Of another attempt, of a part that there is not, of what is not verified, by a stranger. */
static void what_is_not_of_the_checkpoint_is_no_copy(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    expect_ok(&script, "node n9 ready");
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-1 part=0 sha=%064d", 7);
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-1 part=0 sha=0");
    expect_status(&script, CHECKPOINT_NOT_FOUND, "report n1 copy_kept j1 ckpt=1-1 part=4");
    expect_status(&script, CHECKPOINT_NOT_FOUND, "report n1 copy_dropped j1 ckpt=1-7");
    expect_ok(&script, "report n9 copy_kept j1 ckpt=1-1 part=0");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2 bytes=1");
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-2 part=0");
    expect_ok(&script, "report n1 copy_dropped j1 ckpt=1-1 part=0"); /* there is none */
    assert_int_equal(copies_on(&script, "n1") + copies_on(&script, "n9"), 0);
    script_close(&script);
}

/* What a scheduler is told: a node that is there for each part, of the last complete one alone. */
static void the_nodes_of_the_copies_are_named_by_part(void **unused)
{
    const char *names[4];
    struct script script;

    (void)unused;
    start(&script);
    assert_int_equal(fsm_copy_nodes(script.fsm, job_of(&script, "j1"), names, 4), 0);
    expect_ok(&script, "report n3 copy_kept j1 ckpt=1-1 part=2");
    expect_ok(&script, "report n1 copy_kept j1 ckpt=1-1 part=0");
    expect_ok(&script, "report n2 copy_kept j1 ckpt=1-1 part=0");
    expect_ok(&script, "end j1 failed");
    assert_int_equal(fsm_copy_nodes(script.fsm, job_of(&script, "j1"), names, 4), 4);
    assert_string_equal(names[0], "n1");
    assert_null(names[1]);
    assert_string_equal(names[2], "n3");
    assert_null(names[3]);
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "node n3 down");
    assert_int_equal(fsm_copy_nodes(script.fsm, job_of(&script, "j1"), names, 1), 4);
    assert_string_equal(names[0], "n2");
    script_close(&script);
}

/* They go with the job's end. */
static void nothing_is_kept_that_nobody_starts_from(void **unused)
{
    struct script script;

    (void)unused;
    start(&script);
    for (int i = 1; i <= 4; i++)
        expect_ok(&script, "report n%d copy_kept j1 ckpt=1-1 part=%d", i, i - 1);
    assert_int_equal(copies_on(&script, "n4"), 1);
    expect_ok(&script, "end j1");
    for (int i = 1; i <= 4; i++) {
        char name[16];

        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(copies_on(&script, name), 0);
    }
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_whole_one_and_what_may_become_it_are_kept),
        cmocka_unit_test(a_part_lies_in_so_many_places),
        cmocka_unit_test(a_node_keeps_so_many_and_no_more),
        cmocka_unit_test(a_snapshot_with_one_more_than_a_node_may_have_is_refused),
        cmocka_unit_test(what_is_not_of_the_checkpoint_is_no_copy),
        cmocka_unit_test(the_nodes_of_the_copies_are_named_by_part),
        cmocka_unit_test(nothing_is_kept_that_nobody_starts_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
