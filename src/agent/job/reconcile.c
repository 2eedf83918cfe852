/* Orders against what is in hand. See reconcile.h.
 *
 *   order                       hand                                step
 *   ------------------------    --------------------------------    ---------------------------------
 *   any                         of a later run                     -
 *   none for the attempt        busy, not cancelling                CANCEL
 *   ... but TERMINATE           busy, and stands still              (TERMINATE alone)
 *   CHECKPOINT, (id, n) above   not busy                            START
 *   CHECKPOINT, (id, n) above   busy                                (CANCEL above; START once it ended)
 *   CHECKPOINT, (id, n) equal   busy, a longer timeout ordered      EXTEND
 *   CHECKPOINT, (id, n) equal   put off, no deferral is left        HURRY
 *   CHECKPOINT, (id, n) equal   busy, it is to end with it now      AFTER
 *   CHECKPOINT, (id, n) equal   busy, the barrier has moved         BARRIER
 *   CHECKPOINT, not above       any                                 -
 *   TERMINATE                   run not ended yet, not stopping    TERMINATE
 *   TERMINATE                   nothing is known of a run of before  LATER
 *   the part is not named       of this run one runs               END (but for TERMINATE)
 *   a second one of its kind    any                                 IGNORE
 */
#include "src/agent/job/reconcile.h"

#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/dest/destination.h"

#define ORDER_MS_MAX (UINT64_C(1) << 42) /* sums and thousands of them stay numbers */

/* What an attempt is doing is of one that is in progress. */
static void check_hand(const struct hand *hand)
{
    CHECK(id_valid(hand->allocation_id));
    CHECK(hand->busy || !hand->cancelling);
    CHECK(hand->busy || !hand->put_off);
    CHECK(hand->busy || !hand->still);
    CHECK(hand->cancelling + hand->put_off + hand->still <= 1);
}

static const struct hand *hand_of(const struct hand *hands, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(hands[i].allocation_id, id) == 0)
            return &hands[i];
    }
    return NULL;
}

/* A location that a worker may be pointed at, of a sane length. */
static bool path_sane(const char *path, size_t size)
{
    struct err err;

    return strlen(path) < size && destination_validate(path, &err) == 0;
}

static const char *order_path_wrong(const Ckpt__V1__Order *order)
{
    if (!path_sane(order->path, RECONCILE_PATH_MAX_BYTES) ||
        !path_sane(order->target_prefix, RECONCILE_PREFIX_MAX_BYTES))
        return "the path or its prefix is no location of a destination";
    return NULL;
}

const char *reconcile_order_wrong(const Ckpt__V1__Order *order)
{
    if (order->kind != CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN && !id_valid(order->allocation_id))
        return "the allocation id is not valid";
    if (order->timeout_ms > ORDER_MS_MAX || order->deferred_ms > ORDER_MS_MAX ||
        order->max_deferral_ms > ORDER_MS_MAX)
        return "a time is longer than a century";
    switch (order->kind) {
    case CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT:
        if (order->checkpoint_id == 0 || order->attempt == 0)
            return "checkpoint id or attempt is 0";
        if (order_path_wrong(order) != NULL)
            return order_path_wrong(order);
        return order->timeout_ms <= order->deferred_ms ? "the timeout is 0, or all of it a deferral"
                                                       : NULL;
    case CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE:
        return NULL;
    case CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT:
        if (order->checkpoint_id == 0 || order->timeout_ms == 0)
            return "checkpoint id or timeout is 0";
        return order_path_wrong(order);
    case CKPT__V1__ORDER_KIND__ORDER_KIND_VERIFY:
        if (order->checkpoint_id == 0 || order->timeout_ms == 0)
            return "checkpoint id or timeout is 0";
        if (strlen(order->manifest_sha256) != RECONCILE_SHA256_HEX)
            return "the manifest's SHA-256 has not 64 digits";
        return order_path_wrong(order);
    case CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN:
        if (order->attempt == 0 || order->timeout_ms == 0 || order->cluster_mark == 0)
            return "attempt, timeout or mark is 0";
        return path_sane(order->target_prefix, RECONCILE_PREFIX_MAX_BYTES)
                   ? NULL
                   : "the prefix is no location of a destination";
    case CKPT__V1__ORDER_KIND__ORDER_KIND_UNSPECIFIED:
    case _CKPT__V1__ORDER_KIND_IS_INT_SIZE:
        break;
    }
    return "the kind of order is unknown";
}

