/* Restart points that leave out where the shards lie, or what they are: S1-091, I27. */
#include "tests/unit/agent/restore_world.h"

static char nothing[1];

static void newest(void)
{
    world_name(1);
    world.restore.turn.read = READ(MAY);
}

static void all_of_two(void)
{
    world_pair();
    world_name(2);
    world.point.restore = MODE(ALL);
}

static void no_path(void)
{
    newest();
    world.path[0] = '\0';
}

static void no_shards(void)
{
    newest();
    world.point.n_shards = 0;
    world.point.restore = MODE(ALL);
}

static void no_sum_of_its_own(void)
{
    newest();
    world.shard[0].manifest_sha256 = nothing;
}

static void no_sum_of_one_of_all(void)
{
    all_of_two();
    world.shard[1].manifest_sha256 = nothing;
}

static void no_sum_of_one_that_it_verifies(void)
{
    newest();
    world.shard[0].manifest_sha256 = nothing;
    world.point.restore = MODE(PATH);
}

/* Another part reads that one. */
static void no_sum_of_anothers(void)
{
    world_pair();
    world_name(2);
    world.shard[1].manifest_sha256 = nothing;
}

/* Nothing would tell whether the right files are restored: it ends, and no worker is asked. */
static void a_point_that_leaves_something_out_is_refused(void **state)
{
    static const struct {
        void (*with)(void);
        const char *expected;
    } points[] = {
        {newest, "TELL:9 READ -> READING"},
        {all_of_two, "TELL:9 READ -> READING"},
        {no_path, "TELL:9 OVER:INCOMPLETE -> OVER"},
        {no_shards, "TELL:9 OVER:INCOMPLETE -> OVER"},
        {no_sum_of_its_own, "TELL:9 OVER:INCOMPLETE -> OVER"},
        {no_sum_of_one_of_all, "TELL:9 OVER:INCOMPLETE -> OVER"},
        {no_sum_of_one_that_it_verifies, "TELL:9 OVER:INCOMPLETE -> OVER"},
        {no_sum_of_anothers, "TELL:9 READ -> READING"},
    };
    const struct restore_event event = {.kind = RESTORE_POINT};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        world_begin();
        points[i].with();
        assert_string_equal(world_step(&event, text), points[i].expected);
    }
}

static void the_size_of_its_own_shards_is_known(void **state)
{
    const struct restore_event event = {.kind = RESTORE_POINT};
    char text[256];

    (void)state;
    world_begin();
    all_of_two();
    world.shard[0].size_bytes = 1000;
    world.shard[1].size_bytes = 234;
    (void)world_step(&event, text);
    assert_uint_equal(world.restore.brought.size_bytes, 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_that_leaves_something_out_is_refused),
        cmocka_unit_test(the_size_of_its_own_shards_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
