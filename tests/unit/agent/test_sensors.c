/* Memory errors and temperatures from sysfs, and what heartbeats say of them: absent is unknown,
 * not 0 (L-004, S1-012). */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/daemon/vitals.h"
#include "src/base/check.h"
#include "tests/support/test.h"

static char root[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-sysfs-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* A file below the root, with its folders. */
static void put(const char *name, const char *content)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

#define EDAC "devices/system/edac/mc/"

static void a_machine_without_sensors_measures_nothing(void **state)
{
    struct sensors sensors;

    (void)state;
    sensors_read(root, &sensors);
    assert_false(sensors.ecc_measured);
    assert_int_equal(sensors.temperature_milli_celsius, 0);
    sensors_read("/nonexistent", &sensors);
    assert_false(sensors.ecc_measured);
}

static void errors_of_all_controllers_are_summed(void **state)
{
    struct sensors sensors;

    (void)state;
    put(EDAC "mc0/ce_count", "3\n");
    put(EDAC "mc0/ue_count", "0\n");
    put(EDAC "mc7/ce_count", "4\n");
    put(EDAC "mc7/ue_count", "1\n");
    sensors_read(root, &sensors);
    assert_true(sensors.ecc_measured);
    assert_uint_equal(sensors.ecc_correctable_count, 7);
    assert_uint_equal(sensors.ecc_uncorrectable_count, 1);
}

static void counts_that_are_none_are_unknown(void **state)
{
    static const char *const texts[] = {"", "\n", "x\n", "-1\n", "3x\n", "99999999999999999999\n"};
    struct sensors sensors;

    (void)state;
    put(EDAC "mc0/ue_count", "0\n");
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        put(EDAC "mc0/ce_count", texts[i]);
        sensors_read(root, &sensors);
        assert_false(sensors.ecc_measured);
    }
}

static void the_sensor_closest_to_its_limit_speaks(void **state)
{
    struct sensors sensors;

    (void)state;
    put("class/hwmon/hwmon0/temp1_input", "70000\n"); /* 5 below its limit */
    put("class/hwmon/hwmon0/temp1_crit", "75000\n");
    put("class/hwmon/hwmon1/temp3_input", "80000\n"); /* 20 below */
    put("class/hwmon/hwmon1/temp3_crit", "100000\n");
    put("class/hwmon/hwmon2/temp1_input", "90000\n");   /* names no limit */
    put("class/hwmon/hwmon3/temp1_input", "4000000\n"); /* nonsense */
    sensors_read(root, &sensors);
    assert_int_equal(sensors.temperature_milli_celsius, 70000);
    assert_int_equal(sensors.temperature_limit_milli_celsius, 75000);
}

static void a_thermal_zone_has_its_limit_at_its_critical_trip_point(void **state)
{
    struct sensors sensors;

    (void)state;
    put("class/thermal/thermal_zone0/temp", "61000\n");
    put("class/thermal/thermal_zone0/trip_point_0_type", "passive\n");
    put("class/thermal/thermal_zone0/trip_point_0_temp", "65000\n");
    put("class/thermal/thermal_zone0/trip_point_1_type", "critical\n");
    put("class/thermal/thermal_zone0/trip_point_1_temp", "90000\n");
    sensors_read(root, &sensors);
    assert_int_equal(sensors.temperature_milli_celsius, 61000);
    assert_int_equal(sensors.temperature_limit_milli_celsius, 90000);
}

/* ---- heartbeats ---- */

static uint64_t now_us;
static void (*reading_done)(void *data, const struct sensors *sensors);
static void *reading_data;

static uint64_t monotonic_us(void *context)
{
    (void)context;
    return now_us;
}

static struct sensors_reading *start(void *context, const char *of,
                                     void (*done)(void *data, const struct sensors *sensors),
                                     void *data)
{
    (void)context;
    (void)of;
    assert_null(reading_done); /* one at a time */
    reading_done = done;
    reading_data = data;
    return (struct sensors_reading *)&now_us;
}

static void detach(struct sensors_reading *reading)
{
    (void)reading;
    reading_done = NULL;
}

static void answer(bool measured, uint64_t correctable, uint64_t uncorrectable)
{
    struct sensors sensors = {.ecc_measured = measured,
                              .ecc_correctable_count = correctable,
                              .ecc_uncorrectable_count = uncorrectable,
                              .gpu_count = 4};
    void (*done)(void *data, const struct sensors *sensors) = reading_done;

    assert_non_null(done);
    reading_done = NULL;
    done(reading_data, &sensors);
}

static Ckpt__V1__AgentHeartbeat beat(struct vitals *vitals)
{
    Ckpt__V1__AgentHeartbeat heartbeat = CKPT__V1__AGENT_HEARTBEAT__INIT;

    now_us += 10000000;
    vitals_fill(vitals, &heartbeat);
    return heartbeat;
}

