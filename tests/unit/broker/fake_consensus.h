/* A scripted consensus and a clock that only moves when the test says so, for the test of the
 * replica. The consensus keeps proposals until the test commits or drops them. Defines the
 * functions of raft/core/consensus.h: for one test program each. */
#ifndef CKPT_TESTS_UNIT_BROKER_FAKE_CONSENSUS_H
#define CKPT_TESTS_UNIT_BROKER_FAKE_CONSENSUS_H

#include "src/base/check.h"
#include "src/broker/replica/replica.h"
#include "tests/support/test.h"
#include "tests/unit/broker/fake_members.h"

enum { PROPOSALS_MAX = 64 };

/* ---- consensus ---- */

struct proposal {
    uint8_t *bytes;
    size_t length;
    void *tag;
};

struct consensus {
    struct consensus_hooks hooks;
    struct proposal proposals[PROPOSALS_MAX]; /* in flight, oldest first */
    size_t count;
    size_t proposed_total;
    uint64_t index;
    uint64_t term;
    enum err_code refuse; /* of propose() */
    bool in_call;
    size_t transfers_asked;
    size_t refuse_transfers; /* so many are refused */
    uint64_t transfer_member;
    enum err_code refuse_with; /* ERR_NONE: ERR_UNAVAILABLE */
    enum consensus_role role;
    bool reluctant;
    void (*read_done)(void *data, int status, const struct err *err);
    void *read_data;
    size_t peer_count; /* n2 and so on, whose level is fake_level */
};

static struct consensus fake;

int consensus_open(const struct consensus_config *config, const struct consensus_hooks *hooks,
                   struct consensus **ret_consensus, struct err *err)
{
    (void)config;
    (void)err;
    memset(&fake, 0, sizeof(fake));
    fake.hooks = *hooks;
    *ret_consensus = &fake;
    return 0;
}

static struct proposal take_oldest(void)
{
    struct proposal oldest = fake.proposals[0];

    assert_true(fake.count > 0);
    fake.count--;
    memmove(fake.proposals, fake.proposals + 1, fake.count * sizeof(fake.proposals[0]));
    return oldest;
}

static void drop_all(void)
{
    while (fake.count > 0) {
        struct proposal oldest = take_oldest();
        fake.hooks.dropped(fake.hooks.context, oldest.tag);
        free(oldest.bytes);
    }
}

void consensus_close(struct consensus *consensus, void (*closed)(void *context), void *context)
{
    assert_ptr_equal(consensus, &fake);
    drop_all();
    closed(context);
}

void consensus_abandon(struct consensus *consensus)
{
    assert_ptr_equal(consensus, &fake);
    drop_all();
}

int consensus_propose(struct consensus *consensus, const uint8_t *bytes, size_t length, void *tag,
                      struct err *err)
{
    struct proposal *proposal = &consensus->proposals[consensus->count];

    if (consensus->refuse != ERR_NONE)
        return err_set(err, consensus->refuse, "refused by the test");
    assert_true(consensus->count < PROPOSALS_MAX);
    assert_non_null(tag);
    proposal->bytes = malloc(length);
    memcpy(proposal->bytes, bytes, length);
    proposal->length = length;
    proposal->tag = tag;
    consensus->count++;
    consensus->proposed_total++;
    return 0;
}

bool consensus_in_call(const struct consensus *consensus)
{
    return consensus->in_call;
}

void consensus_read(struct consensus *consensus,
                    void (*done)(void *data, int status, const struct err *err), void *data)
{
    consensus->read_done = done;
    consensus->read_data = data;
}

int consensus_transfer(struct consensus *consensus, uint64_t member_id, struct err *err)
{
    consensus->transfers_asked++;
    consensus->transfer_member = member_id;
    if (consensus->refuse_transfers > 0) {
        consensus->refuse_transfers--;
        return err_set(
            err, consensus->refuse_with != ERR_NONE ? consensus->refuse_with : ERR_UNAVAILABLE,
            "no voter has caught up yet");
    }
    return 0;
}

void consensus_get_status(const struct consensus *consensus, struct consensus_status *ret_status)
{
    memset(ret_status, 0, sizeof(*ret_status));
    ret_status->term = consensus->term;
    ret_status->role = consensus->role;
    ret_status->member_role = CONSENSUS_VOTER;
    ret_status->peer_count = consensus->peer_count;
    for (size_t i = 0; i < consensus->peer_count; i++) {
        ret_status->peers[i].id = i + 2;
        snprintf(ret_status->peers[i].name, sizeof(ret_status->peers[i].name), "n%zu", i + 2);
    }
}

void consensus_set_reluctant(struct consensus *consensus, bool reluctant)
{
    consensus->reluctant = reluctant;
}

static void lead(uint64_t term)
{
    fake.term = term;
    fake.role = CONSENSUS_LEADER;
    fake.hooks.role_changed(fake.hooks.context, CONSENSUS_LEADER, term, 1);
}

static void follow(uint64_t term, uint64_t leader)
{
    fake.term = term;
    fake.role = CONSENSUS_FOLLOWER;
    fake.hooks.role_changed(fake.hooks.context, CONSENSUS_FOLLOWER, term, leader);
}

static void commit_one(void)
{
    struct proposal oldest = take_oldest();

    fake.hooks.apply(fake.hooks.context, ++fake.index, fake.term, oldest.bytes, oldest.length,
                     oldest.tag);
    free(oldest.bytes);
}

/* ---- clock ---- */

struct clock_timer {
    void (*fire)(void *data);
    void *data;
    bool started;
    uint64_t delay_us;
};

static uint64_t clock_us = 1000000;
static struct clock_timer *the_timer;

static uint64_t clock_monotonic_us(void *context)
{
    (void)context;
    return clock_us;
}

static uint64_t clock_wall_ms(void *context)
{
    (void)context;
    return UINT64_C(1700000000000) + clock_us / 1000;
}

static struct clock_timer *clock_timer_new(void *context, void (*fire)(void *data), void *data)
{
    (void)context;
    the_timer = calloc(1, sizeof(*the_timer));
    the_timer->fire = fire;
    the_timer->data = data;
    return the_timer;
}

static void clock_timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    timer->started = true;
    timer->delay_us = delay_us;
}

static void clock_timer_stop(struct clock_timer *timer)
{
    timer->started = false;
}

static void clock_timer_free(struct clock_timer *timer)
{
    free(timer);
}

/* One turn of the loop. */
static void turn(void)
{
    if (the_timer->started) {
        the_timer->started = false;
        the_timer->fire(the_timer->data);
    }
}

static const struct clock_ops test_clock = {.monotonic_us = clock_monotonic_us,
                                            .wall_ms = clock_wall_ms,
                                            .timer_new = clock_timer_new,
                                            .timer_start = clock_timer_start,
                                            .timer_stop = clock_timer_stop,
                                            .timer_free = clock_timer_free};

#endif
