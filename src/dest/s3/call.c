/* Requests to a store, many at a time. See call.h.
 *
 * Flow     client_step: what waits and is due begins -> curl_multi_perform -> tries that ended are
 *          judged -> tries that stand still are ended -> what was held back by the pace goes on ->
 *          wait.
 * Shapes   a call is in the client's list from its start to its end. A try has a handle of libcurl
 *          and a list of headers of its own; between two tries there is neither, and the pause is
 *          the call's own, so that others go on.
 * Units    times are of the monotonic clock, in microseconds.
 * Errors   A try that is given up may still be carried out by the store, at any time. That is why a
 *          call is repeated without asking, and why callers write no key with two contents:
 *          whatever comes late writes what is there already. What may not be repeated so (the
 *          end of an upload, which is gone when it has succeeded) is resolved by who asks for
 *          it, object.c.
 * Absent   HTTP/2: one stalled connection would hold all transfers. Proxies are those of libcurl's
 *          environment, as for AWS's own tools.
 */
#include "src/dest/s3/call.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/base/text.h"
#include "src/dest/pace.h"
#include "src/dest/s3/answer.h"
#include "src/dest/s3/body_md5.h"
#include "src/dest/s3/retry.h"
#include "src/dest/sha256.h"

/* A step waits for so long at most, so that timers are looked at. Buffers are large enough for a
 * fast network and small enough for the pace of a slow one. */
enum {
    STEP_MS = 200,
    CONNECT_MS = 5000,
    CONNECTIONS_MAX = 64,
    SUCCESS_BYTES = 16 << 20, /* that move tell that the store is there */
    UPLOAD_BUFFER_BYTES = 1 << 18,
    DOWNLOAD_BUFFER_BYTES = 1 << 18
};

struct client {
    CURLM *multi;
    struct signer *signer;
    struct client_how how;
    struct list calls; /* that were started */
    size_t running;
    bool has_ended; /* some call, in this step */
    struct pace pace;
    size_t paused_count;
    uint64_t turns;      /* given out so far */
    uint64_t success_us; /* when a call last ended well, or the client began */
    uint64_t seed;       /* of the pauses between tries */
    bool sends_md5;      /* a bucket has asked for it */
};

/*  NEW ──start──► TRYING ──ended, judged──► done
 *                  ▲   └── may pass ──► WAITING ─┐
 *                  └────────── due ──────────────┘ */
enum call_state { CALL_NEW, CALL_TRYING, CALL_WAITING, CALL_ENDED };

struct call {
    struct list node;
    struct client *client;
    enum call_state state;
    struct call_request request;
    char *method, *bucket, *key, *query;               /* key: encoded */
    struct sigv4_header own_headers[CALL_HEADERS_MAX]; /* copies */
    char body_sha256[SHA256_HEX_BYTES];
    char what[256]; /* for errors */
    call_done_fn *done;
    void *data;
    struct call_result result;
    struct buf answer;
    /* of this try */
    CURL *easy;
    struct curl_slist *headers;
    size_t sent, got;
    bool may_go;    /* its turn has come */
    bool is_paused; /* by the pace */
    uint64_t turn;  /* the lowest of those that are paused is next */
    curl_off_t moved;
    uint64_t moved_us; /* when something last moved */
    uint64_t due_us;   /* of the next try */
    uint64_t begun_us; /* of this try */
    struct retry retry;
    char body_md5[BODY_MD5_BYTES]; /* "": it was not asked for */
    bool is_longer;                /* more came than was asked for */
    bool may_come;                 /* any of them, although it has failed */
    char problem[CURL_ERROR_SIZE];
};

/* ---- the client ---- */

/* The signer is asked first: without a store and keys nothing can be begun. */
struct client *client_open(const struct client_how *how, struct err *err)
{
    struct client *client;
    struct signer *signer = signer_open(err);

