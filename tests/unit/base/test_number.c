/* Numbers, durations, sizes, rates and shares are taken exactly or refused by name and limit. */
#include "src/base/number.h"
#include "tests/support/test.h"

static const struct number_range any = {0, UINT64_MAX};

static void assert_parses(enum number_kind kind, const char *text, uint64_t expected)
{
    uint64_t value = 0;
    struct err err = {0};

    if (number_parse(kind, text, any, &value, &err) != 0 || value != expected) {
        print_error("%s: %" PRIu64 ", expected %" PRIu64 " (%s)\n", text, value, expected,
                    err.text);
        fail();
    }
}

static void assert_refused(enum number_kind kind, const char *text)
{
    uint64_t value = 77;
    struct err err = {0};

    if (number_parse(kind, text, any, &value, &err) == 0) {
        print_error("%s was taken as %" PRIu64 "\n", text, value);
        fail();
    }
    assert_uint_equal(value, 77);
    assert_non_null(strstr(err.text, "taken"));
}

static void exact_values_are_taken(void **state)
{
    (void)state;
    assert_parses(NUMBER_PLAIN, "0", 0);
    assert_parses(NUMBER_PLAIN, "18446744073709551615", UINT64_MAX);
    assert_parses(NUMBER_DURATION, "0", 0);
    assert_parses(NUMBER_DURATION, "250ms", 250);
    assert_parses(NUMBER_DURATION, "1.5s", 1500);
    assert_parses(NUMBER_DURATION, "1h30m", 5400000);
    assert_parses(NUMBER_DURATION, "7d", 604800000);
    assert_parses(NUMBER_SIZE, "512", 512);
    assert_parses(NUMBER_SIZE, "640GiB", UINT64_C(687194767360));
    assert_parses(NUMBER_SIZE, "0.1GB", 100000000);
    assert_parses(NUMBER_SIZE, "1.5KiB", 1536);
    assert_parses(NUMBER_RATE, "10GB/s", UINT64_C(10000000000));
    assert_parses(NUMBER_RATE, "10GB", UINT64_C(10000000000));
    assert_parses(NUMBER_SHARE, "0.3", 300000);
    assert_parses(NUMBER_SHARE, "30%", 300000);
    assert_parses(NUMBER_SHARE, "1", 1000000);
}

static void nothing_is_guessed(void **state)
{
    static const char *const never[] = {"",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "nan",
                                        "NaN",
                                        "inf",
                                        "1e9",
                                        "0x10",
                                        "1,5",
                                        "1..5",
                                        ".5",
                                        "5.",
                                        "1.2.3",
                                        "one",
                                        "18446744073709551616x"};

    (void)state;
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        for (int kind = NUMBER_PLAIN; kind <= NUMBER_SHARE; kind++)
            assert_refused((enum number_kind)kind, never[i]);
    assert_refused(NUMBER_PLAIN, "18446744073709551616");
    assert_refused(NUMBER_PLAIN, "1.5");
    assert_refused(NUMBER_DURATION, "30");
    assert_refused(NUMBER_DURATION, "30parsecs");
    assert_refused(NUMBER_DURATION, "99999999999999999999d");
    assert_refused(NUMBER_SIZE, "640XiB");
    assert_refused(NUMBER_SIZE, "99999999PiB");
    assert_refused(NUMBER_SIZE, "1.5");
    assert_refused(NUMBER_RATE, "10GB/m");
    assert_refused(NUMBER_SHARE, "30%%");
}

static void a_value_out_of_range_is_named_with_its_limits(void **state)
{
    uint64_t value = 0;
    struct err err = {0};

    (void)state;
    assert_int_equal(number_parse(NUMBER_PLAIN, "11", (struct number_range){0, 10}, &value, &err),
                     -1);
    assert_string_equal(err.text, "\"11\" is out of range; 0 to 10 are taken");
    assert_int_equal(
        number_parse(NUMBER_DURATION, "2h", (struct number_range){10, 3600000}, &value, &err), -1);
    assert_string_equal(err.text, "\"2h\" is out of range; 10ms to 1h are taken");
    assert_int_equal(
        number_parse(NUMBER_DURATION, "nan", (struct number_range){0, UINT64_MAX}, &value, &err),
        -1);
    assert_non_null(strstr(err.text, "; 0ms and more are taken"));
}

