/* See json.h. */
#include "src/telemetry/json.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Brackets outside of strings, before anything is built of them. */
static bool too_deep(const uint8_t *bytes, size_t length)
{
    bool quoted = false;
    int depth = 0;

    for (size_t i = 0; i < length; i++) {
        if (quoted && bytes[i] == '\\')
            i++;
        else if (bytes[i] == '"')
            quoted = !quoted;
        else if (!quoted && (bytes[i] == '{' || bytes[i] == '['))
            depth++;
        else if (!quoted && (bytes[i] == '}' || bytes[i] == ']'))
            depth--;
        if (depth > JSON_DEPTH_MAX)
            return true;
    }
    return false;
}

json_t *json_parse_any(const void *bytes, size_t length, struct err *err)
{
    json_error_t problem;
    json_t *document;

    if (length == 0) {
        err_set(err, ERR_INVALID, "the answer is empty");
        return NULL;
    }
    if (too_deep(bytes, length)) {
        err_set(err, ERR_INVALID, "JSON nests more than %d deep", JSON_DEPTH_MAX);
        return NULL;
    }
    document = json_loadb(bytes, length, 0, &problem);
    if (document == NULL)
        err_set(err, ERR_INVALID, "not JSON: line %d: %.120s", problem.line, problem.text);
    return document;
}

json_t *json_parse(const void *bytes, size_t length, struct err *err)
{
    json_t *document = json_parse_any(bytes, length, err);

    if (document != NULL && !json_is_object(document)) {
        json_decref(document);
        err_set(err, ERR_INVALID, "JSON, but no object");
        return NULL;
    }
    return document;
}

const char *json_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

double json_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : NAN;
}
