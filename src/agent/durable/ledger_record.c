/* The ledger's changes as records of the journal. See ledger_record.h. */
#include "src/agent/durable/ledger_record.h"

#include <string.h>

#include "src/base/check.h"

/* The fields of an entry once, for both directions. */
#define ENTRY_FIELDS(NUMBER, TEXT)                                                                 \
    TEXT(allocation_id)                                                                            \
    NUMBER(pid)                                                                                    \
    NUMBER(uid)                                                                                    \
    NUMBER(gid)                                                                                    \
    TEXT(groups)                                                                                   \
    NUMBER(start_ticks)                                                                            \
    NUMBER(started_at_ms)                                                                          \
    TEXT(profile)                                                                                  \
    NUMBER(way_open)                                                                               \
    TEXT(outside)                                                                                  \
    TEXT(outside_endpoint)                                                                         \
    NUMBER(imported)                                                                               \
    TEXT(work_dir)                                                                                 \
    TEXT(endpoint)                                                                                 \
    NUMBER(run)                                                                                    \
    NUMBER(checkpoint_id)                                                                          \
    NUMBER(attempt)                                                                                \
    NUMBER(phase)                                                                                  \
    NUMBER(asked_at_us)                                                                            \
    NUMBER(timeout_ms)                                                                             \
    NUMBER(granted_bytes_per_s)                                                                    \
    NUMBER(read_back)                                                                              \
    NUMBER(generations)                                                                            \
    NUMBER(staging)                                                                                \
    NUMBER(compression)                                                                            \
    NUMBER(wipe)                                                                                   \
    TEXT(staged)                                                                                   \
    NUMBER(cluster_mark)                                                                           \
    TEXT(memory)                                                                                   \
    NUMBER(extended)                                                                               \
    NUMBER(responsive_reported)                                                                    \
    TEXT(target_prefix)                                                                            \
    TEXT(path)                                                                                     \
    NUMBER(max_deferral_ms)                                                                        \
    NUMBER(deferred_ms)                                                                            \
    NUMBER(deferred_until_us)                                                                      \
    NUMBER(longest_deferral_ms)                                                                    \
    NUMBER(named_run)                                                                              \
    NUMBER(told_epoch)                                                                             \
    NUMBER(told_index)                                                                             \
    NUMBER(deadline_us)                                                                            \
    NUMBER(walltime_ms)                                                                            \
    NUMBER(grace_ms)                                                                               \
    NUMBER(ended)                                                                                  \
    NUMBER(terminated)                                                                             \
    NUMBER(end_reason)                                                                             \
    NUMBER(ended_run)                                                                              \
    NUMBER(kill_at_us)                                                                             \
    NUMBER(start_granted)                                                                          \
    NUMBER(restart_awaited)                                                                        \
    NUMBER(awaited_status)                                                                         \
    NUMBER(owned)                                                                                  \
    NUMBER(owner_uid)                                                                              \
    TEXT(owner)                                                                                    \
    NUMBER(ended_at_ms)                                                                            \
    NUMBER(ended_status)                                                                           \
    NUMBER(last_checkpoint)                                                                        \
    NUMBER(last_at_ms)                                                                             \
    NUMBER(last_bytes)                                                                             \
    TEXT(last_path)                                                                                \
    NUMBER(failed_checkpoint)                                                                      \
    NUMBER(failed_attempt)                                                                         \
    NUMBER(failed_at_ms)                                                                           \
    TEXT(failed_text)                                                                              \
    NUMBER(part)                                                                                   \
    NUMBER(parts)                                                                                  \
    TEXT(cgroup)                                                                                   \
    NUMBER(owner_rule)                                                                             \
    NUMBER(named_restart)                                                                          \
    NUMBER(attempt_part)                                                                           \
    NUMBER(still)                                                                                  \
    NUMBER(after)                                                                                  \
    NUMBER(barrier_told)                                                                           \
    NUMBER(ranks_all)                                                                              \
    NUMBER(ranks_declared)                                                                         \
    NUMBER(asks_group)                                                                             \
    NUMBER(asks_started)                                                                           \
    NUMBER(ask_signal)

/* Likewise those of one of its ranks. */
#define RANK_FIELDS(NUMBER, TEXT)                                                                  \
    NUMBER(number)                                                                                 \
    NUMBER(pid)                                                                                    \
    NUMBER(start_ticks)                                                                            \
    NUMBER(by)                                                                                     \
    NUMBER(state)                                                                                  \
    TEXT(label)                                                                                    \
    NUMBER(bytes)                                                                                  \
    NUMBER(barrier)

