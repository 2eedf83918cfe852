/* Messages as JSON and back: the schema is the .proto's, numbers are exact, mistakes name line, key
 * and nearest key. */
#include "src/cli/document.h"
#include "src/cli/reflect.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static void json_is_exact_and_complete(void **state)
{
    Ckpt__V1__Checkpoint checkpoint = CKPT__V1__CHECKPOINT__INIT;
    Ckpt__V1__DecisionTerms terms = CKPT__V1__DECISION_TERMS__INIT;
    json_t *json;

    (void)state;
    checkpoint.checkpoint_id = (UINT64_C(3) << 40) | 7;
    checkpoint.state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_TIMED_OUT;
    checkpoint.purpose = (Ckpt__V1__Purpose)99;
    checkpoint.size_bytes = (UINT64_C(1) << 53) + 1;
    checkpoint.terms = &terms;
    terms.value_gpu_ms = -INT64_C(9007199254740993);
    json = reflect_to_json(&checkpoint.base);
    assert_string_equal(json_string_value(json_object_get(json, "checkpoint_id")), "3-7");
    assert_string_equal(json_string_value(json_object_get(json, "state")), "TIMED_OUT");
    assert_string_equal(json_string_value(json_object_get(json, "purpose")), "UNKNOWN(99)");
    assert_true(json_integer_value(json_object_get(json, "size_bytes")) ==
                INT64_C(9007199254740993));
    assert_true(json_integer_value(json_object_get(json_object_get(json, "terms"),
                                                   "value_gpu_ms")) == -INT64_C(9007199254740993));
    assert_true(json_is_array(json_object_get(json, "shards")));
    assert_int_equal(json_object_size(json), ckpt__v1__checkpoint__descriptor.n_fields);
    json_decref(json);
}

static void hashes_are_text_and_never_is_null(void **state)
{
    Ckpt__V1__StatusReply status = CKPT__V1__STATUS_REPLY__INIT;
    json_t *json;

    (void)state;
    status.state_hash = UINT64_C(0xfedcba9876543210);
    status.last_commit_age_ms = UINT64_MAX;
    json = reflect_to_json(&status.base);
    assert_string_equal(json_string_value(json_object_get(json, "state_hash")), "fedcba9876543210");
    assert_true(json_is_null(json_object_get(json, "last_commit_age_ms")));
    json_decref(json);
}

/* A policy's key may carry its unit or leave it to the value; a bare duration could be seconds as
 * well. */
static void a_key_with_its_unit_takes_values_with_units_too(void **state)
{
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct err err;

    (void)state;
    assert_int_equal(reflect_set_text(&policy.base, "default_write_bytes_per_s", "2GB/s", &err), 0);
    assert_uint_equal(policy.default_write_bytes_per_s, UINT64_C(2000000000));
    assert_int_equal(reflect_set_text(&policy.base, "default_write", "3GB/s", &err), 0);
    assert_uint_equal(policy.default_write_bytes_per_s, UINT64_C(3000000000));
    assert_int_equal(reflect_set_text(&policy.base, "min_interval_ms", "5m", &err), 0);
    assert_uint_equal(policy.min_interval_ms, 300000);
    assert_int_equal(reflect_set_text(&policy.base, "min_interval_ms", "1500", &err), 0);
    assert_uint_equal(policy.min_interval_ms, 1500);
    assert_int_equal(reflect_set_text(&policy.base, "min_interval", "300", &err), -1);
    assert_non_null(strstr(err.text, "\"300\" is not a duration"));
}

static int load_spec(const char *text, Ckpt__V1__AllocationSpec **ret_spec, struct err *err)
{
    json_t *json;
    ProtobufCMessage *message;
    int result;

    if (document_parse("job.yaml", text, strlen(text), &json, err) != 0)
        return -1;
    result = reflect_from_json(&ckpt__v1__allocation_spec__descriptor, json, &message, err);
    json_decref(json);
    if (result == 0)
        *ret_spec = (Ckpt__V1__AllocationSpec *)message;
    return result;
}

