/* A YAML or JSON file as a JSON value, event by event from and to libyaml.
 *
 * Source   libyaml: its events keep line numbers, which a schema-less tree needs for good messages.
 */
#include "src/cli/document.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "src/base/buf.h"
#include "src/base/check.h"

struct level {
    json_t *container;
    char *key; /* of a mapping: read, its value comes next */
};

struct builder {
    const char *name;
    json_t *root;
    struct level levels[DOCUMENT_DEPTH_MAX];
    size_t depth;
    bool done;
};

static int fail_at(struct err *err, const struct builder *b, const yaml_event_t *event,
                   const char *what)
{
    return err_set(err, ERR_INVALID, "%s line %zu: %s", b->name, event->start_mark.line + 1, what);
}

/* Takes the value. */
static int put_value(struct builder *b, const yaml_event_t *event, json_t *value, struct err *err)
{
    struct level *level = b->depth == 0 ? NULL : &b->levels[b->depth - 1];
    int result = 0;

    CHECK(value != NULL);
    if (level == NULL) {
        CHECK(b->root == NULL);
        b->root = value;
    } else if (json_is_array(level->container)) {
        json_array_append_new(level->container, value);
    } else if (json_object_get(level->container, level->key) != NULL) {
        json_decref(value);
        result = fail_at(err, b, event, "the key was given before");
    } else {
        json_object_set_new(level->container, level->key, value);
        free(level->key);
        level->key = NULL;
    }
    return result;
}

/* Plain true, false, null and whole numbers are themselves; all else is text. */
static json_t *scalar_value(const char *text, size_t length, bool plain)
{
    char *end;
    long long number;

    if (plain && (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0))
        return json_true();
    if (plain && (strcmp(text, "false") == 0 || strcmp(text, "no") == 0))
        return json_false();
    if (plain && text[0] >= '0' && text[0] <= '9') {
        errno = 0;
        number = strtoll(text, &end, 10);
        if (*end == '\0' && errno == 0)
            return json_integer(number);
    }
    return json_stringn(text, length);
}

static int take_scalar(struct builder *b, const yaml_event_t *event, struct err *err)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct level *level = b->depth == 0 ? NULL : &b->levels[b->depth - 1];

    if (event->data.scalar.anchor != NULL)
        return fail_at(err, b, event, "anchors are not taken");
    if (strlen(text) != length)
        return fail_at(err, b, event, "a NUL byte in a text");
    if (level != NULL && json_is_object(level->container) && level->key == NULL) {
        level->key = check_strdup(text);
        return 0;
    }
    json_t *value = scalar_value(text, length, plain);
    return value == NULL ? fail_at(err, b, event, "not UTF-8") : put_value(b, event, value, err);
}

static int open_level(struct builder *b, const yaml_event_t *event, json_t *container,
                      struct err *err)
{
    struct level *level = b->depth == 0 ? NULL : &b->levels[b->depth - 1];

    if (b->depth == DOCUMENT_DEPTH_MAX ||
        (level != NULL && json_is_object(level->container) && level->key == NULL)) {
        json_decref(container);
        return fail_at(err, b, event,
                       b->depth == DOCUMENT_DEPTH_MAX ? "nested too deeply"
                                                      : "a key must be a text");
    }
    if (put_value(b, event, container, err) != 0)
        return -1;
    b->levels[b->depth++] = (struct level){.container = container};
    return 0;
}

static int take_event(struct builder *b, const yaml_event_t *event, struct err *err)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event, err);
    case YAML_MAPPING_START_EVENT:
        return open_level(b, event, json_object(), err);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(b, event, json_array(), err);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        CHECK(b->depth > 0);
        b->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return fail_at(err, b, event, "aliases are not taken");
    case YAML_DOCUMENT_START_EVENT:
        return b->root == NULL ? 0 : fail_at(err, b, event, "a second document");
    case YAML_STREAM_END_EVENT:
        b->done = true;
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    CHECK_UNREACHABLE("yaml event");
}

int document_parse(const char *name, const char *text, size_t length, json_t **ret_json,
                   struct err *err)
{
    struct builder b = {.name = name};
    yaml_parser_t parser;
    int result = 0;

