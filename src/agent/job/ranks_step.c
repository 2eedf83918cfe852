/* The ranks of a question as a pure table. See ranks_step.h. */
#include "src/agent/job/ranks_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum { NUMBER_TEXT_BYTES = 16, NAMED_BYTES = 80 };

/* ---- who is asked ---- */

struct named {
    size_t length;
    char text[NAMED_BYTES];
};

/* "0, 1, 5"; what does not fit is "..". */
static void add_number(struct named *named, uint32_t number)
{
    CHECK(named->length < sizeof(named->text));
    if (named->length + NUMBER_TEXT_BYTES > sizeof(named->text)) {
        if (named->text[named->length - 1] != '.')
            named->length += (size_t)snprintf(named->text + named->length,
                                              sizeof(named->text) - named->length, ", ..");
        return;
    }
    named->length +=
        (size_t)snprintf(named->text + named->length, sizeof(named->text) - named->length,
                         "%s%" PRIu32, named->length == 0 ? "" : ", ", number);
}

/* As many as are to be on this node; 0: nobody told. */
static uint32_t wanted_count(const struct ranks_seen *seen, uint32_t declared)
{
    uint32_t wanted = declared;

    CHECK(seen->count <= ARRAY_COUNT(seen->items));
    for (size_t i = 0; i < seen->count && declared == 0; i++) {
        if (!seen->items[i].launcher && seen->items[i].local_count > wanted)
            wanted = seen->items[i].local_count;
    }
    return wanted;
}

/* Nothing numbers them, and the user says that there are several: those of this node from 0.
 * They are asked under no number, as many as hear the signal. */
static void number_declared(uint32_t declared, struct ranks_table *table)
{
    CHECK(table->count == 0);
    for (; table->count < declared && table->count < LEDGER_RANKS_MAX; table->count++)
        table->items[table->count] =
            (struct ledger_rank){.number = (uint32_t)table->count, .by = RANK_BY_GROUP};
}

static bool add_seen(const struct ranks_seen *seen, struct ranks_table *table,
                     char ret_why[JOB_DETAIL_BYTES])
{
    CHECK(table->count == 0);
    for (size_t i = 0; i < seen->count; i++) {
        const struct rank_seen *rank = &seen->items[i];
        if (rank->launcher)
            continue;
        if (rank->twin != 0) {
            snprintf(ret_why, JOB_DETAIL_BYTES, "processes %d and %d are both rank %" PRIu32,
                     (int)rank->pid, (int)rank->twin, rank->number);
            return false;
        }
        if (table->count == LEDGER_RANKS_MAX) {
            snprintf(ret_why, JOB_DETAIL_BYTES,
                     "the job has more than %d ranks on this node, no more are taken",
                     LEDGER_RANKS_MAX);
            return false;
        }
        if (rank->all_count > table->all)
            table->all = rank->all_count;
        table->items[table->count++] =
            (struct ledger_rank){.number = rank->number,
                                 .pid = (uint32_t)rank->pid,
                                 .by = rank->registered ? RANK_BY_STREAM : RANK_BY_ENVIRONMENT,
                                 .barrier = rank->barrier,
                                 .start_ticks = rank->start_ticks};
    }
    return true;
}

static bool all_there(const struct ranks_table *table, uint32_t wanted,
                      char ret_why[JOB_DETAIL_BYTES])
{
    struct named named = {0};

    CHECK(table->count > 0);
    if (wanted == 0 || table->count == wanted)
        return true;
    for (size_t i = 0; i < table->count; i++)
        add_number(&named, table->items[i].number);
    snprintf(ret_why, JOB_DETAIL_BYTES, "%zu of %" PRIu32 " ranks are there on this node: %s",
             table->count, wanted, named.text);
    return false;
}

/* Several hear the signal, and nothing tells whether each saves a state of its own or one saves for
 * all: the first to say that it is done would speak for the others. */
static bool speaker_known(const struct ranks_seen *seen, uint32_t declared,
                          char ret_why[JOB_DETAIL_BYTES])
{
    CHECK(seen->hearer_count <= ARRAY_COUNT(seen->hearers));
    if (declared != 0 || seen->asks_group || seen->hearer_count < 2)
        return true;
    snprintf(ret_why, JOB_DETAIL_BYTES,
             "%zu processes catch the signal, pids %d and %d of them, and nothing numbers them: "
             "start it with --ranks %zu if each saves a state (done.RANK), --ranks 1 if one saves "
             "for all",
             seen->hearer_count, (int)seen->hearers[0].pid, (int)seen->hearers[1].pid,
             seen->hearer_count);
    return false;
}

