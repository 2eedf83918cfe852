/* See smd.h. */
#include "src/telemetry/smd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/check.h"
#include "src/telemetry/json.h"

#define ABSENT (-2.0)

struct smd_word {
    const char *text;
    double level;
};

static const struct smd_word smd_flags[] = {{"OK", 0}, {"Locked", 0}, {"Warning", 1}, {"Alert", 2}};
static const struct smd_word smd_states[] = {{"Ready", 0},   {"On", 0},  {"Populated", 0},
                                             {"Standby", 1}, {"Off", 3}, {"Halt", 3},
                                             {"Empty", 3}};

static double smd_level(const struct smd_word *words, size_t count, const char *text)
{
    if (text[0] == '\0')
        return ABSENT;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(words[i].text, text) == 0)
            return words[i].level;
    }
    return NAN; /* refused by samples_add() */
}

/* A member that is not there says nothing; a word that nobody knows is refused. */
static void smd_add(struct samples *samples, struct telemetry_sample sample,
                    enum telemetry_signal signal, double level)
{
    if (level == ABSENT)
        return;
    sample.signal = signal;
    sample.value = level;
    samples_add(samples, &sample);
}

/* With a map of xnames, ID says which node; without one its NID does, where that is how nodes are
 * named. */
static void smd_component(const json_t *component, struct samples *samples)
{
    const char *id = json_text(component, "ID");
    const char *type = json_text(component, "Type");
    struct telemetry_sample sample = {.part = SAMPLES_HASH};
    double nid = json_number(component, "NID");
    char name[SAMPLES_SUBJECT_MAX + 1];
    int length;

    if (type[0] != '\0' && strcasecmp(type, "Node") != 0)
        return;
    if (nid >= 0 && nid <= 999999999) /* false for NaN */
        length = snprintf(name, sizeof(name), "%s|nid%06u", id, (unsigned)nid);
    else
        length = snprintf(name, sizeof(name), "%s", id);
    if (id[0] == '\0' || length < 0 || (size_t)length >= sizeof(name)) {
        samples->refused++;
        return;
    }
    sample.subject = samples_add_subject(samples, name, (size_t)length);
    smd_add(samples, sample, TELEMETRY_STATUS,
            smd_level(smd_flags, ARRAY_COUNT(smd_flags), json_text(component, "Flag")));
    smd_add(samples, sample, TELEMETRY_POWER,
            smd_level(smd_states, ARRAY_COUNT(smd_states), json_text(component, "State")));
}

int smd_parse(const void *bytes, size_t length, struct samples *samples, struct err *err)
{
    json_t *document = json_parse(bytes, length, err);
    const json_t *components;

    if (document == NULL)
        return -1;
    components = json_object_get(document, "Components");
    if (!json_is_array(components)) {
        json_decref(document);
        return err_set(err, ERR_INVALID,
                       "no list \"Components\": the URL must be that of "
                       "/hsm/v2/State/Components");
    }
    for (size_t i = 0; i < json_array_size(components); i++)
        smd_component(json_array_get(components, i), samples);
    json_decref(document);
    return 0;
}
