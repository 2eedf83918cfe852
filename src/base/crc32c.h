/* CRC-32C (Castagnoli), as used by every record, frame and header of files and connections.
 *
 * Flow     crc32c(0, ...), then crc32c(crc, ...) for each further piece.
 * Source   RFC 3720 B.4.
 */
#ifndef CKPT_BASE_CRC32C_H
#define CKPT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Start with crc 0; feeding pieces one after the other equals feeding them at once. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t length);
/* The same without the processor's instruction: for the test that both agree. */
uint32_t crc32c_by_slicing(uint32_t crc, const void *bytes, size_t length);

#endif
