/* See keep.h. */
#include "src/dest/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/copy.h"
#include "src/dest/fault.h"

enum { NAME_BYTES = 256 };

struct kept {
    char name[NAME_BYTES];
    uint64_t size_bytes;
    bool stays;
};

/* ---- the new file ---- */

static int copy_in(int folder, const char *part, const char *source, uint64_t *ret_bytes,
                   struct err *err)
{
    uint8_t written[SHA256_BYTES], found[SHA256_BYTES];
    struct copier copier;
    struct pace pace;
    uint64_t read_back = 0;
    int from, to, status;

    from = open(source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return fault_set(err, "open", source);
    to = openat(folder, part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0) {
        fault_set(err, "create", part);
        close(from);
        return -1;
    }
    pace_init(&pace, 0);
    copier_init(&copier, &pace);
    status = copy_file(&copier, (struct copy_end){from, source}, (struct copy_end){to, part},
                       ret_bytes, written, err);
    if (status == 0 && fsync(to) != 0)
        status = fault_set(err, "sync", part);
    if (status == 0 && lseek(to, 0, SEEK_SET) != 0)
        status = fault_set(err, "read back", part);
    if (status == 0)
        status = copy_file(&copier, (struct copy_end){to, part}, (struct copy_end){-1, NULL},
                           &read_back, found, err);
    if (status == 0 && (read_back != *ret_bytes || memcmp(written, found, SHA256_BYTES) != 0))
        status =
            err_set(err, ERR_CORRUPT,
                    "%s was read back as something else than was written: check that disk", part);
    copier_close(&copier);
    pace_close(&pace);
    close(from);
    if (close(to) != 0 && status == 0)
        status = fault_set(err, "close", part);
    return status;
}

/* ---- the old ones ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kept *)a)->name, ((const struct kept *)b)->name);
}

/* Oldest first. Killed copies of the series are removed on the way. */
static int list_series(int folder, const char *prefix, struct kept **ret_files, size_t *ret_count,
                       struct err *err)
{
    int duplicate = dup(folder);
    DIR *dir = duplicate < 0 ? NULL : fdopendir(duplicate);
    struct kept *files = NULL;
    struct dirent *entry;
    size_t count = 0;

