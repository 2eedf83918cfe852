/* What the job's own output is told of an attempt: its user reads no agent's log. See
 * attempt_say.h. */
#include "src/agent/job/attempt_say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/job/ranks.h"
#include "src/agent/run/words.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum {
    SAID_BYTES = 3072,
    SAVED_BYTES = JOB_DETAIL_BYTES + LABEL_MAX_BYTES + 32,
    STALL_BYTES = WORDS_BYTES + 64
};

static void say_failed(struct allocation *allocation, char said[SAID_BYTES])
{
    const struct attempt *attempt = &allocation->attempt;
    const struct attempt_outcome *outcome = &attempt->outcome;
    char id[CHECKPOINT_ID_TEXT_BYTES], reason[WORDS_BYTES];

    CHECK(outcome->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED);
    snprintf(said, SAID_BYTES, "checkpoint %s was not taken (attempt %" PRIu32 "): %s%s%s",
             checkpoint_id_format(attempt->checkpoint_id, id), attempt->attempt,
             words_enum(&ckpt__v1__reason__descriptor, (int)outcome->reason, reason),
             outcome->detail[0] != '\0' ? ": " : "", outcome->detail);
}

/* Once for as many of an application as there are: who is asked from here on, and who is not. */
void attempt_say_ranks(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    struct executor *executor = &allocation->executor;
    const struct rank_seen *launcher = NULL;
    char said[SAID_BYTES], ranks[JOB_DETAIL_BYTES], not_asked[128] = "";

    if (allocation->stream == NULL || entry->rank_count == 0 ||
        (executor->said_run == entry->run && executor->said_ranks == entry->rank_count))
        return;
    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    CHECK(entry->pid != 0);
    executor->said_run = entry->run;
    executor->said_ranks = entry->rank_count;
    for (size_t i = 0; executor->seen != NULL && i < executor->seen->count; i++)
        if (executor->seen->items[i].launcher && launcher == NULL)
            launcher = &executor->seen->items[i];
    if (launcher != NULL)
        snprintf(not_asked, sizeof(not_asked), " (%.64s, pid %d, is %s launcher: not signalled)",
                 launcher->name, (int)launcher->pid, entry->rank_count == 1 ? "its" : "their");
    ranks_name(entry, ranks);
    snprintf(said, sizeof(said), "%s of the job %s on this node%s", ranks,
             entry->rank_count == 1 ? "is" : "are", not_asked);
    allocation->agent->callers->say(allocation->stream, said);
}

/* The first way is as where nothing was said before: it is named to who wants to hear of it. */
void attempt_say_way(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    struct executor *executor = &allocation->executor;
    char said[SAID_BYTES];

    CHECK(entry->way_open <= WAY_OUTSIDE);
    CHECK(executor->ask != NULL);
    if (allocation->stream == NULL || entry->way_open == WAY_NAMED ||
        executor->way_said_run == entry->run ||
        (entry->way_open == WAY_OPEN && executor->ask == ask_find("")))
        return;
    executor->way_said_run = entry->run;
    if (entry->way_open == WAY_OUTSIDE)
        snprintf(said, sizeof(said),
                 "the application is saved from outside by %s: it has shown no way of its own, and "
                 "the cluster's policy says transparent: yes",
                 entry->profile);
    else
        snprintf(said, sizeof(said),
                 "the application is asked by %s (%s): it has shown that, and nobody has named a "
                 "way",
                 entry->profile, executor->ask->about);
    allocation->agent->callers->say(allocation->stream, said);
}

