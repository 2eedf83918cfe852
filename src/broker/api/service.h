/* BrokerService and OperatorService: one table of methods, one way through it.
 *
 * Flow     bytes -> decode by the method's type -> by kind:
 *          MUTATION  validate, propose, answer when it is applied (a refusal is an outcome too)
 *          READ      linearizable by replica_read(), at once when the request says stale
 *          LOCAL     any member answers from what it has, also without a leader
 *          OWN       a way of its own behind replica_read() (the members): what was done already is
 *                    answered without a log entry, and a leader that was deposed must not answer
 *                    from what it remembers
 * Shapes   one struct request per call from decoding to the answer. When the client gives up first,
 *          the answer is dropped, never the command.
 * Errors   answer.h. Bytes that do not decode and unknown fields of mutations: INVALID_ARGUMENT.
 * Absent   Watch (watch.h), AgentService (dispatcher.h).
 * When     service_new() once broker->rpc and broker->replica are there, before the server listens.
 *          A row's roles can be asked for at any time: the tables are static.
 */
#ifndef CKPT_BROKER_SERVICE_H
#define CKPT_BROKER_SERVICE_H

#include "src/broker/broker.h"

/* Adds the methods and health to broker->rpc; keeps health up to date with leadership. */
struct service *service_new(struct broker *broker);
/* Who may call it, as bits 1 << enum tls_kind: its row's. 0: there is no such method. */
unsigned service_roles(const char *path);
/* A scheduler's certificate for one tenant may not call it: its row has SCOPE_NOTHING. */
bool service_beyond_tenant(const char *path);
/* After the server is freed and the replica is closed: no call is left. */
void service_free(struct service *service);

#endif
