/* Every status of the catalogue is reached here, or is listed as produced elsewhere. */
#include "src/base/err.h"
#include "src/base/id.h"
#include "tests/unit/fsm/expect.h"

struct row {
    const char *status;
    const char *lines[10]; /* the last one is refused */
};

static const struct row rows[] = {
    {"OK", {"register j1 nodes=n1"}},
    {"INVALID_ID", {"register j/1 nodes=n1"}},
    {"INVALID_ID", {"register .. nodes=n1"}},
    {"INVALID_ID", {"register j1 nodes=n1 tenant=a/b"}},
    {"INVALID_ARGUMENT", {"register j1 nodes=n1 class=11"}}, /* P-001 */
    {"NODE_TWICE", {"register j1 nodes=n1,n1"}},
    {"INVALID_ARGUMENT", {"register j1"}},
    {"INVALID_ARGUMENT", {"register j1 nodes=n1 gpus=1025"}},
    {"INVALID_ARGUMENT", {"register j1 nodes=n1 memory=18446744073709551615"}},
    {"INVALID_ARGUMENT", {"register j1 nodes=n1 strategy=77"}},
    {"PROFILE_UNKNOWN", {"register j1 nodes=n1 profile=nonsense"}},
    {"OK", {"register j1 nodes=n1 profile=signal-usr2"}},
    {"OK", {"register j1 nodes=n1 profile=criu"}},
    {"PROFILE_ONE_PART", {"register j1 nodes=n1,n2 profile=criu"}},
    {"PROFILE_ONE_PART", {"register j1 nodes=n1,n2,n3 profile=dmtcp"}},
    {"OK", {"register j1 nodes=n1 profile=file attributes=checkpoint_exit_code=85"}},
    {"ATTRIBUTE_WRONG", {"register j1 nodes=n1 profile=file attributes=checkpoint_exit_code=256"}},
    {"CHECKPOINT_EXIT_FINAL", /* S5-013 */
     {"register j1 nodes=n1 profile=file attributes=checkpoint_exit_code=0"}},
    {"ATTRIBUTES_PROFILE", {"register j1 nodes=n1 attributes=checkpoint_exit_code=85"}},
    {"ATTRIBUTES_MUTE", {"register j1 nodes=n1 profile=file attributes=CheckpointExitCode=85"}},
    {"PURPOSE_RESERVED", {"register j1 nodes=n1", "request j1 purpose=preempt"}},
    {"PURPOSE_RESERVED", {"register j1 nodes=n1", "request j1 purpose=walltime"}},
    {"PREFIX_INVALID", {"put fast keep write=1000"}},
    {"TARGET_IN_USE",
     {"register j1 nodes=n1", "request j1", "put scratch prefix=/moved"}}, /* S2-009 */
    {"TARGET_IS_DEFAULT", {"remove_target scratch"}},
    {"TENANT_OVER_QUOTA", {"register j1 nodes=n1", "tenant physics max=1", "request j1"}},
    {"TARGET_HAS_JOBS",
     {"put fast prefix=/fast", "register j1 nodes=n1 target=fast", "remove_target fast"}},
    {"TARGET_HAS_FOLDERS",
     {"put fast prefix=/fast", "register j1 nodes=n1 target=fast", "request j1", "grant 1-1",
      "end j1", "remove_target fast"}},
    {"TARGET_NOT_FOUND", {"remove_target nowhere"}},
    {"NOT_KEPT", {"register j1 nodes=n1", "request j1", "pin 1-1"}},
    {"TARGET_IS_DEFAULT", {"drain_target scratch"}},
    {"STAGING_UNFIT", {"put far s3 prefix=s3://a writes=direct"}},
    {"COMPRESSION_UNFIT", {"put far s3 prefix=s3://a compression=lz4"}},
    {"FAILOVER_UNKNOWN", {"put scratch keep failover=nowhere"}},
    {"NODE_OUTSIDE_DOMAIN",
     {"put near prefix=/near domain=a", "node n1 ready domain=a", "node n2 ready domain=b",
      "register j1 nodes=n1 domain_rule=required requeue=always", "request j1", "grant 1-1",
      "report n1 shard_verified j1 ckpt=1-1", "end j1 failed", "restart j1 nodes=n2"}},
    {"CONTINUES_NOT_FOUND", {"register j2 nodes=n1 continues=j1"}},
    {"CONTINUES_OTHERS", {"register j1 nodes=n1", "register j2 nodes=n1 continues=j1 owner=bob"}},
    {"CONTINUES_RUNS", {"register j1 nodes=n1", "register j2 nodes=n1 continues=j1"}},
    {"CONTINUES_NOTHING", {"register j1 nodes=n1", "end j1", "register j2 nodes=n1 continues=j1"}},
    {"CONTINUED",
     {"register j1 nodes=n1", "request j1", "grant 1-1", "report n1 shard_verified j1 ckpt=1-1",
      "end j1 failed", "register j2 nodes=n1 continues=j1", "restart j1"}},
    {"WRITES_FULL",
     {"put scratch keep writes_max=1", "register j1 nodes=n1", "register j2 nodes=n1", "request j1",
      "request j2", "grant 1-1", "grant 1-2"}},
    {"NODE_NOT_DOWN", {"node n1 ready", "remove_node n1"}},
    {"NODE_SILENT",
     {"node n1 ready", "node n2 ready", "register j1 nodes=n1", "node n1 down",
      "restart j1 nodes=n2 from_scratch"}},
    {"RUN_NOT_ENDED", /* I61 */
     {"node n1 ready boot=b1", "node n2 ready", "register j1 nodes=n1", "end j1 failed",
      "restart j1 nodes=n2 from_scratch"}},
    {"NODE_DRAINING",
     {"node n1 ready", "register j1 nodes=n1 requeue=always", "end j1 failed", "drain n1",
      "choose j1 nodes=n1"}},
    {"NODE_DISABLED", {"node n1 ready", "drain n1 disable", "register j1 nodes=n1"}}, /* L-003 */
    {"NOT_RERUNNABLE",
     {"register j1 nodes=n1 strategy=none requeue=never", "migrate j1"}}, /* S3-053 */
    {"NODE_LEFT",                                                         /* S1-022 */
     {"node n1 ready", "register j1 nodes=n1", "migrate j1", "grant 1-1",
      "report n1 shard_verified j1 ckpt=1-1", "report n1 terminated j1", "choose j1 nodes=n1"}},
    {"NODE_EXCLUDED", /* V-001 */
     {"node n1 ready", "register j1 nodes=n1 requeue=always",
      "report n1 application_exited j1 status=1", "choose j1 nodes=n1",
      "report n1 application_exited j1 status=1", "after 5000", "choose j1 nodes=n1"}},
    {"NODE_HAS_JOBS", {"register j1 nodes=n1", "remove_node n1"}},
    {"INVALID_ARGUMENT", {"preempt class=3 need=0"}},
    {"ALLOCATION_EXISTS", {"register j1 nodes=n1", "register j1 nodes=n1"}},
    {"ALLOCATION_NOT_FOUND", {"request nobody"}},
    {"ALLOCATION_NOT_FOUND", {"migrate nobody"}},
    {"ALLOCATION_NOT_FOUND", {"update nobody"}},
    {"ALLOCATION_NOT_FOUND", {"end nobody"}},
    {"ALLOCATION_NOT_FOUND", {"restart nobody"}},
    {"ALLOCATION_NOT_FOUND", {"preempt class=5 nodes=nobody"}},
    {"CHECKPOINT_NOT_FOUND", {"cancel 1-7"}},
    {"CHECKPOINT_NOT_FOUND", {"grant 1-7"}},
    {"TARGET_NOT_FOUND", {"register j1 nodes=n1 target=nowhere"}},
    {"TARGET_NOT_FOUND", {"target nowhere down"}},
    {"NODE_NOT_FOUND", {"drain n1"}},
    {"ALLOCATION_ENDED", {"register j1 nodes=n1", "end j1", "request j1"}},
    {"ALLOCATION_ENDED", {"register j1 nodes=n1", "end j1", "update j1 period=5"}},
    {"ALLOCATION_ENDED", {"register j1 nodes=n1", "end j1", "preempt class=5 nodes=j1"}},
    {"CHECKPOINT_ACTIVE", {"register j1 nodes=n1", "request j1", "request j1"}},
    {"CHECKPOINT_ACTIVE", {"register j1 nodes=n1", "request j1", "grant 1-1", "grant 1-1"}},
    {"CHECKPOINT_ENDED", {"register j1 nodes=n1", "request j1", "cancel 1-1", "cancel 1-1"}},
    {"CHECKPOINT_ENDED", {"register j1 nodes=n1", "request j1", "cancel 1-1", "grant 1-1"}},
    {"NOT_CHECKPOINTABLE", {"register j1 nodes=n1 strategy=none", "request j1"}}, /* S2-002 */
    {"NOT_CHECKPOINTABLE",
     {"register j1 nodes=n1 strategy=none class=7", "preempt class=9 nodes=j1"}}, /* P-070 */
    {"STORAGE_UNAVAILABLE", {"register j1 nodes=n1", "target scratch down", "request j1"}},
    {"STORAGE_UNAVAILABLE",
     {"register j1 nodes=n1", "target scratch down", "preempt class=9"}},            /* S1-065 */
    {"NO_VICTIMS", {"register j1 nodes=n1", "preempt class=9 need=2"}},              /* P-016 */
    {"CLASS_TOO_LOW", {"register j1 nodes=n1 class=5", "preempt class=5 nodes=j1"}}, /* P-002 */
    {"CLASS_TOO_LOW", {"preempt class=0"}},
    {"ALREADY_INITIALISED", {"init"}},
    {"STALE_LEARNED", {"learned term=3", "learned term=2"}},
    {"STALE_REPORT", {"register j1 nodes=n1", "report n1 terminated j1 seq=5"}},
    {"EARLIER_RUN",
     {"register j1 nodes=n1", "report n1 application_started j1 run=1-1"}}, /* F-022 */
    {"NODE_NOT_ASSIGNED",
     {"register j1 nodes=n1", "node n2 ready", "report n2 terminated j1"}},        /* F-023 */
    {"SENSITIVE", {"register j1 nodes=n1 sensitive", "preempt class=9 nodes=j1"}}, /* N-001 */
    {"NODE_SHARED", {"register j1 nodes=n1 sensitive", "register j2 nodes=n1"}},   /* N-001 */
    {"NODE_BORROWED", {"register j1 nodes=n1 sensitive lent=n1"}},                 /* N-001 */
    {"POOL_UNFIT", {"put vault prefix=/vault write=1000 pool=sensitive"}},         /* N-003 */
    {"JURISDICTION_REFUSED", {"register j1 nodes=n1 sensitive law=CH"}},           /* N-003 */
    {"PART_FINISHED",
     {"register j1 nodes=n1,n2", "report n1 application_exited j1", "request j1"}}, /* F-021 */
    {"NOT_STARTED", {"register j1 nodes=n1 starting", "request j1"}},
    {"BORROWED_ONLY",
     {"register j1 nodes=n1 kind=service", "preempt class=9 nodes=j1"}}, /* P-060 */
    {"NEAR_COMPLETION", {"register j1 nodes=n1 walltime=200000", "preempt class=9 nodes=j1"}},
    {"BUDGET_EXCEEDED",
     {"register j1 nodes=n1", "request j1", "grant 1-1 bytes=7000000001"}}, /* I36 */
    {"NOT_RESTARTABLE", {"register j1 nodes=n1", "restart j1"}},
    {"NOT_RESTARTABLE", {"register j1 nodes=n1", "end j1", "restart j1"}},
    {"NODE_DOWN", {"register j1 nodes=n1", "node n1 down", "restart j1"}},
    {"MEMBER_REMOVED", {"role 4 removed", "member 4"}},
    {"REQUEST_ID_MISSING", {"request j1 id=!"}},
    {"REQUEST_ID_REUSED", {"register j1 nodes=n1 id=x", "register j2 nodes=n1 id=x"}},
    {"REQUEST_ID_REUSED", {"register j1 nodes=n1 id=x", "request j1 id=x"}},
    {"CHECKPOINTING", {"register j1 nodes=n1", "request j1 after=stop", "request j1"}},
    {"CHECKPOINTING",
     {"register j1 nodes=n1", "request j1 after=stop", "update j1 nodes=n2"}}, /* */
    {"CHECKPOINTING", {"register j1 nodes=n1", "request j1", "grant 1-1", "update j1 nodes=n1,n2"}},
    {"CHECKPOINTING", /* one scale-down at a time */
     {"register j1 nodes=n1,n2,n3", "update j1 nodes=n1,n2", "update j1 nodes=n1"}},
    {"STORAGE_UNAVAILABLE", /* S1-081: nothing can be saved before the node leaves */
     {"register j1 nodes=n1,n2", "target scratch down", "update j1 nodes=n1"}},
    {"NO_USABLE_CHECKPOINT", /* S3-049 */
     {"register j1 nodes=n1", "end j1 failed", "restart j1"}},
    {"PARTS_DIFFER",
     {"register j1 nodes=n1,n2", "request j1 after=stop", "grant 1-1",
      "report n1 shard_verified j1 ckpt=1-1", "report n2 shard_verified j1 ckpt=1-1",
      "end j1 failed", "restart j1 nodes=n1"}},
    {"TOO_FEW_NODES", /* */
     {"register j1 nodes=n1,n2 min=2 max=4 restore=all", "request j1", "grant 1-1",
      "report n1 shard_verified j1 ckpt=1-1", "report n2 shard_verified j1 ckpt=1-1",
      "end j1 failed", "restart j1 nodes=n1"}},
    {"SCALE_COOLDOWN", /* */
     {"register j1 nodes=n1,n2 min=1 max=4", "update j1 nodes=n1 force", "update j1 nodes=n1,n2"}},
    {"NODE_UNLIKE", /* S3-045 */
     {"register j1 nodes=n1", "node n1 ready machine=x86_64", "node n2 ready machine=aarch64",
      "request j1", "grant 1-1", "report n1 shard_verified j1 ckpt=1-1", "end j1 failed",
      "restart j1 nodes=n2"}},
    {"NOT_HUNG",
     {"node n1 ready", "register j1 nodes=n1", "after 900000", "hang j1 quiet=1 gap=1"}},
    {"COST_EXCEEDS_VALUE", {"register j1 nodes=n1", "preempt class=9 value=1"}},      /* P-050 */
    {"INVALID_ARGUMENT", {"register j1 nodes=n1", "preempt class=9 reason=reclaim"}}, /* whose? */
    {"INVALID_ARGUMENT", {"register j1 nodes=n1", "preempt class=9 reason=sensitive"}},
    {"NO_VICTIMS", {"register j1 nodes=n1", "preempt class=9 useful=n2"}}, /* P-015 */
    {"NO_VICTIMS", {"register j1 nodes=n1 gpus=4", "preempt class=9 gpus=5"}},
};

