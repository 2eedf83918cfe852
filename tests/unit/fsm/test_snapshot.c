/* Snapshots in slices: whatever happens between two slices, the bytes are those of the instant at
 * which it began. */
#include "tests/support/test.h"

#include "fsm/core/registry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "tests/unit/fsm/expect.h"
#include "tests/unit/fsm/random_line.h"

enum { RUNS = 8, LINES = 2500 };

/* A snapshot in slices of one state, beside the one that was written at once when it began. */
struct slices {
    struct fsm_snapshot *snapshot; /* NULL: none is at work */
    struct script_bytes expected, got;
    size_t slice_bytes_max;
    uint64_t compared;
};

static void slices_begin(struct slices *slices, struct fsm *fsm)
{
    slices->expected.length = 0;
    slices->got.length = 0;
    assert_int_equal(fsm_snapshot_write(fsm, script_write, &slices->expected), 0);
    slices->snapshot = fsm_snapshot_begin(fsm);
}

/* true: that was the last one, and it is right. */
static bool slices_next(struct slices *slices, size_t bytes)
{
    size_t before = slices->got.length;
    bool done = false;

    assert_int_equal(fsm_snapshot_next(slices->snapshot, bytes, script_write, &slices->got, &done),
                     0);
    if (slices->got.length - before > slices->slice_bytes_max)
        slices->slice_bytes_max = slices->got.length - before;
    if (!done)
        return false;
    fsm_snapshot_end(slices->snapshot);
    slices->snapshot = NULL;
    slices->compared++;
    assert_int_equal(slices->got.length, slices->expected.length);
    assert_memory_equal(slices->got.bytes, slices->expected.bytes, slices->got.length);
    return true;
}

static void slices_close(struct slices *slices)
{
    fsm_snapshot_end(slices->snapshot);
    free(slices->expected.bytes);
    free(slices->got.bytes);
}

/* Now and then one begins, goes on, is given up. */
static void slices_play(struct slices *slices, struct fsm *fsm, uint64_t *dice)
{
    if (slices->snapshot == NULL) {
        if (random_draw(dice, 4) == 0)
            slices_begin(slices, fsm);
    } else if (random_draw(dice, 200) == 0) {
        fsm_snapshot_end(slices->snapshot);
        slices->snapshot = NULL;
    } else if (random_draw(dice, 3) == 0) {
        slices_next(slices, 1 + random_draw(dice, 6000));
    }
}

static void run_once(uint64_t seed, uint64_t *compared)
{
    struct slices own = {NULL}, backup = {NULL};
    struct script script;
    uint64_t state = seed, dice = seed ^ 0x5eed;
    char line[512];

    script_open(&script);
    script_run(&script, "init");
    script_run(&script, "policy min_interval=1 backoff=1000 retention=50000 timeout=30000");
    for (int i = 0; i < LINES; i++) {
        random_line(&script, &state, line, sizeof(line));
        script_run(&script, "%s", line);
        slices_play(&own, script.fsm, &dice);
        slices_play(&backup, script.fsm, &dice);
    }
    *compared += own.compared + backup.compared;
    script_close(&script); /* perhaps in the middle of one */
    slices_close(&own);
    slices_close(&backup);
}

/* I12: snapshot + tail is the whole log, also when the snapshot was written while the log went
 * on. */
static void slices_are_the_state_as_it_was_when_they_began(void **unused)
{
    uint64_t seed = test_seed();
    uint64_t compared = 0;

    (void)unused;
    for (uint64_t run = 0; run < RUNS; run++)
        run_once(seed + run, &compared);
    print_message("%" PRIu64 " snapshots compared\n", compared);
    assert_true(compared > RUNS * 10);
}

