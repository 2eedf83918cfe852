/* What befalls the streams between simulated nodes. See sim.h. */
#include "tests/sim/sim_network_internal.h"

void sim_link_set(struct sim *sim, unsigned from, unsigned to, bool up)
{
    sim_network_of(sim)->down[from][to] = !up;
}

bool sim_link_up(struct sim *sim, unsigned from, unsigned to)
{
    return !sim_network_of(sim)->down[from][to];
}

void sim_mute(struct sim *sim, unsigned node)
{
    sim_network_of(sim)->muted[node] = true;
}

void sim_network_set_unruly(struct sim *sim, const struct sim_unruly *unruly)
{
    sim_network_of(sim)->unruly = *unruly;
}

void sim_network_lose(struct sim *sim, unsigned node,
                      bool (*is_lost)(const uint8_t *bytes, size_t length))
{
    sim_network_of(sim)->is_lost[node] = is_lost;
}

void sim_network_set_latency(struct sim *sim, uint64_t slow_in, uint64_t slow_us)
{
    sim_network_of(sim)->slow_in = slow_in;
    sim_network_of(sim)->slow_us = slow_us;
}

/* Told from events of their own: the list changes while they are told. */
struct reset {
    struct sim_network *network;
    unsigned a, b;
};

static bool reset_one(const struct reset *reset)
{
    for (struct network_stream *stream = reset->network->streams; stream != NULL;
         stream = stream->next)
        if (!stream->closed && stream->peer != NULL &&
            ((stream->owner == reset->a && stream->other == reset->b) ||
             (stream->owner == reset->b && stream->other == reset->a))) {
            struct network_stream *peer = stream->peer;
            stream->peer = NULL;
            peer->peer = NULL;
            sim_stream_tell_closed(stream);
            peer->busy = true;
            sim_stream_release(stream);
            sim_stream_tell_closed(peer);
            peer->busy = false;
            sim_stream_release(peer);
            return true;
        }
    return false;
}

void sim_reset_connections(struct sim *sim, unsigned a, unsigned b)
{
    const struct reset reset = {sim_network_of(sim), a, b};

    while (reset_one(&reset))
        ;
}
