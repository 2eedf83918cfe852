/* The first start: the founders agree on an incarnation, and libraft starts when this folder is a
 * member of it.
 *
 * Flow     Every founder asks every other one, with each dial, for the number of its folder
 *          (founding.h). The one with the lowest id draws the incarnation when all have answered
 *          that they are blank and begin with the same; it writes that down and begins. The others
 *          read it in an answer to a question of theirs, write it down and begin as well. So each
 *          folder is of one incarnation before libraft votes on anything.
 *          A founder that dies in the middle goes on where its record says. A repeated or late
 *          answer changes nothing: a folder takes the first incarnation that was drawn for its
 *          number. Of two that draw at once, who had another list or another state has another
 *          basis, and one that runs twice is asked at one address only.
 *          Whoever is asked after that by a folder with another number says that it is a stranger:
 *          its disk was replaced.
 *          Who was heard and is away since does not count: it may come back with another disk. And
 *          who is alone in its list has nobody to ask: it waits a while for a call first, as the
 *          members that have joined its former self do call it.
 * Errors   ERR_REFUSED, by hooks.fatal: this folder is a stranger.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "src/base/check.h"

static size_t place_of(const struct consensus *consensus, uint64_t id)
{
    size_t place = 0;

    while (place < consensus->config.member_count && consensus->members[place].id != id)
        place++;
    return place;
}

/* One draws, or two incarnations would be drawn at the same moment. By the list that all must begin
 * with alike, everybody comes to the same one. */
static bool founding_draws(const struct consensus *consensus)
{
    for (size_t i = 0; i < consensus->config.member_count; i++)
        if (consensus->members[i].id < consensus->config.member_id)
            return false;
    return true;
}

/* ---- beginning with what was agreed on ---- */

/* libraft leaves what it had in memory in the bytes that fill the last word: they would differ
 * between members. */
static void encoding_clear_end(const struct consensus *consensus, struct raft_buffer *buffer)
{
    size_t used = 1 + 8; /* version, count */

    for (size_t i = 0; i < consensus->config.member_count; i++)
        used += 8 + strlen(consensus->members[i].name) + 1 + 1; /* id, address, role */
    CHECK(used <= buffer->len && buffer->len - used < 8);
    memset((char *)buffer->base + used, 0, buffer->len - used);
}

static int first_entry(const struct consensus *consensus, struct raft_entry *ret_entry)
{
    struct raft_configuration configuration;
    int status = 0;

    raft_configuration_init(&configuration);
    for (size_t i = 0; i < consensus->config.member_count && status == 0; i++)
        status = raft_configuration_add(&configuration, consensus->members[i].id,
                                        consensus->members[i].name, RAFT_VOTER);
    *ret_entry = (struct raft_entry){.term = 1, .type = RAFT_CHANGE};
    if (status == 0)
        status = raft_configuration_encode(&configuration, &ret_entry->buf);
    if (status == 0)
        encoding_clear_end(consensus, &ret_entry->buf);
    raft_configuration_close(&configuration);
    return status;
}

static int first_log(struct consensus *consensus, struct err *err)
{
    struct raft_entry entry;
    int status;

    if (first_entry(consensus, &entry) != 0)
        return err_set(err, ERR_INVALID, "the list of members cannot be encoded");
    status = wal_reset_now(&consensus->wal, 1, err);
    if (status == 0)
        status = wal_append_now(&consensus->wal, 1, &entry, err);
    raft_free(entry.buf.base);
    return status;
}

/* The identity comes last: what was cut short is done again. A restore has made vote, snapshot and
 * log already. */
static int founding_finish(struct consensus *consensus, struct err *err)
{
    const struct founding_record *record = &consensus->founding.record;
    struct folder *folder = &consensus->folder;
    bool empty = record->origin == 0;

    CHECK(record->incarnation != 0);
    folder->incarnation = record->incarnation;
    folder->epoch_min = record->epoch_min;
    if (vote_open(&consensus->vote, folder, empty, err) != 0)
        return -1;
    consensus->vote_opened = true;
    if (empty && (vote_save(&consensus->vote, 1, 0, err) != 0 || first_log(consensus, err) != 0))
        return -1;
    return folder_claim(folder, err);
}

