/* The links that are kept, for those who read them. See fsm/audit.h. */
#include "fsm/audit/audit.h"

void fsm_get_audit(const struct fsm *fsm, struct fsm_audit *ret_audit)
{
    const struct audit *audit = fsm->audit;

    CHECK(ret_audit != NULL);
    CHECK(audit->open_records == 0);
    ret_audit->sequence = audit->sequence;
    ret_audit->oldest =
        audit->count == 0 ? audit->sequence + 1 : audit_at(audit, audit_oldest(audit))->first;
    ret_audit->shipped = audit->shipped;
    ret_audit->lost = audit->lost;
    ret_audit->links = audit->count;
    ret_audit->bytes = audit->bytes;
    memcpy(ret_audit->hash, audit->hash, sizeof(ret_audit->hash));
}

bool fsm_audit_link(const struct fsm *fsm, uint64_t number, struct fsm_audit_link *ret_link)
{
    const struct audit_place *place;

    CHECK(ret_link != NULL);
    if (number < audit_oldest(fsm->audit) || number > fsm->audit->link)
        return false;
    place = audit_at(fsm->audit, number);
    *ret_link = (struct fsm_audit_link){.index = place->index,
                                        .first = place->first,
                                        .last = audit_last(place),
                                        .bytes = fsm->audit->ring + place->at,
                                        .length = place->length};
    return true;
}

/* The first kept one that is not before the record and the entry. */
static uint64_t find_link(const struct audit *audit, uint64_t sequence, uint64_t index)
{
    uint64_t low = audit_oldest(audit), end = audit->link + 1;

    CHECK(low <= end);
    while (low < end) {
        uint64_t middle = low + (end - low) / 2;
        const struct audit_place *place = audit_at(audit, middle);

        if (audit_last(place) < sequence || place->index < index)
            low = middle + 1;
        else
            end = middle;
    }
    return low <= audit->link ? low : 0;
}

uint64_t fsm_audit_link_of(const struct fsm *fsm, uint64_t sequence)
{
    return find_link(fsm->audit, sequence, 0);
}

uint64_t fsm_audit_link_from_index(const struct fsm *fsm, uint64_t index)
{
    return find_link(fsm->audit, 0, index);
}
