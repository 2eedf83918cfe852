/* Values are shown as people write them, and no text of a server drives the terminal. */
#include "src/cli/human.h"
#include "tests/support/test.h"

static void values_read_as_people_write_them(void **state)
{
    char text[HUMAN_BYTES];

    (void)state;
    assert_string_equal(human_duration(850, text), "850ms");
    assert_string_equal(human_duration(1500, text), "1.5s");
    assert_string_equal(human_duration(41000, text), "41s");
    assert_string_equal(human_duration(200000, text), "3m20s");
    assert_string_equal(human_duration(51780000, text), "14h23m");
    assert_string_equal(human_duration(273600000, text), "3d04h");
    assert_string_equal(human_duration(UINT64_MAX, text), "never");
    assert_string_equal(human_size(0, text), "0 B");
    assert_string_equal(human_size(1536, text), "1.5 KiB");
    assert_string_equal(human_size(UINT64_C(687194767360), text), "640.0 GiB");
    assert_string_equal(human_rate(UINT64_C(10000000000), text), "10.0 GB/s");
    assert_string_equal(human_grouped(641000, text), "641 000");
    assert_string_equal(human_grouped(-1234567, text), "-1 234 567");
    assert_string_equal(human_gpu_s(INT64_MAX, text), "> 9.2e15");
    assert_string_equal(human_checkpoint(0, text), "-");
    assert_string_equal(human_checkpoint((UINT64_C(1) << 40) | 42, text), "1-42");
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    char text[8];

    (void)state;
    assert_string_equal(human_safe("a\033[2J", text, sizeof(text)), "a?[2J");
    assert_string_equal(human_safe("0123456789", text, sizeof(text)), "0123...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_read_as_people_write_them),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
