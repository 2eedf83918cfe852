/* What the agent shows and signs with: its certificate (src/serve/certificates.h), whose files are
 * found by the node's name and must name it, and the keys of object stores (src/dest/s3/stores.h).
 */
#ifndef CKPT_AGENT_CREDENTIALS_H
#define CKPT_AGENT_CREDENTIALS_H

#include "src/agent/daemon/config.h"
#include "src/serve/certificates.h"

/* The caller watches and closes it. */
int credentials_open(struct certificates *ret_certificates, const struct agent_config *config,
                     const char *node, struct err *err);
/* Takes the object stores of the configuration, whose keys are read; also anew. */
int credentials_open_stores(const struct agent_config *config, struct err *err);
/* Logs that the control nodes are reached without TLS, when they are other hosts. */
void credentials_warn(const struct agent_config *config);

#endif
