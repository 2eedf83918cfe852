/* Any bytes as the agent's journal: a clean end, a cut tail or an error; never a crash, and what
 * was read can be read again. */
#include <string.h>

#include "src/agent/durable/journal.h"
#include "src/agent/durable/ledger.h"
#include "src/base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static int apply(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    return ledger_apply(data, bytes, length, err);
}

/* Through the checksums hardly anything would get: the records' content is fuzzed without them as
 * well. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct ledger *ledger = ledger_new();
    struct ledger *again = ledger_new();
    struct ledger *plain = ledger_new();
    size_t valid = 0;
    size_t valid_again = 0;
    struct err err;

    if (journal_scan(bytes, length, apply, ledger, &valid, &err) == 0) {
        CHECK(valid >= JOURNAL_HEAD_BYTES && valid <= length);
        CHECK(journal_scan(bytes, valid, apply, again, &valid_again, &err) == 0);
        CHECK(valid_again == valid);
        CHECK(ledger_pending_count(ledger) == ledger_pending_count(again));
        CHECK(ledger_last_sequence(ledger) == ledger_last_sequence(again));
    }
    (void)ledger_apply(plain, bytes, length, &err);
    ledger_close(ledger);
    ledger_close(again);
    ledger_close(plain);
    return 0;
}

static void seed_record(struct buf *record)
{
    struct ledger_entry entry = {.pid = 17,
                                 .checkpoint_id = 42,
                                 .attempt = 1,
                                 .phase = PHASE_ASKED,
                                 .run = 9,
                                 .kill_at_us = 5,
                                 .rank_count = 1,
                                 .ranks = {{.number = 3, .state = RANK_DONE, .label = "7"}}};

    strcpy(entry.allocation_id, "job-1");
    strcpy(entry.work_dir, "/tmp/w");
    ledger_encode_entry(record, &entry);
}

/* 0: a journal of two records; 1: one record's content. */
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    struct buf content;
    struct buf record;
    size_t length = 0;

    buf_init(&content);
    buf_init(&record);
    seed_record(&record);
    journal_head(&content);
    journal_frame(&content, record.bytes, record.length);
    journal_frame(&content, record.bytes, record.length);
    if (i == 0 && content.length <= size) {
        length = content.length;
        memcpy(bytes, content.bytes, length);
    } else if (i == 1 && record.length <= size) {
        length = record.length;
        memcpy(bytes, record.bytes, length);
    }
    buf_close(&content);
    buf_close(&record);
    return length;
}