    if (signer == NULL)
        return NULL;
    CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    client = check_calloc(1, sizeof(*client));
    client->multi = curl_multi_init();
    CHECK(client->multi != NULL);
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
    client->signer = signer;
    client->how = *how;
    list_init(&client->calls);
    pace_init(&client->pace, how->rate_bytes_per_s);
    client->success_us = client->seed = pace_clock_us();
    return client;
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    while (!list_empty(&client->calls))
        call_free(LIST_ITEM(client->calls.next, struct call, node));
    curl_multi_cleanup(client->multi);
    signer_close(client->signer);
    pace_close(&client->pace);
    free(client);
    curl_global_cleanup();
}

/* ---- libcurl's callbacks ---- */

/* Any sign of life of the transfer sets its timer back. */
static void note_moved(struct call *call)
{
    call->moved_us = pace_clock_us();
}

/* A slow transfer that is cut after minutes is tried again: its store has served it meanwhile. */
static void note_bytes(struct call *call, size_t moved, size_t length)
{
    if (moved / SUCCESS_BYTES != (moved - length) / SUCCESS_BYTES)
        call->client->success_us = pace_clock_us();
}

/* Whoever waits already comes before who has just sent: else a transfer that is quick to ask again
 * would leave nothing to the others. */
static bool must_wait(struct call *call)
{
    if (pace_holds(&call->client->pace) || (call->client->paused_count > 0 && !call->may_go))
        return true;
    call->may_go = false;
    return false;
}

/* Whose turn had come and who was late keeps the place. */
static void hold_call(struct call *call)
{
    if (!call->may_go)
        call->turn = ++call->client->turns;
    call->is_paused = true;
    call->client->paused_count++;
}

/* Never more than the pace leaves: a transfer that may not send is held by libcurl, and let go
 * by resume_paused(). */
static size_t on_read(char *to, size_t size, size_t count, void *data)
{
    struct call *call = data;
    size_t left = call->request.body_bytes - call->sent;
    size_t room = size * count < left ? size * count : left;

    note_moved(call);
    if (room == 0)
        return 0;
    if (must_wait(call)) {
        hold_call(call);
        return CURL_READFUNC_PAUSE;
    }
    room = pace_piece(&call->client->pace, room);
    (void)pace_count(&call->client->pace, room);
    memcpy(to, call->request.body + call->sent, room);
    call->sent += room;
    note_bytes(call, call->sent, room);
    return room;
}

/* A connection that was kept open may turn out to be closed: libcurl sends again on a new one. */
static int on_seek(void *data, curl_off_t offset, int origin)
{
    struct call *call = data;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > call->request.body_bytes)
        return CURL_SEEKFUNC_FAIL;
    call->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* The document of an error is none of the bytes that were asked for. */
static bool goes_into_memory(struct call *call)
{
    long status = 0;

    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    return call->request.into != NULL && status >= 200 && status < 300;
}

/* What was held back is given again by libcurl, from the same bytes on. Returning less than was
 * given ends the transfer. */
static size_t on_write(char *bytes, size_t size, size_t count, void *data)
{
    struct call *call = data;
    size_t length = size * count;

    note_moved(call);
    if (!goes_into_memory(call)) {
        if (call->answer.length + length > CALL_ANSWER_MAX_BYTES)
            return 0;
        buf_append(&call->answer, bytes, length);
        return length;
    }
    if (length > call->request.into_bytes - call->got) {
        call->is_longer = true;
        return 0;
    }
    if (must_wait(call)) {
        hold_call(call);
        return CURL_WRITEFUNC_PAUSE;
    }
    (void)pace_count(&call->client->pace, length);
    memcpy(call->request.into + call->got, bytes, length);
    call->got += length;
    note_bytes(call, call->got, length);
    return length;
}

/* The ETag of a part has to be named when the upload is completed. */
static size_t on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct call *call = data;
    size_t length = size * count, used = 0;

    note_moved(call);
    if (length > 5 && strncasecmp(bytes, "etag:", 5) == 0) {
        for (size_t i = 5; i < length && used + 1 < sizeof(call->result.etag); i++) {
            if (bytes[i] > ' ' && bytes[i] <= '~')
                call->result.etag[used++] = bytes[i];
        }
        call->result.etag[used] = '\0';
    }
    return length;
}

