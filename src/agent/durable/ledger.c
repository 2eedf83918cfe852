/* What the agent must remember through its own death. See ledger.h.
 *
 * A journal record is a sequence of items, each a tag byte and its fields; one record is applied whole or not at all.
 * Fields: integers as 8 bytes little endian, texts and bytes as a 4-byte length and content.
 */
#include "src/agent/durable/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/durable/journal.h"
#include "src/agent/node/machine.h"
#include "src/base/buf.h"
#include "src/base/check.h"

enum {
    ITEM_BOOT = 1,
    ITEM_FENCE = 2,
    ITEM_ENTRY = 3,
    ITEM_FORGET = 4,
    ITEM_REPORT = 5,
    ITEM_ACKNOWLEDGED = 6,
    ITEM_LAST_SEQUENCE = 7,
    ITEM_NODE = 8,
    ITEM_START_STATE = 9, /* of older agents: the state that a start was from; lives say more */
    ITEM_LIVES = 10,      /* of an entry before it; absent: not known */
    ITEM_CALL = 11,       /* likewise: what the gRPC way keeps; absent: nothing */
    ITEM_END = 12,        /* likewise: of its end; absent: not known */
    ITEM_DEFERRAL = 13,   /* likewise: the longest of its attempt; absent: as long as its own */
    ITEM_STARTED = 14     /* likewise: when, by the monotonic clock; absent: not known */
};
enum { BOOT_ID_BYTES = 64, COMPACT_MIN_BYTES = 1 << 20 };

struct kept_entry {
    struct list node;
    struct ledger_entry entry;
};

struct ledger {
    struct journal *journal;
    char node_id[ID_MAX_BYTES + 1];
    char boot_id[BOOT_ID_BYTES];
    struct fence fence;
    struct list entries;
    size_t entry_count;
    struct list reports;
    size_t report_count;
    uint64_t last_sequence;
    size_t compact_at_bytes;
};

/* ---- encoding ---- */