/* See owner_orders.h and scans.h. */
static bool order_of_no_job(const Ckpt__V1__Order *order)
{
    return order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT ||
           order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_VERIFY ||
           order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN;
}

/* A leader names one of each kind at most. Two checkpoints would both begin. */
static bool order_doubled(const Ckpt__V1__OrderSet *set, size_t index)
{
    const Ckpt__V1__Order *order = set->orders[index];

    CHECK(index < set->n_orders);
    CHECK(reconcile_order_wrong(order) == NULL);
    for (size_t i = 0; i < index; i++) {
        const Ckpt__V1__Order *before = set->orders[i];
        if (before->kind == order->kind &&
            strcmp(before->allocation_id, order->allocation_id) == 0 &&
            reconcile_order_wrong(before) == NULL)
            return true;
    }
    return false;
}

static bool attempt_above(const Ckpt__V1__Order *order, const struct hand *hand)
{
    CHECK(order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT);
    CHECK(strcmp(order->allocation_id, hand->allocation_id) == 0);
    if (order->checkpoint_id != hand->checkpoint_id)
        return order->checkpoint_id > hand->checkpoint_id;
    return order->attempt > hand->attempt;
}

static bool order_names_attempt(const Ckpt__V1__Order *order, const struct hand *hand)
{
    return order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT &&
           order->checkpoint_id == hand->checkpoint_id && order->attempt == hand->attempt &&
           strcmp(order->allocation_id, hand->allocation_id) == 0;
}

bool reconcile_late(const Ckpt__V1__OrderSet *set, uint64_t run, uint64_t own)
{
    return run < own && set->epoch <= run_epoch(own);
}

/* Its application is to end, or ends. */
static bool hand_ends(const struct hand *hand, const Ckpt__V1__OrderSet *set)
{
    CHECK(hand->still);
    for (size_t i = 0; i < set->n_orders; i++) {
        const Ckpt__V1__Order *order = set->orders[i];
        if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE &&
            strcmp(order->allocation_id, hand->allocation_id) == 0 &&
            !reconcile_late(set, order->run, hand->run))
            return true;
    }
    return hand->stopping;
}

/* What stands still and is to end does not go on before. */
static bool withdrawn(const struct hand *hand, const Ckpt__V1__OrderSet *set)
{
    if (!hand->busy || hand->cancelling || (hand->still && hand_ends(hand, set)))
        return false;
    for (size_t i = 0; i < set->n_orders; i++) {
        if (order_names_attempt(set->orders[i], hand))
            return false;
    }
    return true;
}

static enum step_kind step_of_terminate(const Ckpt__V1__OrderSet *set, const Ckpt__V1__Order *order,
                                        const struct hand *hand, uint64_t early_until)
{
    const bool early = early_until != 0 && order->run <= early_until;

    CHECK(order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE);
    if (hand == NULL)
        return early ? STEP_LATER : STEP_TERMINATE;
    if (hand->stopping)
        return 0;
    if (hand->terminated && order->run <= hand->ended_run &&
        (set->epoch <= run_epoch(hand->ended_run) || set->epoch <= hand->ended_epoch))
        return 0;
    return early && !hand->runs && !hand->ended ? STEP_LATER : STEP_TERMINATE;
}

