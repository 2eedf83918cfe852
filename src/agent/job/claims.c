/* Processes that say that they are a job's. See claims.h. */
#include "src/agent/job/claims.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/reconcile.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"

enum {
    LOOK_AGAIN_US = 200000,
    COMES_BACK_US = 3000000, /* a ckpt-run of before has attached again by then */
    USUAL_GRACE_MS = 30000
};

static void claim_drop(struct claim *claim)
{
    list_remove(&claim->node);
    free(claim);
}

static bool claim_lives(const struct agent *agent, const struct claim *claim)
{
    CHECK(claim->start_ticks > 0);
    return machine_group_alive(&agent->machine, claim->pid, claim->start_ticks, claim->uid);
}

static bool claim_is_of(const struct claim *claim, const char *allocation_id)
{
    return strcmp(claim->allocation_id, allocation_id) == 0;
}

static void claims_look(void *data);

static struct clock_timer *claims_timer(struct agent *agent)
{
    CHECK(agent->claim_count > 0);
    if (agent->claims_timer == NULL)
        agent->claims_timer = agent->clock.timer_new(agent->clock.context, claims_look, agent);
    return agent->claims_timer;
}

static void claim_end(struct agent *agent, struct claim *claim, uint64_t grace_ms, const char *why)
{
    const struct machine_ops *machine = &agent->machine;

    CHECK(claim->pid > 1);
    if (claim->kill_at_us != 0)
        return;
    log_warning("claim_ended", "allocation=%s pid=%d uid=%u grace_ms=%" PRIu64 " text=\"%s\"",
                claim->allocation_id, (int)claim->pid, (unsigned)claim->uid, grace_ms, why);
    claim->kill_at_us = agent_now_us(agent) + grace_ms * 1000;
    if (!claim_lives(agent, claim))
        return;
    (void)machine->group_signal(machine->context, claim->pid, SIGCONT, NULL);
    (void)machine->group_signal(machine->context, claim->pid, SIGTERM, NULL);
    agent->clock.timer_start(claims_timer(agent), LOOK_AGAIN_US);
}

static void stragglers_killed(void *data, size_t count)
{
    (void)data, (void)count;
}

/* With what it has started, wherever that is. */
static void claim_kill(struct agent *agent, const struct claim *claim)
{
    const struct machine_ops *machine = &agent->machine;
    struct job_identity job = {
        .stragglers = {.run = claim->run, .start_ticks = claim->start_ticks, .uid = claim->uid},
        .group = claim->pid};

    text_copy(job.stragglers.allocation_id, sizeof(job.stragglers.allocation_id),
              claim->allocation_id);
    text_copy(job.stragglers.work_dir, sizeof(job.stragglers.work_dir), claim->work_dir);
    (void)machine->group_signal(machine->context, claim->pid, SIGKILL, NULL);
    (void)machine->stragglers_find(machine->context, &job, true, stragglers_killed, NULL);
}

/* The dead go; who was told to end and has not is killed. */
static void claims_look(void *data)
{
    struct agent *agent = data;
    bool again = false;

    CHECK(agent->claim_count <= CLAIMS_MAX);
    CHECK(list_empty(&agent->claims) == (agent->claim_count == 0));
    for (struct list *at = agent->claims.next; at != &agent->claims;) {
        struct claim *claim = LIST_ITEM(at, struct claim, node);
        at = at->next;
        if (!claim_lives(agent, claim)) {
            claim_drop(claim);
            agent->claim_count--;
            continue;
        }
        if (claim->kill_at_us == 0)
            continue;
        if (agent_now_us(agent) >= claim->kill_at_us)
            claim_kill(agent, claim);
        again = true;
    }
    if (again)
        agent->clock.timer_start(claims_timer(agent), LOOK_AGAIN_US);
}

