/* Members that the configuration file names and the cluster does not have: asked now and then who
 * they are, so that a second history of the same cluster (two members recovered separately, an old
 * cluster beside a restored one) is noticed, not only refused.
 *
 * Flow     every CORE_FORMER_MS one of them gets a hello that asks only (probe.h); both ends
 *          remember the other's incarnation (transport_incarnation), and the status tells.
 * Absent   any consequence: the refusal is the transport's.
 */
#include "raft/core/consensus_internal.h"

static void former_answered(void *data, const struct err *failed)
{
    (void)data; /* what counts was in the reply */
    (void)failed;
}

void core_former_tick(struct consensus *consensus)
{
    const struct consensus_config *config = &consensus->config;
    uint64_t now_us = core_now_us(consensus);

    probe_tick(&consensus->former);
    if (consensus->joining || consensus->raft.configuration.n == 0 ||
        consensus->transport.incarnation == 0 || probe_active(&consensus->former) ||
        now_us - consensus->former_asked_us < UINT64_C(1000) * CORE_FORMER_MS)
        return;
    consensus->former_asked_us = now_us;
    for (size_t i = 0; i < config->member_count; i++) {
        const struct consensus_member *member =
            &config->members[consensus->former_next++ % config->member_count];
        if (member->id == config->member_id ||
            core_server_place(consensus, member->id) < consensus->raft.configuration.n)
            continue;
        probe_start(&consensus->former, &consensus->transport, member, former_answered, consensus);
        return;
    }
}
