/* What an agent decides of one allocation. See job_step.h. */
#include "src/agent/job/job_step.h"

#include "src/base/check.h"
#include "src/base/id.h"

bool job_run_over(const struct ledger_entry *entry, uint64_t epoch, uint64_t run)
{
    CHECK(entry->allocation_id[0] != '\0');
    return run != 0 && run <= entry->ended_run && epoch <= run_epoch(entry->ended_run);
}

bool job_run_new(const struct ledger_entry *entry, uint64_t run)
{
    CHECK(entry->allocation_id[0] != '\0');
    return run != entry->run && run != entry->named_run;
}

static bool process_runs(const struct process *process)
{
    CHECK(process->state < PROCESS_STATE_COUNT);
    return process->state != PROCESS_ABSENT && process->gone_us == 0;
}

void job_check(const struct job *job)
{
    enum attempt_state attempt = job->attempt->state;

    process_check(job->process, job->entry);
    attempt_check(job->attempt, job->entry);
    if (job->process->state != PROCESS_ABSENT)
        return;
    CHECK(attempt != ATTEMPT_ASKING);
    CHECK(attempt != ATTEMPT_ASKED);
    CHECK(attempt != ATTEMPT_BROKEN);
    CHECK(attempt != ATTEMPT_FREEZING);
    CHECK(attempt != ATTEMPT_STILL);
}

static void begin_run(struct ledger_entry *entry, uint64_t run, struct job_effects *effects)
{
    bool outlived = job_run_new(entry, run);

    CHECK(entry->pid == 0);
    entry->run = run;
    if (!outlived)
        return;
    entry->deadline_us = 0; /* of the run before */
    job_effect_add(effects, EFFECT_WALLTIME);
}

/* Nobody is about to start one of this run, or it has been ended. */
static bool ends_nothing(const struct job *job, const struct process_facts *facts)
{
    const struct ledger_entry *entry = job->entry;

    CHECK(job->process->state < PROCESS_STATE_COUNT);
    return job->process->state == PROCESS_ABSENT &&
           (!facts->attached || entry->ended || entry->named_run != entry->run);
}

static void end_walltime(const struct job *job, const struct process_facts *facts,
                         struct job_effects *effects)
{
    const struct process_event stop = {.kind = PROCESS_STOP,
                                       .ask = {.cause = STOP_BY_WALLTIME,
                                               .reason = CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED,
                                               .grace_ms = job->entry->grace_ms,
                                               .run = job->entry->run}};

    CHECK(effects->count == 0);
    if (!ends_nothing(job, facts))
        process_step(job->process, job->entry, &stop, facts, effects);
}

static void walltime_step(const struct job *job, const struct walltime_event *event,
                          const struct process_facts *facts, struct job_effects *effects)
{
    bool runs = job->process->state != PROCESS_ABSENT;

    CHECK(event->kind <= WALLTIME_OVER);
    job_effects_begin(effects);
    switch (event->kind) {
    case WALLTIME_TOLD:
        effects->commit = walltime_take(job->entry, runs, &event->word);
        if (effects->commit)
            job_effect_add(effects, EFFECT_WALLTIME);
        return;
    case WALLTIME_UNNAMED:
        effects->commit = walltime_unname(job->entry, &event->word);
        return;
    case WALLTIME_RUN:
        begin_run(job->entry, event->word.run, effects);
        return;
    case WALLTIME_WANTED:
        job_effect_add(effects, EFFECT_WALLTIME);
        return;
    case WALLTIME_OVER:
        end_walltime(job, facts, effects);
        return;
    }
}

void job_step(const struct job *job, const struct job_event *event, struct job_facts *facts,
              struct job_effects *ret_effects)
{
    const struct process *process = job->process;

    CHECK(event->part <= JOB_WALLTIME);
    facts->process.attempt_busy = attempt_busy(job->attempt);
    facts->process.attempt_puts = job->attempt->state == ATTEMPT_PUTTING;
    facts->process.stands_still = job->entry->still == STANDING_STILL;
    facts->process.freezing = job->attempt->state == ATTEMPT_FREEZING;
    facts->attempt.runs = process_runs(process);
    facts->attempt.started_us = process->started_us;
    facts->attempt.stopping = process_state_stops(process->state);
    if (facts->attempt.stopping)
        facts->attempt.stop_reason = process_stop_why(process, job->entry);
    switch (event->part) {
    case JOB_PROCESS:
        process_step(job->process, job->entry, &event->process, &facts->process, ret_effects);
        break;
    case JOB_ATTEMPT:
        attempt_step(job->attempt, job->entry, &event->attempt, &facts->attempt, ret_effects);
        break;
    case JOB_WALLTIME:
        walltime_step(job, &event->walltime, &facts->process, ret_effects);
        break;
    }
    job_check(job);
}
