/* See sign_server.h.
 *
 * Flow     open_server() makes the scope of the worker's arguments once, so that nothing that the
 *          worker says later widens it. A request -> its form -> the scope -> the store of the
 *          task's bucket, with today's keys -> the signature of the clock's date: none is made for
 *          later.
 * Shapes   the bytes of a request are a stranger's: longer than a message, with a byte of 0, or no
 *          text at all, they come to a refusal.
 */
#include "src/dest/s3/sign_server.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/dest/s3/scope.h"
#include "src/dest/s3/stores.h"

_Static_assert((int)SERVE_MESSAGE_BYTES == (int)SIGNER_MESSAGE_MAX_BYTES,
               "a message of the one is one of the other");

struct sign_server {
    struct scope scope;
    struct err refused; /* code ERR_NONE: the task has a scope */
};

static void *open_server(const char *const *arguments)
{
    struct sign_server *server = check_calloc(1, sizeof(*server));

    (void)scope_of(arguments, &server->scope, &server->refused);
    return server;
}

static int say_store(const struct sign_server *server, struct buf *message, struct err *err)
{
    struct signer_store store;
    struct signer_keys keys;

    if (s3_store_find(server->scope.bucket, &store, &keys, err) != 0)
        return -1;
    signer_format_store(&store, message);
    return 0;
}

static int say_signature(const struct sign_server *server, char *text, struct buf *message,
                         struct err *err)
{
    struct signer_store store;
    struct signer_keys keys;
    struct signer_request request;
    struct signer_answer answer;
    struct buf authorization;
    char date[SIGV4_DATE_BYTES];

    if (signer_parse_request(text, &request, err) != 0 ||
        scope_allows(&server->scope, &request, err) != 0 ||
        s3_store_find(server->scope.bucket, &store, &keys, err) != 0)
        return -1;
    sigv4_date(time(NULL), date);
    buf_init(&authorization);
    signer_authorize(&store, &keys, &request, date, &authorization);
    buf_append(&authorization, "", 1);
    answer = (struct signer_answer){date, (const char *)authorization.bytes, keys.token};
    signer_format_answer(&answer, message);
    buf_close(&authorization);
    return 0;
}

static int say_answer(const struct sign_server *server, const char *request, size_t length,
                      struct buf *message, struct err *err)
{
    static char text[SIGNER_MESSAGE_MAX_BYTES + 1];

    if (server->refused.code != ERR_NONE) {
        *err = server->refused;
        return -1;
    }
    if (length > SIGNER_MESSAGE_MAX_BYTES)
        return err_set(err, ERR_REFUSED, "the request has %zu bytes, at most %d are read", length,
                       SIGNER_MESSAGE_MAX_BYTES);
    memcpy(text, request, length);
    text[length] = '\0';
    if (strlen(text) != length)
        return err_set(err, ERR_REFUSED, "the request holds a byte of 0");
    if (strcmp(text, "store\n") == 0)
        return say_store(server, message, err);
    return say_signature(server, text, message, err);
}

static size_t answer_request(void *state, const char *request, size_t length,
                             char ret_answer[SERVE_MESSAGE_BYTES])
{
    struct buf message;
    struct err err = {.code = ERR_NONE};
    size_t said;

    buf_init(&message);
    if (say_answer(state, request, length, &message, &err) != 0 ||
        message.length > SIGNER_MESSAGE_MAX_BYTES) {
        buf_clear(&message);
        signer_format_refusal(err.code != ERR_NONE ? err.text : "the answer is too long", &message);
    }
    said = message.length;
    CHECK(said > 0 && said <= SERVE_MESSAGE_BYTES);
    memcpy(ret_answer, message.bytes, said);
    buf_close(&message);
    return said;
}

const struct destination_serve s3_sign_server = {
    .variable = SIGNER_ENVIRONMENT, .open = open_server, .answer = answer_request, .close = free};
