/* Targets that a node looks through by order, page by page, on the stream of the leader that asked
 * (S2-016). The workers and the stream are the test's own. */
#include "src/agent/job/scans.h"

#include "src/base/text.h"
#include "src/dest/scan.h"
#include "src/dest/worker.h"
#include "tests/unit/agent/still_agent.h"

/* The one that is at work. */
static struct work {
    bool running, cancelled;
    char arguments[512];
    worker_done_fn *done;
    void *data;
} work;
static unsigned work_count;
static bool work_fails;

/* What has gone out, one line for each page. */
static char sent[1024];
static bool stream_full;

static int worker_begins(void *context, const char *const *arguments, struct machine_user user,
                         uint64_t deadline_ms, worker_done_fn *done, void *data,
                         struct worker **ret_worker, struct err *err)
{
    (void)context;
    assert_int_equal(user.uid, 0); /* it takes each owner's rights by itself */
    assert_uint_equal(deadline_ms, 60000);
    assert_false(work.running);
    work_count++;
    if (work_fails)
        return err_set(err, ERR_IO, "fork: Resource temporarily unavailable");
    work = (struct work){.running = true, .done = done, .data = data};
    for (size_t i = 0; arguments[i] != NULL; i++) {
        strcat(work.arguments, arguments[i]);
        strcat(work.arguments, " ");
    }
    *ret_worker = (struct worker *)&work;
    return 0;
}

static void worker_ends_soon(struct worker *worker)
{
    ((struct work *)worker)->cancelled = true;
}

static void end_worker(int exit_code, const char *output, const char *error)
{
    struct worker_result result = {.exit_code = exit_code, .output = output};

    assert_true(work.running);
    work.running = false;
    snprintf(result.error, sizeof(result.error), "%s", error);
    work.done(work.data, &result);
}

static bool send_page(struct session *session, Ckpt__V1__ScanPage *page)
{
    size_t length = strlen(sent);

    (void)session;
    if (stream_full)
        return false;
    snprintf(sent + length, sizeof(sent) - length, "%s %u.%u%s %s%s\n", page->target_prefix,
             page->attempt, page->page, page->last ? " last" : "", page->output, page->error);
    return true;
}

/* The only timer that it has. */
static void fire(void)
{
    still_first_fire(agent.scans);
}

/* Both targets, or with count 0 none. */
static void order(unsigned count, uint32_t attempt)
{
    static const char *const prefixes[] = {"/one", "s3://two"};
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__Order orders[2], *pointers[2];
    uint8_t bytes[512];
    size_t length;

    set.orders = pointers;
    for (; set.n_orders < count; set.n_orders++) {
        Ckpt__V1__Order *one = pointers[set.n_orders] = &orders[set.n_orders];

        ckpt__v1__order__init(one);
        one->kind = CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN;
        one->target_prefix = text_message(prefixes[set.n_orders]);
        one->attempt = attempt;
        one->cluster_mark = 0xa1;
        one->min_age_ms = 3600000;
        one->timeout_ms = 60000;
    }
    assert_true(ckpt__v1__order_set__get_packed_size(&set) <= sizeof(bytes));
    length = ckpt__v1__order_set__pack(&set, bytes);
    agent_take_orders(&agent, ckpt__v1__order_set__unpack(NULL, length, bytes));
}

static void targets_are_looked_through_one_after_the_other(void **state)
{
    (void)state;
    order(2, 3);
    fire();
    assert_string_equal(work.arguments,
                        "scan --prefix /one --cluster 00000000000000a1 --min-age 3600 ");
    fire();
    order(2, 3); /* the same set again */
    fire();
    assert_int_equal(work_count, 1);
    end_worker(WORKER_EXIT_OK, "next=t/p/a/checkpoints/1-7\n", "");
    assert_false(work.running); /* a rest between pages */
    fire();
    assert_contains(work.arguments, "--after t/p/a/checkpoints/1-7 ");
    end_worker(WORKER_EXIT_OK, "looked=5\n", "");
    fire();
    assert_contains(work.arguments, "scan --prefix s3://two ");
    end_worker(WORKER_EXIT_UNAVAILABLE, "", "nobody answers");
    assert_string_equal(sent, "/one 3.1 next=t/p/a/checkpoints/1-7\n\n"
                              "/one 3.2 last looked=5\n\n"
                              "s3://two 3.1 last nobody answers\n");
    fire();
    order(2, 3);
    fire();
    assert_int_equal(work_count, 3); /* each once for an attempt */
    order(1, 4);
    fire();
    assert_int_equal(work_count, 4);
    end_worker(WORKER_EXIT_OK, "", "");
    order(0, 0); /* what no set names need not be known */
    fire();
    order(1, 4);
    fire();
    assert_int_equal(work_count, 5);
    end_worker(WORKER_EXIT_OK, "", "");
}

