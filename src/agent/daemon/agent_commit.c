/* What the parts of the agent ask of it: the time, an allocation, a fact made durable. See
 * agent.h. */
#include <inttypes.h>
#include <string.h>

#include "fsm/names.h"
#include "src/agent/daemon/agent.h"
#include "src/agent/job/allocation.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum { REPORT_DETAIL_BYTES = 201 };

uint64_t agent_now_us(const struct agent *agent)
{
    return agent->clock.monotonic_us(agent->clock.context);
}

/* The fence is the latest epoch that this agent has obeyed: also what an earlier one asked for is
 * written under it. */
const char *agent_claim(const struct agent *agent, uint64_t mark, char text[MARK_CLAIM_BYTES])
{
    uint64_t own = mark != 0 ? mark : agent->cluster_mark;

    return own == 0 ? NULL : mark_claim_format(own, ledger_fence(agent->ledger).epoch, text);
}

struct allocation *agent_find(const struct agent *agent, const char *allocation_id)
{
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (strcmp(allocation->entry.allocation_id, allocation_id) == 0)
            return allocation;
    }
    return NULL;
}

void agent_reconcile_soon(struct agent *agent)
{
    agent->clock.timer_start(agent->reconcile_timer, 0);
}

void agent_journal_failed(struct agent *agent, const struct err *err)
{
    log_error("journal_failed", "text=\"%s\" next=\"free or repair the disk; applications run on\"",
              err->text);
    agent->machine.fail(agent->machine.context);
}

/* Protocol texts are UTF-8 of at most 200 bytes; what a process or a worker calls itself need not
 * be. */
static void text_tame(const char *text, char tame[REPORT_DETAIL_BYTES])
{
    size_t i = 0;

    for (; text[i] != '\0' && i < REPORT_DETAIL_BYTES - 1; i++)
        tame[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    tame[i] = '\0';
}

static void report_finish(struct agent *agent, Ckpt__V1__AgentReport *report)
{
    char id[CHECKPOINT_ID_TEXT_BYTES], run[CHECKPOINT_ID_TEXT_BYTES];

    report->at_ms = agent->clock.wall_ms(agent->clock.context);
    report->sequence = ledger_last_sequence(agent->ledger) + 1;
    log_info(
        "report",
        "sequence=%" PRIu64 " kind=%s allocation=%s run=%s checkpoint=%s attempt=%" PRIu32
        " reason=%s exit_status=%d detail=\"%s\"",
        report->sequence,
        protobuf_c_enum_descriptor_get_value(&ckpt__v1__report_kind__descriptor, (int)report->kind)
            ->name,
        report->allocation_id, checkpoint_id_format(report->run, run),
        checkpoint_id_format(report->checkpoint_id, id), report->attempt,
        fsm_enum_name(&ckpt__v1__reason__descriptor, (int)report->reason), report->exit_status,
        report->detail);
}

void agent_commit(struct agent *agent, const struct ledger_entry *entry,
                  Ckpt__V1__AgentReport *report, uint64_t since_us)
{
    uint8_t bytes[LEDGER_REPORT_MAX_BYTES];
    char detail[REPORT_DETAIL_BYTES];
    size_t length = 0;
    struct err err;

    if (report != NULL) {
        text_tame(report->detail, detail);
        report->detail = detail;
        report_finish(agent, report);
        CHECK(ckpt__v1__agent_report__get_packed_size(report) <= sizeof(bytes));
        length = ckpt__v1__agent_report__pack(report, bytes);
    }
    if (ledger_commit(agent->ledger, entry, report == NULL ? NULL : bytes, length, since_us,
                      &err) != 0)
        agent_journal_failed(agent, &err);
    if (report != NULL && agent->session != NULL)
        agent->send_reports(agent->session);
}
