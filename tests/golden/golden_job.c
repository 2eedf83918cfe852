/* Golden scenarios of an agent's job: tests/golden/job/NAME.txt holds what happens ("> ...") and
 * what job_step() makes of it, exactly.
 *
 * Flow     each file is replayed on a fresh job. What an effect brings about by itself (another
 *          look, what one part means to another, that the application was asked) follows at once.
 * Shapes   what is seen from now on: see alive|group|attached|tells|waits|busy|lost 0|1, see note
 *          STATUS, see answer none|finished|wrong, see handler 0|1, after MS. Events: start PID,
 *          order N, withdraw N, stop GRACE_MS, walltime MS, over, stragglers COUNT, put
 *          SIZE|failed, defer MS, or the name of an event that needs no more words. `restart` is
 *          the death of the agent.
 */
#include "src/agent/job/job_step.h"
#include "tests/golden/transcript.h"

#include <inttypes.h>

enum { QUEUE = 16, RUN = 7, WORDS = 4 };

struct golden_job {
    struct transcript *out;
    struct process process;
    struct attempt attempt;
    struct ledger_entry entry, journal;
    struct job_facts seen;
    struct job_event queue[QUEUE];
    size_t queued;
};

static const char *const effect_names[] = {
#define N(name) [EFFECT_##name] = #name
    N(WATCH),
    N(TIMER),
    N(TIMER_STOP),
    N(LOOK_AGAIN),
    N(SIGNAL),
    N(LOOK_FOR_STRAGGLERS),
    N(ATTEMPT_GONE),
    N(ATTEMPT_GIVE_UP),
    N(END_STREAM),
    N(FORGET),
    N(LOG_STOP),
    N(LOG_NOTE),
    N(WARN_UNTOLD),
    N(WARN_UNKILLABLE),
    N(WARN_TAKE_OVER),
    N(ATTEMPT_TIMER),
    N(ATTEMPT_TIMER_STOP),
    N(ATTEMPT_LOOK),
    N(ASK),
    N(UNWATCH),
    N(HANG_UP),
    N(WITHDRAW),
    N(HEAR_AGAIN),
    N(CLEAR),
    N(PUT),
    N(PUT_KILL),
    N(ABANDON),
    N(REMOVE),
    N(SWEEP),
    N(SAY_FAILED),
    N(SAY_VERIFIED),
    N(ATTEMPT_ENDED),
    N(FOLDER_OPEN),
    N(FOLDER_ANEW),
    N(FOLDER_CLOSE),
    N(SOCKET_CLOSE),
    N(WALLTIME),
    N(RECONCILE)
#undef N
};

/* ---- events ---- */

static const struct {
    const char *name;
    enum job_part part;
    int kind;
} plain[] = {
    {"resumed", JOB_PROCESS, PROCESS_RESUMED},     {"look", JOB_PROCESS, PROCESS_LOOK},
    {"woken", JOB_PROCESS, PROCESS_WOKEN},         {"unattended", JOB_PROCESS, PROCESS_UNATTENDED},
    {"take-over", JOB_PROCESS, PROCESS_TAKE_OVER}, {"resume", JOB_ATTEMPT, ATTEMPT_RESUME},
    {"cancel", JOB_ATTEMPT, ATTEMPT_CANCEL},       {"tick", JOB_ATTEMPT, ATTEMPT_TICK},
    {"changed", JOB_ATTEMPT, ATTEMPT_CHANGED},     {"looked", JOB_ATTEMPT, ATTEMPT_LOOKED},
    {"broke", JOB_ATTEMPT, ATTEMPT_BROKE},         {"abandoned", JOB_ATTEMPT, ATTEMPT_ABANDONED},
    {"removed", JOB_ATTEMPT, ATTEMPT_REMOVED},     {"over", JOB_WALLTIME, WALLTIME_OVER}};

static struct job_event event_of(enum job_part part, int kind)
{
    struct job_event event = {.part = part};

    if (part == JOB_PROCESS)
        event.process = (struct process_event){.kind = (enum process_event_kind)kind, .why = ""};
    else if (part == JOB_ATTEMPT)
        event.attempt = (struct attempt_event){.kind = (enum attempt_event_kind)kind,
                                               .reason = CKPT__V1__REASON__REASON_NO_HANDLER};
    else
        event.walltime = (struct walltime_event){.kind = (enum walltime_event_kind)kind};
    return event;
}

static void post(struct golden_job *job, const struct job_event *event)
{
    if (job->queued == QUEUE)
        abort();
    job->queue[job->queued++] = *event;
}

static void post_kind(struct golden_job *job, enum job_part part, int kind)
{
    struct job_event event = event_of(part, kind);

    post(job, &event);
}

/* ---- a step, and what it says ---- */