static void heartbeats_say_since_when_errors_rise(void **state)
{
    const struct machine_ops machine = {.sensors_start = start, .sensors_detach = detach};
    const struct clock_ops clock = {.monotonic_us = monotonic_us};
    struct vitals vitals;
    Ckpt__V1__AgentHeartbeat heartbeat;

    (void)state;
    now_us = 1000000;
    reading_done = NULL;
    vitals_open(&vitals, &machine, &clock, "/sys");
    assert_false(beat(&vitals).ecc_measured); /* nothing was read yet */
    answer(true, 500, 0);
    heartbeat = beat(&vitals);
    assert_true(heartbeat.ecc_measured);
    assert_uint_equal(heartbeat.ecc_correctable_count, 500);
    assert_uint_equal(heartbeat.gpu_count, 4);
    assert_uint_equal(heartbeat.ecc_correctable_risen_ms, 0); /* before this agent's time */
    answer(true, 501, 0);
    assert_uint_equal(beat(&vitals).ecc_correctable_risen_ms, 10000);
    answer(true, 501, 2);
    heartbeat = beat(&vitals);
    assert_uint_equal(heartbeat.ecc_correctable_risen_ms, 20000);
    assert_uint_equal(heartbeat.ecc_uncorrectable_risen_ms, 10000);
    answer(false, 0, 0); /* a driver that is reloaded */
    assert_false(beat(&vitals).ecc_measured);
    answer(true, 501, 2);
    assert_uint_equal(beat(&vitals).ecc_uncorrectable_risen_ms,
                      30000); /* that was no rise from 0 */
    vitals_close(&vitals);
    assert_null(reading_done);
}

/* A claim for a waiting job counts an idle node by it (P-004). */
static void whole_gpus_of_known_makers_are_counted(void **state)
{
    static const struct {
        const char *name, *vendor, *class;
    } functions[] = {{"0000:3b:00.0", "0x10de\n", "0x030200\n"}, /* GPUs */
                     {"0000:86:00.0", "0x1002\n", "0x120000\n"},
                     {"0000:87:00.0", "0x1002\n", "0x038000\n"},
                     {"0000:03:00.0", "0x1a03\n", "0x030000\n"}, /* of the BMC */
                     {"0000:00:02.0", "0x8086\n", "0x030000\n"}, /* of the processor */
                     {"0000:c4:00.0", "0x10de\n", "0x068000\n"}, /* a switch */
                     {"0000:3b:00.4", "0x10de\n", "0x030200\n"}};
    struct sensors sensors;
    char name[128];

    (void)state;
    sensors_read(root, &sensors);
    assert_uint_equal(sensors.gpu_count, 0);
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        snprintf(name, sizeof(name), "bus/pci/devices/%s/vendor", functions[i].name);
        put(name, functions[i].vendor);
        snprintf(name, sizeof(name), "bus/pci/devices/%s/class", functions[i].name);
        put(name, functions[i].class);
    }
    put("bus/pci/devices/0000:3b:00.4/physfn/class", "0x030200\n"); /* a part of the first */
    sensors_read(root, &sensors);
    assert_uint_equal(sensors.gpu_count, 3);
}

/* A sensor that hangs: what was known is not repeated for ever. */
static void a_reading_that_hangs_makes_the_node_unmeasured(void **state)
{
    const struct machine_ops machine = {.sensors_start = start, .sensors_detach = detach};
    const struct clock_ops clock = {.monotonic_us = monotonic_us};
    struct vitals vitals;

    (void)state;
    reading_done = NULL;
    vitals_open(&vitals, &machine, &clock, "/sys");
    answer(true, 1, 0);
    for (int i = 0; i < VITALS_OLD_HEARTBEATS; i++)
        assert_true(beat(&vitals).ecc_measured);
    assert_false(beat(&vitals).ecc_measured);
    answer(true, 1, 0);
    assert_true(beat(&vitals).ecc_measured);
    vitals_close(&vitals);
}

static void nothing_is_read_where_no_sysfs_is_named(void **state)
{
    const struct machine_ops machine = {.sensors_start = start, .sensors_detach = detach};
    const struct clock_ops clock = {.monotonic_us = monotonic_us};
    struct vitals vitals;

    (void)state;
    reading_done = NULL;
    vitals_open(&vitals, &machine, &clock, "");
    assert_false(beat(&vitals).ecc_measured);
    assert_null(reading_done);
    vitals_close(&vitals);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_machine_without_sensors_measures_nothing),
        TEST(errors_of_all_controllers_are_summed),
        TEST(counts_that_are_none_are_unknown),
        TEST(the_sensor_closest_to_its_limit_speaks),
        TEST(a_thermal_zone_has_its_limit_at_its_critical_trip_point),
        TEST(whole_gpus_of_known_makers_are_counted),
        cmocka_unit_test(heartbeats_say_since_when_errors_rise),
        cmocka_unit_test(a_reading_that_hangs_makes_the_node_unmeasured),
        cmocka_unit_test(nothing_is_read_where_no_sysfs_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
