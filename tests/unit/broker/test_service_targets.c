/* What operators do about storage targets, and agents hear of them, by a real replica of one
 * member. */
#include "tests/unit/broker/service_calls.h"

static void a_prefix_is_refused_with_the_rule_that_it_breaks(void **state)
{
    static const char *const wrong[][2] = {
        {"relative", "prefix 'relative' must be an absolute folder"},
        {"/a/../b", "prefix '/a/../b' has a part '..'"},
        {"/a//b", "empty part"},
        {"/a/", "prefix '/a/' has a slash at its end"},
        {"/a/..", "'..'"},
        {"s3://b", "the bucket 'b'"},
        {"s3://CK_PT/x", "the bucket 'CK_PT'"},
        {"s3://bucket/site/", "has a slash at its end"},
        {"s3:/ckpt/site", "prefix 's3:/ckpt/site' must be an absolute folder"},
        {"tape://reel", "no kind of destination"}};
    static struct answer answer;
    Ckpt__V1__PutTargetRequest put = CKPT__V1__PUT_TARGET_REQUEST__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;

    (void)state;
    put.request_id = (char *)(uintptr_t) "p";
    put.spec = &spec;
    spec.target_id = (char *)(uintptr_t) "bucket";
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_S3;
    spec.prefix = (char *)(uintptr_t) "/of/another/kind";
    spec.write_bytes_per_s = 1;
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "PREFIX_INVALID: ");
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        spec.prefix = (char *)(uintptr_t)wrong[i][0];
        call(OPERATOR("PutTarget"), &put.base, &answer);
        expect(&answer, RPC_INVALID_ARGUMENT, "PREFIX_INVALID: prefix ");
        if (strstr(answer.message, wrong[i][1]) == NULL)
            fail_msg("'%s' is not in: %s", wrong[i][1], answer.message);
    }
    spec.prefix = (char *)(uintptr_t) "/bare";
    spec.write_bytes_per_s = 0; /* its name in the message, and that of ckptctl */
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT,
           "INVALID_ARGUMENT: a new target needs write_bytes_per_s (ckptctl: --write): ");
    spec.write_bytes_per_s = 1;
    put.request_id = (char *)(uintptr_t) "q";
    spec.prefix = (char *)(uintptr_t) "s3://bucket/a"; /* its form says of which kind it is */
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_OK, "");
}

static void a_target_that_nothing_needs_is_removed(void **state)
{
    static struct answer answer;
    Ckpt__V1__PutTargetRequest put = CKPT__V1__PUT_TARGET_REQUEST__INIT;
    Ckpt__V1__RemoveTargetRequest remove = CKPT__V1__REMOVE_TARGET_REQUEST__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;

    (void)state;
    put.request_id = (char *)(uintptr_t) "put-spare";
    put.spec = &spec;
    spec.target_id = remove.target_id = (char *)(uintptr_t) "spare";
    spec.prefix = (char *)(uintptr_t) "/spare";
    spec.write_bytes_per_s = 1;
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_OK, "");
    call(OPERATOR("RemoveTarget"), &remove.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "REQUEST_ID_MISSING: ");
    for (int i = 0; i < 2; i++) {
        remove.request_id = (char *)(uintptr_t) "remove-spare";
        call(OPERATOR("RemoveTarget"), &remove.base, &answer);
        expect(&answer, RPC_OK, "");
    }
    remove.request_id = (char *)(uintptr_t) "remove-again";
    call(OPERATOR("RemoveTarget"), &remove.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "TARGET_NOT_FOUND: ");
    remove.request_id = (char *)(uintptr_t) "remove-scratch";
    remove.target_id = (char *)(uintptr_t) "scratch";
    call(OPERATOR("RemoveTarget"), &remove.base, &answer);
    expect(&answer, RPC_FAILED_PRECONDITION, "TARGET_IS_DEFAULT: ");
}

/* Also when only that is changed: the kind is known to the state alone. */
static void direct_and_lz4_are_refused_of_a_kind_that_cannot_do_it(void **state)
{
    static struct answer answer;
    Ckpt__V1__PutTargetRequest put = CKPT__V1__PUT_TARGET_REQUEST__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;

    (void)state;
    put.request_id = (char *)(uintptr_t) "put-far";
    put.spec = &spec;
    spec.target_id = (char *)(uintptr_t) "far";
    spec.prefix = (char *)(uintptr_t) "s3://bucket";
    spec.write_bytes_per_s = 1;
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_OK, "");
    put.request_id = (char *)(uintptr_t) "put-far-direct";
    spec.prefix = (char *)(uintptr_t) "";
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED;
    spec.staging = CKPT__V1__STAGING__STAGING_DIRECT;
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "STAGING_UNFIT: ");
    put.request_id = (char *)(uintptr_t) "put-far-lz4";
    spec.staging = CKPT__V1__STAGING__STAGING_UNSPECIFIED;
    spec.compression = CKPT__V1__COMPRESSION__COMPRESSION_LZ4;
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "COMPRESSION_UNFIT: ");
    spec.staging = CKPT__V1__STAGING__STAGING_DIRECT;
    put.request_id = (char *)(uintptr_t) "put-scratch-direct";
    spec.target_id = (char *)(uintptr_t) "scratch";
    call(OPERATOR("PutTarget"), &put.base, &answer);
    expect(&answer, RPC_OK, "");
}

/* path: below the prefix; NULL: nowhere */
static void expect_next(const char *job, const char *path)
{
    static struct answer answer;
    Ckpt__V1__GetRestartPointRequest ask = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
    Ckpt__V1__RestartPoint *point;

    ask.allocation_id = (char *)(uintptr_t)job;
    call(BROKER("GetRestartPoint"), &ask.base, &answer);
    point = ckpt__v1__restart_point__unpack(NULL, answer.length, answer.bytes);
    assert_non_null(point);
    if (path == NULL) {
        assert_string_equal(point->checkpoints_path, "");
        assert_string_equal(point->checkpoints_prefix, "");
    } else {
        size_t length = strlen(point->checkpoints_prefix);

        assert_non_null(strstr(point->checkpoints_prefix, "/scratch"));
        assert_memory_equal(point->checkpoints_path, point->checkpoints_prefix, length);
        assert_string_equal(point->checkpoints_path + length, path);
    }
    ckpt__v1__restart_point__free_unpacked(point, NULL);
}

/* D-003: nothing of a job that is not checkpointed is made anywhere. */
static void the_restart_point_names_where_the_next_checkpoint_goes(void **state)
{
    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("r", "job"), NULL);
    expect_next("job", "/physics/heat/job/checkpoints");
    registered_as = CKPT__V1__STRATEGY__STRATEGY_NONE;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("s", "none"), NULL);
    registered_as = CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED;
    expect_next("none", NULL);
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, a_prefix_is_refused_with_the_rule_that_it_breaks),
        WITH(open_one, a_target_that_nothing_needs_is_removed),
        WITH(open_one, direct_and_lz4_are_refused_of_a_kind_that_cannot_do_it),
        WITH(open_one, the_restart_point_names_where_the_next_checkpoint_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
