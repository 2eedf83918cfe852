/* The node's own copies: which one a restore gets, what becomes of one that it could not use, how
 * many there may be, what the orders want. I48. Removals and workers are the test's own. */
#include "src/agent/job/copies.h"
#include "src/agent/job/memory.h"

#include "src/agent/durable/kept.h"
#include "src/base/text.h"
#include "src/dest/worker.h"
#include "tests/unit/agent/still_agent.h"

#define MANIFEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

enum { ANN = 20001, BOB = 20002, MIB = 1 << 20 };

/* The removal that was asked for last. */
static struct {
    unsigned count;
    char folder[256];
    void (*done)(void *data);
    void *data;
} removal;

static struct cleanup *folders_go(void *context, struct machine_user user,
                                  const struct machine_folders *folders, void (*done)(void *data),
                                  void *data)
{
    (void)context;
    /* a user's folder in the memory lies in root's */
    assert_int_equal(user.uid, strncmp(folders->paths[0], "/memory/", 8) == 0 ? 0 : ANN);
    assert_int_equal(folders->count, 1);
    removal.count++;
    snprintf(removal.folder, sizeof(removal.folder), "%s", folders->paths[0]);
    removal.done = done;
    removal.data = data;
    return (struct cleanup *)&removal;
}

static void nobody_waits(struct cleanup *cleanup)
{
    (void)cleanup;
}

static uint64_t id_of(unsigned number)
{
    return (UINT64_C(1) << 40) | number;
}

/* As after a retain, whose report has the ledger's last number. */
static struct allocation *have(const char *name, unsigned checkpoint, uint32_t part,
                               uint64_t size_bytes)
{
    struct allocation *job = agent_get(&agent, name);
    struct ledger_copy *copy = &job->entry.copies[job->entry.copy_count++];

    assert_true(job->entry.copy_count <= LEDGER_COPIES_MAX);
    *copy = (struct ledger_copy){.checkpoint_id = id_of(checkpoint),
                                 .part = part,
                                 .state = COPY_HERE,
                                 .uid = ANN,
                                 .gid = ANN,
                                 .size_bytes = size_bytes,
                                 .manifest_sha256 = MANIFEST,
                                 .work_dir = "/work/of-ann",
                                 .report_sequence = 1};
    return job;
}

static enum copy_state state_of(const char *name, unsigned checkpoint, uint32_t part)
{
    const struct ledger_copy *copy =
        kept_copy_find(&agent_get(&agent, name)->entry, id_of(checkpoint), part);

    return copy == NULL ? 0 : (enum copy_state)copy->state;
}

static unsigned reports_of(Ckpt__V1__ReportKind kind, char detail[128])
{
    const struct ledger_report *kept = NULL, *next;
    unsigned count = 0;

    while ((next = ledger_report_after(agent.ledger, kept == NULL ? 0 : kept->sequence)) != NULL) {
        Ckpt__V1__AgentReport *report =
            ckpt__v1__agent_report__unpack(NULL, next->length, next->bytes);

        kept = next;
        if (report->kind == kind) {
            snprintf(detail, 128, "%s", report->detail);
            count++;
        }
        ckpt__v1__agent_report__free_unpacked(report, NULL);
    }
    return count;
}

static void a_restore_gets_its_own_shard_and_no_other(void **state)
{
    const char *other = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const struct ledger_entry *entry;
    char path[PATH_MAX];

    (void)state;
    have("job", 7, 0, MIB);
    entry = &agent_find(&agent, "job")->entry;
    assert_non_null(restore_copy_find(entry, id_of(7), 0, MANIFEST, ANN));
    assert_null(restore_copy_find(entry, id_of(8), 0, MANIFEST, ANN));
    assert_null(restore_copy_find(entry, id_of(7), 1, MANIFEST, ANN));
    assert_null(restore_copy_find(entry, id_of(7), 0, other, ANN));
    assert_null(restore_copy_find(entry, id_of(7), 0, MANIFEST, BOB));
    assert_string_equal(copies_folder(&agent_find(&agent, "job")->entry.copies[0], path),
                        "/work/of-ann/copies/1-7");
}

