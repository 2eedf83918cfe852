/* The agent's HTTP side port: /metrics (Prometheus text) and /livez.
 *
 * Shapes   libmicrohttpd without threads of its own: its descriptors are polled by the loop, so handlers read the agent's state.
 * Errors   "host:port" that cannot be bound is ERR_IO.
 */
#ifndef CKPT_AGENT_HTTP_H
#define CKPT_AGENT_HTTP_H

#include "src/agent/daemon/agent.h"

struct http;
int http_new(struct agent *agent, const char *address, struct http **ret_http, struct err *err);
void http_free(struct http *http); /* NULL allowed */

#endif
