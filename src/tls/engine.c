/* TLS over memory. See engine.h. */
#include "src/tls/engine.h"

#include <inttypes.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/tls/internal.h"
#include "src/tls/x509.h"

/* ---- OpenSSL reads from what was fed and writes into the output ---- */

static int memory_read(BIO *bio, char *bytes, int size)
{
    struct tls_engine *engine = BIO_get_data(bio);
    size_t length = engine->input_length;

    BIO_clear_retry_flags(bio);
    if (length == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (length > (size_t)size)
        length = (size_t)size;
    memcpy(bytes, engine->input, length);
    engine->input += length;
    engine->input_length -= length;
    return (int)length;
}

static int memory_write(BIO *bio, const char *bytes, int length)
{
    struct tls_engine *engine = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (length > 0)
        buf_append(&engine->output, bytes, (size_t)length);
    return length;
}

static long memory_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *memory_method; /* one per process */

static void memory_method_make(void)
{
    memory_method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "engine");
    CHECK(memory_method != NULL);
    CHECK(BIO_meth_set_read(memory_method, memory_read) == 1);
    CHECK(BIO_meth_set_write(memory_method, memory_write) == 1);
    CHECK(BIO_meth_set_ctrl(memory_method, memory_control) == 1);
}

static BIO *memory_bio(struct tls_engine *engine)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *bio;

    CHECK(pthread_once(&once, memory_method_make) == 0);
    bio = BIO_new(memory_method);
    CHECK(bio != NULL);
    BIO_set_data(bio, engine);
    BIO_set_init(bio, 1);
    return bio;
}

/* ---- life ---- */

struct tls_engine *tls_engine_new(const struct tls_context *context, enum tls_side side,
                                  const char *protocol)
{
    struct tls_engine *engine = check_calloc(1, sizeof(*engine));
    unsigned char offered[32];
    size_t length = strlen(protocol);
    BIO *bio = memory_bio(engine);

    CHECK(length > 0 && length < sizeof(offered));
    engine->side = side;
    engine->protocol = protocol;
    engine->context = context;
    engine->own = context->own;
    buf_init(&engine->output);
    engine->ssl = SSL_new(context->ssl);
    CHECK(engine->ssl != NULL && SSL_set_app_data(engine->ssl, engine) == 1);
    SSL_set_bio(engine->ssl, bio, bio);
    if (side == TLS_SERVER) {
        SSL_set_accept_state(engine->ssl);
    } else {
        SSL_set_connect_state(engine->ssl);
        offered[0] = (unsigned char)length;
        memcpy(offered + 1, protocol, length);
        CHECK(SSL_set_alpn_protos(engine->ssl, offered, (unsigned)length + 1) == 0);
    }
    return engine;
}

void tls_engine_free(struct tls_engine *engine)
{
    if (engine == NULL)
        return;
    SSL_free(engine->ssl);
    buf_close(&engine->output);
    free(engine);
}

/* ---- why it failed ---- */

/* Called by OpenSSL for each certificate that it does not take, and for each that it does. */
int tls_engine_verified(int good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_engine *engine = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    int error = X509_STORE_CTX_get_error(store);
    char name[TLS_IDENTITY_TEXT_BYTES] = "of the peer", time[X509_TIME_TEXT_BYTES];
    const char *advice = error == X509_V_ERR_INVALID_PURPOSE
                             ? "it is for clients only"
                             : "both sides need certificates of one CA";

    if (good && certificate != NULL && tls_revoked(engine->context, certificate)) {
        good = 0;
        error = X509_V_ERR_CERT_REVOKED;
        X509_STORE_CTX_set_error(store, error);
        advice = "issue another one";
    }
    if (good || engine->verify_text[0] != '\0')
        return good;
    if (X509_STORE_CTX_get0_cert(store) != NULL)
        x509_name(X509_STORE_CTX_get0_cert(store), name);
    if (error == X509_V_ERR_CERT_HAS_EXPIRED && certificate != NULL)
        snprintf(engine->verify_text, sizeof(engine->verify_text),
                 "certificate %s%s expired at %s; issue a new one", name,
                 certificate == X509_STORE_CTX_get0_cert(store) ? "" : ": its CA's",
                 x509_time_text(x509_not_after(certificate), time));
    else if (error == X509_V_ERR_CERT_NOT_YET_VALID && certificate != NULL)
        snprintf(engine->verify_text, sizeof(engine->verify_text),
                 "certificate %s is not valid before %s; compare the clocks of both hosts", name,
                 x509_time_text(x509_not_before(certificate), time));
    else
        snprintf(engine->verify_text, sizeof(engine->verify_text), "certificate %s: %s; %s", name,
                 X509_verify_cert_error_string(error), advice);
    return 0;
}