static void events_that_are_overwritten_meanwhile_are_in_the_snapshot(void **unused)
{
    struct slices slices = {NULL};
    struct script script;

    (void)unused;
    script_start(&script);
    script.unchecked = true; /* every entry would be checked against all events */
    for (int i = 0; i < FSM_EVENTS_MAX + 100; i++)
        script_run(&script, "policy min_interval=%d", 1 + i);
    slices_begin(&slices, script.fsm);
    for (int i = 0; i < 1000; i++)
        script_run(&script, "policy min_interval=%d", 1 + i);
    for (int i = 0; !slices_next(&slices, 4096); i++)
        script_run(&script, "policy min_interval=%d", 1 + i);
    slices_begin(&slices, script.fsm);
    for (int i = 0; i < FSM_EVENTS_MAX + 1; i++) /* all of them, and the first new one */
        script_run(&script, "policy min_interval=%d", 1 + i);
    while (!slices_next(&slices, SIZE_MAX))
        continue;
    slices_close(&slices);
    script_close(&script);
}

static void requests_that_are_forgotten_meanwhile_are_in_the_snapshot(void **unused)
{
    struct slices slices = {NULL};
    struct script script;
    struct fsm_summary summary;

    (void)unused;
    script_start(&script);
    script_run(&script, "policy session_ttl=60000");
    for (int i = 0; i < 3000; i++) /* some pages of them */
        script_run(&script, "queue v%d", i % 200);
    slices_begin(&slices, script.fsm);
    assert_false(slices_next(&slices, 1));
    script_run(&script, "after 100000");
    for (int i = 0; i < 500; i++) /* each command forgets a few */
        script_run(&script, "queue v%d", i % 200);
    fsm_get_summary(script.fsm, &summary);
    assert_true(summary.past_request_count < 600);
    while (!slices_next(&slices, 512))
        script_run(&script, "queue v1");
    slices_begin(&slices, script.fsm);
    script_run(&script, "after 100000");
    script_run(&script, "queue v2");
    slices_close(&slices); /* given up while it alone still holds some */
    script_close(&script);
}

/* A member that installs a newer state cannot finish what it began to write of the old one. */
static void a_state_that_is_replaced_ends_its_snapshots(void **unused)
{
    struct slices slices = {NULL};
    struct script script;
    struct script_bytes bytes = {NULL, 0, 0, 0};
    char text[256] = "";
    bool done;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < 50; i++)
        script_run(&script, "register j%d nodes=n%d", i, i % 7);
    slices_begin(&slices, script.fsm);
    assert_false(slices_next(&slices, 512));
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    assert_int_equal(fsm_snapshot_read(script.fsm, script_read, &bytes, text, sizeof(text)), 0);
    assert_int_equal(fsm_snapshot_next(slices.snapshot, 512, script_write, &slices.got, &done), -1);
    script_run(&script, "end j1"); /* and nothing is held for it any more */
    slices_close(&slices);
    free(bytes.bytes);
    script_close(&script);
}

static void ask_and_cancel(struct script *script)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    script_run(script, "request j1");
    script_run(
        script, "cancel %s",
        checkpoint_id_format(fsm_allocation_find(script->fsm, "j1")->active_checkpoint_id, id));
}

/* Records are known to a snapshot by their place in the registry, which is compacted when half of
 * it is gone. */
static void checkpoints_that_leave_meanwhile_are_in_the_snapshot(void **unused)
{
    struct slices slices = {NULL};
    struct script script;

    (void)unused;
    script_start(&script);
    script.unchecked = true;
    script_run(&script, "register j1 nodes=n1");
    for (int i = 0; i < 1000; i++) /* the newest 16 of the cancelled ones are kept */
        ask_and_cancel(&script);
    slices_begin(&slices, script.fsm);
    for (int i = 0; i < 300; i++)
        ask_and_cancel(&script);
    while (!slices_next(&slices, 1024))
        ask_and_cancel(&script);
    slices_close(&slices);
    script_close(&script);
}

static void a_slice_is_bounded_whatever_the_state_holds(void **unused)
{
    struct slices slices = {NULL};
    struct script script;
    size_t count = 0;

    (void)unused;
    script_start(&script);
    for (int i = 0; i < 2000; i++)
        script_run(&script, "register j%d nodes=n%d", i, i % 7);
    slices_begin(&slices, script.fsm);
    while (!slices_next(&slices, 4096))
        count++;
    assert_true(count > slices.expected.length / (2 * 4096));
    assert_true(slices.slice_bytes_max < 2 * 4096);
    slices_close(&slices);
    script_close(&script);
}

