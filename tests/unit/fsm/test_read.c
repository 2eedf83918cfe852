/* Who reads a checkpoint from its target, and who waits in line for that. S2-032, I49, L9. */
#include "fsm/begin.h"
#include "fsm/core/registry.h"
#include "fsm/core/state.h"
#include "tests/unit/fsm/expect.h"

#define READ(name) CKPT__V1__READ_STATE__READ_STATE_##name

static struct fsm_part part_of(const struct script *script, const char *job, const char *node)
{
    struct fsm_part part;

    assert_true(fsm_part_on(script->fsm, job_of(script, job),
                            fsm_node_find(script->fsm, node)->slot, &part));
    return part;
}

static void expect_read(const struct script *script, const char *job, const char *node,
                        Ckpt__V1__ReadState state)
{
    assert_int_equal(part_of(script, job, node).read, state);
}

static struct fsm_reads reads_of(const struct script *script, const char *job)
{
    struct fsm_reads reads;

    fsm_reads(script->fsm, job_of(script, job), &reads);
    return reads;
}

static const struct fsm_target *scratch_of(const struct script *script)
{
    return fsm_target_find(script->fsm, "scratch");
}

/* Jobs j1 ... of one node each, n1 ..., that are to begin from their checkpoints 1-1 ... */
static void start_jobs(struct script *script, unsigned count)
{
    script_start(script);
    for (unsigned i = 1; i <= count; i++) {
        expect_ok(script, "register j%u nodes=n%u requeue=always", i, i);
        expect_ok(script, "request j%u", i);
        expect_ok(script, "grant 1-%u", i);
        expect_ok(script, "report n%u shard_verified j%u ckpt=1-%u size=1000000000", i, i, i);
        expect_ok(script, "end j%u failed", i);
        expect_ok(script, "restart j%u nodes=n%u", i, i);
    }
}

static void want(struct script *script, unsigned i)
{
    expect_ok(script, "report n%u read_wanted j%u restored=1-%u", i, i, i);
}

static void who_wants_to_read_says_so_first(void **unused)
{
    struct script script;

    (void)unused;
    start_jobs(&script, 1);
    expect_read(&script, "j1", "n1", READ(ASK));
    expect_ok(&script, "report n1 read_wanted j1 restored=1-7"); /* another one */
    expect_read(&script, "j1", "n1", READ(ASK));
    want(&script, 1);
    expect_read(&script, "j1", "n1", READ(MAY)); /* no limit is set */
    assert_int_equal(part_of(&script, "j1", "n1").read_bytes_per_s, 0);
    want(&script, 1); /* said twice */
    assert_int_equal(scratch_of(&script)->reading_count, 1);
    script_restore(&script);
    assert_int_equal(scratch_of(&script)->reading_count, 1);
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    assert_int_equal(scratch_of(&script)->reading_count, 0);
    script_close(&script);
}

static void a_line_is_left_in_the_order_in_which_it_was_joined(void **unused)
{
    struct script script;

    (void)unused;
    start_jobs(&script, 4);
    expect_ok(&script, "put scratch keep restores=1");
    want(&script, 3);
    want(&script, 1);
    want(&script, 4);
    want(&script, 2);
    expect_read(&script, "j3", "n3", READ(MAY));
    expect_read(&script, "j1", "n1", READ(WAITS));
    assert_int_equal(reads_of(&script, "j1").place, 1);
    assert_int_equal(reads_of(&script, "j2").place, 3);
    assert_int_equal(reads_of(&script, "j2").line, 3);
    script_restore(&script);
    assert_int_equal(reads_of(&script, "j2").place, 3);
    expect_ok(&script, "report n1 read_ended j1"); /* its ckpt-run has gone */
    expect_read(&script, "j1", "n1", READ(ASK));
    expect_ok(&script, "report n3 application_started j3 restored=1-3");
    expect_read(&script, "j4", "n4", READ(MAY));
    assert_int_equal(reads_of(&script, "j2").place, 1);
    expect_ok(&script, "end j4 failed");
    expect_read(&script, "j2", "n2", READ(MAY));
    expect_ok(&script, "node n2 down");
    assert_int_equal(scratch_of(&script)->reading_count, 0);
    script_close(&script);
}

/* The rates of those that read are within the budget, and nobody begins at a crawl. */
static void restores_share_the_bandwidth_of_their_target(void **unused)
{
    struct script script;

    (void)unused;
    start_jobs(&script, 3);
    expect_ok(&script, "put scratch keep read=4000000000"); /* a node takes 3 GB/s or less */
    want(&script, 1);
    want(&script, 2);
    want(&script, 3);
    assert_true(part_of(&script, "j1", "n1").read_bytes_per_s > 0);
    assert_true(scratch_of(&script)->read_granted_bytes_per_s <= 4000000000);
    script_restore(&script);
    expect_ok(&script, "put scratch keep read=1000"); /* who reads goes on */
    expect_read(&script, "j1", "n1", READ(MAY));
    script_restore(&script);
    expect_ok(&script, "put scratch keep zeros=%d", 1 << 10);
    expect_read(&script, "j3", "n3", READ(MAY));
    assert_int_equal(scratch_of(&script)->waiting_count, 0);
    script_close(&script);
}

