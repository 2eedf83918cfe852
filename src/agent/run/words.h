/* Values as people read them, for what ckpt-run prints: "walltime exceeded", "4m03s", "1.5 GiB",
 * "10:32:05". */
#ifndef CKPT_AGENT_WORDS_H
#define CKPT_AGENT_WORDS_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

enum { WORDS_BYTES = 64 };

/* Each writes at most WORDS_BYTES, or what it is given, and returns text. */
/* Of REASON_WALLTIME_EXCEEDED: "walltime exceeded". */
const char *words_enum(const ProtobufCEnumDescriptor *type, int value, char text[WORDS_BYTES]);
const char *words_duration(uint64_t ms, char text[WORDS_BYTES]);
const char *words_size(uint64_t bytes, char text[WORDS_BYTES]);
/* As much of a text as fits, in whole words; what was cut ends with "...". bytes: from 8. */
const char *words_cut(const char *text, char *to, size_t bytes);
/* Local time; with the date unless it is today. */
const char *words_clock(uint64_t at_ms, char text[WORDS_BYTES]);
/* Date and time of this moment. */
const char *words_now(char text[WORDS_BYTES]);

#endif
