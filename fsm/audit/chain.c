/* The chain of links: a ring of bytes, and the hash of the newest. See fsm/audit.h.
 *
 * Shapes   links are kept up to a number of them and of their bytes, however they lie in the ring:
 *          that differs between a member that was restored and the others.
 */
#include <malloc.h>

#include "fsm/audit/audit.h"
#include "fsm/level.h"
#include "src/base/bytes.h"

/* Neither the ring nor its places are filled: memory is the system's until a link lies there. */
void fsm_audit_open(struct fsm *fsm)
{
    CHECK(fsm->audit == NULL);
    fsm->audit = check_calloc(1, sizeof(*fsm->audit));
    fsm->audit->ring = check_alloc(AUDIT_RING_BYTES);
    fsm->audit->places = check_alloc(FSM_AUDIT_MAX * sizeof(fsm->audit->places[0]));
    fsm->audit->open = check_alloc(FSM_AUDIT_LINK_MAX_BYTES);
}

void fsm_audit_close(struct fsm *fsm)
{
    CHECK(fsm->audit != NULL);
    free(fsm->audit->ring);
    free(fsm->audit->places);
    free(fsm->audit->open);
    free(fsm->audit);
}

/* ---- the ring ---- */

/* The oldest leaves. A snapshot at work still needs it. */
static void drop_oldest(struct fsm *fsm)
{
    struct audit *audit = fsm->audit;
    const struct audit_place *place;

    CHECK(audit->count > 0);
    place = audit_at(audit, audit_oldest(audit));
    if (!list_empty(fsm->snapshots))
        fsm_save_audit(fsm, audit_oldest(audit));
    if (audit->shipped != 0 && audit_last(place) > audit->shipped)
        audit->lost += place->records; /* a link is shipped as a whole */
    CHECK(audit->bytes >= place->length);
    audit->bytes -= place->length;
    audit->count--;
}

/* Behind the newest, or at the ring's begin. There is room in either place, since the ring is one
 * link longer than all that is kept. */
static uint32_t place_for(const struct audit *audit, uint32_t length)
{
    uint32_t at = AUDIT_RING_BYTES - audit->end >= length ? audit->end : 0, oldest;

    if (audit->count == 0)
        return at;
    oldest = audit_at(audit, audit_oldest(audit))->at;
    CHECK(at > oldest || at + length <= oldest);
    return at;
}

static void append_link(struct audit *audit, const uint8_t *bytes, const struct audit_place *like)
{
    struct audit_place place = *like;

    CHECK(place.length > AUDIT_HEAD_BYTES && place.length <= FSM_AUDIT_LINK_MAX_BYTES);
    CHECK(audit->bytes + place.length <= FSM_AUDIT_STATE_BYTES && audit->count < FSM_AUDIT_MAX);
    place.at = place_for(audit, place.length);
    memcpy(audit->ring + place.at, bytes, place.length);
    audit->end = place.at + place.length;
    audit->link++;
    audit->count++;
    audit->bytes += place.length;
    audit->places[audit->link % FSM_AUDIT_MAX] = place;
}

/* ---- records ---- */

/* The head goes into the state's hash: members whose trails differ have diverged (I41). */
void fsm_audit_settle(struct fsm *fsm)
{
    struct audit *audit = fsm->audit;
    struct audit_place place = {.index = fsm->index,
                                .first = audit->sequence + 1 - audit->open_records,
                                .records = audit->open_records,
                                .length = audit->open_length};

    if (audit->open_records == 0)
        return;
    CHECK(fsm->index > 0);
    audit_link_head(fsm, audit->open);
    while (audit->count == FSM_AUDIT_MAX || audit->bytes + place.length > FSM_AUDIT_STATE_BYTES)
        drop_oldest(fsm);
    append_link(audit, audit->open, &place);
    blake2b(audit->open, place.length, audit->hash);
    fsm->state_hash = fsm_hash_mix(fsm->state_hash, bytes_get(audit->hash, 8));
    audit->open_records = 0;
    audit->open_length = 0;
}