/* The parts of a job stand together: all of them are let in before the next job. */
static void the_parts_of_a_job_are_let_in_together(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    for (unsigned i = 1; i <= 2; i++) {
        expect_ok(&script, "register j%u nodes=n%u,m%u requeue=always", i, i, i);
        expect_ok(&script, "request j%u", i);
        expect_ok(&script, "grant 1-%u", i);
        expect_ok(&script, "report n%u shard_verified j%u ckpt=1-%u", i, i, i);
        expect_ok(&script, "report m%u shard_verified j%u ckpt=1-%u", i, i, i);
        expect_ok(&script, "end j%u failed", i);
        expect_ok(&script, "restart j%u nodes=n%u,m%u", i, i, i);
    }
    expect_ok(&script, "put scratch keep restores=2 read=1000000000");
    expect_ok(&script, "report n1 read_wanted j1 restored=1-1");
    expect_ok(&script, "report n2 read_wanted j2 restored=1-2");
    expect_ok(&script, "report m2 read_wanted j2 restored=1-2");
    expect_ok(&script, "report m1 read_wanted j1 restored=1-1");
    expect_read(&script, "j1", "n1", READ(MAY));
    expect_read(&script, "j1", "m1", READ(WAITS));
    assert_int_equal(reads_of(&script, "j1").place, 1); /* with n1, though m2 came before */
    script_restore(&script);
    assert_int_equal(reads_of(&script, "j1").place, 1);
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_read(&script, "j1", "m1", READ(MAY));
    expect_ok(&script, "report m1 restored j1 restored=1-1");
    expect_read(&script, "j2", "n2", READ(MAY));
    expect_read(&script, "j2", "m2", READ(MAY));
    assert_int_equal(part_of(&script, "j2", "m2").read_bytes_per_s, 500000000);
    expect_ok(&script, "report n2 restart_damaged j2 restored=1-2"); /* nothing is left to read */
    assert_int_equal(scratch_of(&script)->reading_count, 0);
    script_close(&script);
}

/* Whoever hangs does not keep all others out. */
static void a_reader_that_takes_too_long_loses_its_place(void **unused)
{
    struct script script;

    (void)unused;
    start_jobs(&script, 2);
    expect_ok(&script, "put scratch keep restores=1");
    want(&script, 1);
    want(&script, 2);
    expect_read(&script, "j2", "n2", READ(WAITS));
    script_restore(&script);
    expect_ok(&script, "after %d", 3600000);
    expect_ok(&script, "tick");
    expect_read(&script, "j1", "n1", READ(ASK));
    expect_read(&script, "j2", "n2", READ(MAY));
    want(&script, 1); /* behind the other now */
    expect_read(&script, "j1", "n1", READ(WAITS));
    script_close(&script);
}

static void expect_refused(struct script *script, const char *place)
{
    struct script_bytes bytes = {0};
    struct fsm *fsm = fsm_new();
    char text[256] = "";

    fsm_snapshot_write(script->fsm, script_write, &bytes);
    if (fsm_snapshot_read(fsm, script_read, &bytes, text, sizeof(text)) == 0)
        fail_msg("a snapshot with another %s was taken", place);
    assert_contains(text, "snapshot refused");
    fsm_free(fsm);
    free(bytes.bytes);
}

/* A disk that lies must not stop a member, nor let parts in that no leader has let in. */
static void places_that_no_state_has_are_refused(void **unused)
{
    struct script script;
    struct allocation *reader, *waiter, *idle;

    (void)unused;
    start_jobs(&script, 3);
    expect_ok(&script, "put scratch keep restores=1 read=1000000000");
    want(&script, 1);
    want(&script, 2);
    reader = allocation_edit(script.fsm, allocation_find(script.fsm, "j1"));
    waiter = allocation_edit(script.fsm, allocation_find(script.fsm, "j2"));
    idle = allocation_edit(script.fsm, allocation_find(script.fsm, "j3"));
#define REFUSED(place, type, value)                                                                \
    do {                                                                                           \
        type kept = (place);                                                                       \
                                                                                                   \
        (place) = (value);                                                                         \
        expect_refused(&script, #place);                                                           \
        (place) = kept;                                                                            \
    } while (0)
    REFUSED(reader->read_until_ms, uint64_t, 0);
    REFUSED(reader->assignments[0].read_waits, bool, true);
    REFUSED(reader->assignments[0].reads, bool, false);
    REFUSED(reader->assignments[0].read_bytes_per_s, uint64_t, 1000000001);
    REFUSED(reader->read_target_slot, uint32_t, 1);
    REFUSED(reader->read_target_slot, uint32_t, FSM_TARGETS_MAX);
    REFUSED(waiter->assignments[0].read_bytes_per_s, uint64_t, 1);
    REFUSED(waiter->assignments[0].reads, bool, true);
    REFUSED(waiter->assignments[0].terminated, bool, true);
    REFUSED(waiter->read_until_ms, uint64_t, 1);
    REFUSED(waiter->read_sequence, uint64_t, UINT64_MAX);
    REFUSED(waiter->read_target_slot, uint32_t, 1);
    REFUSED(idle->read_sequence, uint64_t, 1);
    REFUSED(idle->read_until_ms, uint64_t, 1);
    REFUSED(idle->assignments[0].reads, bool, true);
#undef REFUSED
    script_restore(&script);
    expect_read(&script, "j2", "n2", READ(WAITS));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_wants_to_read_says_so_first),
        cmocka_unit_test(a_line_is_left_in_the_order_in_which_it_was_joined),
        cmocka_unit_test(restores_share_the_bandwidth_of_their_target),
        cmocka_unit_test(the_parts_of_a_job_are_let_in_together),
        cmocka_unit_test(a_reader_that_takes_too_long_loses_its_place),
        cmocka_unit_test(places_that_no_state_has_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
