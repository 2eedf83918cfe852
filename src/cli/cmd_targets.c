/* ckptctl targets, target put, target remove. */
#include <inttypes.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "fsm/names.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/targets.h"

static const struct output_column columns[] = {
    {"TARGET", OUTPUT_LEFT},
    {"STATE", OUTPUT_LEFT},
    {"SINCE", OUTPUT_LEFT},
    {"BUDGET", OUTPUT_RIGHT},
    {"GRANTED", OUTPUT_RIGHT},
    {"PAUSED", OUTPUT_RIGHT},
    {"PREFIX", OUTPUT_LEFT},
    {"DETAIL", OUTPUT_LEFT},
    {"WAITING", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"WAVES", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"GPU-S/GB", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"KIND", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"PROBE", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"WRITE", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"STAGING", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"MEASURED", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"DOMAIN", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"TIER", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"USD/GB-MONTH", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"READ", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"FAIL-OVER", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"WRITES", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"READ BACK", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"GENERATIONS", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"COMPRESSION", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"READING", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"TO READ", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"RESTORES", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"POOL", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"ENCRYPTED", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"HOT ONLY", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"JURISDICTION", OUTPUT_LEFT | OUTPUT_ONLY_WIDE},
    {"WRITING", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
    {"MAX WRITES", OUTPUT_RIGHT | OUTPUT_ONLY_WIDE},
};

static void limit_cell(struct output_table *table, uint32_t limit)
{
    if (limit > 0)
        output_cell(table, "%u", limit);
    else
        output_cell(table, "-");
}

static void target_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__TargetStatus *target = (const Ckpt__V1__TargetStatus *)item;
    static const Ckpt__V1__TargetSpec no_spec = CKPT__V1__TARGET_SPEC__INIT;
    const Ckpt__V1__TargetSpec *spec = target->spec != NULL ? target->spec : &no_spec;
    char text[HUMAN_BYTES], word[FSM_WORD_BYTES];

    output_cell(table, "%s%s", spec->target_id, spec->is_default ? " (default)" : "");
    output_state(table, !target->available ? "unavailable"
                        : target->draining ? "draining"
                                           : "available");
    output_cell(table, "%s", human_clock(target->since_ms, text));
    output_cell(table, "%s", human_rate(target->budget_bytes_per_s, text));
    output_cell(table, "%s", human_rate(target->granted_bytes_per_s, text));
    output_cell(table, "%" PRIu64, target->paused_count);
    output_cell(table, "%s", spec->prefix);
    output_cell(table, "%s%s%s",
                target->available
                    ? ""
                    : fsm_enum_word(&ckpt__v1__reason__descriptor, (int)target->reason, word),
                target->available || target->detail[0] == '\0' ? "" : ": ", target->detail);
    output_cell(table, "%u", target->waiting_count);
    output_cell(table, "%u", target->wave_count);
    output_cell(table, "%.3f", (double)target->price_gpu_ms_per_gb / 1e3);
    output_cell(table, "%s", human_enum(&ckpt__v1__target_kind__descriptor, (int)spec->kind, text));
    output_cell(table, "%s", human_duration(target->last_probe_ms, text));
    output_cell(table, "%s", human_rate(spec->write_bytes_per_s, text));
    output_cell(table, "%s", human_share(spec->staging_share_ppm, text));
    output_cell(table, "%s",
                target->measured_bytes_per_s > 0 ? human_rate(target->measured_bytes_per_s, text)
                                                 : "-");
    output_cell(table, "%s", spec->domain[0] == '\0' ? "-" : spec->domain);
    output_cell(table, "%s", spec->tier[0] == '\0' ? "-" : spec->tier);
    output_cell(table, "%.6f", (double)spec->cost_micro_usd_per_gb_month / 1e6);
    output_cell(table, "%s",
                spec->read_bytes_per_s > 0 ? human_rate(spec->read_bytes_per_s, text) : "-");
    output_cell(table, "%s%s", spec->failover_target_id[0] == '\0' ? "-" : spec->failover_target_id,
                target->failed_over ? " (now)" : "");
    output_cell(table, "%s", human_enum(&ckpt__v1__staging__descriptor, (int)spec->staging, text));
    output_cell(table, "%s",
                human_enum(&ckpt__v1__read_back__descriptor, (int)spec->read_back, text));
    output_cell(table, "%u", spec->generations);
    output_cell(table, "%s",
                human_enum(&ckpt__v1__compression__descriptor, (int)spec->compression, text));
    output_cell(table, "%u", target->restores_reading);
    output_cell(table, "%u", target->restores_waiting);
    limit_cell(table, spec->max_restores);
    output_cell(table, "%s", human_enum(&ckpt__v1__pool__descriptor, (int)spec->pool, text));
    output_cell(table, "%s", spec->encrypted == CKPT__V1__ASSURED__ASSURED_YES ? "yes" : "no");
    output_cell(table, "%s", spec->hot_only == CKPT__V1__ASSURED__ASSURED_YES ? "yes" : "no");
    output_cell(table, "%s", spec->jurisdiction[0] == '\0' ? "-" : spec->jurisdiction);
    output_cell(table, "%u", target->parts_writing);
    limit_cell(table, spec->max_writes);
}