    if (dir == NULL)
        return fault_set(err, "read", "the folder of backups");
    rewinddir(dir);
    while ((entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        struct stat status;
        if (name[0] == '.' && strncmp(name + 1, prefix, strlen(prefix)) == 0)
            (void)unlinkat(folder, name, 0);
        if (strncmp(name, prefix, strlen(prefix)) != 0 || strlen(name) >= NAME_BYTES ||
            fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        files = check_realloc(files, count + 1, sizeof(*files));
        memcpy(files[count].name, name, strlen(name) + 1);
        files[count++].size_bytes = (uint64_t)status.st_size;
    }
    closedir(dir);
    if (count > 0)
        qsort(files, count, sizeof(*files), by_name);
    *ret_files = files;
    *ret_count = count;
    return 0;
}

/* Whatever its name says: the clock may be behind those that named the others. */
static void new_one_last(struct kept *files, size_t count, const char *name)
{
    for (size_t i = 0; i + 1 < count; i++) {
        struct kept next = files[i + 1];

        if (strcmp(files[i].name, name) == 0) {
            files[i + 1] = files[i];
            files[i] = next;
        }
    }
}

/* ---- days, weeks and months ---- */

enum { DAY_S = 86400, WEEK_DAYS = 7, MONDAY = 3, STAMP_DIGITS = 8 }; /* 1970 began on a Thursday */

/* The day of a name behind its prefix, in days since 1970; false: it has none. */
static bool day_of(const char *stamp, struct tm *ret_day, uint64_t *ret_days)
{
    const bool dated = strspn(stamp, "0123456789") == STAMP_DIGITS && stamp[STAMP_DIGITS] == 'T';
    int year, month, day;
    time_t seconds;

    if (!dated || sscanf(stamp, "%4d%2d%2d", &year, &month, &day) != 3)
        return false;
    *ret_day = (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    seconds = timegm(ret_day);
    if (seconds < 0)
        return false;
    *ret_days = (uint64_t)seconds / DAY_S;
    return true;
}

enum period { PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIODS };

/* A number that all files of one period have, and no others. */
static bool period_of(const char *stamp, enum period period, uint64_t *ret_number)
{
    struct tm day;
    uint64_t days;

    if (!day_of(stamp, &day, &days))
        return false;
    if (period == PERIOD_DAY)
        *ret_number = days;
    else if (period == PERIOD_WEEK)
        *ret_number = (days + MONDAY) / WEEK_DAYS;
    else
        *ret_number = (uint64_t)day.tm_year * 12 + (uint64_t)day.tm_mon;
    return true;
}

/* The newest file of each of the newest `most` periods stays. files are sorted, oldest first. */
static void keep_of_periods(struct kept *files, size_t count, size_t prefix_bytes,
                            enum period period, uint64_t most)
{
    uint64_t last = UINT64_MAX, number;

    for (size_t i = count; i > 0 && most > 0; i--) {
        struct kept *file = &files[i - 1];

        if (!period_of(file->name + prefix_bytes, period, &number) || number == last)
            continue;
        last = number;
        file->stays = true;
        most--;
    }
}

static void choose_staying(struct kept *files, size_t count, const struct keep_request *request)
{
    const uint64_t most[PERIODS] = {request->keep_days, request->keep_weeks, request->keep_months};

    for (size_t i = 0; i < count; i++)
        files[i].stays = count - i <= request->keep;
    for (unsigned period = 0; period < PERIODS; period++)
        keep_of_periods(files, count, strlen(request->prefix), (enum period)period, most[period]);
}

/* Names sort by age, since they hold the time; the new one counts as the newest whatever it is
 * called. */
static int remove_others(int folder, const struct keep_request *request,
                         struct keep_summary *summary, struct err *err)
{
    struct kept *files = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    int status = 0;

    if (list_series(folder, request->prefix, &files, &count, err) != 0)
        return -1;
    new_one_last(files, count, request->name);
    choose_staying(files, count, request);
    for (size_t i = 0; i < count; i++)
        bytes += files[i].stays ? files[i].size_bytes : 0;
    for (size_t i = 0; i + 1 < count && request->keep_bytes != 0 && bytes > request->keep_bytes;
         i++) {
        bytes -= files[i].stays ? files[i].size_bytes : 0;
        files[i].stays = false;
    }
    for (size_t i = 0; i < count && status == 0; i++) {
        if (files[i].stays)
            continue;
        if (unlinkat(folder, files[i].name, 0) != 0 && errno != ENOENT)
            status = fault_set(err, "remove", files[i].name);
        summary->removed++;
    }
    summary->kept = count - summary->removed;
    free(files);
    return status;
}

int keep_file(const struct keep_request *request, struct keep_summary *ret_summary, struct err *err)
{
    struct keep_summary summary = {0};
    char part[NAME_BYTES + 8];
    int folder, status;

    if (strlen(request->name) >= NAME_BYTES || strchr(request->name, '/') != NULL ||
        strncmp(request->name, request->prefix, strlen(request->prefix)) != 0 ||
        request->prefix[0] == '.' || request->prefix[0] == '\0' || request->keep == 0)
        return err_set(err, ERR_INVALID, "--name must begin with --prefix and hold no slash");
    folder = open(request->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return fault_set(err, "open", request->folder);
    snprintf(part, sizeof(part), ".%s.part", request->name);
    status = copy_in(folder, part, request->source, &summary.size_bytes, err);
    if (status == 0 && renameat(folder, part, folder, request->name) != 0)
        status = fault_set(err, "rename to", request->name);
    if (status == 0 && fsync(folder) != 0)
        status = fault_set(err, "sync", request->folder);
    if (status != 0)
        (void)unlinkat(folder, part, 0); /* its space is wanted back */
    else
        status = remove_others(folder, request, &summary, err);
    close(folder);
    if (status == 0)
        *ret_summary = summary;
    return status;
}
