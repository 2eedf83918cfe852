/* SMD, Redfish and Prometheus documents: what they say, and what strangers may send instead
 * (S1-051). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/telemetry/json.h"
#include "src/telemetry/prometheus.h"
#include "src/telemetry/redfish.h"
#include "src/telemetry/smd.h"
#include "tests/support/test.h"

static struct samples samples;
static struct redfish_links links;
static struct err err;

static int set_up(void **state)
{
    (void)state;
    samples_init(&samples);
    memset(&links, 0, sizeof(links));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    samples_close(&samples);
    redfish_links_close(&links);
    return 0;
}

static int smd(const char *text)
{
    return smd_parse(text, strlen(text), &samples, &err);
}

static int redfish(const char *text)
{
    return redfish_parse(text, strlen(text), &samples, &links, &err);
}

static int prometheus(const char *text)
{
    return prometheus_parse(text, strlen(text), 1000, &samples, &err);
}

static void expect(size_t i, enum telemetry_signal signal, const char *subject, double value)
{
    assert_true(i < samples.count);
    assert_int_equal(samples.items[i].signal, signal);
    if (subject != NULL)
        assert_string_equal(samples_subject(&samples, samples.items[i].subject), subject);
    else
        assert_true(samples.items[i].subject == SAMPLES_NO_SUBJECT);
    assert_double_near(samples.items[i].value, value, 1e-9);
}

/* ---- SMD ---- */

static void components_give_flag_and_state_of_nodes(void **state)
{
    (void)state;
    assert_int_equal(
        smd("{\"Components\":["
            "{\"ID\":\"x1000c0s0b0n0\",\"Type\":\"Node\",\"State\":\"Ready\",\"Flag\":\"OK\","
            "\"NID\":1},"
            "{\"ID\":\"x1000c0s0b0\",\"Type\":\"NodeBMC\",\"State\":\"Off\",\"Flag\":\"Alert\"},"
            "{\"ID\":\"x1000c0s0b0n1\",\"Type\":\"Node\",\"State\":\"Standby\",\"Flag\":\"Alert\"}]"
            "}"),
        0);
    assert_int_equal(samples.count, 4);
    expect(0, TELEMETRY_STATUS, "x1000c0s0b0n0|nid000001", 0);
    expect(1, TELEMETRY_POWER, "x1000c0s0b0n0|nid000001", 0);
    expect(2, TELEMETRY_STATUS, "x1000c0s0b0n1", 2);
    expect(3, TELEMETRY_POWER, "x1000c0s0b0n1", 1);
}

static void all_states_and_flags_of_the_api_are_known(void **state)
{
    static const struct {
        const char *flag, *state;
        double status, power;
    } cases[] = {{"OK", "Ready", 0, 0},       {"Warning", "On", 1, 0}, {"Alert", "Off", 2, 3},
                 {"Locked", "Standby", 0, 1}, {"OK", "Halt", 0, 3},    {"OK", "Empty", 0, 3},
                 {"OK", "Populated", 0, 0},   {"ok", "ready", 0, 0}};
    char text[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(text, sizeof(text),
                 "{\"Components\":[{\"ID\":\"n%zu\",\"Flag\":\"%s\",\"State\":\"%s\"}]}", i,
                 cases[i].flag, cases[i].state);
        assert_int_equal(smd(text), 0);
        assert_int_equal(samples.count, 2 * i + 2);
        assert_double_near(samples.items[2 * i].value, cases[i].status, 0);
        assert_double_near(samples.items[2 * i + 1].value, cases[i].power, 0);
    }
    assert_uint_equal(samples.refused, 0);
}

static void components_of_a_wrong_shape_are_skipped_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(smd("{\"Components\":[1,null,[],\"x\",{},{\"ID\":5},"
                         "{\"ID\":\"a b\",\"Flag\":\"OK\",\"State\":\"On\"},"
                         "{\"ID\":\"n1\",\"Flag\":7,\"State\":\"Sideways\",\"NID\":-3},"
                         "{\"ID\":\"n2\",\"Flag\":\"OK\",\"State\":\"On\",\"NID\":\"4\"}]}"),
                     0);
    assert_int_equal(samples.count, 2);
    expect(0, TELEMETRY_STATUS, "n2", 0);
    assert_true(samples.refused >= 5);
}

