/* Texts of a record: of a limited length, with an end that shows that one was cut. See audit.h. */
#include "fsm/audit/audit.h"

static const char cut_mark[] = AUDIT_CUT_MARK;

char *audit_digits(uint64_t number, char text[AUDIT_DIGITS_BYTES])
{
    char *at = text + AUDIT_DIGITS_BYTES - 1;

    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return at;
}

/* ---- values ---- */

void audit_text_start(struct audit_text *text)
{
    CHECK(text != NULL);
    text->used = 0;
    text->text[0] = '\0';
}

/* Once it was cut nothing more is added. */
void audit_text_add(struct audit_text *text, const char *more)
{
    size_t length = strlen(more), room = sizeof(text->text) - sizeof(cut_mark) - text->used;

    CHECK(text->used < sizeof(text->text));
    if (text->used > sizeof(text->text) - sizeof(cut_mark))
        return;
    if (length > room) {
        memcpy(text->text + text->used, more, room);
        memcpy(text->text + text->used + room, cut_mark, sizeof(cut_mark));
        text->used += room + sizeof(cut_mark) - 1;
        return;
    }
    memcpy(text->text + text->used, more, length + 1);
    text->used += length;
}

void audit_text_number(struct audit_text *text, uint64_t number)
{
    char digits[AUDIT_DIGITS_BYTES];

    CHECK(text != NULL);
    audit_text_add(text, audit_digits(number, digits));
}

void audit_text_checkpoint(struct audit_text *text, uint64_t checkpoint_id)
{
    char id[CHECKPOINT_ID_TEXT_BYTES];

    CHECK(text != NULL);
    audit_text_add(text, checkpoint_id_format(checkpoint_id, id));
}

void audit_text_name(struct audit_text *text, const char *name)
{
    if (text->used > 0)
        audit_text_add(text, ", ");
    audit_text_add(text, name);
    audit_text_add(text, "=");
}
