/* The agent's unix socket: ckpt-run attaches here for each run of its application.
 *
 * Flow     hello -> checks -> sweep of the work folder -> restore -> ready; started ->
 *          process_attached; ended -> process_woken. A stream that breaks changes nothing for the
 *          application: ckpt-run opens another one with running = true. When that one does not come
 *          but another ckpt-run does, the application that was left behind is ended and started
 *          again by it, once it does not stand still for the checkpoint that ends it.
 * Shapes   one stream per allocation; the caller is who SO_PEERCRED says, and the application must
 *          run as that user. The socket gets its mode by the program's umask.
 * Errors   a refusal is AttachReady.error (one line with the next step), then the stream ends.
 */
#ifndef CKPT_AGENT_APP_SERVER_H
#define CKPT_AGENT_APP_SERVER_H

#include "src/agent/daemon/agent.h"

struct app_server;

int app_server_new(struct agent *agent, const char *socket_path, struct app_server **ret_server,
                   struct err *err);
void app_server_free(struct app_server *server, void (*freed)(void *data), void *data);

#endif