/* Where the others come from. */
static const char *const elsewhere[] = {
    "UNKNOWN_FIELD",        /* test_validate.c */
    "TOO_LARGE",            /* test_validate.c, test_retention.c */
    "ALLOCATIONS_FULL",     /* two million allocations: not in a unit test */
    "JUST_RESUMED",         /* test_victims.c */
    "INVALID_SERIAL",       /* test_revoked.c */
    "REVOKED_FULL",         /* test_revoked.c */
    "PINS_FULL",            /* test_retention.c */
    "TENANTS_FULL",         /* test_quota.c */
    "POOL_REFUSED",         /* test_sensitive.c */
    "POOL_NEEDED",          /* test_sensitive.c */
    "PREEMPTIONS_FULL",     /* test_victims.c */
    "PREEMPTION_NOT_FOUND", /* src/broker/api/service_preemption.c: of a read */
    "SESSIONS_FULL",        /* a million requests within 15 s: not in a unit test */
    "NODES_FULL",           /* test_cluster.c */
    "TARGETS_FULL",         /* test_cluster.c */
    "QUEUES_FULL",          /* test_cluster.c */
    "NOT_INITIALISED",      /* test_commands.c */
    "UNIMPLEMENTED",        /* src/broker/api/target_kinds.c: before a proposal */
    "OUTCOME_UNKNOWN",      /* src/broker/replica/replica.c: never a replicated outcome */
    "REQUEST_NOT_FOUND",    /* src/broker/api/service_broker.c: of a read */
    "FEATURE_LEVEL",        /* test_level.c: of a proposal, never of an entry */
    "PASSIVE",              /* test_passive.c */
    "CLUSTER_PAUSED",       /* test_pause.c */
    "NODE_TAKEN",           /* src/broker/dispatch/dispatcher_twins.c: of a stream */
    "INVALID_FOLDER",       /* test_validate.c: of a proposal, never of an entry */
    "DRILL_UNDER_WAY",      /* test_drill.c, as all of drills */
    "DRILL_WINDOW",
    "DRILL_UPGRADE",
    "DRILL_OUTAGE",
    "DRILL_TOLERANCE",
    "DRILL_BEHIND",
    "DRILL_UNSUPERVISED",
    "DRILL_NOT_FOUND",
    "MEASURES_HIDDEN", /* src/broker/api/measures.c: of a read */
};

