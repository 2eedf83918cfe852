/* Looks for orphans. See scanner.h. One scan: on_timer() finds a target that is due, scan_look()
 * reads the next page by a worker, or ask_node() has a node do so, take_text() notes what either
 * found, scan_finish() keeps it in the place of what the scan before found there. */
#include "src/broker/keep/scanner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/orphans.h"
#include "fsm/pause.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/broker.h"
#include "src/broker/keep/errand.h"
#include "src/broker/keep/orphans.h"
#include "src/dest/mark.h"
#include "src/dest/scan.h"

enum scan_phase {
    SCAN_RESTS, /* until a target is due */
    SCAN_LOOKS, /* this member's workers */
    SCAN_ASKS,  /* the order to a node is being proposed */
    SCAN_WAITS  /* for the pages of that node */
};

struct scanner {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    struct errand errand;
    enum scan_phase phase;
    uint32_t target_slot; /* unless it rests */
    uint64_t made;        /* of that target: its slot may be another one's later */
    char after[SCAN_PATH_BYTES];
    uint32_t pages;
    uint64_t heard_ms; /* of a node's last page */
    struct orphan_scan current;
    struct orphan_list found; /* of this scan, so far */
    struct orphan_list known;
    uint64_t event_sequence; /* events up to here were looked at */
    bool again;              /* it was asked for while one was at work */
    uint64_t removals;       /* proposed by this program: no two have one request id in a term */
    struct scan_of {
        uint64_t made;   /* of the target that was looked through: another one has its slot later */
        uint64_t due_ms; /* on the monotonic clock; 0: now */
        struct orphan_scan ended;
    } targets[FSM_TARGETS_MAX];
};

static const struct fsm *scanner_fsm(const struct scanner *scanner)
{
    return replica_fsm(scanner->broker->replica);
}

static void wake_in(struct scanner *scanner, uint64_t delay_ms)
{
    if (scanner->serving)
        scanner->broker->clock.timer_start(scanner->timer, delay_ms * 1000);
}

/* NULL: it has gone meanwhile, or another one has its slot. */
static const struct fsm_target *current_target(const struct scanner *scanner)
{
    const struct fsm *fsm = scanner_fsm(scanner);
    const struct fsm_target *target = scanner->target_slot < fsm_target_slots(fsm)
                                          ? fsm_target_find_slot(fsm, scanner->target_slot)
                                          : NULL;

    return target != NULL && target->made == scanner->made ? target : NULL;
}

/* ---- what goes without an order ---- */

static bool is_stale(const struct scanner *scanner, const struct orphan *orphan)
{
    return orphan->target_slot == scanner->target_slot &&
           orphan->age_ms >= fsm_policy(scanner_fsm(scanner))->orphan_remove_age_ms &&
           fsm_is_orphan(scanner_fsm(scanner), orphan->checkpoint_id);
}

/* Whatever has become of it: the next scan finds what is left. The state judges each once more, and
 * the worker that removes looks at the mark and the epoch. */
static void propose_removal(struct scanner *scanner, Ckpt__V1__Orphan **named, size_t count)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__RemoveOrphans remove = CKPT__LOG__V1__REMOVE_ORPHANS__INIT;
    struct consensus_status status;
    struct fsm_summary summary;
    char request_id[80];

    replica_get_status(scanner->broker->replica, &status);
    fsm_get_summary(scanner_fsm(scanner), &summary);
    /* one process leads in a term of an epoch */
    snprintf(request_id, sizeof(request_id), "stale-%" PRIu64 "-%" PRIu64 "-%" PRIu64,
             summary.epoch, status.term, ++scanner->removals);
    remove.orphans = named;
    remove.n_orphans = count;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REMOVE_ORPHANS;
    command.remove_orphans = &remove;
    log_info("orphans_removed", "target=%s count=%zu first=%s by=orphan_rule", named[0]->target_id,
             count, named[0]->allocation_id);
    replica_propose(scanner->broker->replica, &command, NULL, NULL);
}

