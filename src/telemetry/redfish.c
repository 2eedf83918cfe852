/* One document of a BMC. See redfish.h.
 *
 * Flow     @odata.type -> a row of `kinds` -> its function takes values and links. A new type of
 *          document is a row and a function.
 */
#include "src/telemetry/redfish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/check.h"
#include "src/telemetry/json.h"

#define ROOT "/redfish/v1"

struct document {
    const json_t *object;
    struct samples *samples;
    struct redfish_links *links;
};

void redfish_links_close(struct redfish_links *links)
{
    for (size_t i = 0; i < links->count; i++)
        free(links->items[i]);
    memset(links, 0, sizeof(*links));
}

const char *redfish_root(void)
{
    return ROOT "/";
}

bool redfish_link_valid(const char *link)
{
    size_t length = strlen(link);

    if (length >= REDFISH_LINK_BYTES || strncmp(link, ROOT "/", strlen(ROOT "/")) != 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (link[i] <= ' ' || link[i] > '~' || link[i] == '\\' || link[i] == '#')
            return false;
    }
    return strstr(link, "..") == NULL && strstr(link, "//") == NULL &&
           strcasestr(link, "%2e") == NULL && strcasestr(link, "%2f") == NULL;
}

/* Something of the document, as one number. */
static uint64_t part_of(const struct document *document, const char *what)
{
    const char *id = json_text(document->object, "@odata.id");
    uint64_t hash = samples_hash(SAMPLES_HASH, id, strlen(id));

    return samples_hash(hash, what, strlen(what));
}

static void add_sample(const struct document *document, enum telemetry_signal signal,
                       const char *part, double value)
{
    struct telemetry_sample sample = {.signal = signal,
                                      .subject = SAMPLES_NO_SUBJECT,
                                      .part = part_of(document, part),
                                      .value = value};

    samples_add(document->samples, &sample);
}

/* ---- links ---- */

static void follow_text(const struct document *document, const char *link)
{
    struct redfish_links *links = document->links;

    if (!redfish_link_valid(link) || links->count == REDFISH_LINKS_MAX) {
        links->refused++;
        return;
    }
    links->items[links->count++] = check_strdup(link);
}

static void follow_value(const struct document *document, const json_t *reference)
{
    const char *link = json_text(reference, "@odata.id");

    if (link[0] != '\0')
        follow_text(document, link);
}

static void follow_member(const struct document *document, const char *name)
{
    follow_value(document, json_object_get(document->object, name));
}

static void follow_members(const struct document *document)
{
    const json_t *members = json_object_get(document->object, "Members");
    const char *next = json_text(document->object, "Members@odata.nextLink");

    for (size_t i = 0; i < json_array_size(members); i++)
        follow_value(document, json_array_get(members, i));
    if (next[0] != '\0')
        follow_text(document, next);
}

/* ---- values ---- */

static double health_level(const char *health)
{
    if (strcasecmp(health, "Critical") == 0)
        return 2;
    if (strcasecmp(health, "Warning") == 0)
        return 1;
    return strcasecmp(health, "OK") == 0 ? 0 : NAN;
}

/* Of the whole where the service sums it up; a part that is not there says nothing. */
static void take_status(const struct document *document)
{
    const json_t *status = json_object_get(document->object, "Status");
    const char *health = json_text(status, "HealthRollup");

    if (health[0] == '\0')
        health = json_text(status, "Health");
    if (health[0] != '\0')
        add_sample(document, TELEMETRY_STATUS, "status", health_level(health));
}

static void take_power(const struct document *document)
{
    const char *state = json_text(document->object, "PowerState");

    if (state[0] != '\0')
        add_sample(document, TELEMETRY_POWER, "power",
                   strcasecmp(state, "On") == 0 || strcasecmp(state, "PoweringOn") == 0 ||
                           strcasecmp(state, "Paused") == 0
                       ? 0
                       : 3);
}

/* Of the two periods that a service may give, both: the current one is set to 0 by whoever reads
 * it, the other one is not everywhere. */
static void take_errors(const struct document *document, const json_t *metrics)
{
    static const char *const periods[] = {"LifeTime", "CurrentPeriod"};

    document->links->leaf = true;
    for (size_t i = 0; i < ARRAY_COUNT(periods); i++) {
        const json_t *period = json_object_get(metrics, periods[i]);
        double correctable = json_number(period, "CorrectableECCErrorCount");
        double uncorrectable = json_number(period, "UncorrectableECCErrorCount");

        if (!isnan(correctable))
            add_sample(document, TELEMETRY_ECC_CORRECTABLE, periods[i], correctable);
        if (!isnan(uncorrectable))
            add_sample(document, TELEMETRY_ECC_UNCORRECTABLE, periods[i], uncorrectable);
    }
}

static void take_memory_metrics(const struct document *document)
{
    const json_t *trip = json_object_get(
        json_object_get(json_object_get(document->object, "HealthData"), "AlarmTrips"),
        "Temperature");

    take_errors(document, document->object);
    if (json_is_true(trip))
        add_sample(document, TELEMETRY_THERMAL, "trip", 2);
}

static void take_processor_metrics(const struct document *document)
{
    take_errors(document, json_object_get(document->object, "CacheMetricsTotal"));
}

