/* Texts of the signal way. See sentinel.h. */
#include "src/agent/sentinel.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/base/id.h"

char *hint_format(uint64_t checkpoint_id, uint32_t attempt, char text[HINT_TEXT_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    snprintf(text, HINT_TEXT_BYTES, "%s-%" PRIu32, checkpoint_id_format(checkpoint_id, id),
             attempt);
    return text;
}

size_t request_format(const char *hint, const char *directory, uint64_t deadline_ms, char *ret_text,
                      size_t size)
{
    int length = snprintf(ret_text, size, "hint=%s\ndirectory=%s\ndeadline_ms=%" PRIu64 "\n", hint,
                          directory, deadline_ms);

    return length < 0 || (size_t)length >= size ? 0 : (size_t)length;
}

size_t sentinel_format(const struct sentinel *sentinel, char ret_text[SENTINEL_MAX_BYTES])
{
    int length = snprintf(ret_text, SENTINEL_MAX_BYTES, "hint=%s\nbytes=%" PRIu64 "\nstatus=%s\n",
                          sentinel->hint, sentinel->bytes, sentinel->status);

    return (size_t)length;
}

static int sentinel_number(const char *text, size_t length, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (length == 0 || length > 19)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_value = value;
    return 0;
}

static int sentinel_text(const char *text, size_t length, char *ret_text, size_t size)
{
    if (length == 0 || length >= size || memchr(text, '\0', length) != NULL)
        return -1;
    memcpy(ret_text, text, length);
    ret_text[length] = '\0';
    return 0;
}

/* True when the line is key=...; *ret_value and *ret_length are what follows. */
static bool sentinel_key(const char *line, size_t length, const char *key, const char **ret_value,
                         size_t *ret_length)
{
    size_t key_length = strlen(key);

    if (length < key_length || memcmp(line, key, key_length) != 0)
        return false;
    *ret_value = line + key_length;
    *ret_length = length - key_length;
    return true;
}

int sentinel_parse(const char *text, size_t length, struct sentinel *ret_sentinel)
{
    struct sentinel sentinel = {0};
    bool bytes_seen = false;
    const char *value;
    size_t value_length;

    if (length > SENTINEL_MAX_BYTES)
        return -1;
    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t line = end == NULL ? length : (size_t)(end - text);
        size_t step = end == NULL ? length : line + 1;

        if (sentinel_key(text, line, "hint=", &value, &value_length)) {
            if (sentinel_text(value, value_length, sentinel.hint, sizeof(sentinel.hint)) != 0)
                return -1;
        } else if (sentinel_key(text, line, "bytes=", &value, &value_length)) {
            if (sentinel_number(value, value_length, &sentinel.bytes) != 0)
                return -1;
            bytes_seen = true;
        } else if (sentinel_key(text, line, "status=", &value, &value_length)) {
            if (sentinel_text(value, value_length, sentinel.status, sizeof(sentinel.status)) != 0)
                return -1;
        }
        text += step;
        length -= step;
    }
    if (sentinel.hint[0] == '\0' || sentinel.status[0] == '\0' || !bytes_seen)
        return -1;
    *ret_sentinel = sentinel;
    return 0;
}
