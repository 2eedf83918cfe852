/* ckptctl audit list, verify, export: who changed what from where. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/v1/operator.pb-c.h"
#include "fsm/audit.h"
#include "src/base/buf.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/cli/audit_proof.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/instant.h"
#include "src/cli/output.h"

enum { CELL_BYTES = 800, PATH_BYTES = 4096, NAME_BYTES = 128, READ_BYTES = 1 << 16 };

/* Links of the state or of files, each behind its length. */
struct trail {
    struct buf links;
    uint64_t count, first, last; /* records */
    char head[BLAKE2B_TEXT_BYTES];
    bool is_signed;
    struct signed_head signature;
};

static void trail_close(struct trail *trail)
{
    buf_close(&trail->links);
}

static void add_link(struct trail *trail, const ProtobufCBinaryData *link)
{
    struct fsm_audit_place place;

    if (fsm_audit_place(link->data, link->len, &place))
        trail->count += place.last + 1 - place.first;
    buf_put(&trail->links, link->len, FSM_AUDIT_LENGTH_BYTES);
    buf_append(&trail->links, link->data, link->len);
}

static void take_signature(struct trail *trail, const Ckpt__V1__AuditSignature *from)
{
    struct signed_head *to = &trail->signature;

    if (from == NULL)
        return;
    *to = (struct signed_head){
        .epoch = from->epoch, .first = from->first, .last = from->last, .at_ms = from->at_ms};
    snprintf(to->cluster, sizeof(to->cluster), "%s", from->cluster_id);
    snprintf(to->member, sizeof(to->member), "%s", from->member);
    snprintf(to->key_id, sizeof(to->key_id), "%s", from->key_id);
    snprintf(to->hash, sizeof(to->hash), "%s", from->hash);
    snprintf(to->signature, sizeof(to->signature), "%s", from->signature);
    trail->is_signed = true;
}

/* Page after page; the head of the first one, so that what comes meanwhile is left out. */
static enum cli_exit trail_read(struct cli *cli, const char *what, bool stale, struct trail *trail)
{
    Ckpt__V1__ListAuditRequest request = CKPT__V1__LIST_AUDIT_REQUEST__INIT;
    enum cli_exit code;

    *trail = (struct trail){.count = 0};
    buf_init(&trail->links);
    request.stale = stale;
    do {
        const Ckpt__V1__ListAuditReply *reply;
        ProtobufCMessage *message;

        code = call_read(cli, what, "OperatorService/ListAudit", &request.base,
                         &ckpt__v1__list_audit_reply__descriptor, &message);
        if (code != CLI_OK)
            return code;
        reply = (const Ckpt__V1__ListAuditReply *)message;
        if (trail->last == 0 && reply->head != NULL) {
            trail->last = reply->head->sequence;
            trail->first = reply->head->oldest;
            snprintf(trail->head, sizeof(trail->head), "%s", reply->head->hash);
            take_signature(trail, reply->head->signature);
        }
        for (size_t i = 0; i < reply->n_links && trail->count < trail->last + 1 - trail->first; i++)
            add_link(trail, &reply->links[i]);
        request.after_sequence = reply->next_after_sequence;
        call_free(message);
    } while (request.after_sequence != 0 && trail->count < trail->last + 1 - trail->first);
    return CLI_OK;
}

/* ---- list ---- */

static const struct output_column columns[] = {
    {"TIME", OUTPUT_LEFT},   {"CALLER", OUTPUT_LEFT},     {"ADDRESS", OUTPUT_ONLY_WIDE},
    {"METHOD", OUTPUT_LEFT}, {"SUBJECT", OUTPUT_LEFT},    {"WAS", OUTPUT_LEFT},
    {"IS", OUTPUT_LEFT},     {"ASKED", OUTPUT_ONLY_WIDE}, {"SEQUENCE", OUTPUT_ONLY_WIDE}};

struct filter {
    uint64_t since_ms;
    const char *job, *caller, *method; /* NULL: any */
};

