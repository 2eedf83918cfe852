/* The replica over a scripted consensus and the real state machine: batching, outcomes, what
 * happens to commands when leadership comes and goes. */
#include "tests/unit/broker/replica_fixture.h"

static size_t commands_of(const struct proposal *proposal)
{
    Ckpt__Log__V1__Entry *entry =
        ckpt__log__v1__entry__unpack(NULL, proposal->length, proposal->bytes);
    size_t count;

    assert_non_null(entry);
    count = entry->n_commands;
    for (size_t i = 0; i < count; i++)
        assert_true(entry->commands[i]->now_ms >= UINT64_C(1700000000000));
    ckpt__log__v1__entry__free_unpacked(entry, NULL);
    return count;
}

/* ---- tests ---- */

static void a_new_leader_serves_after_its_own_first_entry(void **state)
{
    struct fsm_summary summary;
    Ckpt__Log__V1__Entry *entry;

    (void)state;
    assert_false(replica_serving(replica));
    lead(3);
    assert_uint_equal(fake.count, 0); /* nothing is proposed from inside the callback */
    turn();
    assert_uint_equal(fake.count, 1);
    entry = ckpt__log__v1__entry__unpack(NULL, fake.proposals[0].length, fake.proposals[0].bytes);
    assert_uint_equal(entry->n_commands, 3);
    assert_int_equal(entry->commands[0]->body_case, CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT);
    assert_int_equal(entry->commands[1]->body_case, CKPT__LOG__V1__COMMAND__BODY_LEADER_ELECTED);
    assert_uint_equal(entry->commands[1]->leader_elected->term, 3);
    assert_int_equal(entry->commands[2]->body_case, CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS);
    ckpt__log__v1__entry__free_unpacked(entry, NULL);
    assert_false(replica_serving(replica));
    commit_one();
    assert_true(replica_serving(replica));
    assert_int_equal(watcher.serving, 1);
    fsm_get_summary(replica_fsm(replica), &summary);
    assert_true(summary.initialised);
    /* the next leadership finds the cluster initialised */
    follow(4, 2);
    assert_int_equal(watcher.not_serving, 1);
    lead(5);
    turn();
    assert_uint_equal(commands_of(&fake.proposals[0]), 2);
}

static void a_follower_refuses_and_nothing_is_proposed(void **state)
{
    struct answer answer;

    (void)state;
    propose("r", "nobody", &answer);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.failed, ERR_UNAVAILABLE);
    turn();
    assert_uint_equal(fake.proposed_total, 0);
}

static void commands_between_election_and_serving_wait_and_are_answered(void **state)
{
    struct answer answer;

    (void)state;
    lead(1);
    propose("r", "nobody", &answer);
    turn();
    assert_uint_equal(fake.count, 1); /* the first entry only */
    assert_int_equal(answer.count, 0);
    commit_one();
    turn();
    commit_one();
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.failed, ERR_NONE);
    assert_int_equal(answer.status, FSM_ALLOCATION_NOT_FOUND);
}

static void commands_of_one_turn_share_an_entry(void **state)
{
    struct answer answers[100];

    (void)state;
    serve(1);
    for (int i = 0; i < 100; i++)
        propose_numbered(i, &answers[i]);
    assert_uint_equal(replica_waiting(replica), 100);
    turn();
    assert_uint_equal(fake.count, 1);
    assert_uint_equal(commands_of(&fake.proposals[0]), 100);
    commit_one();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(answers[i].count, 1);
        assert_int_equal(answers[i].status, FSM_ALLOCATION_NOT_FOUND);
    }
    assert_uint_equal(replica_waiting(replica), 0);
}

/* Neither the disks nor the other members wait until the last of many requests is read. */
static void many_commands_of_one_turn_go_before_it_ends(void **state)
{
    struct answer answers[3 * REPLICA_ENTRY_EARLY];
    int count = 0;

    (void)state;
    serve(1);
    while (count < 2 * REPLICA_ENTRY_EARLY + 1) {
        propose_numbered(count, &answers[count]);
        count++;
    }
    assert_uint_equal(fake.count, 2);
    assert_uint_equal(commands_of(&fake.proposals[0]), REPLICA_ENTRY_EARLY);
    assert_uint_equal(commands_of(&fake.proposals[1]), REPLICA_ENTRY_EARLY);
    fake.in_call = true; /* consensus takes nothing inside its own calls */
    while (count < 3 * REPLICA_ENTRY_EARLY) {
        propose_numbered(count, &answers[count]);
        count++;
    }
    assert_uint_equal(fake.count, 2);
    fake.in_call = false;
    turn();
    assert_uint_equal(fake.count, 3);
    assert_uint_equal(commands_of(&fake.proposals[2]), REPLICA_ENTRY_EARLY);
    while (fake.count > 0)
        commit_one();
    for (int i = 0; i < count; i++)
        assert_int_equal(answers[i].count, 1);
}

