/* Addresses as people write them: "host:port", "[v6]:port". Nothing is resolved.
 *
 * Errors   -1 or false; the caller names the setting and the text in its own error.
 */
#ifndef CKPT_BASE_ADDRESS_H
#define CKPT_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The host without brackets, of at most size - 1 bytes. -1 when it is none, or when the host does
 * not fit. The port may be out of range. */
int address_split(const char *address, char *ret_host, size_t size, uint64_t *ret_port);
/* Whether only this host reaches a listener there: 127.*, ::1 and the name localhost. False also
 * when it is no address. */
bool address_is_loopback(const char *address);

#endif
