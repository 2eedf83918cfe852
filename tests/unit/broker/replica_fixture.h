/* A replica over the scripted consensus, and callers that keep what they are told. Included once
 * per test program. */
#ifndef CKPT_TESTS_UNIT_BROKER_REPLICA_FIXTURE_H
#define CKPT_TESTS_UNIT_BROKER_REPLICA_FIXTURE_H

#include "tests/unit/broker/fake_consensus.h"

/* ---- the caller ---- */

struct answer {
    int count;
    enum err_code failed;
    enum fsm_status status;
    bool repeated;
    char text[512];
};

static inline void take_answer(void *data, const struct err *failed,
                               const struct fsm_outcome *outcome)
{
    struct answer *answer = data;

    answer->count++;
    answer->failed = failed == NULL ? ERR_NONE : failed->code;
    if (outcome != NULL) {
        answer->status = outcome->status;
        answer->repeated = outcome->repeated;
        fsm_outcome_text(outcome, answer->text, sizeof(answer->text));
    }
}

struct watcher {
    struct replica_observer observer;
    int serving, not_serving, applied;
};

static inline void count_serving(void *context)
{
    ((struct watcher *)context)->serving++;
}

static inline void count_not_serving(void *context)
{
    ((struct watcher *)context)->not_serving++;
}

static inline void count_applied(void *context)
{
    ((struct watcher *)context)->applied++;
}

static struct replica *replica;
static struct watcher watcher;
static Ckpt__Log__V1__ClusterInit initial = CKPT__LOG__V1__CLUSTER_INIT__INIT;
static Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
static Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT;

static bool fatal_awaited;
static struct err fatal_seen;

static inline void no_fatal(void *context, const struct err *err)
{
    (void)context;
    if (!fatal_awaited)
        fail_msg("fatal: %s", err->text);
    fatal_seen = *err;
}

static inline int setup(void **state)
{
    const struct consensus_config config = {.member_id = 1, .clock = &test_clock};
    struct err err;

    (void)state;
    initial.cluster_id = (char *)(uintptr_t) "demo";
    initial.epoch = 1;
    initial.policy = &policy;
    facts.member_id = 1;
    facts.name = (char *)(uintptr_t) "n1";
    facts.api_address = (char *)(uintptr_t) "127.0.0.1:1";
    facts.raft_address = (char *)(uintptr_t) "127.0.0.1:2";
    facts.version = (char *)(uintptr_t) "0";
    memset(&watcher, 0, sizeof(watcher));
    fatal_awaited = false;
    memset(&fatal_seen, 0, sizeof(fatal_seen));
    watcher.observer.context = &watcher;
    watcher.observer.serving = count_serving;
    watcher.observer.not_serving = count_not_serving;
    watcher.observer.applied = count_applied;
    if (replica_open(&config, &initial, no_fatal, NULL, &replica, &err) != 0)
        return -1;
    replica_set_facts(replica, &facts);
    replica_observe(replica, &watcher.observer);
    return 0;
}

static inline void mark_closed(void *context)
{
    *(bool *)context = true;
}

static inline int teardown(void **state)
{
    bool closed = false;

    (void)state;
    if (replica != NULL) {
        replica_close(replica, mark_closed, &closed);
        replica = NULL;
        return closed ? 0 : -1;
    }
    return 0;
}

static inline void serve(uint64_t term)
{
    lead(term);
    turn();
    commit_one();
    turn();
    assert_true(replica_serving(replica));
}

static inline void propose(const char *request_id, const char *allocation_id, struct answer *answer)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;

    end.request_id = (char *)(uintptr_t)request_id;
    end.allocation_id = (char *)(uintptr_t)allocation_id;
    command.request_id = end.request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &end;
    memset(answer, 0, sizeof(*answer));
    replica_propose(replica, &command, take_answer, answer);
}

static inline void propose_numbered(int number, struct answer *answer)
{
    char request_id[32];

    snprintf(request_id, sizeof(request_id), "request-%d", number);
    propose(request_id, "nobody", answer);
}

#endif
