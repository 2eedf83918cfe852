/* Which documents are read, the map of names, and when a source is asked again. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/telemetry/file.h"
#include "src/telemetry/map.h"
#include "src/telemetry/source.h"
#include "src/telemetry/walk.h"
#include "tests/support/test.h"

/* ---- walks ---- */

static void found(struct walk *walk, bool leaf, const char *first, const char *second)
{
    struct redfish_links links = {.leaf = leaf};

    if (first != NULL)
        links.items[links.count++] = check_strdup(first);
    if (second != NULL)
        links.items[links.count++] = check_strdup(second);
    walk_found(walk, &links);
    redfish_links_close(&links);
}

static void the_second_poll_reads_the_leaves_only(void **state)
{
    struct walk walk = {0};

    (void)state;
    walk_begin(&walk);
    assert_string_equal(walk_next(&walk), "/redfish/v1/");
    found(&walk, false, "/redfish/v1/Systems", NULL);
    assert_string_equal(walk_next(&walk), "/redfish/v1/Systems");
    found(&walk, true, "/redfish/v1/Systems/1", NULL);
    assert_string_equal(walk_next(&walk), "/redfish/v1/Systems/1");
    found(&walk, true, NULL, NULL);
    assert_null(walk_next(&walk));
    walk_begin(&walk);
    assert_string_equal(walk_next(&walk), "/redfish/v1/Systems");
    found(&walk, true, "/redfish/v1/new",
          NULL); /* links are followed by the walks from the root only */
    assert_string_equal(walk_next(&walk), "/redfish/v1/Systems/1");
    found(&walk, true, NULL, NULL);
    assert_null(walk_next(&walk));
    walk_close(&walk);
}

static void links_in_a_circle_end(void **state)
{
    struct walk walk = {0};
    int documents = 0;

    (void)state;
    walk_begin(&walk);
    while (walk_next(&walk) != NULL) {
        found(&walk, false, "/redfish/v1/a", "/redfish/v1/");
        assert_true(++documents < 10);
    }
    assert_int_equal(documents, 2);
    walk_close(&walk);
}

/* Each document names two new ones, for ever: pages of pages. */
static void endless_links_are_cut_by_depth_and_by_count(void **state)
{
    struct walk walk = {0};
    char first[64], second[64];
    unsigned documents = 0;

    (void)state;
    walk_begin(&walk);
    while (walk_next(&walk) != NULL) {
        documents++;
        snprintf(first, sizeof(first), "/redfish/v1/%u", 2 * documents);
        snprintf(second, sizeof(second), "/redfish/v1/%u", 2 * documents + 1);
        found(&walk, false, first, second);
    }
    assert_true(documents <= WALK_DOCUMENTS_MAX);
    assert_int_equal(documents, (1 << (WALK_DEPTH_MAX + 1)) - 1);
    assert_true(walk.cut > 0);
    walk_close(&walk);
}

static void a_leaf_that_is_gone_makes_the_next_poll_look_for_its_place(void **state)
{
    struct walk walk = {0};

    (void)state;
    walk_begin(&walk);
    found(&walk, true, NULL, NULL);
    walk_begin(&walk);
    assert_false(walk.discover);
    walk_missed(&walk);
    walk_begin(&walk);
    assert_true(walk.discover);
    assert_string_equal(walk_next(&walk), "/redfish/v1/");
    walk_close(&walk);
}

static void everything_is_read_again_now_and_then(void **state)
{
    struct walk walk = {0};
    int discovered = 0;

    (void)state;
    for (int poll = 0; poll < 2 * WALK_EVERY; poll++) {
        walk_begin(&walk);
        discovered += walk.discover;
        found(&walk, true, NULL, NULL);
    }
    assert_int_equal(discovered, 2);
    walk_close(&walk);
}

/* ---- maps ---- */

static int parse(const char *text, struct map *map, struct err *err)
{
    return map_parse("names", text, strlen(text), map, err);
}

