/* See http.h. */
#include "src/serve/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "src/base/address.h"
#include "src/base/check.h"
#include "src/serve/http_guard.h"

enum {
    HTTP_HOST_BYTES = 256,
    HTTP_VERBOSE_BYTES = sizeof("verbose") - 1,
    HTTP_GUARDED_BYTES = 512
};

struct http {
    struct http_site site;
    struct MHD_Daemon *daemon;
    struct http_guard guard;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned open_handles;
    uint16_t port;
    uint64_t turn;       /* of the loop, in which the library is run once */
    bool adopts_trusted; /* the connection that is being adopted */
    char guarded[HTTP_GUARDED_BYTES];
};

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
        ((struct http_guest *)*guest_of)->trusted = http->adopts_trusted;
    } else if (*guest_of != NULL) {
        http_guard_leave(&http->guard, *guest_of);
        free(*guest_of);
        *guest_of = NULL;
    }
}

/* A request is complete, or answered. */
static void connection_step(struct http *http, struct MHD_Connection *connection)
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
    connection_step(context, connection);
}

/* ---- answers ---- */

/* A connection that has asked for more before the first answer was sent would be answered in the
 * same turn of the loop, for as long as its buffer lasts: it gets one more, and is closed. */
static bool ask_turn(struct http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_guest *guest = info != NULL ? info->socket_context : NULL;
    bool again = guest != NULL && guest->answered_turn == http->turn;

    if (guest != NULL)
        guest->answered_turn = http->turn;
    return again;
}