static void commands_collect_while_the_window_is_full(void **state)
{
    struct answer answers[REPLICA_ENTRIES_IN_FLIGHT + 50];
    struct replica_stats stats;

    (void)state;
    serve(1);
    for (int i = 0; i < REPLICA_ENTRIES_IN_FLIGHT; i++) {
        propose_numbered(i, &answers[i]);
        turn();
    }
    assert_uint_equal(fake.count, REPLICA_ENTRIES_IN_FLIGHT);
    for (int i = REPLICA_ENTRIES_IN_FLIGHT; i < REPLICA_ENTRIES_IN_FLIGHT + 50; i++) {
        propose_numbered(i, &answers[i]);
        turn();
    }
    assert_uint_equal(fake.count, REPLICA_ENTRIES_IN_FLIGHT);
    commit_one();
    turn();
    assert_uint_equal(fake.count, REPLICA_ENTRIES_IN_FLIGHT);
    assert_uint_equal(commands_of(&fake.proposals[REPLICA_ENTRIES_IN_FLIGHT - 1]), 50);
    while (fake.count > 0)
        commit_one();
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        assert_int_equal(answers[i].count, 1);
    replica_get_stats(replica, &stats);
    assert_uint_equal(stats.batch_max, 50);
    assert_uint_equal(stats.commands_total, 3 + REPLICA_ENTRIES_IN_FLIGHT + 50);
}

static void one_command_more_than_may_wait_is_refused_as_full(void **state)
{
    struct answer *answers = calloc(REPLICA_WAITING_MAX + 1, sizeof(*answers));

    (void)state;
    serve(1);
    for (int i = 0; i < REPLICA_WAITING_MAX; i++)
        propose_numbered(i, &answers[i]);
    assert_int_equal(answers[REPLICA_WAITING_MAX - 1].count, 0);
    propose_numbered(REPLICA_WAITING_MAX, &answers[REPLICA_WAITING_MAX]);
    assert_int_equal(answers[REPLICA_WAITING_MAX].failed, ERR_FULL);
    turn();
    while (fake.count > 0) {
        commit_one();
        turn();
    }
    for (int i = 0; i < REPLICA_WAITING_MAX; i++) {
        assert_int_equal(answers[i].count, 1);
        assert_int_equal(answers[i].failed, ERR_NONE);
    }
    free(answers);
}

/* Two kinds of "no": in flight may have happened, queued certainly did not. */
static void losing_leadership_tells_in_flight_from_never_proposed(void **state)
{
    struct answer flying[REPLICA_ENTRIES_IN_FLIGHT];
    struct answer queued;
    struct replica_stats stats;

    (void)state;
    serve(1);
    for (int i = 0; i < REPLICA_ENTRIES_IN_FLIGHT; i++) {
        propose_numbered(i, &flying[i]);
        turn();
    }
    propose_numbered(99, &queued);
    follow(2, 2);
    drop_all();
    for (int i = 0; i < REPLICA_ENTRIES_IN_FLIGHT; i++) {
        assert_int_equal(flying[i].count, 1);
        assert_int_equal(flying[i].failed, ERR_TIMEOUT);
    }
    assert_int_equal(queued.count, 1);
    assert_int_equal(queued.failed, ERR_UNAVAILABLE);
    assert_uint_equal(replica_waiting(replica), 0);
    assert_false(replica_serving(replica));
    replica_get_stats(replica, &stats);
    assert_uint_equal(stats.dropped_total, REPLICA_ENTRIES_IN_FLIGHT);
}

static void a_repeated_request_gets_its_first_outcome(void **state)
{
    struct answer first;
    struct answer second;

    (void)state;
    serve(1);
    propose("same", "nobody", &first);
    turn();
    commit_one();
    propose("same", "nobody", &second);
    turn();
    commit_one();
    assert_int_equal(second.count, 1);
    assert_int_equal(second.status, first.status);
}

