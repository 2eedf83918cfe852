/* The clocks of the members, as the replica has them: what is told and heard with Raft's messages,
 * the time of stamps. See state_clock.h. */
#include "fsm/level.h"
#include "src/base/check.h"
#include "src/broker/replica/replica_internal.h"

_Static_assert((int)STATE_CLOCK_WORDS_BYTES + (int)REPLICA_WORDS_BYTES <=
                   (int)CONSENSUS_NOTE_MAX_BYTES,
               "what is said of a clock and of nodes goes along with a message");
_Static_assert((int)STATE_CLOCK_MEMBERS_MAX >= (int)CONSENSUS_MEMBERS_MAX,
               "each member's clock has a place");

uint64_t replica_wall_ms(const struct replica *replica)
{
    return replica->clock.wall_ms(replica->clock.context);
}

uint64_t replica_state_ms(struct replica *replica)
{
    struct fsm_summary summary;

    fsm_get_summary(replica->fsm, &summary);
    return state_clock_now(&replica->state_clock, replica_now_us(replica), replica_wall_ms(replica),
                           summary.now_ms);
}

/* What goes along with a message to another member: at most CONSENSUS_NOTE_MAX_BYTES, written when
 * the message is sent, so that it is no older than the message. */
size_t replica_clock_note(void *context, uint64_t to, uint8_t bytes[CONSENSUS_NOTE_MAX_BYTES])
{
    struct replica *replica = context;

    size_t length = state_clock_say(&replica->state_clock, to, replica_now_us(replica),
                                    replica_wall_ms(replica), replica_state_ms(replica), bytes);

    if (replica->words.context != NULL && length == STATE_CLOCK_WORDS_BYTES &&
        to == replica_leader_id(replica) && fsm_level(replica->fsm) >= 2)
        length += replica->words.say(replica->words.context, bytes + length);
    return length;
}

void replica_clock_noted(void *context, uint64_t from, bool leads, const uint8_t *bytes,
                         size_t length)
{
    struct replica *replica = context;

    size_t more = length > STATE_CLOCK_WORDS_BYTES ? length - STATE_CLOCK_WORDS_BYTES : 0;

    state_clock_hear(&replica->state_clock, replica_now_us(replica), from, leads, bytes,
                     length - more);
    if (more > 0 && replica->words.context != NULL)
        replica->words.hear(replica->words.context, from, bytes + STATE_CLOCK_WORDS_BYTES, more);
}

/* Only voters' clocks count: a learner may be a machine that was set up a minute ago. */
bool replica_clock_look(struct replica *replica)
{
    uint64_t ids[CONSENSUS_MEMBERS_MAX + 1];
    struct state_clock_voters voters = {.self_id = replica->member_id, .ids = ids};
    struct consensus_status status;

    consensus_get_status(replica->consensus, &status);
    voters.leads = status.role == CONSENSUS_LEADER;
    if (status.member_role == CONSENSUS_VOTER)
        ids[voters.count++] = replica->member_id;
    for (size_t i = 0; i < status.peer_count; i++)
        if (status.peers[i].voter)
            ids[voters.count++] = status.peers[i].id;
    return state_clock_look(&replica->state_clock, replica_now_us(replica),
                            replica_wall_ms(replica), &voters);
}

void replica_clock_get(const struct replica *replica, struct replica_clock *ret_clock)
{
    *ret_clock = (struct replica_clock){replica->state_clock.off, replica->state_clock.offset_ms};
}

void replica_set_words(struct replica *replica, const struct replica_words *words)
{
    replica->words = *words;
}

bool replica_clock_of(const struct replica *replica, uint64_t member_id, int64_t *ret_offset_ms)
{
    return state_clock_offset(&replica->state_clock, replica_now_us(replica), member_id,
                              ret_offset_ms);
}
