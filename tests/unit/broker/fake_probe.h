/* Tries of node_probe.h that end as a test says, at the next turn of the clock.
 *
 * Shapes   answers by address: those that are named here are silent, all others answer.
 */
#ifndef CKPT_TESTS_FAKE_PROBE_H
#define CKPT_TESTS_FAKE_PROBE_H

#include "src/broker/health/node_probe.h"
#include "tests/unit/broker/fake_replica.h"

enum { FAKE_PROBE_MOST = 8 };

struct probe_try {
    struct clock_timer *timer;
    struct fake_probe *of;
    char address[NODE_PROBE_ADDRESS_BYTES];
    void (*done)(void *data, enum probe_result result);
    void *data;
};

struct fake_probe {
    struct fake *fake;
    bool cut_off;                        /* nobody answers */
    const char *silent[FAKE_PROBE_MOST]; /* addresses; NULL: a free place */
    const char *local;                   /* likewise, of this host */
    uint64_t tries;
};

static void fake_probe_fire(void *data)
{
    struct probe_try attempt = *(struct probe_try *)data;
    enum probe_result result = PROBE_ANSWER;

    for (size_t i = 0; i < FAKE_PROBE_MOST; i++)
        if (attempt.of->cut_off ||
            (attempt.of->silent[i] != NULL && strcmp(attempt.of->silent[i], attempt.address) == 0))
            result = PROBE_SILENCE;
    if (attempt.of->local != NULL && strcmp(attempt.of->local, attempt.address) == 0)
        result = PROBE_LOCAL;
    attempt.of->fake->broker.clock.timer_free(attempt.timer);
    free(data);
    attempt.done(attempt.data, result);
}

static struct probe_try *fake_probe_start(void *context, const char *address,
                                          void (*done)(void *data, enum probe_result result),
                                          void *data)
{
    struct fake_probe *probe = context;
    const struct clock_ops *clock = &probe->fake->broker.clock;
    struct probe_try *attempt = check_calloc(1, sizeof(*attempt));

    attempt->of = probe;
    attempt->done = done;
    attempt->data = data;
    snprintf(attempt->address, sizeof(attempt->address), "%s", address);
    attempt->timer = clock->timer_new(clock->context, fake_probe_fire, attempt);
    clock->timer_start(attempt->timer, 1000);
    probe->tries++;
    return attempt;
}

static void fake_probe_cancel(struct probe_try *attempt)
{
    attempt->of->fake->broker.clock.timer_free(attempt->timer);
    free(attempt);
}

static struct node_probe *fake_probe_new(struct fake_probe *probe, struct fake *fake)
{
    const struct probe_ops ops = {probe, fake_probe_start, fake_probe_cancel};

    probe->fake = fake;
    return node_probe_new(&fake->broker, &ops);
}

/* Member `id`, m1 and so on, on the host 10.1.0.HOST. */
static void fake_probe_member(struct fake *fake, uint64_t id, unsigned host)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT;
    char name[16], address[32];

    snprintf(name, sizeof(name), "m%u", (unsigned)id);
    snprintf(address, sizeof(address), "10.1.0.%u:7000", host);
    facts.member_id = id;
    facts.name = name;
    facts.api_address = facts.raft_address = address;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS;
    command.member_facts = &facts;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* The leader's word of it. */
__attribute__((unused)) static void fake_probe_seen(struct fake *fake, const char *id,
                                                    Ckpt__Log__V1__NodeState state,
                                                    const char *probe)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NodeSeen seen = CKPT__LOG__V1__NODE_SEEN__INIT;
    char name[32], boot[] = "boot-1", address[NODE_PROBE_ADDRESS_BYTES];

    snprintf(name, sizeof(name), "%s", id);
    snprintf(address, sizeof(address), "%s", probe);
    seen.node_id = name;
    seen.state = state;
    if (state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY)
        seen.boot_id = boot;
    seen.probe = address;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NODE_SEEN;
    command.node_seen = &seen;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

#endif