/* The number of each founder, this one included, as it was heard. */
static void founders_fill(const struct consensus *consensus, struct frame_founders *founders)
{
    founders->count = consensus->config.member_count;
    for (size_t i = 0; i < founders->count; i++) {
        uint64_t id = consensus->members[i].id;
        founders->list[i] = (struct frame_founder){id, id == consensus->config.member_id
                                                           ? consensus->founding.record.number
                                                           : consensus->founding.heard[i]};
    }
}

static int founding_draw(struct consensus *consensus, struct err *err)
{
    const struct random_ops *random = consensus->config.random;
    struct founding_record record = consensus->founding.record;

    CHECK(record.incarnation == 0);
    random->fill(random->context, &record.incarnation, sizeof(record.incarnation));
    record.incarnation |= 1; /* 0: not agreed on */
    record.basis = consensus->founding.basis;
    founders_fill(consensus, &record.founders);
    if (founding_write(&consensus->folder, &record, err) != 0)
        return -1;
    consensus->founding.record = record;
    return 0;
}

/* The first log is written when the others are there, which may be hours later: its operator hears
 * now that it will not fit. */
static int room_for_log(struct folder *folder, struct err *err)
{
    uint64_t segment = folder->segment_bytes != 0 ? folder->segment_bytes : WAL_SEGMENT_BYTES;

    folder_check_space(folder);
    if (folder->free_bytes >= 2 * segment)
        return 0;
    return err_set(err, ERR_FULL,
                   "%s: No space left: %" PRIu64 " bytes are free and the first log needs %" PRIu64,
                   folder->path, folder->free_bytes, 2 * segment);
}

/* It has answered, lately. */
static bool is_heard(const struct consensus *consensus, size_t place)
{
    const struct founding *founding = &consensus->founding;

    return founding->heard[place] != 0 &&
           core_now_us(consensus) - founding->heard_us[place] < UINT64_C(1000) * FOUNDING_HEARD_MS;
}

int core_founding_open(struct consensus *consensus, struct err *err)
{
    struct founding *founding = &consensus->founding;
    struct founding_record *record = &founding->record;

    if (record->number == 0 &&
        founding_begin(&consensus->folder, consensus->config.random, record, err) != 0)
        return -1;
    founding->basis = founding_basis(record, consensus->cluster_id, consensus->members,
                                     consensus->config.member_count);
    if (record->incarnation != 0 && record->basis != founding->basis)
        return err_set(err, ERR_MISMATCH,
                       "the founders of cluster %s agreed on another list of members than the "
                       "configuration has now: put the former list back, and change it when the "
                       "cluster runs",
                       consensus->cluster_id);
    if (record->incarnation != 0)
        return founding_finish(consensus, err);
    if (room_for_log(&consensus->folder, err) != 0)
        return -1;
    founding->under_way = true;
    founding->begun_us = core_now_us(consensus);
    consensus->transport.founding = record->number;
    return 0;
}

/* ---- asking and answering ---- */

static void stranger_here(struct consensus *consensus, uint64_t peer, const char *address)
{
    struct err err;

    err_set(&err, ERR_REFUSED,
            "cluster %s was founded without this folder, says %s (%s): %s holds nothing of it. "
            "Was the disk of %s replaced? Then give it a new id: ckptctl member replace %s NEW, "
            "and start NEW with --join on an empty folder. Is the folder of %s left over from an "
            "earlier cluster? Then stop that member, empty its folder and start all founders again",
            consensus->cluster_id, core_member_name(consensus, peer), address,
            consensus->folder.path, core_member_name(consensus, consensus->config.member_id),
            core_member_name(consensus, consensus->config.member_id),
            core_member_name(consensus, peer));
    core_fail(consensus, &err);
    core_report_failure(consensus);
}

/* A call tells at once that the number which was heard is an old one, and that an answer under way
 * may be of that one's former self; what counts is the next answer at the address of the
 * configuration. */
