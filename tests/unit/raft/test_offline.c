/* Work on folders of members that do not run: what is restored or recovered is whole or refused,
 * wherever the power goes. */
#include "tests/support/test.h"

#include "raft/log/founding.h"
#include "raft/log/offline.h"
#include "raft/log/vote.h"
#include "raft/log/wal.h"
#include "tests/sim/sim.h"

enum { MEMBERS = 3, ENTRIES = 20, FIRST_TERM = 4 };

struct world {
    struct sim *sim;
    struct disk_ops disk;
    struct random_ops random;
    struct consensus_member members[MEMBERS];
    struct consensus_config config;
    uint64_t applied, snapshot; /* of the last look */
};

static void world_open(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->sim = sim_new(seed);
    sim_node_disk(w->sim, 0, &w->disk);
    sim_node_random(w->sim, 0, &w->random);
    for (int i = 0; i < MEMBERS; i++) {
        w->members[i].id = (uint64_t)i + 1;
        snprintf(w->members[i].name, sizeof(w->members[i].name), "n%d", i + 1);
        snprintf(w->members[i].address, sizeof(w->members[i].address), "h%d:1", i + 1);
    }
    w->config = (struct consensus_config){.member_id = 2,
                                          .cluster_id = "c",
                                          .data_dir = "/d",
                                          .members = w->members,
                                          .member_count = MEMBERS,
                                          .random = &w->random,
                                          .disk = &w->disk};
}

static void failed(void *context, const struct err *err)
{
    (void)context;
    fail_msg("%s", err->text);
}

/* The folder of a member of three, as a bootstrap and some entries leave it. */
static void make_member(struct world *w)
{
    struct raft_configuration configuration;
    struct raft_entry entry = {.term = 1, .type = RAFT_CHANGE};
    struct vote_store vote;
    struct folder folder;
    struct wal wal;
    struct err err;

    assert_int_equal(
        folder_open(&folder, &w->disk, "/d", &(struct folder_owner){"c", 2}, true, &err), 0);
    assert_int_equal(vote_open(&vote, &folder, true, &err), 0);
    assert_int_equal(vote_save(&vote, FIRST_TERM, 3, &err), 0);
    assert_int_equal(wal_open(&wal, &folder, NULL, failed, NULL, &err), 0);
    assert_int_equal(wal_reset_now(&wal, 1, &err), 0);
    raft_configuration_init(&configuration);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(raft_configuration_add(&configuration, w->members[i].id,
                                                w->members[i].name, RAFT_VOTER),
                         0);
    assert_int_equal(raft_configuration_encode(&configuration, &entry.buf), 0);
    raft_configuration_close(&configuration);
    assert_int_equal(wal_append_now(&wal, 1, &entry, &err), 0);
    raft_free(entry.buf.base);
    for (uint64_t i = 2; i <= ENTRIES; i++) {
        char text[16];
        entry = (struct raft_entry){.term = i < 10 ? 1 : FIRST_TERM, .type = RAFT_COMMAND};
        entry.buf.len = (size_t)snprintf(text, sizeof(text), "%d", (int)i);
        entry.buf.base = text;
        assert_int_equal(wal_append_now(&wal, i, &entry, &err), 0);
    }
    folder.incarnation = 77;
    assert_int_equal(folder_claim(&folder, &err), 0);
    wal_close(&wal);
    vote_close(&vote);
    folder_close(&folder);
}

static int take_snapshot(void *context, const struct consensus_reader *reader, struct err *err)
{
    struct world *w = context;

    return reader->read(reader->context, &w->snapshot, sizeof(w->snapshot), err);
}

static void take_entry(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                       size_t length)
{
    struct world *w = context;

    (void)term;
    (void)bytes;
    assert_true(length > 0 && index > w->snapshot);
    w->applied++;
}

static int look(struct world *w, struct offline_facts *facts, struct err *err)
{
    const struct offline_hooks hooks = {w, take_snapshot, take_entry, NULL};

    w->applied = w->snapshot = 0;
    return offline_look(&w->config, &hooks, facts, err);
}

