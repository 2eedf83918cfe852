/* A TCP connect with a deadline. See node_probe_uv.h. */
#include "src/broker/health/node_probe_uv.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/check.h"

/* Both handles are closed together; the memory goes with the second one. */
struct probe_try {
    uv_tcp_t socket;
    uv_timer_t deadline;
    uv_connect_t connect;
    int open_handles;
    enum probe_result result;
    void (*done)(void *data, enum probe_result result); /* NULL: told, or cancelled */
    void *data;
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static void on_closed(uv_handle_t *handle)
{
    struct probe_try *attempt = handle->data;

    CHECK(attempt->open_handles > 0);
    if (--attempt->open_handles == 0)
        free(attempt);
}

static void try_close(struct probe_try *attempt)
{
    if (uv_is_closing((uv_handle_t *)&attempt->socket))
        return;
    uv_close((uv_handle_t *)&attempt->socket, on_closed);
    uv_close((uv_handle_t *)&attempt->deadline, on_closed);
}

static void try_end(struct probe_try *attempt, enum probe_result result)
{
    void (*done)(void *, enum probe_result) = attempt->done;

    if (done == NULL)
        return;
    attempt->done = NULL;
    try_close(attempt);
    done(attempt->data, result);
}

/* A reset and a refusal come from a kernel that lives. A failure of this host itself (no
 * descriptor, no route, a rule of its own firewall) says nothing. */
static enum probe_result result_of(int status)
{
    switch (status) {
    case 0:
    case UV_ECONNREFUSED:
    case UV_ECONNRESET:
        return PROBE_ANSWER;
    case UV_ETIMEDOUT:
    case UV_EHOSTUNREACH:
    case UV_EHOSTDOWN:
        return PROBE_SILENCE;
    default:
        return PROBE_FAILED;
    }
}

static void on_connected(uv_connect_t *connect, int status)
{
    if (status != UV_ECANCELED)
        try_end(connect->data, result_of(status));
}

static void on_deadline(uv_timer_t *timer)
{
    struct probe_try *attempt = timer->data;

    try_end(attempt, attempt->result);
}

static socklen_t address_read(const char *text, union address *address)
{
    char host[NODE_PROBE_ADDRESS_BYTES];
    uint64_t port;

    memset(address, 0, sizeof(*address));
    if (address_split(text, host, sizeof(host), &port) != 0 || port > UINT16_MAX)
        return 0;
    if (uv_ip4_addr(host, (int)port, &address->v4) == 0)
        return sizeof(address->v4);
    return uv_ip6_addr(host, (int)port, &address->v6) == 0 ? sizeof(address->v6) : 0;
}

/* The kernel chooses the other end's own address only where both ends are this host. Nothing is
 * sent: a datagram socket is only told whom it would send to. */
static bool address_is_here(const union address *address, socklen_t length)
{
    int fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    union address own;
    socklen_t own_length = sizeof(own);
    bool here = false;

    if (fd < 0)
        return false;
    memset(&own, 0, sizeof(own));
    if (connect(fd, &address->any, length) == 0 && getsockname(fd, &own.any, &own_length) == 0)
        here =
            address->any.sa_family == AF_INET
                ? own.v4.sin_addr.s_addr == address->v4.sin_addr.s_addr
                : memcmp(&own.v6.sin6_addr, &address->v6.sin6_addr, sizeof(own.v6.sin6_addr)) == 0;
    close(fd);
    return here;
}

static struct probe_try *try_start(void *context, const char *text,
                                   void (*done)(void *data, enum probe_result result), void *data)
{
    struct probe_try *attempt = check_calloc(1, sizeof(*attempt));
    union address address;
    socklen_t length = address_read(text, &address);

    attempt->done = done;
    attempt->data = data;
    attempt->open_handles = 2;
    attempt->result = PROBE_SILENCE;
    attempt->socket.data = attempt->deadline.data = attempt->connect.data = attempt;
    CHECK(uv_tcp_init(context, &attempt->socket) == 0);
    CHECK(uv_timer_init(context, &attempt->deadline) == 0);
    if (length != 0 && address_is_here(&address, length))
        attempt->result = PROBE_LOCAL;
    else if (length == 0 ||
             uv_tcp_connect(&attempt->connect, &attempt->socket, &address.any, on_connected) != 0)
        attempt->result = PROBE_FAILED;
    CHECK(uv_timer_start(&attempt->deadline, on_deadline,
                         attempt->result == PROBE_SILENCE ? NODE_PROBE_TIMEOUT_MS : 0, 0) == 0);
    return attempt;
}

static void try_cancel(struct probe_try *attempt)
{
    attempt->done = NULL;
    try_close(attempt);
}

struct probe_ops node_probe_uv(uv_loop_t *loop)
{
    return (struct probe_ops){.context = loop, .start = try_start, .cancel = try_cancel};
}
