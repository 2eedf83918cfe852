/* Levels of the fields and values of a message, by the options of the .proto files.
 *
 * Flow     fsm_message_level() says what a message needs; fsm_message_lower() makes it one that a
 *          cluster of a lower level takes.
 * Absent   the functions need no state: agents use this file as well.
 */
#ifndef CKPT_FSM_MESSAGE_LEVEL_H
#define CKPT_FSM_MESSAGE_LEVEL_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

enum { FSM_LEVEL_FIRST = 1, FSM_LEVEL_NEWEST = 2 };

/* The highest level of what the message holds at any depth; ret_field is the name of a field with
 * it, "" at FSM_LEVEL_FIRST. */
uint32_t fsm_message_level(const ProtobufCMessage *message, const char **ret_field);
/* Numbers of a higher level become zero: they are not in the bytes then. level: from
 * FSM_LEVEL_FIRST. Messages within it stay. */
void fsm_message_lower(ProtobufCMessage *message, uint32_t level);

#endif