static void founder_calls(struct consensus *consensus, const struct frame_hello *hello)
{
    struct founding *founding = &consensus->founding;
    size_t place = place_of(consensus, hello->from);
    bool is_member = hello->incarnation != 0;

    if (is_member && !hello->probe && consensus->config.member_count == 1) {
        stranger_here(consensus, hello->from, hello->address);
        return;
    }
    if (place == consensus->config.member_count ||
        (!is_member && hello->founding == founding->heard[place]))
        return;
    founding->heard[place] = 0;
    if (is_member)
        transport_hurry(&consensus->transport, hello->from);
    else
        transport_ask_anew(&consensus->transport, hello->from);
}

/* Another founder, or a folder that wants to be one, asks; or a member speaks to one that is not
 * yet. */
void core_on_founder(void *context, const struct frame_hello *hello,
                     struct frame_hello_reply *ret_reply)
{
    struct consensus *consensus = context;
    const struct founding *founding = &consensus->founding;
    const struct book_record *known = book_find(&consensus->book, hello->from);

    if (known != NULL && known->removed) {
        ret_reply->welcome = FRAME_WELCOME_REMOVED;
        ret_reply->index = known->removed_index;
        return;
    }
    ret_reply->welcome = FRAME_WELCOME_OTHER;
    if (founding->under_way && founding->taken.incarnation != 0)
        return; /* about to be a member: it is asked again */
    if (founding->under_way) {
        ret_reply->welcome = FRAME_WELCOME_FOUNDER;
        ret_reply->founding = founding->record.number;
        ret_reply->basis = founding->basis;
        ret_reply->incarnation = 0;
        founder_calls(consensus, hello);
        return;
    }
    if (consensus->folder.incarnation == 0)
        return; /* it waits to be added, and knows nothing of the cluster */
    ret_reply->welcome = FRAME_WELCOME_STRANGER;
    if (founding->record.incarnation != consensus->folder.incarnation ||
        founding_number(&founding->record, hello->from) != hello->founding)
        return;
    ret_reply->welcome = FRAME_WELCOME_FOUNDER;
    ret_reply->founding = founding->record.number;
    ret_reply->basis = founding->record.basis;
    ret_reply->founders = founding->record.founders;
}

/* Who answers at that founder's address is another member, or one of another cluster. */
void core_founder_is_other(struct consensus *consensus, uint64_t peer)
{
    struct founding *founding = &consensus->founding;
    size_t place = place_of(consensus, peer);

    if (!founding->under_way || place == consensus->config.member_count)
        return;
    founding->heard[place] = 0;
    founding->differs[place] = "another member, or one of another cluster, answers at its address";
}

/* Nothing is written here: the tick does it. */
void core_founder_answers(struct consensus *consensus, uint64_t peer,
                          const struct frame_hello_reply *reply)
{
    struct founding *founding = &consensus->founding;
    struct founding_record *record = &founding->record;
    struct founding_record taken = *record;
    size_t place = place_of(consensus, peer);

    CHECK(reply != NULL);
    if (!founding->under_way || record->incarnation != 0 || founding->taken.incarnation != 0 ||
        place == consensus->config.member_count)
        return;
    if (reply->welcome == FRAME_WELCOME_STRANGER) {
        stranger_here(consensus, peer, core_peer_address(consensus, peer));
        return;
    }
    founding->differs[place] =
        reply->welcome == FRAME_WELCOME_FOUNDER && reply->basis != founding->basis
            ? "its list of members, or its backup, is another one"
            : NULL;
    if (reply->welcome != FRAME_WELCOME_FOUNDER || reply->basis != founding->basis)
        return;
    if (reply->incarnation == 0) {
        founding->heard[place] = reply->founding;
        founding->heard_us[place] = core_now_us(consensus);
        return;
    }
    taken.basis = reply->basis;
    taken.incarnation = reply->incarnation;
    taken.founders = reply->founders;
    if (founding_number(&taken, consensus->config.member_id) == record->number)
        founding->taken = taken;
}

/* ---- ticks ---- */

