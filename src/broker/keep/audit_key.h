/* The key by which a member signs heads of the audit trail: one of its own, from a file.
 *
 * Flow     audit_key_open() at the start; audit_key_reload() at a SIGHUP: from then on the new key
 *          signs, and what the old one signed stays as it is. audit_key_reply() for replies.
 * Shapes   `audit: {key: PATH}`, where {id} is the member's. Each member has its own: a key that is
 *          known to others is replaced on one host, and a signature says whose host it was. A site
 *          that prefers one key gives all members the same file.
 * Errors   at the start: the file and its fault. At a reload they are logged, and the old key
 *          stays.
 * Source   K-008, F-018, N-004.
 */
#ifndef CKPT_BROKER_AUDIT_KEY_H
#define CKPT_BROKER_AUDIT_KEY_H

#include "fsm/audit.h"
#include "src/broker/broker.h"
#include "src/tls/head.h"

/* *ret_key is NULL where the configuration names none. */
int audit_key_load(const struct config *config, struct sign_key **ret_key, struct err *err);
/* config: as it was read now. True: the key in use was read anew. */
bool audit_key_reload(struct broker *broker, const struct config *config);
/* With TLS others are let in who may do something: without a key it is said, loudly. */
bool audit_key_wanted(const struct broker *broker);
void audit_key_warn(const struct broker *broker);

/* The cluster, the member and the time. */
void audit_key_head(const struct broker *broker, struct signed_head *ret_head);
/* Signs the state's head. False: there is no key, or no record. */
bool audit_key_sign(const struct broker *broker, const struct fsm_audit *audit, uint64_t epoch,
                    struct signed_head *ret_head);

#endif