/* libcurl calls it in each turn, also while nothing moves: only a changed count is progress. */
static int on_progress(void *data, curl_off_t download_all, curl_off_t downloaded,
                       curl_off_t upload_all, curl_off_t uploaded)
{
    struct call *call = data;

    (void)download_all;
    (void)upload_all;
    if (call->moved != downloaded + uploaded) {
        call->moved = downloaded + uploaded;
        note_moved(call);
    }
    return 0;
}

/* ---- a try ---- */

/* NULL: the caller has not given it. */
static const char *own_header(const struct call *call, const char *name)
{
    for (size_t i = 0; i < CALL_HEADERS_MAX && call->own_headers[i].name != NULL; i++)
        if (strcmp(call->own_headers[i].name, name) == 0)
            return call->own_headers[i].value;
    return NULL;
}

/* libcurl keeps a copy. */
static void add_header(struct call *call, const char *name, const char *value)
{
    struct curl_slist *list;
    struct buf text = {0};

    buf_printf(&text, "%s: %s", name, value);
    buf_append(&text, "", 1);
    list = curl_slist_append(call->headers, (const char *)text.bytes);
    CHECK(list != NULL);
    call->headers = list;
    buf_close(&text);
}

/* Of bytes that are sent: a copy has none, and its store hashes what it copies. It comes first in
 * the order of names. */
static int add_md5(struct call *call, struct signer_request *request, struct err *err)
{
    if (!call->client->sends_md5 || strcmp(call->method, "PUT") != 0 ||
        own_header(call, "x-amz-copy-source") != NULL)
        return 0;
    if (call->body_md5[0] == '\0' &&
        body_md5(call->request.body, call->request.body_bytes, call->body_md5, err) != 0)
        return -1;
    request->headers[request->header_count++] =
        (struct sigv4_header){"content-md5", call->body_md5};
    add_header(call, "content-md5", call->body_md5);
    return 0;
}

/* Each try has its own date: a request is refused when it is older than minutes, and keys may
 * have been renewed in between. */
static int sign_try(struct call *call, const char *host, struct err *err)
{
    struct signer_request request = {.method = call->method,
                                     .bucket = call->bucket,
                                     .key = call->key,
                                     .query = call->query,
                                     .payload_sha256 = call->body_sha256};
    struct signer_answer answer;

    if (add_md5(call, &request, err) != 0)
        return -1;
    for (size_t i = 0; i < CALL_HEADERS_MAX && call->own_headers[i].name != NULL; i++) {
        request.headers[request.header_count++] = call->own_headers[i];
        add_header(call, call->own_headers[i].name, call->own_headers[i].value);
    }
    if (signer_sign(call->client->signer, &request, &answer, err) != 0)
        return -1;
    add_header(call, "Host", host);
    add_header(call, "x-amz-content-sha256", call->body_sha256);
    add_header(call, "x-amz-date", answer.date);
    if (*answer.token != '\0')
        add_header(call, "x-amz-security-token", answer.token);
    add_header(call, "Authorization", answer.authorization);
    call->headers = curl_slist_append(call->headers, "Expect:");
    call->headers = curl_slist_append(call->headers, "Content-Type:");
    CHECK(call->headers != NULL);
    return 0;
}

/* PUT and POST send their body from memory, with its length; none is sent in chunks, which would
 * have to be signed in another way. */
static void set_method(struct call *call)
{
    const struct call_request *request = &call->request;

    if (strcmp(call->method, "HEAD") == 0) {
        curl_easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
    } else if (strcmp(call->method, "PUT") == 0 || strcmp(call->method, "POST") == 0) {
        curl_easy_setopt(call->easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, call->method);
        curl_easy_setopt(call->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_bytes);
        curl_easy_setopt(call->easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BUFFER_BYTES);
    } else {
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, call->method);
    }
}

/* The path goes out as it was signed, HTTP stays at 1.1 (a transfer that is held then holds no
 * other), and redirects are not followed, as they would have to be signed for another host. */
static void set_transfer(struct call *call, const char *url)
{
    const struct signer_store *store = signer_store(call->client->signer);
    CURL *easy = call->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)DOWNLOAD_BUFFER_BYTES);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->problem);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, call);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, call);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    if (*store->ca_file != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO, store->ca_file);
}

