/* The tools that there are. See tool.h. */
#include "src/agent/transparent/tool.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

static const struct tool *const rows[] = {&tool_criu, &tool_dmtcp};

const struct tool *tool_find(const char *name)
{
    CHECK(name != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

const struct tool *tool_of_image(const char *folder)
{
    CHECK(folder != NULL);
    for (size_t i = 0; folder[0] != '\0' && i < ARRAY_COUNT(rows); i++)
        if (rows[i]->left(folder))
            return rows[i];
    return NULL;
}

const struct tool *tool_at(size_t i)
{
    return i < ARRAY_COUNT(rows) ? rows[i] : NULL;
}

size_t tools_look(char ret_lines[TOOLS_MAX][TOOL_LINE_BYTES])
{
    char version[TOOL_VERSION_BYTES];
    struct err err;

    _Static_assert(ARRAY_COUNT(rows) <= TOOLS_MAX, "a line for each tool");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        err = (struct err){0};
        if (rows[i]->check(version, &err) == 0)
            snprintf(ret_lines[i], TOOL_LINE_BYTES, "%s %s", rows[i]->name, version);
        else
            snprintf(ret_lines[i], TOOL_LINE_BYTES, "%s: %.180s", rows[i]->name, err.text);
    }
    return ARRAY_COUNT(rows);
}
