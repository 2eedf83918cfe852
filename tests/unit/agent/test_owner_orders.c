/* What a node does at a destination by order: folders that it removes one after the other, parts
 * that it reads again side by side, each reported once. D-004. The workers are the test's own. */
#include "src/agent/job/owner_orders.h"

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/dest/worker.h"
#include "tests/unit/agent/still_agent.h"

#define REPORT(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name
#define ORDER(name)  CKPT__V1__ORDER_KIND__ORDER_KIND_##name
#define SHA256       "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

enum { WORKS = 80, ORDERS = 80, TEXT = 64 };

/* In the order in which they were started. */
static struct work {
    bool cancelled;
    char arguments[512];
    worker_done_fn *done; /* NULL: it has ended */
    void *data;
} works[WORKS];
static unsigned work_count;
static bool refused; /* none can be started */

static int worker_begins(void *context, const char *const *arguments, struct machine_user user,
                         uint64_t deadline_ms, worker_done_fn *done, void *data,
                         struct worker **ret_worker, struct err *err)
{
    struct work *work = &works[work_count++];

    (void)context;
    assert_in_range(work_count, 1, WORKS);
    assert_int_equal(user.uid, 0);
    assert_uint_equal(deadline_ms, 60000);
    for (size_t i = 0; arguments[i] != NULL; i++) {
        strcat(work->arguments, arguments[i]);
        strcat(work->arguments, " ");
    }
    if (refused)
        return err_set(err, ERR_IO, "fork: no memory");
    work->done = done;
    work->data = data;
    *ret_worker = (struct worker *)work;
    return 0;
}

static void worker_ends_soon(struct worker *worker)
{
    ((struct work *)worker)->cancelled = true;
}

static void end_worker(unsigned number, int exit_code, const char *output, const char *error)
{
    struct worker_result result = {.exit_code = exit_code, .output = output};
    worker_done_fn *done = works[number].done;

    assert_non_null(done);
    snprintf(result.error, sizeof(result.error), "%s", error);
    works[number].done = NULL;
    done(works[number].data, &result);
}

static void end_last(int exit_code, const char *output, const char *error)
{
    end_worker(work_count - 1, exit_code, output, error);
}

static void order_take(const Ckpt__V1__OrderSet *set)
{
    uint8_t *bytes = malloc(ckpt__v1__order_set__get_packed_size(set) + 1);
    size_t length = ckpt__v1__order_set__pack(set, bytes);

    agent_take_orders(&agent, ckpt__v1__order_set__unpack(NULL, length, bytes));
    free(bytes);
}

/* Checkpoints 1-FIRST to 1-LAST, each for the given attempt: to be removed, or part FIRST to LAST
 * of them to be read. */
static void order(Ckpt__V1__OrderKind kind, int first, int last, uint32_t attempt)
{
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__Order orders[ORDERS], *pointers[ORDERS];
    static char paths[ORDERS][TEXT];

    set.orders = pointers;
    for (int i = first; i <= last; i++) {
        Ckpt__V1__Order *one = pointers[set.n_orders] = &orders[set.n_orders];

        ckpt__v1__order__init(one);
        snprintf(paths[set.n_orders], TEXT, "/scratch/t/p/job/checkpoints/1-%d", i);
        one->kind = kind;
        one->allocation_id = text_message("job");
        one->checkpoint_id = (UINT64_C(1) << 40) | (unsigned)i;
        one->attempt = attempt;
        one->timeout_ms = 60000;
        one->target_prefix = text_message("/scratch");
        one->path = paths[set.n_orders++];
        one->owner = text_message(i == 2 ? "ann" : "");
        if (kind == ORDER(COLLECT))
            continue;
        one->part = (uint32_t)i;
        one->manifest_sha256 = text_message(SHA256);
        one->granted_bytes_per_s = i == 2 ? 0 : 1000;
        one->read_back =
            i == 2 ? CKPT__V1__READ_BACK__READ_BACK_SAMPLED : CKPT__V1__READ_BACK__READ_BACK_ALWAYS;
    }
    order_take(&set);
}

static void collect(int first, int last, uint32_t attempt)
{
    order(ORDER(COLLECT), first, last, attempt);
}