/* What a state may not hold is refused by the one that reads it. */
static void expect_refused(struct script *script, const char *field)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    char text[256] = "";

    assert_int_equal(fsm_snapshot_write(script->fsm, script_write, &bytes), 0);
    if (fsm_snapshot_read(script->fsm, script_read, &bytes, text, sizeof(text)) == 0)
        fail_msg("taken: %s", field);
    free(bytes.bytes);
}

static void a_stop_without_its_limit_is_refused(void **unused)
{
    struct checkpoint *checkpoint;
    struct script script;

    (void)unused;
    script_start_victim(&script, 60000);
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_non_null(checkpoint);
    assert_int_not_equal(checkpoint->stop_deadline_ms, 0);
    checkpoint->stop_limit_ms = 0;
    expect_refused(&script, "stop_limit_ms");
    script_close(&script);
}

/* A field with a value that no command leaves there: each of them stops the program when it is met
 * at work (past_requests.c, moved.c, checkpoint.c), so nothing that was read may hold it. */
#define IMPOSSIBLE(field, value)                                                                   \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (value);                                                                         \
        expect_refused(&script, #field);                                                           \
        (field) = kept;                                                                            \
    } while (0)

static void a_request_that_was_answered_in_the_future_is_refused(void **unused)
{
    struct past_request *past;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    past = script.fsm->past_request_newest;
    IMPOSSIBLE(past->index, script.fsm->index + 1);
    IMPOSSIBLE(past->index, UINT64_MAX);
    IMPOSSIBLE(past->at_ms, script.fsm->now_ms + 1);
    IMPOSSIBLE(past->command, 0);
    script_restore(&script); /* and as it is it is taken */
    script_close(&script);
}

static void a_policy_that_no_command_sets_is_refused(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    IMPOSSIBLE(script.fsm->policy.max_deferral_ms, 24 * 3600 * 1000 + 1);
    IMPOSSIBLE(script.fsm->policy.keep_complete, FSM_COMPLETE_KEPT_MAX + 1);
    IMPOSSIBLE(script.fsm->policy.max_attempts, UINT32_MAX);
    IMPOSSIBLE(script.fsm->policy.domain_rule, 4);
    IMPOSSIBLE(script.fsm->policy.min_interval_ms, script.fsm->policy.max_interval_ms + 1);
    IMPOSSIBLE(script.fsm->policy.stall_fraction_ppm, FSM_PPM + 1);
    script_restore(&script);
    script_close(&script);
}

/* An earlier build let a policy, a tenant and a job keep one complete checkpoint, and knew no rule
 * for domains. */
static void what_an_earlier_build_kept_one_of_has_two(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=1000");
    expect_ok(&script, "tenant physics keep=3");
    expect_ok(&script, "register j1 nodes=n1 keep=3");
    expect_ok(&script, "register j2 nodes=n1 tenant=biology");
    for (unsigned i = 1; i <= 3; i++)
        expect_complete(&script, "j1", i);
    for (unsigned i = 4; i <= 6; i++)
        expect_complete(&script, "j2", i);
    script.fsm->policy.keep_complete = 1;
    script.fsm->policy.domain_rule = CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_UNSPECIFIED;
    script.fsm->tenants[0]->quota.keep_complete = 1;
    allocation_edit(script.fsm, allocation_find(script.fsm, "j1"))->view.keep_complete = 1;
    script_restore(&script);
    assert_int_equal(fsm_policy(script.fsm)->keep_complete, 2);
    assert_int_equal(fsm_policy(script.fsm)->domain_rule, CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY);
    expect_ok(&script, "after 1000");
    expect_ok(&script, "tick");
    expect_ok(&script, "expire 1-1 1-2 1-3 1-4 1-5 1-6");
    expect_ok(&script, "collected 1-1 1-2 1-3 1-4 1-5 1-6");
    assert_int_equal(script.outcome.current, 2);
    expect_checkpoint(&script, 1, COLLECTED);
    expect_checkpoint(&script, 2, COMPLETE);
    expect_checkpoint(&script, 4, COLLECTED);
    expect_checkpoint(&script, 5, COMPLETE);
    script_close(&script);
}

