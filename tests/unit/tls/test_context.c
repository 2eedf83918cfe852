/* Files on disk: what is taken, what is refused and why, and what a reload leaves alone. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/tls_site.h"

static struct site site;

static int open_site(void **state)
{
    (void)state;
    site_open(&site, "demo");
    site_issue(&site, TLS_REPLICA, "1", TLS_YEAR_S);
    site_issue(&site, TLS_REPLICA, "2", TLS_YEAR_S);
    return 0;
}

static int close_site(void **state)
{
    (void)state;
    site_close(&site);
    return 0;
}

static void refused(const struct tls_files *files, const struct tls_identity *own, const char *text)
{
    struct tls_context *context = NULL;
    struct err err;

    if (tls_context_new(files, own, &context, &err) == 0)
        fail_msg("taken, not refused with: %s", text);
    if (strstr(err.text, text) == NULL)
        fail_msg("%s\n  lacks: %s", err.text, text);
    assert_null(context);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void files_that_go_together_are_taken(void **state)
{
    struct tls_files files = site_files(&site, "replica-1");
    struct tls_context *context;
    struct tls_identity own;
    struct err err;
    int64_t now_s = (int64_t)time(NULL);

    (void)state;
    assert_int_equal(tls_identity_make("demo", TLS_REPLICA, "1", &own, &err), 0);
    site_must(tls_context_new(&files, &own, &context, &err), &err);
    assert_true(tls_identity_equal(tls_context_identity(context), &own));
    assert_true(tls_context_expiry(context) > now_s + TLS_YEAR_S - 60);
    assert_true(tls_context_expiry(context) <= now_s + TLS_YEAR_S);
    assert_true(tls_context_ca_expiry(context) >= tls_context_expiry(context));
    assert_int_equal(tls_context_generation(context), 1);
    tls_context_free(context);
}

static void each_wrong_file_is_named(void **state)
{
    struct tls_files good = site_files(&site, "replica-1");
    struct tls_files files = good;
    char other[128], junk[128];

    (void)state;
    snprintf(other, sizeof(other), "%s/replica-2.key", site.dir);
    files.key = other;
    refused(&files, NULL, "replica-2.key: is not the key of");
    snprintf(junk, sizeof(junk), "%s/junk", site.dir);
    write_file(junk, "-----BEGIN CERTIFICATE-----\nno\n", 0600);
    files = good;
    files.cert = junk;
    refused(&files, NULL, "junk: ");
    files.cert = good.cert;
    files.key = junk;
    refused(&files, NULL, "holds no private key in PEM");
    files.key = good.key;
    files.ca = "/nowhere/ca.crt";
    refused(&files, NULL, "/nowhere/ca.crt: No such file");
    files.ca = site.dir;
    refused(&files, NULL, "not a file");
    write_file(junk, "", 0600);
    files.ca = junk;
    refused(&files, NULL, "holds no certificate in PEM");
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0611, 0644};
    struct tls_files files = site_files(&site, "replica-1");

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(files.key, modes[i]), 0);
        refused(&files, NULL, "lets others read the key; chmod 600");
    }
    assert_int_equal(chmod(files.key, 0600), 0);
}

static void a_key_with_a_passphrase_is_refused_without_asking_for_it(void **state)
{
    struct tls_files files = site_files(&site, "replica-1");
    char command[700], locked[128];

    (void)state;
    snprintf(locked, sizeof(locked), "%s/locked.key", site.dir);
    snprintf(command, sizeof(command),
             "openssl pkcs8 -topk8 -in %s -out %s -passout pass:secret && chmod 600 %s", files.key,
             locked, locked);
    if (system(command) != 0)
        skip();
    files.key = locked;
    refused(&files, NULL, "without passphrase");
}

static void the_certificate_must_name_whom_it_is_for(void **state)
{
    struct tls_files files = site_files(&site, "replica-1");
    struct tls_identity own;
    struct err err;
    char authority[2][128];

    (void)state;
    assert_int_equal(tls_identity_make("demo", TLS_REPLICA, "2", &own, &err), 0);
    refused(&files, &own,
            "names ckpt://demo/replica/1, not replica 2; ckptctl tls issue replica 2");
    assert_int_equal(tls_identity_make("prod", TLS_REPLICA, "1", &own, &err), 0);
    refused(&files, &own, "names ckpt://demo/replica/1, which is not of cluster prod");
    own.kind = TLS_NOBODY; /* any of that cluster */
    refused(&files, &own, "not of cluster prod");
    snprintf(authority[0], sizeof(authority[0]), "%s/ca.crt", site.dir);
    snprintf(authority[1], sizeof(authority[1]), "%s/ca.key", site.dir);
    files.cert = authority[0];
    files.key = authority[1];
    refused(&files, NULL, "certificate of a CA");
}

