/* ckptctl drill: plans and begins failover drills, follows one to its end, and reports. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fsm/names.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/drill.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name

enum { DRILL_POLL_MS = 500, DRILL_SILENT_MS = 120000, DRILL_PLAN_BYTES = 4096 };

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the plan ---- */

static enum cli_exit take_kind(struct cli *cli, Ckpt__V1__DrillKind *ret_kind)
{
    const char *word = cli_argument(cli, 0);
    int kind = 0;

    if (!fsm_enum_parse(&ckpt__v1__drill_kind__descriptor, word, &kind) || kind == 0)
        return cli_fail(cli, CLI_USAGE, NULL,
                        "no drill is called \"%.64s\": leader-kill, leader-hang, member-loss, "
                        "storage-outage, restore",
                        word);
    *ret_kind = (Ckpt__V1__DrillKind)kind;
    return CLI_OK;
}

/* The caller frees *ret_reply. */
static enum cli_exit ask_plan(struct cli *cli, const Ckpt__V1__PlanDrillReply **ret_plan,
                              ProtobufCMessage **ret_reply)
{
    Ckpt__V1__PlanDrillRequest request = CKPT__V1__PLAN_DRILL_REQUEST__INIT;
    enum cli_exit code = take_kind(cli, &request.kind);

    if (code != CLI_OK)
        return code;
    cli_set_text(cli, "target", &request.target_id);
    cli_set_text(cli, "job", &request.allocation_id);
    request.duration_ms = cli_number(cli, "duration", 0);
    code = call_read(cli, "plan a drill", "OperatorService/PlanDrill", &request.base,
                     &ckpt__v1__plan_drill_reply__descriptor, ret_reply);
    if (code == CLI_OK)
        *ret_plan = (const Ckpt__V1__PlanDrillReply *)*ret_reply;
    return code;
}

__attribute__((format(printf, 2, 3))) static void add_line(char text[DRILL_PLAN_BYTES],
                                                           const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, DRILL_PLAN_BYTES - used, format, arguments);
    va_end(arguments);
}

static void plan_text(const Ckpt__V1__PlanDrillReply *plan, char text[DRILL_PLAN_BYTES])
{
    char kind[64], words[DRILL_PLAN_BYTES / 4], lead[HUMAN_BYTES], duration[HUMAN_BYTES],
        settle[HUMAN_BYTES];

    text[0] = '\0';
    add_line(text, "plan: drill %s", drill_kind_word(plan->kind, kind));
    if (plan->kind != CKPT__V1__DRILL_KIND__DRILL_KIND_STORAGE_OUTAGE &&
        plan->kind != CKPT__V1__DRILL_KIND__DRILL_KIND_RESTORE)
        add_line(text, " of %s", human_safe(plan->member_name, words, sizeof(words)));
    add_line(text, "\n  it does      %s", human_safe(plan->does, words, sizeof(words)));
    add_line(text, "\n  it may cost  %s", human_safe(plan->costs, words, sizeof(words)));
    add_line(text, "\n  it takes     %s, then %s; the members have told all within %s more",
             human_duration(plan->lead_ms, lead), human_duration(plan->duration_ms, duration),
             human_duration(plan->settle_ms, settle));
    add_line(text, "\n  guards now:");
    for (size_t i = 0; i < plan->n_guards; i++)
        add_line(text, "\n    %-11s %s%s", human_safe(plan->guards[i]->name, kind, sizeof(kind)),
                 plan->guards[i]->text[0] == '\0' ? "ok" : "DOES NOT HOLD: ",
                 human_safe(plan->guards[i]->text, words, sizeof(words)));
}

/* A guard that does not hold makes the exit code 4: scripts stop there. */
enum cli_exit command_drill_plan(struct cli *cli)
{
    const Ckpt__V1__PlanDrillReply *plan;
    ProtobufCMessage *reply;
    char text[DRILL_PLAN_BYTES];
    enum cli_exit code = ask_plan(cli, &plan, &reply);