    CHECK(yaml_parser_initialize(&parser) == 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    while (result == 0 && !b.done) {
        yaml_event_t event;

        if (yaml_parser_parse(&parser, &event) != 1) {
            result =
                err_set(err, ERR_INVALID, "%s line %zu: %s", name, parser.problem_mark.line + 1,
                        parser.problem == NULL ? "not readable" : parser.problem);
            break;
        }
        result = take_event(&b, &event, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < DOCUMENT_DEPTH_MAX; i++)
        free(b.levels[i].key);
    if (result == 0 && b.root == NULL)
        result = err_set(err, ERR_INVALID, "%s is empty", name);
    if (result != 0) {
        json_decref(b.root);
        return -1;
    }
    *ret_json = b.root;
    return 0;
}

int document_load(const char *name, FILE *in, json_t **ret_json, struct err *err)
{
    FILE *file = strcmp(name, "-") == 0 ? in : fopen(name, "re");
    struct buf content;
    char block[4096];
    size_t got;
    int result;

    if (file == NULL)
        return err_set(err, ERR_IO, "cannot open %s: %s", name, strerror(errno));
    buf_init(&content);
    while (content.length <= DOCUMENT_MAX_BYTES && (got = fread(block, 1, sizeof(block), file)) > 0)
        buf_append(&content, block, got);
    if (ferror(file))
        result = err_set(err, ERR_IO, "cannot read %s: %s", name, strerror(errno));
    else if (content.length > DOCUMENT_MAX_BYTES)
        result = err_set(err, ERR_INVALID, "%s is larger than %d bytes", name, DOCUMENT_MAX_BYTES);
    else
        result = document_parse(name, content.length == 0 ? "" : (const char *)content.bytes,
                                content.length, ret_json, err);
    if (file != in)
        fclose(file);
    buf_close(&content);
    return result;
}

/* ---- writing ---- */

/* A text is always quoted: what is plain is a number or a word of its own. */
static void emit_scalar(yaml_emitter_t *emitter, const char *text, size_t length, bool plain)
{
    yaml_event_t event;

    CHECK(length <= INT_MAX);
    CHECK(yaml_scalar_event_initialize(
              &event, NULL, NULL, (const yaml_char_t *)text, (int)length, plain, true,
              plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE) == 1);
    (void)yaml_emitter_emit(emitter, &event);
}

static void emit_word(yaml_emitter_t *emitter, const char *text)
{
    emit_scalar(emitter, text, strlen(text), true);
}

static void emit_value(yaml_emitter_t *emitter, const json_t *json);

static void emit_object(yaml_emitter_t *emitter, const json_t *json)
{
    yaml_event_t event;
    const char *key;
    const json_t *value;

    CHECK(yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) ==
          1);
    (void)yaml_emitter_emit(emitter, &event);
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        emit_word(emitter, key);
        emit_value(emitter, value);
    }
    CHECK(yaml_mapping_end_event_initialize(&event) == 1);
    (void)yaml_emitter_emit(emitter, &event);
}

static void emit_array(yaml_emitter_t *emitter, const json_t *json)
{
    yaml_event_t event;

    CHECK(yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) ==
          1);
    (void)yaml_emitter_emit(emitter, &event);
    for (size_t i = 0; i < json_array_size(json); i++)
        emit_value(emitter, json_array_get(json, i));
    CHECK(yaml_sequence_end_event_initialize(&event) == 1);
    (void)yaml_emitter_emit(emitter, &event);
}

static void emit_value(yaml_emitter_t *emitter, const json_t *json)
{
    char text[64];

    switch (json_typeof(json)) {
    case JSON_OBJECT:
        emit_object(emitter, json);
        return;
    case JSON_ARRAY:
        emit_array(emitter, json);
        return;
    case JSON_STRING:
        emit_scalar(emitter, json_string_value(json), json_string_length(json), false);
        return;
    case JSON_INTEGER:
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        emit_word(emitter, text);
        return;
    case JSON_REAL:
        snprintf(text, sizeof(text), "%.17g", json_real_value(json));
        emit_word(emitter, text);
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        emit_word(emitter, json_is_true(json) ? "true" : "false");
        return;
    case JSON_NULL:
        emit_word(emitter, "null");
        return;
    }
    CHECK_UNREACHABLE("json type");
}

void document_write(FILE *out, const json_t *json)
{
    yaml_emitter_t emitter;
    yaml_event_t event;

    CHECK(yaml_emitter_initialize(&emitter) == 1);
    yaml_emitter_set_output_file(&emitter, out);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    CHECK(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) == 1);
    (void)yaml_emitter_emit(&emitter, &event);
    CHECK(yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 0) == 1);
    (void)yaml_emitter_emit(&emitter, &event);
    emit_value(&emitter, json);
    CHECK(yaml_document_end_event_initialize(&event, 1) == 1);
    (void)yaml_emitter_emit(&emitter, &event);
    CHECK(yaml_stream_end_event_initialize(&event) == 1);
    (void)yaml_emitter_emit(&emitter, &event);
    yaml_emitter_delete(&emitter);
}
