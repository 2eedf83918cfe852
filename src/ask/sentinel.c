/* Texts of the signal way. See sentinel.h. */
#include "src/ask/sentinel.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/base/id.h"

/* Of a path that is all quotes, each of which becomes four bytes. */
enum { REQUEST_WORD_BYTES = 4 * PATH_MAX + 3 };

bool sentinel_named(const char *name)
{
    static const char own[] = "done";
    const size_t length = sizeof(own) - 1;

    if (strncmp(name, own, length) != 0)
        return false;
    if (name[length] == '\0')
        return true;
    name += length + 1;
    return name[-1] == '.' && name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

char *hint_format(uint64_t checkpoint_id, uint32_t attempt, char text[HINT_TEXT_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    snprintf(text, HINT_TEXT_BYTES, "%s-%" PRIu32, checkpoint_id_format(checkpoint_id, id),
             attempt);
    return text;
}

/* Bytes that a shell takes as they are, wherever they stand in a value. */
static bool is_plain(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+,:=@%";

    return text[strspn(text, plain)] == '\0';
}

/* One word of a POSIX shell: in single quotes, with each single quote as '\'' between them. Returns
 * its length, or 0 when it does not fit. */
size_t request_quote(const char *text, char *ret_word, size_t size)
{
    size_t length = 0;

    if (is_plain(text)) {
        length = (size_t)snprintf(ret_word, size, "%s", text);
        return length < size ? length : 0;
    }
    if (size < 3)
        return 0;
    ret_word[length++] = '\'';
    for (; *text != '\0'; text++) {
        if (length + sizeof("'\\''") + 1 > size)
            return 0;
        if (*text == '\'')
            length += (size_t)snprintf(ret_word + length, size - length, "'\\''");
        else
            ret_word[length++] = *text;
    }
    ret_word[length++] = '\'';
    ret_word[length] = '\0';
    return length;
}

void request_unquote(char *word)
{
    char *to = word;
    bool quoted = false;

    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '\'')
            quoted = !quoted;
        else if (*at == '\\' && !quoted && at[1] != '\0')
            *to++ = *++at;
        else
            *to++ = *at;
    }
    *to = '\0';
}

size_t request_format(const struct request_text *request, char *ret_text, size_t size)
{
    bool numbered = request->ranks[0] != '\0';
    char directory[REQUEST_WORD_BYTES];
    int length;

    if (request_quote(request->directory, directory, sizeof(directory)) == 0)
        return 0;
    length = snprintf(ret_text, size, "hint=%s\ndirectory=%s\ndeadline_ms=%" PRIu64 "\n%s%s%s",
                      request->hint, directory, request->deadline_ms, numbered ? "ranks=" : "",
                      request->ranks, numbered ? "\n" : "");
    return length < 0 || (size_t)length >= size ? 0 : (size_t)length;
}

