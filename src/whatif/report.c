/* Tables of accounts. See whatif.h.
 *
 * Units    shares in percent, GPU time in hours, bytes in powers of 1000.
 */
#include <inttypes.h>

#include "src/base/check.h"
#include "src/whatif/whatif.h"

/* GPU-hours of a small cluster and of a large one: at least two digits, while there are any. */
static void print_hours(FILE *out, double gpu_s, int width)
{
    double hours = gpu_s / 3600;

    fprintf(out, " %*.*f", width, hours >= 100 || hours <= 0 ? 0 : hours >= 1 ? 1 : 3, hours);
}

static void print_bytes(FILE *out, double bytes, int width)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;

    for (; bytes >= 1000 && unit + 1 < ARRAY_COUNT(units); unit++)
        bytes /= 1000;
    fprintf(out, " %*.1f %-2s", width - 3, bytes, units[unit]);
}

void whatif_table(FILE *out, const struct whatif_row *rows, size_t count)
{
    fprintf(out, "%-17s %9s %12s %10s %10s %10s %10s %11s %11s %8s %9s\n", "RULE", "WASTE",
            "CHECKPOINTS", "FAILURES", "PREEMPT", "WALLTIME", "PAUSES", "RESTARTS", "WRITTEN",
            "YIELD", "YIELD-MAX");
    fprintf(out, "%-17s %9s %12s %10s %10s %10s %10s %11s %11s %8s %9s\n", "", "%", "", "GPU-h",
            "GPU-h", "GPU-h", "GPU-h", "GPU-h", "", "s", "s");
    for (size_t i = 0; i < count; i++) {
        const struct whatif_account *l = &rows[i].account;
        double yields = l->yields > 0 ? (double)l->yields : 1;

        fprintf(out, "%-17s %9.3f %12" PRIu64, whatif_rule_name(rows[i].rule),
                100 * whatif_waste(l), l->checkpoints);
        print_hours(out, l->lost_failure_gpu_s, 10);
        print_hours(out, l->lost_kill_gpu_s, 10);
        print_hours(out, l->lost_walltime_gpu_s, 10);
        print_hours(out, l->pause_gpu_s, 10);
        print_hours(out, l->restart_gpu_s, 11);
        print_bytes(out, l->bytes_written, 11);
        fprintf(out, " %8.0f %9.0f\n", l->yield_wait_s / yields, l->yield_wait_max_s);
    }
}