static void put_number(struct buf *record, uint64_t value)
{
    uint8_t *bytes = buf_extend(record, 8);

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static void put_bytes(struct buf *record, const void *bytes, size_t length)
{
    put_number(record, length);
    buf_append(record, bytes, length);
}

static void put_tag(struct buf *record, uint8_t tag)
{
    buf_append(record, &tag, 1);
}

static void put_text(struct buf *record, const char *text)
{
    put_bytes(record, text, strlen(text));
}

/* The fields of an entry once, for both directions. */
#define ENTRY_FIELDS(NUMBER, FLAG, TEXT)                                                           \
    TEXT(allocation_id)                                                                            \
    NUMBER(pid)                                                                                    \
    NUMBER(uid)                                                                                    \
    NUMBER(gid)                                                                                    \
    TEXT(groups)                                                                                   \
    NUMBER(start_ticks)                                                                            \
    NUMBER(started_at_ms)                                                                          \
    TEXT(profile)                                                                                  \
    TEXT(work_dir)                                                                                 \
    NUMBER(checkpoint_id)                                                                          \
    NUMBER(attempt)                                                                                \
    NUMBER(phase)                                                                                  \
    NUMBER(asked_at_us)                                                                            \
    NUMBER(timeout_ms)                                                                             \
    NUMBER(granted_bytes_per_s)                                                                    \
    FLAG(extended)                                                                                 \
    FLAG(responsive_reported)                                                                      \
    TEXT(target_prefix)                                                                            \
    TEXT(path)                                                                                     \
    NUMBER(deadline_us)                                                                            \
    NUMBER(walltime_ms)                                                                            \
    NUMBER(grace_ms)                                                                               \
    FLAG(ended)                                                                                    \
    FLAG(terminated)                                                                               \
    NUMBER(end_reason)                                                                             \
    FLAG(owned)                                                                                    \
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
    TEXT(failed_text)

void ledger_encode_entry(struct buf *record, const struct ledger_entry *entry)
{
    put_tag(record, ITEM_ENTRY);
#define NUMBER(field) put_number(record, entry->field);
#define FLAG(field)   put_number(record, entry->field ? 1 : 0);
#define TEXT(field)   put_text(record, entry->field);
    ENTRY_FIELDS(NUMBER, FLAG, TEXT)
#undef NUMBER
#undef FLAG
#undef TEXT
    if (entry->life != 0 || entry->ended_life != 0) {
        put_tag(record, ITEM_LIVES);
        put_text(record, entry->allocation_id);
        put_number(record, entry->life);
        put_number(record, entry->ended_life);
    }
    if (entry->endpoint[0] != '\0' || entry->max_deferral_ms != 0) {
        put_tag(record, ITEM_CALL);
        put_text(record, entry->allocation_id);
        put_text(record, entry->endpoint);
        put_number(record, entry->max_deferral_ms);
        put_number(record, entry->deferred_ms);
        put_number(record, entry->deferred_until_us);
    }
    if (entry->longest_deferral_ms != 0) {
        put_tag(record, ITEM_DEFERRAL);
        put_text(record, entry->allocation_id);
        put_number(record, entry->longest_deferral_ms);
    }
    if (entry->started_us != 0) {
        put_tag(record, ITEM_STARTED);
        put_text(record, entry->allocation_id);
        put_number(record, entry->started_us);
    }
    if (entry->kill_at_us != 0 || entry->restart_awaited) {
        put_tag(record, ITEM_END);
        put_text(record, entry->allocation_id);
        put_number(record, entry->kill_at_us);
        put_number(record, entry->restart_awaited ? 1 : 0);
        put_number(record, (uint32_t)entry->awaited_status);
    }
}

static void encode_report(struct buf *record, uint64_t sequence, uint64_t since_us,
                          const uint8_t *bytes, size_t length)
{
    put_tag(record, ITEM_REPORT);
    put_number(record, sequence);
    put_number(record, since_us);
    put_bytes(record, bytes, length);
}

/* ---- decoding: every read checks; a reader that failed once yields zeros ---- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static uint64_t get_number(struct reader *reader)
{
    uint64_t value = 0;

    if (reader->left < 8) {
        reader->failed = true;
        reader->left = 0;
        return 0;
    }
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += 8;
    reader->left -= 8;
    return value;
}

static uint32_t get_number32(struct reader *reader)
{
    uint64_t value = get_number(reader);

    if (value > UINT32_MAX)
        reader->failed = true;
    return (uint32_t)value;
}

static const uint8_t *get_bytes(struct reader *reader, size_t max, size_t *ret_length)
{
    uint64_t length = get_number(reader);
    const uint8_t *bytes = reader->at;

    if (reader->failed || length > max || length > reader->left) {
        reader->failed = true;
        reader->left = 0;
        *ret_length = 0;
        return NULL;
    }
    reader->at += length;
    reader->left -= (size_t)length;
    *ret_length = (size_t)length;
    return bytes;
}

static void get_text(struct reader *reader, char *text, size_t size)
{
    size_t length;
    const uint8_t *bytes = get_bytes(reader, size - 1, &length);

    if (bytes == NULL || memchr(bytes, '\0', length) != NULL) {
        reader->failed = true;
        length = 0;
    }
    if (length > 0)
        memcpy(text, bytes, length);
    text[length] = '\0';
}

#define NUMBER(field)                                                                              \
    if (sizeof(entry->field) == 4)                                                                 \
        entry->field = get_number32(reader);                                                       \
    else                                                                                           \
        entry->field = get_number(reader);
#define FLAG(field) entry->field = get_number(reader) != 0;
#define TEXT(field) get_text(reader, entry->field, sizeof(entry->field));
static void decode_entry(struct reader *reader, struct ledger_entry *entry)
{
    ENTRY_FIELDS(NUMBER, FLAG, TEXT)
    if (!id_valid(entry->allocation_id) || entry->phase > PHASE_DEFERRED)
        reader->failed = true;
}
#undef NUMBER
#undef FLAG
#undef TEXT

void ledger_set_user(struct ledger_entry *entry, uint32_t uid, uint32_t gid, const char *groups)
{
    entry->uid = uid;
    entry->gid = gid;
    snprintf(entry->groups, sizeof(entry->groups), "%s", groups);
}

/* ---- state in memory ---- */

static struct kept_entry *kept_find(const struct ledger *ledger, const char *id)
{
    for (struct list *at = ledger->entries.next; at != &ledger->entries; at = at->next) {
        struct kept_entry *kept = LIST_ITEM(at, struct kept_entry, node);
        if (strcmp(kept->entry.allocation_id, id) == 0)
            return kept;
    }
    return NULL;
}

static void kept_put(struct ledger *ledger, const struct ledger_entry *entry)
{
    struct kept_entry *kept = kept_find(ledger, entry->allocation_id);

    if (kept == NULL) {
        kept = check_calloc(1, sizeof(*kept));
        list_push_back(&ledger->entries, &kept->node);
        ledger->entry_count++;
    }
    kept->entry = *entry;
}

static void kept_drop(struct ledger *ledger, const char *id)
{
    struct kept_entry *kept = kept_find(ledger, id);

    if (kept == NULL)
        return;
    list_remove(&kept->node);
    free(kept);
    ledger->entry_count--;
}

static void report_put(struct ledger *ledger, uint64_t sequence, uint64_t since_us,
                       const uint8_t *bytes, size_t length)
{
    struct ledger_report *report = check_calloc(1, sizeof(*report) + length);

    report->sequence = sequence;
    report->since_us = since_us;
    report->length = length;
    memcpy(report->bytes, bytes, length);
    list_push_back(&ledger->reports, &report->node);
    ledger->report_count++;
    ledger->last_sequence = sequence;
}

static struct ledger_report *report_first(const struct ledger *ledger)
{
    return list_empty(&ledger->reports)
               ? NULL
               : LIST_ITEM(ledger->reports.next, struct ledger_report, node);
}

static void reports_drop(struct ledger *ledger, uint64_t up_to)
{
    struct ledger_report *report;

    while ((report = report_first(ledger)) != NULL && report->sequence <= up_to) {
        list_remove(&report->node);
        free(report);
        ledger->report_count--;
    }
}

/* ---- replay ---- */

static void apply_report(struct ledger *ledger, struct reader *reader)
{
    uint64_t sequence = get_number(reader);
    uint64_t since_us = get_number(reader);
    size_t length;
    const uint8_t *bytes = get_bytes(reader, LEDGER_REPORT_MAX_BYTES, &length);

    if (bytes == NULL || length == 0 || sequence != ledger->last_sequence + 1 ||
        ledger->report_count == LEDGER_REPORTS_MAX)
        reader->failed = true;
    else
        report_put(ledger, sequence, since_us, bytes, length);
}

static void apply_entry(struct ledger *ledger, struct reader *reader)
{
    struct ledger_entry entry = {0};

    decode_entry(reader, &entry);
    if (!reader->failed)
        kept_put(ledger, &entry);
}

/* Of which the item is, by its first field; NULL with the reader failed: there is none. */
static struct kept_entry *entry_named(struct ledger *ledger, struct reader *reader)
{
    char id[ID_MAX_BYTES + 1];
    struct kept_entry *kept;

    get_text(reader, id, sizeof(id));
    kept = reader->failed ? NULL : kept_find(ledger, id);
    reader->failed = kept == NULL;
    return kept;
}

static void apply_lives(struct ledger *ledger, uint8_t tag, struct reader *reader)
{
    struct kept_entry *kept = entry_named(ledger, reader);
    uint64_t life = get_number(reader);
    uint64_t ended_life = get_number(reader);

    if (reader->failed || tag == ITEM_START_STATE)
        return;
    kept->entry.life = life;
    kept->entry.ended_life = ended_life;
}

static void apply_call(struct ledger *ledger, struct reader *reader)
{
    char endpoint[LEDGER_ENDPOINT_BYTES] = {0};
    struct kept_entry *kept = entry_named(ledger, reader);
    uint64_t max_deferral_ms, deferred_ms, deferred_until_us;

    get_text(reader, endpoint, sizeof(endpoint));
    max_deferral_ms = get_number(reader);
    deferred_ms = get_number(reader);
    deferred_until_us = get_number(reader);
    if (reader->failed || deferred_ms > max_deferral_ms) {
        reader->failed = true;
        return;
    }
    memcpy(kept->entry.endpoint, endpoint, sizeof(endpoint));
    kept->entry.max_deferral_ms = max_deferral_ms;
    kept->entry.deferred_ms = deferred_ms;
    kept->entry.deferred_until_us = deferred_until_us;
    kept->entry.longest_deferral_ms = deferred_ms;
}

static void apply_deferral(struct ledger *ledger, struct reader *reader)
{
    struct kept_entry *kept = entry_named(ledger, reader);
    uint64_t longest_ms = get_number(reader);

    if (reader->failed || longest_ms < kept->entry.deferred_ms ||
        longest_ms > kept->entry.timeout_ms) {
        reader->failed = true;
        return;
    }
    kept->entry.longest_deferral_ms = longest_ms;
}

static void apply_started(struct ledger *ledger, struct reader *reader)
{
    struct kept_entry *kept = entry_named(ledger, reader);
    uint64_t started_us = get_number(reader);

    if (!reader->failed)
        kept->entry.started_us = started_us;
}

static void apply_end(struct ledger *ledger, struct reader *reader)
{
    struct kept_entry *kept = entry_named(ledger, reader);
    uint64_t kill_at_us = get_number(reader);
    bool restart_awaited = get_number(reader) != 0;
    uint32_t status = get_number32(reader);

    if (reader->failed)
        return;
    kept->entry.kill_at_us = kill_at_us;
    kept->entry.restart_awaited = restart_awaited;
    kept->entry.awaited_status = (int32_t)status;
}

static void apply_item(struct ledger *ledger, uint8_t tag, struct reader *reader)
{
    char id[ID_MAX_BYTES + 1];

    switch (tag) {
    case ITEM_BOOT:
        get_text(reader, ledger->boot_id, sizeof(ledger->boot_id));
        return;
    case ITEM_NODE:
        get_text(reader, ledger->node_id, sizeof(ledger->node_id));
        return;
    case ITEM_FENCE:
        ledger->fence.epoch = get_number(reader);
        ledger->fence.term = get_number(reader);
        return;
    case ITEM_ENTRY:
        apply_entry(ledger, reader);
        return;
    case ITEM_START_STATE:
    case ITEM_LIVES:
        apply_lives(ledger, tag, reader);
        return;
    case ITEM_CALL:
        apply_call(ledger, reader);
        return;
    case ITEM_DEFERRAL:
        apply_deferral(ledger, reader);
        return;
    case ITEM_STARTED:
        apply_started(ledger, reader);
        return;
    case ITEM_END:
        apply_end(ledger, reader);
        return;
    case ITEM_FORGET:
        get_text(reader, id, sizeof(id));
        kept_drop(ledger, id);
        return;
    case ITEM_REPORT:
        apply_report(ledger, reader);
        return;
    case ITEM_ACKNOWLEDGED:
        reports_drop(ledger, get_number(reader));
        return;
    case ITEM_LAST_SEQUENCE:
        ledger->last_sequence = get_number(reader);
        return;
    default:
        reader->failed = true;
    }
}

int ledger_apply(struct ledger *ledger, const uint8_t *bytes, size_t length, struct err *err)
{
    struct reader reader = {bytes, length, false};

    while (reader.left > 0 && !reader.failed) {
        uint8_t tag = *reader.at++;
        reader.left--;
        apply_item(ledger, tag, &reader);
        if (reader.failed)
            return err_set(err, ERR_CORRUPT, "an item of kind %u does not decode", tag);
    }
    return 0;
}

static int replay_record(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    return ledger_apply(data, bytes, length, err);
}

/* ---- writing ---- */

static void frame_record(struct buf *content, struct buf *record)
{
    journal_frame(content, record->bytes, record->length);
    buf_clear(record);
}

static int ledger_compact(struct ledger *ledger, struct err *err)
{
    struct ledger_report *first = report_first(ledger);
    struct buf content;
    struct buf record;
    int result;

    buf_init(&content);
    buf_init(&record);
    journal_head(&content);
    put_tag(&record, ITEM_NODE);
    put_text(&record, ledger->node_id);
    put_tag(&record, ITEM_BOOT);
    put_text(&record, ledger->boot_id);
    put_tag(&record, ITEM_FENCE);
    put_number(&record, ledger->fence.epoch);
    put_number(&record, ledger->fence.term);
    put_tag(&record, ITEM_LAST_SEQUENCE);
    put_number(&record, first != NULL ? first->sequence - 1 : ledger->last_sequence);
    frame_record(&content, &record);
    for (struct list *at = ledger->entries.next; at != &ledger->entries; at = at->next) {
        ledger_encode_entry(&record, &LIST_ITEM(at, struct kept_entry, node)->entry);
        frame_record(&content, &record);
    }
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next) {
        struct ledger_report *report = LIST_ITEM(at, struct ledger_report, node);
        encode_report(&record, report->sequence, report->since_us, report->bytes, report->length);
        frame_record(&content, &record);
    }
    result = journal_rewrite(ledger->journal, &content, err);
    ledger->compact_at_bytes = COMPACT_MIN_BYTES + 4 * content.length;
    buf_close(&record);
    buf_close(&content);
    return result;
}

