/* See lying_store.h. */
#include "tests/unit/dest/lying_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/check.h"

enum { PIECE_BYTES = 1 << 18 };

struct lying_store {
    lying_answer_fn *answer;
    void *data;
    int listener;
    unsigned count;
    pthread_t thread;
    struct buf bytes; /* of a request */
};

/* Of the request's headers; 0: it has no body. */
static size_t length_of_body(const char *head)
{
    static const char name[] = "\r\ncontent-length:";
    const char *at = strcasestr(head, name);

    return at == NULL ? 0 : strtoul(at + sizeof(name) - 1, NULL, 10);
}

/* False: the client went away. */
static bool take_more(struct lying_store *store, int fd, size_t most)
{
    size_t before = store->bytes.length;
    ssize_t got = recv(fd, buf_extend(&store->bytes, most), most, 0);

    store->bytes.length = before + (got > 0 ? (size_t)got : 0);
    return got > 0;
}

/* False: the client went away before its request was whole. */
static bool take_request(struct lying_store *store, int fd, struct lying_request *ret_request)
{
    static const char end[] = "\r\n\r\n";
    const char *found = NULL;
    size_t head;

    buf_clear(&store->bytes);
    while (found == NULL) {
        if (!take_more(store, fd, PIECE_BYTES))
            return false;
        found = memmem(store->bytes.bytes, store->bytes.length, end, sizeof(end) - 1);
    }
    head = (size_t)(found - (const char *)store->bytes.bytes) + sizeof(end) - 2;
    store->bytes.bytes[head] = '\0'; /* the last line feed */
    ret_request->body_bytes = length_of_body((const char *)store->bytes.bytes);
    while (store->bytes.length < head + 1 + ret_request->body_bytes)
        if (!take_more(store, fd, PIECE_BYTES))
            return false;
    ret_request->number = ++store->count;
    ret_request->head = (const char *)store->bytes.bytes;
    ret_request->body = store->bytes.bytes + head + 1;
    return true;
}

/* Until the listener is shut down. */
static void *serve_store(void *data)
{
    struct lying_store *store = data;
    struct lying_request request;
    int fd;

    while ((fd = accept4(store->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (take_request(store, fd, &request))
            store->answer(store->data, &request, fd);
        shutdown(fd, SHUT_WR);
        close(fd);
    }
    return NULL;
}

struct lying_store *lying_store_open(lying_answer_fn *answer, void *data)
{
    struct lying_store *store = check_calloc(1, sizeof(*store));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    char url[64];

    store->answer = answer;
    store->data = data;
    store->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(store->listener >= 0);
    CHECK(bind(store->listener, (const struct sockaddr *)&address, length) == 0);
    CHECK(listen(store->listener, 128) == 0);
    CHECK(getsockname(store->listener, (struct sockaddr *)&address, &length) == 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_ENDPOINT_URL", url, 1);
    setenv("no_proxy", "127.0.0.1", 1);
    CHECK(pthread_create(&store->thread, NULL, serve_store, store) == 0);
    return store;
}

unsigned lying_store_close(struct lying_store *store)
{
    unsigned count;

    CHECK(shutdown(store->listener, SHUT_RDWR) == 0);
    CHECK(pthread_join(store->thread, NULL) == 0);
    close(store->listener);
    buf_close(&store->bytes);
    count = store->count;
    free(store);
    return count;
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);

        if (sent <= 0)
            return; /* who asked has heard enough */
        bytes += sent;
        length -= (size_t)sent;
    }
}

void lying_answer(int fd, const char *status, const struct lying_body *body)
{
    char head[512];

    if (body->told < 0)
        snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nConnection: close\r\n\r\n", status);
    else
        snprintf(head, sizeof(head),
                 "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %ld\r\n\r\n", status,
                 body->told);
    send_all(fd, head, strlen(head));
    send_all(fd, body->bytes, body->length);
}

void lying_answer_text(int fd, const char *text)
{
    lying_answer(fd, "200 OK", &(struct lying_body){text, strlen(text), (long)strlen(text)});
}
