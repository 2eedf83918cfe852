/* Signed heads of the audit trail, and whether they prove a chain: for whoever has the public keys
 * and no cluster.
 *
 * Flow     audit_proof_read() for FILE.sig before FILE is read, so that the records that a member
 *          wrote meanwhile are behind the head and not missing before it; audit_proof_check() after
 *          audit_chain_verify().
 * Shapes   a record is proved when its link, or one that follows it by its hash, is that of a head
 *          with a good signature. Heads of several members and keys may be given together.
 * Errors   each finding is one line of text, as those of audit_chain.h.
 * Source   F-018, N-004, K-008; fsm/audit.h has what a signature proves.
 */
#ifndef CKPT_CLI_AUDIT_PROOF_H
#define CKPT_CLI_AUDIT_PROOF_H

#include "src/cli/audit_chain.h"
#include "src/tls/head.h"

struct audit_proof_head {
    struct signed_head head;
    char *file; /* for findings */
};

struct audit_proof {
    struct audit_proof_head *heads;
    size_t count, capacity;
};

void audit_proof_close(struct audit_proof *proof);
void audit_proof_add(struct audit_proof *proof, const struct signed_head *head, const char *file);
/* The head in PATH.sig, where there is one. -1: the file cannot be read or is none. */
int audit_proof_read(struct audit_proof *proof, const char *path, struct err *err);
/* Tells what the heads and the keys do not prove; since_ms: the newest head was signed then or
 * later; 0: whenever. Returns the newest good one; NULL: there is none. */
const struct signed_head *audit_proof_check(const struct audit_proof *proof,
                                            struct audit_chain *chain,
                                            const struct sign_public *keys, uint64_t since_ms);

#endif
