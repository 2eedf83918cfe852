/* Feature levels: what a state of a lower level never takes, holds or writes. */
#include "tests/unit/fsm/expect.h"

#include "tests/unit/fsm/snapshot_level.h"

static uint32_t level_of(const ProtobufCMessage *message, const char *field)
{
    const char *name;
    uint32_t level = fsm_message_level(message, &name);

    assert_string_equal(name, field);
    return level;
}

static void the_level_of_a_message_is_that_of_its_newest_field(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    (void)unused;
    assert_int_equal(level_of(&policy.base, ""), 1);
    policy.min_interval_ms = 5;
    assert_int_equal(level_of(&policy.base, ""), 1);
    policy.feature_level = 2;
    assert_int_equal(level_of(&policy.base, "feature_level"), 2);
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(level_of(&command.base, "feature_level"), 2); /* at any depth */
    policy.feature_level = 0;                                      /* and not in the bytes */
    assert_int_equal(level_of(&command.base, ""), 1);
}

/* Of the policy's fields that came later, by their numbers. */
static uint64_t bits_above_level_1(void)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;
    uint64_t bits = 0;

    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (descriptor->fields[i].id > 54 && descriptor->fields[i].id < 60)
            bits |= UINT64_C(1) << descriptor->fields[i].id;
    return bits;
}

/* U-001, V-013: members of an older build meet nothing that they do not know. */
static void a_state_of_level_1_writes_nothing_of_a_higher_one(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0};
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    expect_ok(&script, "policy min_interval=1 grace=5000 zeros=262144");
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    assert_int_equal(fsm_level(script.fsm), 1);
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    assert_of_level_1(&bytes);
    assert_int_equal(fsm_policy(script.fsm)->zeros & bits_above_level_1(), 0);
    free(bytes.bytes);
    script_close(&script);
}

static void the_level_rises_and_never_falls(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    assert_int_equal(fsm_level(script.fsm), 1);
    expect_ok(&script, "policy level=2");
    assert_int_equal(fsm_level(script.fsm), 2);
    expect_ok(&script, "policy grace=7000"); /* as it is */
    assert_int_equal(fsm_level(script.fsm), 2);
    expect_status(&script, INVALID_ARGUMENT, "policy level=1");
    assert_int_equal(fsm_level(script.fsm), 2);
    script_close(&script);
}

static enum fsm_status proposed(const struct fsm *fsm, Ckpt__V1__Policy *policy,
                                struct fsm_outcome *ret_outcome)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = {PROTOBUF_C_MESSAGE_INIT(&ckpt__log__v1__set_policy__descriptor),
                                    policy};

    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    *ret_outcome = (struct fsm_outcome){.status = FSM_OK};
    return fsm_validate_level(fsm, &command, ret_outcome);
}

static void a_proposal_waits_for_its_level(void **unused)
{
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct fsm_outcome outcome;
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    policy.grace_ms = 7000;
    assert_int_equal(proposed(script.fsm, &policy, &outcome), FSM_OK);
    policy.zeros = bits_above_level_1(); /* a zero is a value too */
    assert_int_equal(proposed(script.fsm, &policy, &outcome), FSM_FEATURE_LEVEL);
    assert_int_equal(outcome.current, 2);
    assert_int_equal(outcome.limit, 1);
    policy.feature_level = 2; /* the command that raises the level may use it */
    assert_int_equal(proposed(script.fsm, &policy, &outcome), FSM_OK);
    policy.feature_level = FSM_LEVEL_NEWEST + 1;
    assert_int_equal(proposed(script.fsm, &policy, &outcome), FSM_INVALID_ARGUMENT);
    assert_int_equal(outcome.limit, FSM_LEVEL_NEWEST);
    script_close(&script);
}

static enum fsm_status proposed_profile(const struct fsm *fsm, const char *profile,
                                        struct fsm_outcome *ret_outcome)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RegisterAllocationRequest message = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;

    spec.profile = (char *)(uintptr_t)profile;
    message.spec = &spec;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION;
    command.register_allocation = &message;
    *ret_outcome = (struct fsm_outcome){.status = FSM_OK};
    return fsm_validate_level(fsm, &command, ret_outcome);
}