static void a_full_log_is_told_and_the_first_entry_is_tried_again(void **state)
{
    struct answer answer;

    (void)state;
    fake.refuse = ERR_FULL;
    lead(1);
    turn();
    assert_false(replica_serving(replica));
    assert_true(the_timer->started && the_timer->delay_us > 0);
    fake.refuse = ERR_NONE;
    turn();
    commit_one();
    assert_true(replica_serving(replica));
    fake.refuse = ERR_FULL;
    propose("r", "nobody", &answer);
    turn();
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.failed, ERR_FULL);
}

static void entries_of_other_members_are_applied_without_a_waiter(void **state)
{
    struct replica_hash before[4];
    struct replica_hash after[4];
    struct answer answer;
    struct proposal copy;

    (void)state;
    serve(1);
    assert_uint_equal(replica_hashes(replica, before, 4), 1);
    propose("r", "nobody", &answer);
    turn();
    copy = take_oldest();
    fake.hooks.apply(fake.hooks.context, ++fake.index, 1, copy.bytes, copy.length, NULL);
    assert_int_equal(answer.count, 0);
    assert_uint_equal(replica_hashes(replica, after, 4), 2);
    assert_uint_equal(after[0].hash, before[0].hash);
    assert_uint_equal(after[1].index, fake.index);
    assert_true(after[1].hash != after[0].hash);
    assert_int_equal(watcher.applied, 2);
    fake.hooks.dropped(fake.hooks.context, copy.tag);
    assert_int_equal(answer.failed, ERR_TIMEOUT);
    free(copy.bytes);
}

static void reads_wait_for_serving_and_fail_with_leadership(void **state)
{
    struct answer answer = {0};

    (void)state;
    replica_read(replica, take_answer, &answer);
    assert_int_equal(answer.failed, ERR_UNAVAILABLE);
    lead(1);
    memset(&answer, 0, sizeof(answer));
    replica_read(replica, take_answer, &answer);
    turn();
    assert_null(fake.read_done);
    follow(2, 2);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.failed, ERR_UNAVAILABLE);
    drop_all();
    serve(3);
    memset(&answer, 0, sizeof(answer));
    replica_read(replica, take_answer, &answer);
    turn();
    assert_non_null(fake.read_done);
    assert_int_equal(answer.count, 0);
    fake.read_done(fake.read_data, 0, NULL);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.failed, ERR_NONE);
}

static void closing_answers_everybody(void **state)
{
    struct answer flying;
    struct answer queued;

    serve(1);
    propose_numbered(1, &flying);
    turn();
    propose_numbered(2, &queued);
    assert_int_equal(teardown(state), 0);
    assert_int_equal(flying.failed, ERR_TIMEOUT);
    assert_int_equal(queued.failed, ERR_UNAVAILABLE);
    assert_int_equal(watcher.not_serving, 1);
}

/* ---- snapshots ---- */

struct memory {
    uint8_t bytes[1 << 16];
    size_t used, read;
};

static int memory_write(void *context, const void *bytes, size_t length, struct err *err)
{
    struct memory *memory = context;

    (void)err;
    assert_true(memory->used + length <= sizeof(memory->bytes));
    memcpy(memory->bytes + memory->used, bytes, length);
    memory->used += length;
    return 0;
}

static int memory_read(void *context, void *bytes, size_t length, struct err *err)
{
    struct memory *memory = context;

    if (memory->read + length > memory->used)
        return err_set(err, ERR_CORRUPT, "the snapshot is cut");
    memcpy(bytes, memory->bytes + memory->read, length);
    memory->read += length;
    return 0;
}

static void change_the_state(void)
{
    static struct answer answer;

    propose("r", "nobody", &answer);
    turn();
    commit_one();
}

/* Written in pieces; the state changes between the first and the second. */
static void write_snapshot(struct memory *memory)
{
    const struct consensus_writer writer = {memory, memory_write};
    void *snapshot = fake.hooks.snapshot_begin(fake.hooks.context);
    bool done = false;
    struct err err;

    for (int piece = 0; !done; piece++) {
        if (piece == 1)
            change_the_state();
        assert_int_equal(
            fake.hooks.snapshot_next(fake.hooks.context, snapshot, 1, &writer, &done, &err), 0);
    }
    fake.hooks.snapshot_end(fake.hooks.context, snapshot);
}

