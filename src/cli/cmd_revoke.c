/* ckptctl tls revoke, tls revoked: certificates that no member takes any more. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"
#include "src/tls/authority.h"

enum { SERIAL_BYTES = 64 };

/* "0A:1B" and "0a1b" are the same one; what is no serial number is refused by the member. */
static void serial_of(const char *text, char serial[SERIAL_BYTES])
{
    size_t used = 0;

    for (; *text != '\0' && used + 1 < SERIAL_BYTES; text++)
        if (*text != ':')
            serial[used++] = (char)tolower((unsigned char)*text);
    serial[used] = '\0';
}

/* Of a file, or as it was typed. */
static int serial_read(const char *argument, char serial[SERIAL_BYTES], char *whose, size_t size,
                       struct err *err)
{
    struct tls_description description;

    whose[0] = '\0';
    if (strchr(argument, '/') == NULL && access(argument, R_OK) != 0) {
        serial_of(argument, serial);
        return 0;
    }
    if (tls_certificate_describe(argument, &description, err) != 0)
        return -1;
    if (description.authority)
        return err_set(err, ERR_INVALID, "%s: is the certificate of a CA; replace the CA instead",
                       argument);
    serial_of(description.serial, serial);
    snprintf(whose, size, " (%.200s)", description.identity);
    return 0;
}

enum cli_exit command_tls_revoke(struct cli *cli)
{
    Ckpt__V1__RevokeCertificateRequest request = CKPT__V1__REVOKE_CERTIFICATE_REQUEST__INIT;
    char serial[SERIAL_BYTES], whose[SERIAL_BYTES + 256], what[SERIAL_BYTES + 32], plan[768];
    struct err err;
    enum cli_exit code;

    if (serial_read(cli_argument(cli, 0), serial, whose, sizeof(whose), &err) != 0)
        return cli_fail(cli, err.code == ERR_NOT_FOUND ? CLI_NOT_FOUND : CLI_FAILED, NULL, "%s",
                        err.text);
    request.serial = serial;
    cli_set_text(cli, "note", &request.note);
    snprintf(plan, sizeof(plan),
             "plan: no member takes certificate %s%s any more, and its open connections end. There "
             "is no way back: issue another one",
             serial, whose);
    code = call_confirm(cli, plan);
    if (code != CLI_OK)
        return code;
    snprintf(what, sizeof(what), "revoke certificate %s", serial);
    return call_mutate_simple(cli, what, "OperatorService/RevokeCertificate", &request.base);
}

/* ---- the list ---- */

static const struct output_column columns[] = {
    {"SERIAL", OUTPUT_LEFT}, {"SINCE", OUTPUT_LEFT}, {"NOTE", OUTPUT_LEFT}};

static void revoked_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__RevokedCertificate *revoked = (const Ckpt__V1__RevokedCertificate *)item;
    char text[HUMAN_BYTES];

    output_cell(table, "%s", revoked->serial);
    output_cell(table, "%s", human_clock(revoked->at_ms, text));
    output_cell(table, "%s", revoked->note[0] == '\0' ? "-" : revoked->note);
}

static const char *revoked_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    (void)text;
    return ((const Ckpt__V1__RevokedCertificate *)item)->serial;
}

static const struct output_kind revoked_kind = {
    "revoked", "certificate", columns, ARRAY_COUNT(columns), revoked_row, revoked_name};

enum cli_exit command_tls_revoked(struct cli *cli)
{
    Ckpt__V1__ListRevokedRequest request = CKPT__V1__LIST_REVOKED_REQUEST__INIT;
    const Ckpt__V1__ListRevokedReply *reply;
    ProtobufCMessage *message;
    struct output_list list;
    enum cli_exit code;

    request.stale = cli_flag(cli, "stale");
    code = call_read(cli, "list revoked certificates", "OperatorService/ListRevoked", &request.base,
                     &ckpt__v1__list_revoked_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    reply = (const Ckpt__V1__ListRevokedReply *)message;
    output_list_begin(&list, cli, &revoked_kind);
    for (size_t i = 0; i < reply->n_revoked; i++)
        output_list_add(&list, &reply->revoked[i]->base);
    output_list_end(&list, true);
    call_free(message);
    return CLI_OK;
}
