/* TLS 1.3 of one connection as a transformation of bytes: no socket, no loop, no clock. One file
 * uses it, src/net/tls_network.c, which puts it between a stream and its reader; tests drive it
 * with two engines and two buffers.
 *
 * Flow     received bytes -> tls_engine_feed -> tls_engine_read until it wants more ;
 *          tls_engine_write -> output -> socket. Both sides must show a certificate of the CA.
 *          After each call, send what tls_engine_output() holds and clear it.
 *
 *              HANDSHAKE ──both certificates good, protocol agreed──► OPEN ──peer ends──► ENDED
 *                  └──────────────── anything else ──────────────────►  └─bad record─► FAILED
 *
 *          A caller's turn, for each piece that the socket brings:
 *
 *              tls_engine_feed(engine, bytes, length);
 *              while ((progress = tls_engine_read(engine, plain, sizeof(plain), &n)) is
 *                     TLS_ESTABLISHED or TLS_PLAIN)
 *                  take the plain bytes;
 *              send and clear tls_engine_output(engine);
 *
 * Shapes   one per connection, of the context's thread. Output grows with each write: the caller
 *          stops writing while its socket is full. Incoming records are at most 16 KiB, handshake
 *          messages at most TLS_HANDSHAKE_MAX_BYTES.
 * Errors   tls_engine_error() has the reason in one line; an alert for the peer may wait in the
 *          output.
 * Absent   a timer for handshakes that stall: the owner has it. A closing alert: freeing an engine
 *          sends nothing, the peer sees the connection close. Host names: the identity names the
 *          peer (identity.h).
 * Source   RFC 8446, RFC 7301 (ALPN), RFC 5280.
 */
#ifndef CKPT_TLS_ENGINE_H
#define CKPT_TLS_ENGINE_H

#include "src/base/buf.h"
#include "src/tls/context.h"

/* The largest certificates of a peer, and the most plain bytes of one record. */
enum { TLS_HANDSHAKE_MAX_BYTES = 32 << 10, TLS_PLAIN_BYTES = 16384 };

enum tls_side { TLS_CLIENT, TLS_SERVER };

enum tls_progress {
    TLS_WANTS_MORE,  /* all that was fed is used */
    TLS_ESTABLISHED, /* once: tls_engine_peer() is known, plain bytes may be written; read again */
    TLS_PLAIN,       /* *ret_length bytes; read again */
    TLS_ENDED,       /* the peer sends no more */
    TLS_FAILED       /* for good, see tls_engine_error(); send the output before closing */
};

struct tls_engine;

/* The client's side offers the protocol, the server's side chooses it. protocol is agreed on by
 * ALPN and is at most 31 bytes of static storage: "h2". A peer without it fails the handshake. The
 * context's certificate is used as it is now; a later reload does not touch this engine. Never
 * NULL. */
struct tls_engine *tls_engine_new(const struct tls_context *context, enum tls_side side,
                                  const char *protocol);
void tls_engine_free(struct tls_engine *engine); /* NULL allowed */

/* Gives bytes that came from the peer. They are borrowed, not copied: they must stay until
 * tls_engine_read() wants more, ends or fails. Until then nothing further may be fed. */
void tls_engine_feed(struct tls_engine *engine, const uint8_t *bytes, size_t length);
/* Goes on with the fed bytes until there is progress to tell. size is at least 1; up to
 * TLS_PLAIN_BYTES come at once, so a buffer of this size takes a record in one call. *ret_length is
 * set with TLS_PLAIN only. Call it once without feeding to begin a client's handshake. After
 * TLS_ENDED and TLS_FAILED it answers the same again. */
enum tls_progress tls_engine_read(struct tls_engine *engine, uint8_t *plain, size_t size,
                                  size_t *ret_length);
/* Encrypts all bytes into the output; the caller may free the plain bytes at once. Allowed after
 * TLS_ESTABLISHED, also when the peer has ended its own direction. -1: the engine is not open, or
 * it failed now. */
int tls_engine_write(struct tls_engine *engine, const uint8_t *plain, size_t length);
/* The bytes that wait to be sent to the peer: handshake messages, records, an alert. The caller
 * sends them and empties the buffer; the buffer belongs to the engine. */
struct buf *tls_engine_output(struct tls_engine *engine);

/* True: the handshake is done and nothing has failed since. */
bool tls_engine_established(const struct tls_engine *engine);
/* The error of a failed engine: ERR_AUTH: one of the certificates was refused; ERR_INVALID: the
 * bytes are not TLS, or not the protocol. Both texts have the next step. ERR_NONE before a failure.
 * Lives with the engine. */
const struct err *tls_engine_error(const struct tls_engine *engine);
/* The peer has closed the connection, or the limit has passed. Sets the error to ERR_UNAVAILABLE
 * unless one is known already, or to ERR_TIMEOUT. A handshake that is cut off fails the engine, and
 * so does an expired limit. */
const struct err *tls_engine_closed(struct tls_engine *engine);
const struct err *tls_engine_timed_out(struct tls_engine *engine, uint64_t limit_ms);

/* The identity in the peer's certificate; NULL with err: it names nobody. After TLS_ESTABLISHED. */
const struct tls_identity *tls_engine_peer(const struct tls_engine *engine, struct err *err);
/* Returns 0 when the peer is a replica of our cluster, and this member when member_id is not 0.
 * Else fails the engine with ERR_AUTH and returns -1. Fed bytes that were not read yet are dropped,
 * so that nothing of a stranger reaches the caller. */
int tls_engine_expect_replica(struct tls_engine *engine, uint64_t member_id);
/* Looks at an established connection again, by the context's present CA file. -1 with err
 * (ERR_AUTH): the peer's certificate is no longer good, because the CA file was changed or, with
 * `dates`, the certificate has expired. The engine itself goes on; the owner decides whether to
 * close it. */
int tls_engine_recheck(const struct tls_engine *engine, const struct tls_context *context,
                       bool dates, struct err *err);

#endif
