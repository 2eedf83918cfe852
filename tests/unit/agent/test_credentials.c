/* The agent's certificate: found by the node's name, refused when it names another node. */
#include "src/agent/daemon/credentials.h"

#include "src/base/check.h"
#include "tests/support/tls_site.h"

struct clock_timer {
    int unused;
};

static uint64_t clock_zero(void *context)
{
    (void)context;
    return 0;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context;
    (void)fire;
    (void)data;
    return check_calloc(1, sizeof(struct clock_timer));
}

static void timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    (void)timer;
    (void)delay_us;
}

static void timer_stop(struct clock_timer *timer)
{
    (void)timer;
}

static void timer_free(struct clock_timer *timer)
{
    free(timer);
}

static const struct clock_ops clock_table = {NULL,        clock_zero, clock_zero, timer_new,
                                             timer_start, timer_stop, timer_free};

static struct site site;
static struct agent_config config;

static int setup(void **state)
{
    (void)state;
    site_open(&site, "demo");
    site_issue(&site, TLS_AGENT, "gpu-a", TLS_YEAR_S);
    site_issue(&site, TLS_OPERATOR, "gpu-b", TLS_YEAR_S);
    config_defaults(&config);
    snprintf(config.brokers, sizeof(config.brokers), "10.0.0.1:7443");
    snprintf(config.tls_ca, sizeof(config.tls_ca), "%s/ca.crt", site.dir);
    snprintf(config.tls_cert, sizeof(config.tls_cert), "%s/agent-{name}.crt", site.dir);
    snprintf(config.tls_key, sizeof(config.tls_key), "%s/agent-{name}.key", site.dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    site_close(&site);
    return 0;
}

static void the_files_are_those_of_the_node(void **state)
{
    struct credentials credentials;
    struct err err;

    (void)state;
    site_must(credentials_open(&credentials, &config, "gpu-a", &clock_table, &err), &err);
    assert_string_equal(tls_context_identity(credentials.context)->name, "gpu-a");
    credentials_reload(&credentials);
    assert_int_equal(tls_context_generation(credentials.context), 2);
    credentials_close(&credentials);
    credentials_close(&credentials); /* again: harmless */
}

static void a_certificate_of_another_node_or_kind_is_refused(void **state)
{
    struct credentials credentials;
    struct err err;

    (void)state;
    assert_int_equal(credentials_open(&credentials, &config, "gpu-c", &clock_table, &err), -1);
    assert_non_null(strstr(err.text, "agent-gpu-c.crt: No such file"));
    snprintf(config.tls_cert, sizeof(config.tls_cert), "%s/agent-gpu-a.crt", site.dir);
    snprintf(config.tls_key, sizeof(config.tls_key), "%s/agent-gpu-a.key", site.dir);
    assert_int_equal(credentials_open(&credentials, &config, "gpu-b", &clock_table, &err), -1);
    assert_non_null(strstr(err.text, "names ckpt://demo/agent/gpu-a, not agent gpu-b"));
    snprintf(config.tls_cert, sizeof(config.tls_cert), "%s/operator-gpu-b.crt", site.dir);
    snprintf(config.tls_key, sizeof(config.tls_key), "%s/operator-gpu-b.key", site.dir);
    assert_int_equal(credentials_open(&credentials, &config, "gpu-b", &clock_table, &err), -1);
    assert_non_null(strstr(err.text, "names ckpt://demo/operator/gpu-b, not agent gpu-b"));
}

static void without_tls_there_is_none(void **state)
{
    struct credentials credentials;
    struct err err;

    (void)state;
    config.tls_ca[0] = '\0';
    site_must(credentials_open(&credentials, &config, "gpu-a", &clock_table, &err), &err);
    assert_null(credentials.context);
    credentials_reload(&credentials);
    credentials_close(&credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_files_are_those_of_the_node, setup, teardown),
        cmocka_unit_test_setup_teardown(a_certificate_of_another_node_or_kind_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_tls_there_is_none, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