static int adopt_snapshot(struct memory *memory, struct err *err)
{
    const struct consensus_reader reader = {memory, memory_read};
    void *loaded;

    memory->read = 0;
    if (fake.hooks.snapshot_load(fake.hooks.context, &reader, &loaded, err) != 0)
        return -1;
    fake.hooks.snapshot_discard(fake.hooks.context,
                                fake.hooks.snapshot_adopt(fake.hooks.context, loaded));
    return 0;
}

static uint64_t state_hash(void)
{
    struct fsm_summary summary;

    fsm_get_summary(replica_fsm(replica), &summary);
    return summary.state_hash;
}

static void a_snapshot_is_of_its_instant_and_a_cut_one_changes_nothing(void **state)
{
    static struct memory memory;
    uint64_t at_snapshot, later;
    size_t whole;
    struct err err = {0};

    (void)state;
    memset(&memory, 0, sizeof(memory));
    serve(1);
    at_snapshot = state_hash();
    write_snapshot(&memory);
    later = state_hash();
    assert_true(later != at_snapshot);

    whole = memory.used;
    memory.used /= 2;
    assert_int_equal(adopt_snapshot(&memory, &err), -1);
    assert_true(err.text[0] != '\0');
    assert_uint_equal(state_hash(), later);

    memory.used = whole;
    assert_int_equal(adopt_snapshot(&memory, &err), 0);
    assert_uint_equal(state_hash(), at_snapshot);
}

/* An entry of another leader, which says what its state was. */
static void apply_checked(uint64_t checked_index, uint64_t checked_hash)
{
    uint8_t bytes[FSM_ENTRY_CHECK_BYTES];

    fsm_entry_check_put(bytes, checked_index, checked_hash);
    fake.hooks.apply(fake.hooks.context, ++fake.index, fake.term, bytes, sizeof(bytes), NULL);
}

static struct replica_hash newest_hash(void)
{
    struct replica_hash newest;

    assert_uint_equal(replica_hashes(replica, &newest, 1), 1);
    return newest;
}

static void propose_level(uint32_t level, const char *request_id, struct answer *answer)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy raised = CKPT__V1__POLICY__INIT;

    raised.feature_level = level;
    set.policy = &raised;
    command.request_id = (char *)(uintptr_t)request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    memset(answer, 0, sizeof(*answer));
    replica_propose(replica, &command, take_answer, answer);
    turn();
    if (fake.count > 0)
        commit_one();
}

/* U-001: the level waits for the last member, and says which one that is. */
static void the_level_rises_when_all_members_know_it(void **state)
{
    struct answer answer;

    (void)state;
    fake.peer_count = 2;
    fake_level = 1;
    serve(1);
    assert_int_equal(fsm_level(replica_fsm(replica)), 1); /* the lowest one of who founded it */
    propose_level(2, "r1", &answer);
    assert_int_equal(answer.status, FSM_FEATURE_LEVEL);
    assert_non_null(strstr(answer.text, "(behind: n2, 0.1.1; n3, 0.1.1): it needs feature level 2, "
                                        "the cluster has 1"));
    propose_level(FSM_LEVEL_NEWEST + 1, "r2", &answer);
    assert_int_equal(answer.status, FSM_INVALID_ARGUMENT);
    fake_level = FSM_LEVEL_NEWEST;
    propose_level(FSM_LEVEL_NEWEST, "r3", &answer);
    assert_int_equal(answer.status, FSM_OK);
    assert_int_equal(fsm_level(replica_fsm(replica)), FSM_LEVEL_NEWEST);
    fake_level = 1; /* it only rises */
    propose_level(1, "r4", &answer);
    assert_int_equal(answer.status, FSM_INVALID_ARGUMENT);
}

/* U-001: what a new leader has not applied yet may have raised the level. It says that it cannot
 * answer, which is asked again, and refuses nothing. */
static void a_leader_that_is_behind_refuses_nothing_for_the_level(void **state)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeOff off = CKPT__LOG__V1__NODE_OFF__INIT;
    struct answer answer = {0};
    char id[] = "r1", node[] = "n1";

    (void)state;
    lead(1);
    assert_int_equal(fsm_level(replica_fsm(replica)), 1);
    assert_false(replica_serving(replica));
    off.node_id = node;
    command.request_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_OFF;
    command.node_off = &off;
    replica_propose(replica, &command, take_answer, &answer);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.failed, ERR_UNAVAILABLE);
}

