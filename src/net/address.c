/* Addresses of the network table. See address.h. */
#include "src/net/address.h"

#include <string.h>

enum { UNIX_PATH_MAX_BYTES = 107 };

static int port_parse(const char *text, uint16_t *ret_port)
{
    uint32_t value = 0;

    if (*text == '\0' || strlen(text) > 5)
        return -1;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        value = value * 10 + (uint32_t)(*text - '0');
    }
    if (value > UINT16_MAX)
        return -1;
    *ret_port = (uint16_t)value;
    return 0;
}

int network_address_parse(const char *text, struct network_address *ret_address, struct err *err)
{
    const char *colon = strrchr(text, ':');
    const char *host = text;
    struct network_address address = {0};
    size_t length;

    if (strncmp(text, "unix:", 5) == 0) {
        length = strlen(text + 5);
        if (length == 0 || length > UNIX_PATH_MAX_BYTES)
            return err_set(err, ERR_INVALID,
                           "socket path of %zu bytes in \"%.300s\": 1 to %d bytes are possible",
                           length, text, UNIX_PATH_MAX_BYTES);
        address.local = true;
        memcpy(address.host, text + 5, length);
        *ret_address = address;
        return 0;
    }
    if (colon == NULL || port_parse(colon + 1, &address.port) != 0)
        return err_set(err, ERR_INVALID, "address \"%.300s\" is not host:port or unix:PATH", text);
    length = (size_t)(colon - text);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    } else if (memchr(host, ':', length) != NULL) {
        return err_set(err, ERR_INVALID, "address \"%.300s\": write an IPv6 host as [host]:port",
                       text);
    }
    if (length == 0 || length >= sizeof(address.host))
        return err_set(err, ERR_INVALID, "address \"%.300s\" has no usable host", text);
    memcpy(address.host, host, length);
    *ret_address = address;
    return 0;
}
