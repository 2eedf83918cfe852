/* What the values of an enum are called, by the descriptor that its generated message carries: a
 * new value has its name at once, where a table beside it would say "unknown" until somebody
 * remembers.
 *
 * Flow     fsm_enum_name() for tables of people, fsm_enum_word() for labels and sentences,
 *          fsm_enum_parse() the other way round. type is the descriptor, such as
 *          ckpt__v1__reason__descriptor.
 * Shapes   a name is the value's without its enum's: REASON_WALLTIME_EXCEEDED of Reason is
 *          WALLTIME_EXCEEDED.
 * Errors   a value that is none is "UNKNOWN", or "unknown".
 * Absent   nothing is allocated, and no state is needed: agents and ckptctl use this file as well.
 */
#ifndef CKPT_FSM_NAMES_H
#define CKPT_FSM_NAMES_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* Of the longest word, with the terminator. A longer name in a .proto file stops the program. */
enum { FSM_WORD_BYTES = 48 };

/* Static text. */
const char *fsm_enum_name(const ProtobufCEnumDescriptor *type, int value); /* "WALLTIME_EXCEEDED" */
/* The name in small letters, written into ret_word, which is returned. */
const char *fsm_enum_word(const ProtobufCEnumDescriptor *type, int value,
                          char ret_word[FSM_WORD_BYTES]); /* "walltime_exceeded" */
/* A name in any case, with - or _. false: there is none such, and *ret_value stays. */
bool fsm_enum_parse(const ProtobufCEnumDescriptor *type, const char *text, int *ret_value);

#endif
