/* The checks of a canary, one function for each row. See canary.h. */
#include "src/broker/daemon/canary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

struct canary_look {
    const struct canary_sample *begin, *now;
    char *value;
};

static uint64_t grown_since(uint64_t begin, uint64_t now)
{
    return now > begin ? now - begin : 0;
}

static void say_number(const struct canary_look *look, const char *what, uint64_t number)
{
    snprintf(look->value, CANARY_TEXT_BYTES, "%" PRIu64 " %s", number, what);
}

static bool elections_failed(const struct canary_look *look)
{
    uint64_t changes = grown_since(look->begin->leader_changes, look->now->leader_changes);

    say_number(look, "changes of the leader", changes);
    return changes > CANARY_ELECTIONS_MAX;
}

/* The bucket that the p99 lies in; the last one begins at 4.2 s. U-003: below 5 s. */
static bool commit_failed(const struct canary_look *look)
{
    uint64_t counts[REPLICA_LATENCY_BUCKETS], total = 0, seen = 0;
    size_t bucket = 0;

    for (size_t i = 0; i < REPLICA_LATENCY_BUCKETS; i++) {
        counts[i] = grown_since(look->begin->commit_us[i], look->now->commit_us[i]);
        total += counts[i];
    }
    if (total == 0) {
        snprintf(look->value, CANARY_TEXT_BYTES, "it has not led");
        return false;
    }
    for (; bucket + 1 < REPLICA_LATENCY_BUCKETS; bucket++) {
        seen += counts[bucket];
        if (seen * 100 >= total * 99)
            break;
    }
    if (bucket + 1 < REPLICA_LATENCY_BUCKETS)
        snprintf(look->value, CANARY_TEXT_BYTES, "p99 below %" PRIu64 " us of %" PRIu64,
                 UINT64_C(1) << bucket, total);
    else
        snprintf(look->value, CANARY_TEXT_BYTES, "p99 over %" PRIu64 " us of %" PRIu64,
                 UINT64_C(1) << (bucket - 1), total);
    return total >= CANARY_COMMITS_MIN && bucket + 1 == REPLICA_LATENCY_BUCKETS;
}

static bool behind_failed(const struct canary_look *look)
{
    say_number(look, "looks in a row at an old state", look->now->behind_looks);
    return look->now->behind_looks >= CANARY_BEHIND_LOOKS;
}

static bool memory_failed(const struct canary_look *look)
{
    snprintf(look->value, CANARY_TEXT_BYTES, "%" PRIu64 " MiB, %" PRIu64 " at the begin",
             look->now->memory_bytes >> 20, look->begin->memory_bytes >> 20);
    return look->now->memory_bytes > 2 * look->begin->memory_bytes + CANARY_MEMORY_BYTES;
}

static bool peers_failed(const struct canary_look *look)
{
    uint64_t lost = grown_since(look->begin->lost_peers, look->now->lost_peers);

    say_number(look, "times", lost);
    return lost > CANARY_LOST_PEERS_MAX;
}

static bool loop_failed(const struct canary_look *look)
{
    uint64_t late = grown_since(look->begin->late_turns, look->now->late_turns);

    say_number(look, "late turns", late);
    return late > CANARY_LATE_TURNS_MAX;
}

static bool snapshots_failed(const struct canary_look *look)
{
    uint64_t failed = grown_since(look->begin->snapshot_failures, look->now->snapshot_failures);

    say_number(look, "failed", failed);
    return failed > 0;
}

/* U-003: a rollout stops on failures of allocations. Jobs fail by themselves as well, so a few do
 * not count. */
static bool jobs_failed(const struct canary_look *look)
{
    uint64_t failed = grown_since(look->begin->jobs_failed, look->now->jobs_failed);

    snprintf(look->value, CANARY_TEXT_BYTES, "%" PRIu64 " failed, %" PRIu64 " ran at the begin",
             failed, look->begin->jobs_running);
    return failed > CANARY_JOBS_FAILED_MIN && failed * 10 > look->begin->jobs_running;
}

bool canary_look(const struct canary_sample *begin, const struct canary_sample *now,
                 struct canary_result ret_results[CANARY_CHECK_COUNT])
{
    static const struct {
        const char *name, *limit;
        bool (*failed)(const struct canary_look *look);
    } rows[] = {
#define X(id, name, limit) {name, limit, id##_failed},
        CANARY_CHECKS(X)
#undef X
    };
    bool all = true;

    _Static_assert(ARRAY_COUNT(rows) == CANARY_CHECK_COUNT, "a row for each check");
    CHECK(begin != NULL && now != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct canary_result *result = &ret_results[i];
        const struct canary_look look = {begin, now, result->value};

        result->name = rows[i].name;
        result->limit = rows[i].limit;
        result->value[0] = '\0';
        result->failed = rows[i].failed(&look);
        CHECK(result->value[0] != '\0');
        all = all && !result->failed;
    }
    return all;
}
