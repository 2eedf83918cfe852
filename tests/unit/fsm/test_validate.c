/* What is refused before it is proposed. */
#include "tests/unit/fsm/expect.h"

static enum fsm_status validate(Ckpt__Log__V1__Command *command)
{
    struct fsm_outcome outcome;

    return fsm_validate_command(command, &outcome);
}

/* Appends field 1000 = 1 to the packed message and unpacks it again. */
static Ckpt__Log__V1__Command *with_unknown_field(size_t depth)
{
    /* command { request_id "r", register_allocation { request_id "r", spec { allocation_id "j",
     * unknown } } } */
    static const uint8_t unknown[] = {0xc0, 0x3e, 0x01};
    uint8_t spec[16] = {0x0a, 1, 'j'};
    uint8_t request[32] = {0x0a, 1, 'r', 0x12, 3};
    uint8_t command[64] = {0x12, 1, 'r', 0x62};
    size_t spec_length = 3;
    size_t request_length = 5;
    size_t command_length = 5;

    if (depth == 2) {
        memcpy(spec + spec_length, unknown, 3);
        spec_length += 3;
    }
    request[4] = (uint8_t)spec_length;
    memcpy(request + request_length, spec, spec_length);
    request_length += spec_length;
    if (depth == 1) {
        memcpy(request + request_length, unknown, 3);
        request_length += 3;
    }
    command[4] = (uint8_t)request_length;
    memcpy(command + command_length, request, request_length);
    command_length += request_length;
    if (depth == 0) {
        memcpy(command + command_length, unknown, 3);
        command_length += 3;
    }
    return ckpt__log__v1__command__unpack(NULL, command_length, command);
}

static void an_unknown_field_at_any_depth_is_refused(void **unused)
{
    (void)unused;
    for (size_t depth = 0; depth < 3; depth++) {
        Ckpt__Log__V1__Command *command = with_unknown_field(depth);

        assert_non_null(command);
        assert_int_equal(validate(command), FSM_UNKNOWN_FIELD);
        ckpt__log__v1__command__free_unpacked(command, NULL);
    }
}

/* The walk through a short command begins at its body: nothing beside it may need one, but the
 * caller, who has a walk of its own. */
static void a_command_holds_plain_fields_beside_its_body(void **unused)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__log__v1__command__descriptor;

    (void)unused;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            assert_int_equal(field->type, PROTOBUF_C_TYPE_MESSAGE);
            assert_int_equal(field->offset, offsetof(Ckpt__Log__V1__Command, register_allocation));
            continue;
        }
        if (strcmp(field->name, "caller") == 0)
            continue;
        assert_int_not_equal(field->type, PROTOBUF_C_TYPE_MESSAGE);
        assert_int_not_equal(field->type, PROTOBUF_C_TYPE_ENUM);
    }
}

static void an_unknown_field_of_the_caller_is_refused(void **unused)
{
    Ckpt__Log__V1__Command *command = with_unknown_field(3); /* nowhere in it */
    Ckpt__Log__V1__Caller caller = CKPT__LOG__V1__CALLER__INIT;
    ProtobufCMessageUnknownField unknown = {.tag = 999, .wire_type = 0};
    uint8_t value[] = {1};

    (void)unused;
    unknown.len = sizeof(value);
    unknown.data = value;
    caller.base.n_unknown_fields = 1;
    caller.base.unknown_fields = &unknown;
    assert_non_null(command);
    assert_int_not_equal(validate(command), FSM_UNKNOWN_FIELD);
    command->caller = &caller;
    assert_int_equal(validate(command), FSM_UNKNOWN_FIELD);
    command->caller = NULL;
    ckpt__log__v1__command__free_unpacked(command, NULL);
}

/* A text at the limit makes a command longer than it, and is measured. */
static void an_over_long_text_is_refused_at_its_first_byte(void **unused)
{
    (void)unused;
    for (size_t length = FSM_PREFIX_MAX_BYTES - 1; length <= FSM_PREFIX_MAX_BYTES + 1; length++) {
        Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
        Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
        char text[FSM_PREFIX_MAX_BYTES + 2];

        memset(text, 'a', length);
        text[length] = '\0';
        end.allocation_id = text;
        command.request_id = (char *)(uintptr_t) "r";
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
        command.end_allocation = &end;
        assert_int_equal(validate(&command),
                         length > FSM_PREFIX_MAX_BYTES ? FSM_TOO_LARGE : FSM_INVALID_ID);
        command.request_id = text; /* beside the body */
        end.allocation_id = (char *)(uintptr_t) "a";
        assert_int_equal(validate(&command),
                         length > FSM_PREFIX_MAX_BYTES ? FSM_TOO_LARGE : FSM_INVALID_ID);
    }
}

