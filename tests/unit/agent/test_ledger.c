/* The ledger through restarts: fencing (I25), attempts (I22), reports until acknowledged (F-009). */
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/agent/durable/ledger.h"
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
                                 .extended = true,
                                 .deadline_us = 5000,
                                 .walltime_ms = 3600000,
                                 .grace_ms = 30000,
                                 .end_reason = 5};

    snprintf(entry.allocation_id, sizeof(entry.allocation_id), "%s", id);
    strcpy(entry.groups, "4,27,20001");
    strcpy(entry.profile, "signal");
    strcpy(entry.work_dir, "/tmp/work");
    strcpy(entry.target_prefix, "/scratch");
    strcpy(entry.path, "/scratch/t/p/a/checkpoints/1-42");
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
    entry.life = 777;
    entry.ended_life = 776;
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

/* U-001: an older agent wrote the state that a start was from; of which life that is nobody knows. */
static void what_an_older_agent_wrote_of_a_start_is_of_an_unknown_life(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    struct ledger *older = ledger_new();
    struct buf record;
    struct err err;

    (void)state;
    buf_init(&record);
    entry.life = 777;
    ledger_encode_entry(&record, &entry);
    /* tag 10, text, two numbers at the end */
    assert_int_equal(record.bytes[record.length - 16 - 5 - 8 - 1], 10);
    record.bytes[record.length - 16 - 5 - 8 - 1] = 9;
    assert_int_equal(ledger_apply(older, record.bytes, record.length, &err), 0);
    assert_uint_equal(ledger_find(older, "job-1")->pid, entry.pid);
    assert_uint_equal(ledger_find(older, "job-1")->life, 0);
    ledger_close(older);
    buf_close(&record);
}

static void another_boot_knows_no_process_and_no_clock(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    const struct ledger_entry *kept;
    struct err err;

    (void)state;
    entry.kill_at_us = 4000;
    entry.started_us = 98;
    entry.restart_awaited = true;
    assert_int_equal(ledger_commit(ledger, &entry, (const uint8_t *)"r", 1, 55, &err), 0);
    reopen("boot-1");
    assert_uint_equal(ledger_find(ledger, "job-1")->started_us, 98);
    reopen("boot-2");
    kept = ledger_find(ledger, "job-1");
    assert_uint_equal(kept->start_ticks, UINT64_MAX);
    assert_uint_equal(kept->started_us, LEDGER_EARLIER_BOOT);
    assert_uint_equal(kept->deadline_us, 0);
    assert_uint_equal(kept->asked_at_us, 0);
    assert_uint_equal(kept->kill_at_us, 0);
    assert_true(kept->restart_awaited);
    assert_uint_equal(kept->checkpoint_id, entry.checkpoint_id);
    assert_uint_equal(ledger_report_after(ledger, 0)->since_us, LEDGER_EARLIER_BOOT);
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
    reopen("boot-1");
    assert_uint_equal(ledger_pending_count(ledger), 1);
    assert_report(0, 3, "three");
    assert_int_equal(ledger_acknowledge(ledger, 3, &err), 0);
    reopen("boot-1");
    assert_uint_equal(ledger_last_sequence(ledger), 3);
    report("four");
    assert_report(0, 4, "four");
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

static size_t read_journal(uint8_t *bytes, size_t size)
{
    char path[128];
    FILE *file;
    size_t length;

    snprintf(path, sizeof(path), "%s/journal", folder);
    file = fopen(path, "r");
    assert_non_null(file);
    length = fread(bytes, 1, size, file);
    assert_true(length < size);
    fclose(file);
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
    /* without the disk's flush per change this would be instant; this many pass the limit once */
    for (int i = 0; i < 4500; i++) {
        entry.asked_at_us = (uint64_t)i;
        assert_int_equal(ledger_commit(ledger, &entry, NULL, 0, 0, &err), 0);
    }
    snprintf(path, sizeof(path), "%s/journal", folder);
    file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    assert_true(ftell(file) < 1050000);
    fclose(file);
    reopen("boot-1");
    assert_uint_equal(ledger_find(ledger, "job-1")->asked_at_us, 4499);
}

static void items_that_do_not_decode_are_refused(void **state)
{
    struct ledger_entry entry = entry_of("job-1");
    struct ledger *fresh = ledger_new();
    struct buf record;
    struct err err;
    const uint8_t unknown = 200;

    (void)state;
    buf_init(&record);
    ledger_encode_entry(&record, &entry);
    assert_int_equal(ledger_apply(fresh, record.bytes, record.length, &err), 0);
    for (size_t cut = 1; cut < record.length; cut++)
        assert_int_equal(ledger_apply(fresh, record.bytes, cut, &err), -1);
    assert_int_equal(ledger_apply(fresh, &unknown, 1, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    buf_close(&record);
    ledger_close(fresh);
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
        LEDGER_TEST(what_an_older_agent_wrote_of_a_start_is_of_an_unknown_life),
        LEDGER_TEST(another_boot_knows_no_process_and_no_clock),
        LEDGER_TEST(reports_are_kept_in_order_until_acknowledged),
        LEDGER_TEST(alignment_drops_what_is_taken),
        LEDGER_TEST(new_folder_numbers_on_from_what_the_broker_took),
        LEDGER_TEST(restored_cluster_numbers_back),
        LEDGER_TEST(entry_and_report_are_one_record),
        LEDGER_TEST(journal_does_not_grow_without_bound),
        LEDGER_TEST(items_that_do_not_decode_are_refused),
    };

    disk_uv_ops(NULL, &disk); /* nothing here needs its loop */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