    if (code != CLI_OK)
        return code;
    if (!output_json_message(cli, "plan", reply)) {
        plan_text(plan, text);
        cli_out(cli, "%s\n", text);
    }
    code = plan->possible ? CLI_OK : CLI_REFUSED;
    call_free(reply);
    return code;
}

/* ---- the run ---- */

/* Any member's answer of what it has applied, the newest one: the leader may be the one that is
 * away. NULL: none answers. */
static const Ckpt__V1__ListDrillsReply *look_once(struct cli *cli, struct call_answer *answers,
                                                  size_t count)
{
    Ckpt__V1__ListDrillsRequest request = CKPT__V1__LIST_DRILLS_REQUEST__INIT;
    const Ckpt__V1__ListDrillsReply *newest = NULL;

    request.stale = true;
    call_each(cli,
              &(struct client_request){.method = "OperatorService/ListDrills",
                                       .message = &request.base,
                                       .reply_type = &ckpt__v1__list_drills_reply__descriptor},
              CALL_QUICK, answers, count);
    for (size_t i = 0; i < count; i++) {
        const Ckpt__V1__ListDrillsReply *reply =
            (const Ckpt__V1__ListDrillsReply *)answers[i].reply;

        if (reply != NULL && (newest == NULL || reply->applied_index > newest->applied_index))
            newest = reply;
    }
    return newest;
}

static const Ckpt__V1__DrillResult *find_drill(const Ckpt__V1__ListDrillsReply *reply, uint64_t id)
{
    for (size_t i = 0; reply != NULL && i < reply->n_drills; i++)
        if (reply->drills[i]->drill->drill_id == id)
            return reply->drills[i];
    return NULL;
}

static enum cli_exit report_one(struct cli *cli, const Ckpt__V1__DrillResult *result)
{
    if (!output_json_message(cli, "drill", &result->base))
        drill_text(cli, result);
    if (result->drill->state == STATE(FAILED))
        return cli_fail(cli, CLI_FAILED, "ckptctl events; journalctl -u ckptd on the members",
                        "drill %" PRIu64 " has not passed", result->drill->drill_id);
    if (result->drill->state == STATE(ABORTED))
        return cli_fail(cli, CLI_REFUSED, "ckptctl drill plan, and once more",
                        "drill %" PRIu64 " ended before the fault", result->drill->drill_id);
    return CLI_OK;
}

/* Each state is told once. */
static void note_state(struct cli *cli, const Ckpt__V1__Drill *drill, int *told)
{
    static const char *const words[] = {"", "the members measure, and nothing has failed yet",
                                        "the fault is on", "it is over; the members tell"};

    if ((int)drill->state == *told || drill_is_over(drill) ||
        (size_t)drill->state >= ARRAY_COUNT(words))
        return;
    *told = (int)drill->state;
    cli_note(cli, "drill %" PRIu64 ": %s", drill->drill_id, words[drill->state]);
}

static enum cli_exit follow_drill(struct cli *cli, uint64_t id)
{
    const struct timespec pause = {0, DRILL_POLL_MS * 1000000L};
    uint64_t heard_ms = now_ms();
    int told = 0;

    for (;;) {
        struct call_answer answers[CALL_ENDPOINTS_MAX];
        size_t count = call_endpoints(cli, answers);
        const Ckpt__V1__DrillResult *result = find_drill(look_once(cli, answers, count), id);
        enum cli_exit code = CLI_OK;
        bool over = result != NULL && drill_is_over(result->drill);

        if (result != NULL) {
            heard_ms = now_ms();
            note_state(cli, result->drill, &told);
        }
        if (over)
            code = report_one(cli, result);
        call_each_free(answers, count);
        if (over)
            return code;
        if (now_ms() - heard_ms > DRILL_SILENT_MS)
            return cli_fail(cli, CLI_TIMEOUT, "ckptctl drill list",
                            "no member tells of drill %" PRIu64 " any more", id);
        nanosleep(&pause, NULL);
    }
}

static enum cli_exit begin_drill(struct cli *cli)
{
    Ckpt__V1__DrillRequest request = CKPT__V1__DRILL_REQUEST__INIT;
    ProtobufCMessage *reply;
    uint64_t id;
    enum cli_exit code;

