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
 * Shapes   one per connection, of the context's thread. Output grows by what is written: the caller
 *          stops writing while its socket does not take it. Incoming records are at most 16 KiB,
 *          handshake messages at most TLS_HANDSHAKE_MAX_BYTES.
 * Errors   tls_engine_error() says in one line why the connection failed; an alert for the peer may
 *          wait in the output.
 * Absent   a timer for handshakes that stall: the owner has it. A farewell: freeing an engine sends
 *          nothing, the peer sees the connection close. Host names: the identity says who
 *          the peer is (identity.h).
 * Source   RFC 8446, RFC 7301 (ALPN), RFC 5280.
 */
#ifndef CKPT_TLS_ENGINE_H
#define CKPT_TLS_ENGINE_H

#include "src/base/buf.h"
#include "src/tls/context.h"

/* The most that the peer's certificates may be long, and the most plain bytes of one record. */
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

/* A client's engine dials, a server's is dialled: only the client offers the protocol, only the
 * server chooses. protocol is agreed on by ALPN and is at most 31 bytes of static storage: "h2". A
 * peer without it fails the handshake. The context's certificate is used as it is now; a later
 * reload does not touch this engine. Never NULL. */
struct tls_engine *tls_engine_new(const struct tls_context *context, enum tls_side side,
                                  const char *protocol);
void tls_engine_free(struct tls_engine *engine); /* NULL allowed */

/* Gives bytes that came from the peer. They are borrowed, not copied: they must stay until
 * tls_engine_read() wants more, ends or fails; before that, nothing further may be fed. */
void tls_engine_feed(struct tls_engine *engine, const uint8_t *bytes, size_t length);
/* Goes on with what was fed, until something is to be told. size at least 1; up to TLS_PLAIN_BYTES
 * come at once, so a buffer of that size takes a record in one call. *ret_length is set with
 * TLS_PLAIN only. Call it once without feeding to begin a client's handshake. After TLS_ENDED and
 * TLS_FAILED it answers the same again. */
enum tls_progress tls_engine_read(struct tls_engine *engine, uint8_t *plain, size_t size,
                                  size_t *ret_length);
/* Encrypts all of it into the output; the plain bytes may go at once. Allowed after
 * TLS_ESTABLISHED, also when the peer has ended its own direction. -1: it is not open, or it failed
 * now. */
int tls_engine_write(struct tls_engine *engine, const uint8_t *plain, size_t length);
/* What waits to be sent to the peer: handshake messages, records, an alert. The caller sends it and
 * empties the buffer; it belongs to the engine. */
struct buf *tls_engine_output(struct tls_engine *engine);

/* Whether the handshake is done and nothing has failed since. */
bool tls_engine_established(const struct tls_engine *engine);
/* Of a failed engine: ERR_AUTH when one of the certificates was not taken, ERR_INVALID when what
 * came is not TLS or not the protocol, both with the next step; ERR_NONE before. Lives with the
 * engine. */
const struct err *tls_engine_error(const struct tls_engine *engine);
/* Why a connection that the peer closed, or that took too long, is of no use: sets the error, to
 * ERR_UNAVAILABLE unless one is known already, or to ERR_TIMEOUT. A handshake that is cut off fails
 * the engine, as an expired limit does. */
const struct err *tls_engine_closed(struct tls_engine *engine);
const struct err *tls_engine_timed_out(struct tls_engine *engine, uint64_t limit_ms);

/* Who the peer is by its certificate; NULL with err when it names nobody. After TLS_ESTABLISHED. */
const struct tls_identity *tls_engine_peer(const struct tls_engine *engine, struct err *err);
/* Unless the peer is a replica of our cluster, and that member when member_id is not 0: fails the
 * engine with ERR_AUTH and returns -1. What was fed and not read yet is dropped, so that nothing of
 * a stranger reaches the caller. */
int tls_engine_expect_replica(struct tls_engine *engine, uint64_t member_id);
/* Looks at an established connection again, by the context's present CA file. -1 with err
 * (ERR_AUTH) when the peer's certificate would not be taken any more: the CA file was changed, or,
 * if its dates count, it has expired. The engine itself goes on; whether to close it is its owner's
 * decision. */
int tls_engine_recheck(const struct tls_engine *engine, const struct tls_context *context,
                       bool dates, struct err *err);

#endif
