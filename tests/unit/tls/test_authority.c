/* The site's own CA: what it makes, what it does not overwrite, what it refuses to sign. */
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/tls_site.h"

static struct site site;

static int open_site(void **state)
{
    (void)state;
    site_open(&site, "demo");
    return 0;
}

static int close_site(void **state)
{
    (void)state;
    site_close(&site);
    return 0;
}

static struct tls_description describe(const char *name)
{
    struct tls_description description;
    char path[160];
    struct err err;

    snprintf(path, sizeof(path), "%s/%s", site.dir, name);
    site_must(tls_certificate_describe(path, &description, &err), &err);
    return description;
}

static mode_t mode_of(const char *name)
{
    struct stat status;
    char path[160];

    snprintf(path, sizeof(path), "%s/%s", site.dir, name);
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void keys_are_the_owners_alone(void **state)
{
    mode_t mask = umask(0);

    (void)state;
    site_issue(&site, TLS_OPERATOR, "ann", TLS_YEAR_S);
    umask(mask);
    assert_int_equal(mode_of("ca.key"), 0600);
    assert_int_equal(mode_of("ca.crt"), 0644);
    assert_int_equal(mode_of("operator-ann.key"), 0600);
    assert_int_equal(mode_of("operator-ann.crt"), 0644);
}

static void a_certificate_holds_what_was_ordered(void **state)
{
    static const char *const hosts[] = {"n1.example", "10.0.0.1", "2001:db8::1"};
    const struct tls_order order = {
        .kind = TLS_REPLICA, .name = "7", .hosts = hosts, .host_count = 3, .valid_s = 86400};
    struct tls_description d;
    int64_t now_s = (int64_t)time(NULL);
    struct err err;

    (void)state;
    site_must(tls_authority_issue(site.dir, site.dir, &order, &err), &err);
    d = describe("replica-7.crt");
    assert_string_equal(d.identity, "ckpt://demo/replica/7");
    assert_string_equal(d.hosts, "demo, n1.example, 10.0.0.1, 2001:db8::1");
    assert_string_equal(d.key, "EC prime256v1, 256 bits");
    assert_false(d.authority);
    assert_true(d.not_before_s <= now_s - TLS_BACKDATE_S + 2);
    assert_true(d.not_after_s >= now_s + 86400 && d.not_after_s < now_s + 86400 + 60);
    assert_string_equal(d.issuer, describe("ca.crt").subject);
    assert_true(describe("ca.crt").authority);
    assert_string_equal(describe("ca.crt").identity, "ckpt://demo/authority/demo");
}

static void nothing_is_overwritten_unless_asked_for(void **state)
{
    struct tls_order order = {.kind = TLS_AGENT, .name = "n1", .valid_s = 86400};
    struct tls_description first, second;
    struct err err;

    (void)state;
    assert_int_equal(tls_authority_create(site.dir, "demo", 1000, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_non_null(strstr(err.text, "ca.crt exists and is not overwritten"));
    site_must(tls_authority_issue(site.dir, site.dir, &order, &err), &err);
    first = describe("agent-n1.crt");
    assert_int_equal(tls_authority_issue(site.dir, site.dir, &order, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    order.replace = true;
    site_must(tls_authority_issue(site.dir, site.dir, &order, &err), &err);
    second = describe("agent-n1.crt");
    assert_string_not_equal(first.fingerprint, second.fingerprint);
    assert_string_not_equal(first.serial, second.serial);
}

static void wrong_orders_are_refused(void **state)
{
    static const char *const bad_hosts[] = {"n1 n2",         "",         "-n1", "n1/..",
                                            "10.0.0.1:7443", "b\xc3\xbc"};
    const struct {
        struct tls_order order;
        const char *text;
    } cases[] = {
        {{.kind = TLS_REPLICA, .name = "n1", .valid_s = 1000}, "not a member id"},
        {{.kind = TLS_AGENT, .name = "../x", .valid_s = 1000}, "is not 1 to 128 characters"},
        {{.kind = TLS_AUTHORITY, .name = "demo", .valid_s = 1000}, "certificates are for"},
        {{.kind = TLS_NOBODY, .name = "x", .valid_s = 1000}, "certificates are for"},
        {{.kind = TLS_AGENT, .name = "x", .valid_s = 0}, "validity"},
        {{.kind = TLS_AGENT, .name = "x", .valid_s = INT64_MAX}, "validity"},
    };
    char nowhere[PATH_MAX];
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(tls_authority_issue(site.dir, site.dir, &cases[i].order, &err), -1);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("%s lacks %s", err.text, cases[i].text);
    }
    for (size_t i = 0; i < sizeof(bad_hosts) / sizeof(bad_hosts[0]); i++) {
        const struct tls_order order = {.kind = TLS_AGENT,
                                        .name = "h",
                                        .hosts = &bad_hosts[i],
                                        .host_count = 1,
                                        .valid_s = 1000};

        assert_int_equal(tls_authority_issue(site.dir, site.dir, &order, &err), -1);
        assert_non_null(strstr(err.text, "neither a DNS name nor an address"));
    }
    assert_true(snprintf(nowhere, sizeof(nowhere), "%s/no/such", site.dir) > 0);
    assert_int_equal(tls_authority_create(nowhere, "demo", 1000, &err), -1);
    assert_int_equal(tls_authority_create(site.dir, "de mo", 1000, &err), -1);
}

static void a_certificate_ends_with_its_ca_at_the_latest(void **state)
{
    struct site brief;
    struct tls_description ca, issued;
    struct err err;
    char path[160];

    (void)state;
    snprintf(brief.dir, sizeof(brief.dir), "/tmp/tls-test-XXXXXX");
    assert_non_null(mkdtemp(brief.dir));
    site_must(tls_authority_create(brief.dir, "demo", 3600, &err), &err);
    site_issue(&brief, TLS_AGENT, "n1", TLS_YEAR_S);
    snprintf(path, sizeof(path), "%s/ca.crt", brief.dir);
    site_must(tls_certificate_describe(path, &ca, &err), &err);
    snprintf(path, sizeof(path), "%s/agent-n1.crt", brief.dir);
    site_must(tls_certificate_describe(path, &issued, &err), &err);
    assert_int_equal(issued.not_after_s, ca.not_after_s);
    site_close(&brief);
}

static void only_the_ca_signs(void **state)
{
    struct tls_order order = {.kind = TLS_AGENT, .name = "n9", .valid_s = 1000};
    struct site other;
    char from[200], to[200];
    struct err err;

    (void)state;
    site_open(&other, "demo");
    site_issue(&other, TLS_OPERATOR, "ann", TLS_YEAR_S);
    /* an operator's certificate in the place of the CA's */
    snprintf(from, sizeof(from), "%s/operator-ann.crt", other.dir);
    snprintf(to, sizeof(to), "%s/ca.crt", other.dir);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(tls_authority_issue(other.dir, other.dir, &order, &err), -1);
    assert_non_null(strstr(err.text, "is not a CA"));
    /* another CA's key */
    snprintf(from, sizeof(from), "cp %s/ca.crt %s/", site.dir, other.dir);
    assert_int_equal(system(from), 0);
    assert_int_equal(tls_authority_issue(other.dir, other.dir, &order, &err), -1);
    assert_non_null(strstr(err.text, "is not the key of"));
    /* a key that others can read has been anybody's */
    snprintf(to, sizeof(to), "%s/ca.key", site.dir);
    assert_int_equal(chmod(to, 0640), 0);
    assert_int_equal(tls_authority_issue(site.dir, site.dir, &order, &err), -1);
    assert_non_null(strstr(err.text, "lets others read the key"));
    assert_int_equal(chmod(to, 0600), 0);
    site_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_the_owners_alone),
        cmocka_unit_test(a_certificate_holds_what_was_ordered),
        cmocka_unit_test(nothing_is_overwritten_unless_asked_for),
        cmocka_unit_test(wrong_orders_are_refused),
        cmocka_unit_test(a_certificate_ends_with_its_ca_at_the_latest),
        cmocka_unit_test(only_the_ca_signs),
    };

    return cmocka_run_group_tests(tests, open_site, close_site);
}