static void verify(int first, int last, uint32_t attempt)
{
    order(ORDER(VERIFY), first, last, attempt);
}

/* Of the newest one. */
static void expect_report(Ckpt__V1__ReportKind kind, uint32_t number, uint32_t attempt,
                          uint64_t bytes, const char *detail)
{
    const struct ledger_report *newest = NULL, *next;
    Ckpt__V1__AgentReport *report;

    while ((next = ledger_report_after(agent.ledger, newest == NULL ? 0 : newest->sequence)) !=
           NULL)
        newest = next;
    assert_non_null(newest);
    report = ckpt__v1__agent_report__unpack(NULL, newest->length, newest->bytes);
    assert_int_equal(report->kind, kind);
    assert_string_equal(report->allocation_id, "job");
    assert_uint_equal(report->checkpoint_id, (UINT64_C(1) << 40) | number);
    assert_int_equal(report->part,
                     kind == REPORT(COLLECTED) || kind == REPORT(COLLECT_FAILED) ? 0 : number);
    assert_int_equal(report->attempt, attempt);
    assert_uint_equal(report->size_bytes, bytes);
    assert_string_equal(report->detail, detail);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

/* ---- folders that are removed ---- */

static void one_folder_after_the_other_is_removed_as_its_owner(void **state)
{
    (void)state;
    collect(1, 2, 1);
    assert_int_equal(work_count, 1);
    assert_string_equal(works[0].arguments,
                        "collect --prefix /scratch --path /scratch/t/p/job/checkpoints/1-1 --as "
                        "owner ");
    collect(1, 2, 1); /* the same set again */
    assert_int_equal(work_count, 1);
    end_last(0, "removed=1\nbytes=4096\nfiles=2\n", "");
    expect_report(REPORT(COLLECTED), 1, 1, 4096, "");
    assert_int_equal(work_count, 2);
    assert_contains(works[1].arguments, "1-2 --as owner --owner ann ");
    end_last(0, "removed=0\nbytes=0\nfiles=0\n", "");
    expect_report(REPORT(COLLECTED), 2, 1, 0, "");
    collect(1, 2, 1); /* no set without them has come yet */
    assert_int_equal(work_count, 2);
    assert_uint_equal(agent.counters.folders_removed, 2);
}

/* The state gives it to another node, or to this one for another attempt. */
static void what_fails_is_reported_once_for_each_attempt(void **state)
{
    (void)state;
    collect(1, 1, 1);
    end_last(5, "", "ckpt-worker collect: unlink: Input/output error");
    expect_report(REPORT(COLLECT_FAILED), 1, 1, 0,
                  "ckpt-worker collect: unlink: Input/output error");
    collect(1, 1, 1);
    assert_int_equal(work_count, 1);
    collect(1, 1, 2);
    assert_int_equal(work_count, 2);
    end_last(0, "bytes=7\n", "");
    expect_report(REPORT(COLLECTED), 1, 2, 7, "");
    assert_uint_equal(agent.counters.folders_removed, 1);
    collect(3, 3, 1); /* a set that names it no more */
    end_last(0, "", "");
    collect(1, 1, 2); /* and one that does again */
    assert_int_equal(work_count, 4);
    end_last(0, "", "");
}

static void a_worker_that_cannot_be_started_is_a_failure_of_each(void **state)
{
    (void)state;
    refused = true;
    collect(1, 3, 1);
    assert_int_equal(work_count, 3);
    expect_report(REPORT(COLLECT_FAILED), 3, 1, 0, "fork: no memory");
}

/* What is done of them is known for as long as sets name them, and has an end. */
static void a_set_of_too_many_is_done_as_far_as_is_known(void **state)
{
    (void)state;
    collect(1, 70, 1);
    while (works[work_count - 1].done != NULL)
        end_last(0, "", "");
    assert_int_equal(work_count, OWNER_ORDERS_KNOWN_MAX);
    collect(65, 70, 1);
    while (works[work_count - 1].done != NULL)
        end_last(0, "", "");
    assert_int_equal(work_count, 70);
}

/* ---- parts that are read ---- */

static void parts_are_read_side_by_side_as_their_owner(void **state)
{
    (void)state;
    verify(1, 2, 1);
    assert_int_equal(work_count, 2); /* what is waited for waits for no other */
    assert_string_equal(works[0].arguments,
                        "verify --prefix /scratch --path /scratch/t/p/job/checkpoints/1-1 --part "
                        "part-0001 --manifest-sha256 " SHA256
                        " --rate 1000 --read-back always --as owner ");
    assert_contains(works[1].arguments, "--rate 0 --read-back sampled --as owner --owner ann ");
    verify(1, 2, 1); /* the same set again */
    end_worker(1, WORKER_EXIT_OK, "", "");
    expect_report(REPORT(VERIFIED), 2, 1, 0, "");
    end_worker(0, WORKER_EXIT_OK, "", "");
    expect_report(REPORT(VERIFIED), 1, 1, 0, "");
    verify(1, 2, 1); /* no set without them has come yet */
    assert_int_equal(work_count, 2);
    assert_uint_equal(agent.counters.parts_read_again, 2);
}

static void what_a_worker_found_is_told_apart(void **state)
{
    static const struct {
        int exit_code;
        Ckpt__V1__ReportKind kind;
    } found[] = {{WORKER_EXIT_CORRUPT, REPORT(VERIFY_DAMAGED)},
                 {WORKER_EXIT_NOT_FOUND, REPORT(VERIFY_MISSING)},
                 {WORKER_EXIT_UNAVAILABLE, REPORT(VERIFY_FAILED)},
                 {WORKER_EXIT_REFUSED, REPORT(VERIFY_FAILED)},
                 {-1, REPORT(VERIFY_FAILED)}};

    (void)state;
    for (uint32_t i = 0; i < ARRAY_COUNT(found); i++) {
        verify(1, 1, i + 1);
        end_worker(i, found[i].exit_code, "", "state.bin");
        expect_report(found[i].kind, 1, i + 1, 0, "state.bin");
    }
    assert_uint_equal(agent.counters.parts_read_again, 0);
}

/* A set of any length, whichever of its workers end first: one that runs has room for its
 * report. */
static void a_long_set_leaves_room_for_what_runs(void **state)
{
    (void)state;
    verify(1, 70, 1);
    for (unsigned i = 0; i < work_count; i++)
        end_worker(i, WORKER_EXIT_OK, "", "");
    assert_int_equal(work_count, OWNER_ORDERS_KNOWN_MAX);
    assert_uint_equal(ledger_last_sequence(agent.ledger), OWNER_ORDERS_KNOWN_MAX);
}

/* ---- both ---- */

/* Nobody wants to know any more. */
static void what_no_set_names_any_more_is_ended_and_not_told(void **state)
{
    (void)state;
    verify(1, 3, 1);
    verify(2, 2, 1);
    assert_true(works[0].cancelled && works[2].cancelled && !works[1].cancelled);
    end_worker(0, -1, "", "killed");
    end_worker(2, WORKER_EXIT_CORRUPT, "", "late");
    assert_null(ledger_report_after(agent.ledger, 0));
    end_worker(1, WORKER_EXIT_OK, "", "");
    expect_report(REPORT(VERIFIED), 2, 1, 0, "");
    collect(4, 4, 1);
    owner_orders_free(agent.owner_orders); /* the agent ends */
    agent.owner_orders = owner_orders_new(&agent);
    assert_true(works[3].cancelled);
    end_worker(3, -1, "", "killed");
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
}

static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    memset(works, 0, sizeof(works));
    work_count = 0;
    refused = false;
    still_machine_ops(&machine);
    machine.worker_start = worker_begins;
    machine.worker_cancel = worker_ends_soon;
    still_agent_open(&machine);
    return 0;
}

#define ORDER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ORDER_TEST(one_folder_after_the_other_is_removed_as_its_owner),
        ORDER_TEST(what_fails_is_reported_once_for_each_attempt),
        ORDER_TEST(a_worker_that_cannot_be_started_is_a_failure_of_each),
        ORDER_TEST(a_set_of_too_many_is_done_as_far_as_is_known),
        ORDER_TEST(parts_are_read_side_by_side_as_their_owner),
        ORDER_TEST(what_a_worker_found_is_told_apart),
        ORDER_TEST(a_long_set_leaves_room_for_what_runs),
        ORDER_TEST(what_no_set_names_any_more_is_ended_and_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
