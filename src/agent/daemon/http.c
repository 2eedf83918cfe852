/* The agent's HTTP side port. See http.h. */
#include "src/agent/daemon/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/daemon/session.h"
#include "src/agent/job/allocation.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/http_guard.h"

enum { HTTP_TIMEOUT_S = 10 };

struct http {
    struct agent *agent;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;   /* of libmicrohttpd's epoll descriptor */
    uv_timer_t timer; /* its time-outs */
    struct http_guard guard;
    int open_handles;
};

static void metric(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name,
               value);
}

static uint64_t running_count(const struct agent *agent)
{
    uint64_t count = 0;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        if (LIST_ITEM(at, struct allocation, node)->process.state != PROCESS_ABSENT)
            count++;
    }
    return count;
}

static void render_metrics(const struct agent *agent, struct buf *out)
{
    static const char expiry[] = "ckpt_tls_certificate_expiry_timestamp_seconds";
    const struct agent_counters *counters = &agent->counters;

    metric(out, "ckpt_agent_connected", "gauge", "1 while a leader has welcomed this agent.",
           agent->session != NULL && session_open(agent->session) ? 1 : 0);
    metric(out, "ckpt_agent_applications", "gauge", "Applications attached and running.",
           running_count(agent));
    metric(out, "ckpt_agent_reports_pending", "gauge", "Reports that are not acknowledged yet.",
           ledger_pending_count(agent->ledger));
    metric(out, "ckpt_agent_sessions_total", "counter", "Streams welcomed by a leader.",
           counters->sessions_opened);
    metric(out, "ckpt_agent_order_sets_total", "counter", "Order sets taken.",
           counters->order_sets);
    metric(out, "ckpt_agent_fenced_total", "counter",
           "Messages refused because they came from an older leader.", counters->orders_fenced);
    metric(out, "ckpt_agent_signals_total", "counter", "Applications asked for a checkpoint.",
           counters->signals_sent);
    metric(out, "ckpt_agent_deferrals_total", "counter",
           "Deferrals granted to applications that are called.", counters->deferrals);
    metric(out, "ckpt_agent_checkpoints_started_total", "counter", "Attempts started.",
           counters->checkpoints_started);
    metric(out, "ckpt_agent_checkpoints_verified_total", "counter", "Shards written and verified.",
           counters->checkpoints_verified);
    metric(out, "ckpt_agent_checkpoints_failed_total", "counter", "Attempts that failed.",
           counters->checkpoints_failed);
    metric(out, "ckpt_agent_checkpoints_abandoned_total", "counter", "Attempts withdrawn.",
           counters->checkpoints_abandoned);
    metric(out, "ckpt_agent_walltime_kills_total", "counter",
           "Applications ended by the agent's own walltime timer.", counters->walltime_kills);
    if (agent->tls != NULL)
        buf_printf(out,
                   "# HELP %s Unix time at which this agent's certificate, or its CA, ends.\n"
                   "# TYPE %s gauge\n%s{certificate=\"own\"} %" PRId64
                   "\n%s{certificate=\"ca\"} %" PRId64 "\n",
                   expiry, expiry, expiry, tls_context_expiry(agent->tls), expiry,
                   tls_context_ca_expiry(agent->tls));
    metric(out, "lattice_checkpoint_walltime_conflict_total", "counter",
           "Walltime ended while a checkpoint was in progress.", counters->walltime_conflicts);
}

static enum MHD_Result http_answer(struct MHD_Connection *connection, unsigned status,
                                   const char *text, size_t length)
{
    union {
        const char *in;
        void *out;
    } body = {.in = text}; /* copied by the library */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, body.out, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result;

    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- guests ---- */

static void on_connection(void *context, struct MHD_Connection *connection, void **guest_of,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *http = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

        CHECK(info != NULL);
        *guest_of = check_calloc(1, sizeof(struct http_guest));
        http_guard_enter(&http->guard, *guest_of, info->connect_fd, uv_now(http->timer.loop));
    } else if (*guest_of != NULL) {
        http_guard_leave(&http->guard, *guest_of);
        free(*guest_of);
        *guest_of = NULL;
    }
}

