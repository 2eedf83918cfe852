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

/* Files of the site by this name; "": without TLS. */
static void configure(const char *name)
{
    char text[1024] = "brokers: \"10.0.0.1:7443\"\n";
    size_t length = strlen(text);
    struct err err;

    if (name[0] != '\0')
        snprintf(text + length, sizeof(text) - length,
                 "tls: {ca: \"%s/ca.crt\", cert: \"%s/%s.crt\", key: \"%s/%s.key\"}\n", site.dir,
                 site.dir, name, site.dir, name);
    agent_config_close(&config);
    agent_config_init(&config, "agent.yaml");
    site_must(settings_parse(&config.settings, text, strlen(text), &err), &err);
}

static int setup(void **state)
{
    (void)state;
    site_open(&site, "demo");
    site_issue(&site, TLS_AGENT, "gpu-a", TLS_YEAR_S);
    site_issue(&site, TLS_OPERATOR, "gpu-b", TLS_YEAR_S);
    configure("agent-{name}");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_config_close(&config);
    site_close(&site);
    return 0;
}

static void the_files_are_those_of_the_node(void **state)
{
    struct certificates certificates;
    struct err err;

    (void)state;
    site_must(credentials_open(&certificates, &config, "gpu-a", &err), &err);
    certificates_watch(&certificates, &clock_table);
    assert_string_equal(tls_context_identity(certificates.context)->name, "gpu-a");
    certificates_reload(&certificates);
    assert_int_equal(tls_context_generation(certificates.context), 2);
    certificates_close(&certificates);
    certificates_close(&certificates); /* again: harmless */
}

static void a_certificate_of_another_node_or_kind_is_refused(void **state)
{
    struct certificates certificates;
    struct err err;

    (void)state;
    assert_int_equal(credentials_open(&certificates, &config, "gpu-c", &err), -1);
    assert_non_null(strstr(err.text, "agent-gpu-c.crt: No such file"));
    configure("agent-gpu-a");
    assert_int_equal(credentials_open(&certificates, &config, "gpu-b", &err), -1);
    assert_non_null(strstr(err.text, "names ckpt://demo/agent/gpu-a, not agent gpu-b"));
    configure("operator-gpu-b");
    assert_int_equal(credentials_open(&certificates, &config, "gpu-b", &err), -1);
    assert_non_null(strstr(err.text, "names ckpt://demo/operator/gpu-b, not agent gpu-b"));
}

static void without_tls_there_is_none(void **state)
{
    struct certificates certificates;
    struct err err;

    (void)state;
    configure("");
    site_must(credentials_open(&certificates, &config, "gpu-a", &err), &err);
    assert_null(certificates.context);
    certificates_reload(&certificates);
    certificates_close(&certificates);
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
