/* What uv_network.c (streams) and uv_listener.c share. For the files of this folder only. */
#ifndef CKPT_NET_UV_INTERNAL_H
#define CKPT_NET_UV_INTERNAL_H

#include <uv.h>

#include "src/net/network.h"

/* libuv's handle of a stream or a listener, by the kind of its address. */
union net_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

/* uv_network.c */
/* 0, or libuv's error. */
int net_socket_init(uv_loop_t *loop, bool local, union net_socket *ret_socket);
/* What waits at the listener, as a stream without events. NULL: it has gone again. */
struct network_stream *net_stream_accept(uv_stream_t *listener, bool local, bool watchful);
void net_stream_close(struct network_stream *stream); /* NULL allowed */

/* uv_listener.c: the functions of the table, for streams of both kinds. */
int net_listener_listen(void *context, const char *address,
                        void (*accepted)(void *data, struct network_stream *stream), void *data,
                        struct network_listener **ret_listener, struct err *err);
int net_listener_listen_watchful(void *context, const char *address,
                                 void (*accepted)(void *data, struct network_stream *stream),
                                 void *data, struct network_listener **ret_listener,
                                 struct err *err);
int net_listener_port(const struct network_listener *listener);
void net_listener_close(struct network_listener *listener);

#endif