/* S2-016, S2-017. As many as one command names; the rest at the next scan, which then comes soon:
 * *ret_more. */
static void remove_stale(struct scanner *scanner, const struct fsm_target *target, bool *ret_more)
{
    const struct fsm *fsm = scanner_fsm(scanner);
    Ckpt__V1__Orphan items[FSM_ORPHANS_PER_COMMAND_MAX], *named[FSM_ORPHANS_PER_COMMAND_MAX];
    size_t count = 0;

    *ret_more = false;
    if (fsm_policy(fsm)->orphan_rule != CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_REMOVE ||
        fsm_pause(fsm) != NULL)
        return;
    for (size_t i = 0; i < scanner->known.count && !*ret_more; i++) {
        const struct orphan *orphan = &scanner->known.items[i];

        if (!is_stale(scanner, orphan))
            continue;
        *ret_more = count == FSM_ORPHANS_PER_COMMAND_MAX;
        if (*ret_more)
            break;
        orphan_to_message(orphan, target->id, &items[count]);
        named[count] = &items[count];
        count++;
    }
    if (count > 0)
        propose_removal(scanner, named, count);
}

/* ---- the end of a scan ---- */

/* What an operator sees of the target from now on: the new list when all of it was seen, else the
 * old one, and why. */
static void scan_finish(struct scanner *scanner, const char *error)
{
    const uint64_t interval_ms = fsm_policy(scanner_fsm(scanner))->orphan_scan_interval_ms;
    struct scan_of *of = &scanner->targets[scanner->target_slot];
    struct orphan_scan *ended = &of->ended;
    const struct fsm_target *target = current_target(scanner);
    bool whole = error[0] == '\0', more = false;

    if (target != NULL) {
        text_copy(scanner->current.error, sizeof(scanner->current.error), error);
        if (whole) {
            scanner->current.ended_at_ms = replica_state_ms(scanner->broker->replica);
            scanner->current.left_out =
                orphan_list_replace(&scanner->known, scanner->target_slot, &scanner->found);
            *ended = scanner->current;
            remove_stale(scanner, target, &more);
        } else {
            memcpy(ended->error, scanner->current.error, sizeof(ended->error));
        }
        log_info("orphans_scanned",
                 "target=%s pages=%u looked=%" PRIu64 " foreign=%" PRIu64
                 " orphans=%zu error=\"%s\"",
                 target->id, scanner->pages, scanner->current.looked, scanner->current.foreign,
                 scanner->found.count, error);
    }
    of->due_ms = scanner->again ? 0
                                : broker_monotonic_ms(scanner->broker) +
                                      (whole && !more ? interval_ms : SCANNER_RETRY_MS);
    orphan_list_clear(&scanner->found);
    scanner->phase = SCAN_RESTS;
    wake_in(scanner, SCANNER_REST_MS);
}

/* ---- what a page says ---- */

static uint64_t number_of(const char *output, const char *key)
{
    char text[32];

    return worker_output_get(output, key, text, sizeof(text)) == 0 ? strtoull(text, NULL, 10) : 0;
}

/* One that the state knows is none, and that of an id to come is nobody's yet. */
static void take_text(struct scanner *scanner, const char *output)
{
    struct scan_found *found = check_calloc(1, sizeof(*found));
    struct orphan orphan = {.target_slot = scanner->target_slot};

    scanner->pages++;
    scanner->current.looked += number_of(output, "looked");
    scanner->current.foreign += number_of(output, "foreign");
    scanner->current.denied += number_of(output, "denied");
    for (const char *at = output; scan_read(&at, found);)
        if (orphan_of_path(found->path, &orphan) &&
            fsm_is_orphan(scanner_fsm(scanner), orphan.checkpoint_id)) {
            text_copy(orphan.owner, sizeof(orphan.owner),
                      id_valid(found->owner) && strcmp(found->owner, "-") != 0 ? found->owner : "");
            orphan.size_bytes = found->size_bytes;
            orphan.age_ms = found->age_s * 1000;
            orphan_list_add(&scanner->found, &orphan);
        }
    free(found);
}