/* S1-034, V-013: a way of asking that came later is a text, and waits as well: an older member
 * would refuse it in apply. */
static void a_way_of_asking_waits_for_its_level(void **unused)
{
    struct fsm_outcome outcome;
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    assert_int_equal(proposed_profile(script.fsm, "", &outcome), FSM_OK);
    assert_int_equal(proposed_profile(script.fsm, "grpc", &outcome), FSM_OK);
    assert_int_equal(proposed_profile(script.fsm, "shm", &outcome), FSM_FEATURE_LEVEL);
    assert_string_equal(outcome.subject, "profile");
    assert_int_equal(outcome.current, 2);
    assert_int_equal(outcome.limit, 1);
    expect_ok(&script, "policy level=2");
    assert_int_equal(proposed_profile(script.fsm, "shm", &outcome), FSM_OK);
    script_close(&script);
}

/* A field with the number 200 behind what the command has: as a later build would write it. */
static size_t with_unknown_field(uint8_t *bytes)
{
    Ckpt__Log__V1__Entry entry = CKPT__LOG__V1__ENTRY__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT, *commands[] = {&command};
    Ckpt__Log__V1__Tick tick = CKPT__LOG__V1__TICK__INIT;
    static const uint8_t later[] = {0xc0, 0x0c, 0x05};
    size_t length;

    command.now_ms = 1;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &tick;
    entry.n_commands = 1;
    entry.commands = commands;
    length = ckpt__log__v1__entry__pack(&entry, bytes);
    memcpy(bytes + length, later, sizeof(later));
    bytes[1] = (uint8_t)(bytes[1] + sizeof(later)); /* the length of the command */
    return length + sizeof(later);
}

/* The member stops there, and does not call its data damaged. */
static void what_a_newer_build_wrote_is_told_from_damage(void **unused)
{
    struct script script;
    uint8_t bytes[64];
    size_t length = with_unknown_field(bytes);
    struct fsm_entry entry = {.bytes = bytes, .length = length};

    (void)unused;
    script_start(&script);
    assert_int_equal(fsm_newer_index(script.fsm), 0);
    expect_status(&script, ALLOCATION_NOT_FOUND, "request nobody");
    assert_int_equal(fsm_newer_index(script.fsm), 0);
    entry.index = script.index + 1;
    entry.term = 1;
    fsm_apply_entry(script.fsm, &entry, NULL, NULL);
    assert_int_equal(fsm_newer_index(script.fsm), entry.index);
    script_close(&script);
    script_open(&script);
    expect_ok(&script, "init level=%d", FSM_LEVEL_NEWEST + 1);
    assert_int_not_equal(fsm_newer_index(script.fsm), 0);
    script_close(&script);
}

/* A snapshot whose header has the field 200 as well. */
static void a_snapshot_of_a_newer_build_is_told_from_damage(void **unused)
{
    struct script_bytes bytes = {NULL, 0, 0, 0}, later = {NULL, 0, 0, 0};
    static const uint8_t field[] = {0xc0, 0x0c, 0x05};
    struct script script;
    char text[160] = "";
    uint8_t prefix[4];
    bool newer = false;
    size_t length;

    (void)unused;
    script_start(&script);
    assert_int_equal(fsm_snapshot_write(script.fsm, script_write, &bytes), 0);
    length = ((size_t)bytes.bytes[0] | (size_t)bytes.bytes[1] << 8) + sizeof(field);
    memcpy(prefix, (uint8_t[]){(uint8_t)length, (uint8_t)(length >> 8), 0, 0}, 4);
    script_write(&later, prefix, 4);
    script_write(&later, bytes.bytes + 4, length - sizeof(field));
    script_write(&later, field, sizeof(field));
    script_write(&later, bytes.bytes + 4 + length - sizeof(field),
                 bytes.length - (4 + length - sizeof(field)));
    assert_null(fsm_snapshot_load(script_read, &later, text, sizeof(text), &newer));
    assert_true(newer);
    bytes.length -= 9; /* and damage from a newer build */
    assert_null(fsm_snapshot_load(script_read, &bytes, text, sizeof(text), &newer));
    assert_false(newer);
    free(bytes.bytes);
    free(later.bytes);
    script_close(&script);
}