static const char *text_in(const json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));

    return text == NULL ? "" : text;
}

static bool has_part(const char *text, const char *part)
{
    return part == NULL || strstr(text, part) != NULL;
}

/* "job j1" and "checkpoint 1-5 of job j1". */
static bool is_about(const char *subject, const char *job)
{
    size_t length = strlen(subject), tail = job == NULL ? 0 : strlen(job) + strlen("job ");

    return job == NULL || (length >= tail && strncmp(subject + length - tail, "job ", 4) == 0 &&
                           strcmp(subject + length - tail + 4, job) == 0);
}

static bool is_wanted(const struct filter *filter, const json_t *record)
{
    return (uint64_t)json_integer_value(json_object_get(record, "at_ms")) >= filter->since_ms &&
           is_about(text_in(record, "subject"), filter->job) &&
           has_part(text_in(record, "caller"), filter->caller) &&
           has_part(text_in(record, "method"), filter->method);
}

static void text_cell(struct output_table *table, const json_t *record, const char *name)
{
    char text[CELL_BYTES];
    const char *value = human_safe(text_in(record, name), text, sizeof(text));

    output_cell(table, "%s", value[0] == '\0' ? "-" : value);
}

static void add_row(struct output_table *table, const json_t *record)
{
    char at[HUMAN_BYTES];
    json_int_t count = json_integer_value(json_object_get(record, "count"));

    output_row(table);
    output_cell(table, "%s",
                human_clock((uint64_t)json_integer_value(json_object_get(record, "at_ms")), at));
    text_cell(table, record, "caller");
    text_cell(table, record, "address");
    text_cell(table, record, "method");
    if (strcmp(text_in(record, "kind"), "denied") == 0)
        output_cell(table, "DENIED%s%s, %" JSON_INTEGER_FORMAT " times",
                    text_in(record, "subject")[0] == '\0' ? "" : " ", text_in(record, "subject"),
                    count == 0 ? 1 : count);
    else
        text_cell(table, record, "subject");
    text_cell(table, record, "was");
    text_cell(table, record, "is");
    text_cell(table, record, "asked");
    output_cell(table, "%" JSON_INTEGER_FORMAT,
                json_integer_value(json_object_get(record, "sequence")));
}

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool parse_filter(struct cli *cli, struct filter *ret_filter, struct err *err)
{
    const char *since = cli_text(cli, "since");

    *ret_filter = (struct filter){.job = cli_text(cli, "job"),
                                  .caller = cli_text(cli, "caller"),
                                  .method = cli_text(cli, "method")};
    return since == NULL || instant_parse(since, wall_ms(), &ret_filter->since_ms, err) == 0;
}

struct print {
    const struct filter *filter;
    bool as_table;
    uint64_t count; /* of those that are wanted */
    struct output_table table;
    json_t *items;
};

static void print_record(void *context, const char *line, size_t length)
{
    struct print *print = context;
    json_t *record = json_loadb(line, length, 0, NULL);

    CHECK(record != NULL);
    if (is_wanted(print->filter, record)) {
        print->count++;
        if (print->as_table)
            add_row(&print->table, record);
        else
            json_array_append(print->items, record);
    }
    json_decref(record);
}

/* False: there is something else behind so many links. */
static bool print_links(struct cli *cli, const struct trail *trail, const struct filter *filter,
                        uint64_t *ret_count)
{
    const uint8_t *at = trail->links.bytes, *bytes;
    size_t left = trail->links.length, length;
    struct print print = {.filter = filter,
                          .as_table = cli->format == OUTPUT_TABLE || cli->format == OUTPUT_WIDE ||
                                      cli->format == OUTPUT_NAME,
                          .items = json_array()};
    bool whole = true;

    *ret_count = 0;
    if (print.as_table)
        output_table_init(&print.table, cli, columns, ARRAY_COUNT(columns));
    for (; whole && audit_link_next(&at, &left, &bytes, &length); *ret_count += whole)
        whole = fsm_audit_lines(bytes, length, print_record, &print);
    if (print.as_table) {
        output_table_print(&print.table);
        json_decref(print.items);
    } else {
        output_json_list(cli, "records", "record", print.items);
    }
    if (print.count == 0)
        cli_note(cli, "no records");
    return whole && left == 0;
}