static int ledger_write(struct ledger *ledger, struct buf *record, struct err *err)
{
    int result = ledger->journal == NULL
                     ? 0
                     : journal_append(ledger->journal, record->bytes, record->length, err);

    buf_close(record);
    if (result == 0 && ledger->journal != NULL &&
        journal_bytes(ledger->journal) > ledger->compact_at_bytes)
        result = ledger_compact(ledger, err);
    return result;
}

/* ---- life ---- */

struct ledger *ledger_new(void)
{
    struct ledger *ledger = check_calloc(1, sizeof(*ledger));

    list_init(&ledger->entries);
    list_init(&ledger->reports);
    return ledger;
}

/* Another boot: no process of the old one lives and its monotonic clock means nothing. start_ticks that no process has make
 * each application count as gone; who finds that out reports it. */
static void forget_boot(struct ledger *ledger)
{
    for (struct list *at = ledger->entries.next; at != &ledger->entries; at = at->next) {
        struct ledger_entry *entry = &LIST_ITEM(at, struct kept_entry, node)->entry;
        entry->start_ticks = MACHINE_NEVER_STARTED;
        if (entry->started_us != 0)
            entry->started_us = LEDGER_EARLIER_BOOT;
        entry->deadline_us = 0;
        entry->asked_at_us = 0;
        entry->deferred_until_us = 0;
        entry->kill_at_us = 0;
    }
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next) {
        struct ledger_report *report = LIST_ITEM(at, struct ledger_report, node);
        if (report->since_us != 0)
            report->since_us = LEDGER_EARLIER_BOOT;
    }
}

