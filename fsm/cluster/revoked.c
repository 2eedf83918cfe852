/* The list of revoked certificates. See fsm/revoked.h. */
#include "fsm/revoked.h"

#include <malloc.h>

#include "fsm/core/registry.h"

struct revoked {
    size_t count;
    uint64_t hash;
    struct fsm_revoked items[FSM_REVOKED_MAX];
};

bool fsm_is_revoked(const struct fsm *fsm, const char *serial)
{
    CHECK(serial != NULL);
    for (size_t i = 0; fsm->revoked != NULL && i < fsm->revoked->count; i++)
        if (strcmp(fsm->revoked->items[i].serial, serial) == 0)
            return true;
    return false;
}

/* Made for the first one. False: there is no room, or it is there already. */
bool fsm_revoked_add(struct fsm *fsm, const struct fsm_revoked *like)
{
    struct revoked *revoked;

    CHECK(like->serial != NULL && like->note != NULL);
    if (fsm->revoked == NULL)
        fsm->revoked = check_calloc(1, sizeof(*fsm->revoked));
    revoked = fsm->revoked;
    if (revoked->count == FSM_REVOKED_MAX || fsm_is_revoked(fsm, like->serial))
        return false;
    revoked->items[revoked->count++] = (struct fsm_revoked){.serial = fsm_intern(fsm, like->serial),
                                                            .note = fsm_intern(fsm, like->note),
                                                            .at_ms = like->at_ms};
    revoked->hash = fsm_hash_bytes(revoked->hash, like->serial, strlen(like->serial));
    return true;
}

void fsm_revoked_free(struct fsm *fsm)
{
    CHECK(fsm != NULL);
    for (size_t i = 0; fsm->revoked != NULL && i < fsm->revoked->count; i++) {
        fsm_intern_release(fsm, fsm->revoked->items[i].serial);
        fsm_intern_release(fsm, fsm->revoked->items[i].note);
    }
    free(fsm->revoked);
}

const struct fsm_revoked *fsm_revoked_at(const struct fsm *fsm, size_t i)
{
    CHECK(fsm != NULL);
    return fsm->revoked != NULL && i < fsm->revoked->count ? &fsm->revoked->items[i] : NULL;
}

uint64_t fsm_revoked_hash(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->revoked == NULL ? 0 : fsm->revoked->hash;
}

bool fsm_serial_valid(const char *serial)
{
    size_t length = strlen(serial);

    CHECK(serial != NULL);
    return length >= FSM_SERIAL_MIN_BYTES && length <= FSM_SERIAL_MAX_BYTES && length % 2 == 0 &&
           strspn(serial, "0123456789abcdef") == length;
}
