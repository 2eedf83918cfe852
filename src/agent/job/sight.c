/* What a step of a job needs to know of the world. See sight.h. */
#include "src/agent/job/sight.h"

#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/agent/job/memory.h"
#include "src/agent/job/ranks_stream.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/dest/destination.h"

/* ---- the process ---- */

/* Of the run that is known here: as it was told, or, for "", as it lies in the work folder. */
static bool find_note(const struct allocation *allocation, const char *told,
                      struct end_note *ret_note)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct machine_file file = {allocation->folder.opened, allocation_user(allocation),
                                      END_NOTE_NAME};
    char text[END_NOTE_BYTES];

    if (told[0] == '\0' && machine->file_read_own(machine->context, &file, text, sizeof(text)) < 0)
        return false;
    return end_note_read(told[0] != '\0' ? told : text, ret_note) &&
           ret_note->run == allocation->entry.run;
}

static bool main_unreaped(const struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    struct proc_stat stat;

    CHECK(entry->pid != 0);
    return machine->process_read(machine->context, (pid_t)entry->pid, &stat, NULL) == 0 &&
           stat.start_ticks == entry->start_ticks && stat.parent > 1;
}

/* Whether anything of the group lives is looked for only where it counts: the kernel is asked for
 * the group of each process of the node. */
static void see_process(const struct allocation *allocation, bool stops, const char *told,
                        struct process_facts *facts)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->pid != 0);
    facts->main_alive = machine_alive(machine, (pid_t)entry->pid, entry->start_ticks);
    if (!facts->main_alive || stops || entry->ended ||
        process_state_stops(allocation->process.state))
        facts->group_alive =
            machine_group_alive(machine, (pid_t)entry->pid, entry->start_ticks, entry->uid);
    if (facts->main_alive)
        return;
    facts->unreaped = main_unreaped(allocation);
    if (allocation->process.end == END_UNTOLD)
        facts->note_found = find_note(allocation, told, &facts->note);
}

/* A start that failed may be told by a note. */
static void see_nothing(struct allocation *allocation, const struct process_event *event,
                        struct process_facts *facts)
{
    const struct ledger_entry *entry = &allocation->entry;

    CHECK(allocation->process.state == PROCESS_ABSENT);
    if (event->kind == PROCESS_WOKEN)
        facts->note_found = find_note(allocation, event->why, &facts->note);
    else if (event->kind == PROCESS_LOOK && entry->start_granted && allocation->stream == NULL &&
             user_path_ready(&allocation->folder, entry->work_dir, entry->uid))
        facts->note_found = find_note(allocation, "", &facts->note);
}

static void see_event_of_process(struct allocation *allocation, const struct process_event *event,
                                 struct process_facts *facts)
{
    bool stops = event->kind == PROCESS_STOP || event->kind == PROCESS_TAKE_OVER;

    if (event->kind == PROCESS_STARTED || event->kind == PROCESS_UNATTENDED ||
        event->kind == PROCESS_STRAGGLERS_LOOKED || event->kind == PROCESS_ATTEMPT_ENDED)
        return;
    if (allocation->entry.pid != 0)
        see_process(allocation, stops, event->kind == PROCESS_WOKEN ? event->why : "", facts);
    else
        see_nothing(allocation, event, facts);
}

/* ---- the checkpoint attempt ---- */

struct ask_target sight_target(struct allocation *allocation)
{
    struct asked *asked = &allocation->executor.asked;

    CHECK(allocation->entry.rank_count <= LEDGER_RANKS_MAX);
    *asked = (struct asked){.machine = allocation_machine(allocation),
                            .group = (pid_t)allocation->entry.pid,
                            .ranks = allocation->entry.ranks,
                            .rank_count = allocation->entry.rank_count,
                            .seen = allocation->executor.seen,
                            .tells = ranks_stream_tells,
                            .tell = ranks_stream_tell,
                            .teller = allocation,
                            .user = allocation_user(allocation),
                            .folder = allocation->folder.opened,
                            .registered = allocation->entry.endpoint[0] != '\0',
                            .socket = allocation->socket.opened,
                            .why = allocation->socket.why};
    (void)allocation_region(&allocation->entry, asked->region);
    return (struct ask_target){.node = &asked_node,
                               .context = asked,
                               .loop = allocation->agent->loop,
                               .group = asked->group,
                               .uid = asked->user.uid,
                               .signal = (int)allocation->entry.ask_signal,
                               .speaks_for_all = allocation->entry.ranks_declared == 1};
}

/* Of those that are to be asked. */
static struct ask_target sight_target_ranks(struct allocation *allocation,
                                            const struct ranks_table *table)
{
    struct ask_target target = sight_target(allocation);
    struct asked *asked = &allocation->executor.asked;

    CHECK(table == NULL || allocation->executor.seen != NULL);
    asked->ranks = table == NULL ? NULL : table->items;
    asked->rank_count = table == NULL ? 0 : table->count;
    return target;
}

