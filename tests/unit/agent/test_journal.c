/* The agent's journal: what was appended is there again, a torn tail goes, a damaged middle stops
 * the agent. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/agent/durable/journal.h"
#include "tests/sim/sim.h"
#include "tests/support/test.h"

enum { RECORDS = 5 };

struct seen {
    size_t count;
    size_t lengths[16];
    uint8_t first_bytes[16];
};

static int see(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    struct seen *seen = data;

    (void)err;
    assert_true(seen->count < 16);
    seen->lengths[seen->count] = length;
    seen->first_bytes[seen->count] = bytes[0];
    seen->count++;
    return 0;
}

static int refuse(void *data, const uint8_t *bytes, size_t length, struct err *err)
{
    (void)data;
    (void)bytes;
    (void)length;
    return err_set(err, ERR_CORRUPT, "not understood");
}

static struct disk_ops disk, real;
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-journal-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void content_of_records(struct buf *content)
{
    buf_init(content);
    journal_head(content);
    for (uint8_t i = 0; i < RECORDS; i++) {
        uint8_t body[64];
        memset(body, i + 1, sizeof(body));
        journal_frame(content, body, 10u + i);
    }
}

/* Offset behind the record number `count`. */
static size_t end_of(size_t count)
{
    size_t at = JOURNAL_HEAD_BYTES;

    for (size_t i = 0; i < count; i++)
        at += JOURNAL_RECORD_HEAD_BYTES + 10 + i;
    return at;
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

static void records_come_back_in_order(void **state)
{
    struct journal *journal;
    struct seen seen = {0};
    struct err err;

    (void)state;
    assert_int_equal(journal_open(&disk, folder, see, &seen, &journal, &err), 0);
    assert_uint_equal(seen.count, 0);
    for (uint8_t i = 1; i <= 3; i++)
        assert_int_equal(journal_append(journal, &i, 1, &err), 0);
    journal_close(journal);
    assert_int_equal(journal_open(&disk, folder, see, &seen, &journal, &err), 0);
    assert_uint_equal(seen.count, 3);
    for (uint8_t i = 0; i < 3; i++)
        assert_int_equal(seen.first_bytes[i], i + 1);
    journal_close(journal);
}

static unsigned syncs, synced_writes;

static int count_sync(struct disk_file *of, struct err *err)
{
    syncs++;
    return real.sync(of, err);
}

static int count_write_sync(struct disk_file *of, uint64_t offset, const void *bytes, size_t length,
                            struct err *err)
{
    synced_writes++;
    return real.write_sync(of, offset, bytes, length, err);
}

/* One that makes the file longer has the file system write what it knows of the file as well. */
static void most_appends_leave_the_length_of_the_file_alone(void **state)
{
    enum { APPENDS = 200 };
    struct disk_ops counted = disk;
    const uint8_t body[1000] = {7};
    struct journal *journal;
    struct seen seen = {0};
    struct err err;

    (void)state;
    real = disk;
    counted.sync = count_sync;
    counted.write_sync = count_write_sync;
    assert_int_equal(journal_open(&counted, folder, see, &seen, &journal, &err), 0);
    syncs = synced_writes = 0;
    for (unsigned i = 0; i < APPENDS; i++)
        assert_int_equal(journal_append(journal, body, sizeof(body), &err), 0);
    assert_uint_equal(syncs + synced_writes, APPENDS);
    assert_in_range(syncs, 1, 4);
    journal_close(journal);
}

/* A crash at any byte of the last append leaves all earlier records and none of it. */
static void torn_tail_is_cut_at_each_byte(void **state)
{
    struct buf content;

    (void)state;
    content_of_records(&content);
    for (size_t cut = end_of(RECORDS - 1); cut < content.length; cut++) {
        struct seen seen = {0};
        struct seen again = {0};
        struct journal *journal;
        struct err err;
        uint8_t more = 99;

        write_journal(content.bytes, cut);
        assert_int_equal(journal_open(&disk, folder, see, &seen, &journal, &err), 0);
        assert_uint_equal(seen.count, RECORDS - 1);
        assert_uint_equal(journal_bytes(journal), end_of(RECORDS - 1));
        assert_int_equal(journal_append(journal, &more, 1, &err), 0);
        journal_close(journal);
        assert_int_equal(journal_open(&disk, folder, see, &again, &journal, &err), 0);
        assert_uint_equal(again.count, RECORDS);
        assert_int_equal(again.first_bytes[RECORDS - 1], 99);
        journal_close(journal);
    }
    buf_close(&content);
}

/* A file whose size reached the disk before its bytes ends in zeros. */
static void tail_of_zeros_is_cut(void **state)
{
    struct buf content;
    struct seen seen = {0};
    size_t valid;
    struct err err;

    (void)state;
    content_of_records(&content);
    memset(content.bytes + end_of(RECORDS - 1), 0, content.length - end_of(RECORDS - 1));
    assert_int_equal(journal_scan(content.bytes, content.length, see, &seen, &valid, &err), 0);
    assert_uint_equal(valid, end_of(RECORDS - 1));
    buf_close(&content);
}

static void damaged_middle_is_an_error_at_each_byte(void **state)
{
    struct buf content;

    (void)state;
    content_of_records(&content);
    for (size_t at = 0; at < end_of(RECORDS - 1); at++) {
        struct seen seen = {0};
        size_t valid = 0;
        struct err err;

        content.bytes[at] ^= 0x40;
        assert_int_equal(journal_scan(content.bytes, content.length, see, &seen, &valid, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        assert_uint_equal(valid, 0);
        content.bytes[at] ^= 0x40;
    }
    buf_close(&content);
}

static void refused_record_refuses_the_file(void **state)
{
    struct buf content;
    size_t valid;
    struct err err;

    (void)state;
    content_of_records(&content);
    assert_int_equal(journal_scan(content.bytes, content.length, refuse, NULL, &valid, &err), -1);
    assert_non_null(strstr(err.text, "record at byte 8"));
    buf_close(&content);
}

static void second_process_is_locked_out(void **state)
{
    struct seen seen = {0};
    struct journal *first;
    struct journal *second;
    struct err err;

    (void)state;
    assert_int_equal(journal_open(&disk, folder, see, &seen, &first, &err), 0);
    assert_int_equal(journal_open(&disk, folder, see, &seen, &second, &err), -1);
    assert_int_equal(err.code, ERR_LOCKED);
    journal_close(first);
    assert_int_equal(journal_open(&disk, folder, see, &seen, &second, &err), 0);
    journal_close(second);
}

static void rewrite_replaces_the_content_and_appends_follow(void **state)
{
    struct seen seen = {0};
    struct journal *journal;
    struct buf content;
    struct err err;
    uint8_t more = 77;

    (void)state;
    assert_int_equal(journal_open(&disk, folder, see, &seen, &journal, &err), 0);
    assert_int_equal(journal_append(journal, &more, 1, &err), 0);
    content_of_records(&content);
    assert_int_equal(journal_rewrite(journal, &content, &err), 0);
    assert_int_equal(journal_append(journal, &more, 1, &err), 0);
    journal_close(journal);
    assert_int_equal(journal_open(&disk, folder, see, &seen, &journal, &err), 0);
    assert_uint_equal(seen.count, RECORDS + 1);
    assert_int_equal(seen.first_bytes[0], 1);
    assert_int_equal(seen.first_bytes[RECORDS], 77);
    journal_close(journal);
    buf_close(&content);
}

/* As after SIGKILL to an agent that was just starting a worker: the child has the lock until its
 * exec. */
static void a_lock_that_only_a_child_still_holds_is_waited_for(void **state)
{
    struct journal *journal;
    struct seen seen = {0};
    struct err err = {0};
    int held[2];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(held), 0);
    assert_int_equal(journal_open(&disk, folder, see, &seen, &journal, &err), 0);
    child = fork();
    if (child == 0) {
        struct timespec moment = {0, 100000000};
        if (write(held[1], "x", 1) == 1)
            nanosleep(&moment, NULL);
        _exit(0);
    }
    assert_int_equal(read(held[0], &(char){0}, 1), 1);
    journal_close(journal);
    if (journal_open(&disk, folder, see, &seen, &journal, &err) != 0)
        fail_msg("%s", err.text);
    journal_close(journal);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(held[0]);
    close(held[1]);
}

/* A process that died before its sync, or of one that failed, leaves what the next one reads and
 * the disk does not have. What is appended then is there after a power cut, and what lies before
 * it. */
static void what_was_read_is_on_the_disk_before_more_is_appended(void **state)
{
    (void)state;
    for (unsigned run = 0; run < 200; run++) {
        const uint8_t more[100] = {77};
        struct sim *sim = sim_new(test_seed() + run);
        struct disk_ops memory;
        struct journal *journal;
        struct seen seen = {0};
        struct buf content;
        struct err err = {0};
        size_t before;

        sim_node_disk(sim, 0, &memory);
        assert_int_equal(journal_open(&memory, "/j", see, &seen, &journal, &err), 0);
        assert_int_equal(journal_append(journal, more, sizeof(more), &err), 0);
        content_of_records(&content);
        if (run % 2 == 0)
            sim_disk_die_after(sim, 0, 1 + run / 2 % 6);
        else
            sim_disk_fail_sync_after(sim, 0, 1 + run / 2 % 3);
        if (journal_append(journal, more, sizeof(more), &err) == 0 &&
            journal_rewrite(journal, &content, &err) == 0)
            (void)journal_append(journal, more, sizeof(more), &err);
        journal_close(journal);
        sim_disk_cache_stays(sim, 0);
        sim_crash(sim, 0);
        memset(&seen, 0, sizeof(seen));
        assert_int_equal(journal_open(&memory, "/j", see, &seen, &journal, &err), 0);
        before = seen.count;
        assert_int_equal(journal_append(journal, more, sizeof(more), &err), 0);
        journal_close(journal);
        sim_crash(sim, 0);
        memset(&seen, 0, sizeof(seen));
        if (journal_open(&memory, "/j", see, &seen, &journal, &err) != 0)
            fail_msg("run %u: %s", run, err.text);
        assert_uint_equal(seen.count, before + 1);
        journal_close(journal);
        buf_close(&content);
        sim_free(sim);
    }
}

/* Its operator hears which disk to free. */
static void a_full_disk_is_told_with_the_file(void **state)
{
    const uint8_t more[100] = {77};
    struct sim *sim = sim_new(1);
    struct disk_ops memory;
    struct journal *journal;
    struct seen seen = {0};
    struct buf content;
    struct err err = {0};

    (void)state;
    sim_node_disk(sim, 0, &memory);
    assert_int_equal(journal_open(&memory, "/j", see, &seen, &journal, &err), 0);
    content_of_records(&content);
    sim_disk_fill(sim, 0, 0, false, true);
    assert_int_equal(journal_append(journal, more, sizeof(more), &err), -1);
    assert_int_equal(err.code, ERR_FULL);
    assert_contains(err.text, "/j/journal: ");
    assert_int_equal(journal_rewrite(journal, &content, &err), -1);
    assert_contains(err.text, "/j/journal.new");
    journal_close(journal);
    buf_close(&content);
    sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_told_with_the_file),
        cmocka_unit_test_setup_teardown(records_come_back_in_order, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(most_appends_leave_the_length_of_the_file_alone,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(torn_tail_is_cut_at_each_byte, make_folder, remove_folder),
        cmocka_unit_test(tail_of_zeros_is_cut),
        cmocka_unit_test(damaged_middle_is_an_error_at_each_byte),
        cmocka_unit_test(refused_record_refuses_the_file),
        cmocka_unit_test(what_was_read_is_on_the_disk_before_more_is_appended),
        cmocka_unit_test_setup_teardown(second_process_is_locked_out, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_lock_that_only_a_child_still_holds_is_waited_for,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(rewrite_replaces_the_content_and_appends_follow,
                                        make_folder, remove_folder),
    };

    disk_uv_ops(NULL, &disk); /* nothing here needs its loop */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
