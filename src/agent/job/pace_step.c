/* How ranks step. See pace_step.h. */
#include "src/agent/job/pace_step.h"

#include "src/base/check.h"

enum { LONGEST = PACE_GAPS / 100 + 1, SAID_EVERY_NS = 1000000000 };

void pace_turn(struct pace *pace, uint64_t now_us, bool under_way)
{
    uint64_t passed_us = now_us - pace->turn_us;

    CHECK(now_us >= pace->turn_us);
    pace->quiet_us = pace->open_us;
    pace->turn_us = now_us;
    if (!under_way && pace->told)
        pace->open_us += passed_us < PACE_TURN_MAX_US ? passed_us : PACE_TURN_MAX_US;
}

static void gap_add(struct pace_rank *rank, uint64_t gap_us)
{
    uint64_t gap_ms = gap_us / 1000 + 1; /* 0 is none */

    CHECK(rank->told && !rank->cut);
    rank->gaps_ms[rank->gap_next] = gap_ms < UINT32_MAX ? (uint32_t)gap_ms : UINT32_MAX;
    rank->gap_next = (rank->gap_next + 1) % PACE_GAPS;
    if (rank->gap_count < PACE_GAPS)
        rank->gap_count++;
}

void pace_stepped(struct pace *pace, struct pace_rank *rank, uint64_t step, uint64_t ns_per_step,
                  uint64_t now_us, bool under_way)
{
    CHECK(now_us >= rank->step_us);
    CHECK(rank->gap_count <= PACE_GAPS && rank->gap_next < PACE_GAPS);
    if (rank->told && step == rank->step)
        return;
    if (rank->told && !rank->cut && !under_way)
        gap_add(rank, now_us - rank->step_us);
    rank->told = true;
    rank->cut = under_way;
    rank->step = step;
    rank->step_us = now_us;
    rank->ns_per_step = ns_per_step;
    pace->told = true;
    pace->step_us = pace->turn_us = now_us;
    pace->quiet_us = pace->open_us = 0;
}

/* Of n gaps the one at place ceil(0.99 n), which is the (n / 100 + 1)th from the top. */
uint32_t pace_gap_p99_ms(const struct pace_rank *rank)
{
    uint32_t longest[LONGEST] = {0};

    CHECK(rank->gap_count <= PACE_GAPS);
    for (uint32_t i = 0; i < rank->gap_count; i++) {
        uint32_t gap_ms = rank->gaps_ms[i];

        for (uint32_t place = 0; place < LONGEST; place++) {
            uint32_t held = longest[place];

            if (gap_ms <= held)
                continue;
            longest[place] = gap_ms;
            gap_ms = held;
        }
    }
    return longest[rank->gap_count / 100];
}

uint64_t pace_step_most(const struct pace_rank *rank)
{
    uint64_t ahead = rank->ns_per_step == 0 ? 0 : SAID_EVERY_NS / rank->ns_per_step;

    CHECK(rank->told);
    CHECK(ahead <= SAID_EVERY_NS);
    return rank->step > UINT64_MAX - ahead ? UINT64_MAX : rank->step + ahead;
}

bool pace_stuck(const struct pace *pace, uint32_t gap_p99_ms)
{
    uint64_t quiet_ms = pace->quiet_us / 1000;

    CHECK(pace->told || quiet_ms == 0);
    return pace->told && quiet_ms >= PACE_LOOK_MS && quiet_ms >= 2 * (uint64_t)gap_p99_ms;
}
