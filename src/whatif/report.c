/* Tables and plots of ledgers. See whatif.h. */
#include <inttypes.h>
#include <math.h>

#include "src/base/check.h"
#include "src/whatif/whatif.h"

enum { CAUSES = 5, BAR_WIDTH = 640, BAR_HEIGHT = 26, LEFT = 150, TOP = 64, GAP = 10 };

static const struct {
    const char *name;
    const char *colour;
} causes[CAUSES] = {{"lost to failures", "#b2182b"},
                    {"lost to preemption", "#ef8a62"},
                    {"lost at walltime", "#fddbc7"},
                    {"pauses for writing", "#67a9cf"},
                    {"down and restarting", "#999999"}};

static double part(const struct whatif_ledger *ledger, int cause)
{
    const double gpu_s[CAUSES] = {ledger->lost_failure_gpu_s, ledger->lost_kill_gpu_s,
                                  ledger->lost_walltime_gpu_s, ledger->pause_gpu_s,
                                  ledger->restart_gpu_s};

    return ledger->held_gpu_s > 0 ? gpu_s[cause] / ledger->held_gpu_s : 0;
}

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
        const struct whatif_ledger *l = &rows[i].ledger;
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

/* Text of a title comes from the command line. */
static void svg_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c >= 0x20)
            fputc(c, out);
    }
}

static void svg_legend(FILE *out)
{
    int x = LEFT;

    for (int cause = 0; cause < CAUSES; cause++) {
        fprintf(out, "<rect x=\"%d\" y=\"36\" width=\"12\" height=\"12\" fill=\"%s\"/>", x,
                causes[cause].colour);
        fprintf(out, "<text x=\"%d\" y=\"47\" font-size=\"11\">%s</text>\n", x + 16,
                causes[cause].name);
        x += 132;
    }
}

static void svg_bar(FILE *out, const struct whatif_row *row, int y, double scale)
{
    double x = LEFT;

    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 18,
            whatif_rule_name(row->rule));
    for (int cause = 0; cause < CAUSES; cause++) {
        double width = part(&row->ledger, cause) * scale;
        fprintf(out,
                "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\">"
                "<title>%s: %.3f %%</title></rect>\n",
                x, y, width, BAR_HEIGHT, causes[cause].colour, causes[cause].name,
                100 * part(&row->ledger, cause));
        x += width;
    }
    fprintf(out, "<text x=\"%.2f\" y=\"%d\">%.2f %%</text>\n", x + 6, y + 18,
            100 * whatif_waste(&row->ledger));
}

void whatif_svg(FILE *out, const char *title, const struct whatif_row *rows, size_t count)
{
    double most = 1e-6;
    int height = TOP + (int)count * (BAR_HEIGHT + GAP) + 20;

    for (size_t i = 0; i < count; i++)
        most = fmax(most, whatif_waste(&rows[i].ledger));
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"12\" y=\"22\" font-size=\"15\">",
            LEFT + BAR_WIDTH + 90, height);
    svg_text(out, title);
    fputs("</text>\n", out);
    svg_legend(out);
    for (size_t i = 0; i < count; i++)
        svg_bar(out, &rows[i], TOP + (int)i * (BAR_HEIGHT + GAP), BAR_WIDTH / most);
    fputs("</svg>\n", out);
}