/* Thermal, since 2021 replaced by ThermalSubsystem. */
static void take_thermal(const struct document *document)
{
    const json_t *sensors = json_object_get(document->object, "Temperatures");

    document->links->leaf = true;
    for (size_t i = 0; i < json_array_size(sensors); i++) {
        const json_t *sensor = json_array_get(sensors, i);
        double celsius = json_number(sensor, "ReadingCelsius");
        struct samples_limits limits = {json_number(sensor, "UpperThresholdNonCritical"),
                                        json_number(sensor, "UpperThresholdCritical"),
                                        json_number(sensor, "UpperThresholdFatal")};

        if (!isnan(celsius))
            add_sample(document, TELEMETRY_THERMAL, json_text(sensor, "MemberId"),
                       samples_thermal_level(celsius, &limits));
    }
}

static double threshold_reading(const json_t *thresholds, const char *name)
{
    return json_number(json_object_get(thresholds, name), "Reading");
}

/* Published services leave either member out. */
static bool measures_celsius(const json_t *sensor)
{
    const char *type = json_text(sensor, "ReadingType");

    return type[0] != '\0' ? strcmp(type, "Temperature") == 0
                           : strcmp(json_text(sensor, "ReadingUnits"), "Cel") == 0;
}

/* Whatever else it measures is of no interest: it is not read again. */
static void take_sensor(const struct document *document)
{
    const json_t *thresholds = json_object_get(document->object, "Thresholds");
    struct samples_limits limits = {threshold_reading(thresholds, "UpperCaution"),
                                    threshold_reading(thresholds, "UpperCritical"),
                                    threshold_reading(thresholds, "UpperFatal")};
    double celsius = json_number(document->object, "Reading");

    if (!measures_celsius(document->object))
        return;
    document->links->leaf = true;
    if (!isnan(celsius))
        add_sample(document, TELEMETRY_THERMAL, "sensor", samples_thermal_level(celsius, &limits));
}

/* Its readings are copies of sensors, without their limits; those that name no sensor stand
 * alone. */
static void take_thermal_metrics(const struct document *document)
{
    const json_t *readings = json_object_get(document->object, "TemperatureReadingsCelsius");
    const struct samples_limits none = {NAN, NAN, NAN};

    for (size_t i = 0; i < json_array_size(readings); i++) {
        const json_t *reading = json_array_get(readings, i);
        const char *source = json_text(reading, "DataSourceUri");
        double celsius = json_number(reading, "Reading");

        if (source[0] != '\0') {
            follow_text(document, source);
        } else if (!isnan(celsius)) {
            document->links->leaf = true;
            add_sample(document, TELEMETRY_THERMAL, json_text(reading, "DeviceName"),
                       samples_thermal_level(celsius, &none));
        }
    }
}

/* ---- kinds of documents ---- */

static void take_root(const struct document *document)
{
    follow_member(document, "Systems");
    follow_member(document, "Chassis");
}

static void take_system(const struct document *document)
{
    document->links->leaf = true;
    take_status(document);
    take_power(document);
    follow_member(document, "Memory");
    follow_member(document, "Processors");
}

/* Memory, Processor */
static void take_part(const struct document *document)
{
    take_status(document);
    follow_member(document, "Metrics");
}

static void take_chassis(const struct document *document)
{
    document->links->leaf = true;
    take_status(document);
    follow_member(document, "Thermal");
    follow_member(document, "ThermalSubsystem");
    follow_member(document, "Sensors");
}

static void take_thermal_subsystem(const struct document *document)
{
    take_status(document);
    follow_member(document, "ThermalMetrics");
}

/* By the first word of @odata.type: "#Memory.v1_20_0.Memory". */
static const struct {
    const char *type;
    void (*take)(const struct document *document);
} kinds[] = {{"ServiceRoot", take_root},
             {"ComputerSystemCollection", follow_members},
             {"ChassisCollection", follow_members},
             {"MemoryCollection", follow_members},
             {"SensorCollection", follow_members},
             {"ComputerSystem", take_system},
             {"Chassis", take_chassis},
             {"Memory", take_part},
             {"ProcessorCollection", follow_members},
             {"Processor", take_part},
             {"ProcessorMetrics", take_processor_metrics},
             {"MemoryMetrics", take_memory_metrics},
             {"Thermal", take_thermal},
             {"ThermalSubsystem", take_thermal_subsystem},
             {"ThermalMetrics", take_thermal_metrics},
             {"Sensor", take_sensor}};

int redfish_parse(const void *bytes, size_t length, struct samples *samples,
                  struct redfish_links *links, struct err *err)
{
    json_t *object = json_parse(bytes, length, err);
    struct document document = {object, samples, links};
    const char *type;
    size_t word;

    if (object == NULL)
        return -1;
    type = json_text(object, "@odata.type");
    if (type[0] != '#') {
        json_decref(object);
        return err_set(err, ERR_INVALID, "JSON, but no Redfish: @odata.type is missing");
    }
    word = strcspn(type + 1, ".");
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (strlen(kinds[i].type) == word && strncmp(kinds[i].type, type + 1, word) == 0)
            kinds[i].take(&document);
    }
    json_decref(object);
    return 0;
}
