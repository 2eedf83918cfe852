/* The agent's unix socket: ckpt-run attaches here for each life of its application.
 *
 * Flow     hello -> checks -> sweep of the work folder -> restore -> ready; started ->
 *          process_attached; ended -> process_woken. A stream that breaks changes nothing for the
 *          application: ckpt-run opens another one with running = true. When that one does not come
 *          but another ckpt-run does, the application that was left behind is ended and started
 *          again by it.
 * Shapes   one stream per allocation; the caller is who SO_PEERCRED says, and the application must
 *          run as that user. The socket gets its mode by the program's umask.
 * Errors   a refusal is AttachReady.error (one line with the next step), then the stream ends.
 */
#ifndef CKPT_AGENT_APP_SERVER_H
#define CKPT_AGENT_APP_SERVER_H

#include "ckpt/v1/common.pb-c.h"
#include "src/agent/daemon/agent.h"

struct app_server;
struct app_stream;

int app_server_new(struct agent *agent, const char *socket_path, struct app_server **ret_server,
                   struct err *err);
void app_server_free(struct app_server *server, void (*freed)(void *data), void *data);

/* The allocation is over: ckpt-run must not start its application again. Not told to one that has
 * yet to hear for which life it would start one: that may be a later one. */
void app_stream_end(struct app_stream *stream, Ckpt__V1__Reason reason);
/* To people, through ckpt-run's stderr; stream NULL: nobody hears. */
__attribute__((format(printf, 2, 3))) void app_stream_say(struct app_stream *stream,
                                                          const char *format, ...);
/* The allocation goes away. */
void app_stream_orphan(struct app_stream *stream);
/* Something a waiting hello may have waited for has happened: an attempt ended, reports were
 * acknowledged, orders changed. */
void app_stream_poll(struct app_stream *stream);
/* The ckpt-run of the application that is known: it will tell how that ended. */
bool app_stream_tells(const struct app_stream *stream);
/* A ckpt-run without an application is attached, to start one. */
bool app_stream_waits(const struct app_stream *stream);
/* The same, or what it is to start from is being brought. */
bool app_stream_starts(const struct app_stream *stream);

#endif