size_t sentinel_format(const struct sentinel *sentinel, char ret_text[SENTINEL_MAX_BYTES])
{
    const bool labelled = sentinel->label[0] != '\0';
    int length =
        snprintf(ret_text, SENTINEL_MAX_BYTES, "hint=%s\nbytes=%" PRIu64 "\nstatus=%s\n%s%s%s",
                 sentinel->hint, sentinel->bytes, sentinel->status, labelled ? "step=" : "",
                 sentinel->label, labelled ? "\n" : "");

    if (sentinel->saved_at_ms != 0)
        length += snprintf(ret_text + length, SENTINEL_MAX_BYTES - (size_t)length,
                           "saved_at=%" PRIu64 "\n", sentinel->saved_at_ms);
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

/* The next line; *text and *length become what follows it. ret_whole: it ends with a line feed. */
static size_t sentinel_line(const char **text, size_t *length, bool *ret_whole)
{
    const char *end = memchr(*text, '\n', *length);
    size_t line = end == NULL ? *length : (size_t)(end - *text);

    *ret_whole = end != NULL;
    *text += line + *ret_whole;
    *length -= line + *ret_whole;
    return line;
}

char *sentinel_hint(const char *text, size_t length, char ret_hint[HINT_TEXT_BYTES])
{
    const char *value;
    size_t value_length;
    bool whole;

    ret_hint[0] = '\0';
    while (length > 0) {
        const char *line = text;
        size_t line_length = sentinel_line(&text, &length, &whole);
        if (whole && sentinel_key(line, line_length, "hint=", &value, &value_length) &&
            sentinel_text(value, value_length, ret_hint, HINT_TEXT_BYTES) == 0)
            return ret_hint;
    }
    return ret_hint;
}

static int sentinel_label(const char *text, size_t length, char ret_label[LABEL_MAX_BYTES + 1])
{
    return sentinel_text(text, length, ret_label, LABEL_MAX_BYTES + 1) == 0 &&
                   label_valid(ret_label)
               ? 0
               : -1;
}

/* The same of what need not be there. */
static bool sentinel_extra_wrong(const char *line, size_t length, struct sentinel *sentinel,
                                 struct err *err)
{
    const char *value;
    size_t value_length;

    if (sentinel_key(line, length, "step=", &value, &value_length) &&
        sentinel_label(value, value_length, sentinel->label) != 0)
        return err_set(err, ERR_INVALID,
                       "'%.*s' in `done` must be a step or another label of 1 to %d characters of "
                       "A-Z a-z 0-9 . _ : -",
                       (int)(length < 80 ? length : 80), line, LABEL_MAX_BYTES) != 0;
    if ((sentinel_key(line, length, "stall_ms=", &value, &value_length) &&
         sentinel_number(value, value_length, &sentinel->stall_ms) != 0) ||
        (sentinel_key(line, length, "saved_at=", &value, &value_length) &&
         sentinel_number(value, value_length, &sentinel->saved_at_ms) != 0))
        return err_set(err, ERR_INVALID,
                       "'%.*s' in `done` must be whole milliseconds, at most 19 digits",
                       (int)(length < 80 ? length : 80), line) != 0;
    return false;
}

/* False: it is none of the keys, or what it says is right. */
static bool sentinel_line_wrong(const char *line, size_t length, struct sentinel *sentinel,
                                bool *bytes_seen, struct err *err)
{
    const char *value;
    size_t value_length;

    if (sentinel_key(line, length, "hint=", &value, &value_length) &&
        sentinel_text(value, value_length, sentinel->hint, sizeof(sentinel->hint)) != 0)
        return err_set(err, ERR_INVALID,
                       "'%.*s' in `done` must name the hint of the request, as it stands there",
                       (int)(length < 80 ? length : 80), line) != 0;
    if (sentinel_key(line, length, "status=", &value, &value_length) &&
        sentinel_text(value, value_length, sentinel->status, sizeof(sentinel->status)) != 0)
        return err_set(err, ERR_INVALID,
                       "'%.*s' in `done` must be status=0 or a reason of 1 to %zu characters",
                       (int)(length < 80 ? length : 80), line, sizeof(sentinel->status) - 1) != 0;
    if (sentinel_key(line, length, "bytes=", &value, &value_length)) {
        *bytes_seen = true;
        if (sentinel_number(value, value_length, &sentinel->bytes) != 0)
            return err_set(err, ERR_INVALID,
                           "'%.*s' in `done` must be a whole number of bytes, at most 19 digits",
                           (int)(length < 80 ? length : 80), line) != 0;
    }
    return sentinel_extra_wrong(line, length, sentinel, err);
}

int sentinel_parse(const char *text, size_t length, struct sentinel *ret_sentinel, struct err *err)
{
    struct sentinel sentinel = {0};
    bool bytes_seen = false, whole;

    if (length > SENTINEL_MAX_BYTES)
        return err_set(err, ERR_INVALID, "`done` has more than %d bytes", SENTINEL_MAX_BYTES);
    while (length > 0) {
        const char *line = text;
        size_t line_length = sentinel_line(&text, &length, &whole);
        if (!sentinel_line_wrong(line, line_length, &sentinel, &bytes_seen, err))
            continue;
        if (!whole) /* the rest of it may come */
            err->code = ERR_EMPTY;
        return -1;
    }
    if (sentinel.hint[0] == '\0' || sentinel.status[0] == '\0' || !bytes_seen)
        return err_set(err, ERR_EMPTY, "`done` lacks the line %s",
                       sentinel.hint[0] == '\0' ? "hint="
                       : !bytes_seen            ? "bytes="
                                                : "status=");
    *ret_sentinel = sentinel;
    return 0;
}
