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
    bool local;
    char host[NETWORK_HOST_BYTES];
    uint16_t port;
};
int network_address_parse(const char *text, struct network_address *ret_address, struct err *err);

#endif