/* That of the part beside it is as good as before. */
static void only_the_part_that_failed_goes(void **state)
{
    char detail[128];

    (void)state;
    have("job", 7, 0, MIB);
    have("job", 7, 1, MIB);
    copies_failed(&agent, "job", id_of(7), 1, false, "Permission denied");
    assert_int_equal(state_of("job", 7, 1), COPY_HERE); /* it may be used another time */
    assert_int_equal(removal.count, 0);
    copies_failed(&agent, "job", id_of(7), 1, true, "grid.bin has other bytes");
    assert_int_equal(state_of("job", 7, 0), COPY_HERE);
    assert_int_equal(state_of("job", 7, 1), COPY_GOING);
    assert_int_equal(reports_of(CKPT__V1__REPORT_KIND__REPORT_KIND_COPY_DROPPED, detail), 1);
    assert_string_equal(detail, "grid.bin has other bytes");
    assert_uint_equal(agent.counters.copies_dropped, 1);
    assert_int_equal(removal.count, 1);
    removal.done(removal.data);
    assert_int_equal(state_of("job", 7, 1), 0);
    assert_int_equal(state_of("job", 7, 0), COPY_HERE);
}

/* Of a set that names it no more it goes in silence, once the set can have known of it. */
static void what_the_orders_do_not_name_goes(void **state)
{
    char detail[128];

    (void)state;
    have("job", 7, 0, MIB);
    still_take_set(1);
    copies_take_orders(&agent);
    assert_int_equal(state_of("job", 7, 0), COPY_GOING);
    assert_int_equal(reports_of(CKPT__V1__REPORT_KIND__REPORT_KIND_COPY_DROPPED, detail), 0);
    copies_take_orders(&agent);
    assert_int_equal(removal.count, 1);
    copies_resume(agent_find(&agent, "job"));
    assert_int_equal(removal.count, 1); /* one after the other */
    removal.done(removal.data);
    assert_int_equal(agent_find(&agent, "job")->entry.copy_count, 0);
}

/* The oldest one first, of whatever job, and never the one that has just come. */
static void the_oldest_makes_room_for_the_newest(void **state)
{
    struct worker_result result = {.exit_code = WORKER_EXIT_OK, .output = ""};
    struct allocation *job;

    (void)state;
    agent.copies_max_bytes = 3 * MIB;
    have("old", 3, 0, MIB);
    have("older", 2, 0, MIB);
    job = have("job", 9, 0, 2 * MIB);
    job->entry.copies[0].state = COPY_MAKING;
    job->attempt.state = ATTEMPT_REMOVING;
    job->entry.phase = PHASE_ENDED;
    copies_made(job, &result);
    assert_int_equal(state_of("job", 9, 0), COPY_HERE);
    assert_int_equal(state_of("older", 2, 0), COPY_GOING);
    assert_int_equal(state_of("old", 3, 0), COPY_HERE);
    assert_uint_equal(agent.counters.copies_kept, 1);
}

/* It is not told of, and what is left of it is removed. */
static void one_that_could_not_be_made_is_none(void **state)
{
    struct worker_result result = {.exit_code = WORKER_EXIT_UNAVAILABLE, .output = ""};
    struct allocation *job = have("job", 9, 0, MIB);
    char detail[128];

    (void)state;
    job->entry.copies[0].state = COPY_MAKING;
    job->attempt.state = ATTEMPT_REMOVING;
    job->entry.phase = PHASE_ENDED;
    copies_made(job, &result);
    assert_int_equal(state_of("job", 9, 0), COPY_GOING);
    assert_int_equal(reports_of(CKPT__V1__REPORT_KIND__REPORT_KIND_COPY_KEPT, detail), 0);
    assert_string_equal(removal.folder, "/work/of-ann/copies/1-9");
}

