/* Names of the values of an enum, from the generated descriptor. A new value has its name at once;
 * a table beside the enum would say "unknown" until somebody remembers it.
 *
 * Flow     fsm_enum_name() is for tables of people, fsm_enum_word() for labels and sentences,
 *          fsm_enum_parse() for the way back. type is the descriptor, such as
 *          ckpt__v1__reason__descriptor.
 * Shapes   a name leaves the enum's prefix out: REASON_WALLTIME_EXCEEDED of Reason is
 *          WALLTIME_EXCEEDED.
 * Errors   a number that is no value is "UNKNOWN", or "unknown".
 * Absent   the functions need neither memory nor a state: agents and ckptctl use this file as well.
 */
#ifndef CKPT_FSM_NAMES_H
#define CKPT_FSM_NAMES_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* The longest word with its terminator. A longer name in a .proto file stops the program. */
enum { FSM_WORD_BYTES = 48 };

/* Static text. */
const char *fsm_enum_name(const ProtobufCEnumDescriptor *type, int value); /* "WALLTIME_EXCEEDED" */
/* Writes the name in small letters into ret_word, and returns ret_word. */
const char *fsm_enum_word(const ProtobufCEnumDescriptor *type, int value,
                          char ret_word[FSM_WORD_BYTES]); /* "walltime_exceeded" */
/* A name in any case, with - or _. false: no value has this name, and *ret_value stays. */
bool fsm_enum_parse(const ProtobufCEnumDescriptor *type, const char *text, int *ret_value);

#endif
