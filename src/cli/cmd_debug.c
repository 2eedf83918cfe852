/* ckptctl debug check: every member checks its invariants; their state hashes are compared at one
 * common index.
 *
 * Flow     members are asked at the same time, so they are a few entries apart: each also sends the
 *          hashes of recent indexes. When no index is common to all yet, they are asked again, but
 *          not often:
 *          each time every member walks its whole state.
 * Errors   CLI_FAILED: a violation or a different hash. CLI_PARTIAL: a member did not answer or
 *          could not be compared.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/members.h"
#include "src/cli/output.h"
#include "src/cli/reflect.h"

enum { CHECK_ROUNDS = 3, CHECK_PAUSE_MS = 200 };

struct verdicts {
    uint64_t common_index; /* 0: none */
    size_t violations;
    size_t different;
    size_t missing; /* did not answer or could not be compared */
};

static const Ckpt__V1__DebugCheckReply *reply_of(const struct call_answer *answer)
{
    return (const Ckpt__V1__DebugCheckReply *)answer->reply;
}

static bool hash_at(const Ckpt__V1__DebugCheckReply *reply, uint64_t index, uint64_t *ret_hash)
{
    if (reply->applied_index == index) {
        *ret_hash = reply->state_hash;
        return true;
    }
    for (size_t i = 0; i < reply->n_history; i++) {
        if (reply->history[i]->index == index) {
            *ret_hash = reply->history[i]->hash;
            return true;
        }
    }
    return false;
}

static bool known_to_all(const struct call_answer *answers, size_t count, uint64_t index)
{
    uint64_t hash;

    for (size_t i = 0; i < count; i++)
        if (answers[i].reply != NULL && !hash_at(reply_of(&answers[i]), index, &hash))
            return false;
    return true;
}

/* The highest index whose hash every answering member still knows; 0: none. */
static uint64_t find_common(const struct call_answer *answers, size_t count)
{
    uint64_t best = 0;

    for (size_t i = 0; i < count; i++) {
        const Ckpt__V1__DebugCheckReply *reply = reply_of(&answers[i]);

        if (reply == NULL)
            continue;
        if (reply->applied_index > best && known_to_all(answers, count, reply->applied_index))
            best = reply->applied_index;
        for (size_t k = 0; k < reply->n_history; k++) {
            uint64_t index = reply->history[k]->index;

            if (index > best && known_to_all(answers, count, index))
                best = index;
        }
    }
    return best;
}

/* True when more than half of the members that answered have the same hash as this one. */
static bool in_majority(const struct call_answer *answers, size_t count, uint64_t index,
                        const Ckpt__V1__DebugCheckReply *reply)
{
    uint64_t own, other;
    size_t same = 0, all = 0;

    CHECK(hash_at(reply, index, &own));
    for (size_t i = 0; i < count; i++) {
        if (answers[i].reply != NULL && hash_at(reply_of(&answers[i]), index, &other)) {
            all++;
            same += own == other ? 1 : 0;
        }
    }
    return same * 2 > all;
}

static const char *verdict_of(const struct call_answer *answers, size_t count, size_t i,
                              struct verdicts *verdicts)
{
    const Ckpt__V1__DebugCheckReply *reply = reply_of(&answers[i]);

    if (reply == NULL) {
        verdicts->missing++;
        return "unreachable";
    }
    verdicts->violations += reply->n_violations;
    if (verdicts->common_index == 0) {
        verdicts->missing++;
        return reply->n_violations > 0 ? "VIOLATED" : "not compared";
    }
    if (!in_majority(answers, count, verdicts->common_index, reply)) {
        verdicts->different++;
        return "MISMATCH";
    }
    return reply->n_violations > 0 ? "VIOLATED" : "ok";
}

static void print_row(struct output_table *table, const struct call_answer *answer,
                      const char *verdict, uint64_t index)
{
    const Ckpt__V1__DebugCheckReply *reply = reply_of(answer);
    uint64_t hash;

    output_row(table);
    if (reply == NULL) {
        output_cell(table, "%s", answer->endpoint);
        output_cell(table, "-");
        output_state(table, verdict);
        for (int blank = 0; blank < 4; blank++)
            output_cell(table, "-");
        return;
    }
    output_cell(table, "%s", answer->endpoint);
    output_cell(table, "%" PRIu64, reply->member_id);
    output_state(table, verdict);
    output_cell(table, "%" PRIu64, reply->applied_index);
    if (index != 0 && hash_at(reply, index, &hash))
        output_cell(table, "%016" PRIx64, hash);
    else
        output_cell(table, "-");
    output_cell(table, "%" PRIu64, reply->invariants_checked);
    output_cell(table, "%zu", reply->n_violations);
}