static void numbers_that_have_no_next_one_are_refused(void **unused)
{
    struct script script;
    struct fsm *fsm;

    (void)unused;
    script_start(&script);
    fsm = script.fsm;
    IMPOSSIBLE(fsm->checkpoint_sequence, (UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1);
    IMPOSSIBLE(fsm->command_count, (UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1);
    IMPOSSIBLE(fsm->preemption_sequence, UINT64_MAX);
    IMPOSSIBLE(fsm->index, UINT64_MAX);
    fsm->event_count = 0;
    IMPOSSIBLE(fsm->next_event_sequence, UINT64_MAX);
    IMPOSSIBLE(fsm->epoch, 0);
    script_restore(&script);
    script_close(&script);
}

/* What one of these says is believed by a later Tick, report or checkpoint. */
static void a_job_whose_parts_contradict_each_other_is_refused(void **unused)
{
    struct allocation *stopped, *ending;
    struct checkpoint *checkpoint;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=n2");
    expect_ok(&script, "register j3 nodes=n3");
    expect_ok(&script, "request j2");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "request j1 after=stop");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "request j3 after=stop");
    expect_ok(&script, "grant 1-3");
    expect_ok(&script, "report n3 shard_verified j3 ckpt=1-3");
    stopped = allocation_edit(script.fsm, allocation_find(script.fsm, "j1"));
    ending = allocation_edit(script.fsm, allocation_find(script.fsm, "j3"));
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_false(stopped->assigned);
    assert_true(fsm_allocation_goes_on(stopped));
    assert_true(ending->view.terminating);
    assert_true(fsm_checkpoint_writes(checkpoint));
    fsm_timer_set(&script.fsm->timers, &stopped->timer, script.fsm->now_ms + 1);
    expect_refused(&script, "a stopped job's timer");
    fsm_timer_set(&script.fsm->timers, &stopped->timer, 0);
    IMPOSSIBLE(ending->plan_state, CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING);
    IMPOSSIBLE(checkpoint->view.timeout_ms, checkpoint->base_timeout_ms + 1);
    script_restore(&script);
    script_close(&script);
}

/* When it completes it would be the last complete one, which the newer one is (I27). */
static void a_checkpoint_that_goes_on_beside_a_newer_one_is_refused(void **unused)
{
    struct allocation *allocation;
    struct checkpoint *older;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "cancel 1-1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    allocation = allocation_edit(script.fsm, allocation_find(script.fsm, "j1"));
    older = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_non_null(older);
    script.fsm->checkpoints_by_state[older->view.state]--;
    older->view.state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED;
    script.fsm->checkpoints_by_state[older->view.state]++;
    older->view.reason = CKPT__V1__REASON__REASON_NONE;
    allocation->view.active_checkpoint_id = older->view.id;
    expect_refused(&script, "an active checkpoint that is older than another one");
    script_close(&script);
}

/* It would be removed with that one (I27). */
static void a_last_complete_one_of_another_job_is_refused(void **unused)
{
    struct allocation *ended;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "register j2 nodes=n2");
    for (int i = 1; i <= 2; i++) {
        expect_ok(&script, "request j%d", i);
        expect_ok(&script, "grant 1-%d", i);
        expect_ok(&script, "report n%d shard_verified j%d ckpt=1-%d", i, i, i);
    }
    expect_ok(&script, "end j2 completed");
    ended = allocation_edit(script.fsm, allocation_find(script.fsm, "j2"));
    IMPOSSIBLE(ended->view.last_complete_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

/* No text names its checkpoint, so nobody could ever say that it was removed. */
static void a_folder_of_a_checkpoint_without_a_name_is_refused(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "policy retention=10000");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "end j1");
    expect_ok(&script, "after 10000");
    expect_ok(&script, "tick");
    expect_ok(&script, "collected failed=1-1");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    assert_int_equal(script.fsm->undeleted_count, 1);
    IMPOSSIBLE(script.fsm->undeleted[0]->view.checkpoint_id, UINT64_C(1099511627766)); /* 0-... */
    script_restore(&script);
    script_close(&script);
}