/* ... and of a copy that it keeps. */
#define COPY_FIELDS(NUMBER, TEXT)                                                                  \
    NUMBER(checkpoint_id)                                                                          \
    NUMBER(part)                                                                                   \
    NUMBER(state)                                                                                  \
    NUMBER(uid)                                                                                    \
    NUMBER(gid)                                                                                    \
    NUMBER(size_bytes)                                                                             \
    TEXT(manifest_sha256)                                                                          \
    TEXT(work_dir)                                                                                 \
    NUMBER(report_sequence)

/* ... and of what a rank has said of its steps. */
#define PACE_FIELDS(NUMBER)                                                                        \
    NUMBER(number)                                                                                 \
    NUMBER(pid)                                                                                    \
    NUMBER(start_ticks)                                                                            \
    NUMBER(step)                                                                                   \
    NUMBER(ns_per_step)                                                                            \
    NUMBER(gap_p99_ms)

/* A number has one type on both sides, so that nothing is cut. */
#define SAME_SIZE(field)                                                                           \
    _Static_assert(sizeof(((struct ledger_entry *)0)->field) ==                                    \
                           sizeof(((Ckpt__Agent__V1__JournalEntry *)0)->field) ||                  \
                       sizeof(((struct ledger_entry *)0)->field) == sizeof(bool),                  \
                   "a field of struct ledger_entry differs from the message's");
#define NOTHING(field)
ENTRY_FIELDS(SAME_SIZE, NOTHING)
#undef SAME_SIZE

/* Each field of a message is in its table, but for the lists. */
#define ONE(field) +1
enum {
    ENTRY_FIELD_COUNT = 4 ENTRY_FIELDS(ONE, ONE),
    PACE_FIELD_COUNT = 0 PACE_FIELDS(ONE),
    RANK_FIELD_COUNT = 0 RANK_FIELDS(ONE, ONE),
    COPY_FIELD_COUNT = 0 COPY_FIELDS(ONE, ONE)
};
#undef ONE
#undef NOTHING

static void rank_message(struct ledger_rank *rank, Ckpt__Agent__V1__JournalRank *ret_message)
{
    CHECK(ckpt__agent__v1__journal_rank__descriptor.n_fields == RANK_FIELD_COUNT);
    ckpt__agent__v1__journal_rank__init(ret_message);
#define COPY(field) ret_message->field = rank->field;
    RANK_FIELDS(COPY, COPY)
#undef COPY
}

static void copy_message(struct ledger_copy *copy, Ckpt__Agent__V1__JournalCopy *ret_message)
{
    CHECK(ckpt__agent__v1__journal_copy__descriptor.n_fields == COPY_FIELD_COUNT);
    ckpt__agent__v1__journal_copy__init(ret_message);
#define COPY(field) ret_message->field = copy->field;
    COPY_FIELDS(COPY, COPY)
#undef COPY
}

static void pace_message(const struct ledger_pace *pace, Ckpt__Agent__V1__JournalPace *ret_message)
{
    CHECK(ckpt__agent__v1__journal_pace__descriptor.n_fields == PACE_FIELD_COUNT);
    ckpt__agent__v1__journal_pace__init(ret_message);
#define COPY(field) ret_message->field = pace->field;
    PACE_FIELDS(COPY)
#undef COPY
}

void ledger_entry_message(struct ledger_entry *entry, struct ledger_message *ret_message)
{
    Ckpt__Agent__V1__JournalEntry *message = &ret_message->entry;

    CHECK(ckpt__agent__v1__journal_entry__descriptor.n_fields == ENTRY_FIELD_COUNT);
    ckpt__agent__v1__journal_entry__init(message);
#define COPY(field) message->field = entry->field;
    ENTRY_FIELDS(COPY, COPY)
#undef COPY
    message->n_ranks = entry->rank_count;
    message->ranks = ret_message->rank_pointers;
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        rank_message(&entry->ranks[i], &ret_message->ranks[i]);
        message->ranks[i] = &ret_message->ranks[i];
    }
    message->n_strays = entry->stray_count;
    message->strays = ret_message->stray_pointers;
    for (uint32_t i = 0; i < entry->stray_count; i++) {
        ckpt__agent__v1__journal_stray__init(&ret_message->strays[i]);
        ret_message->strays[i].pid = entry->strays[i].pid;
        ret_message->strays[i].start_ticks = entry->strays[i].start_ticks;
        message->strays[i] = &ret_message->strays[i];
    }
    message->n_copies = entry->copy_count;
    message->copies = ret_message->copy_pointers;
    for (uint32_t i = 0; i < entry->copy_count; i++) {
        copy_message(&entry->copies[i], &ret_message->copies[i]);
        message->copies[i] = &ret_message->copies[i];
    }
    message->n_paces = entry->pace_count;
    message->paces = ret_message->pace_pointers;
    for (uint32_t i = 0; i < entry->pace_count; i++) {
        pace_message(&entry->paces[i], &ret_message->paces[i]);
        message->paces[i] = &ret_message->paces[i];
    }
}

