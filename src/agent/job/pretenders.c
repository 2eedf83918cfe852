/* Processes that say that they are a job's. See pretenders.h. */
#include "src/agent/job/pretenders.h"

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

static void pretender_drop(struct pretender *pretender)
{
    list_remove(&pretender->node);
    free(pretender);
}

static bool pretender_lives(const struct agent *agent, const struct pretender *pretender)
{
    CHECK(pretender->start_ticks > 0);
    return machine_group_alive(&agent->machine, pretender->pid, pretender->start_ticks,
                               pretender->uid);
}

static bool pretender_is_of(const struct pretender *pretender, const char *allocation_id)
{
    return strcmp(pretender->allocation_id, allocation_id) == 0;
}

static void pretenders_look(void *data);

static struct clock_timer *pretenders_timer(struct agent *agent)
{
    CHECK(agent->pretender_count > 0);
    if (agent->pretenders_timer == NULL)
        agent->pretenders_timer =
            agent->clock.timer_new(agent->clock.context, pretenders_look, agent);
    return agent->pretenders_timer;
}

static void pretender_end(struct agent *agent, struct pretender *pretender, uint64_t grace_ms,
                          const char *why)
{
    const struct machine_ops *machine = &agent->machine;

    CHECK(pretender->pid > 1);
    if (pretender->kill_at_us != 0)
        return;
    log_warning("pretender_ended", "allocation=%s pid=%d uid=%u grace_ms=%" PRIu64 " text=\"%s\"",
                pretender->allocation_id, (int)pretender->pid, (unsigned)pretender->uid, grace_ms,
                why);
    pretender->kill_at_us = agent_now_us(agent) + grace_ms * 1000;
    if (!pretender_lives(agent, pretender))
        return;
    (void)machine->group_signal(machine->context, pretender->pid, SIGCONT, NULL);
    (void)machine->group_signal(machine->context, pretender->pid, SIGTERM, NULL);
    agent->clock.timer_start(pretenders_timer(agent), LOOK_AGAIN_US);
}

static void stragglers_killed(void *data, size_t count)
{
    (void)data, (void)count;
}

/* With what it has started, wherever that is. */
static void pretender_kill(struct agent *agent, const struct pretender *pretender)
{
    const struct machine_ops *machine = &agent->machine;
    struct job_identity job = {.stragglers = {.run = pretender->run,
                                              .start_ticks = pretender->start_ticks,
                                              .uid = pretender->uid},
                               .group = pretender->pid};

    text_copy(job.stragglers.allocation_id, sizeof(job.stragglers.allocation_id),
              pretender->allocation_id);
    text_copy(job.stragglers.work_dir, sizeof(job.stragglers.work_dir), pretender->work_dir);
    (void)machine->group_signal(machine->context, pretender->pid, SIGKILL, NULL);
    (void)machine->stragglers_find(machine->context, &job, true, stragglers_killed, NULL);
}

/* The dead go; who was told to end and has not is killed. */
static void pretenders_look(void *data)
{
    struct agent *agent = data;
    bool again = false;

    CHECK(agent->pretender_count <= PRETENDERS_MAX);
    CHECK(list_empty(&agent->pretenders) == (agent->pretender_count == 0));
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders;) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        at = at->next;
        if (!pretender_lives(agent, pretender)) {
            pretender_drop(pretender);
            agent->pretender_count--;
            continue;
        }
        if (pretender->kill_at_us == 0)
            continue;
        if (agent_now_us(agent) >= pretender->kill_at_us)
            pretender_kill(agent, pretender);
        again = true;
    }
    if (again)
        agent->clock.timer_start(pretenders_timer(agent), LOOK_AGAIN_US);
}

