/* Any bytes as a document of a telemetry source: the first byte chooses the parser. Samples stay
 * within their bounds, links on their host, and a node's health takes them all; a boot right after
 * them explains every alarm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/telemetry/health.h"
#include "src/telemetry/prometheus.h"
#include "src/telemetry/smd.h"
#include "src/telemetry/vast.h"
#include "src/telemetry/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void check_samples(const struct samples *samples)
{
    struct health_alarm alarms[TELEMETRY_SIGNAL_COUNT];
    struct health_policy policy;
    struct health health;
    double factor;

    health_init(&health);
    health_policy_default(&policy);
    CHECK(samples->count <= SAMPLES_MAX && samples->text.length <= SAMPLES_TEXT_MAX);
    for (size_t i = 0; i < samples->count; i++) {
        const struct telemetry_sample *sample = &samples->items[i];

        CHECK(isfinite(sample->value) && sample->value >= 0 && sample->value < SAMPLES_VALUE_END);
        CHECK(telemetry_signal_kind(sample->signal) != TELEMETRY_LEVEL || sample->value <= 3);
        if (sample->subject != SAMPLES_NO_SUBJECT)
            CHECK(strlen(samples_subject(samples, sample->subject)) <= SAMPLES_SUBJECT_MAX);
        health_take(&health, &policy, 1, sample, 1000 * (i + 1));
        health_heard(&health, 1, 1000 * (i + 1), 1000 * (i + 1));
    }
    factor = health_factor(&health, &policy, 1000 * samples->count);
    CHECK(factor >= 1 && factor <= policy.factor_max);
    CHECK(health_alarms(&health, &policy, 1000 * samples->count, alarms) <= TELEMETRY_SIGNAL_COUNT);
    health_booted(&health, 1000 * samples->count);
    CHECK(health_alarms(&health, &policy, 1000 * samples->count, alarms) == 0);
    health_close(&health);
}

static void walk_on(const struct redfish_links *links)
{
    struct walk walk = {0};
    const char *path;

    walk_begin(&walk);
    for (int steps = 0; (path = walk_next(&walk)) != NULL; steps++) {
        CHECK(steps < WALK_DOCUMENTS_MAX && redfish_link_valid(path));
        walk_found(&walk, links);
    }
    walk_close(&walk);
}

/* A list of clusters, or the answer to a login: what is there is a rate, a word, a header's
 * text. */
static int check_vast(const uint8_t *bytes, size_t length, struct err *err)
{
    struct vast_cluster cluster;
    struct vast_share share = {.own_bytes_per_s = UINT64_C(1) << 40, .most_bytes_per_s = 1000};
    struct err other;
    char *token = vast_token(bytes, length, &other);
    uint64_t headroom;

    CHECK(token == NULL || (strlen(token) <= VAST_TOKEN_MAX && strpbrk(token, "\r\n ") == NULL));
    free(token);
    vast_token_refused(403, bytes, length);
    if (vast_parse(bytes, length, "", &cluster, err) != 0)
        return -1;
    CHECK(cluster.up == (cluster.trouble[0] == '\0'));
    CHECK(strpbrk(cluster.trouble, "\"\n") == NULL);
    CHECK(isnan(cluster.write_bytes_per_s) ||
          (cluster.write_bytes_per_s >= 0 && cluster.write_bytes_per_s < VAST_RATE_END));
    headroom = vast_headroom(&cluster, &share);
    CHECK(headroom == 0 || (headroom >= 50 && headroom <= 1000));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct samples samples;
    struct redfish_links links = {.count = 0};
    struct err err = {.code = ERR_NONE};
    int result;

    if (length == 0)
        return 0;
    samples_init(&samples);
    if (bytes[0] % 4 == 0)
        result = smd_parse(bytes + 1, length - 1, &samples, &err);
    else if (bytes[0] % 4 == 1)
        result = redfish_parse(bytes + 1, length - 1, &samples, &links, &err);
    else if (bytes[0] % 4 == 3)
        result = check_vast(bytes + 1, length - 1, &err);
    else
        result = prometheus_parse(bytes + 1, length - 1, 1000, &samples, &err);
    CHECK(result == 0 || (result == -1 && err.code != ERR_NONE));
    CHECK(links.count <= REDFISH_LINKS_MAX);
    check_samples(&samples);
    walk_on(&links);
    redfish_links_close(&links);
    samples_close(&samples);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const seeds[] = {
        "\x04{\"Components\":[{\"ID\":\"x1000c0s0b0n0\",\"Type\":\"Node\",\"State\":\"Ready\","
        "\"Flag\":\"Alert\",\"NID\":1}]}",
        "\x01{\"@odata.type\":\"#ServiceRoot.v1_15_0.ServiceRoot\",\"Systems\":{\"@odata.id\":"
        "\"/redfish/v1/Systems\"},\"Chassis\":{\"@odata.id\":\"/redfish/v1/Chassis\"}}",
        "\x01{\"@odata.type\":\"#MemoryCollection.MemoryCollection\",\"Members\":[{\"@odata.id\":"
        "\"/redfish/v1/a\"}],\"Members@odata.nextLink\":\"/redfish/v1/b?$skip=1\"}",
        "\x01{\"@odata.type\":\"#MemoryMetrics.v1_7_0.MemoryMetrics\",\"LifeTime\":"
        "{\"CorrectableECCErrorCount\":70,\"UncorrectableECCErrorCount\":1}}",
        "\x01{\"@odata.type\":\"#Thermal.v1_7_1.Thermal\",\"Temperatures\":[{\"MemberId\":\"0\","
        "\"ReadingCelsius\":46,\"UpperThresholdCritical\":45,\"UpperThresholdFatal\":48}]}",
        "\x01{\"@odata.type\":\"#ComputerSystem.v1.ComputerSystem\",\"PowerState\":\"Off\","
        "\"Status\":{\"HealthRollup\":\"Critical\"}}",
        "\x02# TYPE a gauge\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"G\",Hostname=\"n1\"} 79 2000\n"
        "DCGM_EXP_XID_ERRORS_COUNT{xid=\"63\",instance=\"n2:9400\"} 2\n"
        "DCGM_FI_DEV_GPU_TEMP{Hostname=\"n1\"} 96\n"
        "node_edac_correctable_errors_total{controller=\"0\"} 1.2e+01\n",
        "\x03[{\"id\":1,\"state\":\"ONLINE\",\"ssd_raid_state\":\"REBALANCE\",\"wr_bw\":27904056.0,"
        "\"max_performance\":{\"read_bw\":70,\"write_bw\":14.5}}]",
        "\x03{\"count\":1,\"next\":null,\"previous\":null,\"results\":[{\"state\":\"FAILED\","
        "\"nvram_raid_state\":\"FAILED\",\"wr_bw\":0}]}",
        "\x03{\"access\":\"eyJ0eXAi.e30.x\",\"refresh\":\"y\"}",
        "\x03{\"detail\":\"Token is invalid or expired\",\"code\":\"token_not_valid\"}"};
    size_t length;

    if (i >= ARRAY_COUNT(seeds))
        return 0;
    length = strlen(seeds[i]);
    if (length > size)
        return 0;
    memcpy(bytes, seeds[i], length);
    return length;
}
