/* Addresses as people write them. See address.h. */
#include "src/base/address.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_DIGITS_MAX = 18, HOST_BYTES = 256 };

static int split_port(const char *text, uint64_t *ret_port)
{
    size_t length = strspn(text, "0123456789");

    if (length == 0 || length > PORT_DIGITS_MAX || text[length] != '\0')
        return -1;
    *ret_port = strtoull(text, NULL, 10);
    return 0;
}

int address_split(const char *address, char *ret_host, size_t size, uint64_t *ret_port)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - address);
    const char *host = address;

    if (length == 0 || split_port(colon + 1, ret_port) != 0)
        return -1;
    if (host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
        if (strspn(host, "0123456789abcdefABCDEF:.") < length)
            return -1;
    } else if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") <
               length) {
        return -1;
    }
    if (length == 0 || length >= size)
        return -1;
    memcpy(ret_host, host, length);
    ret_host[length] = '\0';
    return 0;
}

bool address_is_loopback(const char *address)
{
    char host[HOST_BYTES];
    uint64_t port;

    return address_split(address, host, sizeof(host), &port) == 0 &&
           ((strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host)) ||
            strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0);
}