bool ranks_ready(const struct ranks_seen *seen, uint32_t declared, struct ranks_table *ret_table,
                 char ret_why[JOB_DETAIL_BYTES])
{
    uint32_t wanted = wanted_count(seen, declared);

    CHECK(ret_why != NULL);
    ret_table->count = 0;
    ret_table->all = 0;
    if (seen->why[0] != '\0') {
        snprintf(ret_why, JOB_DETAIL_BYTES, "%s", seen->why);
        return false;
    }
    if (!add_seen(seen, ret_table, ret_why))
        return false;
    if (ret_table->count > 0)
        return all_there(ret_table, wanted, ret_why);
    if (seen->count > 0) { /* a launcher */
        snprintf(ret_why, JOB_DETAIL_BYTES, "%s (pid %d) has started no rank yet",
                 seen->items[0].name, (int)seen->items[0].pid);
        return false;
    }
    if (!speaker_known(seen, declared, ret_why))
        return false;
    if (declared > 1)
        number_declared(declared, ret_table);
    return true;
}

void ranks_begin(struct ledger_entry *entry, const struct ranks_table *table)
{
    entry->rank_count = table == NULL ? 0 : (uint32_t)table->count;
    entry->ranks_all = table == NULL ? 0 : table->all;
    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        entry->ranks[i] = table->items[i];
        entry->ranks[i].state = RANK_TOLD;
    }
}

/* ---- what they answer ---- */

static void fail_question(struct ranks_outcome *outcome, Ckpt__V1__Reason reason)
{
    CHECK(outcome->verdict != RANKS_FAILED);
    outcome->verdict = RANKS_FAILED;
    outcome->reason = reason;
}

static void take_done(struct ledger_rank *rank, const struct rank_fact *fact,
                      struct ranks_outcome *outcome)
{
    const struct sentinel *sentinel = &fact->sentinel;

    CHECK(fact->answer == ASK_FINISHED);
    if (strcmp(sentinel->status, "0") != 0) {
        rank->state = RANK_REFUSED;
        fail_question(outcome, CKPT__V1__REASON__REASON_APPLICATION_REFUSED);
        snprintf(outcome->text, sizeof(outcome->text), "rank %" PRIu32 " says status=%.160s",
                 rank->number, sentinel->status);
        return;
    }
    rank->state = RANK_DONE;
    rank->bytes = sentinel->bytes;
    memcpy(rank->label, sentinel->label, sizeof(rank->label));
    if (sentinel->stall_ms > outcome->stall_ms)
        outcome->stall_ms = sentinel->stall_ms;
    if (sentinel->saved_at_ms != 0 &&
        (outcome->saved_at_ms == 0 || sentinel->saved_at_ms < outcome->saved_at_ms))
        outcome->saved_at_ms = sentinel->saved_at_ms;
}

static void judge_one(struct ledger_rank *rank, const struct rank_fact *fact, bool judge_gone,
                      struct ranks_outcome *outcome)
{
    CHECK(outcome->verdict != RANKS_DONE);
    if (rank->state == RANK_DONE && fact->answer != ASK_FINISHED)
        return; /* it was, and that stays */
    switch (fact->answer) {
    case ASK_FINISHED:
        take_done(rank, fact, outcome);
        return;
    case ASK_WRONG:
        rank->state = RANK_REFUSED;
        fail_question(outcome, CKPT__V1__REASON__REASON_APPLICATION_REFUSED);
        snprintf(outcome->text, sizeof(outcome->text), "rank %" PRIu32 ": %.150s", rank->number,
                 fact->text);
        return;
    case ASK_UNFINISHED:
        outcome->verdict = RANKS_UNFINISHED;
        snprintf(outcome->text, sizeof(outcome->text), "rank %" PRIu32 ": %.150s", rank->number,
                 fact->text);
        break;
    case ASK_NOTHING_YET:
        break;
    }
    if (!fact->gone || !judge_gone)
        return;
    rank->state = RANK_GONE;
    fail_question(outcome, CKPT__V1__REASON__REASON_APPLICATION_EXITED);
    snprintf(outcome->text, sizeof(outcome->text),
             "rank %" PRIu32 " (pid %" PRIu32 ") ended before it was done", rank->number,
             rank->pid);
}

