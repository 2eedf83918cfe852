/* ckptctl nodes, placement, policy get, policy set, version. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/base/build.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/gc.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/cli/reflect.h"

/* "well", or the factor of its hazard and why; a signal that announces a failure has a mark: "x20.0
 * xid!". */
static const char *health_text(const Ckpt__V1__NodeStatus *node, char *text, size_t size)
{
    size_t length;

    if (node->hazard_factor_milli <= 1000 && node->n_signals == 0)
        return "well";
    length = (size_t)snprintf(text, size, "x%.1f", (double)node->hazard_factor_milli / 1e3);
    for (size_t i = 0; i < node->n_signals && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s%s", i == 0 ? " " : ",",
                                   node->signals[i]->signal, node->signals[i]->alarm ? "!" : "");
    return text;
}

/* How many of its sources speak, and the first that does not. */
static const char *sources_text(const Ckpt__V1__NodeStatus *node, char *text, size_t size)
{
    const Ckpt__V1__NodeSource *silent = NULL;
    size_t fresh = 0;

    for (size_t i = 0; i < node->n_sources; i++) {
        bool speaks = strcmp(node->sources[i]->sight, "fresh") == 0;

        fresh += speaks;
        if (!speaks && silent == NULL && i > 0) /* an agent without counters to read is no fault */
            silent = node->sources[i];
    }
    if (silent == NULL)
        snprintf(text, size, "%zu fresh", fresh);
    else
        snprintf(text, size, "%zu fresh, %s %s", fresh, silent->source, silent->sight);
    return text;
}

/* Who answers a stale read may hear no agent: only the leader does. */
static void node_cells(struct output_table *table, const ProtobufCMessage *item, bool stale)
{
    const Ckpt__V1__NodeStatus *node = (const Ckpt__V1__NodeStatus *)item;
    char text[HUMAN_BYTES], health[256];
    bool unknown = stale && !node->connected;

    output_cell(table, "%s", node->node_id);
    if (node->off_at_ms != 0)
        output_cell(table, "%s, off", node->state);
    else
        output_state(table, node->state);
    output_cell(table, "%s", unknown ? "-" : node->connected ? "yes" : "no");
    output_cell(table, "%s", unknown ? "-" : human_duration(node->last_heartbeat_age_ms, text));
    output_cell(table, "%u", node->allocation_count);
    output_cell(table, "%s", health_text(node, health, sizeof(health)));
    output_cell(table, "%s", sources_text(node, health, sizeof(health)));
    output_cell(table, "%s", node->version);
    output_cell(table, "%s", node->boot_id);
    output_cell(table, "%s", node->machine[0] == '\0' ? "-" : node->machine);
    output_cell(table, "%s", node->os[0] == '\0' ? "-" : node->os);
    output_cell(table, "%s", node->domain[0] == '\0' ? "-" : node->domain);
}

static void node_row(struct output_table *table, const ProtobufCMessage *item)
{
    node_cells(table, item, false);
}

static void stale_node_row(struct output_table *table, const ProtobufCMessage *item)
{
    node_cells(table, item, true);
}

static const char *node_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    (void)text;
    return ((const Ckpt__V1__NodeStatus *)item)->node_id;
}

static void add_nodes(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__ListNodesReply *reply = (const Ckpt__V1__ListNodesReply *)page;

    for (size_t i = 0; i < reply->n_nodes; i++)
        output_list_add(context, &reply->nodes[i]->base);
}

