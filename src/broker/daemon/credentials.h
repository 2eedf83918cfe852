/* ckptd's certificates at work: TLS under Raft and the API, who may call what, reload, warnings,
 * metrics.
 *
 * Flow     credentials_new before the ports are opened; _wrap puts TLS around Raft's network,
 *          _configure into the API's server; _watch, when the metrics are there. Everything accepts
 *          NULL: a ckptd without TLS.
 * Errors   start: the file and what is wrong with it. Later: logged, the old certificates stay.
 *          Refused peers are logged at most CREDENTIALS_LOG_BURST at once and one per
 *          CREDENTIALS_LOG_MS, with the number left out.
 */
#ifndef CKPT_BROKER_CREDENTIALS_H
#define CKPT_BROKER_CREDENTIALS_H

#include "src/broker/broker.h"

enum { CREDENTIALS_LOG_BURST = 10, CREDENTIALS_LOG_MS = 5000, CREDENTIALS_PAGES_MS = 5000 };

struct credentials;
struct network_ops;

/* Takes the object stores of a configuration, whose keys are read (src/dest/s3/stores.h); also
 * anew. They are signed for until s3_stores_close(). */
int credentials_open_stores(const struct config *config, struct err *err);
/* Whether this member (config->self) could start with its files. */
int credentials_check(const struct config *config, struct err *err);
/* *ret_credentials is NULL when the configuration has no tls. */
int credentials_new(struct broker *broker, struct credentials **ret_credentials, struct err *err);
/* Before the replica is opened: from then on Raft's connections are TLS, and only members of this
 * cluster get one. */
void credentials_wrap(struct credentials *credentials, struct network_ops *network);
/* Before the API's server is made: its certificate, and who may call what. */
void credentials_configure(struct credentials *credentials, struct rpc_server_config *config);
/* Puts TLS around the network of the pages: any certificate of the cluster's CA. wake: a handshake
 * waits for its turn. The caller then calls credentials_pages_turn() in each round of the loop, as
 * long as it returns true. */
void credentials_wrap_pages(struct credentials *credentials, void (*wake)(void *data), void *data,
                            struct network_ops *network);
bool credentials_pages_turn(struct credentials *credentials);
/* When broker->metrics is there: the files are looked at now and then from here on, and their ends
 * are told. */
void credentials_watch(struct credentials *credentials);
/* SIGHUP: the files are read now. New connections use what was read; a file with a mistake changes
 * nothing. */
void credentials_reload(struct credentials *credentials);
/* For a channel to another member; NULL: no TLS. It lives as long as the credentials. */
const struct tls_context *credentials_context(const struct credentials *credentials);
/* The network and the server are closed. */
void credentials_free(struct credentials *credentials);

#endif
