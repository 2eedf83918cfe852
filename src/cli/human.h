/* Values as people read them. JSON output carries the raw integers instead.
 *
 * Shapes   each function writes into the caller's HUMAN_BYTES and returns that text.
 * Units    as the arguments' names say; times are local.
 */
#ifndef CKPT_CLI_HUMAN_H
#define CKPT_CLI_HUMAN_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HUMAN_BYTES = 64 };

const char *human_count(uint64_t value, char text[HUMAN_BYTES]);  /* 641000 */
const char *human_grouped(int64_t value, char text[HUMAN_BYTES]); /* 641 000 */
const char *human_duration(uint64_t ms, char text[HUMAN_BYTES]);  /* 14h23m; UINT64_MAX: never */
const char *human_size(uint64_t bytes, char text[HUMAN_BYTES]);   /* 1.5 GiB */
const char *human_rate(uint64_t bytes_per_s, char text[HUMAN_BYTES]); /* 10.0 GB/s */
const char *human_share(uint64_t ppm, char text[HUMAN_BYTES]);        /* 30% */
const char *human_clock(uint64_t at_ms,
                        char text[HUMAN_BYTES]); /* 10:31:07; the date before it unless today */
const char *human_instant(uint64_t at_ms,
                          char text[HUMAN_BYTES]); /* 2026-11-20T10:31:07.250+0000 */
const char *human_checkpoint(uint64_t checkpoint_id, char text[HUMAN_BYTES]); /* 1-42, "-" for 0 */
/* A field's number by what the end of its name says it is: a duration, an instant, a size, ... */
const char *human_named(const char *field, uint64_t value, char text[HUMAN_BYTES]);
bool human_is_instant(const char *field); /* "started_at_ms" */
/* GPU-milliseconds as whole GPU-seconds, below ten with three digits, "> 9.2e15" when saturated. */
const char *human_gpu_s(int64_t gpu_ms, char text[HUMAN_BYTES]);

/* The value's name without its enumeration's prefix ("WRITING"); "UNKNOWN(17)" when a newer server
 * sent it. */
const char *human_enum(const ProtobufCEnumDescriptor *type, int value, char text[HUMAN_BYTES]);
/* The same in words for a sentence: "scale down". */
const char *human_enum_words(const ProtobufCEnumDescriptor *type, int value,
                             char text[HUMAN_BYTES]);

/* Copies with control characters replaced, so that text from a server or a file cannot drive the
 * terminal. Cut when too long. */
const char *human_safe(const char *from, char *text, size_t size);

#endif