static void a_certificate_of_another_ca_and_one_that_has_expired_are_refused(void **state)
{
    struct site foreign;
    struct tls_files files, strange;
    struct tls_context *context;
    struct err err;
    int tries = 0;

    (void)state;
    site_open(&foreign, "demo");
    site_issue(&foreign, TLS_REPLICA, "1", TLS_YEAR_S);
    strange = site_files(&foreign, "replica-1");
    files = strange;
    files.ca = site_files(&site, "replica-1").ca;
    refused(&files, NULL, "not vouched for by");
    site_issue(&foreign, TLS_REPLICA, "1", 1);
    do {
        usleep(20000);
        if (tls_context_new(&strange, NULL, &context, &err) != 0)
            break;
        tls_context_free(context);
    } while (tries++ < 200);
    assert_non_null(strstr(err.text, "expired at"));
    assert_non_null(strstr(err.text, "ckptctl tls issue"));
    site_close(&foreign);
}

static void a_reload_takes_the_new_and_keeps_the_old_when_the_new_is_broken(void **state)
{
    struct tls_files files = site_files(&site, "replica-1");
    struct tls_context *context;
    struct err err;
    int64_t expiry_s;

    (void)state;
    site_must(tls_context_new(&files, NULL, &context, &err), &err);
    assert_false(tls_context_poll(context)); /* nothing has changed */
    assert_false(tls_context_poll(context));
    site_issue(&site, TLS_REPLICA, "1", TLS_YEAR_S / 2);
    assert_false(tls_context_poll(context)); /* perhaps somebody still writes */
    assert_true(tls_context_poll(context));
    site_must(tls_context_reload(context, &err), &err);
    assert_false(tls_context_poll(context));
    assert_int_equal(tls_context_generation(context), 2);
    expiry_s = tls_context_expiry(context);
    assert_true(expiry_s < (int64_t)time(NULL) + TLS_YEAR_S / 2 + 1);

    write_file(files.cert, "half a certif", 0644);
    assert_false(tls_context_poll(context));
    assert_true(tls_context_poll(context));
    assert_int_equal(tls_context_reload(context, &err), -1);
    assert_non_null(strstr(err.text, "replica-1.crt: holds no certificate"));
    assert_int_equal(tls_context_generation(context), 2);
    assert_int_equal(tls_context_expiry(context), expiry_s);
    /* told once, not every second */
    assert_false(tls_context_poll(context));
    assert_int_equal(unlink(files.key), 0);
    assert_false(tls_context_poll(context));
    assert_true(tls_context_poll(context));

    site_issue(&site, TLS_REPLICA, "1", TLS_YEAR_S);
    assert_false(tls_context_poll(context));
    assert_true(tls_context_poll(context));
    site_must(tls_context_reload(context, &err), &err);
    assert_int_equal(tls_context_generation(context), 3);
    tls_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_go_together_are_taken),
        cmocka_unit_test(each_wrong_file_is_named),
        cmocka_unit_test(a_key_that_others_may_read_is_refused),
        cmocka_unit_test(a_key_with_a_passphrase_is_refused_without_asking_for_it),
        cmocka_unit_test(the_certificate_must_name_whom_it_is_for),
        cmocka_unit_test(a_certificate_of_another_ca_and_one_that_has_expired_are_refused),
        cmocka_unit_test(a_reload_takes_the_new_and_keeps_the_old_when_the_new_is_broken),
    };

    return cmocka_run_group_tests(tests, open_site, close_site);
}
