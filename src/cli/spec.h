/* A registration on the command line. Each field of AllocationSpec is an option of `register` and a
 * word of `job` and `explain` by its descriptor: a new field needs no line here.
 *
 * Shapes   an option's name is the field's without its unit and with dashes (short_names in spec.c
 *          has the exceptions); what it takes follows from the field's type and unit, its highest
 *          value from the row in fsm/records/allocation.h, its help from the comment in the .proto.
 * Absent   the nodes (nodes_option.h), and instants, which a scheduler gives in a file.
 */
#ifndef CKPT_CLI_SPEC_H
#define CKPT_CLI_SPEC_H

#include "ckpt/v1/common.pb-c.h"
#include "src/cli/cli.h"

/* Adds an option for each field that has none yet to a table with room for CLI_OPTIONS_MAX, which
 * ends with name NULL. Once in a program: the names and texts are this function's own. */
void spec_options_add(struct option_spec *options);

/* Sets each field whose option was given. The spec is one for protobuf_c_message_free_unpacked(),
 * which frees its texts. */
void spec_take(const struct cli *cli, Ckpt__V1__AllocationSpec *spec);

/* Lines with all that was registered but the id and the nodes: name and value of each field that is
 * not zero or empty. */
void spec_print(const struct cli *cli, const Ckpt__V1__AllocationSpec *spec);

#endif