/* Behind what is there. 0, or -1 with errno. */
static int read_file(const char *path, struct buf *links)
{
    FILE *file = fopen(path, "re");
    size_t length = 1;
    int code;

    if (file == NULL)
        return -1;
    while (length > 0) {
        length = fread(buf_extend(links, READ_BYTES), 1, READ_BYTES, file);
        links->length -= READ_BYTES - length;
    }
    code = ferror(file) != 0 ? errno : 0; /* of the read that gave nothing */
    fclose(file);
    errno = code;
    return code == 0 ? 0 : -1;
}

static enum cli_exit cannot_read(struct cli *cli, const char *path)
{
    return cli_fail(cli, errno == ENOENT ? CLI_NOT_FOUND : CLI_FAILED, NULL, "cannot read %s: %s",
                    path, strerror(errno));
}

static enum cli_exit list_cluster(struct cli *cli, const struct filter *filter)
{
    struct trail trail;
    enum cli_exit code = trail_read(cli, "list the audit trail", cli_flag(cli, "stale"), &trail);
    uint64_t count;

    if (code == CLI_OK && !print_links(cli, &trail, filter, &count))
        code = cli_fail(cli, CLI_FAILED, NULL,
                        "the answer holds no links behind the first %" PRIu64, count);
    if (code == CLI_OK && trail.first > 1)
        cli_note(cli,
                 "the state keeps records %" PRIu64 " to %" PRIu64
                 "; earlier ones are in DATA_DIR/audit of each member: ckptctl audit list FILE",
                 trail.first, trail.last);
    trail_close(&trail);
    return code;
}

/* One after the other, in the order in which they are named. */
static enum cli_exit list_files(struct cli *cli, const struct filter *filter)
{
    struct trail trail = {.count = 0};
    enum cli_exit code = CLI_OK;
    uint64_t count;

    buf_init(&trail.links);
    for (size_t i = 0; i < cli->argument_count && code == CLI_OK; i++)
        if (read_file(cli_argument(cli, i), &trail.links) != 0)
            code = cannot_read(cli, cli_argument(cli, i));
    if (code == CLI_OK && !print_links(cli, &trail, filter, &count))
        code = cli_fail(
            cli, CLI_FAILED, "ckptctl audit verify FILE says where",
            "there is something else than a link of the trail behind the first %" PRIu64, count);
    trail_close(&trail);
    return code;
}

enum cli_exit command_audit_list(struct cli *cli)
{
    struct filter filter;
    struct err err;

    if (!parse_filter(cli, &filter, &err))
        return cli_fail(cli, CLI_USAGE, NULL, "--since: %s", err.text);
    return cli->argument_count > 0 ? list_files(cli, &filter) : list_cluster(cli, &filter);
}

/* ---- verify ---- */

static void print_finding(void *context, const char *text)
{
    struct cli *cli = context;

    output_safe(cli->out, text);
    fputc('\n', cli->out);
}

static int add_file(struct audit_chain *chain, const char *path)
{
    struct buf links = {0};
    int result = read_file(path, &links), code = errno;

    if (result == 0)
        audit_chain_add(chain, links.bytes, links.length, path);
    buf_close(&links);
    errno = code;
    return result;
}

/* A verification's means beside the links. */
struct proving {
    const char *head;         /* NULL: none is known */
    struct sign_public *keys; /* NULL: signatures are not looked at */
    uint64_t since_ms;
    struct audit_proof proof;
};

static void print_whole(struct cli *cli, const struct audit_chain *chain)
{
    const struct audit_place *last = &chain->places[chain->count - 1];
    char hash[BLAKE2B_TEXT_BYTES];

    cli_out(cli,
            "whole: records %" PRIu64 " to %" PRIu64 " (epochs %" PRIu64 " to %" PRIu64
            ")\nhash of the last: %s\n",
            chain->places[0].first, last->last, chain->places[0].epoch, last->epoch,
            blake2b_text(last->hash, hash));
    if (chain->places[0].first > 1)
        cli_note(cli, "records before %" PRIu64 " are not among these", chain->places[0].first);
}

