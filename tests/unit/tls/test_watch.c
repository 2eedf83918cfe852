/* Looking at the files now and then: what is told, and how often. */
#include "src/tls/watch.h"

#include <time.h>

#include "src/base/check.h"
#include "tests/support/tls_site.h"

/* ---- a clock that the test turns ---- */

struct clock_timer {
    void (*fire)(void *data);
    void *data;
    bool started;
};

static uint64_t now_ms;  /* monotonic */
static uint64_t wall_ms; /* since the epoch */
static struct clock_timer *only;

static uint64_t clock_monotonic(void *context)
{
    (void)context;
    return now_ms * 1000;
}

static uint64_t clock_wall(void *context)
{
    (void)context;
    return wall_ms;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context;
    only = check_calloc(1, sizeof(*only));
    only->fire = fire;
    only->data = data;
    return only;
}

static void timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    assert_int_equal(delay_us, UINT64_C(1000) * TLS_WATCH_MS);
    timer->started = true;
}

static void timer_stop(struct clock_timer *timer)
{
    timer->started = false;
}

static void timer_free(struct clock_timer *timer)
{
    free(timer);
}

static const struct clock_ops clock_table = {NULL,        clock_monotonic, clock_wall, timer_new,
                                             timer_start, timer_stop,      timer_free};

static void pass(uint64_t ms)
{
    now_ms += ms;
    wall_ms += ms;
    assert_true(only->started);
    only->started = false;
    only->fire(only->data);
}

/* ---- what is told ---- */

static struct site site;
static struct tls_context *context;
static struct tls_watch watch;
static size_t reloads, failures, warnings;
static char failed_text[512];
static int64_t left_s;

static void on_reloaded(void *data)
{
    (void)data;
    reloads++;
}

static void on_failed(void *data, const struct err *err)
{
    (void)data;
    failures++;
    snprintf(failed_text, sizeof(failed_text), "%s", err->text);
}

static void on_expiring(void *data, const char *what, int64_t left)
{
    (void)data;
    assert_string_equal(what, "certificate"); /* the CA's has years */
    warnings++;
    left_s = left;
}

static void begin(int64_t valid_s)
{
    const struct tls_watch_events events = {
        .reloaded = on_reloaded, .failed = on_failed, .expiring = on_expiring};
    struct tls_files files;
    struct err err;

    reloads = failures = warnings = 0;
    now_ms = 1000000;
    wall_ms = (uint64_t)time(NULL) * 1000;
    site_open(&site, "demo");
    site_issue(&site, TLS_AGENT, "a", valid_s);
    files = site_files(&site, "agent-a");
    site_must(tls_context_new(&files, NULL, &context, &err), &err);
    tls_watch_start(&watch, context, &clock_table, &events);
}

static void end(void)
{
    tls_watch_stop(&watch);
    tls_watch_stop(&watch); /* again: harmless */
    tls_context_free(context);
    site_close(&site);
}

static void a_change_is_read_when_it_has_settled(void **state)
{
    (void)state;
    begin(TLS_YEAR_S);
    for (int i = 0; i < 10; i++)
        pass(TLS_WATCH_MS);
    assert_int_equal(reloads + failures + warnings, 0);
    site_issue(&site, TLS_AGENT, "a", TLS_YEAR_S);
    pass(TLS_WATCH_MS);
    assert_int_equal(reloads, 0);
    pass(TLS_WATCH_MS);
    assert_int_equal(reloads, 1);
    for (int i = 0; i < 10; i++)
        pass(TLS_WATCH_MS);
    assert_int_equal(reloads, 1);
    end();
}

static void broken_files_are_told_once_and_can_be_asked_for(void **state)
{
    FILE *file;

    (void)state;
    begin(TLS_YEAR_S);
    file = fopen(site.path[1], "we");
    assert_non_null(file);
    fputs("broken", file);
    fclose(file);
    for (int i = 0; i < 10; i++)
        pass(TLS_WATCH_MS);
    assert_int_equal(failures, 1);
    assert_true(watch.failing);
    assert_non_null(strstr(failed_text, "agent-a.crt"));
    tls_watch_reload(&watch); /* SIGHUP: says it again */
    assert_int_equal(failures, 2);
    site_issue(&site, TLS_AGENT, "a", TLS_YEAR_S);
    tls_watch_reload(&watch);
    assert_int_equal(reloads, 1);
    assert_false(watch.failing);
    end();
}

static void the_end_is_announced_for_thirty_days_once_a_day(void **state)
{
    (void)state;
    begin(31 * 86400);
    assert_int_equal(warnings, 0);
    pass(86400000 / 2);
    assert_int_equal(warnings, 0);
    pass(86400000); /* 29.5 days are left */
    assert_int_equal(warnings, 1);
    assert_true(left_s < TLS_EXPIRY_WARN_S);
    for (int i = 0; i < 100; i++)
        pass(TLS_WATCH_MS);
    assert_int_equal(warnings, 1);
    pass(86400000);
    assert_int_equal(warnings, 2);
    pass(UINT64_C(40) * 86400000);
    assert_int_equal(warnings, 3);
    assert_true(left_s < 0);
    end();
}

static void a_wall_clock_that_jumps_back_does_not_repeat_the_warning(void **state)
{
    (void)state;
    begin(10 * 86400);
    assert_int_equal(warnings, 1);
    wall_ms -= 3600000;
    for (int i = 0; i < 10; i++)
        pass(TLS_WATCH_MS);
    assert_int_equal(warnings, 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_read_when_it_has_settled),
        cmocka_unit_test(broken_files_are_told_once_and_can_be_asked_for),
        cmocka_unit_test(the_end_is_announced_for_thirty_days_once_a_day),
        cmocka_unit_test(a_wall_clock_that_jumps_back_does_not_repeat_the_warning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
