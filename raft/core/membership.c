/* The configuration in use and the committed one. See membership.h. */
#include "raft/core/membership.h"

#include <string.h>

#include "raft/core/safety.h"
#include "src/base/bytes.h"
#include "src/base/check.h"

enum { CONFIGURATION_FORMAT = 1 };

const struct raft_server *membership_find(const struct raft_configuration *configuration,
                                          uint64_t id)
{
    CHECK(configuration != NULL);
    for (unsigned i = 0; i < configuration->n; i++)
        if (configuration->servers[i].id == id)
            return &configuration->servers[i];
    return NULL;
}

static void configuration_copy(const struct raft_configuration *from,
                               struct raft_configuration *ret_to)
{
    raft_configuration_init(ret_to);
    for (unsigned i = 0; i < from->n; i++)
        CHECK(raft_configuration_add(ret_to, from->servers[i].id, from->servers[i].address,
                                     from->servers[i].role) == 0);
}

/* libraft's encoding: format u8, count u64, each {id u64, address with its zero, role u8}. */
static void configuration_decode(const struct raft_buffer *buf,
                                 struct raft_configuration *ret_configuration)
{
    struct bytes_reader reader = {buf->base, buf->len, false};
    uint64_t format = reader_get(&reader, 1), count = reader_get(&reader, 8);

    CHECK(format == CONFIGURATION_FORMAT);
    raft_configuration_init(ret_configuration);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t id = reader_get(&reader, 8);
        const char *address = (const char *)reader.at;
        reader_take(&reader, strnlen(address, reader.left) + 1);
        CHECK(raft_configuration_add(ret_configuration, id, address, (int)reader_get(&reader, 1)) ==
              0);
    }
    CHECK(!reader.failed);
}

static bool configuration_equal(const struct raft_configuration *a,
                                const struct raft_configuration *b)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->servers[i].id != b->servers[i].id || a->servers[i].role != b->servers[i].role ||
            strcmp(a->servers[i].address, b->servers[i].address) != 0)
            return false;
    return true;
}

bool membership_sole_voter(const struct raft_configuration *configuration, uint64_t id)
{
    const struct raft_server *self = membership_find(configuration, id);

    if (self == NULL || self->role != RAFT_VOTER)
        return false;
    for (unsigned i = 0; i < configuration->n; i++)
        if (configuration->servers[i].role == RAFT_VOTER && configuration->servers[i].id != id)
            return false;
    return true;
}

bool membership_loads_sole_voter(const struct raft_entry *entries, size_t count,
                                 const struct raft_configuration *snapshot, uint64_t id)
{
    struct raft_configuration configuration;
    bool sole;

    CHECK(snapshot != NULL);
    while (count > 0 && entries[count - 1].type != RAFT_CHANGE)
        count--;
    if (count == 0)
        return membership_sole_voter(snapshot, id);
    configuration_decode(&entries[count - 1].buf, &configuration);
    sole = membership_sole_voter(&configuration, id);
    raft_configuration_close(&configuration);
    return sole;
}

/* ---- life ---- */

void membership_init(struct membership *membership, struct raft *raft)
{
    CHECK(membership != NULL);
    CHECK(raft != NULL);
    memset(membership, 0, sizeof(*membership));
    membership->raft = raft;
    raft_configuration_init(&membership->committed);
}

void membership_close(struct membership *membership)
{
    CHECK(membership != NULL);
    raft_configuration_close(&membership->committed);
    raft_configuration_init(&membership->committed);
}

static void committed_set(struct membership *membership,
                          const struct raft_configuration *take_configuration, uint64_t index)
{
    raft_configuration_close(&membership->committed);
    membership->committed = *take_configuration;
    membership->committed_index = index;
}

void membership_loaded(struct membership *membership, const struct raft_configuration *snapshot,
                       uint64_t index)
{
    struct raft_configuration copy;

    CHECK(membership != NULL);
    CHECK(snapshot != NULL);
    configuration_copy(snapshot, &copy);
    committed_set(membership, &copy, index);
}

