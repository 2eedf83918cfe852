/* The agent's certificate: loaded at start, watched, warned about.
 *
 * Errors   start: the file and what is wrong with it. Later: logged, the old certificate stays in use.
 */
#ifndef CKPT_AGENT_CREDENTIALS_H
#define CKPT_AGENT_CREDENTIALS_H

#include "src/agent/daemon/config.h"
#include "src/tls/watch.h"

struct credentials {
    struct tls_context *context; /* NULL: the configuration has no tls */
    struct tls_watch watch;
};

/* The certificate must name the node. clock outlives it. */
int credentials_open(struct credentials *credentials, const struct agent_config *config,
                     const char *node, const struct clock_ops *clock, struct err *err);
/* Whether credentials_open() would take the node's certificate; nothing is kept. */
int credentials_check(const struct agent_config *config, const char *node, struct err *err);
void credentials_reload(struct credentials *credentials);
void credentials_close(struct credentials *credentials); /* connections are closed */

#endif