static void names_lead_to_nodes_and_rows_to_hosts(void **state)
{
    struct map map = {0};
    struct err err;

    (void)state;
    assert_int_equal(
        parse("# comment\n\nn1 10.0.0.1:8443 x1000c0s0b0n0\n\tn2  bmc-2 # two\r\n", &map, &err), 0);
    assert_int_equal(map.row_count, 2);
    assert_string_equal(map.rows[0].name, "10.0.0.1:8443");
    assert_string_equal(map.rows[1].node, "n2");
    assert_string_equal(map_find(&map, "x1000c0s0b0n0"), "n1");
    assert_string_equal(map_find(&map, "bmc-2"), "n2");
    assert_null(map_find(&map, "n1"));
    assert_null(map_find(&map, ""));
    map_close(&map);
    assert_null(map_find(&map, "bmc-2"));
}

static void a_map_with_a_fault_names_the_line(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {{"n1 a\nn2\n", "line 2: node n2 has no name"},
                 {"n1 a\nn/2 b\n", "line 2: 'n/2' cannot be a node"},
                 {"n1 a/../b\n", "line 1: 'a/../b' cannot be a name"},
                 {"n1 user@host\n", "line 1: 'user@host' cannot be a name"},
                 {"n1 a\nn2 a\n", "'a' belongs to both"}};
    struct map map;
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(parse(cases[i].text, &map, &err), -1);
        if (strstr(err.text, cases[i].expected) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].expected, err.text);
    }
    assert_int_equal(map_parse("names", "n1 a\0b", 6, &map, &err), -1);
    assert_int_equal(map_load("/nonexistent/map", &map, &err), -1);
}

/* K-006 */
static void a_secret_that_others_may_read_is_refused(void **state)
{
    char path[] = "/tmp/ckpt-secret-XXXXXX";
    int fd = mkstemp(path);
    struct buf text;
    struct err err;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a:b\n", 4), 4);
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(file_read(path, 100, FILE_SECRET, &text, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(file_read(path, 100, FILE_SECRET, &text, &err), 0);
    assert_int_equal(text.length, 4);
    buf_close(&text);
    assert_int_equal(file_read(path, 3, FILE_ANY, &text, &err), -1);
    assert_int_equal(err.code, ERR_FULL);
    assert_int_equal(file_read("/tmp", 3, FILE_ANY, &text, &err), -1);
    close(fd);
    unlink(path);
}

/* ---- polls ---- */

static void failures_back_off_and_a_jitter_spreads_them(void **state)
{
    (void)state;
    for (uint32_t random = 0; random < 5000; random += 7) {
        uint64_t well_ms = source_delay_ms(1000, 0, random);

        assert_true(well_ms >= 900 && well_ms < 1100);
        assert_uint_equal(source_delay_ms(1000, 1, random), well_ms);
        assert_uint_equal(source_delay_ms(1000, 2, random), well_ms + 1000);
        assert_uint_equal(source_delay_ms(1000, 3, random), well_ms + 3000);
        assert_uint_equal(source_delay_ms(1000, 100, random), well_ms + 7000);
    }
    assert_uint_equal(source_delay_ms(1, 0, 12345), 1);
}

static void the_host_takes_its_place_in_the_url(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(source_url("https://{host}/a", "bmc1", text, sizeof(text)),
                        "https://bmc1/a");
    assert_string_equal(source_url("{host}{host}", "x", text, sizeof(text)), "xx");
    assert_null(source_url("https://{host}", "a-very-long-name-of-a-host-0", text, sizeof(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_poll_reads_the_leaves_only),
        cmocka_unit_test(links_in_a_circle_end),
        cmocka_unit_test(endless_links_are_cut_by_depth_and_by_count),
        cmocka_unit_test(a_leaf_that_is_gone_makes_the_next_poll_look_for_its_place),
        cmocka_unit_test(everything_is_read_again_now_and_then),
        cmocka_unit_test(names_lead_to_nodes_and_rows_to_hosts),
        cmocka_unit_test(a_map_with_a_fault_names_the_line),
        cmocka_unit_test(a_secret_that_others_may_read_is_refused),
        cmocka_unit_test(failures_back_off_and_a_jitter_spreads_them),
        cmocka_unit_test(the_host_takes_its_place_in_the_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