/* Without a signature the end is open: nobody knows what was cut off there. */
static void note_end(struct cli *cli, const struct proving *proving)
{
    if (proving->head == NULL && proving->proof.count > 0)
        cli_note(cli,
                 "remark: a signed head lies beside: --public-key FILE looks at its signature");
    else if (proving->head == NULL)
        cli_note(cli, "remark: a change of the last link shows only beside a head that was kept: "
                      "--head HASH, of ckptctl status -o json or of an export");
}

/* The result, and what it takes to know that nothing is missing at the end. */
static enum cli_exit tell_result(struct cli *cli, struct audit_chain *chain,
                                 const struct proving *proving)
{
    const struct signed_head *newest = NULL;
    char at[HUMAN_BYTES];

    (void)audit_chain_verify(chain, proving->head);
    if (chain->count == 0 && chain->found_count == 0)
        return cli_fail(cli, CLI_NOT_FOUND, NULL, "there is no record of the audit trail");
    if (proving->keys != NULL)
        newest = audit_proof_check(&proving->proof, chain, proving->keys, proving->since_ms);
    if (chain->found_count > 0)
        return cli_fail(cli, CLI_FAILED, "compare with the files of other members",
                        "the audit trail is not whole: %zu findings", chain->found_count);
    print_whole(cli, chain);
    if (newest != NULL)
        cli_out(cli, "signed: by member %s of cluster %s at %s, key %s\n", newest->member,
                newest->cluster, human_clock(newest->at_ms, at), newest->key_id);
    else
        note_end(cli, proving);
    return CLI_OK;
}

static void proving_close(struct proving *proving)
{
    sign_public_free(proving->keys);
    audit_proof_close(&proving->proof);
}

static enum cli_exit proving_open(struct cli *cli, struct proving *ret_proving)
{
    const char *key = cli_text(cli, "public-key"), *since = cli_text(cli, "since");
    struct err err;

    *ret_proving = (struct proving){.head = cli_text(cli, "head")};
    if (since != NULL && key == NULL)
        return cli_fail(cli, CLI_USAGE, NULL,
                        "--since is of signed heads: give --public-key as well");
    if (since != NULL && instant_parse(since, wall_ms(), &ret_proving->since_ms, &err) != 0)
        return cli_fail(cli, CLI_USAGE, NULL, "--since: %s", err.text);
    if (key != NULL && sign_public_load(key, &ret_proving->keys, &err) != 0)
        return cli_fail(cli, err.code == ERR_INVALID ? CLI_USAGE : CLI_NOT_FOUND, NULL,
                        "--public-key: %s", err.text);
    return CLI_OK;
}

static enum cli_exit verify_cluster(struct cli *cli, struct proving *proving,
                                    struct audit_chain *chain)
{
    struct trail trail;
    enum cli_exit code = trail_read(cli, "verify the audit trail", false, &trail);

    if (code == CLI_OK) {
        audit_chain_add(chain, trail.links.bytes, trail.links.length, "the state");
        if (trail.is_signed)
            audit_proof_add(&proving->proof, &trail.signature, "the state");
        proving->head = trail.head;
        code = tell_result(cli, chain, proving);
    }
    trail_close(&trail);
    return code;
}

static enum cli_exit verify_files(struct cli *cli, struct proving *proving,
                                  struct audit_chain *chain)
{
    struct err err;

    for (size_t i = 0; i < cli->argument_count; i++) {
        const char *path = cli_argument(cli, i);

        if (audit_proof_read(&proving->proof, path, &err) != 0)
            return cli_fail(cli, CLI_FAILED, NULL, "%s", err.text);
        if (add_file(chain, path) != 0)
            return cannot_read(cli, path);
    }
    return tell_result(cli, chain, proving);
}

