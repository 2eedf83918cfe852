/* Log lines as JSON: each pair of the line is a pair of the object, whatever its value holds. */
#include "src/base/log_json.h"
#include "tests/support/test.h"

static const char *json_of(const char *line)
{
    static char text[LOG_JSON_BYTES + 1];
    char with_feed[LOG_LINE_BYTES];
    const int length = snprintf(with_feed, sizeof(with_feed), "%s\n", line);
    const size_t written = log_json(with_feed, (size_t)length, text);

    assert_true(written <= LOG_JSON_BYTES);
    text[written] = '\0';
    return text;
}

/* B-006: timestamp, level, component, message, allocation_id, node_id */
static void lines_have_the_names_that_collectors_look_for(void **state)
{
    (void)state;
    assert_string_equal(
        json_of("time=2026-11-30T03:00:00.001Z level=info program=ckptd name=n1 event=node_down "
                "allocation=a-1 node=gpu-a age_ms=1500 share=0.25 epoch=007"),
        "{\"timestamp\":\"2026-11-30T03:00:00.001Z\",\"level\":\"info\",\"component\":\"ckptd\","
        "\"name\":\"n1\",\"message\":\"node_down\",\"allocation_id\":\"a-1\",\"node_id\":\"gpu-a\","
        "\"age_ms\":1500,\"share\":0.25,\"epoch\":\"007\"}\n");
}

static void values_stay_what_they_are(void **state)
{
    static const struct {
        const char *line, *json;
    } cases[] = {
        {"text=\"a \\\"b\\\" c\\\\\" next=1", "{\"text\":\"a \\\"b\\\" c\\\\\",\"next\":1}\n"},
        {"text=\"\" next=", "{\"text\":\"\",\"next\":\"\"}\n"},
        {"path=/a=b", "{\"path\":\"/a=b\"}\n"},
        {"path=C:\\x", "{\"path\":\"C:\\\\x\"}\n"},
        {"n=-5 m=- o=1.2.3 p=.5 q=5. r=0 s=0.5 t=-0.5 u=1234567890123456",
         "{\"n\":-5,\"m\":\"-\",\"o\":\"1.2.3\",\"p\":\".5\",\"q\":\"5.\",\"r\":0,\"s\":0.5,"
         "\"t\":-0.5,\"u\":\"1234567890123456\"}\n"},
        {"level=info event=started level=2 name=x time=5 message=y",
         "{\"level\":\"info\",\"message\":\"started\",\"event_level\":2,\"event_name\":\"x\","
         "\"event_timestamp\":5,\"event_message\":\"y\"}\n"},
        {"text=\"cut in the middle", "{\"text\":\"cut in the middle\"}\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(json_of(cases[i].line), cases[i].json);
}

/* A line as long as lines can be, all of it letters that need a backslash. */
static void the_longest_line_is_a_whole_object(void **state)
{
    static char line[LOG_LINE_BYTES - 1];
    const char *text;

    (void)state;
    for (size_t i = 0; i < sizeof(line) - 1; i++)
        line[i] = '\\';
    memcpy(line, "event=e path=", 13);
    text = json_of(line);
    assert_string_equal(text + strlen(text) - 2, "}\n");
    assert_contains(text, "{\"message\":\"e\"");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_the_names_that_collectors_look_for),
        cmocka_unit_test(values_stay_what_they_are),
        cmocka_unit_test(the_longest_line_is_a_whole_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
