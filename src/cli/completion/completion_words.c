/* Parts that the scripts of all shells have. See completion.h. */
#include <string.h>

#include "src/base/check.h"
#include "src/cli/completion/completion.h"
#include "src/cli/human.h"
#include "src/cli/option_tables.h"

const char *completion_shells(void)
{
    return "bash fish zsh";
}

/* Commands of two words follow one another in the table, with the single word beside them. */
bool completion_first_word(const struct command *table, const struct command *command,
                           int *ret_length)
{
    const int length = (int)strcspn(command->name, " ");

    CHECK(length > 0);
    for (const struct command *c = table; c != command; c++)
        if (strncmp(c->name, command->name, (size_t)length) == 0 &&
            (c->name[length] == ' ' || c->name[length] == '\0'))
            return false;
    *ret_length = length;
    return true;
}

enum completion_argument completion_argument(const struct command *command, const char **ret_plural)
{
    static const struct {
        const char *word, *plural;
    } ids[] = {{"JOB", "jobs"},          {"CHECKPOINT", "checkpoints"}, {"NODE", "nodes"},
               {"TARGET", "targets"},    {"TENANT", "tenants"},         {"PROFILE", "profile list"},
               {"MEMBER", "member list"}};

    if (strstr(command->arguments, "FILE") != NULL)
        return COMPLETION_FILES;
    if (strstr(command->arguments, "SHELL") != NULL)
        return COMPLETION_SHELLS;
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        if (strstr(command->arguments, ids[i].word) != NULL) {
            *ret_plural = ids[i].plural;
            return COMPLETION_IDS;
        }
    }
    return COMPLETION_NOTHING;
}

bool completion_has_words(const struct option_spec *spec)
{
    return spec->kind == OPTION_CHOICE;
}

void completion_print_words(FILE *stream, const struct option_spec *spec)
{
    char word[HUMAN_BYTES];
    const char *before = "";

    for (size_t i = 0; spec->words != NULL && spec->words[i] != NULL; i++) {
        fprintf(stream, "%s%s", before, spec->words[i]);
        before = " ";
    }
    for (unsigned i = 0; spec->choices != NULL && i < spec->choices->n_values; i++) {
        human_enum(spec->choices, spec->choices->values[i].value, word);
        if (strcmp(word, "UNSPECIFIED") == 0)
            continue;
        fprintf(stream, "%s%s", before, word);
        before = " ";
    }
}

void completion_print_valued(FILE *stream, const char *separator)
{
    const char *before = "";

    for (const struct option_spec *spec = global_options; spec->name != NULL; spec++) {
        if (spec->kind == OPTION_FLAG)
            continue;
        fprintf(stream, "%s'--%s'", before, spec->name);
        before = separator;
        if (spec->letter != 0)
            fprintf(stream, "%s'-%c'", separator, spec->letter);
    }
}

void completion_print_escaped(FILE *stream, const char *text, const char *letters)
{
    for (; *text != '\0'; text++) {
        CHECK(*text != '\n');
        if (strchr(letters, *text) != NULL)
            fputc('\\', stream);
        fputc(*text, stream);
    }
}
