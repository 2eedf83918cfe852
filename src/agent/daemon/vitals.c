/* See vitals.h. */
#include "src/agent/daemon/vitals.h"

#include <string.h>

static uint64_t now_us(const struct vitals *vitals)
{
    return vitals->clock->monotonic_us(vitals->clock->context);
}

/* Counts of another boot begin at 0; an agent that starts knows no rise. */
static void notice_rises(struct vitals *vitals, const struct sensors *sensors)
{
    uint64_t at_us = now_us(vitals);

    if (vitals->counted && sensors->ecc_correctable_count > vitals->correctable_count)
        vitals->correctable_risen_us = at_us;
    if (vitals->counted && sensors->ecc_uncorrectable_count > vitals->uncorrectable_count)
        vitals->uncorrectable_risen_us = at_us;
    vitals->counted = true;
}

static void on_read(void *data, const struct sensors *sensors)
{
    struct vitals *vitals = data;

    vitals->reading = NULL;
    vitals->heartbeats = 0;
    vitals->known = true;
    if (sensors->ecc_measured) {
        notice_rises(vitals, sensors);
        vitals->correctable_count = sensors->ecc_correctable_count;
        vitals->uncorrectable_count = sensors->ecc_uncorrectable_count;
    }
    vitals->sensors = *sensors;
}

static void begin_reading(struct vitals *vitals)
{
    if (vitals->reading == NULL && vitals->root[0] != '\0')
        vitals->reading =
            vitals->machine->sensors_start(vitals->machine->context, vitals->root, on_read, vitals);
}

static uint64_t ago_ms(uint64_t at_us, uint64_t now)
{
    if (at_us == 0)
        return 0;
    return now - at_us < 1000 ? 1 : (now - at_us) / 1000; /* 0 means never */
}

void vitals_fill(struct vitals *vitals, Ckpt__V1__AgentHeartbeat *heartbeat)
{
    uint64_t at_us = now_us(vitals);

    if (vitals->known && vitals->heartbeats++ < VITALS_OLD_HEARTBEATS) {
        heartbeat->ecc_measured = vitals->sensors.ecc_measured;
        heartbeat->ecc_correctable_count = vitals->sensors.ecc_correctable_count;
        heartbeat->ecc_uncorrectable_count = vitals->sensors.ecc_uncorrectable_count;
        heartbeat->temperature_milli_celsius = vitals->sensors.temperature_milli_celsius;
        heartbeat->temperature_limit_milli_celsius =
            vitals->sensors.temperature_limit_milli_celsius;
        heartbeat->gpu_count = vitals->sensors.gpu_count;
        heartbeat->ecc_correctable_risen_ms = ago_ms(vitals->correctable_risen_us, at_us);
        heartbeat->ecc_uncorrectable_risen_ms = ago_ms(vitals->uncorrectable_risen_us, at_us);
    }
    begin_reading(vitals);
}

void vitals_open(struct vitals *vitals, const struct machine_ops *machine,
                 const struct clock_ops *clock, const char *root)
{
    *vitals = (struct vitals){.machine = machine, .clock = clock, .root = root};
    begin_reading(vitals);
}

void vitals_close(struct vitals *vitals)
{
    if (vitals->reading != NULL)
        vitals->machine->sensors_detach(vitals->reading);
    vitals->reading = NULL;
}
