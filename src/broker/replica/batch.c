/* A log entry under construction, then on its way. See batch.h. The bytes are those of
 * ckpt.log.v1.Entry: its field 1 is the list of commands, so that commands which are packed behind
 * each other, each with key and length in front, are the packed Entry. */
#include "src/broker/replica/batch.h"

#include <stdlib.h>

#include "src/base/check.h"

enum { BATCH_HEAD_MAX_BYTES = 8 }; /* key and length in front of a command */

struct batch *batch_new(void)
{
    struct batch *batch = check_calloc(1, sizeof(*batch));

    list_init(&batch->node);
    buf_init(&batch->bytes);
    return batch;
}

void batch_free(struct batch *batch)
{
    list_remove(&batch->node);
    buf_close(&batch->bytes);
    free(batch->waiters);
    free(batch);
}

void batch_clear(struct batch *batch)
{
    list_remove(&batch->node);
    buf_clear(&batch->bytes);
    batch->count = 0;
    batch->first = false;
    batch->proposed_us = 0;
}

bool batch_fits(const struct batch *batch, size_t size)
{
    return batch->count < REPLICA_ENTRY_COMMANDS &&
           batch->bytes.length + BATCH_HEAD_MAX_BYTES + size <= REPLICA_ENTRY_BYTES;
}

void batch_append(struct batch *batch, const Ckpt__Log__V1__Command *command, size_t size,
                  replica_done_fn *done, void *data)
{
    uint8_t head[BATCH_HEAD_MAX_BYTES];
    size_t used = 0;
    size_t rest = size;

    CHECK(batch_fits(batch, size));
    head[used++] = 1 << 3 | 2; /* field 1, length-delimited */
    while (rest >= 0x80) {
        head[used++] = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    head[used++] = (uint8_t)rest;
    buf_append(&batch->bytes, head, used);
    CHECK(ckpt__log__v1__command__pack(command, buf_extend(&batch->bytes, size)) == size);
    if (batch->count == batch->capacity) {
        batch->capacity = batch->capacity == 0 ? 16 : batch->capacity * 2;
        batch->waiters = check_realloc(batch->waiters, batch->capacity, sizeof(batch->waiters[0]));
    }
    batch->waiters[batch->count++] = (struct batch_waiter){done, data};
}

/* A waiter is told once. The place is cleared before the call: the caller may look at the batch
 * from inside of it. */
void batch_outcome(struct batch *batch, size_t i, const struct fsm_outcome *outcome)
{
    struct batch_waiter *waiter;
    replica_done_fn *done;

    CHECK(i < batch->count);
    waiter = &batch->waiters[i];
    done = waiter->done;
    waiter->done = NULL;
    if (done != NULL)
        done(waiter->data, NULL, outcome);
}

void batch_fail(struct batch *batch, const struct err *failed)
{
    for (size_t i = 0; i < batch->count; i++) {
        replica_done_fn *done = batch->waiters[i].done;
        batch->waiters[i].done = NULL;
        if (done != NULL)
            done(batch->waiters[i].data, failed, NULL);
    }
}

/* A command of the leader itself: nobody waits for its outcome. */
static void append_own(struct batch *batch, Ckpt__Log__V1__Command *command)
{
    batch_append(batch, command, ckpt__log__v1__command__get_packed_size(command), NULL, NULL);
}

void batch_fill_first(struct batch *batch, const struct batch_first *first)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__LeaderElected elected = CKPT__LOG__V1__LEADER_ELECTED__INIT;
    Ckpt__Log__V1__NewEpoch epoch = CKPT__LOG__V1__NEW_EPOCH__INIT;
    Ckpt__Log__V1__ClusterInit init;
    Ckpt__V1__Policy policy;
    struct fsm_summary summary;

    CHECK(batch->count == 0);
    batch->first = true;
    command.now_ms = first->now_ms;
    fsm_get_summary(first->fsm, &summary);
    /* Entries of former leaders may still wait to be applied here: a second ClusterInit or NewEpoch
     * is then refused by the state. */
    if (!summary.initialised && first->initial != NULL) {
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_CLUSTER_INIT;
        init = *first->initial;
        ckpt__v1__policy__init(&policy);
        if (init.policy != NULL)
            policy = *init.policy;
        if (policy.feature_level == 0 && first->level > FSM_LEVEL_FIRST)
            policy.feature_level = first->level;
        fsm_policy_lower(&policy, first->level);
        init.policy = &policy;
        command.cluster_init = &init;
        append_own(batch, &command);
    }
    if (summary.initialised && summary.epoch < first->epoch_min) {
        epoch.epoch = first->epoch_min;
        epoch.cluster_id = (char *)(uintptr_t)first->cluster_id;
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_NEW_EPOCH;
        command.new_epoch = &epoch;
        append_own(batch, &command);
    }
    elected.member_id = first->member_id;
    elected.term = first->term;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_LEADER_ELECTED;
    command.leader_elected = &elected;
    append_own(batch, &command);
    if (first->facts != NULL) {
        command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS;
        command.member_facts = (Ckpt__Log__V1__MemberFacts *)(uintptr_t)first->facts;
        append_own(batch, &command);
    }
}
