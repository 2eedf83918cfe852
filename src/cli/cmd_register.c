/* ckptctl register: an allocation from options, or from a YAML or JSON file with the fields of
 * AllocationSpec. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/status.h" /* and the profiles */
#include "src/base/check.h"
#include "src/cli/attributes.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/document.h"
#include "src/cli/nodes_option.h"
#include "src/cli/period.h"
#include "src/cli/reflect.h"
#include "src/cli/spec.h"
#include "src/profile/profile.h"

/* The cluster knows ways of asking alone: the rest of a profile is its ckpt-run's. */
static enum cli_exit take_profile(struct cli *cli, Ckpt__V1__AllocationSpec *spec)
{
    char way[ID_MAX_BYTES + 1];
    struct err err;

    if (profile_way(spec->profile, way, &err) != 0)
        return cli_fail(cli, CLI_USAGE, NULL, "the profile: %s", err.text);
    if (strcmp(way, spec->profile) == 0)
        return CLI_OK;
    cli_note(cli, "registered with %s, the way of profile %s; start it with: ckpt-run --profile %s",
             way, spec->profile, spec->profile);
    free(spec->profile);
    spec->profile = check_strdup(way);
    return CLI_OK;
}

static enum cli_exit send_spec(struct cli *cli, Ckpt__V1__AllocationSpec *spec)
{
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    char what[160];
    enum cli_exit code = nodes_check_agents(cli, spec->nodes, spec->n_nodes);
    uint64_t floor_ms;

    if (code == CLI_OK)
        code = take_profile(cli, spec);
    if (code != CLI_OK)
        return code;
    floor_ms = period_floor_ms(cli, spec->period_ms, spec->sensitive);
    request.spec = spec;
    snprintf(what, sizeof(what), "register job %.128s", spec->allocation_id);
    code = call_mutate_simple(cli, what, "BrokerService/RegisterAllocation", &request.base);
    if (code == CLI_OK)
        period_note(cli, spec->period_ms, floor_ms, spec->walltime_ms);
    if (code == CLI_OK && spec->owner[0] == '\0')
        cli_note(cli, "it has no owner: root alone can start it on a node, unless the policy has "
                      "owner_rule=first; --owner USER gives it one");
    return code;
}

/* Such a job is asked by its stand-in. */
static void take_attributes(const struct cli *cli, Ckpt__V1__AllocationSpec *spec)
{
    const struct option_value *value = cli_option(cli, "attr");
    char *joined = attributes_join(value->items, value->item_count);

    if (joined == NULL)
        return;
    spec->attributes = joined;
    if (spec->profile[0] == '\0')
        spec->profile = check_strdup(FSM_PROFILE_FILE);
}

static enum cli_exit register_options(struct cli *cli)
{
    Ckpt__V1__AllocationSpec *spec;
    struct nodes_option nodes;
    enum cli_exit code;

    if (cli_text(cli, "alloc") == NULL || cli_option(cli, "node")->item_count == 0) {
        return cli_fail(
            cli, CLI_USAGE,
            "ckptctl register --alloc ID --tenant T --project P --node NODE:GPUS:MEMORY",
            "register needs --alloc and --node, or --file");
    }
    code = nodes_option_parse(cli, "node", &nodes);
    if (code != CLI_OK)
        return code;
    spec = check_alloc(sizeof(*spec));
    ckpt__v1__allocation_spec__init(spec);
    spec_take(cli, spec);
    take_attributes(cli, spec);
    spec->nodes = nodes.shares;
    spec->n_nodes = nodes.count;
    code = send_spec(cli, spec);
    spec->n_nodes = 0; /* they are the option's */
    spec->nodes = NULL;
    call_free(&spec->base);
    nodes_option_free(&nodes);
    return code;
}

/* A file describes the whole job: an option beside it would leave open which of the two holds. */
static const char *option_beside_file(const struct cli *cli)
{
    for (size_t i = 0; cli->command->options[i].name != NULL; i++) {
        const char *name = cli->command->options[i].name;

        if (strcmp(name, "file") != 0 && strcmp(name, "new-node") != 0 &&
            cli_option(cli, name)->set)
            return name;
    }
    return NULL;
}

static enum cli_exit register_file(struct cli *cli)
{
    const char *name = cli_text(cli, "file");
    const char *beside = option_beside_file(cli);
    ProtobufCMessage *spec;
    json_t *json;
    struct err err;
    enum cli_exit code;

    if (beside != NULL) {
        return cli_fail(cli, CLI_USAGE, "the field in the file",
                        "--%s cannot be given beside --file", beside);
    }
    if (document_load(name, cli->in, &json, &err) != 0)
        return cli_fail(cli, CLI_USAGE, NULL, "%s", err.text);
    if (reflect_from_json(&ckpt__v1__allocation_spec__descriptor, json, &spec, &err) != 0) {
        json_decref(json);
        return cli_fail(cli, CLI_USAGE,
                        "the fields of AllocationSpec in proto/ckpt/v1/common.proto", "%s: %s",
                        name, err.text);
    }
    json_decref(json);
    code = send_spec(cli, (Ckpt__V1__AllocationSpec *)spec);
    call_free(spec);
    return code;
}

enum cli_exit command_register(struct cli *cli)
{
    return cli_text(cli, "file") != NULL ? register_file(cli) : register_options(cli);
}