/* Nobody has named a way and it shows none: it is saved from outside where that may be. It has as
 * long to show one as it has to install a handler. True: look again. */
static bool take_outside(struct allocation *allocation, const struct ask_target *target,
                         uint64_t now_us)
{
    struct ledger_entry *entry = &allocation->entry;
    const struct ask_ops *ask = allocation->executor.ask;
    struct ask_process culprit = {0};

    if (entry->way_open != WAY_SOUGHT || entry->outside[0] == '\0' || ask != ask_find("") ||
        target->node->job_catches(target->context, ask->signal, &culprit) != ASK_NONE_CATCHES)
        return false;
    if (now_us - allocation->process.started_us < ATTEMPT_HANDLER_WAIT_US)
        return true;
    CHECK(ask_find(entry->outside) != NULL);
    text_copy(entry->profile, sizeof(entry->profile), entry->outside);
    text_copy(entry->endpoint, sizeof(entry->endpoint), entry->outside_endpoint);
    entry->way_open = WAY_OUTSIDE;
    return true;
}

/* Whether it can be asked now. */
static void see_handler(struct allocation *allocation, struct attempt_facts *facts)
{
    const struct ledger_entry *entry = &allocation->entry;
    const struct ask_ops *ask = allocation->executor.ask;
    struct ask_target target;

    CHECK(attempt_awaits(&allocation->attempt) || allocation->attempt.state == ATTEMPT_DEFERRED);
    if (!user_path_ready(&allocation->folder, entry->work_dir, entry->uid)) {
        facts->ready = CKPT__V1__REASON__REASON_WRITE_FAILED;
        text_copy(facts->text, sizeof(facts->text), allocation->folder.why);
        return;
    }
    if (entry->endpoint[0] != '\0')
        (void)user_path_ready(&allocation->socket, entry->endpoint + strlen("unix:"), entry->uid);
    if (!ranks_see(allocation, &facts->ranks, facts->text)) {
        facts->ready = CKPT__V1__REASON__REASON_NO_HANDLER;
        facts->looking = allocation->executor.ranks_look != NULL;
    } else {
        target = sight_target_ranks(allocation, facts->ranks);
        if (ask->preflight(ask, &target, facts->text, sizeof(facts->text)) != ASK_READY ||
            (ask->signal != 0 && ranks_executed_since(allocation, facts->text))) {
            facts->ready = CKPT__V1__REASON__REASON_NO_HANDLER;
            facts->looking = allocation->socket.opening != NULL ||
                             take_outside(allocation, &target, facts->now_us);
        }
    }
    facts->opening = facts->ready == CKPT__V1__REASON__REASON_NO_HANDLER && !facts->looking &&
                     ranks_opening(allocation, facts->text);
}

/* What each rank has said, and before that whether it is there: what it says as its last word is
 * found all the same. */
static void see_answers(struct allocation *allocation, const struct ask_target *target,
                        struct attempt_facts *facts)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    struct rank_fact *answers = ranks_answers(allocation);

    CHECK(entry->rank_count > 0);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct ledger_rank *rank = &entry->ranks[i];
        struct err err = {0};
        answers[i] = (struct rank_fact){
            .gone = rank->pid != 0 && !machine_alive(machine, (pid_t)rank->pid, rank->start_ticks)};
        answers[i].answer = allocation->executor.ask->poll(target, allocation->attempt.hint, i,
                                                           &answers[i].sentinel, &err);
        text_copy(answers[i].text, sizeof(answers[i].text), err.text);
    }
    facts->answers = answers;
}

static void see_sentinel(struct allocation *allocation, struct attempt_facts *facts)
{
    const struct ask_ops *ask = allocation->executor.ask;
    struct ask_target target = sight_target(allocation);
    const char *hint = allocation->attempt.hint;
    struct err err = {0};

    CHECK(attempt_writes(&allocation->attempt));
    CHECK(!attempt_state_cleans(allocation->attempt.state));
    if (allocation->entry.rank_count > 0) {
        see_answers(allocation, &target, facts);
    } else {
        facts->answer = ask->poll(&target, hint, 0, &facts->sentinel, &err);
        facts->by_command = ask->served;
        text_copy(facts->text, sizeof(facts->text), err.text);
    }
    if (allocation->attempt.state == ATTEMPT_RESUMING)
        facts->prepared = ask->prepared(&target, hint);
    if (attempt_wants_growth(&allocation->attempt, &allocation->entry, facts->now_us))
        facts->growth = ask->growth(&target, hint);
    facts->lost = ask->lost;
}