static enum step_kind step_of(const Ckpt__V1__OrderSet *set, const Ckpt__V1__Order *order,
                              const struct hand *hand, uint64_t early_until)
{
    CHECK(hand == NULL || strcmp(order->allocation_id, hand->allocation_id) == 0);
    if (hand != NULL && reconcile_late(set, order->run, hand->run))
        return 0;
    if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE)
        return step_of_terminate(set, order, hand, early_until);
    if (hand == NULL)
        return STEP_START;
    if (attempt_above(order, hand))
        return hand->busy ? 0 : STEP_START;
    if (order_names_attempt(order, hand) && hand->busy && !hand->cancelling &&
        order->after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE &&
        hand->after <= CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE)
        return STEP_AFTER;
    if (order_names_attempt(order, hand) && hand->put_off && order->max_deferral_ms == 0)
        return STEP_HURRY;
    if (order_names_attempt(order, hand) && hand->busy && order->timeout_ms > hand->timeout_ms)
        return STEP_EXTEND;
    if (order_names_attempt(order, hand) && hand->busy &&
        (order->barrier != hand->barrier || order->agreed_step != hand->agreed_step))
        return STEP_BARRIER;
    return 0;
}

const Ckpt__V1__AllocationPart *reconcile_part(const Ckpt__V1__OrderSet *set,
                                               const char *allocation_id)
{
    for (size_t i = 0; i < set->n_parts; i++) {
        if (strcmp(set->parts[i]->allocation_id, allocation_id) == 0)
            return set->parts[i];
    }
    return NULL;
}

bool reconcile_judges(const Ckpt__V1__OrderSet *set, uint64_t run)
{
    return set->runs_until != 0 && run <= set->runs_until;
}

bool reconcile_run_over(const Ckpt__V1__OrderSet *set, const char *allocation_id, uint64_t run)
{
    const Ckpt__V1__AllocationPart *part;

    CHECK(run != 0);
    if (set == NULL)
        return false;
    part = reconcile_part(set, allocation_id);
    return part == NULL ? reconcile_judges(set, run) : part->run > run;
}

/* A state that was restored may not know that its allocation was restarted since: that run is the
 * one that it names. */
static bool may_run(const Ckpt__V1__OrderSet *set, const struct hand *hand)
{
    const Ckpt__V1__AllocationPart *part = reconcile_part(set, hand->allocation_id);

    CHECK(hand->runs);
    return part != NULL &&
           (part->run == hand->run || (part->run < hand->run && run_epoch(hand->run) < set->epoch));
}

/* Neither named, nor ended already, by an order that stands beside it too. */
static bool hand_unwanted(const struct hand *hand, const Ckpt__V1__OrderSet *set,
                          const struct step *steps, size_t count)
{
    if (!hand->runs || hand->stopping || !reconcile_judges(set, hand->run) || may_run(set, hand))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].kind == STEP_TERMINATE &&
            strcmp(steps[i].allocation_id, hand->allocation_id) == 0)
            return false;
    }
    return true;
}

size_t reconcile(const struct hand *hands, size_t hand_count, const Ckpt__V1__OrderSet *set,
                 uint64_t early_until, struct step *ret_steps)
{
    Ckpt__V1__Order *const *orders = set->orders;
    size_t order_count = set->n_orders;
    size_t count = 0;

    for (size_t i = 0; i < hand_count; i++) {
        check_hand(&hands[i]);
        if (withdrawn(&hands[i], set))
            ret_steps[count++] = (struct step){STEP_CANCEL, hands[i].allocation_id, NULL, NULL};
    }
    for (size_t i = 0; i < order_count; i++) {
        const Ckpt__V1__Order *order = orders[i];
        const char *wrong = reconcile_order_wrong(order);
        enum step_kind kind;

        if (wrong == NULL && order_of_no_job(order))
            continue;
        if (wrong == NULL && order_doubled(set, i))
            wrong = "the set has another order of this kind for the allocation, which is taken";
        if (wrong != NULL) {
            ret_steps[count++] = (struct step){STEP_IGNORE, order->allocation_id, order, wrong};
            continue;
        }
        kind = step_of(set, order, hand_of(hands, hand_count, order->allocation_id), early_until);
        if (kind != 0)
            ret_steps[count++] = (struct step){kind, order->allocation_id, order, NULL};
    }
    for (size_t i = 0; i < hand_count; i++) {
        if (hand_unwanted(&hands[i], set, ret_steps, count))
            ret_steps[count++] = (struct step){STEP_END, hands[i].allocation_id, NULL, NULL};
    }
    CHECK(count <= 2 * (order_count + hand_count));
    return count;
}
