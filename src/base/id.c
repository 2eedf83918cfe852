/* Ids and checkpoint ids as text. See id.h. */
#include "src/base/id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/err.h"
#include "src/base/text.h"

enum { ID_SHOWN_BYTES = 141 };

/* Each command brings hundreds of these bytes, and they are looked at on every member. */
static const bool id_bytes[256] = {
    ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true,
    ['.'] = true,         ['_'] = true,         ['-'] = true,
};

bool id_valid(const char *text)
{
    size_t length = 0;

    if (text == NULL)
        return false;
    while (id_bytes[(unsigned char)text[length]])
        if (++length > ID_MAX_BYTES)
            return false;
    if (text[length] != '\0' || length == 0)
        return false;
    return text[0] != '.' || (strcmp(text, ".") != 0 && strcmp(text, "..") != 0);
}

int id_check(const char *what, const char *text, struct err *err)
{
    char shown[ID_SHOWN_BYTES];

    if (id_valid(text))
        return 0;
    if (text == NULL)
        text = "";
    return err_set(err, ERR_INVALID, "%s: \"%s\" is not " ID_FORM " (it has %zu bytes)", what,
                   text_shown(text, shown, sizeof(shown)), strlen(text));
}

bool label_valid(const char *text)
{
    size_t length = 0;

    while (id_bytes[(unsigned char)text[length]] || text[length] == ':')
        if (++length > LABEL_MAX_BYTES)
            return false;
    return length > 0 && text[length] == '\0';
}

bool id_is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

char *checkpoint_id_format(uint64_t id, char text[CHECKPOINT_ID_TEXT_BYTES])
{
    uint64_t mask = (UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1;

    snprintf(text, CHECKPOINT_ID_TEXT_BYTES, "%" PRIu64 "-%" PRIu64, id >> CHECKPOINT_SEQUENCE_BITS,
             id & mask);
    return text;
}

/* Reads digits up to `end_byte`; leading zeros are refused so that one id has one text. */
static const char *id_digits(const char *text, char end_byte, uint64_t maximum, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (*text < '1' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > maximum)
            return NULL;
    }
    if (*text != end_byte)
        return NULL;
    *ret_value = value;
    return text + 1;
}

int checkpoint_id_parse(const char *text, uint64_t *ret_id)
{
    uint64_t epoch;
    uint64_t sequence;

    text = id_digits(text, '-', CHECKPOINT_EPOCH_MAX, &epoch);
    if (text == NULL)
        return -1;
    if (id_digits(text, '\0', (UINT64_C(1) << CHECKPOINT_SEQUENCE_BITS) - 1, &sequence) == NULL)
        return -1;
    *ret_id = checkpoint_id_make(epoch, sequence);
    return 0;
}

char *part_name_format(uint32_t part, char text[PART_NAME_BYTES])
{
    snprintf(text, PART_NAME_BYTES, "part-%04" PRIu32, part);
    return text;
}
