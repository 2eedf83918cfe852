/* This member's part of drills. See drills.h. */
#include "src/broker/drill/drills.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/drill.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/drill/prober.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name

/* Of the drill under way: the first instants after it was armed, by the state's clock; 0: not
 * yet. */
struct measured {
    uint64_t lost_ms, elected_ms, serving_ms, orders_ms;
};

struct drills_duty {
    struct broker *broker;
    const struct fault_ops *faults;
    const struct tls_context *tls; /* NULL: plain */
    struct replica_observer observer;
    struct clock_timer *begins, *ends;
    uint64_t drill_id; /* of all below; 0: none yet */
    uint64_t run;      /* this process */
    struct prober *prober;
    struct measured measured;
    bool armed;          /* it was ARMED here: what is measured is of this process */
    bool begun, refused; /* the fault: refused: it would leave no majority by now */
    bool on, stopped, told;
    bool restoring, restored; /* a backup */
    char detail[FSM_DETAIL_BYTES];
};

static const Ckpt__V1__Drill *open_drill(const struct drills_duty *duty)
{
    return fsm_drill_open(replica_fsm(duty->broker->replica));
}

/* ---- the word ---- */

/* 1 stands for no time at all, since 0 says that it was not noticed. A change of the leader before
 * the fault aborts the drill, so an earlier instant is the difference of two clocks. */
static uint64_t since_fault(const Ckpt__V1__Drill *drill, uint64_t instant_ms)
{
    if (instant_ms == 0)
        return 0;
    return instant_ms > drill->fault_ms ? instant_ms - drill->fault_ms : 1;
}

static void fill_word(const struct drills_duty *duty, const Ckpt__V1__Drill *drill,
                      Ckpt__V1__DrillWord *word)
{
    word->run = duty->run;
    word->probes = prober_answered(duty->prober);
    word->away_ms = prober_away_ms(duty->prober);
    if (duty->armed) {
        word->detect_ms = since_fault(drill, duty->measured.lost_ms);
        word->elected_ms = since_fault(drill, duty->measured.elected_ms);
        word->commit_ms = since_fault(drill, duty->measured.serving_ms);
        word->orders_ms = since_fault(drill, duty->measured.orders_ms);
    }
    word->fault_done = duty->begun;
    word->check_hash = drill->check_hash; /* as this member's own state wrote it */
    word->backup_restored = duty->restored;
    word->detail = (char *)(uintptr_t)duty->detail;
}

/* When the last probe is answered, the fault is over here, and the restore has come to an end. */
static void tell_word(struct drills_duty *duty)
{
    const Ckpt__V1__Drill *drill = open_drill(duty);
    Ckpt__V1__DrillWord word = CKPT__V1__DRILL_WORD__INIT;

    if (duty->told || !duty->stopped || duty->restoring || duty->on || drill == NULL ||
        drill->drill_id != duty->drill_id || drill->state != STATE(SETTLING))
        return;
    duty->told = true;
    fill_word(duty, drill, &word);
    prober_tell(duty->prober, &word);
}

static void on_quiet(void *data)
{
    struct drills_duty *duty = data;

    duty->stopped = true;
    tell_word(duty);
}

static void on_told(void *data)
{
    const struct drills_duty *duty = data;

    log_info("drill_told", "drill=%" PRIu64 " probes=%" PRIu64 " away_ms=%" PRIu64, duty->drill_id,
             prober_answered(duty->prober), prober_away_ms(duty->prober));
}

/* ---- the fault ---- */

static void on_restored(void *data, const char *failure)
{
    struct drills_duty *duty = data;

    duty->restoring = false;
    duty->restored = failure == NULL;
    if (failure != NULL)
        snprintf(duty->detail, sizeof(duty->detail), "%s", failure);
    tell_word(duty);
}

