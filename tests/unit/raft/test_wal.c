/* The log on a simulated disk: what recovery keeps, cuts and refuses. */
#include "tests/support/test.h"

#include "raft/log/folder.h"
#include "raft/log/wal.h"
#include "src/base/crc32c.h"
#include "tests/sim/sim.h"

struct fixture {
    struct sim *sim;
    struct disk_ops disk;
    struct folder folder;
    struct wal wal;
    struct err failure;
    int done_count;
};

static void failed(void *context, const struct err *err)
{
    ((struct fixture *)context)->failure = *err;
}

static void count_done(void *data)
{
    ((struct fixture *)data)->done_count++;
}

static void fixture_open(struct fixture *f)
{
    struct err err;

    memset(f, 0, sizeof(*f));
    f->sim = sim_new(test_seed());
    sim_node_disk(f->sim, 0, &f->disk);
    assert_int_equal(
        folder_open(&f->folder, &f->disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
    assert_int_equal(wal_open(&f->wal, &f->folder, NULL, failed, f, &err), 0);
    assert_int_equal(wal_reset_now(&f->wal, 1, &err), 0);
}

static int fixture_reopen(struct fixture *f, struct err *err)
{
    wal_close(&f->wal);
    return wal_open(&f->wal, &f->folder, NULL, failed, f, err);
}

static void fixture_close(struct fixture *f)
{
    wal_close(&f->wal);
    folder_close(&f->folder);
    sim_free(f->sim);
}

static void drain(struct fixture *f)
{
    while (wal_busy(&f->wal) && sim_step(f->sim))
        ;
}

static struct raft_entry entry_of(uint64_t term, const char *text)
{
    return (struct raft_entry){
        .term = term, .type = RAFT_COMMAND, .buf = {(void *)(uintptr_t)text, strlen(text)}};
}

/* One batch per call. */
static void append_text(struct fixture *f, uint64_t index, uint64_t term, const char *text)
{
    struct raft_entry entry = entry_of(term, text);

    wal_append(&f->wal, index, &entry, 1, count_done, f);
    drain(f);
}

struct seen {
    uint64_t first, last, terms[64];
    char texts[64][32];
};

static int see(void *data, const struct wal_record *record, struct err *err)
{
    struct seen *seen = data;

    (void)err;
    if (seen->first == 0)
        seen->first = record->index;
    else
        assert_uint_equal(record->index, seen->last + 1);
    seen->last = record->index;
    if (record->index < 64) {
        seen->terms[record->index] = record->term;
        snprintf(seen->texts[record->index], 32, "%.*s", (int)record->length,
                 (const char *)record->payload);
    }
    return 0;
}

static struct seen walk(struct fixture *f)
{
    struct seen seen = {0};
    struct err err;

    assert_int_equal(wal_walk(&f->wal, see, &seen, &err), 0);
    return seen;
}

static void what_was_appended_is_there_after_reopening(void **state)
{
    struct fixture f;
    struct seen seen;
    struct err err;

    (void)state;
    fixture_open(&f);
    append_text(&f, 1, 1, "one");
    append_text(&f, 2, 1, "");
    append_text(&f, 3, 2, "three");
    assert_int_equal(fixture_reopen(&f, &err), 0);
    seen = walk(&f);
    assert_uint_equal(seen.last, 3);
    assert_string_equal(seen.texts[1], "one");
    assert_string_equal(seen.texts[2], "");
    assert_string_equal(seen.texts[3], "three");
    assert_uint_equal(seen.terms[3], 2);
    fixture_close(&f);
}

static size_t used_bytes(struct fixture *f)
{
    return f->wal.segments[f->wal.segment_count - 1].used_bytes;
}

/* As if the last batch had not been synced yet. */
static void forget_synced(struct fixture *f)
{
    size_t length;
    uint8_t *bytes = sim_file(f->sim, 0, "synced", &length);

    memset(bytes, 0, length);
}

static const char first_name[] = "wal-0000000000000001";

/* The last record torn at every byte is cut, and the next append takes its place. */
static void a_torn_tail_is_cut_at_every_byte(void **state)
{
    struct fixture f;
    struct err err;
    uint8_t keep[256];
    size_t begin, end, length;
    uint8_t *file;

    (void)state;
    fixture_open(&f);
    append_text(&f, 1, 1, "one");
    append_text(&f, 2, 1, "two");
    begin = used_bytes(&f);
    append_text(&f, 3, 1, "the last record");
    end = used_bytes(&f);
    file = sim_file(f.sim, 0, first_name, &length);
    assert_true(end - begin <= sizeof(keep));
    memcpy(keep, file + begin, end - begin);
    forget_synced(&f);
    for (size_t cut = begin; cut < end; cut++) {
        memcpy(file + begin, keep, end - begin);
        if (keep[cut - begin] == 0 && cut + 1 == end)
            break; /* padding: nothing is missing */
        memset(file + cut, 0, end - cut);
        assert_int_equal(fixture_reopen(&f, &err), 0);
        file = sim_file(f.sim, 0, first_name, &length);
        if (f.wal.last_index == 3)
            assert_memory_equal(file + begin, keep, end - begin);
        else
            assert_uint_equal(f.wal.last_index, 2);
        assert_uint_equal(length, WAL_SEGMENT_BYTES);
    }
    memset(file + begin, 0xee, end - begin);
    assert_int_equal(fixture_reopen(&f, &err), 0);
    assert_uint_equal(f.wal.last_index, 2);
    append_text(&f, 3, 2, "again");
    assert_int_equal(fixture_reopen(&f, &err), 0);
    assert_string_equal(walk(&f).texts[3], "again");
    fixture_close(&f);
}

/* Any flipped byte of a record that others follow is refused: it had been acknowledged. */
static void damage_before_a_later_batch_is_refused_with_path_and_offset(void **state)
{
    struct fixture f;
    struct err err;
    size_t begin, end, length;

    (void)state;
    fixture_open(&f);
    append_text(&f, 1, 1, "one");
    begin = used_bytes(&f);
    append_text(&f, 2, 1, "payload!");
    end = used_bytes(&f);
    append_text(&f, 3, 1, "three");
    for (size_t at = begin; at < end; at++) {
        uint8_t *file = sim_file(f.sim, 0, first_name, &length);
        file[at] ^= 0x20;
        assert_int_equal(fixture_reopen(&f, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        assert_non_null(strstr(err.text, "/wal/wal-0000000000000001 offset"));
        assert_non_null(strstr(err.text, "new id"));
        sim_file(f.sim, 0, first_name, &length)[at] ^= 0x20;
        assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), 0);
    }
    assert_uint_equal(walk(&f).last, 3);
    fixture_close(&f);
}

/* Within one batch nothing was acknowledged before all of it was synced. */
static void a_hole_in_the_last_batch_is_torn_not_damaged(void **state)
{
    struct raft_entry entries[3] = {entry_of(1, "a"), entry_of(1, "b"), entry_of(1, "c")};
    struct fixture f;
    struct err err;
    size_t begin, length;

    (void)state;
    fixture_open(&f);
    append_text(&f, 1, 1, "one");
    begin = used_bytes(&f);
    wal_append(&f.wal, 2, entries, 3, count_done, &f);
    drain(&f);
    forget_synced(&f);
    memset(sim_file(f.sim, 0, first_name, &length) + begin, 0, 40);
    assert_int_equal(fixture_reopen(&f, &err), 0);
    assert_uint_equal(f.wal.last_index, 1);
    fixture_close(&f);
}

static void truncated_records_never_come_back(void **state)
{
    struct fixture f;
    struct seen seen;
    struct err err;

    (void)state;
    fixture_open(&f);
    for (uint64_t i = 1; i <= 10; i++)
        append_text(&f, i, 1, "old");
    wal_truncate(&f.wal, 6);
    append_text(&f, 6, 2, "new");
    assert_int_equal(fixture_reopen(&f, &err), 0);
    seen = walk(&f);
    assert_uint_equal(seen.last, 6);
    assert_string_equal(seen.texts[6], "new");
    assert_string_equal(seen.texts[5], "old");
    fixture_close(&f);
}

static void fill_segments(struct fixture *f, uint64_t first, uint64_t count)
{
    static char big[1 << 20];

    memset(big, 'x', sizeof(big) - 1);
    for (uint64_t i = 0; i < count; i++)
        append_text(f, first + i, 1, big);
}

static void segments_roll_and_old_ones_are_dropped(void **state)
{
    struct fixture f;
    struct err err;

    (void)state;
    fixture_open(&f);
    fill_segments(&f, 1, 40);
    assert_true(f.wal.segment_count >= 5);
    assert_int_equal(fixture_reopen(&f, &err), 0);
    assert_uint_equal(f.wal.last_index, 40);
    wal_drop_before(&f.wal, 30);
    drain(&f);
    assert_in_range(f.wal.first_index, 2, 30);
    assert_int_equal(fixture_reopen(&f, &err), 0);
    assert_uint_equal(f.wal.last_index, 40);
    wal_truncate(&f.wal, 25);
    drain(&f);
    assert_uint_equal(f.wal.last_index, 24);
    f.done_count = 0;
    wal_reset(&f.wal, 100, count_done, &f);
    append_text(&f, 100, 7, "after");
    assert_int_equal(f.done_count, 2);
    assert_int_equal(fixture_reopen(&f, &err), 0);
    assert_uint_equal(f.wal.first_index, 100);
    assert_uint_equal(f.wal.last_index, 100);
    fixture_close(&f);
}

static void a_missing_segment_is_refused(void **state)
{
    struct fixture f;
    struct err err;

    (void)state;
    fixture_open(&f);
    fill_segments(&f, 1, 24);
    assert_true(f.wal.segment_count >= 3);
    wal_close(&f.wal);
    assert_int_equal(f.disk.unlink(f.disk.context, sim_file_name(f.sim, 0, "wal-", 1), &err), 0);
    assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "missing"));
    folder_close(&f.folder);
    sim_free(f.sim);
}