/* what an older program wrote lacks the newer fields, and reads as before them; what a newer
 * one says is skipped, and the rest understood. Only in commands it is refused: two members must
 * not apply different things. */
static void older_and_newer_messages_are_read(void **unused)
{
    static const uint8_t older[] = {0x0a, 1, 'j', 0x30, 4}; /* allocation_id, preemption_class */
    static const uint8_t newer[] = {0x0a, 1, 'j', 0xc0, 0x3e, 0x01, 0x30, 4, 0xb8, 0x01, 99};
    Ckpt__V1__AllocationSpec *spec = ckpt__v1__allocation_spec__unpack(NULL, sizeof(older), older);

    (void)unused;
    assert_non_null(spec);
    assert_string_equal(spec->allocation_id, "j");
    assert_int_equal(spec->preemption_class, 4);
    assert_int_equal(spec->vcluster_kind, CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_UNSPECIFIED);
    ckpt__v1__allocation_spec__free_unpacked(spec, NULL);
    spec = ckpt__v1__allocation_spec__unpack(NULL, sizeof(newer), newer);
    assert_non_null(spec);
    assert_int_equal(spec->preemption_class, 4); /* behind the field that is not known */
    assert_int_equal(spec->base.n_unknown_fields, 1);
    assert_int_equal(spec->vcluster_kind,
                     99); /* a value that is not known; registering it is refused */
    ckpt__v1__allocation_spec__free_unpacked(spec, NULL);
}

static void a_command_without_a_body_is_refused(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;

    (void)unused;
    assert_int_equal(validate(&command), FSM_INVALID_ARGUMENT);
    command.request_id = script_text("r");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set; /* without a policy */
    assert_int_equal(validate(&command), FSM_INVALID_ARGUMENT);
}

/* A request that says WALLTIME would take the job's last safe slot away and pass all others;
 * PREEMPT compares no classes. */
static void some_purposes_are_not_asked_for(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;

    (void)unused;
    command.request_id = script_text("r");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    request.allocation_id = script_text("j");
    for (unsigned purpose = 0; purpose <= CKPT__V1__PURPOSE__PURPOSE_DRAIN; purpose++) {
        request.purpose = (Ckpt__V1__Purpose)purpose;
        assert_int_equal(validate(&command), purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT ||
                                                     purpose == CKPT__V1__PURPOSE__PURPOSE_WALLTIME
                                                 ? FSM_PURPOSE_RESERVED
                                                 : FSM_OK);
    }
}

static void a_time_out_of_range_is_refused(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Tick tick = CKPT__LOG__V1__TICK__INIT;

    (void)unused;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &tick;
    command.now_ms = FSM_TIME_MAX_MS;
    assert_int_equal(validate(&command), FSM_OK);
    command.now_ms++;
    assert_int_equal(validate(&command), FSM_INVALID_ARGUMENT);
}

static void too_many_items_are_refused_with_the_limit(void **unused)
{
    static Ckpt__Log__V1__Grant grants[FSM_DECISIONS_PER_COMMAND_MAX + 1];
    static Ckpt__Log__V1__Grant *pointers[FSM_DECISIONS_PER_COMMAND_MAX + 1];
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    struct fsm_outcome outcome;

    (void)unused;
    for (size_t i = 0; i <= FSM_DECISIONS_PER_COMMAND_MAX; i++) {
        ckpt__log__v1__grant__init(&grants[i]);
        grants[i].checkpoint_id = i + 1;
        grants[i].bytes_per_s = 1;
        pointers[i] = &grants[i];
    }
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &batch;
    batch.grants = pointers;
    batch.n_grants = FSM_DECISIONS_PER_COMMAND_MAX;
    assert_int_equal(validate(&command), FSM_OK);
    batch.n_grants++;
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_TOO_LARGE);
    assert_int_equal(outcome.current, FSM_DECISIONS_PER_COMMAND_MAX + 1);
    assert_int_equal(outcome.limit, FSM_DECISIONS_PER_COMMAND_MAX);
}

