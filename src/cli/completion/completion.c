/* The table of shells. See completion.h. */
#include "src/cli/completion/completion.h"

#include <string.h>

#include "src/base/check.h"

static const struct shell {
    const char *name;
    void (*print)(FILE *stream, const struct command *table);
} shells[] = {{"bash", completion_print_bash},
              {"fish", completion_print_fish},
              {"zsh", completion_print_zsh}};

bool completion_print(FILE *stream, const char *shell, const struct command *table)
{
    for (size_t i = 0; i < ARRAY_COUNT(shells); i++) {
        CHECK(strstr(completion_shells(), shells[i].name) != NULL);
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(stream, table);
            return true;
        }
    }
    return false;
}
