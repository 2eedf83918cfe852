/* Secrets in texts of a bundle. See bundle.h.
 *
 * Shapes   three passes over the text, each by one rule. A rule overwrites letters and leaves line
 *          feeds, so that line numbers stay.
 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/bundle/bundle.h"

/* Up to `end`, but for line feeds. */
static void cover_text(char *at, const char *end)
{
    for (; at < end && *at != '\0'; at++)
        if (*at != '\n')
            *at = '*';
}

static bool ends_value(char letter)
{
    return letter == '\0' || strchr(" \t\n\r\"',;}])", letter) != NULL;
}

static char *value_end(char *at)
{
    while (!ends_value(*at))
        at++;
    return at;
}

/* http://user:password@host */
static void redact_urls(char *text)
{
    for (char *at = text; (at = strstr(at, "://")) != NULL;) {
        char *sign;

        at += 3;
        sign = memrchr(at, '@', strcspn(at, "/ \t\n\"'"));
        if (sign != NULL)
            cover_text(at, sign);
    }
}

/* Credentials of HTTP: a word, a blank, and the secret. */
static void redact_schemes(char *text)
{
    static const char *const schemes[] = {"Bearer ", "Basic ", "Token ", "Api-Token "};

    for (size_t i = 0; i < ARRAY_COUNT(schemes); i++) {
        for (char *at = text; (at = strcasestr(at, schemes[i])) != NULL;) {
            at += strlen(schemes[i]);
            if (strcspn(at, " \n\"") >= 8) /* a sentence has shorter words behind "token" */
                cover_text(at, value_end(at));
        }
    }
}

/* key: value, key=value or "key": "value", of keys that are named like a secret. A path is none. */
static void redact_keys(char *text)
{
    static const char *const keys[] = {"password", "passwd",     "secret",       "token",
                                       "api_key",  "access_key", "session_token"};

    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        for (char *at = text; (at = strcasestr(at, keys[i])) != NULL;) {
            at += strlen(keys[i]);
            while (isalnum((unsigned char)*at) || *at == '_')
                at++;
            at += *at == '"';
            at += strspn(at, " \t");
            if (*at != ':' && *at != '=')
                continue;
            at++;
            at += strspn(at, " \t");
            at += *at == '"' || *at == '\'';
            if (*at != '/')
                cover_text(at, value_end(at));
        }
    }
}

static void redact_pem(char *text)
{
    for (char *at = text; (at = strstr(at, "-----BEGIN ")) != NULL;) {
        char *behind = at + strcspn(at, "\n"), *end = strstr(behind, "-----END ");

        if (memmem(at, (size_t)(behind - at), "PRIVATE KEY", 11) != NULL)
            cover_text(behind, end != NULL ? end : behind + strlen(behind));
        at = behind;
    }
}

void bundle_redact(char *text)
{
    redact_urls(text);
    redact_schemes(text);
    redact_keys(text);
    redact_pem(text);
}
