/* A Tick when a deadline of the state has passed. See ticker.h. The timer is set anew after each
 * applied entry, since any entry may bring an earlier deadline; what it finds when it fires is
 * looked at again, since the deadline may be gone. */
#include "src/broker/replica/ticker.h"

#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/broker.h"

struct ticker {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    bool in_flight;
    uint64_t rests_until_us; /* monotonic: no Tick before, whatever the state says */
};

uint64_t ticker_delay_ms(uint64_t deadline_ms, uint64_t now_ms)
{
    if (deadline_ms <= now_ms)
        return 0;
    return deadline_ms - now_ms < TICKER_CHECK_MS ? deadline_ms - now_ms : TICKER_CHECK_MS;
}

static void on_ticked(void *data, const struct err *failed, const struct fsm_outcome *outcome);

static void propose_tick(struct ticker *ticker)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Tick tick = CKPT__LOG__V1__TICK__INIT;

    CHECK(!ticker->in_flight);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &tick;
    ticker->in_flight = true;
    replica_propose(ticker->broker->replica, &command, on_ticked, ticker);
}

/* Sets the timer to the earliest deadline. With none the timer rests: an idle cluster writes
 * nothing. The rest after a Tick ends at its instant, however often this is called meanwhile. */
static void arm_timer(struct ticker *ticker)
{
    const struct clock_ops *clock = &ticker->broker->clock;
    uint64_t deadline_ms, delay_us, now_us;

    if (!ticker->serving || ticker->in_flight)
        return;
    deadline_ms = fsm_next_deadline_ms(replica_fsm(ticker->broker->replica));
    if (deadline_ms == UINT64_MAX) {
        clock->timer_stop(ticker->timer);
        return;
    }
    delay_us = ticker_delay_ms(deadline_ms, replica_state_ms(ticker->broker->replica)) * 1000;
    now_us = clock->monotonic_us(clock->context);
    if (ticker->rests_until_us > now_us && delay_us < ticker->rests_until_us - now_us)
        delay_us = ticker->rests_until_us - now_us;
    clock->timer_start(ticker->timer, delay_us);
}

static void on_ticked(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct ticker *ticker = data;

    (void)failed; /* repeated after TICKER_RETRY_MS when the deadline still stands */
    (void)outcome;
    ticker->in_flight = false;
    ticker->rests_until_us =
        ticker->broker->clock.monotonic_us(ticker->broker->clock.context) + TICKER_RETRY_MS * 1000;
    arm_timer(ticker);
}

/* The clock of the state decides, not the timer: it may lean away from the clock that the timer
 * runs by. */
static void on_timer(void *data)
{
    struct ticker *ticker = data;
    uint64_t deadline_ms = fsm_next_deadline_ms(replica_fsm(ticker->broker->replica));

    if (!ticker->serving || ticker->in_flight)
        return;
    if (deadline_ms != UINT64_MAX &&
        ticker_delay_ms(deadline_ms, replica_state_ms(ticker->broker->replica)) == 0)
        propose_tick(ticker);
    else
        arm_timer(ticker);
}

static void on_serving(void *context)
{
    struct ticker *ticker = context;

    ticker->serving = true;
    arm_timer(ticker);
}

static void on_not_serving(void *context)
{
    struct ticker *ticker = context;

    ticker->serving = false;
    ticker->broker->clock.timer_stop(ticker->timer);
}

static void on_applied(void *context)
{
    arm_timer(context);
}

struct ticker *ticker_new(struct broker *broker)
{
    struct ticker *ticker = check_calloc(1, sizeof(*ticker));

    CHECK(broker->replica != NULL);
    ticker->broker = broker;
    ticker->timer = broker->clock.timer_new(broker->clock.context, on_timer, ticker);
    ticker->observer = (struct replica_observer){.context = ticker,
                                                 .acts = true,
                                                 .serving = on_serving,
                                                 .not_serving = on_not_serving,
                                                 .applied = on_applied};
    replica_observe(broker->replica, &ticker->observer);
    return ticker;
}

void ticker_free(struct ticker *ticker)
{
    if (ticker == NULL)
        return;
    ticker->broker->clock.timer_free(ticker->timer);
    free(ticker);
}
