/* Lines of ranks and agents, by one table of what each is made of. See app_line.h. */
#include "src/agent/app/app_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/text.h"

enum { FIELDS_MAX = 8, SHOWN_BYTES = 40, USAGE_BYTES = 96 };

enum field_kind {
    FIELD_VERSION,
    FIELD_NUMBER,
    FIELD_KNOWN, /* a number or "-" */
    FIELD_WAY,
    FIELD_ID,
    FIELD_HINT,
    FIELD_FOLDER,
    FIELD_TEXT
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset; /* in struct app_line */
    uint64_t min, max;
};

struct verb {
    const char *name;
    enum app_line_side from;
    size_t field_count;
    struct field fields[FIELDS_MAX];
};

#define OF(member) offsetof(struct app_line, member)
#define VERSION                                                                                    \
    {                                                                                              \
        "VERSION", FIELD_VERSION, OF(version), APP_LINE_VERSION, APP_LINE_VERSION                  \
    }
#define HINT                                                                                       \
    {                                                                                              \
        "HINT", FIELD_HINT, OF(hint), 0, 0                                                         \
    }
#define STEP(least)                                                                                \
    {                                                                                              \
        "STEP", FIELD_NUMBER, OF(step), least, UINT64_MAX                                          \
    }

static const struct verb verbs[APP_LINE_VERB_COUNT] = {
    [APP_LINE_HELLO] = {"hello",
                        APP_LINE_FROM_RANK,
                        8,
                        {VERSION,
                         {"JOB", FIELD_ID, OF(id), 0, 0},
                         {"RUN", FIELD_NUMBER, OF(run), 0, UINT64_MAX},
                         {"RANK", FIELD_NUMBER, OF(rank), 0, APP_LINE_RANKS_MAX - 1},
                         {"LOCAL", FIELD_KNOWN, OF(local_rank), 0, APP_LINE_NODE_RANKS_MAX - 1},
                         {"SIZE", FIELD_KNOWN, OF(ranks), 1, APP_LINE_RANKS_MAX},
                         {"LOCAL_SIZE", FIELD_KNOWN, OF(local_ranks), 1, APP_LINE_NODE_RANKS_MAX},
                         {"barrier|plain|opened", FIELD_WAY, OF(way), 0, 0}}},
    [APP_LINE_AT] = {"at",
                     APP_LINE_FROM_RANK,
                     3,
                     {HINT,
                      STEP(0),
                      {"NS_PER_STEP", FIELD_NUMBER, OF(ns_per_step), 0, UINT64_MAX}}},
    [APP_LINE_MISSED] = {"missed", APP_LINE_FROM_RANK, 2, {HINT, STEP(0)}},
    [APP_LINE_DONE] = {"done", APP_LINE_FROM_RANK, 1, {HINT}},
    [APP_LINE_DEFER] = {"defer",
                        APP_LINE_FROM_RANK,
                        2,
                        {HINT, {"MS", FIELD_NUMBER, OF(defer_ms), 1, UINT64_MAX}}},
    [APP_LINE_PROGRESS] = {"progress",
                           APP_LINE_FROM_RANK,
                           2,
                           {HINT, {"PPM", FIELD_NUMBER, OF(ppm), 0, 1000000}}},
    [APP_LINE_REQUEST] = {"request", APP_LINE_FROM_RANK, 1, {STEP(0)}},
    [APP_LINE_READY] = {"ready",
                        APP_LINE_FROM_AGENT,
                        4,
                        {VERSION,
                         {"NODE", FIELD_ID, OF(id), 0, 0},
                         {"PART", FIELD_NUMBER, OF(part), 0, APP_LINE_PARTS_MAX - 1},
                         {"PARTS", FIELD_NUMBER, OF(parts), 1, APP_LINE_PARTS_MAX}}},
    [APP_LINE_REFUSED] = {"refused",
                          APP_LINE_FROM_AGENT,
                          1,
                          {{"TEXT", FIELD_TEXT, OF(text), 0, 0}}},
    [APP_LINE_ASK] = {"ask",
                      APP_LINE_FROM_AGENT,
                      4,
                      {HINT,
                       {"DEADLINE_MS", FIELD_NUMBER, OF(deadline_ms), 1, UINT64_MAX},
                       {"MAX_DEFERRAL_MS", FIELD_NUMBER, OF(max_deferral_ms), 0, UINT64_MAX},
                       {"FOLDER", FIELD_FOLDER, OF(folder), 0, 0}}},
    [APP_LINE_STEP] = {"step", APP_LINE_FROM_AGENT, 2, {HINT, STEP(1)}},
    [APP_LINE_WITHDRAWN] = {"withdrawn", APP_LINE_FROM_AGENT, 1, {HINT}},
};