static bool all_heard(const struct consensus *consensus)
{
    for (size_t i = 0; i < consensus->config.member_count; i++)
        if (consensus->members[i].id != consensus->config.member_id &&
            (!is_heard(consensus, i) || consensus->founding.differs[i] != NULL))
            return false;
    return consensus->config.member_count > 1 ||
           core_now_us(consensus) - consensus->founding.begun_us >=
               UINT64_C(1000) * FOUNDING_ALONE_MS;
}

/* For the operator: who is waited for, and whose list or backup is another one. */
static void text_write(const struct consensus *consensus, char *text, size_t size)
{
    const struct founding *founding = &consensus->founding;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < consensus->config.member_count; i++) {
        const struct consensus_member *member = &consensus->members[i];
        if (member->id == consensus->config.member_id ||
            (is_heard(consensus, i) && founding->differs[i] == NULL))
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", member->name);
        if (used < size && founding->differs[i] != NULL)
            used += (size_t)snprintf(text + used, size - used, " (%s)", founding->differs[i]);
        if (used >= size)
            return;
    }
    if (used == 0)
        snprintf(text, size, "%s", core_member_name(consensus, founding->drawer));
}

/* The program is told only when the text has changed: this runs with each tick. */
static void text_tell(struct consensus *consensus)
{
    struct founding *founding = &consensus->founding;
    char text[CONSENSUS_FOUNDING_BYTES] = "";

    if (founding->under_way)
        text_write(consensus, text, sizeof(text));
    if (strcmp(text, founding->text) == 0)
        return;
    memcpy(founding->text, text, sizeof(text));
    if (consensus->hooks.members_changed != NULL && !consensus->failed)
        consensus->hooks.members_changed(consensus->hooks.context);
}

/* What was agreed on is written before it is acted upon: a founder that dies in between goes on
 * with the same incarnation. */
static int founding_step(struct consensus *consensus, struct err *err)
{
    struct founding *founding = &consensus->founding;

    CHECK(founding->under_way);
    if (founding->taken.incarnation != 0 && founding->record.incarnation == 0) {
        if (founding_write(&consensus->folder, &founding->taken, err) != 0)
            return -1;
        founding->record = founding->taken;
    }
    if (founding->record.incarnation == 0 && founding_draws(consensus) && all_heard(consensus) &&
        founding_draw(consensus, err) != 0)
        return -1;
    if (founding->record.incarnation == 0)
        return 0;
    if (founding_finish(consensus, err) != 0)
        return -1;
    consensus->transport.founding = 0;
    if (core_begin(consensus, err) != 0)
        return -1; /* still under way: a failure is told of either a founder or a member */
    founding->under_way = false;
    return 0;
}

void core_founding_tick(struct consensus *consensus)
{
    struct founding *founding = &consensus->founding;
    struct err err;

    for (size_t i = 0; i < consensus->config.member_count; i++)
        if (founding->drawer == 0 || consensus->members[i].id < founding->drawer)
            founding->drawer = consensus->members[i].id;
    if (consensus->failed)
        return;
    if (founding_step(consensus, &err) != 0) {
        (void)err_wrap(&err, "first start");
        core_fail(consensus, &err);
        core_report_failure(consensus);
        return;
    }
    text_tell(consensus);
    if (!founding->under_way)
        for (size_t i = 0; i < consensus->config.member_count; i++)
            transport_hurry(&consensus->transport, consensus->members[i].id);
}

/* The record is for founders that are not members yet: when all have said hello as members it goes.
 * A disk that does not remove it now is asked again by a later start. */
void core_founder_arrived(struct consensus *consensus, uint64_t id)
{
    struct founding *founding = &consensus->founding;
    const struct frame_founders *founders = &founding->record.founders;
    size_t arrived = 0;
    struct err err;

    for (size_t i = 0; i < founders->count; i++) {
        founding->arrived[i] |= founders->list[i].id == id;
        arrived += founding->arrived[i];
    }
    if (founders->count > 0 && arrived == founders->count &&
        folder_remove(&consensus->folder, FOLDER_FOUNDING_FILE, &err) == 0)
        memset(&founding->record, 0, sizeof(founding->record));
}
