/* What the kernel knows of the node's memory errors, temperatures and GPUs: EDAC, hwmon, thermal
 * zones and PCI below sysfs.
 *
 * Flow     sensors_start() reads on a thread of libuv's pool, since a sensor behind a slow bus may
 *          take its time; done() comes on the loop once, unless sensors_detach(). sensors_read() is
 *          the reading itself.
 * Shapes   SENSORS_FOLDERS_MAX controllers, chips and zones, SENSORS_PER_CHIP_MAX temperatures
 *          each, SENSORS_PCI_MAX functions on the PCI bus.
 * Units    errors since boot, summed over all memory controllers; thousandths of degrees Celsius.
 * Errors   what is not there or cannot be read is unknown, never 0: `ecc_measured` says whether the
 *          counts are counts.
 * GPUs     PCI functions of the known makers whose class is a 3D, display or processing
 *          accelerator's; virtual functions are parts of one.
 * Absent   counters of GPUs: they come with DCGM (src/telemetry).
 * Source   Documentation/admin-guide/ras.rst, Documentation/hwmon/sysfs-interface.rst of the
 *          kernel; L-004.
 */
#ifndef CKPT_AGENT_SENSORS_H
#define CKPT_AGENT_SENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum { SENSORS_FOLDERS_MAX = 128, SENSORS_PER_CHIP_MAX = 64, SENSORS_PCI_MAX = 4096 };

struct sensors {
    bool ecc_measured;
    uint64_t ecc_correctable_count, ecc_uncorrectable_count;
    uint32_t temperature_milli_celsius; /* of the sensor that is closest to its limit; 0: none */
    uint32_t temperature_limit_milli_celsius; /* 0: it names none */
    uint32_t gpu_count;
};

struct sensors_reading;

/* root: where sysfs is mounted, such as /sys. */
void sensors_read(const char *root, struct sensors *ret_sensors);

struct sensors_reading *sensors_start(uv_loop_t *loop, const char *root,
                                      void (*done)(void *data, const struct sensors *sensors),
                                      void *data);
void sensors_detach(struct sensors_reading *reading); /* NULL allowed */

#endif