/* I11: what was taken away must not look like what was never written. */
static void a_log_that_was_cut_or_taken_away_is_refused(void **state)
{
    struct fixture f;
    struct disk_file *file;
    struct err err;
    const char *path;

    (void)state;
    fixture_open(&f);
    for (uint64_t i = 1; i <= 10; i++)
        append_text(&f, i, 1, "acknowledged");
    assert_int_equal(folder_claim(&f.folder, &err), 0);
    wal_close(&f.wal);
    path = sim_file_name(f.sim, 0, "wal-", 0);
    assert_int_equal(f.disk.open(f.disk.context, path, DISK_OPEN_WRITE, &file, &err), 0);
    assert_int_equal(f.disk.truncate(file, 200, &err), 0);
    f.disk.close(file);
    assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "it was cut"));
    assert_int_equal(f.disk.unlink(f.disk.context, path, &err), 0);
    assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "no log segment"));
    folder_close(&f.folder);
    sim_free(f.sim);
}

/* I11: without a word in the log itself, an end that was zeroed at any record looks like one that
 * was never written. */
static void an_end_that_was_zeroed_is_refused_with_path_and_offset(void **state)
{
    struct fixture f;
    struct err err;
    size_t begin[11], length;

    (void)state;
    fixture_open(&f);
    for (uint64_t i = 1; i <= 10; i++) {
        begin[i] = used_bytes(&f);
        append_text(&f, i, 1, "acknowledged");
    }
    for (size_t i = 10; i >= 1; i--) {
        uint8_t *file = sim_file(f.sim, 0, first_name, &length);
        char offset[64];
        memset(file + begin[i], 0, length - begin[i]);
        assert_int_equal(fixture_reopen(&f, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        snprintf(offset, sizeof(offset), "/wal/%s offset %zu: the log ends with record %zu",
                 first_name, begin[i], i - 1);
        assert_non_null(strstr(err.text, offset));
        assert_non_null(strstr(err.text, "new id"));
    }
    folder_close(&f.folder);
    sim_free(f.sim);
}

static void a_last_segment_that_was_removed_is_refused(void **state)
{
    struct fixture f;
    struct err err;

    (void)state;
    fixture_open(&f);
    fill_segments(&f, 1, 24);
    assert_true(f.wal.segment_count >= 3);
    wal_close(&f.wal);
    assert_int_equal(
        f.disk.unlink(f.disk.context,
                      sim_file_name(f.sim, 0, "wal-", (unsigned)f.wal.segment_count - 1), &err),
        0);
    assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "but up to 24 it had been synced"));
    folder_close(&f.folder);
    sim_free(f.sim);
}

