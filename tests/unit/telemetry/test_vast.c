/* What the VMS of a VAST cluster says, and what strangers may send instead (S1-005, S1-052,
 * S1-061). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/telemetry/vast.h"
#include "tests/support/test.h"

#define CLUSTER                                                                                    \
    "{\"id\":1,\"name\":\"vast-1\",\"state\":\"ONLINE\",\"leader_state\":\"UP\","                  \
    "\"ssd_raid_state\":\"HEALTHY\",\"nvram_raid_state\":\"HEALTHY\","                             \
    "\"memory_raid_state\":\"HEALTHY\",\"wr_bw\":27904056.5,\"wr_bw_mb\":27.904,"                  \
    "\"max_performance\":{\"read_bw\":70,\"write_bw\":14.5},\"max_cluster_write_bw_mb\":0}"
#define GB UINT64_C(1000000000)

static struct vast_cluster cluster;
static struct err err;

static int named(const char *text, const char *name)
{
    return vast_parse(text, strlen(text), name, &cluster, &err);
}

static int parse(const char *text)
{
    return named(text, "");
}

static void both_shapes_of_a_list_say_the_same(void **state)
{
    static const char *const lists[] = {
        "[" CLUSTER "]", "{\"count\":1,\"next\":null,\"previous\":null,\"results\":[" CLUSTER "]}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        memset(&cluster, 0, sizeof(cluster));
        assert_int_equal(parse(lists[i]), 0);
        assert_true(cluster.up);
        assert_string_equal(cluster.trouble, "");
        assert_double_near(cluster.write_bytes_per_s, 27904056.5, 1e-3);
        assert_double_near(cluster.limit_bytes_per_s, 14.5e9, 1);
        assert_int_equal(cluster.refused, 0);
    }
}

static void one_of_several_clusters_is_named(void **state)
{
    static const char list[] = "[{\"name\":\"a\",\"state\":\"OFFLINE\"}," CLUSTER "]";

    (void)state;
    assert_int_equal(named(list, "vast-1"), 0);
    assert_true(cluster.up);
    assert_int_equal(named(list, "a"), 0);
    assert_false(cluster.up);
    assert_int_equal(parse(list), -1);
    assert_non_null(strstr(err.text, "2 clusters"));
    assert_int_equal(named(list, "b"), -1);
    assert_non_null(strstr(err.text, "called b"));
}

/* S1-061: a 200 that says so is an outage */
static void a_state_that_is_not_online_is_an_outage(void **state)
{
    static const char *const states[] = {"INIT",    "ACTIVATING", "DEACTIVATING", "OFFLINE",
                                         "FAILED",  "UNKNOWN",    "online",       "ONLINE ",
                                         "NEW_ONE", "a\\u000ab"};
    char text[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(states); i++) {
        snprintf(text, sizeof(text), "[{\"state\":\"%s\"}]", states[i]);
        assert_int_equal(parse(text), 0);
        assert_false(cluster.up);
        assert_non_null(strstr(cluster.trouble, "the VMS says that state is "));
        assert_null(strchr(cluster.trouble, '\n'));
    }
}

static void a_raid_that_is_neither_healthy_nor_rebalancing_is_an_outage(void **state)
{
    (void)state;
    assert_int_equal(parse("[{\"state\":\"ONLINE\",\"ssd_raid_state\":\"REBALANCE\"}]"), 0);
    assert_true(cluster.up);
    assert_int_equal(parse("[{\"state\":\"ONLINE\",\"ssd_raid_state\":null}]"), 0);
    assert_true(cluster.up);
    assert_int_equal(parse("[{\"state\":\"ONLINE\",\"nvram_raid_state\":\"FAILED\"}]"), 0);
    assert_false(cluster.up);
    assert_string_equal(cluster.trouble, "the VMS says that nvram_raid_state is FAILED");
    assert_int_equal(parse("[{\"state\":\"OFFLINE\",\"memory_raid_state\":\"DEGRADED\"}]"), 0);
    assert_string_equal(cluster.trouble, "the VMS says that state is OFFLINE");
}

