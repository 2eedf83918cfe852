/* Texts and numbers without stdio, so that a signal handler can use them. See handle.h. */
#include <string.h>
#include <time.h>

#include "src/app/handle.h"

static void put_byte(struct ckptapp_text *text, char byte)
{
    if (text->length + 1 >= text->size) {
        text->full = true;
        return;
    }
    text->bytes[text->length++] = byte;
    text->bytes[text->length] = '\0';
}

void ckptapp_put(struct ckptapp_text *text, const char *words)
{
    while (*words != '\0')
        put_byte(text, *words++);
}

void ckptapp_put_number(struct ckptapp_text *text, uint64_t number)
{
    char digits[21];
    size_t at = sizeof(digits) - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    ckptapp_put(text, digits + at);
}

static bool byte_is_plain(unsigned char byte)
{
    return byte > ' ' && byte < 0x7f && byte != '%';
}

void ckptapp_put_word(struct ckptapp_text *text, const char *word)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *word != '\0'; word++) {
        unsigned char byte = (unsigned char)*word;

        if (byte_is_plain(byte)) {
            put_byte(text, (char)byte);
            continue;
        }
        put_byte(text, '%');
        put_byte(text, hex[byte >> 4]);
        put_byte(text, hex[byte & 15]);
    }
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return -1;
}

int ckptapp_word_decode(char *word)
{
    char *to = word;

    while (*word != '\0') {
        if (*word != '%') {
            *to++ = *word++;
            continue;
        }
        int high = hex_digit(word[1]), low = high < 0 ? -1 : hex_digit(word[2]);

        if (low < 0 || high * 16 + low == 0)
            return -1;
        *to++ = (char)(high * 16 + low);
        word += 3;
    }
    *to = '\0';
    return 0;
}

size_t ckptapp_words(char *line, char *words[WORDS_MAX])
{
    size_t count = 0;

    for (const char *byte = line; *byte != '\0'; byte++)
        if (*byte != ' ' && *byte != '%' && !byte_is_plain((unsigned char)*byte))
            return 0;
    for (;;) {
        char *end = strchr(line, ' ');

        if (count == WORDS_MAX || *line == '\0' || *line == ' ')
            return 0;
        words[count++] = line;
        if (end == NULL)
            return count;
        *end = '\0';
        line = end + 1;
    }
}

int ckptapp_number(const char *word, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (*word == '\0')
        return -1;
    for (; *word != '\0'; word++) {
        uint64_t digit = (uint64_t)(*word - '0');

        if (*word < '0' || *word > '9' || number > (UINT64_MAX - digit) / 10)
            return -1;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return 0;
}

bool ckptapp_label_valid(const char *label)
{
    static const char taken[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    size_t length = strlen(label);

    return length > 0 && length < LABEL_BYTES && strspn(label, taken) == length;
}

int ckptapp_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);

    if (length >= size)
        return -1;
    memcpy(to, from, length + 1);
    return 0;
}

/* clock_gettime() is async-signal-safe, as all that a [signal] call reaches. */
uint64_t ckptapp_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void ckptapp_error_set(struct ckpt *ckpt, const char *what, const char *which)
{
    struct ckptapp_text text = {ckpt->error, sizeof(ckpt->error), 0, false};

    ckpt->error[0] = '\0';
    ckptapp_put(&text, what);
    for (; *which != '\0'; which++) /* one line, whatever it was */
        put_byte(&text, (unsigned char)*which < ' ' || *which == 0x7f ? ' ' : *which);
}