/* The bound follows the log down before it is cut, and both of its copies do: neither can accuse it
 * later. */
static void a_log_that_was_cut_on_purpose_opens_from_either_copy_of_the_bound(void **state)
{
    (void)state;
    for (int copy = 0; copy < 3; copy++) {
        struct fixture f;
        struct err err;
        size_t length;
        fixture_open(&f);
        for (uint64_t i = 1; i <= 10; i++)
            append_text(&f, i, 1, "old");
        wal_truncate(&f.wal, 4);
        drain(&f);
        if (copy < 2)
            sim_file(f.sim, 0, "synced", &length)[copy * 4096] ^= 1;
        else
            assert_int_equal(f.disk.unlink(f.disk.context, "/wal/synced", &err), 0);
        assert_int_equal(fixture_reopen(&f, &err), 0);
        assert_uint_equal(f.wal.last_index, 3);
        append_text(&f, 4, 2, "new");
        wal_reset(&f.wal, 100, count_done, &f);
        drain(&f);
        assert_int_equal(fixture_reopen(&f, &err), 0);
        assert_uint_equal(f.wal.last_index, 99);
        fixture_close(&f);
    }
}

static void a_full_disk_spends_the_reserve_before_it_fails(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f);
    folder_set_reserve(&f.folder, 1 << 20);
    assert_true(f.folder.accepts_writes);
    fill_segments(&f, 1, 3); /* no spare yet */
    sim_disk_set_free(f.sim, 0, 0);
    folder_check_space(&f.folder);
    assert_false(f.folder.accepts_writes);
    fill_segments(&f, 4, 8);
    /* The simulated disk frees nothing when a file goes, so the second try fails too. */
    assert_int_equal(f.failure.code, ERR_FULL);
    assert_false(atomic_load(&f.folder.reserve_present));
    fixture_close(&f);
}

