/* Finds jobs that hang. See hangs.h. */
#include "src/broker/decide/hangs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/hang.h"
#include "fsm/level.h"
#include "fsm/pause.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/hook.h"

enum { STATE_BYTES = 96, BEHIND_TEXT_BYTES = 384 };

struct behind {
    uint32_t number, pid;
    uint64_t step, step_most;
    const char *node; /* filled when those of several nodes are put together */
    char state[STATE_BYTES];
};

/* Of the steps of a job's ranks on a node, as these say them. */
struct word {
    char id[ID_MAX_BYTES + 1];
    uint64_t run, quiet_ms, stepped_ms, gap_p99_ms, highest_step;
    bool under_way;
    uint64_t gone_ms; /* its node speaks of the job no more, since then; 0: it does */
    size_t behind_count;
    struct behind *behind;
};

struct node_words {
    bool heard;
    uint64_t since_ms; /* the first heartbeat of the node's stream */
    uint64_t heard_ms; /* the last one */
    size_t count;
    struct word *words;
};

struct hangs {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving, armed;      /* armed: a look is to come */
    struct node_words *nodes; /* by slot */
    uint32_t node_count;
    size_t word_count;
    uint32_t in_flight;
    bool proposed; /* by this look */
};

/* A proposal in flight. */
struct finding {
    struct hangs *hangs;
    char id[ID_MAX_BYTES + 1], evidence[FSM_HANG_TEXT_BYTES];
    uint64_t quiet_ms; /* 0: it steps again */
};

/* All nodes of a job, put together. */
struct judged {
    uint64_t quiet_ms, gap_p99_ms, highest_step;
    uint32_t parts; /* with ranks that say steps */
};

static const struct fsm *state_of(const struct hangs *hangs)
{
    return replica_fsm(hangs->broker->replica);
}

/* Heartbeats come all the time: none of them puts a look off. */
static void look_in(struct hangs *hangs, uint64_t ms)
{
    if (!hangs->serving || hangs->armed || hangs->word_count == 0 || hangs->in_flight > 0)
        return;
    hangs->armed = true;
    hangs->broker->clock.timer_start(hangs->timer, ms * 1000);
}

/* ---- what the nodes say ---- */

static struct node_words *words_at(struct hangs *hangs, uint32_t slot)
{
    CHECK(slot < FSM_NODES_MAX);
    if (slot >= hangs->node_count) {
        uint32_t count = slot + 1 < 64 ? 64 : slot + 1 + slot / 2;

        hangs->nodes = check_realloc(hangs->nodes, count, sizeof(*hangs->nodes));
        memset(hangs->nodes + hangs->node_count, 0,
               (count - hangs->node_count) * sizeof(*hangs->nodes));
        hangs->node_count = count;
    }
    return &hangs->nodes[slot];
}

static void words_drop(struct hangs *hangs, struct node_words *node)
{
    CHECK(hangs->word_count >= node->count);
    hangs->word_count -= node->count;
    for (size_t i = 0; i < node->count; i++)
        free(node->words[i].behind);
    free(node->words);
    node->words = NULL;
    node->count = 0;
}

static void behind_take(struct word *word, const Ckpt__V1__StepsWord *steps)
{
    word->behind_count = steps->n_behind < HANGS_BEHIND_MAX ? steps->n_behind : HANGS_BEHIND_MAX;
    word->behind = check_calloc(word->behind_count + 1, sizeof(*word->behind));
    for (size_t i = 0; i < word->behind_count; i++) {
        const Ckpt__V1__BehindRank *rank = steps->behind[i];

        word->behind[i] = (struct behind){.number = rank->number,
                                          .pid = rank->pid,
                                          .step = rank->step,
                                          .step_most = rank->step_most};
        text_shown(rank->state, word->behind[i].state, STATE_BYTES);
    }
}

static void word_take(struct word *word, const Ckpt__V1__RunningAllocation *running)
{
    const Ckpt__V1__StepsWord *steps = running->steps;

    *word = (struct word){.run = running->run,
                          .quiet_ms = steps->quiet_ms,
                          .stepped_ms = steps->stepped_ms,
                          .gap_p99_ms = steps->gap_p99_ms,
                          .highest_step = steps->highest_step,
                          .under_way = steps->under_way};
    text_copy(word->id, sizeof(word->id), running->allocation_id);
    behind_take(word, steps);
}

static bool says_steps(const Ckpt__V1__RunningAllocation *running)
{
    return running->steps != NULL && id_valid(running->allocation_id);
}

/* A part that has finished stepped until then: its job was not quiet before. Kept while the job has
 * the node, in this run. */