enum cli_exit command_audit_verify(struct cli *cli)
{
    struct audit_chain chain = {.found = print_finding, .context = cli};
    struct proving proving;
    enum cli_exit code = proving_open(cli, &proving);

    if (code == CLI_OK)
        code = cli->argument_count == 0 ? verify_cluster(cli, &proving, &chain)
                                        : verify_files(cli, &proving, &chain);
    audit_chain_close(&chain);
    proving_close(&proving);
    return code;
}

/* ---- export ---- */

/* Never over a file that is there. 0, or -1 with errno. */
static int write_new(const char *path, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), code;
    const char *at = bytes;

    if (fd < 0)
        return -1;
    while (length > 0) {
        ssize_t written = write(fd, at, length);

        if (written < 0 && errno != EINTR)
            break;
        at += written > 0 ? written : 0;
        length -= (size_t)(written > 0 ? written : 0);
    }
    if (length == 0 && fsync(fd) == 0)
        return close(fd);
    code = errno;
    close(fd);
    unlink(path);
    errno = code;
    return -1;
}

/* Beside the export; it is of the same head. */
static enum cli_exit export_signature(struct cli *cli, const struct trail *trail, const char *path)
{
    char name[PATH_BYTES + sizeof(SIGNED_HEAD_SUFFIX)], json[SIGNED_HEAD_TEXT_BYTES];

    if (!trail->is_signed) {
        cli_note(cli, "the member that answered has no key, so the export is not signed");
        return CLI_OK;
    }
    snprintf(name, sizeof(name), "%s" SIGNED_HEAD_SUFFIX, path);
    if (write_new(name, json, signed_head_json(&trail->signature, json)) != 0)
        return cli_fail(cli, CLI_FAILED, NULL, "cannot write %s: %s", name, strerror(errno));
    if (cli->format != OUTPUT_NAME)
        cli_out(cli, "signed by member %s, key %s: %s\n", trail->signature.member,
                trail->signature.key_id, name);
    return CLI_OK;
}

static enum cli_exit export_trail(struct cli *cli, const struct trail *trail)
{
    char path[PATH_BYTES], name[NAME_BYTES];

    snprintf(name, sizeof(name), "audit-export-%020" PRIu64 "-%020" PRIu64 ".audit", trail->first,
             trail->last);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", cli_argument(cli, 0), name) >= sizeof(path))
        return cli_fail(cli, CLI_USAGE, NULL, "DIR is longer than a path may be");
    if (write_new(path, trail->links.bytes, trail->links.length) != 0)
        return cli_fail(cli, errno == EEXIST ? CLI_REFUSED : CLI_FAILED,
                        errno == EEXIST ? "these records were exported already" : NULL,
                        "cannot write %s: %s", path, strerror(errno));
    if (output_name(cli, path))
        return export_signature(cli, trail, path);
    cli_out(cli, "exported %" PRIu64 " records to %s\nhash of the last: %s\n", trail->count, path,
            trail->head);
    cli_note(cli,
             "keep this hash elsewhere: ckptctl audit verify FILE --head HASH proves the file by "
             "it");
    return export_signature(cli, trail, path);
}

enum cli_exit command_audit_export(struct cli *cli)
{
    struct audit_chain chain = {.found = print_finding, .context = cli};
    struct trail trail;
    enum cli_exit code = trail_read(cli, "export the audit trail", false, &trail);

    if (code == CLI_OK && trail.count == 0)
        code = cli_fail(cli, CLI_NOT_FOUND, NULL, "there is no record of the audit trail");
    if (code == CLI_OK) {
        audit_chain_add(&chain, trail.links.bytes, trail.links.length, "the state");
        if (audit_chain_verify(&chain, trail.head) > 0)
            code = cli_fail(cli, CLI_FAILED, NULL, "the audit trail is not whole");
    }
    if (code == CLI_OK)
        code = export_trail(cli, &trail);
    audit_chain_close(&chain);
    trail_close(&trail);
    return code;
}