static void a_failed_write_is_told_once_and_nothing_is_acknowledged_afterwards(void **state)
{
    struct raft_entry entry = entry_of(1, "lost");
    struct fixture f;

    (void)state;
    fixture_open(&f);
    append_text(&f, 1, 1, "one");
    f.done_count = 0;
    f.wal.clock = NULL;
    sim_disk_die_after(f.sim, 0, 1);
    wal_append(&f.wal, 2, &entry, 1, count_done, &f);
    wal_append(&f.wal, 3, &entry, 1, count_done, &f);
    for (int i = 0; i < 100 && sim_step(f.sim); i++)
        ;
    assert_int_equal(f.failure.code, ERR_IO);
    assert_int_equal(f.done_count, 0);
    fixture_close(&f);
}

/* Whatever survives a power cut, what done() was called for is there, in order (I6 on one disk). */
static void acknowledged_records_survive_random_power_cuts(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int run = 0; run < 200; run++) {
        struct fixture f;
        struct err err;
        uint64_t next = 1, acknowledged;
        struct raft_entry entries[4] = {entry_of(1, "some text"), entry_of(1, "more"),
                                        entry_of(1, ""), entry_of(1, "x")};

        memset(&f, 0, sizeof(f));
        f.sim = sim_new(seed + (uint64_t)run);
        sim_node_disk(f.sim, 0, &f.disk);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), 0);
        assert_int_equal(wal_reset_now(&f.wal, 1, &err), 0);
        sim_disk_die_after(f.sim, 0, 1 + sim_random(f.sim, 40));
        while (!sim_disk_dead(f.sim, 0) && next < 500) {
            unsigned count = 1 + (unsigned)sim_random(f.sim, 4);
            wal_append(&f.wal, next, entries, count, NULL, NULL);
            next += count;
            for (uint64_t n = sim_random(f.sim, 3); n > 0; n--)
                sim_step(f.sim);
        }
        acknowledged = f.wal.last_index;
        wal_close(&f.wal);
        folder_close(&f.folder);
        sim_crash(f.sim, 0);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        if (wal_open(&f.wal, &f.folder, NULL, failed, &f, &err) != 0)
            fail_msg("run %d: %s", run, err.text);
        assert_in_range(f.wal.last_index, acknowledged, next - 1);
        fixture_close(&f);
    }
}