static bool word_is_kept(const struct hangs *hangs, uint32_t slot, const struct word *word,
                         const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    const struct fsm_allocation *job = fsm_allocation_find(state_of(hangs), word->id);

    for (size_t i = 0; i < heartbeat->n_running; i++)
        if (says_steps(heartbeat->running[i]) &&
            strcmp(heartbeat->running[i]->allocation_id, word->id) == 0)
            return false;
    if (job == NULL || job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING)
        return false;
    for (uint32_t i = 0; i < job->node_count; i++)
        if (job->nodes[i].node_slot == slot)
            return job->nodes[i].run == word->run;
    return false;
}

static void word_keep(struct word *to, const struct word *from, uint64_t now_ms)
{
    *to = *from;
    to->gone_ms = from->gone_ms != 0 ? from->gone_ms : now_ms;
    to->behind = NULL; /* its ranks have ended */
    to->behind_count = 0;
}

void hangs_heard(struct hangs *hangs, uint32_t node_slot, const Ckpt__V1__AgentHeartbeat *heartbeat)
{
    struct node_words *node;
    struct word *words;
    size_t count = 0;

    if (hangs == NULL)
        return;
    node = words_at(hangs, node_slot);
    node->heard_ms = replica_state_ms(hangs->broker->replica);
    if (!node->heard)
        node->since_ms = node->heard_ms;
    node->heard = true;
    words = check_calloc(heartbeat->n_running + node->count + 1, sizeof(*words));
    for (size_t i = 0; i < heartbeat->n_running; i++)
        if (says_steps(heartbeat->running[i]))
            word_take(&words[count++], heartbeat->running[i]);
    for (size_t i = 0; i < node->count; i++)
        if (word_is_kept(hangs, node_slot, &node->words[i], heartbeat))
            word_keep(&words[count++], &node->words[i], node->heard_ms);
    words_drop(hangs, node);
    node->words = words;
    node->count = count;
    hangs->word_count += count;
    look_in(hangs, HANGS_LOOK_MS);
}

void hangs_unheard(struct hangs *hangs, uint32_t node_slot)
{
    if (hangs == NULL || node_slot >= hangs->node_count)
        return;
    words_drop(hangs, &hangs->nodes[node_slot]);
    hangs->nodes[node_slot] = (struct node_words){.heard = false};
}

/* NULL: none of its ranks says steps there. */
static const struct word *word_of(const struct hangs *hangs, uint32_t slot, const char *id)
{
    const struct node_words *node = slot < hangs->node_count ? &hangs->nodes[slot] : NULL;

    for (size_t i = 0; node != NULL && i < node->count; i++)
        if (strcmp(node->words[i].id, id) == 0)
            return &node->words[i];
    return NULL;
}

/* ---- is it a hang ---- */

/* Silence is noticed as that of a node is. */
static bool node_is_heard(const struct hangs *hangs, uint32_t slot)
{
    const uint64_t now_ms = replica_state_ms(hangs->broker->replica);

    return slot < hangs->node_count && hangs->nodes[slot].heard &&
           now_ms - hangs->nodes[slot].heard_ms <=
               fsm_policy(state_of(hangs))->node_degraded_after_ms;
}

/* Its node says no more of it: until then the job was not quiet. NULL allowed. */
static void part_gone(const struct hangs *hangs, const struct word *word, struct judged *judged)
{
    uint64_t now_ms = replica_state_ms(hangs->broker->replica);

    if (word != NULL && word->gone_ms != 0 && now_ms - word->gone_ms < judged->quiet_ms)
        judged->quiet_ms = now_ms - word->gone_ms;
}

/* False: something there may step, or what is said is of another run. */
static bool part_add(const struct hangs *hangs, const struct fsm_allocation *job, uint32_t place,
                     struct judged *judged)
{
    const uint32_t slot = job->nodes[place].node_slot;
    const struct word *word = word_of(hangs, slot, job->id);
    uint64_t seen_ms;

    if (!node_is_heard(hangs, slot))
        return false;
    /* ranks may have to find an agent that began again before it hears of their steps */
    seen_ms = hangs->nodes[slot].heard_ms - hangs->nodes[slot].since_ms;
    if (seen_ms < judged->quiet_ms)
        judged->quiet_ms = seen_ms;
    part_gone(hangs, word, judged);
    if (word == NULL || word->gone_ms != 0)
        return true;
    if (word->under_way || word->run != job->nodes[place].run)
        return false;
    judged->parts++;
    if (word->quiet_ms < judged->quiet_ms)
        judged->quiet_ms = word->quiet_ms;
    if (word->gap_p99_ms > judged->gap_p99_ms)
        judged->gap_p99_ms = word->gap_p99_ms;
    if (word->highest_step > judged->highest_step)
        judged->highest_step = word->highest_step;
    return true;
}

static bool job_hangs(const struct hangs *hangs, const struct fsm_allocation *job,
                      struct judged *ret_judged)
{
    const struct fsm *fsm = state_of(hangs);