static int take_node(struct ledger *ledger, const char *folder, const char *node_id,
                     struct err *err)
{
    if (ledger->node_id[0] != '\0' && strcmp(ledger->node_id, node_id) != 0)
        return err_set(err, ERR_REFUSED,
                       "%s is the state folder of node %s, not of %s; correct --name or "
                       "--state-dir, or begin with an empty folder",
                       folder, ledger->node_id, node_id);
    snprintf(ledger->node_id, sizeof(ledger->node_id), "%s", node_id);
    return 0;
}

int ledger_open(const struct disk_ops *disk, const char *folder, const char *node_id,
                const char *boot_id, struct ledger **ret_ledger, struct err *err)
{
    struct ledger *ledger = ledger_new();

    CHECK(id_valid(node_id));
    CHECK(strlen(boot_id) < sizeof(ledger->boot_id));
    if (journal_open(disk, folder, replay_record, ledger, &ledger->journal, err) != 0 ||
        take_node(ledger, folder, node_id, err) != 0)
        goto fail;
    if (strcmp(ledger->boot_id, boot_id) != 0) {
        forget_boot(ledger);
        memcpy(ledger->boot_id, boot_id, strlen(boot_id) + 1); /* checked above */
    }
    if (ledger_compact(ledger, err) != 0)
        goto fail;
    *ret_ledger = ledger;
    return 0;
fail:
    ledger_close(ledger);
    return -1;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL)
        return;
    reports_drop(ledger, UINT64_MAX);
    while (!list_empty(&ledger->entries)) {
        struct kept_entry *kept = LIST_ITEM(ledger->entries.next, struct kept_entry, node);
        list_remove(&kept->node);
        free(kept);
    }
    journal_close(ledger->journal);
    free(ledger);
}

