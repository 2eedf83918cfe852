/* Addresses of the network table (network.h): "host:port", "[v6]:port" or "unix:PATH".
 *
 * Shapes   caller's storage, no heap. host gets the path of a unix socket.
 * Errors   ERR_INVALID with the text and what is wrong with it.
 */
#ifndef CKPT_NET_ADDRESS_H
#define CKPT_NET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"

enum { NETWORK_HOST_BYTES = 256 };

struct network_address {
    bool local;                    /* a unix socket */
    char host[NETWORK_HOST_BYTES]; /* a name, an IP address without brackets, or a path */
    uint16_t port;                 /* 0: of a unix socket, or any free one to listen on */
};
/* Reads the form only: a name is not looked up, a socket's file not opened. 0, or -1 with
 * ERR_INVALID. */
int network_address_parse(const char *text, struct network_address *ret_address, struct err *err);

#endif
