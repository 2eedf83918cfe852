/* What tests of a ckpt-run that attaches and restores say in one line. */
#ifndef CKPT_TESTS_ATTACH_RESTORE_H
#define CKPT_TESTS_ATTACH_RESTORE_H

#include "tests/unit/agent/attach.h"

static inline struct rpc_client_call *attach_to_restore(void)
{
    struct rpc_client_call *call = attach();

    removal.count = 0;
    assert_true(becomes(removes, WAIT_US));
    removal.done(removal.data);
    return call;
}

static inline void expect_refusal(const char *text)
{
    assert_true(becomes(refused, WAIT_US));
    assert_contains(refusal, text);
}

/* 0: from scratch. */
static inline void expect_start(uint64_t checkpoint_id)
{
    assert_true(becomes(starts, WAIT_US));
    assert_uint_equal(ready.checkpoint_id, checkpoint_id);
}

static inline Ckpt__V1__AgentReport *last_report(void)
{
    uint64_t last = ledger_last_sequence(agent.ledger);
    const struct ledger_report *report;

    assert_true(last > 0);
    report = ledger_report_after(agent.ledger, last - 1);
    return ckpt__v1__agent_report__unpack(NULL, report->length, report->bytes);
}

static inline bool reports(void)
{
    return ledger_last_sequence(agent.ledger) > 0;
}

#endif