/* Published answers leave Flag out. */
static void a_component_without_flag_is_no_fault(void **state)
{
    (void)state;
    assert_int_equal(smd("{\"Components\":[{\"ID\":\"x3000c0s1b0n0\",\"Type\":\"Node\","
                         "\"State\":\"Ready\",\"Enabled\":true,\"NID\":1}]}"),
                     0);
    assert_int_equal(samples.count, 1);
    expect(0, TELEMETRY_POWER, "x3000c0s1b0n0|nid000001", 0);
    assert_uint_equal(samples.refused, 0);
}

static void what_is_no_list_of_components_is_an_error(void **state)
{
    static const char *const texts[] = {"",
                                        "null",
                                        "[]",
                                        "{}",
                                        "{\"Components\":{}}",
                                        "{\"a",
                                        "<html></html>",
                                        "\xff",
                                        "{\"Components\":[}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_int_equal(smd(texts[i]), -1);
    assert_int_equal(samples.count, 0);
}

/* ---- JSON from strangers ---- */

static void json_that_nests_too_deep_is_refused_before_it_is_parsed(void **state)
{
    enum { DEPTH = 1000000 };
    char *text = check_alloc(DEPTH + 1);
    json_t *document;

    (void)state;
    memset(text, '[', DEPTH);
    assert_null(json_parse(text, DEPTH, &err));
    assert_non_null(strstr(err.text, "nests"));
    memset(text, '[', 200); /* brackets in a text are no depth */
    memcpy(text, "{\"a\":\"\\\"", 8);
    memcpy(text + 198, "\"}", 2);
    document = json_parse(text, 200, &err);
    assert_non_null(document);
    json_decref(document);
    free(text);
}

/* ---- Redfish ---- */

static void the_root_leads_to_systems_and_chassis(void **state)
{
    (void)state;
    assert_int_equal(redfish("{\"@odata.type\":\"#ServiceRoot.v1_15_0.ServiceRoot\","
                             "\"Systems\":{\"@odata.id\":\"/redfish/v1/Systems\"},"
                             "\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"},"
                             "\"Tasks\":{\"@odata.id\":\"/redfish/v1/TaskService\"}}"),
                     0);
    assert_int_equal(links.count, 2);
    assert_string_equal(links.items[0], "/redfish/v1/Systems");
    assert_string_equal(links.items[1], "/redfish/v1/Chassis");
    assert_false(links.leaf);
}

static void members_and_the_next_page_are_followed(void **state)
{
    (void)state;
    assert_int_equal(
        redfish("{\"@odata.type\":\"#MemoryCollection.MemoryCollection\",\"Members\":["
                "{\"@odata.id\":\"/redfish/v1/Systems/1/Memory/1\"},{},3,"
                "{\"@odata.id\":\"/redfish/v1/Systems/1/Memory/2\"}],"
                "\"Members@odata.nextLink\":\"/redfish/v1/Systems/1/Memory?$skip=2\"}"),
        0);
    assert_int_equal(links.count, 3);
    assert_string_equal(links.items[2], "/redfish/v1/Systems/1/Memory?$skip=2");
}

static void error_counts_of_both_periods_are_parts_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(redfish("{\"@odata.type\":\"#MemoryMetrics.v1_7_0.MemoryMetrics\","
                             "\"@odata.id\":\"/redfish/v1/Systems/1/Memory/1/MemoryMetrics\","
                             "\"CurrentPeriod\":{\"CorrectableECCErrorCount\":3,"
                             "\"UncorrectableECCErrorCount\":1},"
                             "\"LifeTime\":{\"CorrectableECCErrorCount\":70,"
                             "\"UncorrectableECCErrorCount\":null},"
                             "\"HealthData\":{\"AlarmTrips\":{\"Temperature\":true}}}"),
                     0);
    assert_int_equal(samples.count, 4);
    expect(0, TELEMETRY_ECC_CORRECTABLE, NULL, 70);
    expect(1, TELEMETRY_ECC_CORRECTABLE, NULL, 3);
    expect(2, TELEMETRY_ECC_UNCORRECTABLE, NULL, 1);
    expect(3, TELEMETRY_THERMAL, NULL, 2);
    assert_true(samples.items[0].part != samples.items[1].part);
    assert_true(links.leaf);
}

static void processors_count_errors_of_their_caches(void **state)
{
    (void)state;
    assert_int_equal(redfish("{\"@odata.type\":\"#ProcessorMetrics.v1_6_1.ProcessorMetrics\","
                             "\"CacheMetricsTotal\":{\"LifeTime\":{\"CorrectableECCErrorCount\":1,"
                             "\"UncorrectableECCErrorCount\":2}}}"),
                     0);
    expect(0, TELEMETRY_ECC_CORRECTABLE, NULL, 1);
    expect(1, TELEMETRY_ECC_UNCORRECTABLE, NULL, 2);
    assert_int_equal(redfish("{\"@odata.type\":\"#ProcessorMetrics.v1_6_1.ProcessorMetrics\"}"), 0);
    assert_int_equal(samples.count, 2);
}

