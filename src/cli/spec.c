/* Fields of AllocationSpec as options and as words. See spec.h. */
#include "src/cli/spec.h"

#include <jansson.h>
#include <string.h>

#include "fsm/records/allocation.h"
#include "src/base/check.h"
#include "src/cli/human.h"
#include "src/cli/option_tables.h"
#include "src/cli/reflect.h"

enum { NAME_BYTES = 40, HELP_BYTES = 400, LINE_BYTES = 100 };

struct field_text {
    const char *field;
    const char *text;
};

static const struct field_text short_names[] = {{"allocation_id", "alloc"},
                                                {"preemption_class", "class"},
                                                {"requeue_policy", "requeue"},
                                                {"target_id", "target"},
                                                {NULL, NULL}};

static const struct field_text helps[] = {
#define HELP(field, comment) {#field, comment},
#include "ckpt/v1/allocation_spec_help.h"
#undef HELP
    {NULL, NULL}};

static const char *find_text(const struct field_text *texts, const char *field)
{
    while (texts->field != NULL && strcmp(texts->field, field) != 0)
        texts++;
    return texts->text;
}

/* "checkpoint_timeout_ms" becomes "checkpoint-timeout", or "checkpoint timeout". */
static void name_field(const char *field, char separator, char name[NAME_BYTES])
{
    const char *known = find_text(short_names, field);
    size_t stem;

    number_named(field, &stem);
    CHECK(strlen(field) < NAME_BYTES);
    snprintf(name, NAME_BYTES, "%.*s", (int)stem, field);
    if (known != NULL)
        snprintf(name, NAME_BYTES, "%s", known);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '_' ? separator : *at;
}

static bool has_option(const ProtobufCFieldDescriptor *field)
{
    return field->label != PROTOBUF_C_LABEL_REPEATED && !human_is_instant(field->name) &&
           strcmp(field->name, "attributes") != 0; /* words of their own: --attr */
}

/* The bound of a registration. */
static struct number_range range_of(const ProtobufCFieldDescriptor *field)
{
    struct number_range range = {0,
                                 field->type == PROTOBUF_C_TYPE_UINT32 ? UINT32_MAX : UINT64_MAX};

#define FIELD(type, row, highest)                                                                  \
    if (strcmp(field->name, #row) == 0 && (uint64_t)(highest) < range.max)                         \
        range.max = (uint64_t)(highest);
    FSM_ALLOCATION_SPEC(FIELD, ROW_SKIP_TEXT)
#undef FIELD
    return range;
}

static struct option_spec option_of(const ProtobufCFieldDescriptor *field)
{
    static const char *const values[] = {[NUMBER_PLAIN] = "N",
                                         [NUMBER_DURATION] = "DURATION",
                                         [NUMBER_SIZE] = "SIZE",
                                         [NUMBER_RATE] = "RATE",
                                         [NUMBER_SHARE] = "SHARE"};
    struct option_spec option = {.kind = OPTION_NUMBER};
    size_t stem;

    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        option.kind = OPTION_FLAG;
        return option;
    case PROTOBUF_C_TYPE_STRING:
        option.kind = OPTION_TEXT;
        option.value = "NAME";
        return option;
    case PROTOBUF_C_TYPE_ENUM:
        option.kind = OPTION_CHOICE;
        option.value = "WORD";
        option.choices = field->descriptor;
        return option;
    default:
        option.number = number_named(field->name, &stem);
        option.value = values[option.number];
        option.range = range_of(field);
        return option;
    }
}

void spec_options_add(struct option_spec *options)
{
    static char names[CLI_OPTIONS_MAX][NAME_BYTES], texts[CLI_OPTIONS_MAX][HELP_BYTES];
    const ProtobufCMessageDescriptor *type = &ckpt__v1__allocation_spec__descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        size_t at = 0;

        CHECK(i < CLI_OPTIONS_MAX);
        name_field(field->name, '-', names[i]);
        while (options[at].name != NULL && strcmp(options[at].name, names[i]) != 0)
            at++;
        if (!has_option(field) || options[at].name != NULL)
            continue;
        CHECK(at < CLI_OPTIONS_MAX);
        options[at] = option_of(field);
        options[at].name = names[i];
        options[at].help = find_text(helps, field->name);
        CHECK(options[at].help != NULL);
        if (options[at].kind == OPTION_CHOICE) {
            int used = snprintf(texts[i], HELP_BYTES, "%s: ", options[at].help);

            CHECK(used > 0 && used < HELP_BYTES);
            option_tables_choices(&options[at], texts[i] + used, HELP_BYTES - (size_t)used);
            options[at].help = texts[i];
        }
    }
}

void spec_take(const struct cli *cli, Ckpt__V1__AllocationSpec *spec)
{
    const ProtobufCMessageDescriptor *type = spec->base.descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        bool flag = field->type == PROTOBUF_C_TYPE_BOOL;
        const struct option_value *value;
        char name[NAME_BYTES];
        struct err err;
        int result = 0;

        if (!has_option(field))
            continue;
        name_field(field->name, '-', name);
        value = cli_option(cli, name);
        if (value->set)
            result = reflect_set_text(&spec->base, field->name, flag ? "true" : value->text, &err);
        CHECK(result == 0); /* the option took it */
    }
}

/* The value of a field that says something, else NULL. */
static const char *value_text(const char *field, json_t *value, char text[HUMAN_BYTES * 3])
{
    if (json_is_string(value)) {
        const char *word = json_string_value(value);

        return word[0] == '\0' || strcmp(word, "UNSPECIFIED") == 0
                   ? NULL
                   : human_safe(word, text, (size_t)HUMAN_BYTES * 3);
    }
    if (json_is_integer(value))
        return json_integer_value(value) == 0
                   ? NULL
                   : human_named(field, (uint64_t)json_integer_value(value), text);
    return json_is_true(value) ? "" : NULL;
}

void spec_print(const struct cli *cli, const Ckpt__V1__AllocationSpec *spec)
{
    json_t *fields = reflect_to_json(&spec->base);
    char text[HUMAN_BYTES * 3], name[NAME_BYTES];
    size_t column = 0;
    const char *field;
    json_t *value;

    json_object_del(fields, "allocation_id");
    json_object_foreach(fields, field, value)
    {
        const char *shown = value_text(field, value, text);
        size_t length;

        if (shown == NULL)
            continue;
        name_field(field, ' ', name);
        length = strlen(name) + (*shown != '\0') + strlen(shown) + 2;
        if (column + length > LINE_BYTES) {
            fputc('\n', cli->out);
            column = 0;
        }
        cli_out(cli, "%s%s%s%s", column == 0 ? " " : "  ", name, *shown != '\0' ? " " : "", shown);
        column += length;
    }
    if (column > 0)
        fputc('\n', cli->out);
    json_decref(fields);
}
