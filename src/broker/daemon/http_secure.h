/* The pages of the HTTP port over TLS, for who shows a certificate: HTTPS in front of http.h.
 *
 * Flow     handshake -> a pair of sockets, one end of which the HTTP port answers as a connection
 *          of its own -> bytes are carried both ways. Certificates of kind monitor, auditor,
 *          operator and replica see all pages; others see the public ones, and are told so.
 * Shapes   at most HTTP_SECURE_MAX connections. Then whoever comes takes the place of the oldest
 *          that has shown no certificate so far, else is closed. Reading takes turns, some
 *          milliseconds in a round of the loop. A connection stops reading its answer while
 *          HTTP_SECURE_UNSENT_BYTES of it wait for the peer, and ends when the peer has not taken
 *          them for HTTP_SECURE_STUCK_MS. The HTTP port shows out who is slow to ask
 *          (src/serve/http_guard.h).
 * Errors   an address that cannot be bound fails http_secure_open; refused peers are told as those
 *          of the API are (credentials.h).
 * Source   K-010.
 */
#ifndef CKPT_BROKER_HTTP_SECURE_H
#define CKPT_BROKER_HTTP_SECURE_H

#include "src/broker/broker.h"
#include "src/serve/http.h"

enum { HTTP_SECURE_MAX = 32, HTTP_SECURE_UNSENT_BYTES = 1 << 18, HTTP_SECURE_STUCK_MS = 10000 };

struct http_secure;

/* The broker has credentials and its HTTP port. */
int http_secure_open(struct broker *broker, const char *address, struct http_secure **ret_secure,
                     struct err *err);
/* Before the HTTP port and the credentials are freed. NULL allowed. */
void http_secure_free(struct http_secure *secure);

#endif