static void a_record_that_would_stop_the_program_later_is_refused(void **unused)
{
    struct preemption *preemption;
    struct allocation *allocation;
    struct checkpoint *checkpoint;
    struct target *target;
    struct script script;
    struct node *node;
    uint64_t later;

    (void)unused;
    script_start_victim(&script, 60000);
    expect_ok(&script, "queue hpc queued=5 waiting");
    later = script.fsm->now_ms + 1;
    preemption = preemption_edit(script.fsm, preemption_find(script.fsm, 1));
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_non_null(preemption);
    assert_non_null(checkpoint);
    allocation =
        allocation_edit(script.fsm, allocation_at(script.fsm, checkpoint->view.allocation_slot));
    target = target_edit(script.fsm, target_at(script.fsm, checkpoint->view.target_slot));
    node = node_edit(script.fsm, node_at(script.fsm, allocation->view.nodes[0].node_slot));
    IMPOSSIBLE(allocation->view.state_since_ms, later);
    IMPOSSIBLE(checkpoint->view.state_since_ms, later);
    IMPOSSIBLE(checkpoint->view.id, 7);                        /* 0-7 */
    IMPOSSIBLE(checkpoint->view.id, checkpoint_id_make(1, 0)); /* 1-0 */
    IMPOSSIBLE(checkpoint->view.created_at_ms, later);
    IMPOSSIBLE(checkpoint->view.damaged, true); /* it goes on: nobody has restored it yet */
    IMPOSSIBLE(checkpoint->view.dispatched_at_ms, later);
    IMPOSSIBLE(checkpoint->failure_count, checkpoint->view.attempt + 1);
    IMPOSSIBLE(node->view.state_since_ms, later);
    IMPOSSIBLE(target->view.since_ms, later);
    IMPOSSIBLE(preemption->view.asked_at_ms, later);
    IMPOSSIBLE(preemption->view.ended_at_ms, 1);
    IMPOSSIBLE(preemption->view.victims[0].state, CKPT__V1__VICTIM_STATE__VICTIM_STATE_UNSPECIFIED);
    IMPOSSIBLE(script.fsm->queues[0].reported_at_ms, later);
    script_restore(&script);
    script_close(&script);
}

/* Where no attempt has written anything, nothing can have been kept. */
static void a_copy_of_what_was_not_verified_is_refused(void **unused)
{
    struct checkpoint *checkpoint;
    struct script script;
    struct fsm_shard *shard;

    (void)unused;
    script_start_victim(&script, 60000);
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_non_null(checkpoint);
    shard = &checkpoint->shards[0];
    assert_false(shard->verified);
    shard->places[0] = fsm_place_make(FSM_PLACE_NODE, shard->node_slot);
    IMPOSSIBLE(shard->place_count, 1);
    shard->places[0] = 0;
    script_restore(&script);
    script_close(&script);
}

/* One more than the row allows, where its type has room for that. */
static uint64_t beyond(uint64_t highest, size_t type_bytes)
{
    uint64_t most = type_bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * type_bytes) - 1;

    return highest < most ? highest + 1 : 0;
}

