/* What context.c and engine.c share.
 *
 * Shapes   a context is the files of one identity and what OpenSSL made of them; an engine is one
 *          connection with it, over memory: input is borrowed from the feed, output is kept until
 *          it was taken.
 */
#ifndef CKPT_TLS_INTERNAL_H
#define CKPT_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "src/base/buf.h"
#include "src/tls/context.h"
#include "src/tls/engine.h"

enum { TLS_FILE_COUNT = 3 };

/* What tells one version of a file from another: a write changes the time, a rename the inode. All
 * zero when there is no file. */
struct tls_stamp {
    struct timespec changed;
    ino_t inode;
    off_t size;
};

/* `generation` grows with each load that changed something: connections made before are looked at
 * again. */
struct tls_context {
    char *paths[TLS_FILE_COUNT];  /* ca, cert, key */
    struct tls_identity expected; /* as given to tls_context_new(); kind TLS_NOBODY: anybody */
    struct tls_identity own;      /* of the last good load, like all below */
    SSL_CTX *ssl;                 /* each engine holds a reference to the one it was made from */
    int64_t expiry_s;             /* of the own certificate */
    int64_t ca_expiry_s;          /* the earliest of those above it */
    uint64_t generation;
    char (*revoked)[TLS_SERIAL_BYTES]; /* in their order; heap */
    size_t revoked_count;
    struct tls_stamp tried[TLS_FILE_COUNT]; /* before the last load, good or bad */
    struct tls_stamp seen[TLS_FILE_COUNT];  /* by the last poll */
};

/* HANDSHAKE until the peer is known and taken; ENDED after its close; FAILED for good, see err. */
enum engine_state { ENGINE_HANDSHAKE, ENGINE_OPEN, ENGINE_ENDED, ENGINE_FAILED };

struct tls_engine {
    SSL *ssl;
    enum tls_side side;
    enum engine_state state;
    const char *protocol;              /* static storage */
    const struct tls_context *context; /* for what is revoked */
    struct tls_identity own;           /* copied: the context may be reloaded meanwhile */
    const uint8_t *input;              /* of the last feed, not yet read */
    size_t input_length;
    struct buf output;
    char verify_text[400]; /* why the peer's certificate was not taken; "" */
    struct tls_identity peer;
    struct err peer_err; /* why peer is nobody */
    struct err err;
};

/* revoked.c */
bool tls_revoked(const struct tls_context *context, X509 *certificate);

/* Callbacks that context.c puts into each SSL_CTX; the engine is the SSL's app data. */

/* Keeps the first reason for which a certificate of the peer is not taken, in words with the next
 * step; passes OpenSSL's verdict on. */
int tls_engine_verified(int good, X509_STORE_CTX *store);
/* The server's choice among what a client offers: the engine's own protocol or none, which ends the
 * handshake. */
int tls_engine_choose_protocol(SSL *ssl, const unsigned char **ret_chosen,
                               unsigned char *ret_length, const unsigned char *offered,
                               unsigned length, void *data);

#endif
