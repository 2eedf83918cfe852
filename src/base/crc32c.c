/* CRC-32C: by the processor's own instruction where it has one, else by slicing (eight table
 * look-ups for eight bytes). See crc32c.h. */
#include "src/base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { SLICES = 8 };

static uint32_t tables[SLICES][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void tables_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82f63b78) : crc >> 1;
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int s = 1; s < SLICES; s++)
            tables[s][i] = tables[s - 1][i] >> 8 ^ tables[0][tables[s - 1][i] & 0xff];
}

#if defined(__x86_64__)
static bool instruction_there(void)
{
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *at,
                                                                 size_t length)
{
    uint64_t wide = crc, word;

    for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; length > 0; length--, at++)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#else
static bool instruction_there(void)
{
    return false;
}

static uint32_t by_instruction(uint32_t crc, const uint8_t *at, size_t length)
{
    (void)at;
    (void)length;
    return crc;
}
#endif

static uint32_t by_slicing(uint32_t crc, const uint8_t *at, size_t length)
{
    pthread_once(&tables_once, tables_fill);
    for (; length >= 8; length -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
              tables[4][low >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
              tables[0][at[7]];
    }
    for (; length > 0; length--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
    return crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t length)
{
    return ~(instruction_there() ? by_instruction(~crc, bytes, length)
                                 : by_slicing(~crc, bytes, length));
}

uint32_t crc32c_by_slicing(uint32_t crc, const void *bytes, size_t length)
{
    return ~by_slicing(~crc, bytes, length);
}
