/* A table of tenants. See tenant_table.h. */
#include "src/serve/tenant_table.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/base/id.h"

/* The next word up to one of `ends`; false: there is none. */
static bool next_word(const char **at, const char *ends, const char **ret_word, size_t *ret_length)
{
    *at += strspn(*at, ends);
    *ret_word = *at;
    *ret_length = strcspn(*at, ends);
    *at += *ret_length;
    return *ret_length > 0;
}

static bool word_is(const char *word, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

static bool has_group(const char *groups, const char *group, size_t length)
{
    const char *word;
    size_t size;

    while (next_word(&groups, ",", &word, &size))
        if (size == length && memcmp(word, group, length) == 0)
            return true;
    return false;
}

/* One TENANT=WHO,WHO... of `length` bytes. */
static bool row_gives(const char *row, size_t length, const char *tenant, const char *user,
                      const char *groups)
{
    const size_t name = strlen(tenant);
    const char *at = row + name + 1, *word;
    size_t size;

    if (length <= name || memcmp(row, tenant, name) != 0 || row[name] != '=')
        return false;
    while (at < row + length && next_word(&at, ", \t=", &word, &size) && word < row + length)
        if (word_is(word, size, "*") || word_is(word, size, user) ||
            (word[0] == '@' && has_group(groups, word + 1, size - 1)))
            return true;
    return false;
}

bool tenant_is_named(const char *tenant, const char *user, const char *groups)
{
    return strcmp(tenant, user) == 0 || has_group(groups, tenant, strlen(tenant));
}

bool tenant_table_gives(const char *table, const char *tenant, const char *user, const char *groups)
{
    const char *row;
    size_t length;

    while (next_word(&table, " \t", &row, &length))
        if (row_gives(row, length, tenant, user, groups))
            return true;
    return false;
}

int tenant_table_check(const char *key, const char *table, struct err *err)
{
    const char *row;
    size_t length;

    while (next_word(&table, " \t", &row, &length)) {
        const char *equals = memchr(row, '=', length);
        char tenant[ID_MAX_BYTES + 1] = "";

        if (equals != NULL && (size_t)(equals - row) < sizeof(tenant))
            snprintf(tenant, sizeof(tenant), "%.*s", (int)(equals - row), row);
        if (!id_valid(tenant) || equals + 1 == row + length ||
            memchr(equals + 1, '=', length - (size_t)(equals + 1 - row)) != NULL)
            return err_set(err, ERR_INVALID,
                           "%s has \"%.*s\", must be TENANT=WHO,WHO... with blanks "
                           "between; a WHO is a user, @GROUP or * for all",
                           key, (int)(length > 200 ? 200 : length), row);
    }
    return 0;
}
