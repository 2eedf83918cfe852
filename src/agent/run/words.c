/* Values as people read them. See words.h. */
#include "src/agent/run/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fsm/names.h"
#include "src/base/check.h"

_Static_assert((int)WORDS_BYTES >= (int)FSM_WORD_BYTES, "a word fits");

const char *words_enum(const ProtobufCEnumDescriptor *type, int value, char text[WORDS_BYTES])
{
    fsm_enum_word(type, value, text);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '_')
            *at = ' ';
    }
    return text;
}

const char *words_duration(uint64_t ms, char text[WORDS_BYTES])
{
    uint64_t s = ms / 1000;

    if (s < 10)
        snprintf(text, WORDS_BYTES, "%" PRIu64 ".%" PRIu64 "s", s, ms % 1000 / 100);
    else if (s < 60)
        snprintf(text, WORDS_BYTES, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(text, WORDS_BYTES, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else
        snprintf(text, WORDS_BYTES, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s % 3600 / 60);
    return text;
}

const char *words_size(uint64_t bytes, char text[WORDS_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    uint64_t tenths = bytes * 10;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(text, WORDS_BYTES, "%" PRIu64 " B", bytes);
        return text;
    }
    for (; bytes >= 1024 && unit < 5; unit++, bytes /= 1024)
        tenths = bytes * 10 / 1024;
    snprintf(text, WORDS_BYTES, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
             units[unit]);
    return text;
}

const char *words_cut(const char *text, char *to, size_t bytes)
{
    size_t length = strlen(text), word;

    CHECK(bytes >= 8);
    if (length < bytes) {
        memcpy(to, text, length + 1);
        return to;
    }
    length = word = bytes - sizeof("...");
    while (word > length / 2 && text[word] != ' ')
        word--;
    if (text[word] == ' ')
        length = word;
    memcpy(to, text, length);
    memcpy(to + length, "...", sizeof("..."));
    return to;
}

const char *words_clock(uint64_t at_ms, char text[WORDS_BYTES])
{
    time_t at_s = (time_t)(at_ms / 1000), now_s = time(NULL);
    struct tm at, now;

    if (localtime_r(&at_s, &at) == NULL || localtime_r(&now_s, &now) == NULL) {
        snprintf(text, WORDS_BYTES, "-");
        return text;
    }
    (void)strftime(text, WORDS_BYTES,
                   at.tm_yday == now.tm_yday && at.tm_year == now.tm_year ? "%H:%M:%S"
                                                                          : "%Y-%m-%d %H:%M:%S",
                   &at);
    return text;
}

const char *words_now(char text[WORDS_BYTES])
{
    time_t now_s = time(NULL);
    struct tm now;

    if (localtime_r(&now_s, &now) == NULL) {
        snprintf(text, WORDS_BYTES, "-");
        return text;
    }
    (void)strftime(text, WORDS_BYTES, "%Y-%m-%d %H:%M:%S", &now);
    return text;
}