static void crc32c_matches_the_published_vectors(void **state)
{
    uint8_t zeros[32] = {0}, digits[9];

    (void)state;
    memcpy(digits, "123456789", 9);
    assert_uint_equal(crc32c(0, zeros, 32), 0x8a9136aa); /* RFC 3720 B.4 */
    assert_uint_equal(crc32c(0, digits, 9), 0xe3069283);
    assert_uint_equal(crc32c(crc32c(0, digits, 4), digits + 4, 5), 0xe3069283);
    for (size_t length = 0; length <= sizeof(digits) - 1; length++)
        assert_uint_equal(crc32c(7, digits, length), crc32c_by_slicing(7, digits, length));
    for (size_t length = 0; length <= 32; length++)
        assert_uint_equal(crc32c(0, zeros, length), crc32c_by_slicing(0, zeros, length));
}

/* I11: the bound is no reason to refuse a log that was cut or replaced on purpose, whenever the
 * power goes. */
static void a_power_cut_while_the_log_is_cut_never_looks_like_a_loss(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int run = 0; run < 300; run++) {
        struct raft_entry entries[2] = {entry_of(1, "some text"), entry_of(1, "more")};
        struct fixture f = {0};
        struct err err;
        uint64_t next = 1;

        f.sim = sim_new(seed + (uint64_t)run);
        sim_node_disk(f.sim, 0, &f.disk);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), 0);
        assert_int_equal(wal_reset_now(&f.wal, 1, &err), 0);
        sim_disk_die_after(f.sim, 0, 1 + sim_random(f.sim, 80));
        while (!sim_disk_dead(f.sim, 0) && next < 500) {
            uint64_t kind = sim_random(f.sim, 8);
            if (kind == 0 && next > 4) {
                next -= 1 + sim_random(f.sim, 3);
                wal_truncate(&f.wal, next);
            } else if (kind == 1) {
                next += sim_random(f.sim, 3);
                wal_reset(&f.wal, next, NULL, NULL);
            } else {
                wal_append(&f.wal, next, entries, 2, NULL, NULL);
                next += 2;
            }
            for (uint64_t n = sim_random(f.sim, 3); n > 0; n--)
                sim_step(f.sim);
        }
        wal_close(&f.wal);
        folder_close(&f.folder);
        sim_crash(f.sim, 0);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        /* a gap that a reset left needs its snapshot, which this test does not have */
        if (wal_open(&f.wal, &f.folder, NULL, failed, &f, &err) != 0) {
            if (strstr(err.text, "had been synced") != NULL)
                fail_msg("run %d: %s", run, err.text);
            folder_close(&f.folder);
            sim_free(f.sim);
            continue;
        }
        fixture_close(&f);
    }
}

