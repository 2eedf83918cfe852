/* TLS 1.3 of one connection as a transformation of bytes: no socket, no loop, no clock.
 *
 * Flow     received bytes -> tls_engine_feed -> tls_engine_read until it wants more ;
 *          tls_engine_write -> output -> socket. Both sides must show a certificate of the CA.
 *          After each call, send what tls_engine_output() holds and clear it.
 *
 *              HANDSHAKE ──both certificates good, protocol agreed──► OPEN ──peer ends──► ENDED
 *                  └──────────────── anything else ──────────────────►  └─bad record─► FAILED
 *
 * Shapes   one per connection. Output grows by what is written: the caller stops writing while its
 *          socket does not take it. Incoming records are at most 16 KiB, handshake messages at most
 *          TLS_HANDSHAKE_MAX_BYTES.
 * Errors   tls_engine_error() says in one line why the connection failed; an alert for the peer may
 *          wait in the output.
 * Absent   a timer for handshakes that stall: the owner has it. Host names: the identity says who
 *          the peer is (identity.h).
 * Source   RFC 8446, RFC 7301 (ALPN), RFC 5280.
 */
#ifndef CKPT_TLS_ENGINE_H
#define CKPT_TLS_ENGINE_H

#include "src/base/buf.h"
#include "src/tls/context.h"

enum { TLS_HANDSHAKE_MAX_BYTES = 32 << 10, TLS_PLAIN_BYTES = 16384 };

enum tls_side { TLS_CLIENT, TLS_SERVER };

enum tls_progress {
    TLS_WANTS_MORE,  /* all that was fed is used */
    TLS_ESTABLISHED, /* once: tls_engine_peer() is known, plain bytes may be written; read again */
    TLS_PLAIN,       /* *ret_length bytes; read again */
    TLS_ENDED,       /* the peer sends no more */
    TLS_FAILED
};

struct tls_engine;

/* protocol is agreed on by ALPN, static storage: "h2". */
struct tls_engine *tls_engine_new(const struct tls_context *context, enum tls_side side,
                                  const char *protocol);
void tls_engine_free(struct tls_engine *engine); /* NULL allowed */

/* The bytes must stay until tls_engine_read() wants more; before that, nothing further may be
 * fed. */
void tls_engine_feed(struct tls_engine *engine, const uint8_t *bytes, size_t length);
/* size at least 1; up to TLS_PLAIN_BYTES come at once. Call it once without feeding to begin a
 * client's handshake. */
enum tls_progress tls_engine_read(struct tls_engine *engine, uint8_t *plain, size_t size,
                                  size_t *ret_length);
/* After TLS_ESTABLISHED. -1: failed. */
int tls_engine_write(struct tls_engine *engine, const uint8_t *plain, size_t length);
struct buf *tls_engine_output(struct tls_engine *engine);

bool tls_engine_established(const struct tls_engine *engine);
const struct err *tls_engine_error(const struct tls_engine *engine);
/* Why a connection that the peer closed, or that took too long, is of no use: sets the error. */
const struct err *tls_engine_closed(struct tls_engine *engine);
const struct err *tls_engine_timed_out(struct tls_engine *engine, uint64_t limit_ms);

/* Who the peer is by its certificate; NULL with err when it names nobody. After TLS_ESTABLISHED. */
const struct tls_identity *tls_engine_peer(const struct tls_engine *engine, struct err *err);
/* Unless the peer is a replica of our cluster, and that member when member_id is not 0: fails the
 * engine and returns -1. */
int tls_engine_expect_replica(struct tls_engine *engine, uint64_t member_id);
/* -1 with err when the peer's certificate would not be taken any more: the CA file was changed, or,
 * if its dates count, it has expired. */
int tls_engine_recheck(const struct tls_engine *engine, const struct tls_context *context,
                       bool dates, struct err *err);

#endif
