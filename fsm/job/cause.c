/* The first cause of a job's failure.
 *
 * Flow     An application that ends with an error, or a node that is lost, is the cause; the ends
 *          that follow are its consequences. Ranks often end because their peer's node is off,
 *          and are heard long before the node is known to be. So the plan of such a stop is open
 *          while a node of the job is silent: when that node is lost, it is the cause (V-002).
 */
#include <stdio.h>

#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/job/job.h"
#include "fsm/level.h"
#include "fsm/node_life.h"

void fsm_cause_exited(struct fsm *fsm, struct allocation *allocation, const struct node *node,
                      uint32_t wait_status)
{
    struct fsm_allocation *view = &allocation->view;

    CHECK(view->id != NULL);
    if (fsm_level(fsm) < 2)
        return;
    if (strcmp(view->cause_node_id, node->view.id) != 0)
        view->cause_count = 0;
    view->cause_count += view->cause_count < UINT32_MAX;
    fsm_intern_set(fsm, &view->cause_node_id, node->view.id);
    view->cause_at_ms = fsm->now_ms;
    view->cause_wait_status = wait_status;
}

/* As much as is kept, and of what every terminal takes. */
void fsm_report_detail(const char *text, char detail[FSM_DETAIL_BYTES])
{
    size_t i;

    for (i = 0; i < FSM_DETAIL_BYTES - 1 && text[i] != '\0'; i++)
        detail[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    detail[i] = '\0';
}

void fsm_cause_told(struct fsm *fsm, const struct allocation *allocation, const struct node *node,
                    const Ckpt__V1__AgentReport *report)
{
    char subject[FSM_ID_BYTES + FSM_DETAIL_BYTES], detail[FSM_DETAIL_BYTES];
    const struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_APPLICATION_END,
                                    .allocation_id = allocation->view.id,
                                    .subject = subject,
                                    .number = (uint32_t)report->exit_status};

    CHECK(report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
    if (fsm_level(fsm) < 2 || report->exit_status == 0 || report->detail[0] == '\0' ||
        report->end != CKPT__V1__APPLICATION_END__APPLICATION_END_UNSPECIFIED)
        return;
    fsm_report_detail(report->detail, detail);
    snprintf(subject, sizeof(subject), "%s: %s", node->view.id, detail);
    fsm_event_emit(fsm, &event);
}

static void cause_lost(struct fsm *fsm, struct allocation *allocation, const struct node *node)
{
    uint64_t since_ms = fsm_node_silent_since_ms(&node->view);

    fsm_cause_exited(fsm, allocation, node, 0);
    if (fsm_level(fsm) >= 2 && since_ms != 0)
        allocation->view.cause_at_ms = since_ms;
}

/* A stop for the end of an application, whose plan may become another one. */
static bool cause_may_change(const struct fsm *fsm, const struct allocation *allocation)
{
    return fsm_level(fsm) >= 2 && allocation->view.terminating &&
           allocation->plan_reason == CKPT__V1__REASON__REASON_APPLICATION_EXITED;
}

bool fsm_cause_open(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++) {
        const struct node *node = node_at(fsm, allocation->view.nodes[i].node_slot);
        const struct assignment *part = &allocation->assignments[i];

        if (!part->terminated && !part->exited && node->view.silent_since_ms != 0 &&
            !fsm_node_gone(&node->view))
            return cause_may_change(fsm, allocation);
    }
    return false;
}

void fsm_cause_lost(struct fsm *fsm, struct allocation *allocation, struct assignment *part,
                    struct fsm_plan plan)
{
    const struct node *node = node_at(fsm, allocation->view.nodes[part->share].node_slot);

    CHECK(allocation->view.id != NULL);
    if (!allocation->view.terminating)
        cause_lost(fsm, allocation, node);
    if (!cause_may_change(fsm, allocation) || part->terminated)
        return;
    cause_lost(fsm, allocation, node);
    allocation->plan_state = (uint8_t)plan.state;
    allocation->plan_reason = (uint8_t)plan.reason;
}