void pretenders_add(struct agent *agent, const struct pretender *pretender)
{
    char run[CHECKPOINT_ID_TEXT_BYTES];
    struct pretender *kept;

    CHECK(pretender->pid > 1);
    CHECK(pretender->start_ticks > 0);
    CHECK(id_valid(pretender->allocation_id));
    CHECK(agent->pretender_count <= PRETENDERS_MAX);
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders; at = at->next) {
        const struct pretender *other = LIST_ITEM(at, struct pretender, node);
        if (other->pid == pretender->pid && other->start_ticks == pretender->start_ticks)
            return;
    }
    if (agent->pretender_count == PRETENDERS_MAX)
        return;
    log_warning("pretender",
                "allocation=%s run=%s pid=%d uid=%u text=\"it says that it is of this job, which "
                "nothing else says: it is not taken for it\"",
                pretender->allocation_id, checkpoint_id_format(pretender->run, run),
                (int)pretender->pid, (unsigned)pretender->uid);
    kept = check_calloc(1, sizeof(*kept));
    *kept = *pretender;
    kept->kill_at_us = 0;
    list_push_back(&agent->pretenders, &kept->node);
    agent->pretender_count++;
}

void pretenders_free(struct agent *agent)
{
    while (!list_empty(&agent->pretenders))
        pretender_drop(LIST_ITEM(agent->pretenders.next, struct pretender, node));
    agent->pretender_count = 0;
    agent->clock.timer_free(agent->pretenders_timer);
    agent->pretenders_timer = NULL;
}

void pretenders_take_orders(struct agent *agent)
{
    pretenders_look(agent);
    if (agent->orders == NULL)
        return;
    CHECK(agent->orders->n_parts == 0 || agent->orders->parts != NULL);
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders; at = at->next) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        const Ckpt__V1__AllocationPart *part =
            reconcile_part(agent->orders, pretender->allocation_id);
        if (part != NULL && part->run != 0 && part->run != pretender->run)
            pretender_end(agent, pretender, part->grace_ms,
                          "the cluster names another run of the job on this node");
        else if (part == NULL && reconcile_judges(agent->orders, pretender->run))
            pretender_end(agent, pretender, USUAL_GRACE_MS,
                          "the cluster names no run of the job on this node");
    }
}

bool pretenders_terminate(struct agent *agent, const Ckpt__V1__Order *order)
{
    bool lives = false;

    CHECK(order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE);
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders; at = at->next) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        if (!pretender_is_of(pretender, order->allocation_id) || pretender->run != order->run)
            continue;
        pretender_end(agent, pretender, order->grace_ms, "the run that it says it is of is to end");
        lives = lives || (pretender->kill_at_us != 0 && pretender_lives(agent, pretender));
    }
    return lives;
}

pid_t pretenders_take_over(struct agent *agent, const char *allocation_id, uid_t uid)
{
    const bool waits = agent_now_us(agent) - agent->started_us < COMES_BACK_US;
    pid_t pid = 0;

    CHECK(id_valid(allocation_id));
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders; at = at->next) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        if (!pretender_is_of(pretender, allocation_id) || pretender->uid != uid ||
            !pretender_lives(agent, pretender))
            continue;
        if (!waits)
            pretender_end(agent, pretender, USUAL_GRACE_MS, "its user starts the job anew");
        pid = pretender->pid;
    }
    return pid;
}

void pretenders_take_owner(struct agent *agent, const char *allocation_id, uid_t owner)
{
    CHECK(id_valid(allocation_id));
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders; at = at->next) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        if (pretender_is_of(pretender, allocation_id) && pretender->uid != owner &&
            pretender->uid != 0)
            pretender_end(agent, pretender, USUAL_GRACE_MS, "the job is another user's");
    }
}

void pretenders_attached(struct agent *agent, const struct ledger_entry *entry)
{
    CHECK(id_valid(entry->allocation_id));
    for (struct list *at = agent->pretenders.next; at != &agent->pretenders;) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        at = at->next;
        if (!pretender_is_of(pretender, entry->allocation_id) || pretender->run != entry->run ||
            pretender->uid != entry->uid || pretender->start_ticks < entry->start_ticks)
            continue;
        pretender_drop(pretender);
        agent->pretender_count--;
    }
}