/* https://HOST/PATH?QUERY, with the texts that are signed. */
static void locate_try(struct call *call, struct buf *host, struct buf *url)
{
    const struct signer_store *store = signer_store(call->client->signer);
    struct buf path = {0};

    signer_locate(store, call->bucket, call->key, host, &path);
    buf_append(host, "", 1);
    buf_append(&path, "", 1);
    buf_printf(url, "%s://%s%s%s%s", strncmp(store->endpoint, "https:", 6) == 0 ? "https" : "http",
               (const char *)host->bytes, (const char *)path.bytes, *call->query == '\0' ? "" : "?",
               call->query);
    buf_append(url, "", 1);
    buf_close(&path);
}

/* The one place that calls `done`. */
static void call_end(struct call *call, int outcome)
{
    struct client *client = call->client;

    CHECK(call->state == CALL_TRYING || call->state == CALL_WAITING);
    call->state = CALL_ENDED;
    call->result.outcome = outcome;
    call->result.may_come = call->may_come;
    list_remove(&call->node);
    client->running--;
    client->has_ended = true;
    if (outcome == 0)
        client->success_us = pace_clock_us();
    call->done(call->data, call);
}

/* All of the try before is forgotten, also what it had received. */
static void call_try(struct call *call)
{
    struct buf host = {0}, url = {0};

    call->state = CALL_TRYING;
    call->sent = call->got = 0;
    call->is_longer = false;
    call->begun_us = pace_clock_us();
    call->may_go = false;
    call->moved = 0;
    call->problem[0] = '\0';
    call->result = (struct call_result){0};
    buf_clear(&call->answer);
    note_moved(call);
    locate_try(call, &host, &url);
    if (sign_try(call, (const char *)host.bytes, &call->result.err) != 0) {
        call_end(call, -1);
    } else {
        call->easy = curl_easy_init();
        CHECK(call->easy != NULL);
        set_transfer(call, (const char *)url.bytes);
        set_method(call);
        CHECK(curl_multi_add_handle(call->client->multi, call->easy) == CURLM_OK);
    }
    buf_close(&host);
    buf_close(&url);
}

/* A transfer that had not come to its end closes its connection, so that no late answer is taken
 * for that of the next request. */
static void drop_try(struct call *call)
{
    if (call->is_paused)
        call->client->paused_count--;
    call->is_paused = false;
    if (call->easy != NULL) {
        curl_multi_remove_handle(call->client->multi, call->easy);
        curl_easy_cleanup(call->easy);
        call->easy = NULL;
    }
    curl_slist_free_all(call->headers);
    call->headers = NULL;
}

/* The try came to nothing. */
static void try_failed(struct call *call, bool is_passing)
{
    struct client *client = call->client;
    uint64_t now_us = pace_clock_us();

    call->may_come |=
        call->result.status == 0 || (call->result.status >= 500 && call->result.status != 501);
    call->result.passing = is_passing;
    retry_failed(&call->retry, call->begun_us, now_us, call->result.status != 0);
    if (!is_passing ||
        retry_is_over(&call->retry, now_us, client->success_us, client->how.patience_ms * 1000)) {
        call_end(call, -1);
        return;
    }
    client->seed = client->seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
    call->state = CALL_WAITING;
    call->due_us = now_us + retry_pause_us(&call->retry, client->seed >> 33);
}

/* The same once more, now with the checksum: no try has failed. False: it had one, or nobody asks
 * for any. */
static bool goes_on_with_md5(struct call *call)
{
    if (call->body_md5[0] != '\0' || strcmp(call->method, "PUT") != 0 ||
        !answer_wants_md5(call->result.status, &call->answer))
        return false;
    call->client->sends_md5 = true;
    call->state = CALL_WAITING;
    call->due_us = 0;
    return true;
}

/* A store, or something before it, that passes a range over sends all bytes: the next try would
 * end likewise, and the first bytes would be taken for damage. False: it is something else. */