static void every_row_ends_with_its_status(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;
        size_t line = 0;

        script_start(&script);
        for (; rows[i].lines[line + 1] != NULL; line++)
            expect_ok(&script, "%s", rows[i].lines[line]);
        script_run(&script, "%s", rows[i].lines[line]);
        if (strcmp(fsm_status_name(script.outcome.status), rows[i].status) != 0)
            fail_msg("row %zu, %s: %s instead of %s", i, rows[i].lines[line],
                     fsm_status_name(script.outcome.status), rows[i].status);
        script_close(&script);
    }
}

static bool listed(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].status, name) == 0)
            return true;
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (strcmp(elsewhere[i], name) == 0)
            return true;
    return strcmp(name, "UNKNOWN") == 0; /* no status has this number */
}

static void every_status_is_reached_or_listed(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < fsm_status_count(); i++)
        if (!listed(fsm_status_name((enum fsm_status)i)))
            fail_msg("%s is reached nowhere", fsm_status_name((enum fsm_status)i));
}

/* U7 */
static void a_refusals_text_has_its_numbers_and_the_next_step(void **unused)
{
    struct fsm_outcome outcome = {.status = FSM_BUDGET_EXCEEDED, .current = 12, .limit = 7};
    char text[256];

    (void)unused;
    assert_string_equal(fsm_outcome_text(&outcome, text, sizeof(text)),
                        "the grant would take 12 bytes/s of 7; wait for running writers");
    assert_string_equal(fsm_outcome_text(&outcome, text, 10), "the grant");
    outcome.status = FSM_OK;
    assert_string_equal(fsm_outcome_text(&outcome, text, sizeof(text)), "done");
    assert_string_equal(fsm_status_name((enum fsm_status)999), "UNKNOWN");
    outcome =
        (struct fsm_outcome){.status = FSM_CHECKPOINT_ENDED,
                             .current = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE};
    assert_string_equal(fsm_outcome_text(&outcome, text, sizeof(text)),
                        "the checkpoint has ended already (it is COMPLETE); nothing to do");
    outcome = (struct fsm_outcome){.status = FSM_ALLOCATION_ENDED,
                                   .current = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED};
    assert_string_equal(
        fsm_outcome_text(&outcome, text, sizeof(text)),
        "the allocation has ended (it is FAILED); ckptctl job JOB shows when and why");
}