/* ---- fencing ---- */

struct fence ledger_fence(const struct ledger *ledger)
{
    return ledger->fence;
}

static bool fence_below(struct fence a, struct fence b)
{
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.term < b.term;
}

bool ledger_fence_refuses(const struct ledger *ledger, struct fence fence)
{
    return fence_below(fence, ledger->fence);
}

int ledger_raise_fence(struct ledger *ledger, struct fence fence, struct err *err)
{
    struct buf record;

    if (!fence_below(ledger->fence, fence))
        return 0;
    buf_init(&record);
    put_tag(&record, ITEM_FENCE);
    put_number(&record, fence.epoch);
    put_number(&record, fence.term);
    ledger->fence = fence;
    return ledger_write(ledger, &record, err);
}

/* ---- allocations ---- */

const struct ledger_entry *ledger_find(const struct ledger *ledger, const char *allocation_id)
{
    struct kept_entry *kept = kept_find(ledger, allocation_id);

    return kept == NULL ? NULL : &kept->entry;
}

const struct ledger_entry *ledger_next(const struct ledger *ledger,
                                       const struct ledger_entry *after)
{
    struct list *next =
        after == NULL ? ledger->entries.next : kept_find(ledger, after->allocation_id)->node.next;

    return next == &ledger->entries ? NULL : &LIST_ITEM(next, struct kept_entry, node)->entry;
}

