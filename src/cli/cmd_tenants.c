/* ckptctl tenants, tenant put: the bytes of each tenant's checkpoints, and its limits. */
#include <inttypes.h>
#include <stdio.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

static const struct output_column columns[] = {
    {"TENANT", OUTPUT_LEFT},   {"STORED", OUTPUT_RIGHT},    {"LEAVING", OUTPUT_RIGHT},
    {"RUNNING", OUTPUT_RIGHT}, {"LIMIT", OUTPUT_RIGHT},     {"ROOM", OUTPUT_RIGHT},
    {"KEEP", OUTPUT_RIGHT},    {"RETENTION", OUTPUT_RIGHT}, {"REFUSED", OUTPUT_LEFT},
};

static void size_or_none(struct output_table *table, bool any, uint64_t bytes)
{
    char text[HUMAN_BYTES];

    output_cell(table, "%s", any ? human_size(bytes, text) : "-");
}

static void tenant_row(struct output_table *table, const ProtobufCMessage *item)
{
    static const Ckpt__V1__TenantSpec no_spec = CKPT__V1__TENANT_SPEC__INIT;
    const Ckpt__V1__TenantStatus *tenant = (const Ckpt__V1__TenantStatus *)item;
    const Ckpt__V1__TenantSpec *spec = tenant->spec != NULL ? tenant->spec : &no_spec;
    uint64_t used = tenant->stored_bytes + tenant->running_bytes;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", spec->tenant);
    size_or_none(table, true, tenant->stored_bytes);
    size_or_none(table, tenant->leaving_bytes > 0, tenant->leaving_bytes);
    size_or_none(table, tenant->running_bytes > 0, tenant->running_bytes);
    size_or_none(table, spec->max_bytes > 0, spec->max_bytes);
    size_or_none(table, spec->max_bytes > 0, spec->max_bytes > used ? spec->max_bytes - used : 0);
    if (spec->keep_complete > 0)
        output_cell(table, "%" PRIu32, spec->keep_complete);
    else
        output_cell(table, "-");
    output_cell(table, "%s",
                spec->retention_ms > 0 ? human_duration(spec->retention_ms, text) : "-");
    output_cell(table, "%s",
                tenant->wanted_bytes > 0 ? human_clock(tenant->refused_at_ms, text) : "-");
}

static const char *tenant_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    const Ckpt__V1__TenantStatus *tenant = (const Ckpt__V1__TenantStatus *)item;

    (void)text;
    return tenant->spec != NULL ? tenant->spec->tenant : "-";
}

static const struct output_kind tenants_kind = {
    "tenants", "tenant", columns, ARRAY_COUNT(columns), tenant_row, tenant_name};

enum cli_exit command_tenants(struct cli *cli)
{
    Ckpt__V1__ListTenantsRequest request = CKPT__V1__LIST_TENANTS_REQUEST__INIT;
    ProtobufCMessage *message;
    struct output_list list;
    enum cli_exit code;

    request.stale = cli_flag(cli, "stale");
    code = call_read(cli, "list tenants", "OperatorService/ListTenants", &request.base,
                     &ckpt__v1__list_tenants_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    const Ckpt__V1__ListTenantsReply *reply = (const Ckpt__V1__ListTenantsReply *)message;

    output_list_begin(&list, cli, &tenants_kind);
    for (size_t i = 0; i < reply->n_tenants; i++)
        output_list_add(&list, &reply->tenants[i]->base);
    output_list_end(&list, true);
    call_free(message);
    return CLI_OK;
}

/* Each option and the number of its field in TenantSpec: a 0 that was typed is meant. */
static uint64_t tenant_zeros(const struct cli *cli, const Ckpt__V1__TenantSpec *spec)
{
    const struct {
        const char *option;
        unsigned field;
        bool zero;
    } emptied[] = {{"max-bytes", 2, spec->max_bytes == 0},
                   {"keep", 3, spec->keep_complete == 0},
                   {"retention", 4, spec->retention_ms == 0}};
    uint64_t zeros = 0;

    for (size_t i = 0; i < ARRAY_COUNT(emptied); i++)
        if (emptied[i].zero && cli_option(cli, emptied[i].option)->set)
            zeros |= UINT64_C(1) << emptied[i].field;
    return zeros;
}

enum cli_exit command_tenant_put(struct cli *cli)
{
    Ckpt__V1__PutTenantRequest request = CKPT__V1__PUT_TENANT_REQUEST__INIT;
    Ckpt__V1__TenantSpec spec = CKPT__V1__TENANT_SPEC__INIT;
    char what[160];

    if (!cli_option(cli, "max-bytes")->set && !cli_option(cli, "keep")->set &&
        !cli_option(cli, "retention")->set)
        return cli_fail(cli, CLI_USAGE, "ckptctl help tenant put",
                        "tenant put changes nothing without --max-bytes, --keep or --retention");
    spec.tenant = cli_argument(cli, 0);
    spec.max_bytes = cli_number(cli, "max-bytes", 0);
    spec.keep_complete = (uint32_t)cli_number(cli, "keep", 0);
    spec.retention_ms = cli_number(cli, "retention", 0);
    request.spec = &spec;
    request.zeros = tenant_zeros(cli, &spec);
    snprintf(what, sizeof(what), "put tenant %.128s", spec.tenant);
    return call_mutate_simple(cli, what, "OperatorService/PutTenant", &request.base);
}