/* ---- by a node ---- */

static void propose_scan(struct scanner *scanner, const struct fsm_target *target, bool end,
                         replica_done_fn *done)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__ScanTarget scan = CKPT__LOG__V1__SCAN_TARGET__INIT;

    scan.target_id = text_message(target->id);
    scan.end = end;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SCAN_TARGET;
    command.scan_target = &scan;
    replica_propose(scanner->broker->replica, &command, done, scanner);
}

static void on_asked(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct scanner *scanner = data;

    if (scanner->phase != SCAN_ASKS)
        return;
    if (failed != NULL || outcome->status != FSM_OK) {
        char error[ORPHAN_ERROR_BYTES];

        snprintf(error, sizeof(error), "no node is ready to look instead: %.300s",
                 scanner->current.error);
        scan_finish(scanner, error);
        return;
    }
    scanner->phase = SCAN_WAITS;
    scanner->heard_ms = broker_monotonic_ms(scanner->broker);
    wake_in(scanner, SCANNER_TICK_MS);
}

/* The jobs' folders are their users', and some targets are mounted on the nodes alone. */
static void ask_node(struct scanner *scanner, const struct fsm_target *target, const char *why)
{
    text_copy(scanner->current.error, sizeof(scanner->current.error), why);
    scanner->current.looked = scanner->current.foreign = scanner->current.denied = 0;
    scanner->pages = 0;
    orphan_list_clear(&scanner->found);
    scanner->phase = SCAN_ASKS;
    propose_scan(scanner, target, false, on_asked);
}

/* An order that stays nevertheless is one that the node has carried out. */
static void finish_node(struct scanner *scanner, const struct fsm_target *target, const char *error)
{
    propose_scan(scanner, target, true, NULL);
    scan_finish(scanner, error);
}

/* Whose order it is the state says; a page that is missing makes what follows worthless. */
void scanner_take_page(struct scanner *scanner, uint32_t node_slot, const Ckpt__V1__ScanPage *page)
{
    const struct fsm_target *target;
    struct fsm_scan scan;

    if (scanner == NULL || scanner->phase != SCAN_WAITS)
        return;
    target = current_target(scanner);
    if (target == NULL || !fsm_scan_of(scanner_fsm(scanner), target->slot, &scan) ||
        scan.node_slot != node_slot || scan.attempt != page->attempt ||
        strcmp(target->prefix, page->target_prefix) != 0 || strlen(page->output) >= SCAN_TEXT_BYTES)
        return;
    scanner->heard_ms = broker_monotonic_ms(scanner->broker);
    if (page->page == 1) { /* from its start, perhaps once more */
        orphan_list_clear(&scanner->found);
        scanner->current.looked = scanner->current.foreign = scanner->current.denied = 0;
        scanner->pages = 0;
    } else if (page->page != scanner->pages + 1) {
        finish_node(scanner, target, "a page of what the node found was lost");
        return;
    }
    text_copy(scanner->current.node, sizeof(scanner->current.node),
              fsm_node_name(scanner_fsm(scanner), node_slot));
    take_text(scanner, page->output);
    if (page->last)
        finish_node(scanner, target, page->error);
}

/* A node that was lost has given the order back; one that is silent may be none that can look. */
static void watch_node(struct scanner *scanner)
{
    const struct fsm_target *target = current_target(scanner);
    struct fsm_scan scan;

    if (target == NULL)
        scan_finish(scanner, "the target was removed");
    else if (!fsm_scan_of(scanner_fsm(scanner), target->slot, &scan))
        scan_finish(scanner, "the node that looked was lost");
    else if (broker_monotonic_ms(scanner->broker) - scanner->heard_ms > SCANNER_SILENCE_MS)
        finish_node(scanner, target, "the node that was to look tells nothing");
    else
        wake_in(scanner, SCANNER_TICK_MS);
}

/* ---- by this member ---- */