static const char *const ways[APP_LINE_WAY_COUNT] = {
    [APP_LINE_PLAIN] = "plain", [APP_LINE_BARRIER] = "barrier", [APP_LINE_OPENED] = "opened"};

const char *app_line_verb_name(enum app_line_verb verb)
{
    CHECK(verb < APP_LINE_VERB_COUNT);
    return verbs[verb].name;
}

static char *line_text(const struct app_line *line, const struct field *field)
{
    return (char *)(uintptr_t)line + field->offset;
}

static uint64_t line_number(const struct app_line *line, const struct field *field)
{
    uint64_t number;

    memcpy(&number, line_text(line, field), sizeof(number));
    return number;
}

/* ---- what values may be ---- */

static bool hint_valid(const char *hint)
{
    size_t length = strspn(hint, "0123456789-");

    return length > 0 && hint[length] == '\0';
}

/* Below the work folder: no way leads out of it. */
static bool folder_valid(const char *folder)
{
    for (const char *part = folder;; part++) {
        size_t length = strcspn(part, "/");

        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += length;
        if (*part == '\0')
            return true;
    }
}

/* What numbers of one line say of each other; NULL: it can be. */
static const char *line_contradicts(const struct app_line *line)
{
    const char *why = NULL;

    if (line->verb == APP_LINE_READY && line->part >= line->parts)
        why = "PART is not below PARTS";
    if (line->verb != APP_LINE_HELLO)
        return why;
    if (line->ranks != APP_LINE_UNKNOWN && line->rank >= line->ranks)
        why = "RANK is not below SIZE";
    else if (line->local_ranks != APP_LINE_UNKNOWN && line->local_rank != APP_LINE_UNKNOWN &&
             line->local_rank >= line->local_ranks)
        why = "LOCAL is not below LOCAL_SIZE";
    else if (line->local_ranks != APP_LINE_UNKNOWN && line->local_ranks > line->ranks)
        why = "LOCAL_SIZE is above SIZE"; /* an unknown size is above all */
    return why;
}

/* ---- words ---- */

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* -1: it is no such word, holds a NUL, or does not fit. */
static int word_decode(const char *word, char *ret_text, size_t size)
{
    size_t length = 0;

    while (*word != '\0') {
        int byte = (unsigned char)*word;

        if (*word == '%') {
            int high = hex_digit(word[1]), low = high < 0 ? -1 : hex_digit(word[2]);

            byte = low < 0 ? 0 : high * 16 + low;
            word += byte == 0 ? 0 : 2;
        }
        if (byte == 0 || length + 1 >= size)
            return -1;
        ret_text[length++] = (char)byte;
        word++;
    }
    ret_text[length] = '\0';
    return 0;
}

struct writer {
    char *text;
    size_t length;
    bool full; /* something did not fit */
};

static void put_bytes(struct writer *writer, const char *bytes, size_t length)
{
    if (length > APP_LINE_BYTES - 1 - writer->length) { /* the line feed has its place */
        writer->full = true;
        return;
    }
    memcpy(writer->text + writer->length, bytes, length);
    writer->length += length;
}

/* The last byte of a character of UTF-8 is followed by no byte that continues it. */
static bool character_begins(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* cut: a text that is too long ends in "..." after a whole character. */
static void put_word(struct writer *writer, const char *word, bool cut)
{
    size_t whole = writer->length; /* after which "..." fits */

    for (; *word != '\0'; word++) {
        char escaped[4];
        bool plain = *word > ' ' && *word < 0x7f && *word != '%';

        if (character_begins(*word) && writer->length + 3 < APP_LINE_BYTES)
            whole = writer->length;
        snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned)(unsigned char)*word);
        put_bytes(writer, plain ? word : escaped, plain ? 1 : 3);
        if (writer->full && cut) {
            writer->length = whole;
            writer->full = false;
            put_bytes(writer, "...", 3);
            return;
        }
    }
}

/* ---- parse ---- */

static int take_number(const struct field *field, const char *word, uint64_t *ret_number,
                       struct err *err)
{
    struct number_range range = {field->min, field->max};

    if (number_parse(NUMBER_PLAIN, word, range, ret_number, err) != 0)
        return err_wrap(err, "%s", field->name);
    return 0;
}

