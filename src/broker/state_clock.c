/* See state_clock.h. */
#include "src/broker/state_clock.h"

static void anchor(struct state_clock *clock, uint64_t monotonic_us, uint64_t ms)
{
    clock->anchor_us = monotonic_us;
    clock->anchor_ms = ms;
    clock->anchored = true;
}

uint64_t state_clock_now(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                         uint64_t state_ms)
{
    uint64_t elapsed_ms, lean_ms, now_ms;

    if (!clock->anchored)
        anchor(clock, monotonic_us, wall_ms);
    elapsed_ms = (monotonic_us - clock->anchor_us) / 1000;
    lean_ms = elapsed_ms / STATE_CLOCK_SLEW;
    now_ms = clock->anchor_ms + elapsed_ms;
    if (wall_ms > now_ms)
        now_ms += wall_ms - now_ms < lean_ms ? wall_ms - now_ms : lean_ms;
    else
        now_ms -= now_ms - wall_ms < lean_ms ? now_ms - wall_ms : lean_ms;
    if (now_ms < state_ms)
        now_ms = state_ms;
    else if (elapsed_ms < STATE_CLOCK_SAMPLE_US / 1000)
        return now_ms; /* anchors that are close together would round the lean away */
    anchor(clock, monotonic_us, now_ms);
    return now_ms;
}

void state_clock_applied(struct state_clock *clock, uint64_t monotonic_us, uint64_t state_ms)
{
    uint64_t elapsed_ms, advanced_ms, off_ms;

    if (clock->marked && monotonic_us - clock->mark_us < STATE_CLOCK_SAMPLE_US)
        return;
    if (clock->marked && state_ms >= clock->mark_ms) {
        elapsed_ms = (monotonic_us - clock->mark_us) / 1000;
        advanced_ms = state_ms - clock->mark_ms;
        off_ms = advanced_ms > elapsed_ms ? advanced_ms - elapsed_ms : elapsed_ms - advanced_ms;
        if (off_ms <= elapsed_ms / 5 + STATE_CLOCK_SLACK_MS)
            anchor(clock, monotonic_us, state_ms);
    }
    clock->marked = true;
    clock->mark_us = monotonic_us;
    clock->mark_ms = state_ms;
}
