/* Who a certificate speaks for. */
#include "src/tls/identity.h"
#include "tests/support/test.h"

static int parse(const char *text, struct tls_identity *identity, struct err *err)
{
    return tls_identity_parse(text, strlen(text), identity, err);
}

static void each_kind_survives_the_way_through_text(void **state)
{
    static const char *const texts[] = {"ckpt://demo/replica/1",
                                        "ckpt://a.b-c_D/agent/node-17.rack",
                                        "ckpt://demo/scheduler/slurm",
                                        "ckpt://demo/operator/ann",
                                        "ckpt://demo/replica/18446744073709551615",
                                        "ckpt://demo/authority/demo"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[TLS_IDENTITY_TEXT_BYTES];
        struct tls_identity identity;
        struct err err;

        if (parse(texts[i], &identity, &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(tls_identity_format(&identity, text), texts[i]);
    }
}

static void what_is_no_identity_is_refused_by_name(void **state)
{
    static const char *const bad[] = {"",
                                      "ckpt://",
                                      "ckpt:///replica/1",
                                      "ckpt://demo/replica",
                                      "ckpt://demo/replica/",
                                      "ckpt://demo/replica/1/",
                                      "ckpt://demo/replica/1/2",
                                      "ckpt://demo/replica/01",
                                      "ckpt://demo/replica/0",
                                      "ckpt://demo/replica/+1",
                                      "ckpt://demo/replica/18446744073709551616",
                                      "ckpt://demo/replica/n1",
                                      "ckpt://demo/Replica/1",
                                      "ckpt://demo/nobody/x",
                                      "ckpt://demo/admin/x",
                                      "ckpt://demo/agent/..",
                                      "ckpt://demo/agent/a%2fb",
                                      "ckpt://demo/agent/a b",
                                      "ckpt://de mo/agent/a",
                                      "CKPT://demo/agent/a",
                                      "spiffe://demo/agent/a",
                                      "ckpt://demo@other/agent/a",
                                      "ckpt://demo:7443/agent/a",
                                      "ckpt://demo/agent/a?x=1",
                                      "ckpt://demo/agent/a#b",
                                      "ckpt://de\nmo/agent/a",
                                      "ckpt://demo/agent/a\nevent=fatal"};
    struct tls_identity identity = {.kind = TLS_NOBODY};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {.code = ERR_NONE};

        if (parse(bad[i], &identity, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_true(strlen(err.text) > 0);
        assert_null(strchr(err.text, '\n')); /* one line of the log stays one */
    }
    assert_int_equal(identity.kind, TLS_NOBODY); /* nothing was written */
}

static void a_nul_inside_ends_nothing(void **state)
{
    static const char text[] = "ckpt://demo/agent/a\0.evil";
    struct tls_identity identity;
    struct err err;

    (void)state;
    assert_int_equal(tls_identity_parse(text, sizeof(text) - 1, &identity, &err), -1);
    assert_null(strchr(err.text, '\n'));
}

static void the_longest_names_fit_and_longer_ones_do_not(void **state)
{
    char name[ID_MAX_BYTES + 2], text[2 * TLS_IDENTITY_TEXT_BYTES], back[TLS_IDENTITY_TEXT_BYTES];
    struct tls_identity identity;
    struct err err;

    (void)state;
    memset(name, 'a', sizeof(name));
    name[ID_MAX_BYTES] = '\0';
    snprintf(text, sizeof(text), "ckpt://%s/scheduler/%s", name, name);
    assert_int_equal(parse(text, &identity, &err), 0);
    assert_string_equal(tls_identity_format(&identity, back), text);
    name[ID_MAX_BYTES] = 'a';
    name[ID_MAX_BYTES + 1] = '\0';
    snprintf(text, sizeof(text), "ckpt://demo/agent/%s", name);
    assert_int_equal(parse(text, &identity, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_survives_the_way_through_text),
        cmocka_unit_test(what_is_no_identity_is_refused_by_name),
        cmocka_unit_test(a_nul_inside_ends_nothing),
        cmocka_unit_test(the_longest_names_fit_and_longer_ones_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
