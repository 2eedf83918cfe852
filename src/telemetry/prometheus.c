/* Lines of Prometheus' text. See prometheus.h.
 *
 * Shapes   views into the document, nothing is copied: an exporter of a whole cluster says
 *          megabytes, of which a few lines count. A new metric is a row of `metrics`.
 */
#include "src/telemetry/prometheus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum { VALUE_BYTES = 64 };

struct view {
    const char *at;
    size_t length;
};

/* clang-format off */
static const struct {
    const char *name;
    enum telemetry_signal signal;
    enum { AS_IT_IS, GPU_CELSIUS, IF_NOT_ZERO, BY_XID } how;
} metrics[] = {
    {"DCGM_FI_DEV_XID_ERRORS", TELEMETRY_XID, AS_IT_IS}, /* the last one's number */
    {"DCGM_EXP_XID_ERRORS_COUNT", TELEMETRY_XID, BY_XID},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", TELEMETRY_GPU_ECC_UNCORRECTABLE, AS_IT_IS},
    {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", TELEMETRY_GPU_ECC_UNCORRECTABLE, AS_IT_IS},
    {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", TELEMETRY_GPU_ECC_CORRECTABLE, AS_IT_IS},
    {"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", TELEMETRY_GPU_ECC_CORRECTABLE, AS_IT_IS},
    {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", TELEMETRY_ROW_REMAP, AS_IT_IS},
    {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", TELEMETRY_ROW_REMAP, AS_IT_IS},
    {"DCGM_FI_DEV_ROW_REMAP_PENDING", TELEMETRY_ROW_REMAP, AS_IT_IS},
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", TELEMETRY_ROW_REMAP_FAILURE, IF_NOT_ZERO},
    {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", TELEMETRY_PCIE_REPLAY, AS_IT_IS},
    {"DCGM_FI_DEV_GPU_TEMP", TELEMETRY_THERMAL, GPU_CELSIUS},
    {"node_edac_correctable_errors_total", TELEMETRY_ECC_CORRECTABLE, AS_IT_IS},
    {"node_edac_uncorrectable_errors_total", TELEMETRY_ECC_UNCORRECTABLE, AS_IT_IS},
};
/* clang-format on */

/* What one line says. The views point into the text. */
struct line {
    struct view name;
    struct view host, instance, xid;
    uint64_t part; /* of the name and the labels that tell parts of a node apart */
    double value;
    uint64_t at_ms; /* 0: the line has no time stamp */
};

static bool is_text(struct view view, const char *text)
{
    return view.length == strlen(text) && memcmp(view.at, text, view.length) == 0;
}

static bool name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == ':';
}

static struct view take_name(struct view *rest)
{
    struct view name = {rest->at, 0};

    while (name.length < rest->length && name_byte(rest->at[name.length]))
        name.length++;
    rest->at += name.length;
    rest->length -= name.length;
    return name;
}

static void skip_blanks(struct view *rest)
{
    while (rest->length > 0 && (*rest->at == ' ' || *rest->at == '\t')) {
        rest->at++;
        rest->length--;
    }
}

static bool take_byte(struct view *rest, char byte)
{
    if (rest->length == 0 || *rest->at != byte)
        return false;
    rest->at++;
    rest->length--;
    return true;
}

/* Up to the closing quote; escapes stay as they are: a name with one is nobody's. */
static bool take_quoted(struct view *rest, struct view *ret_value)
{
    size_t i = 0;

    if (!take_byte(rest, '"'))
        return false;
    while (i < rest->length && rest->at[i] != '"')
        i += rest->at[i] == '\\' ? 2 : 1;
    if (i >= rest->length)
        return false;
    *ret_value = (struct view){rest->at, i};
    rest->at += i + 1;
    rest->length -= i + 1;
    return true;
}

/* Labels that name what was measured. Others change while the part stays the same: the job that
 * uses the GPU, the driver. */
static bool tells_parts(struct view name)
{
    static const char *const parts[] = {"UUID",    "gpu",  "xid",  "controller", "csrow",
                                        "channel", "dimm", "chip", "sensor",     "pci_bus_id"};

    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (is_text(name, parts[i]))
            return true;
    }
    return false;
}

static void take_label(struct line *line, struct view name, struct view value)
{
    if (is_text(name, "Hostname"))
        line->host = value;
    else if (is_text(name, "instance"))
        line->instance = value;
    else if (is_text(name, "xid"))
        line->xid = value;
    if (tells_parts(name)) /* a sum, so that their order is of no importance */
        line->part += samples_mix(
            samples_hash(samples_hash(SAMPLES_HASH, name.at, name.length), value.at, value.length));
}

static bool take_labels(struct view *rest, struct line *line)
{
    for (int count = 0; count < PROMETHEUS_LABELS_MAX; count++) {
        struct view name, value;

        skip_blanks(rest);
        if (take_byte(rest, '}'))
            return true;
        name = take_name(rest);
        skip_blanks(rest);
        if (name.length == 0 || !take_byte(rest, '='))
            return false;
        skip_blanks(rest);
        if (!take_quoted(rest, &value))
            return false;
        take_label(line, name, value);
        skip_blanks(rest);
        if (!take_byte(rest, ',')) {
            skip_blanks(rest);
            return take_byte(rest, '}');
        }
    }
    return false;
}

/* The next word as text that ends. */
static bool take_word(struct view *rest, char word[VALUE_BYTES])
{
    size_t length = 0;

    skip_blanks(rest);
    while (length < rest->length && rest->at[length] != ' ' && rest->at[length] != '\t')
        length++;
    if (length == 0 || length >= VALUE_BYTES)
        return false;
    memcpy(word, rest->at, length);
    word[length] = '\0';
    rest->at += length;
    rest->length -= length;
    return true;
}

/* NaN and infinities are numbers of the format; samples_add() refuses them. */
static bool take_value(struct view *rest, struct line *line)
{
    char word[VALUE_BYTES], *end;

    if (!take_word(rest, word))
        return false;
    line->value = strtod(word, &end);
    if (*end != '\0' || strpbrk(word, "xXpP(") != NULL)
        return false;
    skip_blanks(rest);
    line->at_ms = 0;
    if (rest->length == 0)
        return true;
    if (!take_word(rest, word) || strspn(word, "0123456789") != strlen(word))
        return false;
    line->at_ms = strtoull(word, NULL, 10);
    skip_blanks(rest);
    return rest->length == 0;
}

static bool parse_line(struct view rest, struct line *ret_line)
{
    memset(ret_line, 0, sizeof(*ret_line));
    ret_line->name = take_name(&rest);
    if (ret_line->name.length == 0)
        return false;
    ret_line->part = samples_hash(SAMPLES_HASH, ret_line->name.at, ret_line->name.length);
    skip_blanks(&rest);
    if (take_byte(&rest, '{') && !take_labels(&rest, ret_line))
        return false;
    return take_value(&rest, ret_line);
}

static uint32_t subject_of(const struct line *line, struct samples *samples)
{
    size_t length = line->instance.length;

    if (line->host.at != NULL)
        return samples_add_subject(samples, line->host.at, line->host.length);
    if (line->instance.at == NULL)
        return SAMPLES_NO_SUBJECT;
    for (size_t i = 0; i < line->instance.length; i++) {
        if (line->instance.at[i] == ':')
            length = i;
    }
    return samples_add_subject(samples, line->instance.at, length);
}

static void take_line(const struct line *line, size_t metric, struct samples *samples)
{
    const struct samples_limits none = {NAN, NAN, NAN};
    struct telemetry_sample sample = {
        .signal = metrics[metric].signal, .part = line->part, .value = line->value};

    if (metrics[metric].how == GPU_CELSIUS && line->value >= 0 && line->value < 1000)
        sample.value = samples_thermal_level(line->value, &none);
    else if (metrics[metric].how == GPU_CELSIUS)
        sample.value = NAN;
    else if (metrics[metric].how == IF_NOT_ZERO && line->value > 0)
        sample.value = 3;
    else if (metrics[metric].how == BY_XID) {
        for (size_t i = 0; i < line->xid.length && i < 6; i++) {
            if (line->xid.at[i] < '0' || line->xid.at[i] > '9')
                return;
            sample.code = sample.code * 10 + (uint32_t)(line->xid.at[i] - '0');
        }
        if (sample.code == 0)
            return;
    }
    sample.subject = subject_of(line, samples);
    samples_add(samples, &sample);
}

static void take_if_known(const struct line *line, uint64_t oldest_ms, struct samples *samples)
{
    for (size_t i = 0; i < ARRAY_COUNT(metrics); i++) {
        if (!is_text(line->name, metrics[i].name))
            continue;
        if (line->at_ms != 0 && line->at_ms < oldest_ms)
            samples->old++;
        else
            take_line(line, i, samples);
    }
}

int prometheus_parse(const void *bytes, size_t length, uint64_t oldest_ms, struct samples *samples,
                     struct err *err)
{
    struct view rest = {bytes, length};
    size_t good = 0;

    while (rest.length > 0) {
        const char *end = memchr(rest.at, '\n', rest.length);
        size_t used = end != NULL ? (size_t)(end - rest.at) : rest.length;
        struct view text = {rest.at, used};
        struct line line;

        rest.at += used + (end != NULL);
        rest.length -= used + (end != NULL);
        if (text.length > 0 && text.at[text.length - 1] == '\r')
            text.length--;
        skip_blanks(&text);
        if (text.length == 0 || *text.at == '#')
            continue;
        if (parse_line(text, &line)) {
            good++;
            take_if_known(&line, oldest_ms, samples);
        } else {
            samples->refused++;
        }
    }
    if (good == 0)
        return err_set(err, ERR_INVALID, "no metric in Prometheus' text format in %zu bytes",
                       length);
    return 0;
}