/* "": it has no ranks, and its one process told no step. */
static void name_saved(const struct allocation *allocation, char ret_text[SAVED_BYTES])
{
    const char *label = allocation->attempt.label;
    char ranks[JOB_DETAIL_BYTES] = "the application";

    CHECK(strlen(label) <= LABEL_MAX_BYTES);
    ret_text[0] = '\0';
    if (allocation->entry.rank_count > 0)
        ranks_name(&allocation->entry, ranks);
    if (label[0] != '\0')
        snprintf(ret_text, SAVED_BYTES, "%s saved %s%s; ", ranks,
                 label[strspn(label, "0123456789")] == '\0' ? "step " : "", label);
    else if (allocation->entry.rank_count > 0)
        snprintf(ret_text, SAVED_BYTES, "%s saved; ", ranks);
}

/* How long the application took, as far as it is known. Nobody but itself knows whether it stood
 * still: until it comes to save, or while another thread of it saves, it may have computed. */
static void name_stall(const struct attempt *attempt, uint64_t stall_ms, char ret_text[STALL_BYTES])
{
    char stall[WORDS_BYTES];

    words_duration(stall_ms, stall);
    if (stall_ms == 0)
        snprintf(ret_text, STALL_BYTES, "how long the application took was not seen");
    else if (attempt->stall_told)
        snprintf(ret_text, STALL_BYTES, "the application saved for %s", stall);
    else
        snprintf(ret_text, STALL_BYTES, "the application was done %s after it was asked", stall);
}

static void say_verified(struct allocation *allocation, const Ckpt__V1__AgentReport *report,
                         char said[SAID_BYTES])
{
    char id[CHECKPOINT_ID_TEXT_BYTES], size[WORDS_BYTES], took[WORDS_BYTES], stall[STALL_BYTES];
    char part[PART_NAME_BYTES], saved[SAVED_BYTES];

    CHECK(report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED);
    CHECK(report->checkpoint_id == allocation->attempt.checkpoint_id);
    name_saved(allocation, saved);
    name_stall(&allocation->attempt, report->stall_ms, stall);
    snprintf(said, SAID_BYTES,
             "checkpoint %s: %sthe part of this node, %s, is written and verified in %s at %s/%s; "
             "%s",
             checkpoint_id_format(report->checkpoint_id, id), saved,
             words_size(report->size_bytes, size), words_duration(report->write_ms, took),
             allocation->attempt.path, part_name_format(allocation->attempt.part, part), stall);
}

void attempt_say_local(struct allocation *allocation, const char *why)
{
    const struct attempt *attempt = &allocation->attempt;
    char id[CHECKPOINT_ID_TEXT_BYTES], said[SAID_BYTES];

    CHECK(attempt->staging == CKPT__V1__STAGING__STAGING_LOCAL);
    checkpoint_id_format(attempt->checkpoint_id, id);
    log_warning("memory_full", "allocation=%s checkpoint=%s text=\"%s\"",
                allocation->entry.allocation_id, id, why);
    if (allocation->stream == NULL)
        return;
    snprintf(said, sizeof(said),
             "checkpoint %s is written to the work folder, not into the node's memory: %s", id,
             why);
    allocation->agent->callers->say(allocation->stream, said);
}

void attempt_say_end(struct allocation *allocation, const struct job_effects *effects,
                     const struct job_effect *effect)
{
    char said[SAID_BYTES];

    CHECK(effects->reporting);
    if (allocation->stream == NULL)
        return;
    if (effect->kind == EFFECT_SAY_FAILED)
        say_failed(allocation, said);
    else
        say_verified(allocation, &effects->report, said);
    allocation->agent->callers->say(allocation->stream, said);
}

void attempt_say_standing(const struct allocation *allocation)
{
    const struct agent *agent = allocation->agent;
    char said[SAID_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];

    if (allocation->stream == NULL || agent->leader_left_us == 0)
        return;
    snprintf(said, SAID_BYTES,
             "the application stands still until checkpoint %s is committed and it is ended (no "
             "leader answers for %" PRIu64 " s)",
             checkpoint_id_format(allocation->attempt.checkpoint_id, id),
             (agent_now_us(agent) - agent->leader_left_us) / 1000000);
    allocation->agent->callers->say(allocation->stream, said);
}
