/* See head.h. */
#include "src/tls/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

static uint64_t count_of(const struct signed_head *head)
{
    return head->last < head->first ? 0 : head->last + 1 - head->first;
}

size_t signed_head_text(const struct signed_head *head, char text[SIGNED_HEAD_TEXT_BYTES])
{
    int length = snprintf(text, SIGNED_HEAD_TEXT_BYTES,
                          "ckpt audit head 1\ncluster=%s\nmember=%s\nkey=%s\nepoch=%" PRIu64
                          "\nfirst=%" PRIu64 "\nlast=%" PRIu64 "\nrecords=%" PRIu64 "\nhash=%s\n"
                          "at_ms=%" PRIu64 "\n",
                          head->cluster, head->member, head->key_id, head->epoch, head->first,
                          head->last, count_of(head), head->hash, head->at_ms);

    CHECK(length > 0 && length < SIGNED_HEAD_TEXT_BYTES);
    return (size_t)length;
}

void signed_head_sign(struct signed_head *head, const struct sign_key *key)
{
    char text[SIGNED_HEAD_TEXT_BYTES];
    uint8_t signature[SIGN_BYTES];

    CHECK(id_valid(head->cluster) && id_valid(head->member));
    snprintf(head->key_id, sizeof(head->key_id), "%s", sign_key_id(key));
    sign_bytes(key, text, signed_head_text(head, text), signature);
    for (size_t i = 0; i < SIGN_BYTES; i++)
        snprintf(head->signature + 2 * i, 3, "%02x", signature[i]);
}

/* Of one hexadecimal digit, small; -1: it is none. */
static int digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = letter == '\0' ? NULL : strchr(digits, letter);

    return at == NULL ? -1 : (int)(at - digits);
}

bool signed_head_holds(const struct signed_head *head, const struct sign_public *keys)
{
    char text[SIGNED_HEAD_TEXT_BYTES];
    uint8_t signature[SIGN_BYTES];

    if (strlen(head->signature) != SIGN_TEXT_BYTES - 1)
        return false;
    for (size_t i = 0; i < SIGN_BYTES; i++) {
        int high = digit_of(head->signature[2 * i]), low = digit_of(head->signature[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        signature[i] = (uint8_t)(high << 4 | low);
    }
    return sign_holds(keys, head->key_id, text, signed_head_text(head, text), signature);
}

size_t signed_head_json(const struct signed_head *head, char json[SIGNED_HEAD_TEXT_BYTES])
{
    int length =
        snprintf(json, SIGNED_HEAD_TEXT_BYTES,
                 "{\"cluster\": \"%s\", \"member\": \"%s\", \"key\": \"%s\", \"epoch\": %" PRIu64
                 ", \"first\": %" PRIu64 ", \"last\": %" PRIu64 ", \"records\": %" PRIu64
                 ", \"hash\": \"%s\", \"at_ms\": %" PRIu64 ", \"signature\": \"%s\"}\n",
                 head->cluster, head->member, head->key_id, head->epoch, head->first, head->last,
                 count_of(head), head->hash, head->at_ms, head->signature);

    CHECK(length > 0 && length < SIGNED_HEAD_TEXT_BYTES);
    return (size_t)length;
}