/* A scheduler ends the job, and one of its ranks says only then that it had finished: the node has
 * no order about it any more. Members ended when they derived its orders at level 2. */
static void what_ended_late_is_not_ordered_to_end_after_the_raise(void **unused)
{
    struct script script;
    struct fsm_order order;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    expect_ok(&script, "node n1 ready boot=b");
    expect_ok(&script, "node n2 ready boot=b");
    expect_ok(&script, "register j1 nodes=n1,n2 requeue=always");
    expect_ok(&script, "end j1 failed node_failure");
    expect_ok(&script, "report n1 application_exited j1");
    expect_ok(&script, "policy level=2");
    assert_int_equal(orders_of(&script, "n1", &order), 0);
    assert_int_equal(orders_of(&script, "n2", &order), 1);
    script_close(&script);
}

/* A reclaim let the nodes of a job that did not answer go while its checkpoint was written. When
 * that completes the job goes on, as it is not stopped by it. */
static void what_is_written_of_leaving_nodes_ends_with_the_raise(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "node n%d ready boot=b", i);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 gpus=4 min=1 borrowed");
    expect_ok(&script, "after 900000");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1 timeout=60000");
    expect_ok(&script, "after 60000");
    expect_ok(&script, "tick");
    expect_ok(&script, "update j1 nodes=n1,n2 gpus=4 borrowed");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "preempt reason=reclaim useful=n3 nodes=j1");
    expect_checkpoint(&script, 2, DISPATCHED);
    expect_ok(&script, "policy level=2");
    expect_checkpoint(&script, 2, CANCELLED);
    expect_ok(&script, "report n3 terminated j1");
    expect_job(&script, "j1", RUNNING);
    assert_int_equal(job_of(&script, "j1")->node_count, 2);
    script_close(&script);
}

/* The record that named it last is gone: level 1 keeps the target, and could not read it again. */
static void nothing_names_the_target(bool passive)
{
    struct script script;

    for (int level = 1; level <= 2; level++) {
        script_open(&script);
        expect_ok(&script, "init level=%d", level);
        expect_ok(&script, "policy min_interval=1 backoff=1000 retention=1000");
        expect_ok(&script, "put third domain=d0 write=1000000000");
        expect_ok(&script, "register j1 nodes=n1 target=third");
        expect_ok(&script, "request j1");
        expect_ok(&script, "cancel 1-1");
        expect_ok(&script, "update j1 target=other");
        expect_ok(&script, "remove_target third");
        expect_ok(&script, "end j1");
        expect_ok(&script, "after 200000");
        expect_ok(&script, "tick");
        script_restore(&script);
        assert_int_equal(fsm_target_name(script.fsm, 2)[0] == '\0', level == 2);
        if (level == 1 && passive)
            fsm_begin_passive(script.fsm);
        else if (level == 1)
            expect_ok(&script, "policy level=2");
        assert_string_equal(fsm_target_name(script.fsm, 2), "");
        script_restore(&script);
        script_close(&script);
    }
}

static void a_target_that_nothing_names_goes_with_the_raise(void **unused)
{
    (void)unused;
    nothing_names_the_target(false);
    nothing_names_the_target(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_of_a_message_is_that_of_its_newest_field),
        cmocka_unit_test(a_state_of_level_1_writes_nothing_of_a_higher_one),
        cmocka_unit_test(the_level_rises_and_never_falls),
        cmocka_unit_test(a_proposal_waits_for_its_level),
        cmocka_unit_test(a_way_of_asking_waits_for_its_level),
        cmocka_unit_test(what_a_newer_build_wrote_is_told_from_damage),
        cmocka_unit_test(a_snapshot_of_a_newer_build_is_told_from_damage),
        cmocka_unit_test(what_ended_late_is_not_ordered_to_end_after_the_raise),
        cmocka_unit_test(what_is_written_of_leaving_nodes_ends_with_the_raise),
        cmocka_unit_test(a_target_that_nothing_names_goes_with_the_raise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
