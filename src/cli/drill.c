/* The text of a drill's report. See drill.h. */
#include "src/cli/drill.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fsm/names.h"
#include "src/base/check.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

#define KIND(name)  CKPT__V1__DRILL_KIND__DRILL_KIND_##name
#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name

const char *drill_kind_word(Ckpt__V1__DrillKind kind, char text[64])
{
    fsm_enum_word(&ckpt__v1__drill_kind__descriptor, (int)kind, text);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '_' ? '-' : *at;
    return text;
}

const char *drill_state_word(Ckpt__V1__DrillState state, char text[64])
{
    return human_enum(&ckpt__v1__drill_state__descriptor, (int)state, text);
}

bool drill_is_over(const Ckpt__V1__Drill *drill)
{
    return drill->ended_ms != 0;
}

const char *drill_member(const Ckpt__V1__Drill *drill, uint64_t member_id, char text[64])
{
    snprintf(text, 64, "member %" PRIu64, member_id);
    for (size_t i = 0; i < drill->n_members; i++)
        if (drill->members[i]->member_id == member_id && drill->members[i]->name[0] != '\0')
            human_safe(drill->members[i]->name, text, 64);
    return text;
}

__attribute__((format(printf, 3, 4))) static void add_fact(struct drill_facts *facts,
                                                           const char *name, const char *format,
                                                           ...)
{
    struct drill_fact *fact = &facts->items[facts->count++];
    va_list arguments;

    CHECK(facts->count <= DRILL_FACTS_MAX);
    fact->name = name;
    va_start(arguments, format);
    vsnprintf(fact->text, sizeof(fact->text), format, arguments);
    va_end(arguments);
}

static void add_time(struct drill_facts *facts, const char *name, uint64_t ms, const char *means)
{
    if (ms != 0)
        add_fact(facts, name, "%" PRIu64 " ms: %s", ms, means);
}

static bool hits_leader(const Ckpt__V1__Drill *drill)
{
    return drill->kind == KIND(LEADER_KILL) || drill->kind == KIND(LEADER_HANG);
}

static void add_target(const Ckpt__V1__Drill *drill, struct drill_facts *facts)
{
    char name[129], hit[64];

    if (drill->target_id[0] != '\0')
        add_fact(facts, "target", "%s", human_safe(drill->target_id, name, sizeof(name)));
    else if (drill->kind != KIND(RESTORE))
        add_fact(facts, "hit", "%s%s", drill_member(drill, drill->member_id, hit),
                 hits_leader(drill) ? ", which led" : "");
}

static void add_leaders(const Ckpt__V1__DrillResult *result, struct drill_facts *facts)
{
    const Ckpt__V1__Drill *drill = result->drill;
    char leader[64];

    add_time(facts, "detected", result->detect_ms, "a member missed the leader");
    add_time(facts, "elected", result->elected_ms, "another one led");
    add_time(facts, "first commit", result->commit_ms, "it served: a change of its own term");
    add_time(facts, "first orders", result->orders_ms, "it told an agent what to do");
    if (drill->new_term != 0)
        add_fact(facts, "new leader", "%s, term %" PRIu64 " after %" PRIu64,
                 drill_member(drill, drill->new_leader_id, leader), drill->new_term, drill->term);
}

static void add_changes(const Ckpt__V1__DrillResult *result, struct drill_facts *facts)
{
    const Ckpt__V1__Drill *drill = result->drill;
    uint64_t asked = 0, told = 0;

    for (size_t i = 0; i < drill->n_members; i++)
        if (drill->members[i]->word != NULL) {
            asked += drill->members[i]->word->probes;
            told++;
        }
    if (told > 0)
        add_fact(facts, "service away",
                 "%" PRIu64 " ms in the middle, %" PRIu64
                 " ms at most: the longest time without an answer, by %" PRIu64 " members",
                 result->away_p50_ms, result->away_max_ms, told);
    if (told > 0)
        add_fact(facts, "changes", "%" PRIu64 " asked for and acknowledged while it ran", asked);
}