static const char *target_name(const ProtobufCMessage *item, char text[64])
{
    const Ckpt__V1__TargetStatus *target = (const Ckpt__V1__TargetStatus *)item;

    (void)text;
    return target->spec != NULL ? target->spec->target_id : "-";
}

const struct output_kind targets_kind = {"targets",  "target",   columns, ARRAY_COUNT(columns),
                                         target_row, target_name};

enum cli_exit command_targets(struct cli *cli)
{
    Ckpt__V1__ListTargetsRequest request = CKPT__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *message;
    struct output_list list;
    enum cli_exit code;

    request.stale = cli_flag(cli, "stale");
    code = call_read(cli, "list targets", "OperatorService/ListTargets", &request.base,
                     &ckpt__v1__list_targets_reply__descriptor, &message);

    if (code != CLI_OK)
        return code;
    const Ckpt__V1__ListTargetsReply *reply = (const Ckpt__V1__ListTargetsReply *)message;

    output_list_begin(&list, cli, &targets_kind);
    for (size_t i = 0; i < reply->n_targets; i++)
        output_list_add(&list, &reply->targets[i]->base);
    output_list_end(&list, true);
    call_free(message);
    return CLI_OK;
}

/* Options that may empty a field, and its number in TargetSpec. */
static const struct {
    const char *option;
    unsigned field;
} emptied[] = {{"staging-share", 5}, {"price", 6},        {"domain", 8},       {"tier", 9},
               {"read", 10},         {"failover", 11},    {"generations", 13}, {"max-restores", 15},
               {"max-writes", 18},   {"jurisdiction", 21}};

/* "-" stands for the empty text, which no option takes. */
static void set_text_or_none(const struct cli *cli, const char *option, char **text)
{
    static char none[] = "";

    cli_set_text(cli, option, text);
    if (strcmp(*text, "-") == 0)
        *text = none;
}

static uint64_t target_zeros(const struct cli *cli, const Ckpt__V1__TargetSpec *spec)
{
    const bool zero[] = {spec->staging_share_ppm == 0, spec->cost_micro_usd_per_gb_month == 0,
                         spec->domain[0] == '\0',      spec->tier[0] == '\0',
                         spec->read_bytes_per_s == 0,  spec->failover_target_id[0] == '\0',
                         spec->generations == 0,       spec->max_restores == 0,
                         spec->max_writes == 0,        spec->jurisdiction[0] == '\0'};
    uint64_t zeros = 0;

    for (size_t i = 0; i < ARRAY_COUNT(emptied); i++)
        if (zero[i] && cli_option(cli, emptied[i].option)->set)
            zeros |= UINT64_C(1) << emptied[i].field;
    return zeros;
}