static void restore_begin(struct drills_duty *duty)
{
    duty->begun = true;
    duty->restoring = duty->faults->restore != NULL;
    if (duty->restoring && !duty->faults->restore(duty->faults->context, on_restored, duty)) {
        duty->restoring = false;
        snprintf(duty->detail, sizeof(duty->detail),
                 "it has no backups: backups.directory of its configuration");
    }
}

/* A member may have failed since the guards were asked: then the leader stays. A follower hears of
 * no other member; its cut ends by its own timer. */
static bool may_fail(struct drills_duty *duty, const Ckpt__V1__Drill *drill,
                     const struct consensus_status *raft)
{
    if (fsm_drill_kind(drill->kind)->hits != FSM_DRILL_HITS_LEADER ||
        broker_tolerance(duty->broker, raft) > 0)
        return true;
    duty->refused = true;
    snprintf(duty->detail, sizeof(duty->detail),
             "no other member may fail by now: ckptctl status says who is down");
    log_warning("drill_fault_refused", "drill=%" PRIu64 " text=\"%s\"", drill->drill_id,
                duty->detail);
    return false;
}

/* Not inside of the callback that applied the entry: the fault may close what called it. */
static void on_begin(void *data)
{
    struct drills_duty *duty = data;
    const Ckpt__V1__Drill *drill = open_drill(duty);
    const struct fault *fault;
    struct consensus_status raft;

    replica_get_status(duty->broker->replica, &raft);
    if (drill == NULL || drill->drill_id != duty->drill_id || duty->begun || duty->refused ||
        !fault_is_mine(drill, &raft) || !may_fail(duty, drill, &raft))
        return;
    duty->begun = true;
    fault = fault_find(drill->kind);
    log_warning("drill_fault", "drill=%" PRIu64 " kind=%s text=\"%s\"", drill->drill_id,
                fsm_drill_kind(drill->kind)->name, fault->does);
    if (fault->end != NULL) {
        duty->on = true;
        duty->broker->clock.timer_start(duty->ends, fault_on_ms(drill) * 1000);
    }
    if (!fault->begin(duty->faults, fault_on_ms(drill))) {
        duty->begun = duty->on = false;
        snprintf(duty->detail, sizeof(duty->detail), "this process cannot bring the fault about");
    }
}

static void fault_over(struct drills_duty *duty)
{
    if (!duty->on)
        return;
    duty->on = false;
    duty->broker->clock.timer_stop(duty->ends);
    duty->faults->cut(duty->faults->context, false);
    log_info("drill_fault_over", "drill=%" PRIu64, duty->drill_id);
    tell_word(duty);
}

static void on_end(void *data)
{
    fault_over(data);
}

static void fault_look(struct drills_duty *duty, const Ckpt__V1__Drill *drill)
{
    struct consensus_status raft;

    if (duty->begun || drill->state != STATE(FAULT))
        return;
    if (drill->kind == CKPT__V1__DRILL_KIND__DRILL_KIND_RESTORE) {
        if (replica_serving(duty->broker->replica))
            restore_begin(duty);
        return;
    }
    replica_get_status(duty->broker->replica, &raft);
    if (fault_is_mine(drill, &raft) &&
        replica_state_ms(duty->broker->replica) < drill->fault_ms + fault_on_ms(drill))
        duty->broker->clock.timer_start(duty->begins, 0);
}

bool drills_target_fails(const struct drills_duty *duty, const char *target_id)
{
    const Ckpt__V1__Drill *drill = duty == NULL ? NULL : open_drill(duty);

    return drill != NULL && drill->state == STATE(FAULT) &&
           strcmp(drill->target_id, target_id) == 0 &&
           replica_state_ms(duty->broker->replica) < drill->fault_ms + fault_on_ms(drill);
}

/* ---- what is seen ---- */

static void note_once(struct drills_duty *duty, uint64_t *instant_ms)
{
    if (duty->prober != NULL && *instant_ms == 0)
        *instant_ms = replica_state_ms(duty->broker->replica);
}