/* Pages count together on one stream alone. */
static void on_another_stream_it_begins_anew(void **state)
{
    (void)state;
    order(1, 1);
    fire();
    end_worker(WORKER_EXIT_OK, "next=t/p/a/checkpoints/1-7\n", "");
    fire();
    agent.counters.sessions_opened++;
    end_worker(WORKER_EXIT_OK, "looked=1\n", "");
    assert_string_equal(sent, "/one 1.1 next=t/p/a/checkpoints/1-7\n\n");
    fire();
    assert_null(strstr(work.arguments, "--after"));
    end_worker(WORKER_EXIT_OK, "looked=2\n", "");
    assert_contains(sent, "/one 1.1 last looked=2\n");
}

/* A stream may end with the last page on its way: a leader that still asks waits for it. */
static void what_went_out_on_a_stream_that_ended_is_told_again(void **state)
{
    (void)state;
    order(1, 1);
    fire();
    end_worker(WORKER_EXIT_OK, "looked=1\n", "");
    order(1, 1);
    fire();
    assert_int_equal(work_count, 1);
    agent.counters.sessions_opened++;
    order(1, 1);
    fire();
    assert_int_equal(work_count, 2);
    end_worker(WORKER_EXIT_OK, "looked=2\n", "");
    assert_string_equal(sent, "/one 1.1 last looked=1\n\n/one 1.1 last looked=2\n\n");
}

static void a_page_that_does_not_go_out_is_read_again(void **state)
{
    (void)state;
    order(1, 1);
    fire();
    stream_full = true;
    end_worker(WORKER_EXIT_OK, "next=t/p/a/checkpoints/1-7\n", "");
    assert_string_equal(sent, "");
    stream_full = false;
    fire();
    assert_null(strstr(work.arguments, "--after"));
    end_worker(WORKER_EXIT_OK, "looked=2\n", "");
    assert_string_equal(sent, "/one 1.1 last looked=2\n\n");
}

static void a_scan_that_nobody_wants_ends_with_its_page(void **state)
{
    (void)state;
    order(1, 1);
    fire();
    order(0, 0);
    end_worker(WORKER_EXIT_OK, "next=t/p/a/checkpoints/1-7\n", "");
    fire();
    assert_int_equal(work_count, 1);
    work_fails = true;
    order(1, 2);
    fire();
    assert_contains(sent, "/one 2.1 last fork: Resource temporarily unavailable\n");
    work_fails = false;
    order(1, 3);
    fire();
    scans_free(agent.scans); /* the agent ends */
    agent.scans = scans_new(&agent);
    assert_true(work.cancelled);
    end_worker(-1, "", "killed");
}

static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    work = (struct work){0};
    work_count = 0;
    work_fails = stream_full = false;
    sent[0] = '\0';
    still_machine_ops(&machine);
    machine.worker_start = worker_begins;
    machine.worker_cancel = worker_ends_soon;
    still_agent_open(&machine);
    scans_free(agent.scans);
    still_first_fire = NULL;
    agent.scans = scans_new(&agent);
    agent.send_page = send_page;
    return 0;
}

#define SCANS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCANS_TEST(targets_are_looked_through_one_after_the_other),
        SCANS_TEST(on_another_stream_it_begins_anew),
        SCANS_TEST(what_went_out_on_a_stream_that_ended_is_told_again),
        SCANS_TEST(a_page_that_does_not_go_out_is_read_again),
        SCANS_TEST(a_scan_that_nobody_wants_ends_with_its_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