/* The process ends, by a kill or of a failed sync, while the log is cut, and the system goes on:
 * the next process sees what it had written, and some of it is not on the platter. What is
 * acknowledged then survives the power cut that follows (I6 on one disk). */
static void what_a_process_left_in_the_cache_is_stored_before_it_is_built_upon(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (unsigned run = 0; run < 400; run++) {
        struct fixture f;
        struct err err;
        uint64_t last, operations = 1 + run / 2 % 12;

        memset(&f, 0, sizeof(f));
        f.sim = sim_new(seed + run);
        sim_node_disk(f.sim, 0, &f.disk);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), 0);
        assert_int_equal(wal_reset_now(&f.wal, 1, &err), 0);
        for (uint64_t i = 1; i <= 10; i++)
            append_text(&f, i, 1, "old");
        assert_int_equal(f.disk.sync(f.wal.mark.file, &err), 0); /* the system does, in time */
        if (run % 2 == 0)
            sim_disk_die_after(f.sim, 0, operations);
        else
            sim_disk_fail_sync_after(f.sim, 0, operations);
        wal_truncate(&f.wal, 4);
        while (wal_busy(&f.wal) && f.failure.code == ERR_NONE && sim_step(f.sim))
            ;
        wal_close(&f.wal);
        folder_close(&f.folder);
        sim_disk_cache_stays(f.sim, 0);
        sim_crash(f.sim, 0);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        if (wal_open(&f.wal, &f.folder, NULL, failed, &f, &err) != 0)
            fail_msg("run %u: %s", run, err.text);
        memset(&f.failure, 0, sizeof(f.failure));
        wal_truncate(&f.wal, 4);
        append_text(&f, 4, 2, "new");
        last = f.wal.last_index;
        assert_uint_equal(last, 4);
        wal_close(&f.wal);
        folder_close(&f.folder);
        sim_crash(f.sim, 0);
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        if (wal_open(&f.wal, &f.folder, NULL, failed, &f, &err) != 0)
            fail_msg("run %u, after the power cut: %s", run, err.text);
        assert_uint_equal(f.wal.last_index, last);
        assert_string_equal(walk(&f).texts[4], "new");
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_matches_the_published_vectors),
        cmocka_unit_test(what_was_appended_is_there_after_reopening),
        cmocka_unit_test(a_torn_tail_is_cut_at_every_byte),
        cmocka_unit_test(damage_before_a_later_batch_is_refused_with_path_and_offset),
        cmocka_unit_test(a_hole_in_the_last_batch_is_torn_not_damaged),
        cmocka_unit_test(truncated_records_never_come_back),
        cmocka_unit_test(segments_roll_and_old_ones_are_dropped),
        cmocka_unit_test(a_missing_segment_is_refused),
        cmocka_unit_test(a_log_that_was_cut_or_taken_away_is_refused),
        cmocka_unit_test(an_end_that_was_zeroed_is_refused_with_path_and_offset),
        cmocka_unit_test(a_last_segment_that_was_removed_is_refused),
        cmocka_unit_test(a_log_that_was_cut_on_purpose_opens_from_either_copy_of_the_bound),
        cmocka_unit_test(a_full_disk_spends_the_reserve_before_it_fails),
        cmocka_unit_test(a_failed_write_is_told_once_and_nothing_is_acknowledged_afterwards),
        cmocka_unit_test(acknowledged_records_survive_random_power_cuts),
        cmocka_unit_test(a_power_cut_while_the_log_is_cut_never_looks_like_a_loss),
        cmocka_unit_test(what_a_process_left_in_the_cache_is_stored_before_it_is_built_upon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