/* The peer told us by an alert that it does not take what we sent. */
static const char *alert_meaning(int reason)
{
    switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "it wants a certificate and got none";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
        return "our certificate is not of its CA";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "our certificate has expired, or is not valid yet by its clock";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        return "our certificate was revoked";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return "our certificate is not accepted";
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "it does not speak TLS 1.3";
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
        return "another service listens there";
    default:
        return NULL;
    }
}

static void describe_failure(const struct tls_engine *engine, struct err *err)
{
    unsigned long code = ERR_peek_error(); /* the first one is the cause */
    int reason = ERR_GET_REASON(code);
    const char *meaning = alert_meaning(reason);
    const char *text = ERR_reason_error_string(code);

    if (engine->verify_text[0] != '\0')
        err_set(err, ERR_AUTH, "TLS: %s", engine->verify_text);
    else if (meaning != NULL)
        err_set(err, ERR_AUTH, "TLS: the peer refused: %s", meaning);
    else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        err_set(err, ERR_AUTH, "TLS: the peer showed no certificate; give it --cert and --key");
    else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
             reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_PACKET_LENGTH_TOO_LONG)
        err_set(err, ERR_INVALID,
                "TLS: what came is not TLS; the peer speaks plain text or another protocol");
    else if (reason == SSL_R_UNSUPPORTED_PROTOCOL)
        err_set(err, ERR_INVALID, "TLS: the peer does not speak TLS 1.3");
    else if (reason == SSL_R_NO_APPLICATION_PROTOCOL)
        err_set(err, ERR_INVALID, "TLS: the peer does not want %s, which is spoken here",
                engine->protocol);
    else
        err_set(err, ERR_INVALID, "TLS: %s", text == NULL ? "broken off" : text);
}

/* OpenSSL is silent to who does not speak TLS at all. This many clients know, and ours tell their
 * users. */
static void alert_foreigner(struct tls_engine *engine)
{
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70}; /* fatal: protocol_version */

    if (engine->side == TLS_SERVER && engine->state == ENGINE_HANDSHAKE &&
        engine->output.length == 0)
        buf_append(&engine->output, alert, sizeof(alert));
}

static enum tls_progress engine_fail(struct tls_engine *engine)
{
    alert_foreigner(engine);
    describe_failure(engine, &engine->err);
    ERR_clear_error();
    engine->state = ENGINE_FAILED;
    engine->input_length = 0;
    return TLS_FAILED;
}

const struct err *tls_engine_error(const struct tls_engine *engine)
{
    return &engine->err;
}

const struct err *tls_engine_closed(struct tls_engine *engine)
{
    if (engine->state == ENGINE_HANDSHAKE) {
        err_set(&engine->err, ERR_UNAVAILABLE,
                "TLS: the peer closed the connection during the handshake%s",
                engine->side == TLS_CLIENT ? "; is TLS configured there?" : "");
        engine->state = ENGINE_FAILED;
    } else if (engine->state != ENGINE_FAILED) {
        err_set(&engine->err, ERR_UNAVAILABLE, "connection closed by peer");
    }
    return &engine->err;
}

const struct err *tls_engine_timed_out(struct tls_engine *engine, uint64_t limit_ms)
{
    err_set(&engine->err, ERR_TIMEOUT, "TLS: no complete handshake within %" PRIu64 " ms",
            limit_ms);
    engine->state = ENGINE_FAILED;
    return &engine->err;
}

/* ---- handshake ---- */