static bool takes_direct(const struct attempt *attempt)
{
    const struct destination_ops *destination = destination_of(attempt->target_prefix, NULL);

    return destination != NULL && destination->stage != NULL;
}

/* Its application could be asked, as far as the process goes. */
static bool may_ask(const struct allocation *allocation, const struct attempt_facts *facts)
{
    const struct process *process = &allocation->process;

    CHECK(attempt_awaits(&allocation->attempt));
    return process_state_unstopped(process->state) && process->gone_us == 0 && !facts->other_run;
}

/* A question that stands is answered in the way in which it was asked. */
static const struct ask_ops *see_way(struct allocation *allocation, bool resumes)
{
    struct ledger_entry *entry = &allocation->entry;
    const struct ask_ops *ask;
    struct ask_target target;

    CHECK(entry->way_open <= WAY_OUTSIDE);
    if (!way_is_settled(entry) && !resumes && allocation->process.state != PROCESS_ABSENT) {
        target = sight_target(allocation);
        text_copy(entry->profile, sizeof(entry->profile), ask_shown(&target));
    }
    ask = ask_find(entry->profile);
    CHECK(ask != NULL); /* checked when it was attached; "" before */
    return ask;
}

static void see_event_of_attempt(struct allocation *allocation, const struct attempt_event *event,
                                 struct attempt_facts *facts)
{
    const struct attempt *attempt = &allocation->attempt;
    const bool open = attempt->state == ATTEMPT_ASKING || attempt->state == ATTEMPT_ASKED ||
                      attempt->state == ATTEMPT_RESUMING;
    bool looks = event->kind == ATTEMPT_TICK || event->kind == ATTEMPT_GONE ||
                 event->kind == ATTEMPT_CHANGED || event->kind == ATTEMPT_HURRY;

    if (open)
        ranks_see_barrier(allocation, &facts->barrier);
    if (event->kind == ATTEMPT_RESUME || attempt->state == ATTEMPT_WAITING)
        allocation->executor.ask = see_way(allocation, event->kind == ATTEMPT_RESUME);
    if (attempt_awaits(attempt)) {
        facts->takes_direct = takes_direct(attempt);
        memory_home(allocation->agent, allocation_user(allocation).uid, facts->memory);
        facts->memory_room = memory_room(allocation->agent, allocation);
        facts->other_run = allocation->process.state != PROCESS_ABSENT &&
                           allocation_other_run(allocation, attempt->run);
        if (looks && may_ask(allocation, facts))
            see_handler(allocation, facts);
    } else if (attempt->state == ATTEMPT_DEFERRED && looks &&
               allocation->process.state != PROCESS_ABSENT) {
        see_handler(allocation, facts);
    } else if ((looks && (attempt->state == ATTEMPT_ASKED || attempt->state == ATTEMPT_BROKEN)) ||
               (attempt->state == ATTEMPT_RESUMING && event->kind == ATTEMPT_LOOKED &&
                !facts->folder_opening)) {
        see_sentinel(allocation, facts);
    }
}

/* ---- both ---- */

void sight_see(struct allocation *allocation, const struct job_event *event,
               struct job_facts *ret_facts)
{
    const struct clock_ops *clock = &allocation->agent->clock;
    const struct caller_ops *callers = allocation->agent->callers;
    struct app_stream *stream = allocation->stream;
    uint64_t now_us = agent_now_us(allocation->agent);
    uint64_t wall_ms = clock->wall_ms(clock->context);
    bool opening = allocation->folder.opening != NULL;

    CHECK(event->part <= JOB_WALLTIME);
    CHECK(allocation->executor.stepping);
    *ret_facts = (struct job_facts){
        .process = {.now_us = now_us,
                    .wall_ms = wall_ms,
                    .folder_opening = opening,
                    .attached = stream != NULL,
                    .tells = stream != NULL && callers->tells(stream),
                    .waits = stream != NULL && callers->waits(stream)},
        .attempt = {.now_us = now_us,
                    .copy_max_bytes =
                        allocation->attempt.wipe ? 0 : allocation->agent->copies_max_bytes,
                    .wall_ms = wall_ms,
                    .folder_opening = opening,
                    .attached = stream != NULL}};
    if (allocation->entry.memory[0] != '\0' &&
        memory_copies_max(allocation->agent) < ret_facts->attempt.copy_max_bytes)
        ret_facts->attempt.copy_max_bytes = memory_copies_max(allocation->agent);
    if (event->part == JOB_PROCESS)
        see_event_of_process(allocation, &event->process, &ret_facts->process);
    else if (event->part == JOB_ATTEMPT)
        see_event_of_attempt(allocation, &event->attempt, &ret_facts->attempt);
    else if (event->walltime.kind == WALLTIME_OVER && allocation->entry.pid != 0)
        see_process(allocation, true, "", &ret_facts->process);
}
