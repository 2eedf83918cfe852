/* Values are shown as people write them, and no text of a server drives the terminal. */
#include "src/base/number.h"
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

/* As they were given: 500GB is not 465.7 GiB, nor 2GiB/s 2.1 GB/s. */
static void a_size_comes_back_in_the_unit_that_was_given(void **state)
{
    static const struct {
        const char *given, *size, *rate;
    } values[] = {
        {"500GB", "500.0 GB", "500.0 GB/s"},      {"500GiB", "500.0 GiB", "500.0 GiB/s"},
        {"1.5TB", "1.5 TB", "1.5 TB/s"},          {"1.5TiB", "1.5 TiB", "1.5 TiB/s"},
        {"64KiB", "64.0 KiB", "64.0 KiB/s"},      {"64KB", "64.0 kB", "64.0 kB/s"},
        {"123456789", "117.7 MiB", "123.5 MB/s"}, /* of no unit: as what is measured */
    };
    char text[HUMAN_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const struct number_range any = {0, UINT64_MAX};
        uint64_t bytes;
        struct err err;

        assert_int_equal(number_parse(NUMBER_SIZE, values[i].given, any, &bytes, &err), 0);
        assert_string_equal(human_size(bytes, text), values[i].size);
        assert_string_equal(human_rate(bytes, text), values[i].rate);
    }
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
        cmocka_unit_test(a_size_comes_back_in_the_unit_that_was_given),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