    request.name = cli_argument(cli, 0);
    cli_set_text(cli, "target", &request.target_id);
    cli_set_text(cli, "job", &request.allocation_id);
    request.duration_ms = cli_number(cli, "duration", 0);
    code = call_mutate(cli, "begin a drill", "OperatorService/RunDrill", &request.base,
                       &ckpt__v1__run_drill_reply__descriptor, &reply);
    if (code != CLI_OK || reply == NULL)
        return code;
    id = ((const Ckpt__V1__RunDrillReply *)reply)->drill_id;
    call_free(reply);
    cli_note(cli, "drill %" PRIu64 " has begun", id);
    if (cli_flag(cli, "no-wait")) {
        cli_note(cli, "ckptctl drill report %" PRIu64 " tells what came of it", id);
        return CLI_OK;
    }
    return follow_drill(cli, id);
}

enum cli_exit command_drill_run(struct cli *cli)
{
    const Ckpt__V1__PlanDrillReply *plan;
    ProtobufCMessage *reply;
    char text[DRILL_PLAN_BYTES];
    bool possible;
    enum cli_exit code = ask_plan(cli, &plan, &reply);

    if (code != CLI_OK)
        return code;
    plan_text(plan, text);
    possible = plan->possible;
    call_free(reply);
    /* The request itself is refused with the guard's own status, which a script reads. */
    code = possible ? call_confirm(cli, text) : CLI_OK;
    return code == CLI_OK ? begin_drill(cli) : code;
}

/* ---- list and report ---- */

static const struct output_column columns[] = {
    {"DRILL", OUTPUT_RIGHT},    {"KIND", OUTPUT_LEFT},     {"STATE", OUTPUT_LEFT},
    {"BEGUN", OUTPUT_LEFT},     {"HIT", OUTPUT_LEFT},      {"AWAY P50", OUTPUT_RIGHT},
    {"AWAY MAX", OUTPUT_RIGHT}, {"ELECTED", OUTPUT_RIGHT}, {"FAILED", OUTPUT_LEFT},
};

static void time_cell(struct output_table *table, uint64_t ms)
{
    if (ms == 0)
        output_cell(table, "-");
    else
        output_cell(table, "%" PRIu64 " ms", ms);
}

static void drill_row(struct output_table *table, const ProtobufCMessage *item)
{
    const Ckpt__V1__DrillResult *result = (const Ckpt__V1__DrillResult *)item;
    const Ckpt__V1__Drill *drill = result->drill;
    const char *failed = "-";
    char text[HUMAN_BYTES];

    output_cell(table, "%" PRIu64, drill->drill_id);
    output_cell(table, "%s", drill_kind_word(drill->kind, text));
    output_state(table, drill_state_word(drill->state, text));
    output_cell(table, "%s", human_clock(drill->begun_ms, text));
    output_cell(table, "%s",
                drill->target_id[0] != '\0' ? drill->target_id
                : drill->kind == CKPT__V1__DRILL_KIND__DRILL_KIND_RESTORE
                    ? "-"
                    : drill_member(drill, drill->member_id, text));
    time_cell(table, result->away_p50_ms);
    time_cell(table, result->away_max_ms);
    time_cell(table, result->elected_ms);
    for (size_t i = 0; i < result->n_checks && drill->state == STATE(FAILED); i++)
        if (result->checks[i]->failed) {
            failed = result->checks[i]->name;
            break;
        }
    output_cell(table, "%s", failed);
}

static const char *drill_name(const ProtobufCMessage *item, char text[HUMAN_BYTES])
{
    snprintf(text, HUMAN_BYTES, "%" PRIu64, ((const Ckpt__V1__DrillResult *)item)->drill->drill_id);
    return text;
}

static const struct output_kind drills_kind = {"drills",  "drill",   columns, ARRAY_COUNT(columns),
                                               drill_row, drill_name};

