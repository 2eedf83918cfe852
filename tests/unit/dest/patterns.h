/* The contents of large files. Optimised, unlike the tests: they write gigabytes of it. */
#ifndef CKPT_TESTS_UNIT_STORE_PATTERNS_H
#define CKPT_TESTS_UNIT_STORE_PATTERNS_H

#include <stddef.h>
#include <stdint.h>

/* No two pieces of 64 KiB are equal in 16 MiB. */
void pattern_numbers(uint8_t *bytes, size_t length);
/* from: the position of the first byte in its file; other noise comes from each. */
void pattern_noise(uint8_t *bytes, size_t length, size_t from);
/* Noise, of which seven bytes of eight are the digit 0. */
void pattern_zeros(uint8_t *bytes, size_t length);
/* Numbers as text, other ones in each 64 KiB. */
void pattern_text(uint8_t *bytes, size_t length, size_t from);

#endif