/* S1-061: what is not an answer about a cluster says nothing about the storage */
static void what_is_no_list_of_clusters_is_an_error_and_no_outage(void **state)
{
    static const char *const texts[] = {"",
                                        "<html>502 Bad Gateway</html>",
                                        "{\"detail\":\"not found\",\"code\":\"x\"}",
                                        "[]",
                                        "[1]",
                                        "[{}]",
                                        "[{\"state\":7}]",
                                        "[{\"state\":\"\"}]",
                                        "{\"results\":{}}",
                                        "\"ONLINE\"",
                                        "[{\"state\":\"ONLINE\",\"wr_bw\":1e999}]",
                                        "[{\"state\":\"ONLINE\",\"wr_bw\":NaN}]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        err.code = ERR_NONE;
        assert_int_equal(parse(texts[i]), -1);
        assert_true(err.code != ERR_NONE);
    }
}

static void rates_that_none_can_be_are_refused_and_unknown(void **state)
{
    static const char *const rates[] = {"-1", "1e14", "1e300", "\"NaN\"", "\"27\"", "[]", "true"};
    char text[160];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        snprintf(text, sizeof(text),
                 "[{\"state\":\"ONLINE\",\"wr_bw\":%s,\"max_performance\":{\"write_bw\":%s}}]",
                 rates[i], rates[i]);
        assert_int_equal(parse(text), 0);
        assert_true(cluster.up);
        assert_true(isnan(cluster.write_bytes_per_s) && isnan(cluster.limit_bytes_per_s));
        assert_int_equal(cluster.refused, 2);
    }
    assert_int_equal(parse("[{\"state\":\"ONLINE\",\"wr_bw\":0,\"max_performance\":null}]"), 0);
    assert_double_near(cluster.write_bytes_per_s, 0, 0);
    assert_true(isnan(cluster.limit_bytes_per_s));
    assert_int_equal(cluster.refused, 0);
    assert_int_equal(parse("[{\"state\":\"ONLINE\",\"max_performance\":{\"write_bw\":0}}]"), 0);
    assert_true(isnan(cluster.limit_bytes_per_s) && cluster.refused == 0);
}

/* ---- what is left ---- */

static uint64_t headroom(double writes, double limit, uint64_t cap, uint64_t own)
{
    struct vast_cluster said = {
        .up = true, .write_bytes_per_s = writes, .limit_bytes_per_s = limit};
    struct vast_share share = {
        .cap_bytes_per_s = cap, .own_bytes_per_s = own, .most_bytes_per_s = 10 * GB};

    return vast_headroom(&said, &share);
}

static void headroom_is_the_lower_limit_less_what_others_write(void **state)
{
    (void)state;
    assert_int_equal(headroom(6e9, 14e9, 0, 0), 8 * GB);
    assert_int_equal(headroom(6e9, 14e9, 9 * GB, 0), 3 * GB);
    assert_int_equal(headroom(6e9, NAN, 9 * GB, 0), 3 * GB);
    assert_int_equal(headroom(6e9, 14e9, 100 * GB, 0), 8 * GB);
}

/* wr_bw holds them too: they would close the gate behind which they write */
static void own_writes_are_not_others(void **state)
{
    (void)state;
    assert_int_equal(headroom(12e9, 14e9, 0, 0), 2 * GB);
    assert_int_equal(headroom(12e9, 14e9, 0, 5 * GB), 7 * GB);
    assert_int_equal(headroom(5e9, 14e9, 8 * GB, 6 * GB), 8 * GB); /* granted, not yet written */
}

static void headroom_stays_between_its_floor_and_what_the_target_takes(void **state)
{
    (void)state;
    assert_int_equal(headroom(0, 14e9, 0, 0), 10 * GB);
    assert_int_equal(headroom(20e9, 14e9, 0, 0), GB / 2);
    assert_int_equal(headroom(20e9, 14e9, 1, 0), GB / 2);
}

