/* libcurl tells which sockets to watch and when to wake it; libuv does both. See fetch.h. */
#include "src/telemetry/fetch.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/list.h"

#define READ_BYTES 4096L /* libcurl reads a hundred times as much in one turn of the loop */

struct fetch {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct list calls;
    bool firing; /* the timer */
    bool closing;
};

struct fetch_call {
    struct list node;
    struct fetch *fetch;
    CURL *easy;
    fetch_done_fn *done;
    void *data;
    uint64_t max_bytes;
    struct buf body;
    struct buf post; /* with a password, perhaps */
    struct curl_slist *headers;
    char problem[CURL_ERROR_SIZE];
};

/* One watched socket. */
struct watch {
    uv_poll_t poll;
    struct fetch *fetch;
    curl_socket_t socket;
};

/* ---- calls that ended ---- */

static void wipe_headers(struct curl_slist *headers)
{
    for (struct curl_slist *at = headers; at != NULL; at = at->next)
        explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(headers);
}

static void call_free(struct fetch_call *call)
{
    curl_easy_cleanup(call->easy);
    wipe_headers(call->headers);
    if (call->post.length > 0)
        explicit_bzero(call->post.bytes, call->post.length);
    buf_close(&call->post);
    buf_close(&call->body);
    free(call);
}

static void call_release(struct fetch_call *call)
{
    list_remove(&call->node);
    CHECK(curl_multi_remove_handle(call->fetch->multi, call->easy) == CURLM_OK);
    call_free(call);
}

static void call_describe(const struct fetch_call *call, CURLcode code, struct err *ret_err)
{
    const char *text = call->problem[0] != '\0' ? call->problem : curl_easy_strerror(code);

    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        err_set(ret_err, ERR_TIMEOUT, "%.200s", text);
        return;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        err_set(ret_err, ERR_AUTH, "TLS: %.200s: check ca, cert and key", text);
        return;
    case CURLE_WRITE_ERROR:
    case CURLE_FILESIZE_EXCEEDED:
        err_set(ret_err, ERR_FULL, "the answer is longer than max_bytes, %" PRIu64,
                call->max_bytes);
        return;
    default:
        err_set(ret_err, ERR_UNAVAILABLE, "%.200s", text);
        return;
    }
}

/* 0 when the answer is 200, or says that what was posted is there. */
static int call_verdict(const struct fetch_call *call, CURLcode code, long status,
                        struct err *ret_err)
{
    if (code != CURLE_OK) {
        call_describe(call, code, ret_err);
        return -1;
    }
    if (status == 200 || (status == 201 && call->post.length > 0))
        return 0;
    if (status == 401 || status == 403)
        return err_set(ret_err, ERR_AUTH, "HTTP status %ld: check the credentials file", status);
    if (status == 404)
        return err_set(ret_err, ERR_NOT_FOUND, "HTTP status 404: check the url");
    if (status >= 300 && status < 400)
        return err_set(ret_err, ERR_INVALID,
                       "HTTP status %ld: redirects are not followed; give the url they lead to",
                       status);
    return err_set(ret_err, ERR_INVALID, "HTTP status %ld", status);
}

static void collect_ended(struct fetch *fetch)
{
    CURLMsg *message;
    int left;

    while (!fetch->closing && (message = curl_multi_info_read(fetch->multi, &left)) != NULL) {
        struct fetch_call *call = NULL;
        struct err failed;
        long status = 0;
        bool ok;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        CHECK(call != NULL);
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        ok = call_verdict(call, message->data.result, status, &failed) == 0;
        call->done(call->data, ok ? NULL : &failed, status, &call->body);
        call_release(call);
    }
}

/* ---- libuv's side ---- */

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    struct fetch *fetch = watch->fetch;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0;
    int running;

    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(fetch->multi, watch->socket, flags, &running);
    collect_ended(fetch);
}

static void on_timer(uv_timer_t *timer)
{
    struct fetch *fetch = timer->data;
    int running;

    fetch->firing = true;
    curl_multi_socket_action(fetch->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    fetch->firing = false;
    collect_ended(fetch);
}

/* ---- libcurl's side ---- */

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static struct watch *watch_new(struct fetch *fetch, curl_socket_t socket)
{
    struct watch *watch = check_calloc(1, sizeof(*watch));

    watch->fetch = fetch;
    watch->socket = socket;
    if (uv_poll_init_socket(fetch->loop, &watch->poll, socket) != 0) {
        free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    curl_multi_assign(fetch->multi, socket, watch);
    return watch;
}

static int socket_changed(CURL *easy, curl_socket_t socket, int what, void *context,
                          void *socket_context)
{
    struct fetch *fetch = context;
    struct watch *watch = socket_context;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL) {
            curl_multi_assign(fetch->multi, socket, NULL);
            uv_poll_stop(&watch->poll);
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        return 0;
    }
    if (watch == NULL)
        watch = watch_new(fetch, socket);
    if (watch == NULL)
        return -1;
    if (what != CURL_POLL_OUT)
        events |= UV_READABLE;
    if (what != CURL_POLL_IN)
        events |= UV_WRITABLE;
    return uv_poll_start(&watch->poll, events, on_socket) == 0 ? 0 : -1;
}

/* Never acts at once: libcurl must not be called from its own callback. When there is more to read
 * it asks to be called again at once; libuv runs a timer that restarts itself so in the same turn
 * of the loop, and all else would wait until the whole document is read. */
static int timer_changed(CURLM *multi, long delay_ms, void *context)
{
    struct fetch *fetch = context;

    (void)multi;
    if (fetch->closing)
        return 0;
    if (delay_ms < 0)
        uv_timer_stop(&fetch->timer);
    else
        CHECK(uv_timer_start(&fetch->timer, on_timer,
                             delay_ms == 0 && fetch->firing ? 1 : (uint64_t)delay_ms, 0) == 0);
    return 0;
}

/* Taking fewer bytes than were offered ends the call with an error of libcurl. */
static size_t take_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct fetch_call *call = context;
    size_t length = size * count;

    if (length > call->max_bytes - call->body.length)
        return 0; /* CURLE_WRITE_ERROR */
    buf_append(&call->body, bytes, length);
    return length;
}