static json_t *answer_json(const struct call_answer *answer, const char *verdict)
{
    json_t *item = json_object();

    json_object_set_new(item, "endpoint", json_string(answer->endpoint));
    json_object_set_new(item, "verdict", json_string(verdict));
    json_object_set_new(item, "check",
                        answer->reply != NULL ? reflect_to_json(answer->reply) : json_null());
    return item;
}

static void print_violations(struct cli *cli, const struct call_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Ckpt__V1__DebugCheckReply *reply = reply_of(&answers[i]);

        for (size_t k = 0; reply != NULL && k < reply->n_violations; k++) {
            cli_out(cli, "violation on member %" PRIu64 ": ", reply->member_id);
            output_safe(cli->out, reply->violations[k]);
            fputc('\n', cli->out);
        }
    }
}

static void print_checks(struct cli *cli, const struct call_answer *answers, size_t count,
                         struct verdicts *verdicts)
{
    static const struct output_column columns[] = {
        {"ENDPOINT", OUTPUT_LEFT},   {"MEMBER", OUTPUT_RIGHT}, {"RESULT", OUTPUT_LEFT},
        {"APPLIED", OUTPUT_RIGHT},   {"HASH", OUTPUT_LEFT},    {"INVARIANTS", OUTPUT_RIGHT},
        {"VIOLATIONS", OUTPUT_RIGHT}};
    struct output_table table;
    json_t *items = json_array();

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < count; i++) {
        const char *verdict = verdict_of(answers, count, i, verdicts);

        json_array_append_new(items, answer_json(&answers[i], verdict));
        print_row(&table, &answers[i], verdict, verdicts->common_index);
    }
    if (cli_is_json(cli)) {
        output_json(cli, "debug_check",
                    json_pack("{s:I, s:o}", "common_index", (json_int_t)verdicts->common_index,
                              "members", items));
        output_table_drop(&table);
        return;
    }
    json_decref(items);
    output_table_print(&table);
    if (cli->format == OUTPUT_NAME)
        return;
    print_violations(cli, answers, count);
    cli_out(cli, "hashes compared at index %" PRIu64 "\n", verdicts->common_index);
}

static void ask_until_common(struct cli *cli, struct call_answer *answers, size_t count,
                             struct verdicts *verdicts)
{
    Ckpt__V1__DebugCheckRequest request = CKPT__V1__DEBUG_CHECK_REQUEST__INIT;
    struct timespec rest = {0, CHECK_PAUSE_MS * 1000000L};

    for (int round = 0; round < CHECK_ROUNDS; round++) {
        call_each_free(answers, count);
        call_each(cli,
                  &(struct client_request){.method = "OperatorService/DebugCheck",
                                           .message = &request.base,
                                           .reply_type = &ckpt__v1__debug_check_reply__descriptor},
                  CALL_PATIENT, answers, count);
        verdicts->common_index = find_common(answers, count);
        if (verdicts->common_index != 0)
            return;
        nanosleep(&rest, NULL);
    }
}

enum cli_exit command_debug_check(struct cli *cli)
{
    struct members members;
    struct verdicts verdicts = {0};
    enum cli_exit code = CLI_OK;

    members_ask(cli, CALL_PATIENT, &members);
    if (members.best == NULL) {
        code = members_nobody(cli, &members, "check the members");
        members_free(&members);
        return code;
    }
    /* the same endpoints again; the status answers are no longer needed */
    members_free(&members);
    ask_until_common(cli, members.answers, members.count, &verdicts);
    for (size_t i = 0; i < members.count; i++) {
        char text[CALL_ANSWER_BYTES];

        if (members.answers[i].reply == NULL)
            cli_note(cli, "remark: no answer from %s", call_answer_text(&members.answers[i], text));
    }
    print_checks(cli, members.answers, members.count, &verdicts);
    call_each_free(members.answers, members.count);
    if (verdicts.violations > 0 || verdicts.different > 0) {
        code = cli_fail(cli, CLI_FAILED, "deploy/RUNBOOK.md, page \"Member with corrupt data\"",
                        "%zu violations, %zu members with another state hash", verdicts.violations,
                        verdicts.different);
    } else if (verdicts.missing > 0) {
        code = cli_fail(cli, CLI_PARTIAL, "ckptctl status",
                        "%zu of %zu members could not be checked", verdicts.missing, members.count);
    }
    return code;
}