/* U7: which of several it is. */
static void a_refusal_names_the_field(void **unused)
{
    static const char *const refused[][2] = {
        {"register j1 nodes=n1 tenant=a/b", "tenant: \"a/b\" is not 1 to 128 characters of A-Z a-z "
                                            "0-9 . _ - (it has 3 bytes); correct "
                                            "the id; it must be usable as a file name"},
        {"register j1 nodes=n1 project=",
         "project: \"\" is not 1 to 128 characters of A-Z a-z 0-9 . _ - (it has 0 bytes); correct "
         "the id; it must be usable as a file name"},
        {"register j1 nodes=n1 class=11",
         "preemption_class: a value is out of range (found 11, limit 10); correct the request and "
         "send it again with a new request id"},
        {"register j1 nodes=n1,n2,n1",
         "nodes 1 and 3 of the request are one node; name each node once, with all of its GPUs"}};

    (void)unused;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct script script;
        char text[256];

        script_start(&script);
        script_run(&script, "%s", refused[i][0]);
        assert_string_equal(fsm_outcome_text(&script.outcome, text, sizeof(text)), refused[i][1]);
        script_close(&script);
    }
}

/* U7: what an agent or a tool says of an id reads as the state machine's refusal of it does. */
static void an_id_is_refused_in_one_sentence_everywhere(void **unused)
{
    struct script script;
    struct err err = {0};
    char text[256];

    (void)unused;
    script_start(&script);
    script_run(&script, "register j1 nodes=n1 tenant=a/b");
    fsm_outcome_text(&script.outcome, text, sizeof(text));
    assert_int_equal(id_check("tenant", "a/b", &err), -1);
    assert_int_equal(strncmp(text, err.text, strlen(err.text)), 0);
    script_close(&script);
}