static int refuse_version(const char *word, struct err *err)
{
    char shown[SHOWN_BYTES];

    return err_set(err, ERR_MISMATCH,
                   "VERSION is \"%s\", this end speaks %" PRIu64
                   "; use libckptapp and ckpt-agentd of one release",
                   text_shown(word, shown, sizeof(shown)), APP_LINE_VERSION);
}

static const struct form {
    enum field_kind kind;
    size_t size;
    bool (*valid)(const char *text); /* NULL: each is */
    const char *wanted;
} forms[] = {
    {FIELD_ID, ID_MAX_BYTES + 1, id_valid, "a name of 1 to 128 of A-Z a-z 0-9 . _ -"},
    {FIELD_HINT, HINT_TEXT_BYTES, hint_valid, "the hint of a question, as 1-42-1"},
    {FIELD_FOLDER, APP_LINE_FOLDER_BYTES, folder_valid,
     "a folder below the work folder, of 1 to 255 bytes"},
    {FIELD_TEXT, APP_LINE_BYTES, NULL, "a text with %XX for what is not printable"},
};

static int take_text(const struct field *field, const char *word, struct app_line *line,
                     struct err *err)
{
    const struct form *form = forms;
    char *text = line_text(line, field), shown[SHOWN_BYTES];

    while (form->kind != field->kind)
        form++;
    if (word_decode(word, text, form->size) == 0 && (form->valid == NULL || form->valid(text)))
        return 0;
    return err_set(err, ERR_INVALID, "%s: \"%s\" is not %s", field->name,
                   text_shown(word, shown, sizeof(shown)), form->wanted);
}

static int take_field(const struct field *field, const char *word, struct app_line *line,
                      struct err *err)
{
    uint64_t number = APP_LINE_UNKNOWN;
    char shown[SHOWN_BYTES];

    switch (field->kind) {
    case FIELD_VERSION:
        if (take_number(field, word, &number, NULL) != 0)
            return refuse_version(word, err);
        break;
    case FIELD_KNOWN:
        if (strcmp(word, "-") == 0)
            break;
        __attribute__((fallthrough));
    case FIELD_NUMBER:
        if (take_number(field, word, &number, err) != 0)
            return -1;
        break;
    case FIELD_WAY:
        for (line->way = 0; line->way < APP_LINE_WAY_COUNT; line->way++)
            if (strcmp(word, ways[line->way]) == 0)
                return 0;
        return err_set(err, ERR_INVALID, "\"%s\" is neither barrier nor plain nor opened",
                       text_shown(word, shown, sizeof(shown)));
    case FIELD_ID:
    case FIELD_HINT:
    case FIELD_FOLDER:
    case FIELD_TEXT:
        return take_text(field, word, line, err);
    }
    memcpy(line_text(line, field), &number, sizeof(number));
    return 0;
}

/* Cuts the text at its blanks; SIZE_MAX: a blank too many, or bytes that no line has. One word more
 * than fits is counted and not kept. */
static size_t words_cut(char *text, char *words[1 + FIELDS_MAX])
{
    size_t count = 0;

    for (const char *byte = text; *byte != '\0'; byte++)
        if (*byte < ' ' || *byte >= 0x7f)
            return SIZE_MAX;
    for (;;) {
        char *end = strchr(text, ' ');

        if (*text == '\0' || *text == ' ')
            return SIZE_MAX;
        if (count <= FIELDS_MAX)
            words[count] = text;
        count++;
        if (end == NULL)
            return count;
        *end = '\0';
        text = end + 1;
    }
}

static int refuse_count(const struct verb *verb, size_t count, struct err *err)
{
    char usage[USAGE_BYTES] = "";

    for (size_t i = 0; i < verb->field_count; i++) {
        size_t length = strlen(usage);

        snprintf(usage + length, sizeof(usage) - length, " %s", verb->fields[i].name);
    }
    return err_set(err, ERR_INVALID, "%zu words instead of %zu:%s", count - 1, verb->field_count,
                   usage);
}

/* A line of other versions has other words: the version is looked at before they are counted. */
static int take_words(char *words[1 + FIELDS_MAX], size_t count, struct app_line *line,
                      struct err *err)
{
    const struct verb *verb = &verbs[line->verb];
    bool versioned = verb->fields[0].kind == FIELD_VERSION && count > 1;
    const char *why;

    if (versioned && take_field(&verb->fields[0], words[1], line, err) != 0)
        return -1;
    if (count != verb->field_count + 1)
        return refuse_count(verb, count, err);
    for (size_t i = 0; i < verb->field_count; i++)
        if (take_field(&verb->fields[i], words[i + 1], line, err) != 0)
            return -1;
    why = line_contradicts(line);
    return why == NULL ? 0 : err_set(err, ERR_INVALID, "%s", why);
}