static bool text_take(char *text, size_t size, const char *from)
{
    size_t length = strlen(from);

    if (length >= size)
        return false;
    memcpy(text, from, length + 1);
    return true;
}

/* By rising number, so that none is there twice. */
static bool ranks_wrong(const struct ledger_entry *entry)
{
    if (entry->rank_count > LEDGER_RANKS_MAX || entry->ranks_declared > LEDGER_RANKS_MAX)
        return true;
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        const struct ledger_rank *rank = &entry->ranks[i];

        if (rank->by > RANK_BY_STREAM || rank->state > RANK_MISSED ||
            (i > 0 && rank->number <= entry->ranks[i - 1].number) ||
            (rank->label[0] != '\0' && !label_valid(rank->label)))
            return true;
    }
    return false;
}

static bool copies_wrong(const struct ledger_entry *entry)
{
    if (entry->copy_count > LEDGER_COPIES_MAX)
        return true;
    for (uint32_t i = 0; i < entry->copy_count; i++) {
        const struct ledger_copy *copy = &entry->copies[i];

        if (copy->state < COPY_MAKING || copy->state > COPY_GOING || copy->checkpoint_id == 0 ||
            copy->work_dir[0] != '/')
            return true;
    }
    return false;
}

const char *ledger_entry_wrong(const struct ledger_entry *entry)
{
    if (!id_valid(entry->allocation_id))
        return "allocation_id";
    if (entry->phase > PHASE_DEFERRED)
        return "phase";
    if (entry->deferred_ms > entry->max_deferral_ms)
        return "deferred_ms";
    if (entry->longest_deferral_ms < entry->deferred_ms ||
        entry->longest_deferral_ms > entry->timeout_ms)
        return "longest_deferral_ms";
    if (entry->still > STANDING_LET_GO)
        return "still";
    if (entry->barrier_told > 2)
        return "barrier_told";
    if (entry->part > 0 && entry->part >= entry->parts)
        return "part";
    if (copies_wrong(entry))
        return "copies";
    return ranks_wrong(entry) ? "ranks" : NULL;
}

static bool rank_take(const Ckpt__Agent__V1__JournalRank *message, struct ledger_rank *ret_rank)
{
    bool whole = true;

#define NUMBER(field) ret_rank->field = message->field;
#define TEXT(field)   whole &= text_take(ret_rank->field, sizeof(ret_rank->field), message->field);
    RANK_FIELDS(NUMBER, TEXT)
#undef NUMBER
#undef TEXT
    return whole;
}

static bool ranks_take(const Ckpt__Agent__V1__JournalEntry *message, struct ledger_entry *entry)
{
    if (message->n_ranks > LEDGER_RANKS_MAX)
        return false;
    entry->rank_count = (uint32_t)message->n_ranks;
    for (uint32_t i = 0; i < entry->rank_count; i++)
        if (!rank_take(message->ranks[i], &entry->ranks[i]))
            return false;
    return true;
}

static bool strays_take(const Ckpt__Agent__V1__JournalEntry *message, struct ledger_entry *entry)
{
    if (message->n_strays > LEDGER_STRAYS_MAX)
        return false;
    entry->stray_count = (uint32_t)message->n_strays;
    for (uint32_t i = 0; i < entry->stray_count; i++)
        entry->strays[i] =
            (struct ledger_stray){message->strays[i]->pid, message->strays[i]->start_ticks};
    return true;
}

static bool copy_take(const Ckpt__Agent__V1__JournalCopy *message, struct ledger_copy *ret_copy)
{
    bool whole = true;

#define NUMBER(field) ret_copy->field = message->field;
#define TEXT(field)   whole &= text_take(ret_copy->field, sizeof(ret_copy->field), message->field);
    COPY_FIELDS(NUMBER, TEXT)
#undef NUMBER
#undef TEXT
    return whole;
}

static bool copies_take(const Ckpt__Agent__V1__JournalEntry *message, struct ledger_entry *entry)
{
    if (message->n_copies > LEDGER_COPIES_MAX)
        return false;
    entry->copy_count = (uint32_t)message->n_copies;
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (!copy_take(message->copies[i], &entry->copies[i]))
            return false;
    return true;
}