static bool lacks_ranges(const struct call *call, struct err *err)
{
    const char *range = own_header(call, "range");

    if (!call->is_longer || range == NULL || call->result.status == 206)
        return false;
    err_set(err, ERR_UNAVAILABLE,
            "%.200s: the store has no ranges: it answers %.60s with status %ld and more bytes; "
            "give an endpoint that takes Range, or have the proxy before it hand Range on",
            call->what, range, call->result.status);
    return true;
}

/* An answer that was cut is none, and says nothing of what the store has. */
static bool is_whole(const struct call *call)
{
    return call->request.into == NULL || call->got == call->request.into_bytes;
}

/* An answer that came whole is judged by answer.c; the lack of one may mean that the store has
 * carried out the request, or will. */
static void try_ended(struct call *call, CURLcode code)
{
    struct call_result *result = &call->result;
    curl_off_t length = 0;
    bool is_passing = false;
    int outcome;

    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &result->status);
    curl_easy_getinfo(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    result->length = length > 0 ? (uint64_t)length : 0;
    drop_try(call);
    if (code != CURLE_OK && lacks_ranges(call, &result->err)) {
        outcome = -1;
    } else if (code != CURLE_OK) {
        outcome = answer_missing(
            (int)code, call->problem[0] != '\0' ? call->problem : curl_easy_strerror(code),
            call->what, &is_passing, &result->err);
        result->status = 0;
    } else {
        outcome =
            answer_judge(result->status, &call->answer, call->what, &is_passing, &result->err);
    }
    if (outcome == 0 && !is_whole(call)) {
        is_passing = true;
        outcome = err_set(&result->err, ERR_IO,
                          "%.200s: %zu bytes came instead of %zu; check what is between here and "
                          "the store",
                          call->what, call->got, call->request.into_bytes);
    }
    if (outcome == 0)
        call_end(call, 0);
    else if (!goes_on_with_md5(call))
        try_failed(call, is_passing);
}

/* ---- steps ---- */

static void collect_ended(struct client *client)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        struct call *call = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        CHECK(call != NULL);
        try_ended(call, message->data.result);
    }
}

/* The timer is each transfer's own: others may move well while one stands still, as when one of
 * a store's servers hangs. */
static void end_stalled(struct call *call)
{
    uint64_t stall_ms = call->request.stall_ms > 0 ? call->request.stall_ms : CALL_STALL_MS;

    if (pace_clock_us() - call->moved_us < stall_ms * 1000)
        return;
    drop_try(call);
    call->result.status = 0;
    err_set(&call->result.err, ERR_TIMEOUT,
            "%.200s: nothing has moved for %llu ms; check the store, which hangs or is slow",
            call->what, (unsigned long long)stall_ms);
    try_failed(call, true);
}

/* Who was held first goes on first, alone: the others would take what it was waiting for. Time in
 * which the pace held a transfer is no stall. */
static void resume_paused(struct client *client)
{
    struct call *first = NULL;

    for (struct list *node = client->calls.next; node != &client->calls; node = node->next) {
        struct call *call = LIST_ITEM(node, struct call, node);

        if (call->state != CALL_TRYING || !call->is_paused)
            continue;
        note_moved(call);
        if (first == NULL || call->turn < first->turn)
            first = call;
    }
    if (first == NULL || pace_holds(&client->pace))
        return;
    first->is_paused = false;
    first->may_go = true;
    client->paused_count--;
    curl_easy_pause(first->easy, CURLPAUSE_CONT);
}

/* What each call wants of this turn. A call that ends may free itself and start others, which come
 * last in the list. */
static void look_at_calls(struct client *client)
{
    struct list *next;

    for (struct list *node = client->calls.next; node != &client->calls; node = next) {
        struct call *call = LIST_ITEM(node, struct call, node);

        next = node->next;
        if (call->state == CALL_WAITING && call->due_us <= pace_clock_us())
            call_try(call);
        else if (call->state == CALL_TRYING && !call->is_paused)
            end_stalled(call);
    }
}

