/* --node NODE:GPUS[:MEMORY[:borrowed[:HOME]]]. */
#include "src/cli/nodes_option.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/cli/call.h"
#include "src/cli/human.h"

enum { NODE_GPUS_MAX = 1024 };

static int parse_share(char *text, Ckpt__V1__NodeShare *share, struct err *err)
{
    char *rest = text;
    char *node = strsep(&rest, ":");
    char *gpus = strsep(&rest, ":");
    char *memory = strsep(&rest, ":");
    char *owner;
    uint64_t number;

    if (id_check("a node", node, err) != 0)
        return -1;
    share->node_id = node;
    if (gpus == NULL)
        return err_set(err, ERR_INVALID, "%s: the form is NODE:GPUS[:MEMORY[:borrowed[:HOME]]]",
                       node);
    if (number_parse(NUMBER_PLAIN, gpus, (struct number_range){0, NODE_GPUS_MAX}, &number, err) !=
        0)
        return err_wrap(err, "%s: GPUs", node);
    share->gpu_count = (uint32_t)number;
    if (memory != NULL && number_parse(NUMBER_SIZE, memory, (struct number_range){0, INT64_MAX},
                                       &share->gpu_memory_used_bytes, err) != 0)
        return err_wrap(err, "%s: memory", node);
    owner = strsep(&rest, ":");
    if (owner != NULL && strcmp(owner, "borrowed") != 0 && strcmp(owner, "own") != 0)
        return err_set(err, ERR_INVALID,
                       "%s: after the memory only \"borrowed\" or \"own\" may follow", node);
    if (rest != NULL && !id_valid(rest))
        return err_set(err, ERR_INVALID, "%s: the home is the name of a vCluster", node);
    share->borrowed = owner != NULL && strcmp(owner, "borrowed") == 0;
    if (rest != NULL)
        share->home_vcluster = rest;
    return 0;
}

enum cli_exit nodes_option_parse(struct cli *cli, const char *option, struct nodes_option *nodes)
{
    const struct option_value *value;
    struct err err;

    *nodes = (struct nodes_option){0};
    if (!cli_option_exists(cli, option))
        return CLI_OK;
    value = cli_option(cli, option);
    if (value->item_count == 0)
        return CLI_OK;
    nodes->shares = check_calloc(value->item_count, sizeof(*nodes->shares));
    for (size_t i = 0; i < value->item_count; i++) {
        Ckpt__V1__NodeShare *share = check_alloc(sizeof(*share));

        ckpt__v1__node_share__init(share);
        nodes->shares[nodes->count++] = share;
        if (parse_share(value->items[i], share, &err) != 0) {
            nodes_option_free(nodes);
            return cli_fail(cli, CLI_USAGE, NULL, "--%s: %s", option, err.text);
        }
    }
    return CLI_OK;
}

void nodes_option_free(struct nodes_option *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        free(nodes->shares[i]);
    free(nodes->shares);
    *nodes = (struct nodes_option){0};
}

/* Which nodes of a job an agent has spoken from. */
struct node_check {
    Ckpt__V1__NodeShare *const *shares;
    size_t count;
    bool *known; /* by position in shares */
};

static void mark_nodes(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListNodesReply *reply = (const Ckpt__V1__ListNodesReply *)page;
    struct node_check *check = context;

    for (size_t i = 0; i < reply->n_nodes; i++) {
        for (size_t k = 0; k < check->count; k++) {
            if (strcmp(reply->nodes[i]->node_id, check->shares[k]->node_id) == 0)
                check->known[k] = reply->nodes[i]->boot_id[0] != '\0';
        }
    }
}

enum cli_exit nodes_check_agents(struct cli *cli, Ckpt__V1__NodeShare *const *shares, size_t count)
{
    Ckpt__V1__ListNodesRequest request = CKPT__V1__LIST_NODES_REQUEST__INIT;
    struct node_check check = {.shares = shares, .count = count};
    enum cli_exit code;

    if (count == 0 || cli_flag(cli, "new-node") || cli_flag(cli, "dry-run"))
        return CLI_OK;
    check.known = check_calloc(count, sizeof(*check.known));
    code = call_read_pages(cli, "look up the nodes", "OperatorService/ListNodes", &request.base,
                           &ckpt__v1__list_nodes_reply__descriptor,
                           &(struct call_taker){mark_nodes, &check});
    for (size_t k = 0; code == CLI_OK && k < count; k++) {
        if (!check.known[k])
            code = cli_fail(cli, CLI_REFUSED,
                            "ckptctl nodes   or start ckpt-agentd there first   or: --new-node",
                            "no agent has ever spoken from node %.128s", shares[k]->node_id);
    }
    free(check.known);
    return code;
}