    *ret_judged = (struct judged){.quiet_ms = FSM_DURATION_MAX_MS};
    if (fsm_hang_possible(fsm, job) != FSM_OK)
        return false;
    for (uint32_t i = 0; i < job->node_count; i++) {
        if (!fsm_hang_steps(fsm, job, i)) {
            const struct word *word = word_of(hangs, job->nodes[i].node_slot, job->id);

            if (word != NULL && word->gone_ms == 0)
                return false; /* its last heartbeat is from before its end */
            part_gone(hangs, word, ret_judged);
        } else if (!part_add(hangs, job, i, ret_judged))
            return false;
    }
    return ret_judged->parts > 0 &&
           ret_judged->quiet_ms >= fsm_hang_limit_ms(fsm_policy(fsm), ret_judged->gap_p99_ms);
}

/* A rank has stepped since the job was told HUNG. */
static bool word_steps_again(const struct hangs *hangs, uint32_t slot, const struct word *word,
                             const struct fsm_allocation *job)
{
    const uint64_t heard_ms = hangs->nodes[slot].heard_ms;

    return word->stepped_ms <= heard_ms &&
           heard_ms - word->stepped_ms > job->last_step_at_ms + HANGS_SLACK_MS;
}

/* ---- the evidence ---- */

static int compare_behind(const void *left, const void *right)
{
    const struct behind *a = left, *b = right;

    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Those of all nodes, the lowest step first; those that are behind alone, where some are. */
static size_t collect_behind(const struct hangs *hangs, const struct fsm_allocation *job,
                             uint64_t highest_step, struct behind **ret_ranks)
{
    struct behind *ranks =
        check_calloc((size_t)job->node_count * HANGS_BEHIND_MAX + 1, sizeof(*ranks));
    size_t count = 0, behind = 0;

    for (uint32_t i = 0; i < job->node_count; i++) {
        const struct word *word = word_of(hangs, job->nodes[i].node_slot, job->id);

        for (size_t k = 0; word != NULL && k < word->behind_count; k++) {
            ranks[count] = word->behind[k];
            ranks[count++].node = fsm_node_name(state_of(hangs), job->nodes[i].node_slot);
        }
    }
    qsort(ranks, count, sizeof(*ranks), compare_behind);
    for (size_t i = 0; i < count; i++)
        if (ranks[i].step_most < highest_step)
            ranks[behind++] = ranks[i];
    *ret_ranks = ranks;
    return behind > 0 ? behind : count;
}

/* "rank 3 (n2, pid 47) at step 12 waits in pipe_read (S); ..., and 4 more" */
static void describe_behind(const struct hangs *hangs, const struct fsm_allocation *job,
                            uint64_t highest_step, char text[FSM_HANG_TEXT_BYTES])
{
    static const size_t more_bytes = sizeof(", and 4294967295 more");
    struct behind *ranks;
    size_t count = collect_behind(hangs, job, highest_step, &ranks), used = 0, told = 0;

    snprintf(text, FSM_HANG_TEXT_BYTES, "no node has looked at its processes yet");
    for (; told < count; told++) {
        char one[BEHIND_TEXT_BYTES];
        size_t length = (size_t)snprintf(
            one, sizeof(one), "%srank %" PRIu32 " (%.40s, pid %" PRIu32 ") at step %" PRIu64 " %s",
            told == 0 ? "" : "; ", ranks[told].number, ranks[told].node, ranks[told].pid,
            ranks[told].step, ranks[told].state);

        if (told > 0 && used + length + more_bytes > FSM_HANG_TEXT_BYTES)
            break;
        text_copy(text + used, FSM_HANG_TEXT_BYTES - used, one);
        used = strlen(text);
    }
    if (told < count && used + more_bytes <= FSM_HANG_TEXT_BYTES)
        snprintf(text + used, FSM_HANG_TEXT_BYTES - used, ", and %zu more", count - told);
    free(ranks);
}

/* ---- proposals ---- */

static void tell_hook(const struct finding *finding)
{
    const struct hangs *hangs = finding->hangs;
    const struct fsm_allocation *job = fsm_allocation_find(state_of(hangs), finding->id);

    if (job == NULL || finding->quiet_ms == 0)
        return;
    hook_call(hangs->broker->hook, &(struct hook_news){.event = "hang",
                                                       .allocation_id = job->id,
                                                       .owner = job->owner,
                                                       .tenant = job->tenant,
                                                       .text = finding->evidence,
                                                       .checkpoint_id = job->last_complete_id});
}

static void on_proposed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct finding *finding = data;
    struct hangs *hangs = finding->hangs;

    if (failed == NULL && outcome->status == FSM_OK && finding->quiet_ms == 0) {
        log_info("job_steps_again", "allocation=%s", finding->id);
    } else if (failed == NULL && outcome->status == FSM_OK) {
        log_warning("job_hung", "allocation=%s quiet_ms=%" PRIu64 " text=\"%s\"", finding->id,
                    finding->quiet_ms, finding->evidence);
        tell_hook(finding);
    }
    free(finding);
    CHECK(hangs->in_flight > 0);
    hangs->in_flight--;
    look_in(hangs, HANGS_AGAIN_MS);
}