static void beside_a_copy_as_much_stays_free_as_it_has(void **state)
{
    (void)state;
    agent.copies_keep_free = 5;
    assert_uint_equal(copies_keep_free(&agent, &(struct ledger_copy){.size_bytes = 4}), 5);
    assert_uint_equal(copies_keep_free(&agent, &(struct ledger_copy){.size_bytes = 6}), 6);
    agent.memory_path = "/memory";
    assert_uint_equal(copies_keep_free(&agent, &(struct ledger_copy){.size_bytes = 4,
                                                                     .work_dir = "/memory/1000"}),
                      4);
    agent.memory_path = "";
}

/* Junk that its user has left there goes as well, and nothing more can be written. */
static void the_last_job_of_a_user_closes_the_users_folder(void **state)
{
    struct allocation *one = have("one", 2, 0, MIB), *two = have("two", 3, 0, MIB);

    (void)state;
    agent.memory_path = "/memory";
    agent.memory_max_bytes = 4 * MIB;
    one->entry.copy_count = two->entry.copy_count = 0;
    one->entry.uid = two->entry.uid = 1000;
    two->entry.restart_awaited = true;
    memory_close(one);
    assert_string_equal(removal.folder, "");
    two->entry.restart_awaited = false;
    two->entry.copy_count = 1;
    snprintf(two->entry.copies[0].work_dir, sizeof(two->entry.copies[0].work_dir), "/memory/1000");
    memory_close(one);
    assert_string_equal(removal.folder, ""); /* a restart may begin from it */
    two->entry.copy_count = 0;
    two->attempt.state = ATTEMPT_WAITING;
    memory_close(one);
    assert_string_equal(removal.folder, "");
    two->entry.uid = 1001; /* of another user */
    allocation_rest(one);
    assert_string_equal(removal.folder, "/memory/1000");
    two->attempt.state = ATTEMPT_NONE;
    agent.memory_path = "";
    agent.memory_max_bytes = 0;
}

/* Beside what is left of all of it. */
static void no_user_has_more_than_a_share_of_the_memory(void **state)
{
    struct allocation *own = have("own", 2, 0, MIB), *other = have("other", 3, 0, MIB);

    (void)state;
    agent.memory_path = "/memory";
    agent.memory_max_bytes = 8 * MIB;
    own->entry.uid = other->entry.uid = 1000;
    other->entry.last_bytes = 2 * MIB;
    assert_uint_equal(memory_room(&agent, own), 6 * MIB);
    other->attempt.state = ATTEMPT_ASKED;
    other->entry.phase = PHASE_ASKED;
    snprintf(other->entry.memory, sizeof(other->entry.memory), "/memory/1000");
    assert_uint_equal(memory_room(&agent, own), 4 * MIB);
    other->entry.uid = 1001;
    assert_uint_equal(memory_room(&agent, own), 6 * MIB);
    other->entry.last_bytes = 5 * MIB;
    assert_uint_equal(memory_room(&agent, own), 3 * MIB);
    agent.memory_user_max_bytes = MIB;
    assert_uint_equal(memory_room(&agent, own), MIB);
    assert_uint_equal(memory_room(&agent, NULL), 3 * MIB);
    other->attempt.state = ATTEMPT_NONE;
    agent.memory_path = "";
    agent.memory_max_bytes = agent.memory_user_max_bytes = 0;
}

static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    memset(&removal, 0, sizeof(removal));
    still_machine_ops(&machine);
    machine.folders_remove = folders_go;
    machine.remove_detach = nobody_waits;
    still_agent_open(&machine);
    agent.copies_max_bytes = 1 << 30;
    return 0;
}

#define COPIES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COPIES_TEST(a_restore_gets_its_own_shard_and_no_other),
        COPIES_TEST(only_the_part_that_failed_goes),
        COPIES_TEST(what_the_orders_do_not_name_goes),
        COPIES_TEST(the_oldest_makes_room_for_the_newest),
        COPIES_TEST(one_that_could_not_be_made_is_none),
        COPIES_TEST(beside_a_copy_as_much_stays_free_as_it_has),
        COPIES_TEST(the_last_job_of_a_user_closes_the_users_folder),
        COPIES_TEST(no_user_has_more_than_a_share_of_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