static void a_job_that_waits_twice_is_refused(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__ReportQueueRequest report = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob jobs[3] = {CKPT__V1__WAITING_JOB__INIT, CKPT__V1__WAITING_JOB__INIT,
                                    CKPT__V1__WAITING_JOB__INIT};
    Ckpt__V1__WaitingJob *pointers[] = {&jobs[0], &jobs[1], &jobs[2]};

    (void)unused;
    command.request_id = script_text("r");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REPORT_QUEUE;
    command.report_queue = &report;
    report.request_id = command.request_id;
    report.vcluster = script_text("hpc");
    report.n_waiting = 3;
    report.waiting = pointers;
    assert_int_equal(validate(&command), FSM_OK); /* without names: as many as are listed */
    jobs[0].job_id = jobs[2].job_id = script_text("big");
    jobs[1].job_id = script_text("other");
    assert_int_equal(validate(&command), FSM_INVALID_ARGUMENT);
    jobs[2].job_id = script_text("small");
    assert_int_equal(validate(&command), FSM_OK);
}

/* What an agent tells of its machine is shown to people and compared, so it has a bound. */
static void a_platform_is_a_short_printable_text(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;
    char longest[FSM_PLATFORM_BYTES + 1];
    struct fsm_outcome outcome;

    (void)unused;
    memset(longest, 'x', sizeof(longest));
    longest[FSM_PLATFORM_BYTES - 1] = '\0';
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    seen.node_id = script_text("n1");
    seen.state = CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY;
    seen.machine = longest;
    seen.os = script_text("debian 12");
    assert_int_equal(validate(&command), FSM_OK);
    longest[FSM_PLATFORM_BYTES - 1] = 'x';
    longest[FSM_PLATFORM_BYTES] = '\0';
    outcome = (struct fsm_outcome){.status = FSM_OK};
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_INVALID_ARGUMENT);
    assert_string_equal(outcome.subject, "machine");
    assert_uint_equal(outcome.current, FSM_PLATFORM_BYTES);
    assert_uint_equal(outcome.limit, FSM_PLATFORM_BYTES - 1);
    seen.machine = script_text("x86_64");
    seen.os = script_text("debian\n12");
    assert_int_equal(fsm_validate_command(&command, &outcome), FSM_INVALID_ARGUMENT);
}

static void malformed_entries_change_nothing(void **unused)
{
    static const uint8_t garbage[] = {0x0a, 0x7f, 1, 2};
    struct script script;
    struct fsm_summary before;
    struct fsm_summary after;

    (void)unused;
    script_start(&script);
    before = summary_of(&script);
    fsm_apply_entry(script.fsm, &(struct fsm_entry){++script.index, 1, garbage, sizeof(garbage)},
                    NULL, NULL);
    after = summary_of(&script);
    assert_int_equal(after.malformed_entries, before.malformed_entries + 1);
    assert_int_equal(after.command_count, before.command_count);
    assert_true(after.state_hash != before.state_hash); /* members still agree on what they saw */
    script_close(&script);
}

/* Each node of restore ALL brings the parts of all. */
static void a_job_of_too_many_nodes_cannot_restore_all(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register few nodes=n1,n2 restore=all max=256");
    expect_status(&script, INVALID_ARGUMENT, "register many nodes=n1,n2 restore=all max=257");
    assert_string_equal(script.outcome.subject, "reactive_max_nodes of restore ALL");
    assert_uint_equal(script.outcome.current, 257);
    assert_uint_equal(script.outcome.limit, 256);
    expect_ok(&script, "register many nodes=n3,n4 restore=path max=257");
    script_close(&script);
}

/* The newest one may turn out to be damaged. 0 leaves it to who is asked next. What an earlier
 * build took is in its log, which apply reads. */
