/* Walks the command table: fails when a step of the recipe in fsm/README.md is missing for a
 * command. */
#include "tests/unit/fsm/expect.h"

#include "fsm/core/state.h"

static bool file_holds(const char *path, const char *text)
{
    static char content[1 << 19];
    FILE *file = fopen(path, "r");
    size_t length;

    assert_non_null(file);
    length = fread(content, 1, sizeof(content) - 1, file);
    fclose(file);
    content[length] = '\0';
    return strstr(content, text) != NULL;
}

static const struct script_verb *verb_of(uint32_t number)
{
    for (size_t i = 0; i < SCRIPT_VERBS; i++)
        if (script_verbs[i].number == number)
            return &script_verbs[i];
    return NULL;
}

static void the_table_lists_every_field_of_command_in_order(void **unused)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__log__v1__command__descriptor;
    size_t i = 0;

    (void)unused;
    for (unsigned f = 0; f < descriptor->n_fields; f++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[f];
        const struct fsm_command_info *info;

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
            continue;
        info = fsm_command_at(i++);
        assert_non_null(info);
        assert_int_equal(info->number, field->id);
        if (i > 1 && fsm_command_at(i - 2)->number + 1 < info->number)
            assert_null(fsm_command_info(info->number - 1));
        assert_string_equal(info->name, field->name);
        assert_non_null(info->apply);
        assert_ptr_equal(fsm_command_info(info->number), info);
    }
    assert_null(fsm_command_at(i));
    assert_null(fsm_command_info(9));
    assert_null(fsm_command_info(fsm_command_at(i - 1)->number + 1));
}

/* Steps: script verb (unit, golden, fuzz and property tests speak it), golden scenario, random
 * workload, README row. */
static void every_command_has_tests_and_documentation(void **unused)
{
    (void)unused;
    for (size_t i = 0; fsm_command_at(i) != NULL; i++) {
        const struct fsm_command_info *info = fsm_command_at(i);
        const struct script_verb *verb = verb_of(info->number);
        char text[80];
        bool golden = false;
        static const char *const files[] = {"main_job",     "outage",   "forced_preemption",
                                            "timeout",      "walltime", "partial_failure",
                                            "node_down",    "preempt",  "duplicates",
                                            "operations",   "epoch",    "learning",
                                            "node_removal", "targets",  "verify",
                                            "quota",        "orphans",  "passive",
                                            "restart",      "hang",     "drill",
                                            "pause",        "audit"};

        if (verb == NULL)
            fail_msg("%s: no verb in script.h", info->name);
        assert_int_equal(verb->from_client, info->from_client);
        snprintf(text, sizeof(text), "\n> %s", verb->verb);
        for (size_t f = 0; f < ARRAY_COUNT(files); f++) {
            char path[128];

            snprintf(path, sizeof(path), "tests/golden/%s.txt", files[f]);
            golden = golden || file_holds(path, text);
        }
        if (!golden)
            fail_msg("%s: no golden scenario", info->name);
        snprintf(text, sizeof(text), "\"%s", verb->verb);
        if (!file_holds("tests/unit/fsm/random_line.h", text))
            fail_msg("%s: not in the random workload", info->name);
        snprintf(text, sizeof(text), "`%s`", info->name);
        if (!file_holds("fsm/README.md", text))
            fail_msg("%s: not in fsm/README.md", info->name);
    }
}

/* K-004 */
static void a_clients_command_needs_a_request_id(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_status(&script, REQUEST_ID_MISSING, "request j1 id=!");
    expect_status(&script, REQUEST_ID_MISSING, "drain n1 id=!");
    expect_status(&script, INVALID_ID, "drain n1 id=a/b");
    assert_int_equal(summary_of(&script).past_request_count, 1); /* of the policy command before */
    script_close(&script);
}

static void nothing_but_init_is_taken_before_init(void **unused)
{
    struct script script;

    (void)unused;
    script_open(&script);
    expect_status(&script, NOT_INITIALISED, "register j1 nodes=n1 id=r1");
    expect_status(&script, NOT_INITIALISED, "node n1 ready");
    expect_ok(&script, "tick");
    expect_ok(&script, "init");
    expect_status(&script, ALREADY_INITIALISED, "init");
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_lists_every_field_of_command_in_order),
        cmocka_unit_test(every_command_has_tests_and_documentation),
        cmocka_unit_test(a_clients_command_needs_a_request_id),
        cmocka_unit_test(nothing_but_init_is_taken_before_init),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
