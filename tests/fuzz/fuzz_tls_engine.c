/* Any bytes, cut anywhere, to a server that waits for a handshake: no crash, no leak, never
 * established, and a reason in one line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/tls/authority.h"
#include "src/tls/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static struct tls_context *context;

static void cleanup(void)
{
    tls_context_free(context);
}

static void setup(void)
{
    static const char *const names[] = {"ca.crt", "ca.key", "replica-1.crt", "replica-1.key"};
    const struct tls_order order = {.kind = TLS_REPLICA, .name = "1", .valid_s = 86400};
    char dir[] = "/tmp/fuzz-tls-XXXXXX", path[4][64];
    const struct tls_files files = {path[0], path[2], path[3]};
    struct err err;

    CHECK(mkdtemp(dir) != NULL);
    CHECK(tls_authority_create(dir, "demo", 86400, &err) == 0);
    CHECK(tls_authority_issue(dir, dir, &order, &err) == 0);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        snprintf(path[i], sizeof(path[i]), "%s/%s", dir, names[i]);
    CHECK(tls_context_new(&files, NULL, &context, &err) == 0);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        CHECK(unlink(path[i]) == 0);
    CHECK(rmdir(dir) == 0);
    atexit(cleanup);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct tls_engine *engine;
    enum tls_progress progress = TLS_WANTS_MORE;
    uint8_t plain[256];
    size_t plain_length, piece = length > 0 ? 1 + bytes[length - 1] % 64 : 1;

    if (context == NULL)
        setup();
    engine = tls_engine_new(context, TLS_SERVER, "h2");
    for (size_t at = 0; at < length && progress == TLS_WANTS_MORE; at += piece) {
        tls_engine_feed(engine, bytes + at, length - at < piece ? length - at : piece);
        progress = tls_engine_read(engine, plain, sizeof(plain), &plain_length);
        CHECK(progress == TLS_WANTS_MORE || progress == TLS_FAILED); /* it has no certificate */
    }
    if (progress == TLS_FAILED)
        CHECK(tls_engine_error(engine)->text[0] != '\0' &&
              strchr(tls_engine_error(engine)->text, '\n') == NULL);
    else
        CHECK(tls_engine_closed(engine)->text[0] != '\0');
    CHECK(tls_engine_output(engine)->length < (1 << 20));
    tls_engine_free(engine);
    return 0;
}

/* A client's own hello. */
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const protocols[] = {"h2", "ckpt-raft"};
    struct tls_engine *engine;
    struct buf *output;
    size_t plain_length, length;

    if (i >= ARRAY_COUNT(protocols))
        return 0;
    if (context == NULL)
        setup();
    engine = tls_engine_new(context, TLS_CLIENT, protocols[i]);
    CHECK(tls_engine_read(engine, bytes, 1, &plain_length) == TLS_WANTS_MORE);
    output = tls_engine_output(engine);
    length = output->length;
    CHECK(length > 0 && length <= size);
    memcpy(bytes, output->bytes, length);
    tls_engine_free(engine);
    return length;
}
