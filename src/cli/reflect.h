/* Protocol messages <-> JSON, by their descriptors: names are the .proto's, so the schema is stable
 * and documented there.
 *
 * Shapes   every field is present, also at its zero value; a missing sub-message is null.
 *          Enumerations are short names ("WRITING"). Checkpoint ids and runs are "epoch-number"
 *          text, null when 0. Hashes are hexadecimal text. An age of "never" is null. All other
 *          numbers are exact integers.
 * Errors   from JSON: an unknown key (with the nearest known one), a wrong type, a number out of
 *          its type's range.
 */
#ifndef CKPT_CLI_REFLECT_H
#define CKPT_CLI_REFLECT_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "src/base/err.h"

json_t *reflect_to_json(const ProtobufCMessage *message);
/* The caller frees *ret_message with protobuf_c_message_free_unpacked(message, NULL). */
int reflect_from_json(const ProtobufCMessageDescriptor *type, json_t *json,
                      ProtobufCMessage **ret_message, struct err *err);
/* Sets one scalar field of a message from text as typed: numbers, true/false, names of
 * enumerations. Keys may leave out the unit suffix and then take a duration, size, rate or share
 * ("min_interval=5m" sets min_interval_ms). */
int reflect_set_text(ProtobufCMessage *message, const char *key, const char *text, struct err *err);
/* The field that a key names, with or without its unit suffix; NULL: none. */
const ProtobufCFieldDescriptor *reflect_field(const ProtobufCMessageDescriptor *type,
                                              const char *key);
/* A text field of the message; NULL when it has none of that name. */
char **reflect_text_field(ProtobufCMessage *message, const char *name);
/* A number of the message; NULL when it has none of that name. */
const uint64_t *reflect_uint64_field(const ProtobufCMessage *message, const char *name);
/* Whether a flag of the message is set; false when it has none of that name. */
bool reflect_flag(const ProtobufCMessage *message, const char *name);

#endif
