/* ckptctl tls init, issue, show: a small site's own CA. All of it works on local files; see
 * src/tls/authority.h. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/tls/authority.h"
#include "src/tls/watch.h"

enum { CA_YEARS = 10, DAY_S = 86400 };

static enum cli_exit fail_with(struct cli *cli, const struct err *err)
{
    enum cli_exit code = err->code == ERR_REFUSED   ? CLI_REFUSED
                         : err->code == ERR_INVALID ? CLI_USAGE
                                                    : CLI_FAILED;

    return cli_fail(cli, code, NULL, "%s", err->text);
}

static int64_t valid_s(const struct cli *cli, int64_t otherwise_s)
{
    return (int64_t)(cli_number(cli, "valid", (uint64_t)otherwise_s * 1000) / 1000);
}

static const char *dir_of(const struct cli *cli)
{
    return cli_text(cli, "dir") != NULL ? cli_text(cli, "dir") : ".";
}

enum cli_exit command_tls_init(struct cli *cli)
{
    const char *cluster = cli_text(cli, "cluster");
    const char *dir = dir_of(cli);
    struct err err;

    if (cluster == NULL)
        return cli_fail(cli, CLI_USAGE, "--cluster ID, the cluster_id of ckptd's configuration",
                        "--cluster is missing");
    if (tls_authority_create(dir, cluster, valid_s(cli, CA_YEARS * TLS_YEAR_S), &err) != 0)
        return fail_with(cli, &err);
    cli_out(cli, "made %s/%s and %s/%s\n", dir, TLS_AUTHORITY_CERT, dir, TLS_AUTHORITY_KEY);
    cli_note(cli,
             "%s goes to every host; %s stays here: who has it can make any certificate of %s.\n"
             "next: ckptctl tls issue replica 1 --dir %s --host NAME,ADDRESS",
             TLS_AUTHORITY_CERT, TLS_AUTHORITY_KEY, cluster, dir);
    return CLI_OK;
}

enum cli_exit command_tls_issue(struct cli *cli)
{
    const struct option_value *hosts = cli_option(cli, "host");
    const char *dir = dir_of(cli);
    const char *out = cli_text(cli, "out") != NULL ? cli_text(cli, "out") : dir;
    struct tls_order order = {.kind = tls_kind_parse(cli_argument(cli, 0)),
                              .name = cli_argument(cli, 1),
                              .hosts = (const char *const *)hosts->items,
                              .host_count = hosts->item_count,
                              .tenant = cli_text(cli, "tenant"),
                              .valid_s = valid_s(cli, TLS_YEAR_S),
                              .replace = cli_flag(cli, "replace")};
    struct err err;

    if (order.kind == TLS_NOBODY || order.kind == TLS_AUTHORITY)
        return cli_fail(
            cli, CLI_USAGE, NULL,
            "KIND is \"%s\", it must be replica, agent, scheduler, operator, auditor or "
            "monitor",
            cli_argument(cli, 0));
    if (tls_authority_issue(dir, out, &order, &err) != 0)
        return fail_with(cli, &err);
    cli_out(cli, "made %s/%s-%s.crt and %s/%s-%s.key\n", out, tls_kind_name(order.kind), order.name,
            out, tls_kind_name(order.kind), order.name);
    if (order.kind == TLS_REPLICA && order.host_count == 0)
        cli_note(cli,
                 "remark: without --host, clients that check the address they dial refuse this "
                 "replica; those that expect the cluster's name, and ours, do not mind");
    return CLI_OK;
}

/* ---- show ---- */

static json_t *description_json(const struct tls_description *d)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b}", "identity", d->identity,
                     "subject", d->subject, "issuer", d->issuer, "hosts", d->hosts, "key", d->key,
                     "serial", d->serial, "fingerprint_sha256", d->fingerprint, "not_before_s",
                     (json_int_t)d->not_before_s, "not_after_s", (json_int_t)d->not_after_s,
                     "authority", d->authority);
}

static void print_line(struct cli *cli, const char *name, const char *value)
{
    cli_out(cli, "%-12s ", name);
    output_safe(cli->out, value);
    fputc('\n', cli->out);
}

static void print_validity(struct cli *cli, const struct tls_description *d)
{
    int64_t now_s = (int64_t)time(NULL);
    int64_t left_s = d->not_after_s - now_s;
    char text[HUMAN_BYTES * 3], from[HUMAN_BYTES], until[HUMAN_BYTES];
    bool over = left_s <= 0, early = now_s < d->not_before_s;

    snprintf(text, sizeof(text), "%s to %s", human_instant((uint64_t)d->not_before_s * 1000, from),
             human_instant((uint64_t)d->not_after_s * 1000, until));
    print_line(cli, "valid", text);
    snprintf(text, sizeof(text), "%" PRId64 " days%s", left_s / DAY_S,
             over                         ? " (EXPIRED)"
             : early                      ? " (NOT YET VALID)"
             : left_s < TLS_EXPIRY_WARN_S ? " (ends soon: ckptctl tls issue --replace)"
                                          : "");
    print_line(cli, "left", text);
}

enum cli_exit command_tls_show(struct cli *cli)
{
    struct tls_description description;
    struct err err;

    if (tls_certificate_describe(cli_argument(cli, 0), &description, &err) != 0)
        return fail_with(cli, &err);
    if (cli_is_json(cli)) {
        output_json(cli, "certificate", description_json(&description));
        return CLI_OK;
    }
    if (output_name(cli,
                    description.identity[0] != '\0' ? description.identity : description.subject))
        return CLI_OK;
    print_line(cli, "identity",
               description.identity[0] != '\0' ? description.identity : description.problem);
    print_line(cli, "hosts", description.hosts[0] != '\0' ? description.hosts : "-");
    print_validity(cli, &description);
    print_line(cli, "issuer", description.issuer);
    print_line(cli, "subject", description.subject);
    print_line(cli, "may sign", description.authority ? "yes (a CA)" : "no");
    print_line(cli, "key", description.key);
    print_line(cli, "serial", description.serial);
    print_line(cli, "sha256", description.fingerprint);
    return CLI_OK;
}
