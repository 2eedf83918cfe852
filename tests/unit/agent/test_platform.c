/* What a node says that it is. */
#include "src/agent/node/platform.h"

#include <sys/utsname.h>

#include "tests/support/test.h"

static void expect_os(const char *os_release, const char *os)
{
    char text[PLATFORM_TEXT_MAX + 1];

    platform_os_parse(os_release, text);
    assert_string_equal(text, os);
}

/* S3-045; os-release(5) */
static void the_operating_system_is_its_id_and_version(void **state)
{
    (void)state;
    expect_os("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n"
              "VERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nID=debian\n",
              "debian 12");
    expect_os("NAME='Rocky Linux'\nID='rocky'\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID='9.4'",
              "rocky 9.4");
    expect_os("ID=arch\n", "arch"); /* has no versions */
    expect_os("# ID=comment\nVERSION_ID=3\nID=one\nID=\"two\\\"\"\n", "two\" 3");
    expect_os("VERSION_ID=3\n", "");
    expect_os("", "");
    expect_os("ID=caf\xc3\xa9\n", ""); /* not printable ASCII */
    expect_os("ID=0123456789012345678901234567890123456789012345678901234567890123456789\n", "");
    expect_os("ID=unended\nVERSION_ID=\"1", "unended 1");
}

static void this_node_says_what_it_is(void **state)
{
    struct platform platform;
    struct utsname names;

    (void)state;
    assert_int_equal(uname(&names), 0);
    platform_read(&platform);
    assert_string_equal(platform.machine, names.machine);
    assert_true(platform_text_valid(platform.os));
}

static void a_text_is_short_and_printable(void **state)
{
    (void)state;
    assert_true(platform_text_valid(""));
    assert_true(
        platform_text_valid("0123456789012345678901234567890123456789012345678901234567890123"));
    assert_false(
        platform_text_valid("01234567890123456789012345678901234567890123456789012345678901234"));
    assert_false(platform_text_valid("a\tb"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_operating_system_is_its_id_and_version),
        cmocka_unit_test(this_node_says_what_it_is),
        cmocka_unit_test(a_text_is_short_and_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