/* ---- life ---- */

struct fetch *fetch_new(uv_loop_t *loop, long connections_max)
{
    struct fetch *fetch = check_calloc(1, sizeof(*fetch));

    CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); /* counted; once is enough */
    fetch->loop = loop;
    list_init(&fetch->calls);
    CHECK(uv_timer_init(loop, &fetch->timer) == 0);
    fetch->timer.data = fetch;
    fetch->multi = curl_multi_init();
    CHECK(fetch->multi != NULL);
    curl_multi_setopt(fetch->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
    curl_multi_setopt(fetch->multi, CURLMOPT_SOCKETDATA, fetch);
    curl_multi_setopt(fetch->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
    curl_multi_setopt(fetch->multi, CURLMOPT_TIMERDATA, fetch);
    curl_multi_setopt(fetch->multi, CURLMOPT_MAXCONNECTS, connections_max);
    return fetch;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void fetch_free(struct fetch *fetch)
{
    if (fetch == NULL)
        return;
    fetch->closing = true;
    while (!list_empty(&fetch->calls))
        call_release(LIST_ITEM(fetch->calls.next, struct fetch_call, node));
    curl_multi_cleanup(fetch->multi);
    uv_timer_stop(&fetch->timer);
    uv_close((uv_handle_t *)&fetch->timer, on_timer_closed);
    curl_global_cleanup();
}

void fetch_cancel(struct fetch_call *call)
{
    if (call != NULL)
        call_release(call);
}

static CURLcode set_tls(CURL *easy, const struct fetch_options *options)
{
    CURLcode code = CURLE_OK;

    if (options->ca[0] != '\0')
        code = curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca);
    if (code == CURLE_OK && options->cert[0] != '\0')
        code = curl_easy_setopt(easy, CURLOPT_SSLCERT, options->cert);
    if (code == CURLE_OK && options->key[0] != '\0')
        code = curl_easy_setopt(easy, CURLOPT_SSLKEY, options->key);
    if (code == CURLE_OK && options->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return code;
}

static CURLcode set_credentials(CURL *easy, const struct fetch_options *options)
{
    if (options->bearer[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        return curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, options->bearer);
    }
    if (options->user[0] == '\0')
        return CURLE_OK;
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    return curl_easy_setopt(easy, CURLOPT_USERPWD, options->user);
}

static void add_header(struct fetch_call *call, const char *text)
{
    struct curl_slist *headers = curl_slist_append(call->headers, text);

    CHECK(headers != NULL);
    call->headers = headers;
}

static void set_api_token(struct fetch_call *call, const char *token)
{
    static const char head[] = "Authorization: Api-Token ";
    struct buf line;

    if (token[0] == '\0')
        return;
    buf_init(&line);
    buf_append(&line, head, sizeof(head) - 1);
    buf_append(&line, token, strlen(token) + 1);
    add_header(call, (const char *)line.bytes);
    explicit_bzero(line.bytes, line.length);
    buf_close(&line);
}

static CURLcode set_post(struct fetch_call *call, const char *post)
{
    if (post == NULL)
        return CURLE_OK;
    CHECK(post[0] != '\0');
    buf_append(&call->post, post, strlen(post));
    add_header(call, "Content-Type: application/json");
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->post.length);
    return curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->post.bytes);
}

static CURLcode set_up(struct fetch_call *call, const char *url,
                       const struct fetch_options *options)
{
    CURL *easy = call->easy;
    CURLcode code;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->problem);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_BYTES);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)options->max_bytes);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "ckptd/" CKPT_VERSION);
    /* a call that ends while its name is being resolved must not wait for the resolver's thread */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_URL, url);
    if (code == CURLE_OK)
        code = set_tls(easy, options);
    if (code == CURLE_OK)
        code = set_credentials(easy, options);
    set_api_token(call, options->api_token);
    if (code == CURLE_OK)
        code = set_post(call, options->post);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) : code;
}

struct fetch_call *fetch_send(struct fetch *fetch, const char *url,
                              const struct fetch_options *options, fetch_done_fn *done, void *data,
                              struct err *err)
{
    struct fetch_call *call = check_calloc(1, sizeof(*call));
    CURLcode code;

    CHECK(!fetch->closing);
    call->fetch = fetch;
    call->done = done;
    call->data = data;
    call->max_bytes = options->max_bytes;
    buf_init(&call->body);
    buf_init(&call->post);
    call->easy = curl_easy_init();
    CHECK(call->easy != NULL);
    code = set_up(call, url, options);
    if (code != CURLE_OK) {
        err_set(err, ERR_INVALID, "%s", curl_easy_strerror(code));
        call_free(call);
        return NULL;
    }
    list_push_back(&fetch->calls, &call->node);
    CHECK(curl_multi_add_handle(fetch->multi, call->easy) == CURLM_OK);
    return call;
}
