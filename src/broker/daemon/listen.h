/* Where this member's Raft and API ports are bound, by number.
 *
 * Flow     listen_find() looks the names of the configuration up once, before the ports are bound.
 *          The others, agents and clients are told `raft` and `api`; `listen` says when the ports
 *          are bound elsewhere, as behind an address translation or on all interfaces.
 * Errors   ERR_INVALID: a port would be bound on loopback, while other members are told to reach it
 *          from other hosts. Debian writes the own name at 127.0.1.1 into /etc/hosts.
 * Absent   the HTTP port, which is on loopback for good.
 */
#ifndef CKPT_BROKER_LISTEN_H
#define CKPT_BROKER_LISTEN_H

#include "src/broker/daemon/config.h"

enum { LISTEN_TEXT_BYTES = 272 };

/* "10.0.0.1:9000"; a name that cannot be looked up stays, and binding it says why. */
struct listen_addresses {
    char raft[LISTEN_TEXT_BYTES], api[LISTEN_TEXT_BYTES];
};

/* Blocks for look-ups; config->self is known. */
int listen_find(const struct config *config, struct listen_addresses *ret_addresses,
                struct err *err);

#endif
