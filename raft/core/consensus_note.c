/* What members tell each other along with entries, their answers and votes. See consensus.h,
 * hooks.note().
 *
 * Flow     core_note_fill() as a frame is sent, core_note_take() before libraft gets what came: a
 *          candidate has heard what each of those has to say whose vote it counts. Votes always
 *          tell; entries, heartbeats and answers every CORE_NOTE_MS, and at once when what is said
 *          of fitness has changed.
 * Shapes   one struct note_peer per member of the configuration, by its place there.
 */
#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

/* Of another member than was here before, nothing is known. NULL: not in the configuration. */
static struct note_peer *peer_of(struct consensus *consensus, uint64_t id)
{
    unsigned place = core_server_place(consensus, id);
    struct note_peer *peer;

    if (place >= consensus->raft.configuration.n || place >= CONSENSUS_MEMBERS_MAX)
        return NULL;
    peer = &consensus->notes[place];
    if (peer->id != id)
        *peer = (struct note_peer){.id = id};
    return peer;
}

static enum consensus_unfit own_unfit(const struct consensus *consensus)
{
    if (!consensus->folder.accepts_writes)
        return CONSENSUS_DISK_FULL;
    return consensus->reluctant ? CONSENSUS_RELUCTANT : CONSENSUS_FIT;
}

static bool others_fit(const struct consensus *consensus, uint64_t beside)
{
    const struct raft_configuration *configuration = &consensus->raft.configuration;

    for (unsigned i = 0; i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        if (server->role == RAFT_VOTER && server->id != beside &&
            server->id != consensus->config.member_id && core_reachable(consensus, server->id) &&
            core_unfit(consensus, server->id) == CONSENSUS_FIT)
            return true;
    }
    return false;
}

static bool is_due(struct consensus *consensus, uint64_t to, enum frame_type type,
                   const struct frame_note *note)
{
    struct note_peer *peer = peer_of(consensus, to);
    uint64_t now_us = core_now_us(consensus);

    if (type == FRAME_VOTE || type == FRAME_VOTE_RESULT || peer == NULL)
        return true;
    if (peer->said && peer->said_unfit == note->unfit && peer->said_others == note->others_fit &&
        now_us - peer->said_us < UINT64_C(1000) * CORE_NOTE_MS)
        return false;
    peer->said = true;
    peer->said_unfit = note->unfit;
    peer->said_others = note->others_fit;
    peer->said_us = now_us;
    return true;
}

void core_note_fill(struct consensus *consensus, uint64_t to, enum frame_type type,
                    struct frame_note *ret_note)
{
    CHECK(consensus != NULL);
    *ret_note = (struct frame_note){.unfit = own_unfit(consensus)};
    ret_note->others_fit = core_is_leader(consensus) && others_fit(consensus, to);
    ret_note->told = is_due(consensus, to, type, ret_note);
    if (!ret_note->told || consensus->hooks.note == NULL)
        return;
    ret_note->length = consensus->hooks.note(consensus->hooks.context, to, ret_note->bytes);
    CHECK(ret_note->length <= CONSENSUS_NOTE_MAX_BYTES);
}

void core_note_take(struct consensus *consensus, uint64_t from, const struct frame_message *message)
{
    struct note_peer *peer = peer_of(consensus, from);
    bool leads = message->type == FRAME_APPEND &&
                 message->core.append_entries.term >= consensus->raft.current_term;

    if (!message->note.told)
        return;
    if (peer != NULL)
        peer->unfit = message->note.unfit;
    if (leads)
        consensus->others_fit = message->note.others_fit;
    if (consensus->hooks.noted != NULL)
        consensus->hooks.noted(consensus->hooks.context, from, leads, message->note.bytes,
                               message->note.length);
}

enum consensus_unfit core_unfit(const struct consensus *consensus, uint64_t id)
{
    unsigned place = core_server_place(consensus, id);

    if (id == consensus->config.member_id)
        return own_unfit(consensus);
    if (place >= consensus->raft.configuration.n || place >= CONSENSUS_MEMBERS_MAX ||
        consensus->notes[place].id != id)
        return CONSENSUS_FIT;
    return consensus->notes[place].unfit;
}

void consensus_set_reluctant(struct consensus *consensus, bool reluctant)
{
    CHECK(consensus != NULL);
    consensus->reluctant = reluctant;
}