static void temperatures_are_judged_by_their_own_limits(void **state)
{
    (void)state;
    assert_int_equal(
        redfish("{\"@odata.type\":\"#Thermal.v1_7_1.Thermal\",\"Temperatures\":["
                "{\"MemberId\":\"0\",\"ReadingCelsius\":41,\"UpperThresholdNonCritical\":42,"
                "\"UpperThresholdCritical\":45,\"UpperThresholdFatal\":48},"
                "{\"MemberId\":\"1\",\"ReadingCelsius\":42,\"UpperThresholdNonCritical\":42},"
                "{\"MemberId\":\"2\",\"ReadingCelsius\":46,\"UpperThresholdCritical\":45},"
                "{\"MemberId\":\"3\",\"ReadingCelsius\":48,\"UpperThresholdFatal\":48},"
                "{\"MemberId\":\"4\",\"ReadingCelsius\":90},"
                "{\"MemberId\":\"5\",\"ReadingCelsius\":null},"
                "{\"MemberId\":\"6\",\"ReadingCelsius\":\"hot\"}]}"),
        0);
    assert_int_equal(samples.count, 5);
    for (size_t i = 0; i < 4; i++)
        expect(i, TELEMETRY_THERMAL, NULL, (double)i);
    expect(4, TELEMETRY_THERMAL, NULL, 1);
}

/* Published services leave ReadingType out. */
static void sensors_of_other_kinds_are_not_read_again(void **state)
{
    (void)state;
    assert_int_equal(redfish("{\"@odata.type\":\"#Sensor.v1_6_0.Sensor\",\"Reading\":3000,"
                             "\"ReadingUnits\":\"RPM\"}"),
                     0);
    assert_int_equal(samples.count, 0);
    assert_false(links.leaf);
    assert_int_equal(redfish("{\"@odata.type\":\"#Sensor.v1_6_0.Sensor\",\"Reading\":47,"
                             "\"ReadingUnits\":\"Cel\",\"Thresholds\":"
                             "{\"UpperCritical\":{\"Reading\":45}}}"),
                     0);
    expect(0, TELEMETRY_THERMAL, NULL, 2);
    assert_true(links.leaf);
}

static void thermal_metrics_lead_to_their_sensors(void **state)
{
    (void)state;
    assert_int_equal(redfish("{\"@odata.type\":\"#ThermalMetrics.v1_1_0.ThermalMetrics\","
                             "\"TemperatureReadingsCelsius\":[{\"Reading\":99,\"DeviceName\":\"a\","
                             "\"DataSourceUri\":\"/redfish/v1/Chassis/1/Sensors/a\"},"
                             "{\"Reading\":99,\"DeviceName\":\"b\"}]}"),
                     0);
    assert_int_equal(links.count, 1);
    assert_int_equal(samples.count, 1);
    expect(0, TELEMETRY_THERMAL, NULL, 2);
}

static void the_rollup_of_a_system_is_its_health(void **state)
{
    (void)state;
    assert_int_equal(redfish("{\"@odata.type\":\"#ComputerSystem.v1_20_0.ComputerSystem\","
                             "\"@odata.id\":\"/redfish/v1/Systems/1\",\"PowerState\":\"Off\","
                             "\"Status\":{\"Health\":\"OK\",\"HealthRollup\":\"Critical\"},"
                             "\"Memory\":{\"@odata.id\":\"/redfish/v1/Systems/1/Memory\"}}"),
                     0);
    expect(0, TELEMETRY_STATUS, NULL, 2);
    expect(1, TELEMETRY_POWER, NULL, 3);
    assert_int_equal(links.count, 1);
}

