/* What a write, a sync or an allocation that fails is told with: the system says neither file nor
 * place, the operator needs both (S4). */
#include "tests/support/test.h"

#include "raft/log/folder.h"
#include "raft/log/vote.h"
#include "raft/log/wal.h"
#include "tests/sim/sim.h"

static const char *const files[] = {"/wal/vote", "/wal/synced", "/wal/identity", "/wal/wal-",
                                    "/wal/tmp-wal-next"};

struct fixture {
    struct sim *sim;
    struct disk_ops disk;
    struct folder folder;
    struct wal wal;
    struct vote_store vote;
    struct err failure;
};

static struct disk_ops real;
static unsigned calls_left; /* the one that makes it 0 fails */
static bool no_room;        /* allocations only, that one and all after it */

static bool fails(const char *what, struct err *err)
{
    if ((no_room && strcmp(what, "allocate") != 0) || calls_left == 0 || --calls_left > 0)
        return false;
    calls_left += no_room;
    err_set(err, ERR_DISK, "%s file: Input/output error", what);
    return true;
}

static int failing_write(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                         struct err *err)
{
    return fails("write", err) ? -1 : real.write(file, offset, bytes, length, err);
}

static int failing_write_sync(struct disk_file *file, uint64_t offset, const void *bytes,
                              size_t length, struct err *err)
{
    return fails("write and sync", err) ? -1 : real.write_sync(file, offset, bytes, length, err);
}

static int failing_sync(struct disk_file *file, struct err *err)
{
    return fails("sync", err) ? -1 : real.sync(file, err);
}

static int failing_allocate(struct disk_file *file, uint64_t bytes, struct err *err)
{
    return fails("allocate", err) ? -1 : real.allocate(file, bytes, err);
}

static void failed(void *context, const struct err *err)
{
    ((struct fixture *)context)->failure = *err;
}

static void done(void *context)
{
    (void)context;
}

static void drain(struct fixture *f)
{
    while (wal_busy(&f->wal) && f->failure.code == ERR_NONE && sim_step(f->sim))
        ;
}

/* Votes, a log of some segments, which is cut, and a new identity; false: something failed, see
 * f->failure. */
static bool live(struct fixture *f)
{
    char text[60000] = "";
    struct raft_entry entry = {
        .term = 1, .type = RAFT_COMMAND, .buf = {.base = text, .len = sizeof(text)}};
    struct err err;

    if (vote_save(&f->vote, 7, 2, &err) != 0 || folder_claim(&f->folder, &err) != 0) {
        f->failure = err;
        return false;
    }
    for (uint64_t i = 1; i <= 60 && f->failure.code == ERR_NONE; i++) {
        wal_append(&f->wal, i, &entry, 1, done, NULL);
        drain(f);
    }
    if (f->failure.code == ERR_NONE)
        wal_truncate(&f->wal, 10);
    drain(f);
    if (f->failure.code != ERR_NONE)
        return false;
    wal_close(&f->wal);
    vote_close(&f->vote);
    if (wal_open(&f->wal, &f->folder, NULL, failed, f, &err) != 0 ||
        vote_open(&f->vote, &f->folder, false, &err) != 0) {
        f->failure = err;
        return false;
    }
    return true;
}

/* File and offset; returns which of the files it was. */
static size_t place_of(const struct err *err)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (strstr(err->text, files[i]) != NULL ||
            (strcmp(files[i], "/wal/identity") == 0 && strstr(err->text, "/wal/tmp-identity"))) {
            const char *offset = strstr(err->text, "offset ");
            if (offset == NULL || offset[7] < '0' || offset[7] > '9')
                break;
            return i;
        }
    fail_msg("neither file nor offset: %s", err->text);
    return 0;
}

static void all_calls_fail_in_turn(unsigned *told)
{
    bool whole = false;

    for (unsigned calls = 1; !whole; calls++) {
        struct fixture f = {0};
        struct err err;

        assert_true(calls < 1000);
        f.sim = sim_new(calls);
        sim_node_disk(f.sim, 0, &f.disk);
        real = f.disk;
        f.disk.write = failing_write;
        f.disk.write_sync = failing_write_sync;
        f.disk.sync = failing_sync;
        f.disk.allocate = failing_allocate;
        calls_left = 0;
        assert_int_equal(
            folder_open(&f.folder, &f.disk, "/wal", &(struct folder_owner){"c", 1}, true, &err), 0);
        f.folder.segment_bytes = 1 << 20;
        assert_int_equal(vote_open(&f.vote, &f.folder, true, &err), 0);
        assert_int_equal(wal_open(&f.wal, &f.folder, NULL, failed, &f, &err), 0);
        assert_int_equal(wal_reset_now(&f.wal, 1, &err), 0);
        calls_left = calls;
        if (!live(&f))
            told[place_of(&f.failure)]++;
        whole = f.failure.code == ERR_NONE && calls_left > 1;
        calls_left = 0;
        wal_close(&f.wal);
        vote_close(&f.vote);
        folder_close(&f.folder);
        sim_free(f.sim);
    }
}

static void what_cannot_be_written_or_synced_is_told_with_path_and_offset(void **state)
{
    unsigned told[sizeof(files) / sizeof(files[0])] = {0};

    (void)state;
    for (int round = 0; round < 2; round++) {
        no_room = round == 1; /* else the spare segment fails alone, and is made anew */
        all_calls_fail_in_turn(told);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (told[i] == 0)
            fail_msg("no failure of %s was seen", files[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_written_or_synced_is_told_with_path_and_offset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