static enum MHD_Result queue_answer(struct http *http, struct MHD_Connection *connection,
                                    unsigned status, const char *content_type, struct buf *body)
{
    size_t length;
    uint8_t *bytes = buf_take(body, &length);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, bytes, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (response == NULL) {
        free(bytes);
        return MHD_NO; /* cuts the connection */
    }
    MHD_add_response_header(response, "Content-Type", content_type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (ask_turn(http, connection))
        MHD_add_response_header(response, "Connection", "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static unsigned write_alive(void *data, bool verbose, struct buf *body)
{
    (void)data;
    (void)verbose;
    buf_printf(body, "alive\n");
    return MHD_HTTP_OK;
}

static unsigned write_metrics(void *data, bool verbose, struct buf *body)
{
    (void)verbose;
    metrics_render(data, body);
    return MHD_HTTP_OK;
}

static const struct http_page own_pages[] = {
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", write_metrics, false},
    {"/livez", HTTP_TEXT, write_alive, true},
    {"/healthz", HTTP_TEXT, write_alive, true}, /* the name that many probes ask for */
    {NULL, NULL, NULL, false},
};

static const struct http_page *find_page(const struct http_page *pages, const char *path)
{
    for (; pages != NULL && pages->path != NULL; pages++) {
        if (strcmp(pages->path, path) == 0)
            return pages;
    }
    return NULL;
}

static void list_pages(const struct http_page *pages, struct buf *body)
{
    for (; pages != NULL && pages->path != NULL; pages++)
        buf_printf(body, " %s", pages->path);
}

static bool may_see(const struct http *http, struct MHD_Connection *connection,
                    const struct http_page *page)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const struct http_guest *guest = info != NULL ? info->socket_context : NULL;

    return http->site.guarded == NULL || page->is_public || (guest != NULL && guest->trusted);
}

/* The page of a path, or the list of all paths. */
static enum MHD_Result answer_path(struct http *http, struct MHD_Connection *connection,
                                   const char *path)
{
    bool verbose = MHD_lookup_connection_value_n(connection, MHD_GET_ARGUMENT_KIND, "verbose",
                                                 HTTP_VERBOSE_BYTES, NULL, NULL) == MHD_YES;
    const struct http_page *own = find_page(own_pages, path);
    const struct http_page *page = own != NULL ? own : find_page(http->site.pages, path);
    unsigned status = MHD_HTTP_NOT_FOUND;
    struct buf body;

    buf_init(&body);
    if (page != NULL && !may_see(http, connection, page)) {
        buf_printf(&body, "%s\n", http->guarded);
        return queue_answer(http, connection, MHD_HTTP_FORBIDDEN, HTTP_TEXT, &body);
    }
    if (page != NULL) {
        status = page->write(own != NULL ? http->site.metrics : http->site.data, verbose, &body);
    } else {
        buf_printf(&body, "not found; there are");
        list_pages(own_pages, &body);
        list_pages(http->site.pages, &body);
        buf_printf(&body, "\n");
    }
    return queue_answer(http, connection, status, page != NULL ? page->content_type : HTTP_TEXT,
                        &body);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_length, void **state)
{
    static int seen; /* its address marks a request whose headers were seen */
    struct http *http = context;
    struct buf body;

    (void)version;
    (void)upload_data;
    if (*state == NULL) { /* MHD wants the answer in the second call */
        *state = &seen;
        connection_step(http, connection);
        return MHD_YES;
    }
    if (*upload_length > 0) { /* a body is read and thrown away */
        *upload_length = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return answer_path(http, connection, url);
    buf_init(&body);
    buf_printf(&body, "only GET and HEAD\n");
    return queue_answer(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, HTTP_TEXT, &body);
}

/* ---- the loop ---- */

static void http_run(struct http *http);

static void on_timer(uv_timer_t *timer)
{
    http_run(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    http_run(poll->data);
}

static void http_run(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    http_guard_look(&http->guard, uv_now(http->timer.loop));
    http->turn++;
    MHD_run(http->daemon);
    if (MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES)
        uv_timer_start(&http->timer, on_timer,
                       timeout_ms < HTTP_GUARD_LOOK_MS ? timeout_ms : HTTP_GUARD_LOOK_MS, 0);
    else
        uv_timer_stop(&http->timer);
}

/* ---- life ---- */

static int parse_address(const char *address, struct sockaddr_storage *ret_address, struct err *err)
{
    char host[HTTP_HOST_BYTES];
    uint64_t port;

    if (address_split(address, host, sizeof(host), &port) != 0 || port > UINT16_MAX)
        return err_set(err, ERR_INVALID, "\"%s\" is not host:port", address);
    memset(ret_address, 0, sizeof(*ret_address));
    if (strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", sizeof("127.0.0.1"));
    if (uv_ip4_addr(host, (int)port, (struct sockaddr_in *)ret_address) == 0 ||
        uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)ret_address) == 0)
        return 0;
    return err_set(err, ERR_INVALID, "\"%s\" is not an IP address", host);
}

static void drop_log_line(void *context, const char *format, va_list arguments)
{
    (void)context; /* what peers send wrongly is theirs to know */
    (void)format;
    (void)arguments;
}

static struct MHD_Daemon *start_daemon(struct http *http, const struct sockaddr_storage *address)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG;

    if (address->ss_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
                            drop_log_line, NULL, MHD_OPTION_SOCK_ADDR, address,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_GUARD_CONNECTIONS_MAX,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY_PER_CONNECTION,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
}

int http_open(uv_loop_t *loop, const char *address, const struct http_site *site,
              struct http **ret_http, struct err *err)
{
    struct http *http;
    struct sockaddr_storage where;
    const union MHD_DaemonInfo *info;

    if (parse_address(address, &where, err) != 0)
        return err_wrap(err, "http");
    http = check_calloc(1, sizeof(*http));
    http->site = *site;
    snprintf(http->guarded, sizeof(http->guarded), "%s",
             site->guarded != NULL ? site->guarded : "");
    http_guard_init(&http->guard);
    http->daemon = start_daemon(http, &where);
    if (http->daemon == NULL) {
        free(http);
        return err_set(err, ERR_IO,
                       "http: cannot listen on %s: address in use or not permitted; give an "
                       "address of this host that nobody listens on (ss -ltnp says who does)",
                       address);
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    http->port = info != NULL ? info->port : 0;
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info != NULL);
    http->poll.data = http->timer.data = http;
    CHECK(uv_poll_init(loop, &http->poll, info->epoll_fd) == 0);
    CHECK(uv_timer_init(loop, &http->timer) == 0);
    http->open_handles = 2;
    CHECK(uv_poll_start(&http->poll, UV_READABLE, on_poll) == 0);
    *ret_http = http;
    return 0;
}

void http_adopt(struct http *http, int take_fd, bool trusted)
{
    const struct sockaddr_un nowhere = {.sun_family = AF_UNIX};

    http->adopts_trusted = trusted;
    /* the library closes the socket, also when it does not take it */
    (void)MHD_add_connection(http->daemon, take_fd, (const struct sockaddr *)&nowhere,
                             sizeof(nowhere));
    http->adopts_trusted = false;
    http_run(http);
}

int http_port(const struct http *http)
{
    return http->port;
}

static void on_closed(uv_handle_t *handle)
{
    struct http *http = handle->data;

    CHECK(http->open_handles > 0);
    if (--http->open_handles == 0)
        free(http);
}

void http_free(struct http *http)
{
    if (http == NULL)
        return;
    uv_close((uv_handle_t *)&http->poll, on_closed); /* before its descriptor goes */
    uv_close((uv_handle_t *)&http->timer, on_closed);
    MHD_stop_daemon(http->daemon);
}