void claims_add(struct agent *agent, const struct claim *claim)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];
    struct claim *kept;

    CHECK(claim->pid > 1);
    CHECK(claim->start_ticks > 0);
    CHECK(id_valid(claim->allocation_id));
    CHECK(agent->claim_count <= CLAIMS_MAX);
    for (struct list *at = agent->claims.next; at != &agent->claims; at = at->next) {
        const struct claim *other = LIST_ITEM(at, struct claim, node);
        if (other->pid == claim->pid && other->start_ticks == claim->start_ticks)
            return;
    }
    if (agent->claim_count == CLAIMS_MAX)
        return;
    log_warning("claim",
                "allocation=%s run=%s pid=%d uid=%u text=\"it says that it is of this job, which "
                "nothing else says: it is not taken for it\"",
                claim->allocation_id, checkpoint_id_format(claim->run, run), (int)claim->pid,
                (unsigned)claim->uid);
    kept = check_calloc(1, sizeof(*kept));
    *kept = *claim;
    kept->kill_at_us = 0;
    list_push_back(&agent->claims, &kept->node);
    agent->claim_count++;
}

void claims_free(struct agent *agent)
{
    while (!list_empty(&agent->claims))
        claim_drop(LIST_ITEM(agent->claims.next, struct claim, node));
    agent->claim_count = 0;
    agent->clock.timer_free(agent->claims_timer);
    agent->claims_timer = NULL;
}

void claims_take_orders(struct agent *agent)
{
    claims_look(agent);
    if (agent->orders == NULL)
        return;
    CHECK(agent->orders->n_parts == 0 || agent->orders->parts != NULL);
    for (struct list *at = agent->claims.next; at != &agent->claims; at = at->next) {
        struct claim *claim = LIST_ITEM(at, struct claim, node);
        const Ckpt__V1__AllocationPart *part = reconcile_part(agent->orders, claim->allocation_id);
        if (part != NULL && part->run != 0 && part->run != claim->run)
            claim_end(agent, claim, part->grace_ms,
                      "the cluster names another run of the job on this node");
        else if (part == NULL && reconcile_judges(agent->orders, claim->run))
            claim_end(agent, claim, USUAL_GRACE_MS,
                      "the cluster names no run of the job on this node");
    }
}

bool claims_terminate(struct agent *agent, const Ckpt__V1__Order *order)
{
    bool lives = false;

    CHECK(order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE);
    for (struct list *at = agent->claims.next; at != &agent->claims; at = at->next) {
        struct claim *claim = LIST_ITEM(at, struct claim, node);
        if (!claim_is_of(claim, order->allocation_id) || claim->run != order->run)
            continue;
        claim_end(agent, claim, order->grace_ms, "the run that it says it is of is to end");
        lives = lives || (claim->kill_at_us != 0 && claim_lives(agent, claim));
    }
    return lives;
}

pid_t claims_take_over(struct agent *agent, const char *allocation_id, uid_t uid)
{
    const bool waits = agent_now_us(agent) - agent->started_us < COMES_BACK_US;
    pid_t pid = 0;

    CHECK(id_valid(allocation_id));
    for (struct list *at = agent->claims.next; at != &agent->claims; at = at->next) {
        struct claim *claim = LIST_ITEM(at, struct claim, node);
        if (!claim_is_of(claim, allocation_id) || claim->uid != uid || !claim_lives(agent, claim))
            continue;
        if (!waits)
            claim_end(agent, claim, USUAL_GRACE_MS, "its user starts the job anew");
        pid = claim->pid;
    }
    return pid;
}

void claims_take_owner(struct agent *agent, const char *allocation_id, uid_t owner)
{
    CHECK(id_valid(allocation_id));
    for (struct list *at = agent->claims.next; at != &agent->claims; at = at->next) {
        struct claim *claim = LIST_ITEM(at, struct claim, node);
        if (claim_is_of(claim, allocation_id) && claim->uid != owner && claim->uid != 0)
            claim_end(agent, claim, USUAL_GRACE_MS, "the job is another user's");
    }
}

void claims_attached(struct agent *agent, const struct ledger_entry *entry)
{
    CHECK(id_valid(entry->allocation_id));
    for (struct list *at = agent->claims.next; at != &agent->claims;) {
        struct claim *claim = LIST_ITEM(at, struct claim, node);
        at = at->next;
        if (!claim_is_of(claim, entry->allocation_id) || claim->run != entry->run ||
            claim->uid != entry->uid || claim->start_ticks < entry->start_ticks)
            continue;
        claim_drop(claim);
        agent->claim_count--;
    }
}