/* A BMC must not send its reader, with its credentials, to anybody else. */
static void links_never_leave_the_host(void **state)
{
    static const char *const bad[] = {"http://evil/redfish/v1/Systems",
                                      "//evil/redfish/v1/Systems",
                                      "/redfish/v1/../../etc/passwd",
                                      "/redfish/v1/%2e%2e/x",
                                      "/redfish/v1//evil",
                                      "/other",
                                      "/redfish/v1/a b",
                                      "/redfish/v1/a\r\nHost: x",
                                      "/redfish/v1/#x",
                                      "redfish/v1/Systems",
                                      "/redfish/v2/Systems",
                                      "/redfish/v1",
                                      "file:///etc/passwd",
                                      "@evil/redfish/v1/",
                                      "/redfish/v1/\\evil",
                                      ""};
    char longest[REDFISH_LINK_BYTES + 16] = "/redfish/v1/";

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_false(redfish_link_valid(bad[i]));
    assert_true(redfish_link_valid("/redfish/v1/Systems/1?$skip=2"));
    memset(longest + 12, 'a', REDFISH_LINK_BYTES - 12);
    assert_false(redfish_link_valid(longest));
    assert_int_equal(
        redfish("{\"@odata.type\":\"#ChassisCollection.ChassisCollection\",\"Members\":"
                "[{\"@odata.id\":\"http://evil/redfish/v1/x\"}],"
                "\"Members@odata.nextLink\":\"//evil/redfish/v1/\"}"),
        0);
    assert_int_equal(links.count, 0);
    assert_uint_equal(links.refused, 2);
}

static void documents_of_other_types_say_nothing_and_are_no_error(void **state)
{
    (void)state;
    assert_int_equal(
        redfish("{\"@odata.type\":\"#Fan.v1_0_0.Fan\",\"Status\":{\"Health\":\"OK\"}}"), 0);
    assert_int_equal(samples.count, 0);
    assert_int_equal(redfish("{\"@odata.type\":5}"), -1);
    assert_int_equal(redfish("{\"error\":{}}"), -1);
}

/* ---- Prometheus ---- */

static void metrics_of_dcgm_and_node_exporter_are_understood(void **state)
{
    (void)state;
    assert_int_equal(
        prometheus(
            "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.\n"
            "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
            "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"n1\",pod=\"a\"} 79\n"
            "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"n1\"} 96\n"
            "DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"n1\"} 1\n"
            "DCGM_EXP_XID_ERRORS_COUNT{gpu=\"0\",UUID=\"GPU-1\",xid=\"63\",Hostname=\"n1\"} 2\n"
            "node_edac_correctable_errors_total{controller=\"0\",instance=\"n2:9100\"} 1.2e+01\n"
            "up 1\r\n"
            "node_edac_uncorrectable_errors_total{controller=\"0\"} 0 2000\n"),
        0);
    assert_int_equal(samples.count, 6);
    expect(0, TELEMETRY_XID, "n1", 79);
    expect(1, TELEMETRY_THERMAL, "n1", 2);
    expect(2, TELEMETRY_ROW_REMAP_FAILURE, "n1", 3);
    expect(3, TELEMETRY_XID, "n1", 2);
    assert_int_equal(samples.items[3].code, 63);
    expect(4, TELEMETRY_ECC_CORRECTABLE, "n2", 12);
    expect(5, TELEMETRY_ECC_UNCORRECTABLE, NULL, 0);
}

/* The job on a GPU changes, and the order of labels: the part is the same. */
static void a_part_is_told_by_the_labels_that_stay(void **state)
{
    (void)state;
    assert_int_equal(
        prometheus("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"0\",UUID=\"G\",pod=\"a\"} 1\n"
                   "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{pod=\"b\", UUID=\"G\" ,gpu=\"0\",} 1\n"
                   "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"1\",UUID=\"H\",pod=\"a\"} 1\n"
                   "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL{gpu=\"0\",UUID=\"G\",pod=\"a\"} 1\n"),
        0);
    assert_int_equal(samples.count, 4);
    assert_true(samples.items[0].part == samples.items[1].part);
    assert_true(samples.items[0].part != samples.items[2].part);
    assert_true(samples.items[0].part != samples.items[3].part);
}

static void values_that_are_no_counts_are_refused(void **state)
{
    (void)state;
    assert_int_equal(prometheus("DCGM_FI_DEV_XID_ERRORS NaN\n"
                                "DCGM_FI_DEV_XID_ERRORS +Inf\n"
                                "DCGM_FI_DEV_XID_ERRORS -Inf\n"
                                "DCGM_FI_DEV_XID_ERRORS -1\n"
                                "DCGM_FI_DEV_XID_ERRORS 1e300\n"
                                "DCGM_FI_DEV_XID_ERRORS 140737488355328\n"
                                "DCGM_FI_DEV_XID_ERRORS 0x10\n"
                                "DCGM_FI_DEV_XID_ERRORS 1 2 3\n"
                                "DCGM_FI_DEV_XID_ERRORS\n"
                                "DCGM_FI_DEV_GPU_TEMP -1\n"
                                "DCGM_FI_DEV_GPU_TEMP 1e9\n"
                                "DCGM_FI_DEV_XID_ERRORS{Hostname=\"a\\\\b c\"} 1\n"),
                     0);
    assert_int_equal(samples.count, 0);
    assert_uint_equal(samples.refused, 12);
}

