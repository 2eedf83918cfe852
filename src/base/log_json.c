/* Log lines as JSON. See log_json.h. */
#include "src/base/log_json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum {
    NUMBER_DIGITS_MAX = 15,
    TAIL_BYTES = 3,
    KEY_BYTES = 64
}; /* exact in a double; the brace, the line feed */

struct json {
    char *text;
    size_t length;
    bool full;
    bool headed; /* the event is written: what follows is its own */
};

static void put_bytes(struct json *json, const char *bytes, size_t length)
{
    if (json->full || json->length + length + TAIL_BYTES > LOG_JSON_BYTES) {
        json->full = true;
        return;
    }
    memcpy(json->text + json->length, bytes, length);
    json->length += length;
}

/* Quotes and backslashes of the line have their backslash already, as JSON wants it. */
static void put_escaped(struct json *json, const char *bytes, size_t length, bool escaped)
{
    put_bytes(json, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        if (!escaped && (bytes[i] == '"' || bytes[i] == '\\'))
            put_bytes(json, "\\", 1);
        put_bytes(json, &bytes[i], 1);
    }
    put_bytes(json, "\"", 1);
}

/* Digits with a sign before and one point within, as JSON has numbers: no zero leads others. */
static bool is_number(const char *text, size_t length)
{
    const size_t sign = length > 0 && text[0] == '-';
    size_t points = 0;

    if (length == sign || length - sign > NUMBER_DIGITS_MAX || text[sign] == '.' ||
        text[length - 1] == '.' ||
        (text[sign] == '0' && length > sign + 1 && text[sign + 1] != '.'))
        return false;
    for (size_t i = sign; i < length; i++) {
        points += text[i] == '.';
        if ((text[i] < '0' || text[i] > '9') && text[i] != '.')
            return false;
    }
    return points <= 1;
}

/* The event's own pairs must not take the place of those before it: a key stands once. */
static const char *event_prefix(const struct json *json, const char *name)
{
    static const char *const head[] = {"timestamp", "level", "component", "name", "message"};

    for (size_t i = 0; json->headed && i < ARRAY_COUNT(head); i++)
        if (strcmp(head[i], name) == 0)
            return "event_";
    return "";
}

static void put_key(struct json *json, const char *key, size_t length)
{
    static const struct {
        const char *key, *name;
    } names[] = {{"time", "timestamp"},
                 {"program", "component"},
                 {"event", "message"},
                 {"allocation", "allocation_id"},
                 {"node", "node_id"}};
    char name[KEY_BYTES], prefixed[KEY_BYTES + 8];

    snprintf(name, sizeof(name), "%.*s", (int)(length < KEY_BYTES ? length : KEY_BYTES - 1), key);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(names[i].key, name) == 0)
            snprintf(name, sizeof(name), "%s", names[i].name);
    snprintf(prefixed, sizeof(prefixed), "%s%s", event_prefix(json, name), name);
    json->headed = json->headed || strcmp(name, "message") == 0;
    put_escaped(json, prefixed, strlen(prefixed), false);
}

/* The end of a value behind its opening quote. */
static const char *quoted_end(const char *at, const char *end)
{
    while (at < end && *at != '"')
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at;
}

/* One pair at `at`; returns where the next one begins. */
static const char *put_pair(struct json *json, const char *at, const char *end)
{
    const char *equals = memchr(at, '=', (size_t)(end - at)), *value, *value_end;
    const struct json before = *json;

    if (equals == NULL) /* a word of the format alone */
        return end;
    value = equals + 1;
    put_bytes(json, ",", json->length > 1);
    put_key(json, at, (size_t)(equals - at));
    put_bytes(json, ":", 1);
    if (value < end && *value == '"') {
        value_end = quoted_end(++value, end);
        put_escaped(json, value, (size_t)(value_end - value), true);
        value_end += value_end < end;
    } else {
        value_end = memchr(value, ' ', (size_t)(end - value));
        value_end = value_end == NULL ? end : value_end;
        if (is_number(value, (size_t)(value_end - value)))
            put_bytes(json, value, (size_t)(value_end - value));
        else
            put_escaped(json, value, (size_t)(value_end - value), false);
    }
    if (json->full)
        json->length = before.length;
    while (value_end < end && *value_end == ' ')
        value_end++;
    return value_end;
}

size_t log_json(const char *line, size_t length, char ret_json[LOG_JSON_BYTES])
{
    struct json json = {.text = ret_json};
    const char *at = line, *end = line + length - 1;

    CHECK(length > 0 && *end == '\n');
    CHECK(length <= LOG_LINE_BYTES);
    put_bytes(&json, "{", 1);
    while (at < end && !json.full)
        at = put_pair(&json, at, end);
    CHECK(json.length + 2 <= LOG_JSON_BYTES);
    ret_json[json.length++] = '}';
    ret_json[json.length++] = '\n';
    return json.length;
}
