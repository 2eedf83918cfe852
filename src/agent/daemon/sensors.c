/* See sensors.h. */
#include "src/agent/daemon/sensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"

enum {
    SENSOR_MAX_MILLI = 250000,    /* a reading above it is none */
    ASSUMED_LIMIT_MILLI = 105000, /* for choosing among sensors, of one that names none */
    TRIP_POINTS_MAX = 12
};

/* One number; -1: there is none. */
static int64_t read_number(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[32], *end;
    ssize_t length;
    long long number;

    if (fd < 0)
        return -1;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    errno = 0;
    number = strtoll(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    return errno != 0 || end == text || (*end != '\0' && *end != '\n') || number < 0 ? -1 : number;
}

__attribute__((format(printf, 1, 2))) static int64_t number_at(const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    return length > 0 && (size_t)length < sizeof(path) ? read_number(path) : -1;
}

static void read_errors(const char *root, struct sensors *sensors)
{
    for (int i = 0; i < SENSORS_FOLDERS_MAX; i++) {
        int64_t correctable = number_at("%s/devices/system/edac/mc/mc%d/ce_count", root, i);
        int64_t uncorrectable = number_at("%s/devices/system/edac/mc/mc%d/ue_count", root, i);

        if (correctable < 0 || uncorrectable < 0)
            continue;
        sensors->ecc_measured = true;
        sensors->ecc_correctable_count += (uint64_t)correctable;
        sensors->ecc_uncorrectable_count += (uint64_t)uncorrectable;
    }
}

static int64_t margin(int64_t celsius, int64_t limit)
{
    return (limit > 0 ? limit : ASSUMED_LIMIT_MILLI) - celsius;
}

/* The one with the least room below its limit speaks for the node. */
static void take_temperature(struct sensors *sensors, int64_t celsius, int64_t limit)
{
    if (celsius <= 0 || celsius > SENSOR_MAX_MILLI)
        return;
    if (limit <= 0 || limit > SENSOR_MAX_MILLI)
        limit = 0;
    if (sensors->temperature_milli_celsius != 0 &&
        margin(celsius, limit) >=
            margin(sensors->temperature_milli_celsius, sensors->temperature_limit_milli_celsius))
        return;
    sensors->temperature_milli_celsius = (uint32_t)celsius;
    sensors->temperature_limit_milli_celsius = (uint32_t)limit;
}

static void read_chip(const char *root, int chip, struct sensors *sensors)
{
    for (int i = 1; i <= SENSORS_PER_CHIP_MAX; i++) {
        int64_t celsius = number_at("%s/class/hwmon/hwmon%d/temp%d_input", root, chip, i);

        if (celsius >= 0)
            take_temperature(sensors, celsius,
                             number_at("%s/class/hwmon/hwmon%d/temp%d_crit", root, chip, i));
    }
}

static int64_t critical_trip_point(const char *root, int zone)
{
    for (int i = 0; i < TRIP_POINTS_MAX; i++) {
        char path[PATH_MAX], type[16] = "";
        int length = snprintf(path, sizeof(path),
                              "%s/class/thermal/thermal_zone%d/trip_point_%d_type", root, zone, i);
        FILE *file = length < PATH_MAX ? fopen(path, "re") : NULL;

        if (file == NULL)
            return -1;
        if (fgets(type, sizeof(type), file) == NULL)
            type[0] = '\0';
        fclose(file);
        if (strcmp(type, "critical\n") == 0)
            return number_at("%s/class/thermal/thermal_zone%d/trip_point_%d_temp", root, zone, i);
    }
    return -1;
}

static bool is_there(const char *root, const char *what, int number)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/%s%d", root, what, number);

    return length < PATH_MAX && access(path, F_OK) == 0;
}

static bool is_gpu(int64_t maker, int64_t class)
{
    enum { NVIDIA = 0x10de, AMD = 0x1002, INTEL = 0x8086, HABANA = 0x1da3 };
    enum { VGA = 0x0300, THREE_D = 0x0302, DISPLAY_OTHER = 0x0380, ACCELERATOR = 0x1200 };

    if (maker != NVIDIA && maker != AMD && maker != INTEL && maker != HABANA)
        return false; /* above all the picture of a BMC */
    return class == THREE_D || class == DISPLAY_OTHER || class == ACCELERATOR ||
           (class == VGA && maker == NVIDIA); /* others' are parts of processors */
}

static void read_gpus(const char *root, struct sensors *sensors)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/bus/pci/devices", root);
    DIR *folder = length > 0 && length < PATH_MAX ? opendir(path) : NULL;
    const struct dirent *entry;

    for (int i = 0; folder != NULL && i < SENSORS_PCI_MAX && (entry = readdir(folder)) != NULL;
         i++) {
        const char *name = entry->d_name;
        int64_t class = number_at("%s/%s/class", path, name);
        bool gpu = class >= 0 && is_gpu(number_at("%s/%s/vendor", path, name), class >> 8);

        if (gpu && number_at("%s/%s/physfn/class", path, name) < 0)
            sensors->gpu_count++;
    }
    if (folder != NULL)
        closedir(folder);
}

void sensors_read(const char *root, struct sensors *ret_sensors)
{
    *ret_sensors = (struct sensors){.ecc_measured = false};
    read_errors(root, ret_sensors);
    read_gpus(root, ret_sensors);
    for (int i = 0; i < SENSORS_FOLDERS_MAX; i++) {
        if (is_there(root, "class/hwmon/hwmon", i))
            read_chip(root, i, ret_sensors);
        if (is_there(root, "class/thermal/thermal_zone", i))
            take_temperature(ret_sensors,
                             number_at("%s/class/thermal/thermal_zone%d/temp", root, i),
                             critical_trip_point(root, i));
    }
}

/* ---- off the loop ---- */

struct sensors_reading {
    uv_work_t work;
    char *root;
    struct sensors sensors;
    void (*done)(void *data, const struct sensors *sensors); /* NULL: not wanted any more */
    void *data;
};

static void work_read(uv_work_t *work)
{
    struct sensors_reading *reading = work->data;

    sensors_read(reading->root, &reading->sensors);
}

static void work_done(uv_work_t *work, int status)
{
    struct sensors_reading *reading = work->data;

    (void)status;
    if (reading->done != NULL)
        reading->done(reading->data, &reading->sensors);
    free(reading->root);
    free(reading);
}

struct sensors_reading *sensors_start(uv_loop_t *loop, const char *root,
                                      void (*done)(void *data, const struct sensors *sensors),
                                      void *data)
{
    struct sensors_reading *reading = check_calloc(1, sizeof(*reading));

    reading->work.data = reading;
    reading->root = check_strdup(root);
    reading->done = done;
    reading->data = data;
    CHECK(uv_queue_work(loop, &reading->work, work_read, work_done) == 0);
    return reading;
}

void sensors_detach(struct sensors_reading *reading)
{
    if (reading != NULL)
        reading->done = NULL;
}
