/* Plots of accounts. See whatif.h.
 *
 * Flow     the axis is chosen for the bars that can be compared; longer ones are cut at its end and
 *          say their value.
 * Units    pixels; waste as a share of held GPU time.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/whatif/whatif.h"

enum {
    CAUSES = 5,
    BAR_WIDTH = 640,
    BAR_HEIGHT = 26,
    CUT_WIDTH = 36, /* of a bar behind the end of the axis */
    LEFT = 150,
    RIGHT = 150,
    GAP = 10,
    LINE = 17,
    HEAD = 52, /* title and what was simulated */
    AXIS_HEIGHT = 44
};

static const double outlier_ratio = 2.5; /* a bar so much longer than the next one is cut */

static const struct {
    const char *name;
    const char *colour;
} causes[CAUSES] = {{"lost to failures", "#b2182b"},
                    {"lost to preemption", "#ef8a62"},
                    {"lost at walltime", "#fddbc7"},
                    {"pauses for writing", "#67a9cf"},
                    {"down and restarting", "#999999"}};

/* The visible end of the axis, and the distance of its ticks, as shares. */
struct axis {
    double end, step;
};

/* Of the held GPU time; the causes add up to the waste. */
static double cause_share(const struct whatif_account *account, int cause)
{
    const double gpu_s[CAUSES] = {account->lost_failure_gpu_s, account->lost_kill_gpu_s,
                                  account->lost_walltime_gpu_s, account->pause_gpu_s,
                                  account->restart_gpu_s};

    return account->held_gpu_s > 0 ? gpu_s[cause] / account->held_gpu_s : 0;
}

/* The longest bar that is shown whole: at least half of the bars are, and those above it are
 * several times as long. */
static double longest_whole(const struct whatif_plot *plot)
{
    double sorted[WHATIF_RULE_COUNT];
    size_t first = 0;

    CHECK(plot->count > 0 && plot->count <= WHATIF_RULE_COUNT);
    for (size_t i = 0; i < plot->count; i++) {
        double waste = whatif_waste(&plot->rows[i].account);
        size_t at = i;

        for (; at > 0 && sorted[at - 1] < waste; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = waste;
    }
    for (size_t i = 0; i + 1 < plot->count && plot->count - i - 1 >= (plot->count + 1) / 2; i++) {
        if (sorted[i] > outlier_ratio * sorted[i + 1])
            first = i + 1;
    }
    return fmax(sorted[first], 1e-6);
}

/* Four to ten ticks, 1, 2 or 5 of a power of ten apart. */
static struct axis axis_of(double longest)
{
    double power = pow(10, floor(log10(longest)));
    double step = longest / power < 2 ? power / 5 : longest / power < 5 ? power / 2 : power;

    return (struct axis){.end = ceil(longest / step - 1e-9) * step, .step = step};
}

/* Text of titles comes from command lines and files. What is not UTF-8, in any locale, would make
 * the whole plot unreadable. */
static void svg_text(FILE *out, const char *text)
{
    const bool readable = mbstowcs(NULL, text, 0) != (size_t)-1;

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else if (c >= 0x20)
            fputc(c >= 0x80 && !readable ? '?' : c, out);
    }
}

static void svg_line(FILE *out, int y, int size, const char *text)
{
    fprintf(out, "<text x=\"12\" y=\"%d\" font-size=\"%d\">", y, size);
    svg_text(out, text);
    fputs("</text>\n", out);
}

static void svg_legend(FILE *out, int y)
{
    int x = LEFT;

    for (int cause = 0; cause < CAUSES; cause++) {
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>", x, y,
                causes[cause].colour);
        fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"11\">%s</text>\n", x + 16, y + 11,
                causes[cause].name);
        x += 132;
    }
}

static void svg_axis(FILE *out, struct axis axis, int top, int bottom)
{
    for (int i = 0; i * axis.step < axis.end * (1 + 1e-9); i++) {
        double x = LEFT + BAR_WIDTH * i * axis.step / axis.end;

        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#dddddd\"/>"
                "<text x=\"%.1f\" y=\"%d\" font-size=\"11\" text-anchor=\"middle\">%.4g</text>\n",
                x, top - 4, x, bottom, x, bottom + 14, 100 * i * axis.step);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%d\" font-size=\"11\" text-anchor=\"middle\">%% of the GPU time "
            "that jobs held</text>\n",
            LEFT + BAR_WIDTH / 2, bottom + 32);
}

/* Two slanted white strokes say that the bar goes on. */
static void svg_cut(FILE *out, int y)
{
    for (int i = 0; i < 2; i++)
        fprintf(out,
                "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"white\" "
                "stroke-width=\"3\"/>\n",
                LEFT + BAR_WIDTH + 8 + 9 * i, y + BAR_HEIGHT + 2, LEFT + BAR_WIDTH + 16 + 9 * i,
                y - 2);
}

static void svg_bar(FILE *out, const struct whatif_row *row, int y, struct axis axis)
{
    const double waste = whatif_waste(&row->account), scale = BAR_WIDTH / axis.end;
    const bool cut = waste > axis.end * (1 + 1e-9);
    const double right = LEFT + (cut ? BAR_WIDTH + CUT_WIDTH : waste * scale);
    double x = LEFT;

    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 18,
            whatif_rule_name(row->rule));
    for (int cause = 0; cause < CAUSES; cause++) {
        double width = fmin(cause_share(&row->account, cause) * scale, fmax(right - x, 0));
        fprintf(out,
                "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\">"
                "<title>%s: %.3f %%</title></rect>\n",
                x, y, width, BAR_HEIGHT, causes[cause].colour, causes[cause].name,
                100 * cause_share(&row->account, cause));
        x += width;
    }
    if (cut)
        svg_cut(out, y);
    fprintf(out, "<text x=\"%.2f\" y=\"%d\">%.2f %%%s</text>\n", right + 6, y + 18, 100 * waste,
            cut ? " (cut)" : "");
}

void whatif_svg(FILE *out, const struct whatif_plot *plot)
{
    const struct axis axis = axis_of(longest_whole(plot));
    const int bars = HEAD + (int)plot->note_count * LINE + 34;
    const int bottom = bars + (int)plot->count * (BAR_HEIGHT + GAP);

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            LEFT + BAR_WIDTH + RIGHT, bottom + AXIS_HEIGHT);
    svg_line(out, 22, 16, "GPU time wasted under each checkpoint rule");
    svg_line(out, 42, 13, plot->what);
    for (size_t i = 0; i < plot->note_count; i++)
        svg_line(out, HEAD + 6 + (int)i * LINE, 11, plot->notes[i]);
    svg_legend(out, HEAD + (int)plot->note_count * LINE + 4);
    svg_axis(out, axis, bars, bottom);
    for (size_t i = 0; i < plot->count; i++)
        svg_bar(out, &plot->rows[i], bars + (int)i * (BAR_HEIGHT + GAP), axis);
    fputs("</svg>\n", out);
}