/* U7: no mark of the catalogue reaches a reader, of whatever status. */
static void every_mark_of_every_status_is_replaced(void **unused)
{
    char text[1024];

    (void)unused;
    for (size_t i = 0; i < fsm_status_count(); i++) {
        struct fsm_outcome outcome = {.status = (enum fsm_status)i, .current = 1, .limit = 2};

        fsm_outcome_text(&outcome, text, sizeof(text));
        if (strpbrk(text, "{}") != NULL || strlen(text) + 1 == sizeof(text))
            fail_msg("%s: %s", fsm_status_name(outcome.status), text);
        fsm_outcome_what(&outcome, text, sizeof(text));
        if (strpbrk(text, "{}") != NULL)
            fail_msg("%s: %s", fsm_status_name(outcome.status), text);
    }
}

/* U7: a text that is far too long, or drives a terminal, is shown as far as it can be. */
static void what_was_found_is_shown_cut_and_printable(void **unused)
{
    struct fsm_outcome outcome = {.status = FSM_INVALID_ID};
    char asked[300], text[512], wanted[FSM_FOUND_BYTES + 8] = "\"??[2J";

    (void)unused;
    memset(asked, 'x', sizeof(asked) - 1);
    asked[sizeof(asked) - 1] = '\0';
    memcpy(asked, "\n\033[2J", 5);
    fsm_outcome_found(&outcome, asked);
    memset(wanted + 6, 'x', FSM_FOUND_BYTES - 9);
    strcpy(wanted + FSM_FOUND_BYTES - 3, "...\" is");
    fsm_outcome_text(&outcome, text, sizeof(text));
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "it has 299 bytes"));
}

