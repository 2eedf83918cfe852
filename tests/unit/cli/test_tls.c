/* ckptctl tls, and the options that every command takes for TLS. */
#include <unistd.h>

#include "tests/support/tls_site.h"
#include "tests/unit/cli/harness.h"

static struct site site;
static struct harness h;

static int setup(void **state)
{
    (void)state;
    site_open(&site, "demo");
    unsetenv("CKPT_CA");
    unsetenv("CKPT_CERT");
    unsetenv("CKPT_KEY");
    harness_init(&h);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_close(&h);
    site_close(&site);
    return 0;
}

static int run(const char *format, const char *dir)
{
    char words[512];
    const char *at = strchr(format, '@');

    /* '@' stands for the folder */
    if (at == NULL)
        snprintf(words, sizeof(words), "%s", format);
    else
        snprintf(words, sizeof(words), "%.*s%s%s", (int)(at - format), format, dir, at + 1);
    return harness_run(&h, words);
}

static void a_site_is_made_and_its_certificates_are_shown(void **state)
{
    char dir[128];

    (void)state;
    snprintf(dir, sizeof(dir), "%s/new", site.dir);
    assert_int_equal(run("tls init --cluster prod --dir @", dir), CLI_OK);
    assert_contains(h.out, "ca.crt");
    assert_contains(h.error, "ckptctl tls issue replica 1");
    assert_int_equal(run("tls issue replica 1 --host n1,10.0.0.1 --dir @", dir), CLI_OK);
    assert_contains(h.out, "replica-1.key");
    assert_int_equal(run("tls show @/replica-1.crt", dir), CLI_OK);
    assert_contains(h.out, "ckpt://prod/replica/1");
    assert_contains(h.out, "n1, 10.0.0.1");
    assert_int_equal(run("tls show -o json @/replica-1.crt", dir), CLI_OK);
    assert_contains(h.out, "\"identity\": \"ckpt://prod/replica/1\"");
    assert_int_equal(run("tls init --cluster prod --dir @", dir), CLI_REFUSED);
    assert_contains(h.error, "exists and is not overwritten");
    assert_int_equal(run("tls issue replica 1 --dir @", dir), CLI_REFUSED);
    assert_int_equal(run("tls issue replica 1 --replace --dir @", dir), CLI_OK);
    assert_contains(h.error, "without --host");
    assert_int_equal(run("tls issue agent node-1 --valid 10d --dir @", dir), CLI_OK);
    assert_int_equal(run("tls show @/agent-node-1.crt", dir), CLI_OK);
    assert_contains(h.out, "ends soon");
    assert_int_equal(h.call_count, 0); /* no member was asked */
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    assert_int_equal(run("tls init --dir @", site.dir), CLI_USAGE);
    assert_contains(h.error, "--cluster is missing");
    assert_int_equal(run("tls issue king arthur --dir @", site.dir), CLI_USAGE);
    assert_contains(h.error, "replica, agent, scheduler, operator, auditor or monitor");
    assert_int_equal(run("tls issue authority demo --dir @", site.dir), CLI_USAGE);
    assert_int_equal(run("tls issue replica n1 --dir @", site.dir), CLI_USAGE);
    assert_contains(h.error, "not a member id");
    assert_int_equal(run("tls issue agent a --valid 0s --dir @", site.dir), CLI_USAGE);
    assert_int_equal(run("tls issue agent a --host n/1 --dir @", site.dir), CLI_USAGE);
    assert_int_equal(run("tls show @/nothing.crt", site.dir), CLI_FAILED);
    assert_int_equal(run("tls show @/ca.key", site.dir), CLI_USAGE);
    assert_contains(h.error, "holds no certificate");
}

static void half_of_the_options_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run("jobs --ca @/ca.crt", site.dir), CLI_USAGE);
    assert_contains(h.error, "the certificate is missing");
    assert_int_equal(run("jobs --cert @/ca.crt", site.dir), CLI_USAGE);
    assert_contains(h.error, "the CA is missing");
    setenv("CKPT_CA", "/nowhere/ca.crt", 1);
    setenv("CKPT_CERT", "/nowhere/a.crt", 1);
    assert_int_equal(run("jobs", NULL), CLI_USAGE);
    assert_contains(h.error, "the key is missing");
    setenv("CKPT_KEY", "/nowhere/a.key", 1);
    assert_int_equal(run("jobs", NULL), CLI_AUTH);
    assert_contains(h.error, "/nowhere/ca.crt: No such file");
    assert_int_equal(h.call_count, 0);
    /* what asks nobody needs none of it */
    assert_int_equal(run("version", NULL), CLI_OK);
    assert_int_equal(run("help jobs", NULL), CLI_OK);
    assert_int_equal(run("tls show @/ca.crt", site.dir), CLI_OK);
}

static void options_win_over_the_environment(void **state)
{
    char words[600];

    (void)state;
    site_issue(&site, TLS_OPERATOR, "ann", TLS_YEAR_S);
    setenv("CKPT_CA", "/nowhere/ca.crt", 1);
    setenv("CKPT_CERT", "/nowhere/a.crt", 1);
    setenv("CKPT_KEY", "/nowhere/a.key", 1);
    snprintf(words, sizeof(words),
             "status --ca %s/ca.crt --cert %s/operator-ann.crt --key %s/operator-ann.key", site.dir,
             site.dir, site.dir);
    assert_int_equal(run(words, NULL), CLI_NO_LEADER); /* read, used; nobody answers */
    assert_lacks(h.error, "/nowhere");
}

static void what_tls_refused_is_a_matter_of_authentication(void **state)
{
    (void)state;
    harness_answer(&h, "127.0.0.1:7443", "OperatorService/Status", 14,
                   "127.0.0.1:7443: TLS: the peer refused: our certificate is not of its CA", NULL);
    assert_int_equal(run("status", NULL), CLI_AUTH);
    assert_contains(h.error, "our certificate is not of its CA");
    assert_contains(h.error, "ckptctl tls show");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_site_is_made_and_its_certificates_are_shown),
        CASE(wrong_words_are_refused),
        CASE(half_of_the_options_is_refused),
        CASE(options_win_over_the_environment),
        CASE(what_tls_refused_is_a_matter_of_authentication),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