static void carry_out(struct golden_job *job, const struct job_effect *effect)
{
    struct job_event give_up = event_of(JOB_ATTEMPT, ATTEMPT_GIVE_UP);

    say(job->out, " %s", effect_names[effect->kind]);
    if (effect->kind == EFFECT_SIGNAL)
        say(job->out, ":%d", effect->signal);
    if (effect->delay_us != 0)
        say(job->out, ":%llums", (unsigned long long)(effect->delay_us / 1000));
    if (effect->kind == EFFECT_LOOK_AGAIN)
        post_kind(job, JOB_PROCESS, PROCESS_LOOK);
    else if (effect->kind == EFFECT_ATTEMPT_LOOK)
        post_kind(job, JOB_ATTEMPT, ATTEMPT_TICK);
    else if (effect->kind == EFFECT_ATTEMPT_GONE)
        post_kind(job, JOB_ATTEMPT, ATTEMPT_GONE);
    else if (effect->kind == EFFECT_ASK)
        post_kind(job, JOB_ATTEMPT, ATTEMPT_FIRED);
    else if (effect->kind == EFFECT_ATTEMPT_ENDED)
        post_kind(job, JOB_PROCESS, PROCESS_ATTEMPT_ENDED);
    else if (effect->kind == EFFECT_ATTEMPT_GIVE_UP) {
        give_up.attempt.reason = effect->reason;
        post(job, &give_up);
    }
}

static void say_report(struct golden_job *job, const Ckpt__V1__AgentReport *report)
{
    say(job->out, "  report %s",
        protobuf_c_enum_descriptor_get_value(&ckpt__v1__report_kind__descriptor, (int)report->kind)
                ->name +
            strlen("REPORT_KIND_"));
    if (report->reason != CKPT__V1__REASON__REASON_NONE)
        say(job->out, " %s",
            protobuf_c_enum_descriptor_get_value(&ckpt__v1__reason__descriptor, (int)report->reason)
                    ->name +
                strlen("REASON_"));
    if (report->exit_status != 0)
        say(job->out, " status=%d", report->exit_status);
    if (report->will_restart)
        say(job->out, " will_restart");
    if (report->stall_ms != 0)
        say(job->out, " stall=%" PRIu64 "ms", report->stall_ms);
    if (report->detail[0] != '\0')
        say(job->out, " \"%s\"", report->detail);
    say(job->out, "\n");
}

static void take(struct golden_job *job, const struct job_event *event)
{
    const struct job parts = {&job->process, &job->attempt, &job->entry};
    enum process_state process = job->process.state;
    enum attempt_state attempt = job->attempt.state;
    struct job_facts facts = job->seen;
    struct job_effects effects;

    job_step(&parts, event, &facts, &effects);
    if (job->process.state != process)
        say(job->out, "  process %s -> %s\n", process_state_name(process),
            process_state_name(job->process.state));
    if (job->attempt.state != attempt)
        say(job->out, "  attempt %s -> %s\n", attempt_state_name(attempt),
            attempt_state_name(job->attempt.state));
    if (effects.commit) {
        job->journal = job->entry;
        say(job->out, "  journal\n");
    }
    if (effects.reporting)
        say_report(job, &effects.report);
    if (effects.count > 0)
        say(job->out, "  does");
    for (size_t i = 0; i < effects.count; i++)
        carry_out(job, &effects.effects[i]);
    if (effects.count > 0)
        say(job->out, "\n");
}

static void drain(struct golden_job *job)
{
    for (size_t i = 0; i < job->queued; i++) {
        struct job_event event = job->queue[i];
        take(job, &event);
    }
    job->queued = 0;
}

/* ---- the lines ---- */

static void see(struct golden_job *job, const char *what, const char *value)
{
    struct process_facts *process = &job->seen.process;
    struct attempt_facts *attempt = &job->seen.attempt;
    bool on = strcmp(value, "1") == 0;

    if (strcmp(what, "alive") == 0)
        process->main_alive = process->group_alive = on;
    else if (strcmp(what, "group") == 0)
        process->group_alive = on;
    else if (strcmp(what, "attached") == 0)
        process->attached = attempt->attached = on;
    else if (strcmp(what, "tells") == 0)
        process->tells = on;
    else if (strcmp(what, "waits") == 0)
        process->waits = on;
    else if (strcmp(what, "lost") == 0)
        attempt->lost = on ? "the question is lost" : NULL;
    else if (strcmp(what, "prepared") == 0)
        attempt->prepared = on;
    else if (strcmp(what, "handler") == 0)
        attempt->ready = on ? CKPT__V1__REASON__REASON_NONE : CKPT__V1__REASON__REASON_NO_HANDLER;
    else if (strcmp(what, "answer") == 0)
        attempt->answer = strcmp(value, "finished") == 0 ? ASK_FINISHED
                          : strcmp(value, "wrong") == 0  ? ASK_WRONG
                                                         : ASK_NOTHING_YET;
    else if (strcmp(what, "note") == 0) {
        process->note_found = true;
        process->note = (struct end_note){.pid = job->entry.pid,
                                          .start_ticks = job->entry.start_ticks,
                                          .run = RUN,
                                          .wait_status = atoi(value)};
    } else {
        abort();
    }
}

static void give_order(struct golden_job *job, enum attempt_event_kind kind, const char *number)
{
    static Ckpt__V1__Order order;
    struct job_event event = event_of(JOB_ATTEMPT, (int)kind);

    ckpt__v1__order__init(&order);
    order.checkpoint_id = 1;
    order.attempt = (uint32_t)atoi(number);
    order.run = RUN;
    order.timeout_ms = 60000;
    order.max_deferral_ms = kind == ATTEMPT_START ? 20000 : 0;
    event.attempt.order = &order;
    post(job, &event);
}