/* A request is complete, or answered. */
static void step(struct http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    if (info != NULL && info->socket_context != NULL)
        http_guard_step(&http->guard, info->socket_context, uv_now(http->timer.loop));
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)state;
    (void)code;
    step(context, connection);
}

static enum MHD_Result http_request(void *data, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_length, void **state)
{
    struct http *http = data;
    enum MHD_Result result;
    struct buf out;

    (void)version;
    (void)upload;
    (void)upload_length;
    (void)state;
    step(http, connection);
    if (strcmp(method, "GET") != 0)
        return http_answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n", 9);
    if (strcmp(url, "/livez") == 0)
        return http_answer(connection, MHD_HTTP_OK, "ok\n", 3);
    if (strcmp(url, "/metrics") != 0)
        return http_answer(connection, MHD_HTTP_NOT_FOUND, "/metrics and /livez\n", 20);
    buf_init(&out);
    render_metrics(http->agent, &out);
    result = http_answer(connection, MHD_HTTP_OK, (const char *)out.bytes, out.length);
    buf_close(&out);
    return result;
}

static void http_readable(uv_poll_t *poll, int status, int events)
{
    const struct http *http = poll->data;

    (void)status;
    (void)events;
    MHD_run(http->daemon);
}

static void http_tick(uv_timer_t *timer)
{
    struct http *http = timer->data;

    http_guard_look(&http->guard, uv_now(timer->loop));
    MHD_run(http->daemon);
}

static int parse_address(const char *address, struct sockaddr_in *ret_address, struct err *err)
{
    char host[64];
    unsigned port;
    char rest;

    memset(ret_address, 0, sizeof(*ret_address));
    if (sscanf(address, "%63[0-9.]:%u%c", host, &port, &rest) != 2 || port == 0 || port > 65535 ||
        inet_pton(AF_INET, host, &ret_address->sin_addr) != 1)
        return err_set(err, ERR_INVALID, "http is \"%s\", it must be an IPv4 address and a port",
                       address);
    ret_address->sin_family = AF_INET;
    ret_address->sin_port = htons((uint16_t)port);
    return 0;
}

int http_new(struct agent *agent, const char *address, struct http **ret_http, struct err *err)
{
    const union MHD_DaemonInfo *info;
    struct sockaddr_in bind_address;
    struct http *http;

    if (parse_address(address, &bind_address, err) != 0)
        return -1;
    http = check_calloc(1, sizeof(*http));
    http->agent = agent;
    http_guard_init(&http->guard);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, http_request, http, MHD_OPTION_SOCK_ADDR, &bind_address,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_GUARD_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_TIMEOUT_S, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
    if (http->daemon == NULL) {
        free(http);
        return err_set(err, ERR_IO, "http %s: %s", address, strerror(errno));
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info != NULL);
    CHECK(uv_poll_init(agent->loop, &http->poll, info->epoll_fd) == 0);
    CHECK(uv_timer_init(agent->loop, &http->timer) == 0);
    http->poll.data = http;
    http->timer.data = http;
    http->open_handles = 2;
    CHECK(uv_poll_start(&http->poll, UV_READABLE, http_readable) == 0);
    CHECK(uv_timer_start(&http->timer, http_tick, HTTP_GUARD_LOOK_MS, HTTP_GUARD_LOOK_MS) == 0);
    *ret_http = http;
    return 0;
}

static void http_handle_closed(uv_handle_t *handle)
{
    struct http *http = handle->data;

    if (--http->open_handles > 0)
        return;
    MHD_stop_daemon(http->daemon);
    free(http);
}

void http_free(struct http *http)
{
    if (http == NULL)
        return;
    uv_close((uv_handle_t *)&http->poll, http_handle_closed);
    uv_close((uv_handle_t *)&http->timer, http_handle_closed);
}
