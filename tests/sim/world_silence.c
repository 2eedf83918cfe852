/* Hours without any member: agents go on with what they know, and tell all of it afterwards.
 *
 * Flow     silence_keep() after the chaos, before all heals: schedulers ask nothing more, each
 *          member dies and stays away, troubles of nodes and applications go on; then all return.
 * Checks   JOURNAL: an agent's journal holds what it has to tell and what it keeps of its jobs, and
 *          at most five times as much beside a megabyte. REPORTS is checked as ever.
 */
#include <inttypes.h>

#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum {
    LOOK_US = 1000000,
    ENTRY_BYTES = 8192,      /* of a job that an agent knows, at most */
    REPORT_MORE_BYTES = 64,  /* around a report */
    JOURNAL_BYTES = 1 << 20, /* as src/agent/durable/ledger.c: below it nothing is rewritten */
    ROOM_BYTES = 1 << 17     /* made before it is needed, of two files */
};

static void check_journals(struct world *world)
{
    for (unsigned agent = 0; agent < world->options.shipping_agents; agent++) {
        struct world_journal journal;
        uint64_t content, most;

        if (!world_shipping_journal(agent, &journal))
            continue;
        content = journal.entries * ENTRY_BYTES + journal.reports * REPORT_MORE_BYTES +
                  journal.report_bytes;
        most = JOURNAL_BYTES + 5 * content + ROOM_BYTES;
        if (journal.bytes > most)
            world_violation(world, "JOURNAL",
                            "the journal of agent %u has %" PRIu64 " bytes, with %" PRIu64
                            " jobs and %" PRIu64 " reports at most %" PRIu64 " may be",
                            agent, journal.bytes, journal.entries, journal.reports, most);
        if (journal.bytes > world->counts.journal_bytes)
            world->counts.journal_bytes = journal.bytes;
        if (journal.reports > world->counts.kept_reports)
            world->counts.kept_reports = journal.reports;
    }
}

void silence_keep(struct world *world)
{
    const uint64_t end_us = sim_now_us(world->sim) + (uint64_t)world->options.silence * 1000 * 1000;

    load_stop(world);
    for (unsigned i = 0; i < world->member_count; i++) {
        world->members[i].away = true;
        member_kill(&world->members[i]);
    }
    while (sim_now_us(world->sim) < end_us) {
        world_run_until(world, sim_now_us(world->sim) + LOOK_US);
        check_journals(world);
    }
    faults_return(world);
}