/* What is denied to this member, a node may be allowed. */
static void page_done(struct scanner *scanner, const struct worker_result *result)
{
    const struct fsm_target *target = current_target(scanner);

    if (target == NULL) {
        scan_finish(scanner, "the target was removed");
    } else if (result->timed_out || result->unkillable) {
        scan_finish(scanner, result->error);
    } else if (result->exit_code != WORKER_EXIT_OK) {
        ask_node(scanner, target, result->error);
    } else if (number_of(result->output, "denied") > 0) {
        char why[ORPHAN_ERROR_BYTES];

        ask_node(scanner, target,
                 worker_output_get(result->output, "denied_error", why, sizeof(why)) == 0
                     ? why
                     : "a folder may not be opened");
    } else {
        take_text(scanner, result->output);
        if (worker_output_get(result->output, "next", scanner->after, sizeof(scanner->after)) == 0)
            wake_in(scanner, SCANNER_REST_MS);
        else
            scan_finish(scanner, "");
    }
}

static void on_page(void *data, const struct worker_result *result)
{
    struct scanner *scanner = data;

    if (scanner->serving && scanner->phase == SCAN_LOOKS && !result->cancelled)
        page_done(scanner, result);
}

static void scan_look(struct scanner *scanner)
{
    const struct fsm_target *target = current_target(scanner);
    struct fsm_summary summary;
    char mark[MARK_BYTES], age[24];
    struct err err;

    if (target == NULL) {
        scan_finish(scanner, "the target was removed");
        return;
    }
    fsm_get_summary(scanner_fsm(scanner), &summary);
    snprintf(age, sizeof(age), "%" PRIu64, fsm_policy(scanner_fsm(scanner))->orphan_age_ms / 1000);
    if (errand_start(
            &scanner->errand, scanner->broker->loop,
            &(struct worker_task){
                .arguments = (const char *const[]){"scan", "--prefix", target->prefix, "--cluster",
                                                   mark_format(mark_of(summary.cluster_id), mark),
                                                   "--min-age", age,
                                                   scanner->after[0] == '\0' ? NULL : "--after",
                                                   scanner->after, NULL},
                .deadline_ms = SCANNER_DEADLINE_MS,
                .done = on_page,
                .data = scanner},
            &err) != 0)
        scan_finish(scanner, err.text);
}

static void scan_begin(struct scanner *scanner, const struct fsm_target *target)
{
    CHECK(!errand_runs(&scanner->errand));
    CHECK(scanner->phase == SCAN_RESTS);
    scanner->phase = SCAN_LOOKS;
    scanner->again = false;
    scanner->target_slot = target->slot;
    scanner->made = target->made;
    scanner->after[0] = '\0';
    scanner->pages = 0;
    scanner->current = (struct orphan_scan){0};
    orphan_list_clear(&scanner->found);
    scan_look(scanner);
}

/* What was found at a target that has gone is no matter of the one that has its slot now. */
static void know_target(struct scanner *scanner, const struct fsm_target *target)
{
    static const struct orphan_list nothing;
    struct scan_of *of = &scanner->targets[target->slot];

    if (of->made == target->made)
        return;
    (void)orphan_list_replace(&scanner->known, target->slot, &nothing);
    *of = (struct scan_of){.made = target->made};
}

/* An order that an earlier leader gave has nobody who waits for its pages. */
static void end_order(struct scanner *scanner, const struct fsm_target *target)
{
    struct fsm_scan scan;

    CHECK(scanner->phase == SCAN_RESTS);
    if (fsm_scan_of(scanner_fsm(scanner), target->slot, &scan))
        propose_scan(scanner, target, true, NULL);
}

static void find_due(struct scanner *scanner)
{
    const struct fsm *fsm = scanner_fsm(scanner);

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target == NULL)
            continue;
        end_order(scanner, target);
        if (!target->available)
            continue;
        know_target(scanner, target);
        if (scanner->targets[slot].due_ms > broker_monotonic_ms(scanner->broker))
            continue;
        scan_begin(scanner, target);
        return;
    }
    wake_in(scanner, SCANNER_TICK_MS);
}

