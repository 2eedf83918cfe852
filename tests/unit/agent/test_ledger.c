/* The ledger through restarts: fencing (I25), attempts (I22), reports until acknowledged
 * (F-009). */
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/agent/durable/journal.h"
#include "src/agent/durable/ledger.h"
#include "src/agent/durable/ledger_record.h"
#include "src/base/buf.h"
#include "tests/support/test.h"

static struct disk_ops disk;
static char folder[64];
static struct ledger *ledger;

static void open_ledger(const char *boot_id)
{
    struct err err;

    if (ledger_open(&disk, folder, "node-a", boot_id, &ledger, &err) != 0)
        fail_msg("%s", err.text);
}

static void reopen(const char *boot_id)
{
    ledger_close(ledger);
    open_ledger(boot_id);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-ledger-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    open_ledger("boot-1");
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    ledger_close(ledger);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void report(const char *text)
{
    struct err err;

    assert_int_equal(ledger_commit(ledger, NULL, (const uint8_t *)text, strlen(text), 7, &err), 0);
}

static void assert_report(uint64_t after, uint64_t sequence, const char *text)
{
    const struct ledger_report *kept = ledger_report_after(ledger, after);

    assert_non_null(kept);
    assert_uint_equal(kept->sequence, sequence);
    assert_uint_equal(kept->length, strlen(text));
    assert_memory_equal(kept->bytes, text, kept->length);
}

static void fill_processes(struct ledger_entry *entry)
{
    entry->stray_count = 2;
    entry->strays[0] = (struct ledger_stray){.pid = 4242, .start_ticks = 99};
    entry->strays[1] = (struct ledger_stray){.pid = 4243, .start_ticks = 100};
    entry->pace_count = 2;
    entry->paces[0] = (struct ledger_pace){.number = 4,
                                           .pid = 4712,
                                           .gap_p99_ms = 1100,
                                           .start_ticks = 123456790,
                                           .step = 127,
                                           .ns_per_step = 8000000};
    entry->paces[1] = (struct ledger_pace){.number = 5, .pid = 4713, .step = 1};
}

/* long: each field of an entry has a value. */
static struct ledger_entry entry_of(const char *id)
{
    struct ledger_entry entry = {.pid = 4711,
                                 .uid = 1000,
                                 .gid = 100,
                                 .start_ticks = 123456789,
                                 .checkpoint_id = UINT64_C(1) << 40 | 42,
                                 .attempt = 3,
                                 .phase = PHASE_ASKED,
                                 .asked_at_us = 99,
                                 .timeout_ms = 600000,
                                 .granted_bytes_per_s = UINT64_MAX,
                                 .read_back = 2,
                                 .generations = 7,
                                 .staging = 2,
                                 .compression = 2,
                                 .staged = ".part-0000.tmp.0123456789abcdef",
                                 .memory = "/run/memory/1000",
                                 .extended = true,
                                 .deadline_us = 5000,
                                 .walltime_ms = 3600000,
                                 .grace_ms = 30000,
                                 .end_reason = 5,
                                 .part = 2,
                                 .parts = 3,
                                 .attempt_part = 4,
                                 .owner_rule = 1,
                                 .named_restart = UINT64_C(1) << 40 | 41,
                                 .still = STANDING_LET_GO,
                                 .after = 2,
                                 .barrier_told = 1,
                                 .ranks_all = 9,
                                 .ranks_declared = 2,
                                 .asks_group = true,
                                 .asks_started = true,
                                 .ask_signal = 20,
                                 .rank_count = 2,
                                 .ranks = {{.number = 4,
                                            .pid = 4712,
                                            .by = RANK_BY_STREAM,
                                            .state = RANK_DONE,
                                            .barrier = true,
                                            .start_ticks = 123456790,
                                            .bytes = 77,
                                            .label = "step:127"},
                                           {.number = 5,
                                            .pid = 4713,
                                            .by = RANK_BY_ENVIRONMENT,
                                            .state = RANK_TOLD,
                                            .start_ticks = 123456791}}};

    snprintf(entry.allocation_id, sizeof(entry.allocation_id), "%s", id);
    strcpy(entry.groups, "4,27,20001");
    strcpy(entry.profile, "signal");
    entry.way_open = WAY_OUTSIDE;
    strcpy(entry.outside, "criu");
    strcpy(entry.outside_endpoint, "unix:/tmp/work/ckpt-run.cmd");
    entry.imported = true;
    strcpy(entry.work_dir, "/tmp/work");
    strcpy(entry.target_prefix, "/scratch");
    strcpy(entry.path, "/scratch/t/p/a/checkpoints/1-42");
    strcpy(entry.cgroup, "/sys/fs/cgroup/a/jobs/job-1.1");
    fill_processes(&entry);
    entry.copy_count = 2;
    entry.copies[0] = (struct ledger_copy){.checkpoint_id = 41,
                                           .part = 3,
                                           .state = COPY_GOING,
                                           .uid = 1000,
                                           .gid = 1001,
                                           .size_bytes = 77,
                                           .manifest_sha256 = "ab12",
                                           .work_dir = "/tmp/before",
                                           .report_sequence = 9};
    entry.copies[1] = (struct ledger_copy){
        .checkpoint_id = 42, .state = COPY_HERE, .work_dir = "/tmp/work", .report_sequence = 12};
    return entry;
}

static void fence_only_rises_and_survives(void **state)
{
    struct err err;

    (void)state;
    assert_false(ledger_fence_refuses(ledger, (struct fence){1, 1}));
    assert_int_equal(ledger_raise_fence(ledger, (struct fence){1, 7}, &err), 0);
    assert_int_equal(ledger_raise_fence(ledger, (struct fence){1, 5}, &err), 0);
    reopen("boot-1");
    assert_uint_equal(ledger_fence(ledger).epoch, 1);
    assert_uint_equal(ledger_fence(ledger).term, 7);
    assert_true(ledger_fence_refuses(ledger, (struct fence){1, 6}));
    assert_false(ledger_fence_refuses(ledger, (struct fence){1, 7}));
    assert_false(ledger_fence_refuses(ledger, (struct fence){1, 8}));
    /* a restored cluster begins with a higher epoch and any term */
    assert_false(ledger_fence_refuses(ledger, (struct fence){2, 1}));
    assert_int_equal(ledger_raise_fence(ledger, (struct fence){2, 1}, &err), 0);
    assert_true(ledger_fence_refuses(ledger, (struct fence){1, 100}));
}

static void entry_comes_back_as_it_was(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    struct ledger_entry other = entry_of("job-2");
    struct err err;

    (void)state;
    assert_int_equal(ledger_commit(ledger, &entry, NULL, 0, 0, &err), 0);
    assert_int_equal(ledger_commit(ledger, &other, NULL, 0, 0, &err), 0);
    entry.attempt = 4;
    entry.phase = PHASE_ENDED;
    entry.run = 777;
    entry.ended_run = 776;
    entry.named_run = 778;
    entry.max_deferral_ms = 300000;
    entry.deferred_ms = 20000;
    entry.longest_deferral_ms = 25000;
    entry.deferred_until_us = 12345678;
    strcpy(entry.endpoint, "unix:/run/user/1000/app.sock");
    entry.kill_at_us = 87654321;
    entry.restart_awaited = true;
    entry.awaited_status = -1;
    entry.ended_at_ms = 1;
    entry.ended_status = UINT32_MAX;
    entry.last_checkpoint = 41;
    entry.last_at_ms = 2;
    entry.last_bytes = 3;
    strcpy(entry.last_path, "/ckpt/t/p/job-1/1-41");
    entry.failed_checkpoint = 42;
    entry.failed_attempt = 2;
    entry.failed_at_ms = 4;
    strcpy(entry.failed_text, "no handler");
    assert_int_equal(ledger_commit(ledger, &entry, NULL, 0, 0, &err), 0);
    reopen("boot-1");
    assert_non_null(ledger_find(ledger, "job-1"));
    assert_memory_equal(ledger_find(ledger, "job-1"), &entry, sizeof(entry));
    assert_memory_equal(ledger_find(ledger, "job-2"), &other, sizeof(other));
    memset(entry.endpoint, 0, sizeof(entry.endpoint));
    entry.max_deferral_ms = entry.deferred_ms = entry.deferred_until_us = 0;
    entry.longest_deferral_ms = 0;
    entry.kill_at_us = 0;
    entry.restart_awaited = false;
    entry.awaited_status = 0;
    assert_int_equal(ledger_commit(ledger, &entry, NULL, 0, 0, &err), 0);
    assert_memory_equal(ledger_find(ledger, "job-1"), &entry, sizeof(entry));
    reopen("boot-1");
    assert_memory_equal(ledger_find(ledger, "job-1"), &entry, sizeof(entry));
    assert_int_equal(ledger_forget(ledger, "job-1", &err), 0);
    reopen("boot-1");
    assert_null(ledger_find(ledger, "job-1"));
    assert_ptr_equal(ledger_next(ledger, NULL), ledger_find(ledger, "job-2"));
    assert_null(ledger_next(ledger, ledger_find(ledger, "job-2")));
}

static void another_boot_knows_no_process_and_no_clock(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    const struct ledger_entry *kept;
    struct err err;

    (void)state;
    entry.kill_at_us = 4000;
    entry.restart_awaited = true;
    assert_int_equal(ledger_commit(ledger, &entry, (const uint8_t *)"r", 1, 55, &err), 0);
    reopen("boot-1");
    reopen("boot-2");
    kept = ledger_find(ledger, "job-1");
    assert_uint_equal(kept->start_ticks, UINT64_MAX);
    assert_uint_equal(kept->deadline_us, 0);
    assert_uint_equal(kept->asked_at_us, 0);
    assert_uint_equal(kept->kill_at_us, 0);
    assert_true(kept->restart_awaited);
    assert_uint_equal(kept->checkpoint_id, entry.checkpoint_id);
    assert_uint_equal(ledger_report_after(ledger, 0)->since_us, 0);
}

static void reports_are_kept_in_order_until_acknowledged(void **state)
{
    struct err err;

    (void)state;
    report("one");
    report("two");
    report("three");
    reopen("boot-1");
    assert_uint_equal(ledger_pending_count(ledger), 3);
    assert_report(0, 1, "one");
    assert_report(1, 2, "two");
    assert_int_equal(ledger_acknowledge(ledger, 2, &err), 0);
    assert_int_equal(ledger_acknowledge(ledger, 1, &err), 0);
    assert_uint_equal(ledger_pending_count(ledger), 1);
    assert_report(0, 3, "three");
    assert_int_equal(ledger_acknowledge(ledger, 3, &err), 0);
    assert_uint_equal(ledger_pending_count(ledger), 0);
    reopen("boot-1");
    assert_int_equal(ledger_align(ledger, 3, &err), 0);
    reopen("boot-1");
    assert_uint_equal(ledger_pending_count(ledger), 0);
    assert_uint_equal(ledger_last_sequence(ledger), 3);
    report("four");
    assert_report(0, 4, "four");
}

/* Nobody acts on it, and the session's begin tells it again: a sync for each would be a third of
 * all. The broker has not forgotten one by then. */
static void the_file_is_told_now_and_then_of_what_was_acknowledged(void **state)
{
    struct err err;

    (void)state;
    for (uint64_t i = 1; i <= LEDGER_TAKEN_MAX + 1; i++) {
        report("one");
        if (i == LEDGER_TAKEN_MAX) {
            reopen("boot-1"); /* all of them are back, and are dropped before they are sent */
            assert_uint_equal(ledger_pending_count(ledger), LEDGER_TAKEN_MAX);
            assert_int_equal(ledger_acknowledge(ledger, i - 1, &err), 0);
        }
        assert_int_equal(ledger_acknowledge(ledger, i, &err), 0);
        assert_uint_equal(ledger_pending_count(ledger), 0);
    }
    reopen("boot-1");
    assert_uint_equal(ledger_pending_count(ledger), 1);
    assert_report(0, LEDGER_TAKEN_MAX + 1, "one");
    assert_int_equal(ledger_align(ledger, LEDGER_TAKEN_MAX + 1, &err), 0);
    assert_uint_equal(ledger_pending_count(ledger), 0);
    reopen("boot-1");
    assert_uint_equal(ledger_pending_count(ledger), 0);
}

static void alignment_drops_what_is_taken(void **state)
{
    struct err err;

    (void)state;
    report("one");
    report("two");
    assert_int_equal(ledger_align(ledger, 1, &err), 0);
    assert_uint_equal(ledger_pending_count(ledger), 1);
    assert_report(0, 2, "two");
    assert_int_equal(ledger_align(ledger, 2, &err), 0);
    assert_uint_equal(ledger_pending_count(ledger), 0);
}

static void new_folder_numbers_on_from_what_the_broker_took(void **state)
{
    struct err err;

    (void)state;
    report("one");
    report("two");
    assert_int_equal(ledger_align(ledger, 57, &err), 0);
    assert_report(0, 58, "one");
    assert_report(58, 59, "two");
    reopen("boot-1");
    assert_report(0, 58, "one");
    report("three");
    assert_report(59, 60, "three");
}

static void restored_cluster_numbers_back(void **state)
{
    struct err err;

    (void)state;
    for (int i = 0; i < 5; i++)
        report("taken");
    assert_int_equal(ledger_acknowledge(ledger, 5, &err), 0);
    report("kept");
    assert_int_equal(ledger_align(ledger, 2, &err), 0);
    assert_report(0, 3, "kept");
    assert_int_equal(ledger_acknowledge(ledger, 3, &err), 0);
    assert_int_equal(ledger_align(ledger, 0, &err), 0);
    report("next");
    reopen("boot-1");
    assert_report(0, 1, "next");
}

static int pass_over(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    (void)data, (void)bytes, (void)length, (void)err;
    return 0;
}

/* Up to the zeros behind its last record; all of what is no journal. */
static size_t read_journal(uint8_t *bytes, size_t size)
{
    static uint8_t whole[1 << 18];
    char path[128];
    FILE *file;
    size_t length, valid;

    snprintf(path, sizeof(path), "%s/journal", folder);
    file = fopen(path, "r");
    assert_non_null(file);
    length = fread(whole, 1, sizeof(whole), file);
    fclose(file);
    if (journal_scan(whole, length, pass_over, NULL, &valid, NULL) == 0)
        length = valid;
    assert_true(length < size);
    memcpy(bytes, whole, length);
    return length;
}

static void write_journal(const uint8_t *bytes, size_t length)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/journal", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_uint_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

/* An attempt never ends without its report: wherever the write tears, both are there or none. */
static void entry_and_report_are_one_record(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    static uint8_t bytes[1 << 16];
    size_t before;
    size_t after;
    struct err err;

    (void)state;
    assert_int_equal(ledger_commit(ledger, &entry, NULL, 0, 0, &err), 0);
    before = read_journal(bytes, sizeof(bytes));
    entry.phase = PHASE_ENDED;
    assert_int_equal(ledger_commit(ledger, &entry, (const uint8_t *)"end", 3, 0, &err), 0);
    after = read_journal(bytes, sizeof(bytes));
    assert_true(after > before);
    for (size_t cut = before; cut <= after; cut++) {
        ledger_close(ledger);
        write_journal(bytes, cut);
        open_ledger("boot-1");
        assert_int_equal(ledger_find(ledger, "job-1")->phase,
                         cut == after ? PHASE_ENDED : PHASE_ASKED);
        assert_uint_equal(ledger_pending_count(ledger), cut == after ? 1 : 0);
    }
}

static void journal_does_not_grow_without_bound(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    char path[128];
    struct err err;
    FILE *file;

    (void)state;
    memset(entry.work_dir, 'w',
           250);             /* without the disk's flush per change this would be instant */
    entry.work_dir[0] = '/'; /* so many of this size pass the limit once */
    for (int i = 0; i < 4500; i++) {
        entry.asked_at_us = (uint64_t)i;
        assert_int_equal(ledger_commit(ledger, &entry, NULL, 0, 0, &err), 0);
    }
    snprintf(path, sizeof(path), "%s/journal", folder);
    file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    assert_true(ftell(file) < 1120000);
    fclose(file);
    reopen("boot-1");
    assert_uint_equal(ledger_find(ledger, "job-1")->asked_at_us, 4499);
}

/* One record of each kind, as the ledger writes them, into a journal that has nothing but its
 * head. */
static void write_one_of_each_kind(void)
{
    struct ledger_entry entry = entry_of("job-1");
    struct ledger_entry gone = entry_of("job-2");
    struct err err;

    assert_int_equal(ledger_raise_fence(ledger, (struct fence){300, 70000}, &err), 0);
    assert_int_equal(ledger_commit(ledger, &gone, NULL, 0, 0, &err), 0);
    report("alone");
    assert_int_equal(ledger_commit(ledger, &entry, (const uint8_t *)"both", 4, 9, &err), 0);
    assert_int_equal(ledger_forget(ledger, "job-2", &err), 0);
    assert_int_equal(ledger_align(ledger, 1, &err), 0);
}

enum { KINDS_MAX = 16 };

struct records {
    size_t count;
    size_t begins[KINDS_MAX]; /* of the content, in the file */
    size_t lengths[KINDS_MAX];
};

static const uint8_t *file_bytes;

static int note_record(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    struct records *records = data;

    (void)err;
    assert_true(records->count < KINDS_MAX);
    records->begins[records->count] = (size_t)(bytes - file_bytes);
    records->lengths[records->count++] = length;
    return 0;
}

/* The whole file, and where its records are. */
static size_t read_records(uint8_t *bytes, size_t size, struct records *ret_records)
{
    size_t length = read_journal(bytes, size);
    size_t valid;
    struct err err;

    *ret_records = (struct records){0};
    file_bytes = bytes;
    assert_int_equal(journal_scan(bytes, length, note_record, ret_records, &valid, &err), 0);
    assert_uint_equal(valid, length);
    return length;
}

/* F-025: the agent died, or the power failed, while any record was being written: those before it
 * hold, nothing of it does. */
static void a_file_cut_at_any_byte_holds_the_records_before_the_cut(void **state)
{
    static uint8_t bytes[1 << 16];
    struct records records;
    size_t length;

    (void)state;
    write_one_of_each_kind();
    length = read_records(bytes, sizeof(bytes), &records);
    assert_uint_equal(records.count, 7); /* with the head */
    for (size_t cut = records.begins[0] + records.lengths[0]; cut <= length; cut++) {
        size_t whole = 0;
        ledger_close(ledger);
        write_journal(bytes, cut);
        open_ledger("boot-1");
        while (whole < records.count && records.begins[whole] + records.lengths[whole] <= cut)
            whole++;
        assert_uint_equal(ledger_fence(ledger).term, whole > 1 ? 70000 : 0);
        assert_int_equal(ledger_find(ledger, "job-2") != NULL, whole > 2 && whole < 6);
        assert_uint_equal(ledger_last_sequence(ledger), whole > 4 ? 2 : whole > 3 ? 1 : 0);
        assert_int_equal(ledger_find(ledger, "job-1") != NULL, whole > 4);
        assert_uint_equal(ledger_pending_count(ledger), whole == 4 || whole > 6    ? 1
                                                        : whole == 5 || whole == 6 ? 2
                                                                                   : 0);
    }
}

/* The checksum would have found it before; what lies below relies on nobody. */
static void no_part_of_a_record_is_taken_for_a_record(void **state)
{
    static uint8_t bytes[1 << 16];
    struct records records;
    struct err err;

    (void)state;
    write_one_of_each_kind();
    read_records(bytes, sizeof(bytes), &records);
    for (size_t i = 0; i < records.count; i++) {
        for (size_t cut = 0; cut < records.lengths[i]; cut++) {
            struct ledger *fresh = ledger_new();
            err.code = 0;
            assert_int_equal(ledger_apply(fresh, bytes + records.begins[i], cut, &err), -1);
            assert_int_equal(err.code, ERR_CORRUPT);
            ledger_close(fresh);
        }
    }
}

static void assert_refused(Ckpt__Agent__V1__JournalRecord *message, const char *why)
{
    struct ledger *fresh = ledger_new();
    struct buf record;
    struct err err = {0};

    buf_init(&record);
    ledger_record_append(&record, message);
    assert_int_equal(ledger_apply(fresh, record.bytes, record.length, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, why));
    assert_null(ledger_next(fresh, NULL));
    assert_uint_equal(ledger_pending_count(fresh), 0);
    buf_close(&record);
    ledger_close(fresh);
}

/* Each of them is of a message that is whole otherwise. */
static void refuse_ranks(Ckpt__Agent__V1__JournalRecord *record, struct ledger_entry *entry,
                         struct ledger_message *whole)
{
    Ckpt__Agent__V1__JournalRank *many[LEDGER_RANKS_MAX + 1];
    char label[LABEL_MAX_BYTES + 2];

    ledger_entry_message(entry, whole);
    whole->ranks[1].number = whole->ranks[0].number;
    assert_refused(record, "ranks");
    ledger_entry_message(entry, whole);
    whole->ranks[1].state = RANK_MISSED + 1;
    assert_refused(record, "ranks");
    ledger_entry_message(entry, whole);
    whole->ranks[0].by = RANK_BY_STREAM + 1;
    assert_refused(record, "ranks");
    ledger_entry_message(entry, whole);
    whole->ranks[0].label = strcpy(label, "a b");
    assert_refused(record, "ranks");
    memset(label, 'x', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    assert_refused(record, "ranks");
    ledger_entry_message(entry, whole);
    for (size_t i = 0; i <= LEDGER_RANKS_MAX; i++)
        many[i] = &whole->ranks[0];
    whole->entry.n_ranks = LEDGER_RANKS_MAX + 1;
    whole->entry.ranks = many;
    assert_refused(record, "ranks");
    ledger_entry_message(entry, whole);
}

static void records_that_no_agent_writes_are_refused(void **state)
{
    Ckpt__Agent__V1__JournalRecord record = CKPT__AGENT__V1__JOURNAL_RECORD__INIT;
    Ckpt__Agent__V1__JournalChange change = CKPT__AGENT__V1__JOURNAL_CHANGE__INIT;
    Ckpt__Agent__V1__JournalReport skipped = CKPT__AGENT__V1__JOURNAL_REPORT__INIT;
    struct ledger_entry entry = entry_of("job-1");
    struct ledger_message whole;
    Ckpt__Agent__V1__JournalEntry *message = &whole.entry;
    char text[LEDGER_WORK_DIR_BYTES + 1];

    (void)state;
    record.body_case = CKPT__AGENT__V1__JOURNAL_RECORD__BODY_CHANGE;
    record.change = &change;
    assert_refused(&record, "a change of nothing");
    change.entry = message;
    ledger_entry_message(&entry, &whole);
    message->phase = PHASE_DEFERRED + 1;
    assert_refused(&record, "phase");
    ledger_entry_message(&entry, &whole);
    message->deferred_ms = 2;
    message->max_deferral_ms = 1;
    assert_refused(&record, "deferred_ms");
    ledger_entry_message(&entry, &whole);
    message->longest_deferral_ms = message->timeout_ms + 1;
    assert_refused(&record, "longest_deferral_ms");
    ledger_entry_message(&entry, &whole);
    message->allocation_id[0] = '/';
    assert_refused(&record, "allocation_id");
    entry = entry_of("job-1");
    ledger_entry_message(&entry, &whole);
    message->still = STANDING_LET_GO + 1;
    assert_refused(&record, "still");
    message->still = STANDING_LET_GO;
    message->barrier_told = 3;
    assert_refused(&record, "barrier_told");
    ledger_entry_message(&entry, &whole);
    message->part = message->parts;
    assert_refused(&record, "part");
    refuse_ranks(&record, &entry, &whole);
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    entry = entry_of("job-1");
    ledger_entry_message(&entry, &whole);
    message->work_dir = text;
    assert_refused(&record, "work_dir");
    message->work_dir = text + 1;
    change.report = &skipped;
    skipped.sequence = 2;
    skipped.report = (ProtobufCBinaryData){1, (uint8_t *)text};
    assert_refused(&record, "report 2 of 1 bytes cannot follow report 0");
}

/* U-001: a later agent's field may mean that the rest means something else. */
static void records_with_unknown_fields_are_refused(void **state)
{
    const uint8_t plain[] = {0x12, 0x02, 0x08, 0x07};              /* fence, epoch 7 */
    const uint8_t beside[] = {0x12, 0x02, 0x08, 0x07, 0x78, 0x01}; /* field 15 = 1 */
    const uint8_t within[] = {0x12, 0x04, 0x08, 0x07, 0x78, 0x01}; /* the fence has it */
    struct ledger *fresh = ledger_new();
    struct err err = {0};

    (void)state;
    assert_int_equal(ledger_apply(fresh, plain, sizeof(plain), &err), 0);
    assert_uint_equal(ledger_fence(fresh).epoch, 7);
    assert_int_equal(ledger_apply(fresh, beside, sizeof(beside), &err), -1);
    assert_non_null(strstr(err.text, "a field that this agent does not know"));
    assert_int_equal(ledger_apply(fresh, within, sizeof(within), &err), -1);
    assert_non_null(strstr(err.text, "a field that this agent does not know"));
    ledger_close(fresh);
}

static void refuse_file(const char *content, const char *why)
{
    struct err err = {0};

    write_journal((const uint8_t *)content, strlen(content));
    assert_int_equal(ledger_open(&disk, folder, "node-a", "boot-1", &ledger, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, why));
    assert_non_null(strstr(err.text, "move it away to start without it"));
}

/* It is left as it is, and what it is, is said. */
static void a_foreign_file_or_format_is_refused_by_name(void **state)
{
    uint8_t bytes[64];

    (void)state;
    ledger_close(ledger);
    ledger = NULL;
    refuse_file("CKPTAJ01crec", "a journal of format \"01\", this agent reads \"02\"");
    assert_uint_equal(read_journal(bytes, sizeof(bytes)), 12);
    refuse_file("#!/bin/sh\nexit 0\n", "not an agent's journal (17 bytes)");
    refuse_file("CKPT", "not an agent's journal (4 bytes)");
    refuse_file("", "not an agent's journal (0 bytes)");
    write_journal((const uint8_t *)"CKPTAJ02", 8);
    open_ledger("boot-1");
}

static void the_folder_of_another_node_is_refused(void **state)
{
    struct err err = {0};

    (void)state;
    ledger_close(ledger);
    ledger = NULL;
    assert_int_not_equal(ledger_open(&disk, folder, "node-b", "boot-1", &ledger, &err), 0);
    assert_non_null(strstr(err.text, "state folder of node node-a, not of node-b"));
    open_ledger("boot-1");
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(the_folder_of_another_node_is_refused),
        LEDGER_TEST(fence_only_rises_and_survives),
        LEDGER_TEST(entry_comes_back_as_it_was),
        LEDGER_TEST(another_boot_knows_no_process_and_no_clock),
        LEDGER_TEST(reports_are_kept_in_order_until_acknowledged),
        LEDGER_TEST(the_file_is_told_now_and_then_of_what_was_acknowledged),
        LEDGER_TEST(alignment_drops_what_is_taken),
        LEDGER_TEST(new_folder_numbers_on_from_what_the_broker_took),
        LEDGER_TEST(restored_cluster_numbers_back),
        LEDGER_TEST(entry_and_report_are_one_record),
        LEDGER_TEST(journal_does_not_grow_without_bound),
        LEDGER_TEST(a_file_cut_at_any_byte_holds_the_records_before_the_cut),
        LEDGER_TEST(no_part_of_a_record_is_taken_for_a_record),
        LEDGER_TEST(records_that_no_agent_writes_are_refused),
        LEDGER_TEST(records_with_unknown_fields_are_refused),
        LEDGER_TEST(a_foreign_file_or_format_is_refused_by_name),
    };

    disk_uv_ops(NULL, &disk); /* nothing here needs its loop */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
