/* Prints of a command's fields: enough to say by name which one differs between two requests under
 * one id, without keeping the first of them.
 *
 * Shapes   three bytes for each field that was given, in the order of their numbers. The first is
 *          the number in the command, the second that of the field in it where it is a message,
 *          else 0. The third is a byte of the hash of its value. At most FSM_REQUEST_FIELDS_MAX.
 * Errors   two values with one print are taken for equal, which one pair in 256 has: then another
 *          field that differs is named, or none.
 */
#ifndef CKPT_FSM_REQUEST_FIELDS_H
#define CKPT_FSM_REQUEST_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsm/limits.h"

enum {
    REQUEST_FIELD_BYTES = 3,
    REQUEST_FIELD_NAME_BYTES = 30 /* with both commands it fits FSM_FOUND_BYTES */
};

struct request_fields {
    uint8_t count;
    uint8_t prints[FSM_REQUEST_FIELDS_MAX * REQUEST_FIELD_BYTES];
};

/* Of a packed Command whose body has this number; it was decoded before. */
void fsm_request_fields(const uint8_t *command, size_t length, uint32_t body,
                        struct request_fields *ret_fields);
/* The name of the first field that differs, as "spec.tenant". False: none is known. */
bool fsm_request_fields_differ(const struct request_fields *a, const struct request_fields *b,
                               uint32_t body, char ret_name[REQUEST_FIELD_NAME_BYTES]);

#endif