#define NO_TEXT(name)
#define REFUSED(record, type, name, highest)                                                       \
    if (type_is_number(#type) && beyond((highest), sizeof(type)) != 0) {                           \
        type kept = (record)->name;                                                                \
        (record)->name = (type)beyond((highest), sizeof(type));                                    \
        expect_refused(&script, #name);                                                            \
        (record)->name = kept;                                                                     \
        rows++;                                                                                    \
    }

/* A bool has no value beyond, and enums are checked by their descriptors. */
static bool type_is_number(const char *type)
{
    return strncmp(type, "uint", 4) == 0;
}

static void a_number_beyond_the_bound_of_its_row_is_refused(void **unused)
{
    struct allocation *allocation;
    struct checkpoint *checkpoint;
    struct script script;
    int rows = 0;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    allocation = allocation_edit(script.fsm, allocation_find(script.fsm, "j1"));
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    assert_non_null(checkpoint);
#define VIEW(type, name, highest)  REFUSED(&allocation->view, type, name, highest)
#define WHOLE(type, name, highest) REFUSED(allocation, type, name, highest)
#define LEARN(type, name, highest) REFUSED(&allocation->view.learned, type, name, highest)
#define SEEN(type, name, highest)  REFUSED(&checkpoint->view, type, name, highest)
#define OWN(type, name, highest)   REFUSED(checkpoint, type, name, highest)
#define SHARD(type, name, highest) REFUSED(&checkpoint->shards[0], type, name, highest)
    FSM_ALLOCATION_SPEC(VIEW, NO_TEXT)
    FSM_ALLOCATION_STATUS(VIEW, NO_TEXT)
    FSM_ALLOCATION_KEPT(VIEW, NO_TEXT)
    FSM_ALLOCATION_INSIDE(WHOLE, NO_TEXT)
    FSM_ALLOCATION_LEARNED(LEARN, NO_TEXT)
    FSM_CHECKPOINT_STATUS(SEEN, NO_TEXT)
    FSM_CHECKPOINT_KEPT(SEEN, NO_TEXT)
    FSM_CHECKPOINT_INSIDE(OWN, NO_TEXT)
    FSM_SHARD(SHARD, NO_TEXT)
    assert_true(rows > 30);
    script_restore(&script); /* and as it is it is taken */
    script_close(&script);
}

/* Each text of the tables has a bound of its own, which a row cannot name. */
static void a_text_beyond_its_bound_is_refused(void **unused)
{
    struct checkpoint *checkpoint;
    struct script script;
    struct node *node;
    char longest[FSM_PLATFORM_BYTES + 1];

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    node = node_edit(script.fsm, node_find(script.fsm, "n1"));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    _Static_assert(FSM_PLATFORM_BYTES == LABEL_MAX_BYTES + 1, "one text is beyond all of them");
#define BEYOND(text)                                                                               \
    fsm_intern_set(script.fsm, &(text), longest);                                                  \
    expect_refused(&script, #text);                                                                \
    fsm_intern_set(script.fsm, &(text), "");
    BEYOND(checkpoint->view.label)
    BEYOND(checkpoint->view.machine)
    BEYOND(checkpoint->view.os)
    BEYOND(node->view.machine)
    BEYOND(node->view.os)
#undef BEYOND
    fsm_intern_set(script.fsm, &checkpoint->view.label, "a b");
    expect_refused(&script, "label");
    fsm_intern_set(script.fsm, &checkpoint->view.label, "");
    script_restore(&script); /* and as it is it is taken */
    script_close(&script);
}

static void expect_marks(struct fsm *fsm)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id_make(1, 1));
    const struct allocation *allocation = allocation_find(fsm, "j1");

    assert_non_null(checkpoint);
    assert_string_equal(checkpoint->label, "step:127");
    assert_string_equal(checkpoint->machine, "aarch64");
    assert_string_equal(checkpoint->os, "rocky 9");
    assert_uint_equal(checkpoint->agreed_step, 127);
    assert_int_equal(checkpoint->barrier, CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_AGREED);
    assert_true(fsm_checkpoint_find(fsm, checkpoint_id_make(1, 2))->damaged);
    assert_true(checkpoint->shards[0].barrier && checkpoint->shards[0].aware);
    assert_uint_equal(checkpoint->shards[0].step, 126);
    assert_uint_equal(checkpoint->shards[0].ranks, FSM_RANKS_PER_NODE_MAX);
    assert_int_equal(allocation->view.restore, CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH);
    assert_uint_equal(allocation->view.restart_id, checkpoint->id);
    assert_uint_equal(allocation->view.scaled_at_ms, 77);
    assert_true(allocation->assignments[0].restored && allocation->assignments[1].joined);
    assert_string_equal(fsm_node_find(fsm, "n1")->machine, "x86_64");
    assert_string_equal(fsm_node_find(fsm, "n1")->os, "debian-12");
}

/* What ranks and restarts know, the texts of the checkpoint among it, is the restored state's own:
 * the message that it was read from is gone, and so is the state that wrote it. */
static void what_ranks_and_restarts_know_comes_back(void **unused)
{
    struct allocation *allocation;
    struct checkpoint *checkpoint;
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "node n1 ready boot=a machine=x86_64 os=debian-12");
    expect_ok(&script, "register j1 nodes=n1,n2 restore=path");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1 label=step:127 ranks=%d",
              FSM_RANKS_PER_NODE_MAX);
    expect_ok(&script, "register j2 nodes=n3");
    expect_ok(&script, "request j2");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n3 shard_verified j2 ckpt=1-2");
    expect_ok(&script, "end j2");
    allocation = allocation_edit(script.fsm, allocation_find(script.fsm, "j1"));
    checkpoint = checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 1)));
    fsm_intern_set(script.fsm, &checkpoint->view.machine, "aarch64");
    fsm_intern_set(script.fsm, &checkpoint->view.os, "rocky 9");
    checkpoint->view.agreed_step = 127;
    checkpoint->view.barrier = CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_AGREED;
    checkpoint_edit(script.fsm, checkpoint_find(script.fsm, checkpoint_id_make(1, 2)))
        ->view.damaged = true;
    checkpoint->shards[0].barrier = checkpoint->shards[0].aware = true;
    checkpoint->shards[0].step = 126;
    allocation->view.restart_id = checkpoint->view.id;
    allocation->view.scaled_at_ms = 77;
    allocation->assignments[0].restored = allocation->assignments[1].joined = true;
    allocation->restored_count = allocation->joined_count = 1;
    expect_marks(script.fsm);
    script_restore(&script);
    expect_marks(script.fsm);
    script_restore(&script);
    expect_marks(script.fsm);
    script_close(&script);
}

