/* The kinds of values that every daemon has. See settings.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/base/number.h"
#include "src/serve/settings.h"

/* ---- texts ---- */

/* Takes the place of what was there. */
static int set_text(const struct settings_row *row, void *place, bool in_unit, const char *value,
                    struct err *err)
{
    size_t length = strlen(value);
    char **text = place;

    (void)in_unit;
    if (length < row->min || length > row->max)
        return err_set(err, ERR_INVALID, "has %zu characters, must have %" PRIu64 " to %" PRIu64,
                       length, row->min, row->max);
    if (length > 0 && row->kind->check != NULL && row->kind->check(value, err) != 0)
        return -1;
    free(*text);
    *text = check_strdup(value);
    return 0;
}

static void show_text(const void *place, char *text, size_t size)
{
    const char *const *value = place;

    snprintf(text, size, "\"%s\"", *value == NULL ? "" : *value);
}

static int check_id(const char *value, struct err *err)
{
    if (id_valid(value))
        return 0;
    return err_set(err, ERR_INVALID, "is '%s', must be " ID_FORM, value);
}

static int check_address(const char *value, struct err *err)
{
    char host[256];
    uint64_t port;

    if (address_split(value, host, sizeof(host), &port) == 0 && port >= 1 && port <= UINT16_MAX)
        return 0;
    return err_set(err, ERR_INVALID, "is '%.300s', must be host:port with a port from 1 to %d",
                   value, UINT16_MAX);
}

static int check_folder(const char *value, struct err *err)
{
    size_t length = strlen(value);

    if (value[0] == '/' && strstr(value, "/../") == NULL &&
        (length < 3 || strcmp(value + length - 3, "/..") != 0))
        return 0;
    return err_set(err, ERR_INVALID, "is '%.300s', must be an absolute path without '..'", value);
}

/* {host} stands for a name of the map. */
static bool url_valid(const char *url)
{
    const char *host = strncmp(url, "http://", 7) == 0    ? url + 7
                       : strncmp(url, "https://", 8) == 0 ? url + 8
                                                          : NULL;
    size_t length;

    if (host == NULL)
        return false;
    length = strcspn(host, "/?#");
    for (const char *at = url; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || *at == '#')
            return false;
    }
    return length > 0 && memchr(host, '@', length) == NULL;
}

static int check_url(const char *value, struct err *err)
{
    if (url_valid(value))
        return 0;
    return err_set(err, ERR_INVALID, /* not shown: it may hold a password */
                   "must be http://HOST or https://HOST with or without port and path, "
                   "and without user and password: those belong into credentials");
}

const struct settings_kind settings_id = {set_text, show_text, true, check_id};
const struct settings_kind settings_address = {set_text, show_text, true, check_address};
const struct settings_kind settings_folder = {set_text, show_text, true, check_folder};
const struct settings_kind settings_path = {set_text, show_text, true, NULL};
const struct settings_kind settings_url = {set_text, show_text, true, check_url};

/* ---- numbers ---- */

static int parse_count(const struct settings_row *row, bool in_unit, const char *value,
                       uint64_t *ret_number, struct err *err)
{
    const struct number_range range = {row->min, row->max};
    size_t stem;
    enum number_kind kind = number_named(row->name, &stem);

    if ((in_unit ? number_parse_in_unit(kind, value, range, ret_number, err)
                 : number_parse(kind, value, range, ret_number, err)) != 0)
        return err_wrap(err, "is wrong");
    return 0;
}

static int set_count(const struct settings_row *row, void *place, bool in_unit, const char *value,
                     struct err *err)
{
    return parse_count(row, in_unit, value, place, err);
}

static int set_count32(const struct settings_row *row, void *place, bool in_unit, const char *value,
                       struct err *err)
{
    uint64_t number;

    CHECK(row->max <= UINT32_MAX);
    if (parse_count(row, in_unit, value, &number, err) != 0)
        return -1;
    *(uint32_t *)place = (uint32_t)number;
    return 0;
}

static void show_count(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%" PRIu64, *(const uint64_t *)place);
}

static void show_count32(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%" PRIu32, *(const uint32_t *)place);
}

const struct settings_kind settings_count = {set_count, show_count, false, NULL};
const struct settings_kind settings_count32 = {set_count32, show_count32, false, NULL};

/* ---- choices ---- */

static int set_yes_no(const struct settings_row *row, void *place, bool in_unit, const char *value,
                      struct err *err)
{
    bool yes = strcmp(value, "yes") == 0 || strcmp(value, "true") == 0;

    (void)row;
    (void)in_unit;
    if (!yes && strcmp(value, "no") != 0 && strcmp(value, "false") != 0)
        return err_set(err, ERR_INVALID, "is '%.300s', must be yes or no", value);
    *(bool *)place = yes;
    return 0;
}

static int set_switch(const struct settings_row *row, void *place, bool in_unit, const char *value,
                      struct err *err)
{
    bool yes = false;

    if (set_yes_no(row, &yes, in_unit, value, err) != 0)
        return -1;
    *(int *)place = yes;
    return 0;
}

static void show_yes_no(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%s", *(const bool *)place ? "yes" : "no");
}

static void show_switch(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%s", *(const int *)place != 0 ? "yes" : "no");
}

const struct settings_kind settings_yes_no = {set_yes_no, show_yes_no, false, NULL};
const struct settings_kind settings_switch = {set_switch, show_switch, false, NULL};

static int set_level(const struct settings_row *row, void *place, bool in_unit, const char *value,
                     struct err *err)
{
    (void)row;
    (void)in_unit;
    if (log_parse_level(value, place) != 0)
        return err_set(err, ERR_INVALID, "is '%.300s', must be debug, info, warning or error",
                       value);
    return 0;
}

static void show_level(const void *place, char *text, size_t size)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};

    snprintf(text, size, "%s", levels[*(const enum log_level *)place]);
}

const struct settings_kind settings_level = {set_level, show_level, false, NULL};

static int set_log_format(const struct settings_row *row, void *place, bool in_unit,
                          const char *value, struct err *err)
{
    (void)row;
    (void)in_unit;
    if (log_parse_format(value, place) != 0)
        return err_set(err, ERR_INVALID, "is '%.300s', must be logfmt or json", value);
    return 0;
}

static void show_log_format(const void *place, char *text, size_t size)
{
    snprintf(text, size, "%s", log_format_name(*(const enum log_format *)place));
}

const struct settings_kind settings_log_format = {set_log_format, show_log_format, false, NULL};