static const char *say_label(const struct ledger_rank *rank)
{
    return rank->label[0] == '\0' ? "no step" : rank->label;
}

bool ranks_step_missing(const struct ledger_entry *entry, const char *label,
                        char ret_text[JOB_DETAIL_BYTES])
{
    char ranks[JOB_DETAIL_BYTES] = "the application";

    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    if (label[0] != '\0' || (entry->rank_count <= 1 && entry->ranks_all <= 1 && entry->parts <= 1))
        return false;
    if (entry->rank_count > 0)
        ranks_name(entry, ranks);
    snprintf(ret_text, JOB_DETAIL_BYTES,
             "STEP_MISSING: %.50s of several said done without a step: call ckpt_done(), "
             "done(step) or write step=N; \"unordered\" where all states fit",
             ranks);
    return true;
}

/* All of them are done. */
static void compare_labels(const struct ledger_entry *entry, struct ranks_outcome *outcome)
{
    const struct ledger_rank *first = &entry->ranks[0];

    CHECK(entry->rank_count > 0);
    outcome->verdict = RANKS_DONE;
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct ledger_rank *rank = &entry->ranks[i];
        CHECK(rank->state == RANK_DONE);
        if (__builtin_add_overflow(outcome->bytes, rank->bytes, &outcome->bytes))
            outcome->bytes = UINT64_MAX;
        if (outcome->verdict == RANKS_FAILED || strcmp(rank->label, first->label) == 0)
            continue;
        fail_question(outcome, CKPT__V1__REASON__REASON_STEP_MISMATCH);
        snprintf(outcome->text, sizeof(outcome->text),
                 "rank %" PRIu32 " says %s, rank %" PRIu32 " says %s", first->number,
                 say_label(first), rank->number, say_label(rank));
    }
    memcpy(outcome->label, first->label, sizeof(outcome->label));
    if (outcome->verdict == RANKS_DONE && ranks_step_missing(entry, first->label, outcome->text))
        fail_question(outcome, CKPT__V1__REASON__REASON_STEP_MISMATCH);
}

void ranks_judge(struct ledger_entry *entry, const struct rank_fact *facts, bool judge_gone,
                 struct ranks_outcome *ret_outcome)
{
    uint32_t done = 0;

    CHECK(entry->rank_count > 0);
    *ret_outcome = (struct ranks_outcome){.verdict = RANKS_AWAITED};
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        judge_one(&entry->ranks[i], &facts[i], judge_gone, ret_outcome);
        if (ret_outcome->verdict == RANKS_FAILED)
            return;
        done += entry->ranks[i].state == RANK_DONE;
    }
    if (done == entry->rank_count)
        compare_labels(entry, ret_outcome);
}

void ranks_name_silent(const struct ledger_entry *entry, char ret_text[JOB_DETAIL_BYTES])
{
    struct named named = {0};

    CHECK(entry->rank_count > 0);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        if (entry->ranks[i].state != RANK_DONE)
            add_number(&named, entry->ranks[i].number);
    }
    snprintf(ret_text, JOB_DETAIL_BYTES,
             "of %" PRIu32 " ranks on this node these have not said done: %s", entry->rank_count,
             named.text);
}

void ranks_name(const struct ledger_entry *entry, char ret_text[JOB_DETAIL_BYTES])
{
    const struct ledger_rank *first = &entry->ranks[0];
    uint32_t count = entry->rank_count;
    struct named named = {0};

    CHECK(count > 0 && count <= LEDGER_RANKS_MAX);
    if (count > 2 && entry->ranks[count - 1].number - first->number == count - 1) {
        snprintf(ret_text, JOB_DETAIL_BYTES, "ranks %" PRIu32 " to %" PRIu32, first->number,
                 entry->ranks[count - 1].number);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        add_number(&named, entry->ranks[i].number);
    snprintf(ret_text, JOB_DETAIL_BYTES, "rank%s %s", count == 1 ? "" : "s", named.text);
}

void ranks_check_done(const struct ledger_entry *entry)
{
    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        CHECK(entry->ranks[i].state == RANK_DONE);
        CHECK(strcmp(entry->ranks[i].label, entry->ranks[0].label) == 0);
    }
}
