/* No checkpoint is complete without a rank that its launcher counts, wherever that had been. */
#include "tests/unit/fsm/expect.h"

enum { PARTS_MAX = 3 };

/* What each part says: how many ranks, their numbers, how many there are in all. */
static const struct {
    const char *parts[PARTS_MAX];
    const char *missing; /* NULL: it is complete */
} cases[] = {
    {{"ranks=4 numbers=0-3 all=8", "ranks=4 numbers=4-7 all=8"}, NULL},
    {{"ranks=4 numbers=0-3 all=8", "ranks=3 numbers=4-6 all=8"},
     "7 of 8 ranks said so: rank 7 is in no part"},
    {{"ranks=3 numbers=0-2 all=8", "ranks=4 numbers=4-7 all=8"},
     "7 of 8 ranks said so: rank 3 is in no part"},
    {{"ranks=3 numbers=1-3 all=8", "ranks=4 numbers=4-7 all=8"},
     "7 of 8 ranks said so: rank 0 is in no part"},
    {{"ranks=3 numbers=0-2 all=8", "ranks=3 numbers=4-6 all=8"}, "6 of 8 ranks said so"},
    {{"ranks=4 numbers=0-3 all=8", "ranks=4 numbers=0-3 all=8"},
     "8 of 8 ranks said so, but not each number below 8 once"},
    /* as many, and as much in all, and not each once */
    {{"ranks=2 numbers=0,3 all=4", "ranks=2 numbers=0,3 all=4"},
     "4 of 4 ranks said so, but not each number below 4 once"},
    {{"ranks=4 numbers=0,3,5,6 all=8", "ranks=4 numbers=0,3,5,6 all=8"},
     "8 of 8 ranks said so, but not each number below 8 once"},
    {{"ranks=2 numbers=1-2 all=4", "ranks=1 numbers=4 all=4"}, "3 of 4 ranks said so"},
    {{"ranks=5 numbers=0-4 all=8", "ranks=4 numbers=4-7 all=8"}, "9 of 8 ranks said so"},
    {{"ranks=4 numbers=0-3 all=8", "ranks=2 numbers=4-5 all=6"},
     "part 0 is of 8 ranks, part 1 of 6"},
    /* a launcher of its own on each node */
    {{"ranks=2 numbers=0-1 all=2", "ranks=2 numbers=0-1 all=2", "ranks=4 numbers=0-3 all=4"}, NULL},
    {{"ranks=2 numbers=0-1 all=2", "ranks=1 numbers=1 all=2"},
     "1 of 2 ranks said so: rank 0 is in no part"},
    /* the launcher's own node has no rank of it, or nobody counts */
    {{"ranks=1", "ranks=4 numbers=0-3 all=8", "ranks=4 numbers=4-7 all=8"}, NULL},
    {{"ranks=1", "ranks=1"}, NULL},
    {{"ranks=2 numbers=0-1", "ranks=2 numbers=2-3"}, NULL},
    {{"ranks=2 numbers=0-1 all=4", "ranks=2 numbers=2-3"}, NULL},
    {{"ranks=2 numbers=0-1 all=4", "ranks=1 numbers=2"},
     "3 of 4 ranks said so: rank 3 is in no part"},
    {{"ranks=2 numbers=0-1 all=4294967295", "ranks=2 numbers=2,4294967294 all=4294967295"},
     "4 of 4294967295 ranks said so"},
};

static void check_case(size_t i)
{
    const char *const nodes[] = {"n1", "n1,n2", "n1,n2,n3"};
    struct script script;
    size_t parts = 0;

    while (parts < PARTS_MAX && cases[i].parts[parts] != NULL)
        parts++;
    script_start(&script);
    expect_ok(&script, "policy attempts=2");
    expect_ok(&script, "register j1 nodes=%s", nodes[parts - 1]);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    for (size_t part = 0; part < parts; part++) {
        if (part > 0)
            expect_checkpoint(&script, 1, WRITING);
        expect_ok(&script, "report n%zu shard_verified j1 ckpt=1-1 %s", part + 1,
                  cases[i].parts[part]);
    }
    if (cases[i].missing == NULL) {
        expect_checkpoint(&script, 1, COMPLETE);
    } else {
        expect_checkpoint(&script, 1, REQUESTED);
        assert_int_equal(checkpoint_of(&script, 1)->reason, CKPT__V1__REASON__REASON_RANKS_MISSING);
        assert_string_equal(checkpoint_of(&script, 1)->detail, cases[i].missing);
        assert_uint_equal(checkpoint_of(&script, 1)->shards[0].ranks_all, 0);
    }
    script_restore(&script);
    script_close(&script);
}

static void each_rank_that_is_counted_is_in_a_part(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_case(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_that_is_counted_is_in_a_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