static void one_kept_checkpoint_is_taken_of_a_log_and_not_anew(void **unused)
{
    static const struct {
        uint32_t keep;
        enum fsm_status status;
    } cases[] = {{0, FSM_OK}, {1, FSM_INVALID_ARGUMENT}, {2, FSM_OK}, {32, FSM_OK}};
    char id[] = "a", prefix[] = "/a";
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT, *shares[] = {&share};
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__TenantSpec tenant = CKPT__V1__TENANT_SPEC__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    Ckpt__V1__RegisterAllocationRequest job = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__Log__V1__PutTenant put = CKPT__LOG__V1__PUT_TENANT__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__Log__V1__ClusterInit init = CKPT__LOG__V1__CLUSTER_INIT__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT, *targets[] = {&target};

    (void)unused;
    share.node_id = spec.allocation_id = spec.tenant = spec.project = tenant.tenant = id;
    share.gpu_count = 1;
    spec.n_nodes = 1;
    spec.nodes = shares;
    job.spec = &spec;
    put.spec = &tenant;
    set.policy = init.policy = &policy;
    init.cluster_id = target.target_id = id;
    init.epoch = 1;
    target.prefix = prefix;
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.write_bytes_per_s = 1;
    target.is_default = true;
    init.n_targets = 1;
    init.targets = targets;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spec.keep_complete = tenant.keep_complete = policy.keep_complete = cases[i].keep;
        for (int kind = 0; kind < 4; kind++) {
            Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
            struct fsm_outcome outcome = {.status = FSM_OK};

            command.request_id = id;
            command.body_case = kind == 0   ? CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION
                                : kind == 1 ? CKPT__LOG__V1__COMMAND__BODY_PUT_TENANT
                                : kind == 2 ? CKPT__LOG__V1__COMMAND__BODY_SET_POLICY
                                            : CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT;
            if (kind == 0)
                command.register_allocation = &job;
            else if (kind == 1)
                command.put_tenant = &put;
            else if (kind == 2)
                command.set_policy = &set;
            else
                command.cluster_init = &init;
            assert_int_equal(fsm_validate_command(&command, &outcome), FSM_OK);
            assert_int_equal(fsm_validate_new(&command, &outcome), cases[i].status);
            if (cases[i].status == FSM_OK)
                continue;
            assert_string_equal(outcome.subject, "keep_complete");
            assert_uint_equal(outcome.current, 1);
            assert_uint_equal(outcome.limit, 2);
        }
    }
}

/* V-019: folders of tenants and projects are seen, and are no options. */
static void a_hidden_folder_is_no_tenant_and_no_project(void **unused)
{
    static const char *const names[] = {"-x", ".hidden", "..", "ok.", "a-b"};
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    Ckpt__V1__RegisterAllocationRequest job = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;

    (void)unused;
    job.spec = &spec;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REGISTER_ALLOCATION;
    command.register_allocation = &job;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int of_project = 0; of_project < 2; of_project++) {
            struct fsm_outcome outcome = {.status = FSM_OK};

            spec.tenant = (char *)(uintptr_t)(of_project ? "physics" : names[i]);
            spec.project = (char *)(uintptr_t)(of_project ? names[i] : "heat");
            assert_int_equal(fsm_validate_new(&command, &outcome),
                             i < 3 ? FSM_INVALID_FOLDER : FSM_OK);
            if (i < 3)
                assert_string_equal(outcome.subject, of_project ? "project" : "tenant");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_too_many_nodes_cannot_restore_all),
        cmocka_unit_test(an_unknown_field_at_any_depth_is_refused),
        cmocka_unit_test(a_command_holds_plain_fields_beside_its_body),
        cmocka_unit_test(an_unknown_field_of_the_caller_is_refused),
        cmocka_unit_test(an_over_long_text_is_refused_at_its_first_byte),
        cmocka_unit_test(older_and_newer_messages_are_read),
        cmocka_unit_test(a_command_without_a_body_is_refused),
        cmocka_unit_test(some_purposes_are_not_asked_for),
        cmocka_unit_test(a_time_out_of_range_is_refused),
        cmocka_unit_test(too_many_items_are_refused_with_the_limit),
        cmocka_unit_test(a_job_that_waits_twice_is_refused),
        cmocka_unit_test(a_platform_is_a_short_printable_text),
        cmocka_unit_test(malformed_entries_change_nothing),
        cmocka_unit_test(one_kept_checkpoint_is_taken_of_a_log_and_not_anew),
        cmocka_unit_test(a_hidden_folder_is_no_tenant_and_no_project),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
