/* A head of the audit trail with a member's signature: which records it proves, and when.
 *
 * Flow     a member fills the statement and signs it (signed_head_sign), as JSON beside a file of
 *          the trail or in a reply; whoever has the public key checks it (signed_head_holds).
 * Shapes   the signature is of signed_head_text(): the statement's lines in a fixed order, so that
 *          JSON may be written anew. All of it is text that needs no quoting: ids and digits.
 * Source   F-018, N-004, K-008; fsm/audit.h has what a signature proves.
 */
#ifndef CKPT_TLS_HEAD_H
#define CKPT_TLS_HEAD_H

#include "src/base/blake2b.h"
#include "src/base/id.h"
#include "src/tls/sign.h"

#define SIGNED_HEAD_SUFFIX ".sig" /* of the file beside a file of the trail */

enum { SIGNED_HEAD_TEXT_BYTES = 1024 };

/* Records `first` to `last` are there, and the link of the last one has this hash. */
struct signed_head {
    char cluster[ID_MAX_BYTES + 1], member[ID_MAX_BYTES + 1];
    char key_id[SIGN_ID_BYTES];
    uint64_t epoch; /* of the cluster, when it was signed */
    uint64_t first, last;
    uint64_t at_ms; /* of the member's wall clock */
    char hash[BLAKE2B_TEXT_BYTES];
    char signature[SIGN_TEXT_BYTES]; /* hexadecimal */
};

/* The signed text. Returns its length. */
size_t signed_head_text(const struct signed_head *head, char text[SIGNED_HEAD_TEXT_BYTES]);
/* Fills in the key's id and the signature. */
void signed_head_sign(struct signed_head *head, const struct sign_key *key);
bool signed_head_holds(const struct signed_head *head, const struct sign_public *keys);
/* One object, with a newline. Returns its length. */
size_t signed_head_json(const struct signed_head *head, char json[SIGNED_HEAD_TEXT_BYTES]);

#endif