enum cli_exit command_nodes(struct cli *cli)
{
    static const struct output_column columns[] = {{"NODE", OUTPUT_LEFT},
                                                   {"STATE", OUTPUT_LEFT},
                                                   {"CONNECTED", OUTPUT_LEFT},
                                                   {"HEARTBEAT", OUTPUT_RIGHT},
                                                   {"JOBS", OUTPUT_RIGHT},
                                                   {"HEALTH", OUTPUT_LEFT},
                                                   {"TELEMETRY", OUTPUT_LEFT},
                                                   {"VERSION", OUTPUT_LEFT},
                                                   {"BOOT", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
                                                   {"MACHINE", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
                                                   {"OS", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
                                                   {"DOMAIN", OUTPUT_LEFT | OUTPUT_ONLY_WIDE}};
    const bool stale = cli_flag(cli, "stale");
    const struct output_kind kind = {
        "nodes",  "node", columns, ARRAY_COUNT(columns), stale ? stale_node_row : node_row,
        node_name};
    Ckpt__V1__ListNodesRequest request = CKPT__V1__LIST_NODES_REQUEST__INIT;
    struct output_list list;
    enum cli_exit code;

    request.stale = stale;
    output_list_begin(&list, cli, &kind);
    code = call_read_pages(cli, "list nodes", "OperatorService/ListNodes", &request.base,
                           &ckpt__v1__list_nodes_reply__descriptor,
                           &(struct call_taker){add_nodes, &list});
    output_list_end(&list, code == CLI_OK);
    return code;
}

/* Of how many parts a node keeps a copy. */
static void copies_cell(struct output_table *table, const Ckpt__V1__PlacementHint *placement)
{
    size_t kept = 0;

    for (size_t i = 0; i < placement->n_copy_nodes; i++)
        kept += placement->copy_nodes[i][0] != '\0';
    if (kept == 0)
        output_cell(table, "-");
    else
        output_cell(table, "%zu/%zu", kept, placement->n_copy_nodes);
}

/* "1 of 2": as many of the nodes that it needs wait for it. */
static void nodes_cell(struct output_table *table, const Ckpt__V1__PlacementHint *placement)
{
    if (!placement->waits)
        output_cell(table, "-");
    else if (placement->nodes_needed < placement->nodes_wanted)
        output_cell(table, "%u of %u-%u", placement->nodes_waiting, placement->nodes_needed,
                    placement->nodes_wanted);
    else
        output_cell(table, "%u of %u", placement->nodes_waiting, placement->nodes_wanted);
}

static void hint_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__PlacementHint *placement = (const Ckpt__V1__PlacementHint *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", placement->allocation_id);
    output_cell(table, "%s", human_share(placement->checkpoint_efficiency_ppm, text));
    if (placement->waits)
        output_cell(table, "waits");
    else if (placement->non_preemptible)
        output_cell(table, "no: %s", placement->why);
    else if (placement->why[0] != '\0')
        output_cell(table, "dear: %s", placement->why);
    else
        output_cell(table, "yes");
    output_cell(table, "%" PRIu64 " GPU-s", placement->preemption_cost_gpu_ms / 1000);
    output_cell(table, "%s", placement->avoid_borrowed_nodes ? "avoid" : "allowed");
    output_cell(table, "%s", human_share(placement->borrowed_penalty_ppm, text));
    output_cell(
        table, "%s%s%s", placement->domain[0] == '\0' ? "any" : placement->domain,
        placement->domain_rule > CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY ? " " : "",
        placement->domain_rule > CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_ANY
            ? human_enum(&ckpt__v1__domain_rule__descriptor, (int)placement->domain_rule, text)
            : "");
    copies_cell(table, placement);
    nodes_cell(table, placement);
    output_cell(table, "%s", placement->waits ? human_clock(placement->stopped_at_ms, text) : "-");
}

static const char *hint_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    (void)text;
    return ((const Ckpt__V1__PlacementHint *)item)->allocation_id;
}

static void add_hints(void *context, const ProtobufCMessage *page)
{
    const Ckpt__V1__GetPlacementHintsReply *reply = (const Ckpt__V1__GetPlacementHintsReply *)page;

    for (size_t i = 0; i < reply->n_hints; i++)
        output_list_add(context, &reply->hints[i]->base);
}

enum cli_exit command_placement(struct cli *cli)
{
    static const struct output_column columns[] = {
        {"JOB", OUTPUT_LEFT},    {"EFFICIENCY", OUTPUT_RIGHT},    {"PREEMPTIBLE", OUTPUT_LEFT},
        {"COST", OUTPUT_RIGHT},  {"BORROWED NODES", OUTPUT_LEFT}, {"PENALTY", OUTPUT_RIGHT},
        {"DOMAIN", OUTPUT_LEFT}, {"COPIES", OUTPUT_RIGHT},        {"NODES", OUTPUT_RIGHT},
        {"SINCE", OUTPUT_LEFT}};
    static const struct output_kind kind = {"placement_hints",    "placement_hint", columns,
                                            ARRAY_COUNT(columns), hint_row,         hint_name};
    Ckpt__V1__GetPlacementHintsRequest request = CKPT__V1__GET_PLACEMENT_HINTS_REQUEST__INIT;
    struct output_list list;
    enum cli_exit code;

    if (cli->argument_count > 0)
        request.vcluster = cli_argument(cli, 0);
    output_list_begin(&list, cli, &kind);
    code = call_read_pages(cli, "get placement advice", "BrokerService/GetPlacementHints",
                           &request.base, &ckpt__v1__get_placement_hints_reply__descriptor,
                           &(struct call_taker){add_hints, &list});
    output_list_end(&list, code == CLI_OK);
    return code;
}

static void print_policy(struct cli *cli, const Ckpt__V1__Policy *policy)
{
    static const struct output_column columns[] = {
        {"KEY", OUTPUT_LEFT}, {"VALUE", OUTPUT_RIGHT}, {"RAW", OUTPUT_RIGHT}};
    json_t *fields = reflect_to_json(&policy->base);
    struct output_table table;
    const char *key;
    json_t *value;
    char text[HUMAN_BYTES];

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    json_object_del(fields, "zeros"); /* each is shown as what it is */
    json_object_foreach(fields, key, value)
    {
        output_row(&table);
        output_cell(&table, "%s", key);
        if (json_is_string(value)) { /* a choice */
            output_cell(&table, "%s", json_string_value(value));
            output_cell(&table, "%s", json_string_value(value));
            continue;
        }
        output_cell(&table, "%s", human_named(key, (uint64_t)json_integer_value(value), text));
        output_cell(&table, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    }
    output_table_print(&table);
    json_decref(fields);
}

enum cli_exit command_policy_get(struct cli *cli)
{
    const Ckpt__V1__Policy *policy;
    ProtobufCMessage *message;
    enum cli_exit code = call_policy(cli, cli_flag(cli, "stale"), &policy, &message);

    if (code != CLI_OK)
        return code;
    if (!output_json_message(cli, "policy", &policy->base))
        print_policy(cli, policy);
    call_free(message);
    return CLI_OK;
}

/* A retention that falls deletes what is older, of jobs that have ended too: that is shown
 * before. */
static enum cli_exit confirm_retention(struct cli *cli, uint64_t retention_ms)
{
    const Ckpt__V1__Policy *now;
    ProtobufCMessage *message;
    struct gc_count older = {0, 0};
    char text[256], before[HUMAN_BYTES], after[HUMAN_BYTES], bytes[HUMAN_BYTES];
    enum cli_exit code = call_policy(cli, false, &now, &message);

    if (code != CLI_OK)
        return code;
    if (retention_ms < now->retention_ms)
        code = gc_count_older(cli, retention_ms, &older);
    snprintf(text, sizeof(text),
             "plan: retention falls from %s to %s: %" PRIu64
             " checkpoints (%s) are older and go soon, but for those of jobs with a retention of "
             "their own; none that a restart needs",
             human_duration(now->retention_ms, before), human_duration(retention_ms, after),
             older.count, human_size(older.size_bytes, bytes));
    call_free(message);
    return code == CLI_OK && older.count > 0 ? call_confirm(cli, text) : code;
}

enum cli_exit command_policy_set(struct cli *cli)
{
    Ckpt__V1__SetPolicyRequest request = CKPT__V1__SET_POLICY_REQUEST__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct err err;

    for (size_t i = 0; i < cli->argument_count; i++) {
        char *value = cli_argument(cli, i);
        const char *key = strsep(&value, "=");

        if (value == NULL) {
            return cli_fail(cli, CLI_USAGE, "ckptctl policy set min_interval=5m",
                            "\"%s\" is not KEY=VALUE", key);
        }
        if (reflect_set_text(&policy.base, key, value, &err) != 0)
            return cli_fail(cli, CLI_USAGE, "ckptctl policy get", "%s", err.text);
        if (value[0] != '0' || strpbrk(value, "123456789") != NULL)
            continue;
        if (reflect_field(policy.base.descriptor, key)->id >= 60) /* it has no bit */
            return cli_fail(cli, CLI_USAGE, "ckptctl policy get", "%s cannot be 0", key);
        policy.zeros |= UINT64_C(1) << reflect_field(policy.base.descriptor, key)->id;
    }
    if (policy.retention_ms != 0) {
        enum cli_exit code = confirm_retention(cli, policy.retention_ms);

        if (code != CLI_OK)
            return code;
    }
    request.policy = &policy;
    return call_mutate_simple(cli, "set the policy", "OperatorService/SetPolicy", &request.base);
}

enum cli_exit command_version(struct cli *cli)
{
    if (cli_is_json(cli))
        output_json(cli, "ckptctl", json_pack("{s:s}", "version", build_text));
    else if (!output_name(cli, build_text))
        cli_out(cli, "ckptctl %s\n", build_text);
    return CLI_OK;
}