/* Clock-old telemetry: an aggregator repeats what an exporter said before it died. */
static void a_sample_whose_time_stamp_is_old_is_no_news(void **state)
{
    (void)state;
    assert_int_equal(prometheus("DCGM_FI_DEV_XID_ERRORS 79 999\nDCGM_FI_DEV_XID_ERRORS 48 1000\n"),
                     0);
    assert_int_equal(samples.count, 1);
    assert_uint_equal(samples.old, 1);
    expect(0, TELEMETRY_XID, NULL, 48);
}

static void lines_that_are_cut_or_twisted_are_skipped(void **state)
{
    static const char *const bad[] = {"{",
                                      "DCGM_FI_DEV_XID_ERRORS{",
                                      "DCGM_FI_DEV_XID_ERRORS{a",
                                      "DCGM_FI_DEV_XID_ERRORS{a=",
                                      "DCGM_FI_DEV_XID_ERRORS{a=\"",
                                      "DCGM_FI_DEV_XID_ERRORS{a=\"\\",
                                      "DCGM_FI_DEV_XID_ERRORS{a=\"b\"",
                                      "DCGM_FI_DEV_XID_ERRORS{a=\"b\" c=\"d\"} 1",
                                      "DCGM_FI_DEV_XID_ERRORS{a=\"b\"} 1x",
                                      "DCGM_FI_DEV_XID_ERRORS{a=b} 1",
                                      "\xff\xfe 1",
                                      "<html>"};
    char text[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        snprintf(text, sizeof(text), "good 1\n%s", bad[i]);
        assert_int_equal(prometheus(text), 0);
        assert_int_equal(prometheus(bad[i]), -1);
    }
    assert_int_equal(samples.count, 0);
}

static void labels_without_end_are_refused(void **state)
{
    char text[8192] = "good 1\nDCGM_FI_DEV_XID_ERRORS{";
    size_t length = strlen(text);

    (void)state;
    for (int i = 0; i < 500; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "Hostname=\"n\",");
    snprintf(text + length, sizeof(text) - length, "} 79\n");
    assert_int_equal(prometheus(text), 0);
    assert_int_equal(samples.count, 0);
    assert_uint_equal(samples.refused, 1);
}

static void samples_are_bounded(void **state)
{
    struct telemetry_sample sample = {.signal = TELEMETRY_XID, .subject = SAMPLES_NO_SUBJECT};
    char name[SAMPLES_SUBJECT_MAX + 2];

    (void)state;
    for (size_t i = 0; i < SAMPLES_MAX + 5; i++)
        samples_add(&samples, &sample);
    assert_int_equal(samples.count, SAMPLES_MAX);
    assert_uint_equal(samples.dropped, 5);
    memset(name, 'a', sizeof(name));
    assert_true(samples_add_subject(&samples, name, sizeof(name)) == SAMPLES_NO_SUBJECT - 1);
    sample.subject = SAMPLES_NO_SUBJECT - 1;
    samples_add(&samples, &sample);
    assert_uint_equal(samples.refused, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(components_give_flag_and_state_of_nodes),
        TEST(all_states_and_flags_of_the_api_are_known),
        TEST(components_of_a_wrong_shape_are_skipped_one_by_one),
        TEST(a_component_without_flag_is_no_fault),
        TEST(what_is_no_list_of_components_is_an_error),
        TEST(json_that_nests_too_deep_is_refused_before_it_is_parsed),
        TEST(the_root_leads_to_systems_and_chassis),
        TEST(members_and_the_next_page_are_followed),
        TEST(error_counts_of_both_periods_are_parts_of_their_own),
        TEST(processors_count_errors_of_their_caches),
        TEST(temperatures_are_judged_by_their_own_limits),
        TEST(sensors_of_other_kinds_are_not_read_again),
        TEST(thermal_metrics_lead_to_their_sensors),
        TEST(the_rollup_of_a_system_is_its_health),
        TEST(links_never_leave_the_host),
        TEST(documents_of_other_types_say_nothing_and_are_no_error),
        TEST(metrics_of_dcgm_and_node_exporter_are_understood),
        TEST(a_part_is_told_by_the_labels_that_stay),
        TEST(values_that_are_no_counts_are_refused),
        TEST(a_sample_whose_time_stamp_is_old_is_no_news),
        TEST(lines_that_are_cut_or_twisted_are_skipped),
        TEST(labels_without_end_are_refused),
        TEST(samples_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