static void add_checkpoints(const Ckpt__V1__Drill *drill, struct drill_facts *facts)
{
    char id[HUMAN_BYTES], job[129];

    if (drill->down_ms != 0)
        add_time(facts, "target away", drill->down_ms, "the cluster knew that it was away");
    if (drill->up_ms != 0)
        add_time(facts, "target back", drill->up_ms, "the cluster knew that it was back");
    if (drill->paused + drill->carried + drill->resumed + drill->left_paused > 0)
        add_fact(facts, "paused",
                 "%" PRIu64 " checkpoints, %u carried over to the new leader, %" PRIu64
                 " resumed, %u left",
                 drill->paused, drill->carried, drill->resumed, drill->left_paused);
    if (drill->checkpoint_id != 0)
        add_fact(facts, "checkpoint", "%s%s%s: %s", human_checkpoint(drill->checkpoint_id, id),
                 drill->allocation_id[0] == '\0' ? "" : " of job ",
                 human_safe(drill->allocation_id, job, sizeof(job)),
                 drill->kind == KIND(RESTORE)
                     ? drill->checkpoint_complete ? "read again, and whole" : "not read to its end"
                 : drill->checkpoint_complete ? "asked for at the fault, and complete"
                                              : "asked for at the fault, and not complete");
}

void drill_facts(const Ckpt__V1__DrillResult *result, struct drill_facts *ret_facts)
{
    const Ckpt__V1__Drill *drill = result->drill;
    char at[HUMAN_BYTES], took[HUMAN_BYTES];

    CHECK(drill != NULL);
    ret_facts->count = 0;
    if (drill->ended_ms != 0)
        human_duration(drill->ended_ms - drill->begun_ms, took);
    add_fact(ret_facts, "begun", "%s%s%s", human_instant(drill->begun_ms, at),
             drill->ended_ms != 0 ? ", took " : "", drill->ended_ms != 0 ? took : "");
    add_target(drill, ret_facts);
    if (hits_leader(drill))
        add_leaders(result, ret_facts);
    add_changes(result, ret_facts);
    add_checkpoints(drill, ret_facts);
    for (size_t i = 0; i < drill->n_members; i++) {
        const Ckpt__V1__DrillWord *word = drill->members[i]->word;
        char name[64], detail[201];

        if (word == NULL || word->detail[0] == '\0' || ret_facts->count == DRILL_FACTS_MAX)
            continue;
        add_fact(ret_facts, "said", "%s: %s",
                 drill_member(drill, drill->members[i]->member_id, name),
                 human_safe(word->detail, detail, sizeof(detail)));
    }
}

static void print_checks(struct cli *cli, const Ckpt__V1__DrillResult *result)
{
    static const struct output_column columns[] = {{"CHECK", OUTPUT_LEFT},
                                                   {"FOUND", OUTPUT_RIGHT},
                                                   {"AT MOST", OUTPUT_RIGHT},
                                                   {"STATE", OUTPUT_LEFT}};
    struct output_table table;

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < result->n_checks; i++) {
        output_row(&table);
        output_cell(&table, "%s", result->checks[i]->name);
        output_cell(&table, "%" PRIu64, result->checks[i]->value);
        output_cell(&table, "%" PRIu64, result->checks[i]->limit);
        output_state(&table, result->checks[i]->failed ? "FAILED" : "OK");
    }
    output_table_print(&table);
}

void drill_text(struct cli *cli, const Ckpt__V1__DrillResult *result)
{
    const Ckpt__V1__Drill *drill = result->drill;
    char kind[64], state[64];
    struct drill_facts facts;

    drill_facts(result, &facts);
    cli_out(cli, "drill %" PRIu64 ": %s, %s\n", drill->drill_id, drill_kind_word(drill->kind, kind),
            drill_state_word(drill->state, state));
    for (size_t i = 0; i < facts.count; i++)
        cli_out(cli, "  %-13s %s\n", facts.items[i].name, facts.items[i].text);
    if (drill->state == STATE(ABORTED)) {
        cli_out(cli, "  it ended before the fault: nothing was failed, and nothing is proven\n");
        return;
    }
    if (drill_is_over(drill))
        print_checks(cli, result);
    else
        cli_out(cli, "  it is under way: its checks are made at the end\n");
}