static void on_timer(void *data)
{
    struct scanner *scanner = data;

    if (!scanner->serving)
        return;
    if (errand_runs(&scanner->errand) || scanner->phase == SCAN_ASKS)
        wake_in(scanner, SCANNER_TICK_MS);
    else if (scanner->phase == SCAN_LOOKS)
        scan_look(scanner);
    else if (scanner->phase == SCAN_WAITS)
        watch_node(scanner);
    else
        find_due(scanner);
}

/* A removal ends with an event, and the state forgets the folder: it is not to be shown again. */
static void on_applied(void *context)
{
    struct scanner *scanner = context;
    const Ckpt__V1__Event *event;
    bool gap;

    while ((event = fsm_event_after(scanner_fsm(scanner), scanner->event_sequence, &gap)) != NULL) {
        scanner->event_sequence = event->sequence;
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DELETED) {
            orphan_list_drop(&scanner->known, event->checkpoint_id);
            orphan_list_drop(&scanner->found, event->checkpoint_id);
        }
    }
}

/* ---- life ---- */

/* S2-016: at once; it is a worker that looks. */
static void on_serving(void *context)
{
    struct scanner *scanner = context;

    scanner->serving = true;
    scanner->phase = SCAN_RESTS;
    scanner->again = false;
    memset(scanner->targets, 0, sizeof(scanner->targets));
    wake_in(scanner, 0);
}

static void on_not_serving(void *context)
{
    struct scanner *scanner = context;

    scanner->serving = false;
    scanner->phase = SCAN_RESTS;
    scanner->broker->clock.timer_stop(scanner->timer);
    orphan_list_clear(&scanner->found);
    orphan_list_clear(&scanner->known);
    memset(scanner->targets, 0, sizeof(scanner->targets));
    errand_cancel(&scanner->errand);
}

void scanner_scan_now(struct scanner *scanner)
{
    for (size_t i = 0; i < FSM_TARGETS_MAX; i++)
        scanner->targets[i].due_ms = 0;
    scanner->again = scanner->phase != SCAN_RESTS;
    if (scanner->phase == SCAN_RESTS)
        wake_in(scanner, 0);
}

struct scanner *scanner_new(struct broker *broker)
{
    struct scanner *scanner = check_calloc(1, sizeof(*scanner));

    scanner->broker = broker;
    scanner->timer = broker->clock.timer_new(broker->clock.context, on_timer, scanner);
    scanner->observer = (struct replica_observer){.context = scanner,
                                                  .acts = true,
                                                  .serving = on_serving,
                                                  .not_serving = on_not_serving,
                                                  .applied = on_applied};
    replica_observe(broker->replica, &scanner->observer);
    return scanner;
}

void scanner_free(struct scanner *scanner)
{
    if (scanner == NULL)
        return;
    scanner->broker->clock.timer_free(scanner->timer);
    errand_close(&scanner->errand);
    orphan_list_clear(&scanner->found);
    orphan_list_clear(&scanner->known);
    free(scanner);
}

/* ---- what is shown ---- */

const struct orphan_list *scanner_known(const struct scanner *scanner)
{
    return &scanner->known;
}

const struct orphan_scan *scanner_ended(const struct scanner *scanner, uint32_t target_slot,
                                        bool *ret_running)
{
    CHECK(target_slot < FSM_TARGETS_MAX);
    *ret_running = scanner->phase != SCAN_RESTS && scanner->target_slot == target_slot;
    return &scanner->targets[target_slot].ended;
}

void scanner_count(const struct scanner *scanner, uint32_t target_slot, uint64_t *ret_count,
                   uint64_t *ret_bytes)
{
    *ret_count = *ret_bytes = 0;
    for (size_t i = 0; scanner != NULL && i < scanner->known.count; i++) {
        const struct orphan *orphan = &scanner->known.items[i];

        if (orphan->target_slot != target_slot ||
            !fsm_is_orphan(scanner_fsm(scanner), orphan->checkpoint_id))
            continue;
        ++*ret_count;
        *ret_bytes += orphan->size_bytes;
    }
}