static void expect_reuse(struct script *script, const char *line, const char *found)
{
    char text[256], wanted[256];

    script_run(script, "%s", line);
    snprintf(wanted, sizeof(wanted),
             "this request id was used for %s; ckptctl request ID says what that came to; use a "
             "new id for each request",
             found);
    assert_string_equal(fsm_outcome_text(&script->outcome, text, sizeof(text)), wanted);
}

/* K-004: both requests by name, and of two alike the first field that differs, also in a state that
 * was read from a snapshot. */
static void a_reused_request_id_names_what_differs(void **unused)
{
    static const char *const reused[][2] = {
        {"request j1 id=x", "register_allocation, and this is request_checkpoint"},
        {"register j2 nodes=n1 id=x",
         "register_allocation, and this is another: spec.allocation_id differs"},
        {"register j1 nodes=n1 tenant=u id=x",
         "register_allocation, and this is another: spec.tenant differs"},
        {"register j1 nodes=n1 class=4 id=x",
         "register_allocation, and this is another: spec.preemption_class differs"},
        {"register j1 nodes=n2 id=x",
         "register_allocation, and this is another: spec.nodes differs"},
        {"register j1 nodes=n1,n2 id=x",
         "register_allocation, and this is another: spec.nodes differs"},
        {"request j3 id=y", "request_checkpoint, and this is another: allocation_id differs"},
        {"request j1 after=stop id=y", "request_checkpoint, and this is another: after differs"}};
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=2");
    expect_ok(&script, "register j1 nodes=n1 id=x");
    expect_ok(&script, "request j1 id=y");
    for (int restored = 0; restored < 2; restored++) {
        for (size_t i = 0; i < sizeof(reused) / sizeof(reused[0]); i++)
            expect_reuse(&script, reused[i][0], reused[i][1]);
        expect_ok(&script, "register j1 nodes=n1 id=x"); /* the same once more */
        script_restore(&script);
    }
    script_close(&script);
}