void audit_add(struct fsm *fsm, const struct audit_entry *entry)
{
    struct audit *audit = fsm->audit;
    uint8_t record[FSM_AUDIT_RECORD_BYTES];
    size_t length = audit_record(entry, record);

    CHECK(fsm_level(fsm) >= AUDIT_LEVEL);
    if (audit->open_length > FSM_AUDIT_LINK_BYTES - AUDIT_HEAD_BYTES)
        fsm_audit_settle(fsm);
    if (audit->open_records == 0)
        audit->open_length = AUDIT_HEAD_BYTES;
    audit->open_length += (uint32_t)audit_link_field(length, audit->open + audit->open_length);
    CHECK(length < FSM_AUDIT_LINK_MAX_BYTES - audit->open_length);
    memcpy(audit->open + audit->open_length, record, length);
    audit->open_length += (uint32_t)length;
    audit->open_records++;
    audit->sequence++;
}

/* Links that lie in files leave, but for the newest. */
void audit_ship(struct fsm *fsm, uint64_t sequence)
{
    struct audit *audit = fsm->audit;

    CHECK(sequence <= audit->sequence);
    if (sequence > audit->shipped)
        audit->shipped = sequence;
    while ((audit->count > FSM_AUDIT_KEPT || audit->bytes > FSM_AUDIT_KEPT_BYTES) &&
           audit_last(audit_at(audit, audit_oldest(audit))) <= audit->shipped)
        drop_oldest(fsm);
}

/* ---- snapshots ---- */

bool audit_restore_head(struct fsm *fsm, const Ckpt__Log__V1__AuditHead *head)
{
    struct audit *audit = fsm->audit;

    if (head->sequence == 0 || head->sequence >= UINT64_MAX / 2 || head->link > head->sequence ||
        head->kept > FSM_AUDIT_MAX || head->kept > head->link || head->before > head->sequence ||
        head->shipped > head->sequence || (head->kept == 0 && head->before != head->sequence) ||
        head->hash.len != BLAKE2B_BYTES || audit->sequence != 0)
        return false;
    audit->sequence = head->before;
    audit->link = head->link - head->kept;
    audit->shipped = head->shipped;
    audit->lost = head->lost;
    memcpy(audit->hash, head->hash.data, BLAKE2B_BYTES);
    return true;
}

/* The last one must lead to the hash of the head; without any the head stands for itself. */
bool audit_restore(struct fsm *fsm, const Ckpt__Log__V1__AuditKept *kept)
{
    struct audit *audit = fsm->audit;
    struct fsm_audit_place place;

    CHECK(audit->count <= FSM_AUDIT_MAX);
    if (kept->link.len > FSM_AUDIT_LINK_MAX_BYTES || audit->count == FSM_AUDIT_MAX ||
        audit->bytes + kept->link.len > FSM_AUDIT_STATE_BYTES ||
        !fsm_audit_place(kept->link.data, kept->link.len, &place) ||
        place.first != audit->sequence + 1 || place.index > fsm->index || place.at_ms > fsm->now_ms)
        return false;
    append_link(audit, kept->link.data,
                &(struct audit_place){.index = place.index,
                                      .first = place.first,
                                      .records = (uint32_t)(place.last - place.first + 1),
                                      .length = (uint32_t)kept->link.len});
    audit->sequence = place.last;
    return true;
}

bool audit_whole(const struct fsm *fsm, uint64_t most)
{
    const struct audit *audit = fsm->audit;
    uint64_t first = audit->link + 1 - fsm_min(audit->count, most);
    uint8_t hash[BLAKE2B_BYTES];

    CHECK(first > 0);
    for (uint64_t at = first; at <= audit->link; at++) {
        const struct audit_place *kept = audit_at(audit, at);
        struct fsm_audit_place place;

        if (!fsm_audit_place(audit->ring + kept->at, kept->length, &place) ||
            place.first != kept->first || place.last != audit_last(kept) ||
            place.index != kept->index ||
            (at > first && memcmp(place.previous, hash, sizeof(hash)) != 0))
            return false;
        blake2b(audit->ring + kept->at, kept->length, hash);
    }
    return audit->count == 0 || memcmp(hash, audit->hash, sizeof(hash)) == 0;
}
