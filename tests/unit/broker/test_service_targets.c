/* What operators do about storage targets, by a real replica of one member. */
#include "tests/unit/broker/service_calls.h"

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

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, a_target_that_nothing_needs_is_removed),
        WITH(open_one, direct_and_lz4_are_refused_of_a_kind_that_cannot_do_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
