/* What the agent must remember through its own death. See ledger.h. */
#include "src/agent/durable/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/durable/journal.h"
#include "src/agent/durable/ledger_record.h"
#include "src/agent/node/machine.h"
#include "src/base/buf.h"
#include "src/base/check.h"

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
    size_t taken_count; /* dropped, and the file does not say so; at most LEDGER_TAKEN_MAX */
    uint64_t last_sequence;
    size_t compact_at_bytes;
};

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

static struct ledger_report *report_put(struct ledger *ledger, uint64_t sequence, uint64_t since_us,
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
    return report;
}

static void report_message(struct ledger_report *report,
                           Ckpt__Agent__V1__JournalReport *ret_message)
{
    ckpt__agent__v1__journal_report__init(ret_message);
    ret_message->sequence = report->sequence;
    ret_message->since_us = report->since_us;
    ret_message->report = (ProtobufCBinaryData){.len = report->length, .data = report->bytes};
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
        ledger->taken_count++;
    }
}

/* ---- replay ---- */

static int head_apply(struct ledger *ledger, const Ckpt__Agent__V1__JournalHead *head,
                      struct err *err)
{
    if ((head->node_id[0] != '\0' && !id_valid(head->node_id)) ||
        strlen(head->boot_id) >= sizeof(ledger->boot_id) || head->fence == NULL)
        return err_set(err, ERR_CORRUPT, "the head of the journal is nothing that an agent writes");
    snprintf(ledger->node_id, sizeof(ledger->node_id), "%s", head->node_id);
    snprintf(ledger->boot_id, sizeof(ledger->boot_id), "%s", head->boot_id);
    ledger->fence = (struct fence){head->fence->epoch, head->fence->term};
    ledger->last_sequence = head->last_sequence;
    return 0;
}

static int change_apply(struct ledger *ledger, const Ckpt__Agent__V1__JournalChange *change,
                        struct err *err)
{
    const Ckpt__Agent__V1__JournalReport *report = change->report;
    struct ledger_entry entry;

    if (change->entry == NULL && report == NULL)
        return err_set(err, ERR_CORRUPT, "a change of nothing");
    if (report != NULL &&
        (report->report.len == 0 || report->report.len > LEDGER_REPORT_MAX_BYTES ||
         report->sequence != ledger->last_sequence + 1 ||
         ledger->report_count >= LEDGER_REPORTS_MAX + LEDGER_TAKEN_MAX))
        return err_set(err, ERR_CORRUPT,
                       "report %" PRIu64 " of %zu bytes cannot follow report %" PRIu64,
                       report->sequence, report->report.len, ledger->last_sequence);
    if (change->entry != NULL) {
        if (ledger_entry_take(change->entry, &entry, err) != 0)
            return -1;
        kept_put(ledger, &entry);
    }
    if (report != NULL)
        report_put(ledger, report->sequence, report->since_us, report->report.data,
                   report->report.len);
    return 0;
}

static int record_apply(struct ledger *ledger, const Ckpt__Agent__V1__JournalRecord *record,
                        struct err *err)
{
    switch (record->body_case) {
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_HEAD:
        return head_apply(ledger, record->head, err);
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_FENCE:
        ledger->fence = (struct fence){record->fence->epoch, record->fence->term};
        return 0;
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_CHANGE:
        return change_apply(ledger, record->change, err);
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_FORGOTTEN_ALLOCATION_ID:
        kept_drop(ledger, record->forgotten_allocation_id);
        return 0;
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY_ACKNOWLEDGED_SEQUENCE:
        reports_drop(ledger, record->acknowledged_sequence);
        ledger->taken_count = 0;
        return 0;
    case CKPT__AGENT__V1__JOURNAL_RECORD__BODY__NOT_SET:
    case _CKPT__AGENT__V1__JOURNAL_RECORD__BODY__CASE_IS_INT_SIZE:
        break;
    }
    CHECK_UNREACHABLE("refused when it was unpacked");
}

int ledger_apply(struct ledger *ledger, const uint8_t *bytes, size_t length, struct err *err)
{
    Ckpt__Agent__V1__JournalRecord *record;
    int result;

    if (ledger_record_unpack(bytes, length, &record, err) != 0)
        return -1;
    result = record_apply(ledger, record, err);
    ckpt__agent__v1__journal_record__free_unpacked(record, NULL);
    return result;
}