static int line_parse(char *text, enum app_line_side from, struct app_line *ret_line,
                      struct err *err)
{
    struct app_line line = {.verb = APP_LINE_HELLO};
    char *words[1 + FIELDS_MAX], shown[SHOWN_BYTES];
    size_t count = words_cut(text, words);

    if (count == SIZE_MAX)
        return err_set(err, ERR_INVALID,
                       "a line is words of printable ASCII between single blanks, texts with %%XX");
    while (line.verb < APP_LINE_VERB_COUNT &&
           (verbs[line.verb].from != from || strcmp(verbs[line.verb].name, words[0]) != 0))
        line.verb++;
    if (line.verb == APP_LINE_VERB_COUNT)
        return err_set(err, ERR_INVALID, "\"%s\" is nothing that %s says in version %" PRIu64,
                       text_shown(words[0], shown, sizeof(shown)),
                       from == APP_LINE_FROM_RANK ? "a rank" : "an agent", APP_LINE_VERSION);
    if (take_words(words, count, &line, err) != 0)
        return err_wrap(err, "%s", verbs[line.verb].name);
    *ret_line = line;
    return 0;
}

int app_line_next(struct app_line_input *input, enum app_line_side from, const uint8_t **bytes,
                  size_t *length, struct app_line *ret_line, struct err *err)
{
    const uint8_t *end = *length == 0 ? NULL : memchr(*bytes, '\n', *length);
    size_t more = end == NULL ? *length : (size_t)(end - *bytes);

    CHECK(input->length < APP_LINE_BYTES);
    if (more >= APP_LINE_BYTES - input->length)
        return err_set(err, ERR_INVALID, "a line has more than %d bytes", APP_LINE_BYTES);
    if (more > 0 && memchr(*bytes, '\0', more) != NULL)
        return err_set(err, ERR_INVALID, "a line holds a NUL");
    if (more > 0)
        memcpy(input->bytes + input->length, *bytes, more);
    input->length += more;
    if (end == NULL) {
        *bytes += more;
        *length = 0;
        return 0;
    }
    *bytes = end + 1;
    *length -= more + 1;
    input->bytes[input->length] = '\0';
    input->length = 0;
    return line_parse(input->bytes, from, ret_line, err) == 0 ? 1 : -1;
}

/* ---- format ---- */

static bool put_field(struct writer *writer, const struct field *field, const struct app_line *line)
{
    const char *text = line_text(line, field);
    char digits[NUMBER_TEXT_BYTES] = "-";
    bool valid = true;
    uint64_t number;

    switch (field->kind) {
    case FIELD_VERSION:
    case FIELD_NUMBER:
    case FIELD_KNOWN:
        number = field->kind == FIELD_VERSION ? APP_LINE_VERSION : line_number(line, field);
        if (field->kind != FIELD_KNOWN || number != APP_LINE_UNKNOWN) {
            valid = number >= field->min && number <= field->max;
            snprintf(digits, sizeof(digits), "%" PRIu64, number);
        }
        put_bytes(writer, digits, strlen(digits));
        break;
    case FIELD_WAY:
        valid = line->way < APP_LINE_WAY_COUNT;
        put_word(writer, valid ? ways[line->way] : "", false);
        break;
    case FIELD_ID:
        valid = id_valid(text);
        put_word(writer, text, false);
        break;
    case FIELD_HINT:
        valid = hint_valid(text);
        put_word(writer, text, false);
        break;
    case FIELD_FOLDER:
        valid = folder_valid(text);
        put_word(writer, text, false);
        break;
    case FIELD_TEXT:
        valid = *text != '\0';
        put_word(writer, text, true);
        break;
    }
    return valid;
}

size_t app_line_format(const struct app_line *line, char ret_text[APP_LINE_BYTES])
{
    struct writer writer = {.text = ret_text};

    CHECK(line->verb < APP_LINE_VERB_COUNT);
    const struct verb *verb = &verbs[line->verb];

    put_word(&writer, verb->name, false);
    for (size_t i = 0; i < verb->field_count; i++) {
        put_bytes(&writer, " ", 1);
        if (!put_field(&writer, &verb->fields[i], line))
            return 0;
    }
    if (writer.full || line_contradicts(line) != NULL)
        return 0;
    ret_text[writer.length++] = '\n';
    CHECK(writer.length <= APP_LINE_BYTES);
    return writer.length;
}