static void tell_walltime(struct golden_job *job, const char *remaining_ms)
{
    struct job_event event = event_of(JOB_WALLTIME, WALLTIME_TOLD);

    event.walltime.word = (struct walltime_word){.came_us = job->seen.process.now_us,
                                                 .run = RUN,
                                                 .remaining_ms = strtoull(remaining_ms, NULL, 10),
                                                 .grace_ms = 2000,
                                                 .walltime_ms = 100000};
    post(job, &event);
}

static void end_put(struct golden_job *job, const char *size)
{
    struct job_event event = event_of(JOB_ATTEMPT, ATTEMPT_PUT_ENDED);

    event.attempt.put = (struct attempt_put){.verified = strcmp(size, "failed") != 0,
                                             .reason = CKPT__V1__REASON__REASON_WRITE_FAILED,
                                             .detail = "no space",
                                             .size_bytes = strtoull(size, NULL, 10)};
    post(job, &event);
}

static void post_of_process(struct golden_job *job, const char *name, const char *value)
{
    struct job_event event = event_of(JOB_PROCESS, PROCESS_STARTED);

    if (strcmp(name, "start") == 0) {
        event.process.pid = (uint32_t)atoi(value);
        event.process.start_ticks = 1;
        event.process.report = true;
        job->seen.process.main_alive = job->seen.process.group_alive = true;
    } else if (strcmp(name, "stragglers") == 0) {
        event.process.kind = PROCESS_STRAGGLERS_LOOKED;
        event.process.count = (size_t)atoi(value);
    } else {
        event.process.kind = PROCESS_STOP;
        event.process.ask =
            (struct process_stop_ask){.cause = STOP_BY_ORDER,
                                      .reason = CKPT__V1__REASON__REASON_ALLOCATION_ENDED,
                                      .grace_ms = strtoull(value, NULL, 10),
                                      .run = RUN};
    }
    post(job, &event);
}

static void restart(struct golden_job *job)
{
    job->entry = job->journal;
    job->process = (struct process){.state = PROCESS_ABSENT, .wait_status = PROCESS_STATUS_UNKNOWN};
    job->attempt = (struct attempt){.state = ATTEMPT_NONE};
    post_kind(job, JOB_PROCESS, PROCESS_RESUMED);
    if (job->entry.phase != PHASE_NONE)
        post_kind(job, JOB_ATTEMPT, ATTEMPT_RESUME);
}

static void post_named(struct golden_job *job, const char *name)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(plain[i].name, name) == 0) {
            post_kind(job, plain[i].part, plain[i].kind);
            return;
        }
    }
    fprintf(stderr, "what is \"%s\"?\n", name);
    abort();
}

static void play_line(void *context, char *line)
{
    struct golden_job *job = context;
    const char *words[WORDS] = {"", "", "", ""};
    char *rest = line;
    struct job_event event;

    for (size_t i = 0; i < WORDS && rest != NULL; i++)
        words[i] = strsep(&rest, " ");
    if (strcmp(words[0], "see") == 0) {
        see(job, words[1], words[2]);
    } else if (strcmp(words[0], "after") == 0) {
        job->seen.process.now_us += 1000 * strtoull(words[1], NULL, 10);
        job->seen.attempt.now_us = job->seen.process.now_us;
    } else if (strcmp(words[0], "order") == 0) {
        give_order(job, ATTEMPT_START, words[1]);
    } else if (strcmp(words[0], "hurry") == 0) {
        give_order(job, ATTEMPT_HURRY, words[1]);
    } else if (strcmp(words[0], "walltime") == 0) {
        tell_walltime(job, words[1]);
    } else if (strcmp(words[0], "put") == 0) {
        end_put(job, words[1]);
    } else if (strcmp(words[0], "defer") == 0) {
        event = event_of(JOB_ATTEMPT, ATTEMPT_DEFER);
        event.attempt.defer_ms = strtoull(words[1], NULL, 10);
        post(job, &event);
    } else if (strcmp(words[0], "restart") == 0) {
        restart(job);
    } else if (words[1][0] != '\0') {
        post_of_process(job, words[0], words[1]);
    } else {
        post_named(job, words[0]);
    }
    drain(job);
}

static void play(struct transcript *out, const char *source)
{
    struct golden_job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        abort();
    job->out = out;
    job->process.wait_status = PROCESS_STATUS_UNKNOWN;
    snprintf(job->entry.allocation_id, sizeof(job->entry.allocation_id), "job");
    snprintf(job->seen.attempt.sentinel.status, sizeof(job->seen.attempt.sentinel.status), "0");
    job->entry.run = job->entry.named_run = RUN;
    job->seen.process.now_us = job->seen.attempt.now_us = 1000000000;
    play_lines(out, source, play_line, job);
    free(job);
}

int main(int argc, char **argv)
{
    return transcripts_main("tests/golden/job", play, argc, argv);
}