static int replay_record(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    return ledger_apply(data, bytes, length, err);
}

/* ---- writing ---- */

static void append_change(struct buf *record, const struct ledger_entry *entry,
                          Ckpt__Agent__V1__JournalReport *report)
{
    Ckpt__Agent__V1__JournalRecord message = CKPT__AGENT__V1__JOURNAL_RECORD__INIT;
    Ckpt__Agent__V1__JournalChange change = CKPT__AGENT__V1__JOURNAL_CHANGE__INIT;
    struct ledger_message entry_message;
    struct ledger_entry copy;

    if (entry != NULL) {
        CHECK(ledger_entry_wrong(entry) == NULL);
        copy = *entry;
        ledger_entry_message(&copy, &entry_message);
        change.entry = &entry_message.entry;
    }
    change.report = report;
    message.body_case = CKPT__AGENT__V1__JOURNAL_RECORD__BODY_CHANGE;
    message.change = &change;
    ledger_record_append(record, &message);
}

void ledger_encode_entry(struct buf *record, const struct ledger_entry *entry)
{
    append_change(record, entry, NULL);
}

static void append_head(struct buf *record, struct ledger *ledger, uint64_t last_sequence)
{
    Ckpt__Agent__V1__JournalRecord message = CKPT__AGENT__V1__JOURNAL_RECORD__INIT;
    Ckpt__Agent__V1__JournalHead head = CKPT__AGENT__V1__JOURNAL_HEAD__INIT;
    Ckpt__Agent__V1__JournalFence fence = CKPT__AGENT__V1__JOURNAL_FENCE__INIT;

    fence.epoch = ledger->fence.epoch;
    fence.term = ledger->fence.term;
    head.node_id = ledger->node_id;
    head.boot_id = ledger->boot_id;
    head.fence = &fence;
    head.last_sequence = last_sequence;
    message.body_case = CKPT__AGENT__V1__JOURNAL_RECORD__BODY_HEAD;
    message.head = &head;
    ledger_record_append(record, &message);
}

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
    append_head(&record, ledger, first != NULL ? first->sequence - 1 : ledger->last_sequence);
    frame_record(&content, &record);
    for (struct list *at = ledger->entries.next; at != &ledger->entries; at = at->next) {
        append_change(&record, &LIST_ITEM(at, struct kept_entry, node)->entry, NULL);
        frame_record(&content, &record);
    }
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next) {
        Ckpt__Agent__V1__JournalReport report;
        report_message(LIST_ITEM(at, struct ledger_report, node), &report);
        append_change(&record, NULL, &report);
        frame_record(&content, &record);
    }
    result = journal_rewrite(ledger->journal, &content, err);
    ledger->taken_count = 0;
    ledger->compact_at_bytes = COMPACT_MIN_BYTES + 4 * content.length;
    buf_close(&record);
    buf_close(&content);
    return result;
}

/* Appends what is in *record and closes it. */
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

static int ledger_write_message(struct ledger *ledger,
                                const Ckpt__Agent__V1__JournalRecord *message, struct err *err)
{
    struct buf record;

    buf_init(&record);
    ledger_record_append(&record, message);
    return ledger_write(ledger, &record, err);
}

/* ---- life ---- */

struct ledger *ledger_new(void)
{
    struct ledger *ledger = check_calloc(1, sizeof(*ledger));

    list_init(&ledger->entries);
    list_init(&ledger->reports);
    return ledger;
}

/* Another boot: no process of the old one lives and its monotonic clock means nothing. start_ticks
 * that no process has make each application count as gone; who finds that out reports it. */