/* A member with an older build than the cluster's stops, and its data is not called damaged. */
static void an_entry_of_a_newer_build_stops_the_member(void **state)
{
    Ckpt__Log__V1__Entry entry = CKPT__LOG__V1__ENTRY__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT, *commands[] = {&command};
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy later = CKPT__V1__POLICY__INIT;
    uint8_t bytes[64];

    (void)state;
    serve(1);
    fake.peer_count = 1;
    fake_level = FSM_LEVEL_NEWEST + 1;
    later.feature_level = FSM_LEVEL_NEWEST + 1;
    set.policy = &later;
    command.request_id = (char *)(uintptr_t) "r";
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    entry.n_commands = 1;
    entry.commands = commands;
    follow(2, 2);
    fatal_awaited = true;
    fake.hooks.apply(fake.hooks.context, ++fake.index, fake.term, bytes,
                     ckpt__log__v1__entry__pack(&entry, bytes), NULL);
    assert_int_equal(fatal_seen.code, ERR_NEWER);
    assert_non_null(strstr(fatal_seen.text, "start this member with the build of n2 (0.1."));
}

/* I10 */
static void a_member_with_another_state_than_the_leader_stops(void **state)
{
    struct replica_hash first, second;

    (void)state;
    serve(1);
    first = newest_hash();
    follow(2, 3);
    apply_checked(first.index, first.hash);
    second = newest_hash();
    assert_true(second.index > first.index);
    apply_checked(first.index, first.hash);
    apply_checked(second.index, second.hash);
    apply_checked(second.index + 100, 1); /* not here yet, or not any more: nothing to compare */
    apply_checked(0, 1);
    assert_int_equal(fatal_seen.code, ERR_NONE);
    fatal_awaited = true;
    apply_checked(second.index, second.hash ^ 1);
    assert_int_equal(fatal_seen.code, ERR_CORRUPT);
    assert_true(strstr(fatal_seen.text, "on the leader of term 2 (entry 7)") != NULL);
    assert_true(strstr(fatal_seen.text, "replace it") != NULL);
}

/* I10: what it compares is what each entry of its own carries. */
static void a_leader_says_with_each_entry_what_its_state_was(void **state)
{
    struct answer answer;
    struct replica_hash newest;
    uint64_t index, hash;

    (void)state;
    serve(1);
    newest = newest_hash();
    propose("r", "nobody", &answer);
    turn();
    assert_true(fsm_entry_check(fake.proposals[0].bytes, fake.proposals[0].length, &index, &hash));
    assert_uint_equal(index, newest.index);
    assert_uint_equal(hash, newest.hash);
    commit_one();
    assert_int_equal(answer.count, 1); /* its command is taken for one */
}

/* I10: a state that came as a snapshot is not compared with what was here before it. */
static void an_adopted_snapshot_begins_the_hashes_anew(void **state)
{
    static struct memory memory;
    struct replica_hash before;
    struct err err = {0};

    (void)state;
    memset(&memory, 0, sizeof(memory));
    serve(1);
    before = newest_hash();
    change_the_state();
    write_snapshot(&memory);
    assert_int_equal(adopt_snapshot(&memory, &err), 0);
    assert_true(newest_hash().index > before.index);
    apply_checked(before.index, before.hash ^ 1);
    assert_int_equal(fatal_seen.code, ERR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_leader_serves_after_its_own_first_entry, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_follower_refuses_and_nothing_is_proposed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(commands_between_election_and_serving_wait_and_are_answered,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(commands_of_one_turn_share_an_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(many_commands_of_one_turn_go_before_it_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(commands_collect_while_the_window_is_full, setup, teardown),
        cmocka_unit_test_setup_teardown(one_command_more_than_may_wait_is_refused_as_full, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(losing_leadership_tells_in_flight_from_never_proposed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_repeated_request_gets_its_first_outcome, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_log_is_told_and_the_first_entry_is_tried_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(entries_of_other_members_are_applied_without_a_waiter,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(reads_wait_for_serving_and_fail_with_leadership, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_level_rises_when_all_members_know_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_leader_that_is_behind_refuses_nothing_for_the_level,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(an_entry_of_a_newer_build_stops_the_member, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_member_with_another_state_than_the_leader_stops, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_leader_says_with_each_entry_what_its_state_was, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_adopted_snapshot_begins_the_hashes_anew, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(closing_answers_everybody, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_is_of_its_instant_and_a_cut_one_changes_nothing,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
