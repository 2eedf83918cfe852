/* Words of the command line -> struct cli, by the command table.
 *
 * Flow     global options may stand anywhere; a command's own options after its name; "--" ends
 *          options.
 * Errors   CLI_USAGE with the value, its limit, and the nearest known name.
 */
#ifndef CKPT_CLI_OPTIONS_H
#define CKPT_CLI_OPTIONS_H

#include "src/cli/cli.h"

enum cli_exit options_parse(struct cli *cli, int argc, char **argv);
void options_close(struct cli *cli);

#endif
