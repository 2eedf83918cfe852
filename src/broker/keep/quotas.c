/* Makes room below the limits of tenants. See quotas.h. */
#include "src/broker/keep/quotas.h"

#include <stdlib.h>
#include <string.h>

#include "fsm/pause.h"
#include "fsm/quota.h"
#include "src/base/check.h"
#include "src/broker/broker.h"

struct quotas {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving, proposing;
    bool looking; /* `scan` is under way */
    struct fsm_quota_scan scan;
    uint32_t next_tenant;
    uint64_t nothing_until_ms[FSM_TENANTS_MAX]; /* by number: none of its checkpoints may go */
};

static void rest_awhile(struct quotas *quotas, uint64_t ms)
{
    if (quotas->serving)
        quotas->broker->clock.timer_start(quotas->timer, ms * 1000);
}

static uint64_t excess_of(const struct quotas *quotas, uint32_t tenant)
{
    uint64_t now_ms = replica_state_ms(quotas->broker->replica);
    struct fsm_quota quota;

    if (fsm_tenant_quota(replica_fsm(quotas->broker->replica), tenant, &quota) == NULL)
        return 0;
    return fsm_quota_excess(&quota, now_ms);
}

/* In turn, so that none waits for the others. False: none has too much of which something may
 * go. */
static bool choose_tenant(struct quotas *quotas)
{
    uint64_t now_ms = replica_state_ms(quotas->broker->replica);
    uint32_t count = fsm_tenant_count(replica_fsm(quotas->broker->replica));

    for (uint32_t i = 0; i < count; i++) {
        uint32_t tenant = (quotas->next_tenant + i) % count;

        if (now_ms < quotas->nothing_until_ms[tenant] || excess_of(quotas, tenant) == 0)
            continue;
        quotas->next_tenant = tenant + 1;
        quotas->scan = (struct fsm_quota_scan){.tenant = tenant};
        return true;
    }
    return false;
}

static void on_proposed(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct quotas *quotas = data;

    (void)failed; /* the next look finds the same */
    (void)outcome;
    quotas->proposing = false;
    rest_awhile(quotas, QUOTAS_INTERVAL_MS);
}

/* As many as cover what is too much, and no more. */
static void let_go(struct quotas *quotas)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__ExpireOverQuota expire = CKPT__LOG__V1__EXPIRE_OVER_QUOTA__INIT;
    uint64_t excess = excess_of(quotas, quotas->scan.tenant);
    uint64_t ids[FSM_QUOTA_BATCH_MAX];
    uint64_t bytes = 0;

    for (size_t i = 0; i < quotas->scan.count && bytes < excess; i++) {
        ids[expire.n_checkpoint_ids++] = quotas->scan.first[i].id;
        bytes += quotas->scan.first[i].bytes;
    }
    if (expire.n_checkpoint_ids == 0) {
        quotas->nothing_until_ms[quotas->scan.tenant] =
            replica_state_ms(quotas->broker->replica) + QUOTAS_NOTHING_MS;
        rest_awhile(quotas, QUOTAS_INTERVAL_MS);
        return;
    }
    expire.checkpoint_ids = ids;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_EXPIRE_OVER_QUOTA;
    command.expire_over_quota = &expire;
    quotas->proposing = true;
    replica_propose(quotas->broker->replica, &command, on_proposed, quotas);
}

static void on_timer(void *data)
{
    struct quotas *quotas = data;

    if (!quotas->serving || quotas->proposing)
        return;
    if (!quotas->looking && fsm_pause(replica_fsm(quotas->broker->replica)) == NULL)
        quotas->looking = choose_tenant(quotas);
    if (!quotas->looking) {
        rest_awhile(quotas, QUOTAS_INTERVAL_MS);
    } else if (!fsm_quota_step(replica_fsm(quotas->broker->replica), &quotas->scan,
                               QUOTAS_VISITS)) {
        rest_awhile(quotas, QUOTAS_STEP_MS);
    } else {
        quotas->looking = false;
        let_go(quotas);
    }
}

static void on_serving(void *context)
{
    struct quotas *quotas = context;

    quotas->serving = true;
    quotas->looking = false;
    memset(quotas->nothing_until_ms, 0, sizeof(quotas->nothing_until_ms));
    rest_awhile(quotas, QUOTAS_INTERVAL_MS);
}

static void on_not_serving(void *context)
{
    struct quotas *quotas = context;

    quotas->serving = false;
    quotas->broker->clock.timer_stop(quotas->timer);
}

struct quotas *quotas_new(struct broker *broker)
{
    struct quotas *quotas = check_calloc(1, sizeof(*quotas));

    quotas->broker = broker;
    quotas->timer = broker->clock.timer_new(broker->clock.context, on_timer, quotas);
    quotas->observer = (struct replica_observer){
        .context = quotas, .acts = true, .serving = on_serving, .not_serving = on_not_serving};
    replica_observe(broker->replica, &quotas->observer);
    return quotas;
}

void quotas_free(struct quotas *quotas)
{
    if (quotas == NULL)
        return;
    quotas->broker->clock.timer_free(quotas->timer);
    free(quotas);
}