static int write_state(void *context, const struct consensus_writer *writer, struct err *err)
{
    uint64_t state = 77;

    (void)context;
    return writer->write(writer->context, &state, sizeof(state), err);
}

static const struct offline_origin recovered = {.incarnation = 99, .epoch_min = 5};
static const struct offline_origin recovered_again = {.incarnation = 101, .epoch_min = 6};
static const struct offline_origin restored = {
    .index = 50, .term = 7, .digest = 88, .epoch_min = 3};

static void a_folder_tells_what_it_holds_and_is_not_changed_by_it(void **state)
{
    struct offline_facts facts, again;
    struct world w;
    struct err err;

    (void)state;
    world_open(&w, test_seed());
    make_member(&w);
    assert_int_equal(look(&w, &facts, &err), 0);
    assert_uint_equal(w.applied, ENTRIES - 1);
    assert_uint_equal(facts.last_index, ENTRIES);
    assert_uint_equal(facts.last_term, FIRST_TERM);
    assert_uint_equal(facts.term, FIRST_TERM);
    assert_uint_equal(facts.voted_for, 3);
    assert_uint_equal(facts.member_count, MEMBERS);
    assert_true(facts.voters[0] && facts.member_ids[2] == 3);
    w.config.member_id = 0; /* whoever's it is */
    assert_int_equal(look(&w, &again, &err), 0);
    assert_memory_equal(&facts, &again, sizeof(facts));
    w.config.member_id = 1;
    assert_int_equal(look(&w, &again, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    sim_free(w.sim);
}

static void a_recovered_folder_is_a_cluster_of_one_voter(void **state)
{
    struct offline_facts facts, after;
    struct world w;
    struct err err;

    (void)state;
    world_open(&w, test_seed());
    make_member(&w);
    assert_int_equal(look(&w, &facts, &err), 0);
    assert_int_equal(offline_recover(&w.config, &facts, &recovered, &err), 0);
    assert_int_equal(look(&w, &after, &err), 0);
    assert_uint_equal(after.incarnation, 99);
    assert_uint_equal(after.epoch_min, 5);
    assert_uint_equal(after.member_count, 1);
    assert_uint_equal(after.member_ids[0], 2);
    assert_uint_equal(after.last_index, ENTRIES + 1);
    assert_uint_equal(after.last_term, FIRST_TERM + 1);
    assert_uint_equal(after.term, FIRST_TERM + 1);
    assert_uint_equal(after.voted_for, 0);
    assert_uint_equal(w.applied, ENTRIES - 1);
    /* the facts are of before: somebody else was faster */
    assert_int_equal(offline_recover(&w.config, &facts, &recovered, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    sim_free(w.sim);
}

/* What a member would say in its hellos that is started on the folder. */
static uint64_t said_incarnation(struct world *w)
{
    struct folder folder;
    struct err err;

    assert_int_equal(
        folder_open(&folder, &w->disk, "/d", &(struct folder_owner){"c", 2}, false, &err), 0);
    folder_close(&folder);
    return folder.incarnation;
}

/* The state that must never be: a cluster of one in the old incarnation, which former members would
 * still listen to. And until the recovery is whole the folder is of the old history: it can be
 * compared. */
static void a_recovery_cut_at_any_disk_operation_leaves_the_old_member_or_none_that_others_hear(
    void **state)
{
    uint64_t seed = test_seed();
    unsigned interrupted = 0;
    bool whole = false;

    (void)state;
    for (unsigned operations = 1; !whole; operations++) {
        struct offline_facts facts, after;
        struct world w;
        struct err err;

        assert_true(operations < 1000);
        world_open(&w, seed + operations);
        make_member(&w);
        assert_int_equal(look(&w, &facts, &err), 0);
        sim_disk_die_after(w.sim, 0, operations);
        whole = offline_recover(&w.config, &facts, &recovered, &err) == 0;
        sim_crash(w.sim, 0);
        assert_int_equal(look(&w, &after, &err), 0);
        assert_uint_equal(w.applied, ENTRIES - 1);
        assert_uint_equal(after.incarnation,
                          after.member_count == MEMBERS ? facts.incarnation : 99);
        assert_true(after.member_count == MEMBERS || said_incarnation(&w) == 99);
        assert_true(after.recovering ==
                    (after.member_count == MEMBERS && said_incarnation(&w) == 99));
        interrupted += after.recovering;
        if (whole)
            assert_uint_equal(after.member_count, 1);
        /* and it can be done again from there */
        if (after.member_count == MEMBERS) {
            assert_int_equal(offline_recover(&w.config, &after, &recovered_again, &err), 0);
            assert_int_equal(look(&w, &after, &err), 0);
            assert_uint_equal(after.member_count, 1);
            assert_uint_equal(after.incarnation, 101);
            assert_uint_equal(said_incarnation(&w), 101);
            assert_false(after.recovering);
        }
        sim_free(w.sim);
    }
    assert_true(interrupted > 3);
}

/* As its founders do when they agree. */
static void claim(struct world *w)
{
    struct folder folder;
    struct err err;

    assert_int_equal(
        folder_open(&folder, &w->disk, "/d", &(struct folder_owner){"c", 2}, false, &err), 0);
    folder.incarnation = 88;
    assert_int_equal(folder_claim(&folder, &err), 0);
    folder_close(&folder);
}

static bool founds(struct world *w)
{
    struct founding_record record;
    struct folder folder;
    struct err err;

    if (folder_open(&folder, &w->disk, "/d", &(struct folder_owner){"c", 2}, false, &err) != 0)
        return false;
    assert_int_equal(founding_read(&folder, &record, &err), 0);
    folder_close(&folder);
    assert_true(record.number == 0 || (record.origin == 88 && record.epoch_min == 3));
    return record.number != 0;
}

static void a_restored_folder_begins_with_the_state(void **state)
{
    struct offline_facts facts;
    struct world w;
    struct err err;

    (void)state;
    world_open(&w, test_seed());
    assert_int_equal(offline_restore(&w.config, &restored, write_state, NULL, &err), 0);
    assert_true(founds(&w));
    assert_int_equal(look(&w, &facts, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    claim(&w);
    assert_int_equal(look(&w, &facts, &err), 0);
    assert_uint_equal(w.snapshot, 77);
    assert_uint_equal(w.applied, 0);
    assert_uint_equal(facts.snapshot_index, 50);
    assert_uint_equal(facts.last_index, 50);
    assert_uint_equal(facts.last_term, 7);
    assert_uint_equal(facts.term, 7);
    assert_uint_equal(facts.member_count, MEMBERS);
    assert_uint_equal(facts.incarnation, 88);
    assert_int_equal(offline_restore(&w.config, &restored, write_state, NULL, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_non_null(strstr(err.text, "is not empty"));
    sim_free(w.sim);
}

static void a_restore_cut_at_any_disk_operation_is_whole_or_holds_no_member(void **state)
{
    uint64_t seed = test_seed();
    bool whole = false;

    (void)state;
    for (unsigned operations = 1; !whole; operations++) {
        struct offline_facts facts;
        struct world w;
        struct err err;

        assert_true(operations < 1000);
        world_open(&w, seed + operations);
        sim_disk_die_after(w.sim, 0, operations);
        whole = offline_restore(&w.config, &restored, write_state, NULL, &err) == 0;
        sim_crash(w.sim, 0);
        if (founds(&w)) {
            claim(&w);
            assert_int_equal(look(&w, &facts, &err), 0);
            assert_uint_equal(w.snapshot, 77);
            assert_uint_equal(facts.member_count, MEMBERS);
        } else {
            assert_false(whole);
            assert_int_equal(look(&w, &facts, &err), -1);
            assert_true(err.code == ERR_REFUSED || err.code == ERR_NOT_FOUND);
        }
        sim_free(w.sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_tells_what_it_holds_and_is_not_changed_by_it),
        cmocka_unit_test(a_recovered_folder_is_a_cluster_of_one_voter),
        cmocka_unit_test(
            a_recovery_cut_at_any_disk_operation_leaves_the_old_member_or_none_that_others_hear),
        cmocka_unit_test(a_restored_folder_begins_with_the_state),
        cmocka_unit_test(a_restore_cut_at_any_disk_operation_is_whole_or_holds_no_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