static enum cli_exit read_drills(struct cli *cli, const Ckpt__V1__ListDrillsReply **ret_drills,
                                 ProtobufCMessage **ret_reply)
{
    Ckpt__V1__ListDrillsRequest request = CKPT__V1__LIST_DRILLS_REQUEST__INIT;
    enum cli_exit code;

    request.stale = cli_flag(cli, "stale");
    code = call_read(cli, "list drills", "OperatorService/ListDrills", &request.base,
                     &ckpt__v1__list_drills_reply__descriptor, ret_reply);
    if (code == CLI_OK)
        *ret_drills = (const Ckpt__V1__ListDrillsReply *)*ret_reply;
    return code;
}

static void note_age(struct cli *cli, const Ckpt__V1__ListDrillsReply *drills)
{
    char age[HUMAN_BYTES], max[HUMAN_BYTES];

    human_duration(drills->max_age_ms, max);
    if (drills->last_passed_ms == 0)
        cli_note(cli, "no drill has passed yet; one is due every %s (drill_max_age)", max);
    else if (drills->now_ms > drills->last_passed_ms + drills->max_age_ms)
        cli_note(cli, "the last one that passed is %s old, and one is due every %s (drill_max_age)",
                 human_duration(drills->now_ms - drills->last_passed_ms, age), max);
}

enum cli_exit command_drill_list(struct cli *cli)
{
    const Ckpt__V1__ListDrillsReply *drills;
    ProtobufCMessage *reply;
    struct output_list list;
    enum cli_exit code = read_drills(cli, &drills, &reply);

    if (code != CLI_OK)
        return code;
    output_list_begin(&list, cli, &drills_kind);
    for (size_t i = 0; i < drills->n_drills; i++)
        output_list_add(&list, &drills->drills[i]->base);
    output_list_end(&list, true);
    note_age(cli, drills);
    call_free(reply);
    return CLI_OK;
}

static enum cli_exit write_page(struct cli *cli, const Ckpt__V1__DrillResult *result,
                                const Ckpt__V1__ListDrillsReply *drills)
{
    const char *path = cli_text(cli, "html");
    FILE *file = fopen(path, "we");
    bool written = file != NULL && drill_html(file, result, drills) == 0;
    int why = errno;

    if (file != NULL && fclose(file) != 0)
        written = false;
    if (!written)
        return cli_fail(cli, CLI_FAILED, NULL, "cannot write %.500s: %s", path, strerror(why));
    cli_note(cli, "%s has the report", path);
    return CLI_OK;
}

/* Without an id the newest that has ended, else the one under way. */
static const Ckpt__V1__DrillResult *choose_drill(struct cli *cli,
                                                 const Ckpt__V1__ListDrillsReply *drills)
{
    const char *word = cli_argument(cli, 0);

    if (word != NULL)
        return find_drill(drills, strtoull(word, NULL, 10));
    for (size_t i = 0; i < drills->n_drills; i++)
        if (drill_is_over(drills->drills[i]->drill))
            return drills->drills[i];
    return drills->n_drills > 0 ? drills->drills[0] : NULL;
}

enum cli_exit command_drill_report(struct cli *cli)
{
    const Ckpt__V1__DrillResult *result;
    const Ckpt__V1__ListDrillsReply *drills;
    const char *word = cli_argument(cli, 0);
    ProtobufCMessage *reply;
    enum cli_exit code;

    if (word != NULL && strspn(word, "0123456789") != strlen(word))
        return cli_fail(cli, CLI_USAGE, "ckptctl drill list", "\"%.64s\" is no number of a drill",
                        word);
    code = read_drills(cli, &drills, &reply);
    if (code != CLI_OK)
        return code;
    result = choose_drill(cli, drills);
    if (result == NULL)
        code = cli_fail(cli, CLI_NOT_FOUND, "ckptctl drill list", "%s%s",
                        word == NULL ? "there was no drill yet" : "there is no drill ",
                        word == NULL ? "" : word);
    else if (cli_text(cli, "html") != NULL)
        code = write_page(cli, result, drills);
    else if (!output_json_message(cli, "drill", &result->base))
        drill_text(cli, result);
    call_free(reply);
    return code;
}