int ledger_commit(struct ledger *ledger, const struct ledger_entry *entry,
                  const uint8_t *report_bytes, size_t report_length, uint64_t since_us,
                  struct err *err)
{
    struct buf record;

    CHECK(entry != NULL || report_bytes != NULL);
    CHECK(report_bytes == NULL || (report_length > 0 && report_length <= LEDGER_REPORT_MAX_BYTES));
    if (entry != NULL && ledger->entry_count == LEDGER_ENTRIES_MAX &&
        kept_find(ledger, entry->allocation_id) == NULL)
        return err_set(err, ERR_FULL, "%d allocations are kept already", LEDGER_ENTRIES_MAX);
    if (report_bytes != NULL && ledger->report_count == LEDGER_REPORTS_MAX)
        return err_set(err, ERR_FULL, "%d reports wait for a broker already", LEDGER_REPORTS_MAX);
    buf_init(&record);
    if (entry != NULL) {
        CHECK(id_valid(entry->allocation_id));
        ledger_encode_entry(&record, entry);
        kept_put(ledger, entry);
    }
    if (report_bytes != NULL) {
        encode_report(&record, ledger->last_sequence + 1, since_us, report_bytes, report_length);
        report_put(ledger, ledger->last_sequence + 1, since_us, report_bytes, report_length);
    }
    return ledger_write(ledger, &record, err);
}

int ledger_forget(struct ledger *ledger, const char *allocation_id, struct err *err)
{
    struct buf record;

    if (kept_find(ledger, allocation_id) == NULL)
        return 0;
    buf_init(&record);
    put_tag(&record, ITEM_FORGET);
    put_text(&record, allocation_id);
    kept_drop(ledger, allocation_id);
    return ledger_write(ledger, &record, err);
}

int ledger_adopt(struct ledger *ledger, const struct ledger *found, struct err *err)
{
    CHECK(ledger->entry_count == 0);
    if (found->entry_count == 0)
        return 0;
    for (struct list *at = found->entries.next; at != &found->entries; at = at->next)
        kept_put(ledger, &LIST_ITEM(at, struct kept_entry, node)->entry);
    return ledger->journal == NULL ? 0 : ledger_compact(ledger, err);
}

/* ---- reports ---- */

uint64_t ledger_last_sequence(const struct ledger *ledger)
{
    return ledger->last_sequence;
}

size_t ledger_pending_count(const struct ledger *ledger)
{
    return ledger->report_count;
}

const struct ledger_report *ledger_report_after(const struct ledger *ledger, uint64_t sequence)
{
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next) {
        struct ledger_report *report = LIST_ITEM(at, struct ledger_report, node);
        if (report->sequence > sequence)
            return report;
    }
    return NULL;
}

int ledger_acknowledge(struct ledger *ledger, uint64_t sequence, struct err *err)
{
    struct ledger_report *first = report_first(ledger);
    struct buf record;

    if (first == NULL || first->sequence > sequence)
        return 0;
    buf_init(&record);
    put_tag(&record, ITEM_ACKNOWLEDGED);
    put_number(&record, sequence);
    reports_drop(ledger, sequence);
    return ledger_write(ledger, &record, err);
}

int ledger_align(struct ledger *ledger, uint64_t acknowledged, struct err *err)
{
    struct ledger_report *first;
    uint64_t sequence = acknowledged;

    /* Above what was ever numbered here: the folder is new, what is kept was never taken. */
    if (acknowledged <= ledger->last_sequence && ledger_acknowledge(ledger, acknowledged, err) != 0)
        return -1;
    first = report_first(ledger);
    if (first == NULL ? ledger->last_sequence == acknowledged : first->sequence == acknowledged + 1)
        return 0;
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next)
        LIST_ITEM(at, struct ledger_report, node)->sequence = ++sequence;
    ledger->last_sequence = sequence;
    return ledger->journal == NULL ? 0 : ledger_compact(ledger, err);
}