/* Allowed, and seldom meant: checkpoints of both lie in one place, which is budgeted twice. */
static void warn_overlap(struct cli *cli, const char *id, const char *prefix)
{
    Ckpt__V1__ListTargetsRequest request = CKPT__V1__LIST_TARGETS_REQUEST__INIT;
    const Ckpt__V1__ListTargetsReply *reply;
    ProtobufCMessage *message;
    char name[129];

    if (call_read(cli, "list targets", "OperatorService/ListTargets", &request.base,
                  &ckpt__v1__list_targets_reply__descriptor, &message) != CLI_OK)
        return;
    reply = (const Ckpt__V1__ListTargetsReply *)message;
    for (size_t i = 0; i < reply->n_targets; i++) {
        const Ckpt__V1__TargetSpec *other = reply->targets[i]->spec;

        if (other != NULL && strcmp(other->target_id, id) != 0 &&
            (text_is_below(other->prefix, prefix) || text_is_below(prefix, other->prefix)))
            cli_note(cli,
                     "warning: its prefix and that of target %s are one, or one lies in the other: "
                     "both are budgeted, priced and looked through for the same storage; give each "
                     "a folder of its own",
                     human_safe(other->target_id, name, sizeof(name)));
    }
    call_free(message);
}

/* What is not given stays as it is; of a new one the broker says what is missing. */
enum cli_exit command_target_put(struct cli *cli)
{
    Ckpt__V1__PutTargetRequest request = CKPT__V1__PUT_TARGET_REQUEST__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    char what[256];
    enum cli_exit code;

    spec.target_id = cli_argument(cli, 0);
    cli_set_text(cli, "prefix", &spec.prefix);
    set_text_or_none(cli, "domain", &spec.domain);
    set_text_or_none(cli, "tier", &spec.tier);
    set_text_or_none(cli, "failover", &spec.failover_target_id);
    set_text_or_none(cli, "jurisdiction", &spec.jurisdiction);
    spec.cost_micro_usd_per_gb_month = cli_number(cli, "price", 0);
    spec.read_bytes_per_s = cli_number(cli, "read", 0);
    spec.kind = (Ckpt__V1__TargetKind)cli_number(cli, "kind", 0);
    spec.write_bytes_per_s = cli_number(cli, "write", 0);
    spec.staging_share_ppm = (uint32_t)cli_number(cli, "staging-share", 0);
    spec.read_back = (Ckpt__V1__ReadBack)cli_number(cli, "read-back", 0);
    spec.generations = (uint32_t)cli_number(cli, "generations", 0);
    spec.staging = (Ckpt__V1__Staging)cli_number(cli, "staging", 0);
    spec.compression = (Ckpt__V1__Compression)cli_number(cli, "compression", 0);
    spec.pool = (Ckpt__V1__Pool)cli_number(cli, "pool", 0);
    spec.encrypted = (Ckpt__V1__Assured)cli_number(cli, "encrypted", 0);
    spec.hot_only = (Ckpt__V1__Assured)cli_number(cli, "hot-only", 0);
    spec.max_restores = (uint32_t)cli_number(cli, "max-restores", 0);
    spec.max_writes = (uint32_t)cli_number(cli, "max-writes", 0);
    request.zeros = target_zeros(cli, &spec);
    spec.is_default = cli_flag(cli, "default");
    request.spec = &spec;
    snprintf(what, sizeof(what), "put target %.128s", spec.target_id);
    code = call_mutate_simple(cli, what, "OperatorService/PutTarget", &request.base);
    if (code == CLI_OK && spec.prefix[0] != '\0' && !cli_flag(cli, "dry-run"))
        warn_overlap(cli, spec.target_id, spec.prefix);
    return code;
}

enum cli_exit command_target_remove(struct cli *cli)
{
    Ckpt__V1__RemoveTargetRequest request = CKPT__V1__REMOVE_TARGET_REQUEST__INIT;
    char what[160], plan[256];
    enum cli_exit code;

    request.target_id = cli_argument(cli, 0);
    snprintf(plan, sizeof(plan), "plan: remove target %.128s; no job can write there any more",
             request.target_id);
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "remove target %.128s", request.target_id);
    return call_mutate_simple(cli, what, "OperatorService/RemoveTarget", &request.base);
}

enum cli_exit command_target_drain(struct cli *cli)
{
    Ckpt__V1__DrainTargetRequest request = CKPT__V1__DRAIN_TARGET_REQUEST__INIT;
    char what[160];

    request.target_id = cli_argument(cli, 0);
    request.undo = cli_flag(cli, "undo");
    snprintf(what, sizeof(what), "%s target %.128s", request.undo ? "undrain" : "drain",
             request.target_id);
    return call_mutate_simple(cli, what, "OperatorService/DrainTarget", &request.base);
}
