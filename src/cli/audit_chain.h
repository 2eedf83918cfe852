/* Links of the audit trail, put together and proved: every one holds the hash of the one before.
 *
 * Flow     audit_chain_add() for what a file or the state has, from any members in any order; then
 *          audit_chain_verify().
 * Shapes   links stand behind their lengths (fsm/audit.h); one twice counts once. A cluster that
 *          was restored from a backup goes on behind the link that the backup had last, in another
 *          epoch: the numbers may come again there.
 * Errors   each finding is one line of text: FILE:N, the Nth link of the file, and what.
 * Source   F-018, V-016, I41; fsm/audit.h.
 */
#ifndef CKPT_CLI_AUDIT_CHAIN_H
#define CKPT_CLI_AUDIT_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/blake2b.h"

struct audit_place {
    uint64_t epoch, first, last; /* records */
    uint8_t hash[BLAKE2B_BYTES], previous[BLAKE2B_BYTES];
    const char *file; /* borrowed */
    uint64_t number;  /* in it, from 1 */
};

struct audit_chain {
    struct audit_place *places;
    size_t count, capacity;
    void (*found)(void *context, const char *text);
    void *context;
    size_t found_count;
};

void audit_chain_close(struct audit_chain *chain);
/* Bytes that are no link are a finding, and end what is added. */
void audit_chain_add(struct audit_chain *chain, const uint8_t *bytes, size_t length,
                     const char *file);
/* Tells what is wrong. head: the hash that one of them must have; NULL: none is known. The places
 * are in their order afterwards. Returns how many findings there were in all. */
size_t audit_chain_verify(struct audit_chain *chain, const char *head);

/* A finding, also of others. */
__attribute__((format(printf, 2, 3))) void audit_chain_tell(struct audit_chain *chain,
                                                            const char *format, ...);

/* The next link of *length bytes at *bytes, which are moved behind it. False: there is none; what
 * is left then is no link. */
bool audit_link_next(const uint8_t **bytes, size_t *length, const uint8_t **ret_link,
                     size_t *ret_length);

#endif