static void forget_boot(struct ledger *ledger)
{
    for (struct list *at = ledger->entries.next; at != &ledger->entries; at = at->next) {
        struct ledger_entry *entry = &LIST_ITEM(at, struct kept_entry, node)->entry;
        entry->start_ticks = LEDGER_NEVER_STARTED;
        entry->deadline_us = 0;
        entry->asked_at_us = 0;
        entry->deferred_until_us = 0;
        entry->kill_at_us = 0;
        entry->cgroup[0] = '\0';
        entry->stray_count = 0;
        entry->pace_count = 0;
        for (uint32_t i = 0; i < entry->rank_count; i++)
            entry->ranks[i].start_ticks = LEDGER_NEVER_STARTED;
    }
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next)
        LIST_ITEM(at, struct ledger_report, node)->since_us = 0;
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
    Ckpt__Agent__V1__JournalRecord message = CKPT__AGENT__V1__JOURNAL_RECORD__INIT;
    Ckpt__Agent__V1__JournalFence raised = CKPT__AGENT__V1__JOURNAL_FENCE__INIT;

    if (!fence_below(ledger->fence, fence))
        return 0;
    ledger->fence = fence;
    raised.epoch = fence.epoch;
    raised.term = fence.term;
    message.body_case = CKPT__AGENT__V1__JOURNAL_RECORD__BODY_FENCE;
    message.fence = &raised;
    return ledger_write_message(ledger, &message, err);
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
    Ckpt__Agent__V1__JournalReport report;
    struct buf record;

    CHECK(entry != NULL || report_bytes != NULL);
    CHECK(report_bytes == NULL || (report_length > 0 && report_length <= LEDGER_REPORT_MAX_BYTES));
    if (entry != NULL && ledger->entry_count == LEDGER_ENTRIES_MAX &&
        kept_find(ledger, entry->allocation_id) == NULL)
        return err_set(err, ERR_FULL, "%d allocations are kept already", LEDGER_ENTRIES_MAX);
    if (report_bytes != NULL && ledger->report_count == LEDGER_REPORTS_MAX)
        return err_set(err, ERR_FULL, "%d reports wait for a broker already", LEDGER_REPORTS_MAX);
    if (entry != NULL)
        kept_put(ledger, entry);
    if (report_bytes != NULL)
        report_message(
            report_put(ledger, ledger->last_sequence + 1, since_us, report_bytes, report_length),
            &report);
    buf_init(&record);
    append_change(&record, entry, report_bytes == NULL ? NULL : &report);
    return ledger_write(ledger, &record, err);
}

int ledger_forget(struct ledger *ledger, const char *allocation_id, struct err *err)
{
    Ckpt__Agent__V1__JournalRecord message = CKPT__AGENT__V1__JOURNAL_RECORD__INIT;
    char id[ID_MAX_BYTES + 1];

    if (kept_find(ledger, allocation_id) == NULL)
        return 0;
    snprintf(id, sizeof(id), "%s", allocation_id);
    kept_drop(ledger, id);
    message.body_case = CKPT__AGENT__V1__JOURNAL_RECORD__BODY_FORGOTTEN_ALLOCATION_ID;
    message.forgotten_allocation_id = id;
    return ledger_write_message(ledger, &message, err);
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

static int taken_write(struct ledger *ledger, uint64_t sequence, struct err *err)
{
    Ckpt__Agent__V1__JournalRecord message = CKPT__AGENT__V1__JOURNAL_RECORD__INIT;

    if (ledger->taken_count == 0)
        return 0;
    ledger->taken_count = 0;
    message.body_case = CKPT__AGENT__V1__JOURNAL_RECORD__BODY_ACKNOWLEDGED_SEQUENCE;
    message.acknowledged_sequence = sequence;
    return ledger_write_message(ledger, &message, err);
}

int ledger_acknowledge(struct ledger *ledger, uint64_t sequence, struct err *err)
{
    reports_drop(ledger, sequence);
    return ledger->taken_count < LEDGER_TAKEN_MAX ? 0 : taken_write(ledger, sequence, err);
}

int ledger_align(struct ledger *ledger, uint64_t acknowledged, struct err *err)
{
    struct ledger_report *first;
    uint64_t sequence = acknowledged;

    /* Above what was ever numbered here: the folder is new, what is kept was never taken. */
    if (acknowledged <= ledger->last_sequence) {
        reports_drop(ledger, acknowledged);
        if (taken_write(ledger, acknowledged, err) != 0)
            return -1;
    }
    first = report_first(ledger);
    if (first == NULL ? ledger->last_sequence == acknowledged : first->sequence == acknowledged + 1)
        return 0;
    for (struct list *at = ledger->reports.next; at != &ledger->reports; at = at->next)
        LIST_ITEM(at, struct ledger_report, node)->sequence = ++sequence;
    ledger->last_sequence = sequence;
    return ledger->journal == NULL ? 0 : ledger_compact(ledger, err);
}