int tls_engine_choose_protocol(SSL *ssl, const unsigned char **ret_chosen,
                               unsigned char *ret_length, const unsigned char *offered,
                               unsigned length, void *data)
{
    const struct tls_engine *engine = SSL_get_app_data(ssl);
    size_t wanted = strlen(engine->protocol);

    (void)data;
    for (unsigned at = 0; at < length; at += 1u + offered[at]) {
        if (offered[at] == wanted && at + 1 + wanted <= length &&
            memcmp(offered + at + 1, engine->protocol, wanted) == 0) {
            *ret_chosen = offered + at + 1;
            *ret_length = offered[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static enum tls_progress engine_handshake(struct tls_engine *engine)
{
    int result = SSL_do_handshake(engine->ssl);
    const unsigned char *protocol;
    unsigned length;
    X509 *certificate;

    if (result != 1)
        return SSL_get_error(engine->ssl, result) == SSL_ERROR_WANT_READ ? TLS_WANTS_MORE
                                                                         : engine_fail(engine);
    SSL_get0_alpn_selected(engine->ssl, &protocol, &length);
    if (length != strlen(engine->protocol) || memcmp(protocol, engine->protocol, length) != 0) {
        err_set(&engine->err, ERR_INVALID, "TLS: the peer did not agree on %s", engine->protocol);
        engine->state = ENGINE_FAILED;
        return TLS_FAILED;
    }
    certificate = SSL_get0_peer_certificate(engine->ssl);
    CHECK(certificate != NULL && SSL_get_verify_result(engine->ssl) == X509_V_OK);
    if (x509_identity(certificate, &engine->peer, &engine->peer_err) != 0)
        engine->peer.kind = TLS_NOBODY;
    engine->state = ENGINE_OPEN;
    return TLS_ESTABLISHED;
}

/* ---- bytes ---- */

void tls_engine_feed(struct tls_engine *engine, const uint8_t *bytes, size_t length)
{
    CHECK(engine->input_length == 0);
    engine->input = bytes;
    engine->input_length = length;
}

enum tls_progress tls_engine_read(struct tls_engine *engine, uint8_t *plain, size_t size,
                                  size_t *ret_length)
{
    int result;

    CHECK(size > 0);
    if (engine->state == ENGINE_FAILED)
        return TLS_FAILED;
    if (engine->state == ENGINE_ENDED)
        return TLS_ENDED;
    ERR_clear_error();
    if (engine->state == ENGINE_HANDSHAKE)
        return engine_handshake(engine);
    result = SSL_read_ex(engine->ssl, plain, size, ret_length);
    if (result == 1)
        return TLS_PLAIN;
    switch (SSL_get_error(engine->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return TLS_WANTS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        engine->state = ENGINE_ENDED;
        engine->input_length = 0;
        return TLS_ENDED;
    default:
        return engine_fail(engine);
    }
}

int tls_engine_write(struct tls_engine *engine, const uint8_t *plain, size_t length)
{
    size_t written;

    if (engine->state != ENGINE_OPEN && engine->state != ENGINE_ENDED)
        return -1;
    if (length == 0)
        return 0;
    ERR_clear_error();
    if (SSL_write_ex(engine->ssl, plain, length, &written) != 1) {
        engine_fail(engine);
        return -1;
    }
    CHECK(written == length); /* the output takes everything */
    return 0;
}

struct buf *tls_engine_output(struct tls_engine *engine)
{
    return &engine->output;
}

/* ---- the peer ---- */

bool tls_engine_established(const struct tls_engine *engine)
{
    return engine->state == ENGINE_OPEN || engine->state == ENGINE_ENDED;
}

const struct tls_identity *tls_engine_peer(const struct tls_engine *engine, struct err *err)
{
    if (engine->peer.kind != TLS_NOBODY)
        return &engine->peer;
    err_set(err, ERR_AUTH, "%s",
            engine->peer_err.text[0] != '\0' ? engine->peer_err.text : "no handshake yet");
    return NULL;
}

int tls_engine_expect_replica(struct tls_engine *engine, uint64_t member_id)
{
    const struct tls_identity *peer = tls_engine_peer(engine, &engine->err);
    char name[TLS_IDENTITY_TEXT_BYTES];

    if (peer == NULL)
        err_wrap(&engine->err, "TLS");
    else if (peer->kind != TLS_REPLICA || strcmp(peer->cluster, engine->own.cluster) != 0)
        err_set(&engine->err, ERR_AUTH, "TLS: the peer is %s, not a replica of cluster %s",
                tls_identity_format(peer, name), engine->own.cluster);
    else if (member_id != 0 && peer->member_id != member_id)
        err_set(&engine->err, ERR_AUTH, "TLS: the peer's certificate names %s, not member %" PRIu64,
                tls_identity_format(peer, name), member_id);
    else
        return 0;
    engine->state = ENGINE_FAILED;
    engine->input_length = 0;
    return -1;
}

/* Of the chain as it was verified, as in a handshake. NULL: none of it is. */
static X509 *revoked_of(const struct tls_context *context, X509_STORE_CTX *check)
{
    STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(check);

    for (int i = 0; i < sk_X509_num(chain); i++)
        if (tls_revoked(context, sk_X509_value(chain, i)))
            return sk_X509_value(chain, i);
    return NULL;
}

int tls_engine_recheck(const struct tls_engine *engine, const struct tls_context *context,
                       bool dates, struct err *err)
{
    X509 *certificate = SSL_get0_peer_certificate(engine->ssl);
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    char name[TLS_IDENTITY_TEXT_BYTES];
    int status = 0;

    CHECK(tls_engine_established(engine) && certificate != NULL && check != NULL);
    CHECK(X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context->ssl), certificate,
                              SSL_get_peer_cert_chain(engine->ssl)) == 1);
    if (!dates)
        X509_STORE_CTX_set_flags(check, X509_V_FLAG_NO_CHECK_TIME);
    if (X509_verify_cert(check) != 1)
        status = err_set(err, ERR_AUTH, "TLS: certificate %s is no longer good: %s",
                         x509_name(certificate, name),
                         X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    else if (revoked_of(context, check) != NULL)
        status = err_set(err, ERR_AUTH, "TLS: certificate %s was revoked; issue another one",
                         x509_name(revoked_of(context, check), name));
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return status;
}
