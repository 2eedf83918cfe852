/* ckptctl gc orphans, gc run --orphans: what lies at targets without a record is shown, and what
 * was shown is removed (S2-016, S2-017). */
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

enum { PAGE = 200 };

/* Of `count` orphans, from the given number on. */
struct page {
    Ckpt__V1__Orphan orphans[PAGE], *pointers[PAGE];
    Ckpt__V1__OrphanScan scan, *scans[1];
    Ckpt__V1__ListOrphansReply reply;
};

static void page_make(struct page *page, unsigned first, unsigned count, const char *next)
{
    ckpt__v1__list_orphans_reply__init(&page->reply);
    for (unsigned i = 0; i < count; i++) {
        Ckpt__V1__Orphan *orphan = page->pointers[i] = &page->orphans[i];

        ckpt__v1__orphan__init(orphan);
        orphan->checkpoint_id = checkpoint_id_make(1, first + i);
        orphan->allocation_id = text_message("a-1");
        orphan->tenant = orphan->project = text_message("physics");
        orphan->target_id = text_message("scratch");
        orphan->size_bytes = 5000000000;
        orphan->age_ms = UINT64_C(200000000);
        orphan->owner = text_message(i == 0 ? "ann" : "");
        orphan->path = text_message("/scratch/physics/physics/a-1/checkpoints/1-7");
    }
    page->reply.orphans = page->pointers;
    page->reply.n_orphans = count;
    ckpt__v1__orphan_scan__init(&page->scan);
    page->scan.target_id = text_message("scratch");
    page->scans[0] = &page->scan;
    page->reply.scans = page->scans;
    page->reply.n_scans = 1;
    page->reply.min_age_ms = 86400000;
    page->reply.next_page_token = text_message(next);
}

static void answer_pages(struct harness *h, struct page pages[2])
{
    page_make(&pages[0], 7, PAGE, "200");
    page_make(&pages[1], 7 + PAGE, PAGE, "");
    harness_init(h);
    for (size_t i = 0; i < 2; i++) {
        harness_answer(h, NULL, "OperatorService/ListOrphans", RPC_OK, NULL, &pages[i].reply.base);
        h->answers[i].turns = 1;
    }
}

static void all_pages_are_shown_with_what_was_looked_at(void **state)
{
    static struct page pages[2];
    struct harness h;

    (void)state;
    answer_pages(&h, pages);
    pages[0].scan.ended_at_ms = 1700000000000;
    pages[0].scan.looked = 1234;
    pages[0].scan.foreign = 21;
    pages[0].scan.denied = 2;
    pages[0].scan.node_id = text_message("n7");
    pages[0].scan.error = text_message("open t/p/\033[2Jx: Permission denied");
    pages[0].reply.left_out = 3;
    assert_int_equal(harness_run(&h, "gc orphans"), CLI_OK);
    assert_string_equal(((const Ckpt__V1__ListOrphansRequest *)h.last_request)->page_token, "200");
    assert_contains(h.out, "1-7 ");
    assert_contains(h.out, "1-406 ");
    assert_contains(h.out, " ann ");
    assert_contains(h.out, "/scratch/physics/physics/a-1/checkpoints/1-7");
    assert_contains(h.error, "1234 checkpoints looked at by node n7");
    assert_contains(h.error, "21 of them have no mark of this cluster");
    assert_contains(h.error, "2 folders could not be looked into");
    assert_contains(h.error, "target scratch: open t/p/?[2Jx: Permission denied");
    assert_contains(h.error, "400 orphans (");
    assert_contains(h.error, "3 more were found");
    harness_close(&h);
}

/* An empty list is not taken for an empty target. */
static void a_target_that_was_not_looked_through_is_named(void **state)
{
    static struct page page;
    struct harness h;

    (void)state;
    page_make(&page, 1, 0, "");
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/ListOrphans", RPC_OK, NULL, &page.reply.base);
    assert_int_equal(harness_run(&h, "gc orphans --scan"), CLI_OK);
    assert_true(((const Ckpt__V1__ListOrphansRequest *)h.last_request)->scan);
    assert_contains(h.error, "target scratch was not looked through since this leader leads");
    page.scan.running = true;
    assert_int_equal(harness_run(&h, "gc orphans"), CLI_OK);
    assert_contains(h.error, "target scratch is being looked through now");
    harness_close(&h);
}

/* In calls of 256: the last one has the rest. */
static void a_run_removes_exactly_what_it_has_shown(void **state)
{
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    static struct page pages[2];
    struct harness h;
    const Ckpt__V1__RemoveOrphansRequest *request;

    (void)state;
    answer_pages(&h, pages);
    harness_answer(&h, NULL, "OperatorService/RemoveOrphans", RPC_OK, NULL, &done.base);
    assert_int_equal(harness_run(&h, "gc run --orphans --yes"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/RemoveOrphans");
    assert_int_equal(h.call_count, 4);
    request = (const Ckpt__V1__RemoveOrphansRequest *)h.last_request;
    assert_int_equal(request->n_orphans, 2 * PAGE - 256);
    assert_uint_equal(request->orphans[0]->checkpoint_id, checkpoint_id_make(1, 7 + 256));
    assert_string_equal(request->orphans[0]->target_id, "scratch");
    assert_uint_equal(request->orphans[0]->size_bytes, 5000000000);
    harness_close(&h);
}

static void nothing_is_removed_that_was_not_confirmed_or_not_shown(void **state)
{
    static struct page pages[2];
    struct harness h;

    (void)state;
    answer_pages(&h, pages);
    h.input = "no\n";
    assert_int_not_equal(harness_run(&h, "gc run --orphans"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/ListOrphans");
    assert_contains(h.error, "plan: remove these 400 orphans (");
    harness_close(&h);
    answer_pages(&h, pages);
    h.answers[1].status = RPC_PERMISSION_DENIED; /* half a list is none */
    h.answers[1].text = "the role reader may not list";
    assert_int_equal(harness_run(&h, "gc run --orphans --yes"), CLI_AUTH);
    assert_string_equal(h.last_method, "OperatorService/ListOrphans");
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pages_are_shown_with_what_was_looked_at),
        cmocka_unit_test(a_target_that_was_not_looked_through_is_named),
        cmocka_unit_test(a_run_removes_exactly_what_it_has_shown),
        cmocka_unit_test(nothing_is_removed_that_was_not_confirmed_or_not_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