static void yaml_and_json_describe_the_same_job(void **state)
{
    static const char *const texts[] = {
        "allocation_id: a-1\ntenant: physics\nstrategy: manual\nsensitive: yes\nwalltime: 2h\n"
        "write_bytes_per_s: 1500000000\nnodes:\n  - {node_id: n1, gpu_count: 8, gpu_memory_used: "
        "640GiB}\n"
        "  - node_id: n2\n    gpu_count: 4\n",
        "{\"allocation_id\": \"a-1\", \"tenant\": \"physics\", \"strategy\": \"MANUAL\", "
        "\"sensitive\": true,"
        " \"walltime_ms\": \"7200000\", \"write\": \"1.5GB/s\", \"nodes\": [{\"node_id\": \"n1\","
        " \"gpu_count\": 8, \"gpu_memory_used_bytes\": 687194767360}, {\"node_id\": \"n2\", "
        "\"gpu_count\": 4}]}",
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        Ckpt__V1__AllocationSpec *spec = NULL;
        struct err err = {0};

        if (load_spec(texts[i], &spec, &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(spec->allocation_id, "a-1");
        assert_int_equal(spec->strategy, CKPT__V1__STRATEGY__STRATEGY_MANUAL);
        assert_true(spec->sensitive);
        assert_uint_equal(spec->walltime_ms, 7200000);
        assert_uint_equal(spec->write_bytes_per_s, 1500000000);
        assert_uint_equal(spec->n_nodes, 2);
        assert_uint_equal(spec->nodes[0]->gpu_memory_used_bytes, UINT64_C(687194767360));
        assert_string_equal(spec->nodes[1]->node_id, "n2");
        ckpt__v1__allocation_spec__free_unpacked(spec, NULL);
    }
}

/* U5: what is written as YAML reads back as the same tree, whatever the texts hold. */
static void yaml_output_reads_back(void **state)
{
    json_t *json = json_pack("{s:i, s:I, s:b, s:[s,s,s,s,s,s], s:{}, s:[], s:{s:s}}", "version", 1,
                             "most", INT64_MAX, "sensitive", 1, "texts", "yes", "12", "a: b # c",
                             "", "two\nlines\t\"quoted\" \xc3\xa9", "- x", "none", "list", "deep",
                             "key: with colon", "null");
    json_t *back = NULL;
    struct err err = {0};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    (void)state;
    assert_non_null(json);
    document_write(out, json);
    document_write(out, json);
    fclose(out);
    assert_int_equal(strncmp(text, "---\nversion: 1\nmost: 9223372036854775807\n", 41), 0);
    *strstr(text + 1, "---\n") = '\0'; /* the second document */
    if (document_parse("out", text, strlen(text), &back, &err) != 0)
        fail_msg("%s in %s", err.text, text);
    assert_true(json_equal(json, back));
    json_decref(json);
    json_decref(back);
    free(text);
}

static void each_mistake_in_a_file_is_named(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } mistakes[] = {
        {"", "job.yaml is empty"},
        {"allocation_id: a\nallocation_id: b\n", "job.yaml line 2: the key was given before"},
        {"tenant: a\n  b: [\n", "job.yaml line 2"},
        {"a: &x 1\n", "line 1: anchors are not taken"},
        {"? [a]\n: 1\n", "a key must be a text"},
        {"[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", "nested too deeply"},
        {"tennant: a\n", "no field \"tennant\"; nearest: tenant"},
        {"preemption_class: -1\n", "\"-1\" is not a whole number"},
        {"preemption_class: 99999999999\n", "preemption_class"},
        {"preemption_class: nan\n", "\"nan\" is not a whole number"},
        {"walltime: 30\n", "walltime needs a unit (or the key walltime_ms)"},
        {"sensitive: maybe\n", "sensitive: neither true nor false"},
        {"strategy: often\n", "strategy: no such value"},
        {"nodes: n1\n", "nodes is a list"},
        {"nodes: [{node: n1}]\n",
         "item 1 of nodes: NodeShare has no field \"node\"; nearest: node_id"},
        {"- a\n", "a set of keys and values"},
        {"tenant: [a]\n", "tenant: not a value of this field's type"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        Ckpt__V1__AllocationSpec *spec;
        struct err err = {0};

        assert_int_equal(load_spec(mistakes[i].text, &spec, &err), -1);
        assert_contains(err.text, mistakes[i].error);
    }
}

static void a_file_without_a_byte_is_empty(void **state)
{
    json_t *json;
    struct err err = {0};

    (void)state;
    assert_int_equal(document_load("/dev/null", stdin, &json, &err), -1);
    assert_string_equal(err.text, "/dev/null is empty");
}

/* Damaged files end in an error or in a message, never in a crash. */
static void damaged_files_do_not_crash(void **state)
{
    static const char whole[] =
        "allocation_id: a-1\nwalltime: 2h\nnodes:\n  - {node_id: n1, gpu_count: 8}\n";
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof(whole)];
        Ckpt__V1__AllocationSpec *spec;
        struct err err;

        memcpy(text, whole, sizeof(whole));
        for (uint64_t k = 0; k <= test_random(&seed) % 4; k++)
            text[test_random(&seed) % (sizeof(whole) - 1)] = (char)(1 + test_random(&seed) % 255);
        if (load_spec(text, &spec, &err) == 0)
            ckpt__v1__allocation_spec__free_unpacked(spec, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_exact_and_complete),
        cmocka_unit_test(hashes_are_text_and_never_is_null),
        cmocka_unit_test(a_key_with_its_unit_takes_values_with_units_too),
        cmocka_unit_test(yaml_and_json_describe_the_same_job),
        cmocka_unit_test(yaml_output_reads_back),
        cmocka_unit_test(each_mistake_in_a_file_is_named),
        cmocka_unit_test(a_file_without_a_byte_is_empty),
        cmocka_unit_test(damaged_files_do_not_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
