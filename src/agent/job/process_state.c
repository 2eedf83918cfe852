/* The states of a process: their names, which moves there are, and what holds in each. See
 * process_step.h. */
#include "src/agent/job/process_step.h"
#include "src/base/check.h"
#include "src/base/text.h"

enum { OWN_GRACE_MS = 30000 }; /* where no order tells it */

static const char *const state_names[] = {PROCESS_STATES(TEXT_OF_NAME)};
static const bool state_moves[PROCESS_STATE_COUNT][PROCESS_STATE_COUNT] = {
    [PROCESS_ABSENT] = {[PROCESS_RUNNING] = true},
    [PROCESS_RUNNING] = {[PROCESS_ENDED] = true, [PROCESS_TERMINATING] = true},
    [PROCESS_ENDED] =
        {[PROCESS_RUNNING] = true, [PROCESS_CLEARING] = true, [PROCESS_TERMINATING] = true},
    [PROCESS_CLEARING] = {[PROCESS_HELD] = true, [PROCESS_TERMINATING] = true},
    [PROCESS_HELD] = {[PROCESS_ABSENT] = true, [PROCESS_TERMINATING] = true},
    [PROCESS_TERMINATING] = {[PROCESS_KILLING] = true, [PROCESS_LEAVING] = true},
    [PROCESS_KILLING] = {[PROCESS_LEAVING] = true},
    [PROCESS_LEAVING] = {[PROCESS_ABSENT] = true},
};

const char *process_state_name(enum process_state state)
{
    CHECK(state < PROCESS_STATE_COUNT);
    return state_names[state];
}

const char *process_stop_cause_name(enum process_stop_cause cause)
{
    static const char *const names[] = {PROCESS_STOP_CAUSES(TEXT_OF_NAME)};

    CHECK(cause < STOP_CAUSE_COUNT);
    return names[cause];
}

bool process_move_allowed(enum process_state from, enum process_state to)
{
    CHECK(from < PROCESS_STATE_COUNT);
    CHECK(to < PROCESS_STATE_COUNT);
    return state_moves[from][to];
}

bool process_state_stops(enum process_state state)
{
    CHECK(state < PROCESS_STATE_COUNT);

    return state == PROCESS_TERMINATING || state == PROCESS_KILLING || state == PROCESS_LEAVING;
}

bool process_state_unstopped(enum process_state state)
{
    CHECK(state < PROCESS_STATE_COUNT);

    return state != PROCESS_ABSENT && !process_state_stops(state);
}

static void check_absent(const struct process *process, const struct ledger_entry *entry)
{
    CHECK(entry->pid == 0);
    CHECK(!entry->still);
    CHECK(entry->kill_at_us == 0);
    CHECK(process->gone_us == 0);
    CHECK(process->stragglers == STRAGGLERS_UNKNOWN);
}

static void check_present(const struct process *process, const struct ledger_entry *entry)
{
    CHECK(entry->pid > 1);
    CHECK(!entry->start_granted);
    CHECK(!entry->restart_awaited);
    if (process_state_stops(process->state)) {
        CHECK(entry->kill_at_us != 0);
        CHECK(process->cause == STOP_BY_TAKEOVER || entry->ended);
    } else {
        CHECK(entry->kill_at_us == 0);
    }
}

void process_check(const struct process *process, const struct ledger_entry *entry)
{
    CHECK(process->state < PROCESS_STATE_COUNT);
    CHECK(process->end == END_STATUS || process->wait_status == PROCESS_STATUS_UNKNOWN);
    if (process->state == PROCESS_ABSENT)
        check_absent(process, entry);
    else
        check_present(process, entry);
    switch (process->state) {
    case PROCESS_RUNNING:
        CHECK(process->gone_us == 0);
        CHECK(process->end == END_UNTOLD);
        CHECK(process->stragglers == STRAGGLERS_UNKNOWN);
        return;
    case PROCESS_ENDED:
        CHECK(process->gone_us != 0);
        CHECK(process->end == END_UNTOLD);
        CHECK(process->stragglers == STRAGGLERS_UNKNOWN);
        return;
    case PROCESS_CLEARING:
        CHECK(process->gone_us != 0);
        return;
    case PROCESS_HELD:
    case PROCESS_LEAVING:
        CHECK(process->gone_us != 0);
        CHECK(process->stragglers == STRAGGLERS_GONE);
        return;
    case PROCESS_KILLING:
        CHECK(process->killed_us != 0);
        return;
    case PROCESS_ABSENT:
    case PROCESS_TERMINATING:
    case PROCESS_STATE_COUNT:
        return;
    }
}

uint64_t process_grace_ms(const struct ledger_entry *entry)
{
    return entry->grace_ms > 0 ? entry->grace_ms : OWN_GRACE_MS;
}

Ckpt__V1__Reason process_stop_why(const struct process *process, const struct ledger_entry *entry)
{
    CHECK(process->cause == STOP_BY_TAKEOVER || entry->ended);
    return process->cause == STOP_BY_TAKEOVER ? CKPT__V1__REASON__REASON_APPLICATION_EXITED
                                              : (Ckpt__V1__Reason)entry->end_reason;
}

Ckpt__V1__ApplicationEnd process_end(const struct process *process)
{
    if (process->end_asked)
        return CKPT__V1__APPLICATION_END__APPLICATION_END_ASKED;
    return process->end == END_UNTOLD ? CKPT__V1__APPLICATION_END__APPLICATION_END_UNSEEN
                                      : CKPT__V1__APPLICATION_END__APPLICATION_END_UNSPECIFIED;
}

const char *process_end_detail(const struct process *process)
{
    if (process->end == END_ON_SIGNAL)
        return "its ckpt-run was told to end it: status 0 does not say that its work is complete";
    if (process->end == END_STATUS)
        return process->why;
    return process_state_stops(process->state)
               ? "its ckpt-run was gone: ended by the agent, another ckpt-run starts it again"
               : "exit status unknown: neither ckpt-run nor the agent saw the end";
}