/* A member of level 1 keeps nothing by which a field could be named. */
static void a_cluster_of_level_1_names_no_field_of_a_reused_request(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    expect_ok(&script, "register j1 nodes=n1 id=x");
    expect_reuse(&script, "register j2 nodes=n1 id=x",
                 "register_allocation, and this is another, with other fields");
    expect_reuse(&script, "request j1 id=x", "register_allocation, and this is request_checkpoint");
    script_close(&script);
}

static void statuses_have_texts_and_grpc_numbers(void **unused)
{
    (void)unused;
    for (size_t i = 1; i < fsm_status_count(); i++) {
        if (strcmp(fsm_status_name((enum fsm_status)i), "UNKNOWN") == 0)
            continue; /* no status has this number */
        assert_true(fsm_status_grpc((enum fsm_status)i) > 0);
        assert_true(fsm_status_grpc((enum fsm_status)i) <= 16);
        assert_true(strlen(fsm_status_text((enum fsm_status)i)) > 0);
        assert_true(strlen(fsm_status_next((enum fsm_status)i)) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_ends_with_its_status),
        cmocka_unit_test(every_status_is_reached_or_listed),
        cmocka_unit_test(a_refusals_text_has_its_numbers_and_the_next_step),
        cmocka_unit_test(a_refusal_names_the_field),
        cmocka_unit_test(an_id_is_refused_in_one_sentence_everywhere),
        cmocka_unit_test(every_mark_of_every_status_is_replaced),
        cmocka_unit_test(what_was_found_is_shown_cut_and_printable),
        cmocka_unit_test(a_reused_request_id_names_what_differs),
        cmocka_unit_test(a_cluster_of_level_1_names_no_field_of_a_reused_request),
        cmocka_unit_test(statuses_have_texts_and_grpc_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
