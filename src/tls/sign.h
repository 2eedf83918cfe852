/* Signatures by Ed25519: a member's key from a file, and public keys of those that are believed.
 *
 * Flow     sign_key_load() at the start, sign_bytes() for each statement; sign_public_load() and
 *          sign_holds() where statements are checked.
 * Shapes   a key is shared by count, on one thread; another thread may sign with it meanwhile.
 *          A file of public keys holds one or more in PEM, one behind the other: keys that were
 *          replaced stay in it, so that what they signed stays proved.
 * Errors   a text names the file, the fault and the next step.
 * Absent   other algorithms: a statement names its key, and a key has one algorithm.
 * Source   RFC 8032, RFC 8410; K-008.
 */
#ifndef CKPT_TLS_SIGN_H
#define CKPT_TLS_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

struct sign_key;
struct sign_public;

enum {
    SIGN_BYTES = 64,
    SIGN_TEXT_BYTES = 2 * SIGN_BYTES + 1,
    /* of the id: the first half of the SHA-256 of the public key in DER, hexadecimal */
    SIGN_ID_BYTES = 33,
    SIGN_PUBLIC_MAX = 64
};

/* Of a PEM file that belongs to this process's user, and that nobody else may read. 0, or -1 with
 * ERR_IO, ERR_AUTH for its owner or mode, ERR_INVALID for what is no Ed25519 key. */
int sign_key_load(const char *path, struct sign_key **ret_key, struct err *err);
struct sign_key *sign_key_share(struct sign_key *key); /* one more owner; NULL stays NULL */
void sign_key_free(struct sign_key *key);              /* NULL allowed */
const char *sign_key_id(const struct sign_key *key);
void sign_bytes(const struct sign_key *key, const void *bytes, size_t length,
                uint8_t ret_signature[SIGN_BYTES]);

/* At most SIGN_PUBLIC_MAX keys of a PEM file. */
int sign_public_load(const char *path, struct sign_public **ret_public, struct err *err);
void sign_public_free(struct sign_public *keys); /* NULL allowed */
bool sign_public_has(const struct sign_public *keys, const char *id);
/* Whether the key of this id has signed these bytes. */
bool sign_holds(const struct sign_public *keys, const char *id, const void *bytes, size_t length,
                const uint8_t signature[SIGN_BYTES]);

#endif