static bool paces_take(const Ckpt__Agent__V1__JournalEntry *message, struct ledger_entry *entry)
{
    if (message->n_paces > LEDGER_RANKS_MAX)
        return false;
    entry->pace_count = (uint32_t)message->n_paces;
    for (uint32_t i = 0; i < entry->pace_count; i++) {
#define NUMBER(field) entry->paces[i].field = message->paces[i]->field;
        PACE_FIELDS(NUMBER)
#undef NUMBER
        if (i > 0 && entry->paces[i].number <= entry->paces[i - 1].number)
            return false;
    }
    return true;
}

int ledger_entry_take(const Ckpt__Agent__V1__JournalEntry *message, struct ledger_entry *ret_entry,
                      struct err *err)
{
    struct ledger_entry entry = {0};
    const char *wrong = NULL;

#define NUMBER(field) entry.field = message->field;
#define TEXT(field)                                                                                \
    if (!text_take(entry.field, sizeof(entry.field), message->field))                              \
        wrong = #field;
    ENTRY_FIELDS(NUMBER, TEXT)
#undef NUMBER
#undef TEXT
    if (wrong == NULL && !ranks_take(message, &entry))
        wrong = "ranks";
    if (wrong == NULL && !strays_take(message, &entry))
        wrong = "strays";
    if (wrong == NULL && !copies_take(message, &entry))
        wrong = "copies";
    if (wrong == NULL && !paces_take(message, &entry))
        wrong = "paces";
    if (wrong == NULL)
        wrong = ledger_entry_wrong(&entry);
    if (wrong != NULL)
        return err_set(err, ERR_CORRUPT, "the %s of an entry is nothing that an agent writes",
                       wrong);
    *ret_entry = entry;
    return 0;
}

void ledger_record_append(struct buf *record, const Ckpt__Agent__V1__JournalRecord *message)
{
    size_t length = ckpt__agent__v1__journal_record__get_packed_size(message);

    CHECK(message->body_case != CKPT__AGENT__V1__JOURNAL_RECORD__BODY__NOT_SET);
    CHECK(length > 0);
    ckpt__agent__v1__journal_record__pack(message, buf_extend(record, length));
}

static bool has_unknown(const ProtobufCMessage *message)
{
    return message != NULL && message->n_unknown_fields > 0;
}

static bool entry_unknown(const Ckpt__Agent__V1__JournalEntry *entry)
{
    if (entry == NULL)
        return false;
    for (size_t i = 0; i < entry->n_ranks; i++)
        if (has_unknown(&entry->ranks[i]->base))
            return true;
    for (size_t i = 0; i < entry->n_strays; i++)
        if (has_unknown(&entry->strays[i]->base))
            return true;
    for (size_t i = 0; i < entry->n_copies; i++)
        if (has_unknown(&entry->copies[i]->base))
            return true;
    for (size_t i = 0; i < entry->n_paces; i++)
        if (has_unknown(&entry->paces[i]->base))
            return true;
    return has_unknown(&entry->base);
}

static bool record_unknown(const Ckpt__Agent__V1__JournalRecord *message)
{
    const Ckpt__Agent__V1__JournalChange *change = message->change;
    const Ckpt__Agent__V1__JournalHead *head = message->head;

    switch (message->body_case) {
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_HEAD:
        return has_unknown(&head->base) ||
               has_unknown(head->fence == NULL ? NULL : &head->fence->base);
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_FENCE:
        return has_unknown(&message->fence->base);
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_CHANGE:
        return has_unknown(&change->base) || entry_unknown(change->entry) ||
               has_unknown(change->report == NULL ? NULL : &change->report->base);
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_FORGOTTEN_ALLOCATION_ID:
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_ACKNOWLEDGED_SEQUENCE:
        return false;
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY__NOT_SET:
    case _CKPT__AGENT__V1__JOURNAL_RECORD__BODY__CASE_IS_INT_SIZE:
        break;
    }
    return true;
}

int ledger_record_unpack(const uint8_t *bytes, size_t length,
                         Ckpt__Agent__V1__JournalRecord **ret_message, struct err *err)
{
    Ckpt__Agent__V1__JournalRecord *message =
        ckpt__agent__v1__journal_record__unpack(NULL, length, bytes);

    if (message == NULL)
        return err_set(err, ERR_CORRUPT, "%zu bytes do not decode as a record of the journal",
                       length);
    if (has_unknown(&message->base) || record_unknown(message)) {
        ckpt__agent__v1__journal_record__free_unpacked(message, NULL);
        return err_set(err, ERR_CORRUPT,
                       "a record of %zu bytes has a field that this agent does not know; move the "
                       "journal away to start without it, or run the agent that wrote it",
                       length);
    }
    *ret_message = message;
    return 0;
}
