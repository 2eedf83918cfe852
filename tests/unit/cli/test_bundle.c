/* A bundle hides secrets, and its tar is one. */
#include "src/cli/bundle/bundle.h"
#include "src/cli/commands.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static void secrets_are_written_over(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"url: \"https://ann:hunter2@vms.example/x\"",
         "url: \"https://***********@vms.example/x\""},
        {"https://vms.example/a@b", "https://vms.example/a@b"},
        {"Authorization: Bearer eyJhbGciOi\nnext", "Authorization: Bearer **********\nnext"},
        {"the token was refused", "the token was refused"},
        {"secret_key=abc/def+g access_key = AKIA", "secret_key=********* access_key = ****"},
        {"\"password\": \"pa ss\"", "\"password\": \"** ss\""},
        {"token: /etc/ckpt/smd.token", "token: /etc/ckpt/smd.token"},
        {"credentials: /etc/ckpt/smd.token", "credentials: /etc/ckpt/smd.token"},
        {"a\n-----BEGIN PRIVATE KEY-----\nMIGH\nAgEA\n-----END PRIVATE KEY-----\nb",
         "a\n-----BEGIN PRIVATE KEY-----\n****\n****\n-----END PRIVATE KEY-----\nb"},
        {"-----BEGIN EC PRIVATE KEY-----\nMIGH", "-----BEGIN EC PRIVATE KEY-----\n****"},
        {"-----BEGIN CERTIFICATE-----\nMIGH\n-----END CERTIFICATE-----",
         "-----BEGIN CERTIFICATE-----\nMIGH\n-----END CERTIFICATE-----"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];

        snprintf(text, sizeof(text), "%s", cases[i].text);
        bundle_redact(text);
        assert_string_equal(text, cases[i].shown);
    }
}

static void a_file_of_the_tar_is_a_header_and_whole_blocks(void **state)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    unsigned sum = 8 * ' ';

    (void)state;
    bundle_add(stream, "a.json", "0123456789", 10, 1);
    bundle_end(stream);
    fclose(stream);
    assert_uint_equal(length, 4 * 512);
    assert_string_equal(text, "ckpt-bundle/a.json");
    assert_string_equal(text + 124, "00000000012");
    assert_memory_equal(text + 257, "ustar\00000", 8);
    for (size_t i = 0; i < 512; i++)
        sum += i < 148 || i >= 156 ? (unsigned char)text[i] : 0;
    assert_uint_equal(strtoul(text + 148, NULL, 8), sum);
    assert_memory_equal(text + 512, "0123456789\0", 11);
    free(text);
}

static void no_file_is_replaced(void **state)
{
    char path[] = "/tmp/bundle-XXXXXX", words[64];
    const int fd = mkstemp(path);
    struct harness h;

    (void)state;
    assert_true(fd >= 0);
    harness_init(&h);
    snprintf(words, sizeof(words), "debug bundle %s", path);
    assert_int_equal(harness_run(&h, words), CLI_REFUSED);
    assert_contains(h.error, "File exists");
    assert_uint_equal(h.call_count, 0);
    assert_int_equal(harness_run(&h, "debug bundle /nonexistent/x.tar"), CLI_FAILED);
    harness_close(&h);
    remove(path);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_written_over),
        cmocka_unit_test(a_file_of_the_tar_is_a_header_and_whole_blocks),
        cmocka_unit_test(no_file_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
