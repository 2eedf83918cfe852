/* Listening sockets of the network table over libuv. See uv_network.h.
 *
 * Flow     bind, listen; a connection comes, is accepted, and the user told. Those beyond a round's
 *          share wait for the next round.
 * Shapes   freed when libuv has closed both handles.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/net/address.h"
#include "src/net/uv_internal.h"
#include "src/net/uv_network.h"

enum { BACKLOG = 1024 };

/* Every error of a TCP listener ends with this; callers add the name of their setting in front. */
#define ANOTHER_ADDRESS                                                                            \
    "give an address of this host that nobody listens on (ss -ltnp says who does)"

struct network_listener {
    union net_socket uv;
    uv_idle_t accepting;
    unsigned handles;      /* that libuv still holds */
    unsigned accepts_left; /* of this round of the loop */
    int reserve_fd;        /* given up for a moment to get out of EMFILE; -1 then */
    bool local, watchful;
    bool closing;
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
};

static void reserve_regain(struct network_listener *listener)
{
    if (listener->reserve_fd < 0)
        listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void reserve_give_up(struct network_listener *listener)
{
    if (listener->reserve_fd >= 0)
        close(listener->reserve_fd);
    listener->reserve_fd = -1;
}

/* One for which no descriptor is left is accepted, so that it does not wait for ever, and
 * closed. */
static void listener_accept(struct network_listener *listener)
{
    struct network_stream *stream;

    reserve_regain(listener); /* descriptors may be free again */
    stream = net_stream_accept(&listener->uv.stream, listener->local, listener->watchful);
    if (stream != NULL && listener->reserve_fd < 0) {
        net_stream_close(stream);
        reserve_regain(listener); /* the one of the connection that was refused is free */
        stream = NULL;
    }
    listener->accepted(listener->data, stream);
}

/* A new round. */
static void listener_accept_again(uv_idle_t *idle)
{
    struct network_listener *listener = idle->data;

    uv_idle_stop(idle);
    listener->accepts_left = NETWORK_ACCEPTS_ROUND;
    listener_accept(listener); /* libuv goes on with the next one */
}

/* libuv spends its own reserve on EMFILE; when even that is gone, ours lets the next connection in,
 * to be closed. */
static void listener_connection(uv_stream_t *uv, int status)
{
    struct network_listener *listener = uv->data;

    if (status == UV_EMFILE || status == UV_ENFILE) {
        reserve_give_up(listener);
        listener->accepted(listener->data, NULL);
        return;
    }
    if (status != 0)
        return; /* the peer dials again */
    if (listener->accepts_left > 0) {
        listener->accepts_left--;
        listener_accept(listener);
    } else { /* libuv waits until this one is accepted */
        uv_idle_start(&listener->accepting, listener_accept_again);
    }
}

static void listener_closed(uv_handle_t *handle)
{
    struct network_listener *listener = handle->data;

    if (--listener->handles > 0)
        return;
    reserve_give_up(listener);
    free(listener);
}

void net_listener_close(struct network_listener *listener)
{
    if (listener == NULL)
        return;
    CHECK(!listener->closing);
    listener->closing = true;
    uv_close(&listener->uv.handle, listener_closed);
    uv_close((uv_handle_t *)&listener->accepting, listener_closed);
}

/* A socket file that nobody listens on is left from a crash and removed. */
static int unix_make_way(const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    int fd, result, error;

    if (lstat(path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode))
        return err_set(err, ERR_INVALID, "%s exists and is not a socket", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, ERR_IO, "socket: %s", strerror(errno));
    CHECK(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    result = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    error = errno;
    close(fd);
    if (result == 0 || error != ECONNREFUSED)
        return err_set(err, ERR_LOCKED, "another process listens on %s", path);
    if (unlink(path) != 0)
        return err_set(err, ERR_IO, "cannot remove stale socket %s: %s", path, strerror(errno));
    return 0;
}

static int listener_bind_unix(struct network_listener *listener, const char *path, struct err *err)
{
    int error;

    if (unix_make_way(path, err) != 0)
        return -1;
    error = uv_pipe_bind(&listener->uv.pipe, path);
    return error == 0 ? 0 : err_set(err, ERR_IO, "cannot bind %s: %s", path, uv_strerror(error));
}

/* Names are looked up while starting, when waiting harms nobody. */
static int listener_bind_tcp(struct network_listener *listener,
                             const struct network_address *address, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    char port[8];
    int error;

    snprintf(port, sizeof(port), "%u", address->port);
    error = getaddrinfo(address->host, port, &hints, &found);
    if (error != 0)
        return err_set(err, ERR_INVALID, "cannot find address %s: %s; " ANOTHER_ADDRESS,
                       address->host, gai_strerror(error));
    error = uv_tcp_bind(&listener->uv.tcp, found->ai_addr, 0);
    freeaddrinfo(found);
    return error == 0 ? 0
                      : err_set(err, ERR_IO, "cannot bind %s:%u: %s; " ANOTHER_ADDRESS,
                                address->host, address->port, uv_strerror(error));
}

static int listener_open(struct network_listener *listener, const struct network_address *address,
                         const char *text, struct err *err)
{
    int error;

    if ((address->local ? listener_bind_unix(listener, address->host, err)
                        : listener_bind_tcp(listener, address, err)) != 0)
        return -1;
    error = uv_listen(&listener->uv.stream, BACKLOG, listener_connection);
    if (error == 0)
        return 0;
    return err_set(err, ERR_IO, "cannot listen on %s: %s; " ANOTHER_ADDRESS, text,
                   uv_strerror(error));
}

static struct network_listener *listener_new(uv_loop_t *loop, bool local, bool watchful)
{
    struct network_listener *listener = check_calloc(1, sizeof(*listener));

    listener->local = local;
    listener->watchful = watchful;
    listener->reserve_fd = -1;
    listener->accepts_left = NETWORK_ACCEPTS_ROUND;
    listener->handles = 2;
    CHECK(net_socket_init(loop, local, &listener->uv) == 0);
    CHECK(uv_idle_init(loop, &listener->accepting) == 0);
    listener->uv.handle.data = listener;
    listener->accepting.data = listener;
    return listener;
}

static int listener_listen(uv_loop_t *loop, const char *text, struct network_listener **at,
                           bool watchful, struct err *err)
{
    struct network_address address;
    struct network_listener *listener;

    if (network_address_parse(text, &address, err) != 0)
        return -1;
    listener = listener_new(loop, address.local, watchful);
    if (listener_open(listener, &address, text, err) != 0) {
        net_listener_close(listener);
        return -1;
    }
    reserve_regain(listener);
    *at = listener;
    return 0;
}

int net_listener_listen(void *context, const char *address,
                        void (*accepted)(void *data, struct network_stream *stream), void *data,
                        struct network_listener **ret_listener, struct err *err)
{
    if (listener_listen(context, address, ret_listener, false, err) != 0)
        return -1;
    (*ret_listener)->accepted = accepted;
    (*ret_listener)->data = data;
    return 0;
}

int net_listener_listen_watchful(void *context, const char *address,
                                 void (*accepted)(void *data, struct network_stream *stream),
                                 void *data, struct network_listener **ret_listener,
                                 struct err *err)
{
    if (listener_listen(context, address, ret_listener, true, err) != 0)
        return -1;
    (*ret_listener)->accepted = accepted;
    (*ret_listener)->data = data;
    return 0;
}

int net_listener_port(const struct network_listener *listener)
{
    struct sockaddr_storage address;
    int length = sizeof(address);

    if (listener->local ||
        uv_tcp_getsockname(&listener->uv.tcp, (struct sockaddr *)&address, &length) != 0)
        return -1;
    return ntohs(address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                                               : ((const struct sockaddr_in *)&address)->sin_port);
}