static void propose_hang(struct hangs *hangs, const struct fsm_allocation *job,
                         const struct judged *judged)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Hang message = CKPT__LOG__V1__HANG__INIT;
    struct finding *finding = check_calloc(1, sizeof(*finding));

    finding->hangs = hangs;
    finding->quiet_ms = judged->quiet_ms;
    text_copy(finding->id, sizeof(finding->id), job->id);
    if (judged->quiet_ms > 0)
        describe_behind(hangs, job, judged->highest_step, finding->evidence);
    message.allocation_id = finding->id;
    message.quiet_ms = judged->quiet_ms;
    message.gap_p99_ms = judged->gap_p99_ms;
    message.evidence = finding->evidence;
    message.state_since_ms = job->state_since_ms;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_HANG;
    command.hang = &message;
    hangs->in_flight++;
    hangs->proposed = true;
    replica_propose(hangs->broker->replica, &command, on_proposed, finding);
}

/* ---- looks ---- */

/* Of several nodes that say steps the first one stands for the job. */
static bool stands_for_job(const struct hangs *hangs, const struct fsm_allocation *job,
                           uint32_t slot)
{
    for (uint32_t i = 0; i < job->node_count; i++) {
        const struct word *word = word_of(hangs, job->nodes[i].node_slot, job->id);

        if (word != NULL && word->gone_ms == 0)
            return job->nodes[i].node_slot == slot;
    }
    return false;
}

static void consider_word(struct hangs *hangs, uint32_t slot, const struct word *word)
{
    const struct fsm_allocation *job = fsm_allocation_find(state_of(hangs), word->id);
    struct judged judged = {.quiet_ms = 0};

    if (job == NULL || word->gone_ms != 0 || hangs->in_flight > HANGS_IN_FLIGHT_MAX)
        return;
    if (job->on_hang == CKPT__V1__ON_HANG__ON_HANG_RESTART && !fsm_hung(job) &&
        fsm_pause(state_of(hangs)) != NULL)
        return;
    if (fsm_hung(job) ? word_steps_again(hangs, slot, word, job) && !job->terminating
                      : stands_for_job(hangs, job, slot) && job_hangs(hangs, job, &judged))
        propose_hang(hangs, job, &judged);
}

/* A node that has looked at nobody has seen nothing stuck. */
static void on_timer(void *data)
{
    struct hangs *hangs = data;
    struct fsm_summary summary;

    hangs->armed = false;
    if (!hangs->serving || hangs->in_flight > 0 || hangs->word_count == 0 ||
        fsm_level(state_of(hangs)) < 2)
        return;
    fsm_get_summary(state_of(hangs), &summary);
    hangs->proposed = false;
    hangs->in_flight++; /* a proposal that fails at once must not look again from within */
    for (uint32_t slot = 0; slot < hangs->node_count; slot++)
        for (size_t i = 0; i < hangs->nodes[slot].count; i++)
            if (summary.hung_count > 0 || hangs->nodes[slot].words[i].behind_count > 0)
                consider_word(hangs, slot, &hangs->nodes[slot].words[i]);
    hangs->in_flight--;
    look_in(hangs, hangs->proposed ? HANGS_AGAIN_MS : HANGS_LOOK_MS);
}

static void forget_words(struct hangs *hangs)
{
    for (uint32_t slot = 0; slot < hangs->node_count; slot++)
        hangs_unheard(hangs, slot);
}

static void on_serving(void *context)
{
    struct hangs *hangs = context;

    hangs->serving = true;
    look_in(hangs, HANGS_LOOK_MS);
}

static void on_not_serving(void *context)
{
    struct hangs *hangs = context;

    hangs->serving = hangs->armed = false;
    hangs->broker->clock.timer_stop(hangs->timer);
    forget_words(hangs);
}

struct hangs *hangs_new(struct broker *broker)
{
    struct hangs *hangs = check_calloc(1, sizeof(*hangs));

    hangs->broker = broker;
    hangs->timer = broker->clock.timer_new(broker->clock.context, on_timer, hangs);
    hangs->observer = (struct replica_observer){
        .context = hangs, .acts = true, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &hangs->observer);
    return hangs;
}

void hangs_free(struct hangs *hangs)
{
    if (hangs == NULL)
        return;
    forget_words(hangs);
    free(hangs->nodes);
    hangs->broker->clock.timer_free(hangs->timer);
    free(hangs);
}