void drills_note_orders(struct drills_duty *duty)
{
    if (duty != NULL && duty->measured.serving_ms != 0)
        note_once(duty, &duty->measured.orders_ms);
}

static void on_role(void *context, enum consensus_role role, uint64_t term, uint64_t leader_id)
{
    struct drills_duty *duty = context;
    const Ckpt__V1__Drill *drill = open_drill(duty);

    if (drill == NULL || term < drill->term)
        return;
    if (leader_id == 0 || role == CONSENSUS_CANDIDATE || term > drill->term)
        note_once(duty, &duty->measured.lost_ms);
    if (role == CONSENSUS_LEADER && term > drill->term)
        note_once(duty, &duty->measured.elected_ms);
}

static void on_serving(void *context)
{
    struct drills_duty *duty = context;
    const Ckpt__V1__Drill *drill = open_drill(duty);

    if (drill != NULL && duty->measured.elected_ms != 0)
        note_once(duty, &duty->measured.serving_ms);
}

/* ---- the drill ---- */

static void forget_drill(struct drills_duty *duty)
{
    fault_over(duty);
    prober_free(duty->prober);
    duty->prober = NULL;
    duty->measured = (struct measured){0};
    duty->armed = duty->begun = duty->refused = duty->stopped = duty->told = false;
    duty->restoring = duty->restored = false;
    duty->detail[0] = '\0';
}

static void take_part(struct drills_duty *duty, const Ckpt__V1__Drill *drill)
{
    const struct prober_config config = {.drill_id = drill->drill_id,
                                         .member_id = duty->broker->config->self->id,
                                         .run = duty->run,
                                         .tls = duty->tls,
                                         .quiet = on_quiet,
                                         .told = on_told,
                                         .data = duty};

    for (size_t i = 0; i < drill->n_members; i++)
        if (drill->members[i]->member_id == duty->broker->config->self->id) {
            duty->prober = prober_start(duty->broker, &config);
            /* one that starts again reads in its log that it was armed */
            duty->armed = drill->state == STATE(ARMED) &&
                          replica_state_ms(duty->broker->replica) < drill->due_ms;
        }
}

/* Level-triggered: whatever the record says now is due, also after entries that were applied in one
 * go. */
static void on_applied(void *context)
{
    struct drills_duty *duty = context;
    const Ckpt__V1__Drill *drill = open_drill(duty);

    if (drill == NULL) {
        if (duty->prober != NULL || duty->on)
            forget_drill(duty);
        return;
    }
    if (drill->drill_id != duty->drill_id) {
        forget_drill(duty);
        duty->drill_id = drill->drill_id;
        take_part(duty, drill);
    }
    if (duty->prober == NULL)
        return;
    fault_look(duty, drill);
    if (drill->state != STATE(SETTLING))
        return;
    if (!duty->stopped)
        prober_stop(duty->prober);
    else
        tell_word(duty);
}

struct drills_duty *drills_new(struct broker *broker, const struct fault_ops *faults,
                               const struct tls_context *tls)
{
    struct drills_duty *duty = check_calloc(1, sizeof(*duty));

    CHECK(broker->replica != NULL && faults != NULL);
    duty->broker = broker;
    duty->faults = faults;
    duty->tls = tls;
    duty->run = broker_wall_ms(broker);
    duty->begins = broker->clock.timer_new(broker->clock.context, on_begin, duty);
    duty->ends = broker->clock.timer_new(broker->clock.context, on_end, duty);
    duty->observer = (struct replica_observer){
        .context = duty, .applied = on_applied, .serving = on_serving, .role_changed = on_role};
    replica_observe(broker->replica, &duty->observer);
    return duty;
}

void drills_free(struct drills_duty *duty)
{
    if (duty == NULL)
        return;
    prober_free(duty->prober);
    duty->broker->clock.timer_free(duty->begins);
    duty->broker->clock.timer_free(duty->ends);
    free(duty);
}
