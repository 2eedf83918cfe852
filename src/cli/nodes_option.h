/* --node NODE:GPUS[:MEMORY[:borrowed[:HOME]]], as often as needed, as the message's list of
 * shares. */
#ifndef CKPT_CLI_NODES_OPTION_H
#define CKPT_CLI_NODES_OPTION_H

#include "ckpt/v1/common.pb-c.h"
#include "src/cli/cli.h"

struct nodes_option {
    Ckpt__V1__NodeShare **shares; /* their texts point into argv */
    size_t count;
};

enum cli_exit nodes_option_parse(struct cli *cli, const char *option, struct nodes_option *nodes);
void nodes_option_free(struct nodes_option *nodes);

/* A node without an agent starts nothing: as a rule its name is misspelt. CLI_REFUSED for one from
 * which no agent ever spoke, unless --new-node was given. */
enum cli_exit nodes_check_agents(struct cli *cli, Ckpt__V1__NodeShare *const *shares, size_t count);

#endif
