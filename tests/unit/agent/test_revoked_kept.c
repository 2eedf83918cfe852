/* Revoked certificates as an agent keeps them: over its start, beside a file that is none, and a
 * list that is wrong. K-009 */
#include "src/agent/daemon/revoked_kept.h"

#include "tests/support/tls_site.h"

/* ---- a clock with one timer, which the test fires ---- */

struct clock_timer {
    void (*fire)(void *data);
    void *data;
    bool armed;
};

static struct clock_timer only;
static unsigned changes;

static uint64_t clock_now(void *context)
{
    (void)context;
    return 1;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context;
    only = (struct clock_timer){fire, data, false};
    return &only;
}

static void timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    (void)delay_us;
    timer->armed = true;
}

static void timer_stop(struct clock_timer *timer)
{
    timer->armed = false;
}

static const struct clock_ops clock_table = {NULL,        clock_now,  clock_now, timer_new,
                                             timer_start, timer_stop, timer_stop};

static void on_changed(void *data)
{
    (void)data;
    changes++;
}

static struct site site;
static struct tls_context *context;
static char path[96];

static int setup(void **state)
{
    (void)state;
    changes = 0;
    site_open(&site, "demo");
    context = site_context(&site, TLS_AGENT, "a");
    snprintf(path, sizeof(path), "%s/revoked", site.dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_context_free(context);
    site_close(&site);
    return 0;
}

static struct revoked_kept *open_kept(void)
{
    return revoked_kept_open(site.dir, context, &clock_table, on_changed, NULL);
}

static void take(struct revoked_kept *kept, uint64_t hash, const char *serial)
{
    Ckpt__V1__RevokedSerials list = CKPT__V1__REVOKED_SERIALS__INIT;
    char copy[64], *serials[] = {copy};

    snprintf(copy, sizeof(copy), "%s", serial);
    list.hash = hash;
    list.n_serials = serial[0] == '\0' ? 0 : 1;
    list.serials = serials;
    revoked_kept_take(kept, &list);
}

static void a_list_is_kept_over_a_start(void **state)
{
    struct revoked_kept *kept = open_kept();
    uint64_t generation = tls_context_generation(context);

    (void)state;
    assert_uint_equal(revoked_kept_hash(kept), 0);
    take(kept, 77, "0a1b");
    assert_uint_equal(revoked_kept_hash(kept), 77);
    assert_uint_equal(tls_context_generation(context), generation + 1);
    assert_int_equal(changes, 0); /* not from inside the message */
    assert_true(only.armed);
    only.fire(only.data);
    assert_int_equal(changes, 1);
    only.armed = false;
    take(kept, 77, "0a1b"); /* the same one again */
    assert_false(only.armed);
    revoked_kept_free(kept);
    kept = open_kept();
    assert_uint_equal(revoked_kept_hash(kept), 77);
    assert_uint_equal(tls_context_generation(context), generation + 2);
    take(kept, 0, ""); /* of a cluster that has revoked none */
    revoked_kept_free(kept);
    kept = open_kept();
    assert_uint_equal(revoked_kept_hash(kept), 0);
    revoked_kept_free(kept);
}

/* Its hash is not told then, so that the leader sends the list again. */
static void a_file_that_is_no_list_counts_as_none(void **state)
{
    static const char *const texts[] = {"",           "a note\n",        "hash 7",
                                        "hash 7\n0A", "hash 7\nxyz\n",   "hash 7\n\n",
                                        "hash 7\n0a", "hash 7\n0a1b 2\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FILE *file = fopen(path, "w");
        struct revoked_kept *kept;

        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        kept = open_kept();
        if (revoked_kept_hash(kept) != 0)
            fail_msg("\"%s\" was taken", texts[i]);
        revoked_kept_free(kept);
    }
}

static void a_list_that_is_wrong_is_not_taken(void **state)
{
    struct revoked_kept *kept = open_kept();

    (void)state;
    take(kept, 77, "0a1b");
    take(kept, 78, "0a1b\n0c");
    take(kept, 79, "0123456789012345678901234567890123456789012345678");
    assert_uint_equal(revoked_kept_hash(kept), 77);
    revoked_kept_free(kept);
}

static void without_tls_nothing_is_kept(void **state)
{
    (void)state;
    assert_null(revoked_kept_open(site.dir, NULL, &clock_table, on_changed, NULL));
    assert_uint_equal(revoked_kept_hash(NULL), 0);
    take(NULL, 1, "0a");
    revoked_kept_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_list_is_kept_over_a_start, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_list_counts_as_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_that_is_wrong_is_not_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(without_tls_nothing_is_kept, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