/* Whatever is typed, the parser either refuses or gives a value inside the range. */
static void random_text_never_escapes_the_range(void **state)
{
    static const char alphabet[] = "0123456789.-+eGiBKMsmhd%/ xn";
    uint64_t seed = test_seed();
    const struct number_range range = {5, 5000000};

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[24];
        size_t length = test_random(&seed) % (sizeof(text) - 1);
        uint64_t value = 5;

        for (size_t k = 0; k < length; k++)
            text[k] = alphabet[test_random(&seed) % (sizeof(alphabet) - 1)];
        text[length] = '\0';
        number_parse((enum number_kind)(test_random(&seed) % 5), text, range, &value, NULL);
        assert_in_range(value, range.min, range.max);
    }
}

/* What is written is read again as the same value, whatever the kind. */
static void a_formatted_value_reads_as_itself(void **state)
{
    char text[NUMBER_TEXT_BYTES];
    uint64_t seed = test_seed();

    (void)state;
    assert_string_equal(number_format(NUMBER_DURATION, 0, text), "0ms");
    assert_string_equal(number_format(NUMBER_DURATION, 300000, text), "5m");
    assert_string_equal(number_format(NUMBER_DURATION, 90500, text), "90500ms");
    assert_string_equal(number_format(NUMBER_SIZE, 64 << 20, text), "64MiB");
    assert_string_equal(number_format(NUMBER_RATE, UINT64_C(10000000000), text), "10GB/s");
    assert_string_equal(number_format(NUMBER_SHARE, 300000, text), "30%");
    assert_string_equal(number_format(NUMBER_SHARE, 1, text), "0.0001%");
    assert_string_equal(number_format(NUMBER_SHARE, 12500, text), "1.25%");
    for (int i = 0; i < 100000; i++) {
        enum number_kind kind = (enum number_kind)(test_random(&seed) % 5);
        uint64_t value = test_random(&seed) >> (test_random(&seed) % 64);
        uint64_t scale = test_random(&seed) % 2 == 0 ? 1 : 3600000;

        value = value / scale * scale;
        assert_parses(kind, number_format(kind, value, text), value);
    }
}

static void a_name_tells_the_unit(void **state)
{
    size_t stem;

    (void)state;
    assert_int_equal(number_named("default_write_bytes_per_s", &stem), NUMBER_RATE);
    assert_int_equal(stem, strlen("default_write"));
    assert_int_equal(number_named("min_interval_ms", &stem), NUMBER_DURATION);
    assert_int_equal(stem, strlen("min_interval"));
    assert_int_equal(number_named("keep_bytes", &stem), NUMBER_SIZE);
    assert_int_equal(number_named("staging_share_ppm", &stem), NUMBER_SHARE);
    assert_int_equal(number_named("max_victims", &stem), NUMBER_PLAIN);
    assert_int_equal(stem, strlen("max_victims"));
}

static void a_whole_number_is_in_the_unit_that_the_key_names(void **state)
{
    uint64_t value = 0;
    struct err err = {0};

    (void)state;
    assert_int_equal(number_parse_in_unit(NUMBER_DURATION, "1500", any, &value, &err), 0);
    assert_uint_equal(value, 1500);
    assert_int_equal(number_parse_in_unit(NUMBER_DURATION, "5m", any, &value, &err), 0);
    assert_uint_equal(value, 300000);
    assert_int_equal(number_parse_in_unit(NUMBER_SHARE, "300000", any, &value, &err), 0);
    assert_uint_equal(value, 300000);
    assert_int_equal(number_parse_in_unit(NUMBER_SHARE, "30%", any, &value, &err), 0);
    assert_uint_equal(value, 300000);
    assert_int_equal(number_parse_in_unit(NUMBER_DURATION, "-5", any, &value, &err), -1);
    assert_non_null(strstr(err.text, "or a whole number of milliseconds"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_values_are_taken),
        cmocka_unit_test(nothing_is_guessed),
        cmocka_unit_test(a_value_out_of_range_is_named_with_its_limits),
        cmocka_unit_test(random_text_never_escapes_the_range),
        cmocka_unit_test(a_formatted_value_reads_as_itself),
        cmocka_unit_test(a_name_tells_the_unit),
        cmocka_unit_test(a_whole_number_is_in_the_unit_that_the_key_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
