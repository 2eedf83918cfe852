/* Any text into the parsers of timeouts, percent encoding and addresses; any bytes, cut anywhere,
 * into the message finder; any bytes as descriptors. What they accept must survive the way back.
 */
#include <string.h>

#include "src/base/check.h"
#include "src/net/address.h"
#include "src/rpc/descriptors.h"
#include "src/rpc/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void timeout(const char *text, size_t length)
{
    char back[RPC_TIMEOUT_TEXT_BYTES];
    uint64_t ms, again;

    if (rpc_timeout_parse(text, length, &ms) != 0)
        return;
    rpc_timeout_format(ms, back);
    CHECK(rpc_timeout_parse(back, strlen(back), &again) == 0);
    CHECK(again >= ms);
}

static void percent(const char *text, size_t length)
{
    struct buf decoded, encoded, again;

    buf_init(&decoded);
    buf_init(&encoded);
    buf_init(&again);
    rpc_percent_decode(&decoded, text, length);
    buf_append(&decoded, "", 1);
    rpc_percent_encode(&encoded, (const char *)decoded.bytes);
    rpc_percent_decode(&again, (const char *)encoded.bytes, encoded.length);
    CHECK(again.length == decoded.length - 1);
    CHECK(again.length == 0 || memcmp(again.bytes, decoded.bytes, again.length) == 0);
    buf_close(&decoded);
    buf_close(&encoded);
    buf_close(&again);
}

struct sum {
    size_t count, bytes;
};

static bool add(void *data, const uint8_t *bytes, size_t length)
{
    struct sum *sum = data;

    sum->count++;
    for (size_t i = 0; i < length; i++)
        sum->bytes = sum->bytes * 31 + bytes[i];
    return true;
}

/* The same messages come out however the bytes are cut. */
static void messages(const uint8_t *bytes, size_t length)
{
    size_t piece = length > 0 ? 1 + bytes[length - 1] % 16 : 1;
    struct sum whole = {0}, cut = {0};
    struct rpc_inbox first = {.bytes = {0}}, second = {.bytes = {0}};
    enum rpc_inbox_result result = RPC_INBOX_OK;
    enum rpc_inbox_result expected = rpc_inbox_feed(&first, bytes, length, 1000, add, &whole);

    for (size_t at = 0; at < length && result == RPC_INBOX_OK; at += piece)
        result = rpc_inbox_feed(&second, bytes + at, length - at < piece ? length - at : piece,
                                1000, add, &cut);
    CHECK(result == expected);
    CHECK(whole.count == cut.count && whole.bytes == cut.bytes);
    CHECK(result != RPC_INBOX_OK || first.bytes.length == second.bytes.length);
    buf_close(&first.bytes);
    buf_close(&second.bytes);
}

static void address(const char *text, size_t length)
{
    char copy[512];
    struct network_address parsed;
    struct err err;

    if (length >= sizeof(copy))
        length = sizeof(copy) - 1;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (network_address_parse(copy, &parsed, &err) == 0)
        CHECK(strlen(parsed.host) > 0 && strlen(parsed.host) < sizeof(parsed.host));
}

static void descriptors(const uint8_t *bytes, size_t length)
{
    struct rpc_descriptors found;
    int files[RPC_DESCRIPTOR_FILES_MAX];

    if (rpc_descriptors_open(&found, bytes, length) != 0)
        return;
    CHECK(rpc_descriptors_find_symbol(&found, "a.B.C") < (int)found.count);
    for (size_t i = 0; i < found.count; i++)
        CHECK(rpc_descriptors_closure(&found, (int)i, files) <= found.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    timeout((const char *)bytes, length);
    percent((const char *)bytes, length);
    messages(bytes, length);
    address((const char *)bytes, length);
    descriptors(bytes, length);
    return 0;
}
