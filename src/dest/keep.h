/* One file more in a folder of numbered ones, and the oldest ones away: how a backup reaches the
 * disk where it is kept.
 *
 * Flow     copy to a hidden name, sync, read back and compare, rename, sync the folder. Only then
 *          others go: all but the newest `keep`, and the newest one of each of so many days, weeks
 *          and months. When these are more than `keep_bytes` together, the oldest of them go too.
 *          The newest always stays.
 * Shapes   files of one series begin with the same prefix and sort by age: PREFIX followed by
 *          anything but a slash. Those of days, weeks and months have their UTC behind it
 *          (20261120T143005Z). A week begins on Monday. Others are left alone, hidden
 *          ones of the same series (killed copies) are removed.
 * Errors   nothing that was there is removed when the new file is not whole.
 */
#ifndef CKPT_DEST_KEEP_H
#define CKPT_DEST_KEEP_H

#include <stdint.h>

#include "src/base/err.h"

struct keep_request {
    const char *source; /* a regular file, no link */
    const char *folder; /* exists; its other files are other series */
    const char *name;   /* of the new file there; begins with prefix */
    const char *prefix;
    uint64_t keep;       /* at least 1 */
    uint64_t keep_bytes; /* 0: no limit */
    /* Of the newest so many that have a file; 0: none for the sake of them. */
    uint64_t keep_days, keep_weeks, keep_months;
};

struct keep_summary {
    uint64_t size_bytes; /* of the new file */
    uint64_t kept;       /* of the series, the new one included */
    uint64_t removed;
};

/* 0, with the new file durable under its name. -1 with err: ERR_INVALID for names that do not fit
 * together, ERR_CORRUPT when the disk gives back other bytes than were written, and fault.h's. When
 * only the removal of an old file failed, the new one stands and -1 says what is in the way. May
 * block for as long as the disk does. */
int keep_file(const struct keep_request *request, struct keep_summary *ret_summary,
              struct err *err);

#endif