static void without_a_limit_or_a_rate_nothing_is_known(void **state)
{
    (void)state;
    assert_int_equal(headroom(6e9, NAN, 0, 0), 0);
    assert_int_equal(headroom(NAN, 14e9, 9 * GB, 0), 0);
}

/* ---- logging in ---- */

static void a_login_is_quoted_and_its_token_is_a_headers_text(void **state)
{
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "{\"access\":\"\"}",
                                      "{\"access\":\"a b\"}",
                                      "{\"access\":\"a\\r\\nX: y\"}",
                                      "{\"access\":7}",
                                      "no"};
    struct buf body;
    char *token;

    (void)state;
    buf_init(&body);
    vast_login("reader:pa\"ss:wo\\rd", &body);
    assert_string_equal((const char *)body.bytes,
                        "{\"username\":\"reader\",\"password\":\"pa\\\"ss:wo\\\\rd\"}");
    assert_int_equal(body.length, strlen((const char *)body.bytes));
    buf_close(&body);
    token = vast_token("{\"access\":\"a.b-c\",\"refresh\":\"d\"}",
                       strlen("{\"access\":\"a.b-c\",\"refresh\":\"d\"}"), &err);
    assert_string_equal(token, "a.b-c");
    free(token);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_null(vast_token(bad[i], strlen(bad[i]), &err));
}

static void expiry_is_told_from_a_missing_right(void **state)
{
    static const char expired[] = "{\"detail\":\"Token is invalid or expired\"}";
    static const char denied[] = "{\"detail\":\"You do not have permission\"}";

    (void)state;
    assert_true(vast_token_refused(401, "", 0));
    assert_true(vast_token_refused(403, expired, strlen(expired)));
    assert_false(vast_token_refused(403, denied, strlen(denied)));
    assert_false(vast_token_refused(403, "", 0));
    assert_false(vast_token_refused(503, expired, strlen(expired)));
}

static void addresses_lead_to_the_version_that_was_configured(void **state)
{
    char text[64];

    (void)state;
    assert_string_equal(vast_url("https://v:1", "/clusters/", text, sizeof(text)),
                        "https://v:1/api/clusters/");
    assert_string_equal(vast_url("https://v/", "/clusters/", text, sizeof(text)),
                        "https://v/api/clusters/");
    assert_string_equal(vast_url("https://v/api/v7/", "/clusters/", text, sizeof(text)),
                        "https://v/api/v7/clusters/");
    assert_string_equal(vast_url("https://v/api/v7", VAST_TOKEN_PATH, text, sizeof(text)),
                        "https://v/api/token/");
    assert_string_equal(vast_url("https://v", VAST_TOKEN_PATH, text, sizeof(text)),
                        "https://v/api/token/");
    assert_null(vast_url("https://v", "/clusters/", text, 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_shapes_of_a_list_say_the_same),
        cmocka_unit_test(one_of_several_clusters_is_named),
        cmocka_unit_test(a_state_that_is_not_online_is_an_outage),
        cmocka_unit_test(a_raid_that_is_neither_healthy_nor_rebalancing_is_an_outage),
        cmocka_unit_test(what_is_no_list_of_clusters_is_an_error_and_no_outage),
        cmocka_unit_test(rates_that_none_can_be_are_refused_and_unknown),
        cmocka_unit_test(headroom_is_the_lower_limit_less_what_others_write),
        cmocka_unit_test(own_writes_are_not_others),
        cmocka_unit_test(headroom_stays_between_its_floor_and_what_the_target_takes),
        cmocka_unit_test(without_a_limit_or_a_rate_nothing_is_known),
        cmocka_unit_test(a_login_is_quoted_and_its_token_is_a_headers_text),
        cmocka_unit_test(expiry_is_told_from_a_missing_right),
        cmocka_unit_test(addresses_lead_to_the_version_that_was_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