/* The newest change of the log above `floor`; NULL: none. */
static const struct raft_entry *newest_change(const struct raft *raft, uint64_t floor,
                                              uint64_t *ret_index)
{
    uint64_t index = raft_last_index((struct raft *)(uintptr_t)raft);

    for (; index > floor; index--) {
        const struct raft_entry *entry = safety_entry(raft, index);
        if (entry == NULL)
            return NULL;
        if (entry->type == RAFT_CHANGE) {
            *ret_index = index;
            return entry;
        }
    }
    return NULL;
}

void membership_started(struct membership *membership)
{
    struct raft *raft = membership->raft;
    const struct raft_entry *first = safety_entry(raft, 1);
    struct raft_configuration configuration;
    uint64_t index;

    if (membership->committed_index == 0 && first != NULL && first->type == RAFT_CHANGE) {
        configuration_decode(&first->buf, &configuration);
        committed_set(membership, &configuration, 1);
    }
    if (newest_change(raft, raft->last_applied, &index) == NULL)
        return;
    raft->configuration_uncommitted_index = index;
    raft->configuration_index = membership->committed_index;
}

/* ---- around an AppendEntries ---- */

bool membership_before_append(struct membership *membership,
                              const struct raft_append_entries *append)
{
    struct raft *raft = membership->raft;
    bool touched = false, compared = false;

    CHECK(append != NULL);
    for (unsigned i = 0; i < append->n_entries; i++) {
        uint64_t index = append->prev_log_index + 1 + i, term;
        touched |= append->entries[i].type == RAFT_CHANGE;
        if (compared)
            continue;
        term = safety_term_of(raft, index);
        compared = term != append->entries[i].term;
        if (term == 0 || !compared || raft->configuration_uncommitted_index < index)
            continue;
        /* libraft would roll back with an entry that may be gone; membership_settle() does. */
        raft->configuration_uncommitted_index = 0;
        touched = true;
    }
    return touched;
}

void membership_settle(struct membership *membership)
{
    struct raft *raft = membership->raft;
    struct raft_configuration wanted;
    const struct raft_entry *entry;
    uint64_t index = 0;

    if (raft->state != RAFT_FOLLOWER || safety_installing(raft))
        return;
    entry = newest_change(raft, raft->last_applied, &index);
    if (entry != NULL) {
        configuration_decode(&entry->buf, &wanted);
    } else {
        entry = safety_entry(raft, raft->configuration_index);
        if (entry != NULL && entry->type == RAFT_CHANGE)
            configuration_decode(&entry->buf, &wanted);
        else
            configuration_copy(&membership->committed, &wanted);
    }
    raft->configuration_uncommitted_index = index;
    if (configuration_equal(&raft->configuration, &wanted)) {
        raft_configuration_close(&wanted);
        return;
    }
    raft_configuration_close(&raft->configuration);
    raft->configuration = wanted;
}

void membership_install_begun(struct membership *membership)
{
    CHECK(membership != NULL);
    membership->raft->configuration_uncommitted_index = 0;
}

/* ---- the committed one ---- */

bool membership_track(struct membership *membership, struct raft_configuration *ret_before)
{
    struct raft *raft = membership->raft;
    struct raft_configuration configuration;
    const struct raft_entry *entry;

    CHECK(ret_before != NULL);
    if (raft->configuration_index == membership->committed_index)
        return false;
    entry = safety_entry(raft, raft->configuration_index);
    if (entry != NULL && entry->type == RAFT_CHANGE)
        configuration_decode(&entry->buf, &configuration);
    else
        configuration_copy(&raft->configuration, &configuration); /* restored from a snapshot */
    *ret_before = membership->committed;
    membership->committed = configuration;
    membership->committed_index = raft->configuration_index;
    return true;
}