/* Nodes leave their slots to others before their turn has come: at once, and when the last job that
 * named one has left. */
static void a_slice_has_the_nodes_of_its_beginning(void **unused)
{
    struct slices slices = {NULL};
    struct script script;

    (void)unused;
    script_open(&script);
    script_run(&script, "init");
    script_run(&script, "policy retention=1000");
    script_run(&script, "register j1 nodes=kept");
    script_run(&script, "end j1");
    script_run(&script, "node gone ready boot=a");
    script_run(&script, "node gone down");
    script_run(&script, "remove_node kept");
    slices_begin(&slices, script.fsm);
    script_run(&script, "remove_node gone");
    script_run(&script, "node next ready boot=a");
    script_run(&script, "after 1000");
    script_run(&script, "tick");
    script_run(&script, "node last ready boot=a");
    assert_null(fsm_allocation_find(script.fsm, "j1"));
    assert_int_equal(fsm_node_slots(script.fsm), 2);
    assert_int_equal(fsm_node_find(script.fsm, "next")->slot, 1);
    assert_int_equal(fsm_node_find(script.fsm, "last")->slot, 0);
    while (!slices_next(&slices, 100))
        continue;
    assert_int_equal(slices.compared, 1);
    script_close(&script);
    slices_close(&slices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_has_the_nodes_of_its_beginning),
        cmocka_unit_test(slices_are_the_state_as_it_was_when_they_began),
        cmocka_unit_test(events_that_are_overwritten_meanwhile_are_in_the_snapshot),
        cmocka_unit_test(requests_that_are_forgotten_meanwhile_are_in_the_snapshot),
        cmocka_unit_test(a_state_that_is_replaced_ends_its_snapshots),
        cmocka_unit_test(checkpoints_that_leave_meanwhile_are_in_the_snapshot),
        cmocka_unit_test(a_slice_is_bounded_whatever_the_state_holds),
        cmocka_unit_test(a_stop_without_its_limit_is_refused),
        cmocka_unit_test(a_request_that_was_answered_in_the_future_is_refused),
        cmocka_unit_test(a_policy_that_no_command_sets_is_refused),
        cmocka_unit_test(what_an_earlier_build_kept_one_of_has_two),
        cmocka_unit_test(numbers_that_have_no_next_one_are_refused),
        cmocka_unit_test(a_checkpoint_that_goes_on_beside_a_newer_one_is_refused),
        cmocka_unit_test(a_last_complete_one_of_another_job_is_refused),
        cmocka_unit_test(a_folder_of_a_checkpoint_without_a_name_is_refused),
        cmocka_unit_test(a_record_that_would_stop_the_program_later_is_refused),
        cmocka_unit_test(a_copy_of_what_was_not_verified_is_refused),
        cmocka_unit_test(a_job_whose_parts_contradict_each_other_is_refused),
        cmocka_unit_test(a_number_beyond_the_bound_of_its_row_is_refused),
        cmocka_unit_test(a_text_beyond_its_bound_is_refused),
        cmocka_unit_test(what_ranks_and_restarts_know_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