/* Until a socket moves, or the next one is due. */
static int wait_ms(const struct client *client)
{
    uint64_t now_us = pace_clock_us(), until_us = now_us + STEP_MS * 1000;

    for (const struct list *node = client->calls.next; node != &client->calls; node = node->next) {
        const struct call *call = LIST_ITEM(node, struct call, node);
        uint64_t due_us = call->state == CALL_WAITING ? call->due_us
                          : call->is_paused           ? client->pace.due_us
                                                      : until_us;
        if (due_us < until_us)
            until_us = due_us;
    }
    return until_us <= now_us ? 0 : (int)((until_us - now_us + 999) / 1000);
}

void client_move(struct client *client)
{
    int running = 0;

    client->has_ended = false;
    look_at_calls(client);
    resume_paused(client);
    CHECK(curl_multi_perform(client->multi, &running) == CURLM_OK);
    collect_ended(client);
}

void client_step(struct client *client)
{
    client_move(client);
    if (!client->has_ended)
        curl_multi_poll(client->multi, NULL, 0, wait_ms(client), NULL);
}

void client_wake(struct client *client)
{
    CHECK(curl_multi_wakeup(client->multi) == CURLM_OK);
}

/* ---- calls ---- */

/* Who has hashed the bytes already says so, and nothing is hashed twice. */
static void hash_body(struct call *call)
{
    uint8_t digest[SHA256_BYTES];

    if (call->request.body_sha256 != NULL) {
        snprintf(call->body_sha256, sizeof(call->body_sha256), "%s", call->request.body_sha256);
        return;
    }
    sha256_of(call->request.body_bytes == 0 ? (const uint8_t *)"" : call->request.body,
              call->request.body_bytes, digest);
    sha256_format(digest, call->body_sha256);
}

/* A key is encoded here and nowhere else: the same text is signed and sent. */
struct call *call_new(struct client *client, const struct call_request *request)
{
    struct call *call = check_calloc(1, sizeof(*call));
    struct buf key = {0};
    char shown[160];

    list_init(&call->node);
    call->client = client;
    call->request = *request;
    call->method = check_strdup(request->method);
    call->bucket = check_strdup(request->bucket);
    sigv4_encode(&key, request->key, true);
    buf_append(&key, "", 1);
    call->key = (char *)buf_take(&key, NULL);
    call->query = check_strdup(request->query == NULL ? "" : request->query);
    for (size_t i = 0; i < CALL_HEADERS_MAX && request->headers[i].name != NULL; i++)
        call->own_headers[i] = (struct sigv4_header){check_strdup(request->headers[i].name),
                                                     check_strdup(request->headers[i].value)};
    hash_body(call);
    snprintf(call->what, sizeof(call->what), "%s s3://%.63s/%s", call->method, call->bucket,
             text_shown(request->key, shown, sizeof(shown)));
    return call;
}

void call_free(struct call *call)
{
    if (call == NULL)
        return;
    drop_try(call);
    if (call->state == CALL_TRYING || call->state == CALL_WAITING)
        call->client->running--;
    list_remove(&call->node);
    free(call->method);
    free(call->bucket);
    free(call->key);
    free(call->query);
    for (size_t i = 0; i < CALL_HEADERS_MAX; i++) {
        free((char *)(uintptr_t)call->own_headers[i].name);
        free((char *)(uintptr_t)call->own_headers[i].value);
    }
    buf_close(&call->answer);
    free(call);
}

void call_start(struct call *call, call_done_fn *done, void *data)
{
    CHECK(call->state == CALL_NEW);
    call->done = done;
    call->data = data;
    call->state = CALL_WAITING;
    call->due_us = 0;
    call->client->running++;
    list_push_back(&call->client->calls, &call->node);
}

const struct call_result *call_result(const struct call *call)
{
    return &call->result;
}

const struct buf *call_answer(const struct call *call)
{
    return &call->answer;
}

static void note_ended(void *data, struct call *call)
{
    (void)call;
    *(bool *)data = true;
}

int call_run(struct client *client, struct call *call, struct err *err)
{
    bool ended = false;

    call_start(call, note_ended, &ended);
    while (!ended)
        client_step(client);
    if (call->result.outcome != 0 && err != NULL)
        *err = call->result.err;
    return call->result.outcome;
}
