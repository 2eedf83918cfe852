/* The scanner: which checkpoints at a target no record knows (S2-016, S2-017, D-004). Workers are
 * the test's own; pages of nodes come by hand. */
#include "fsm/orphans.h"
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/broker/keep/scanner.h"
#include "src/dest/mark.h"
#include "tests/unit/broker/fake_worker.h"

#define COUNTS "looked=3\nforeign=1\ndenied=0\n"

static void end_worker(struct fake *fake, const char *output)
{
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_OK, .output = output});
}

/* Ids of the first epoch were all given; 1-1 has a record. The first scan is at once (S2-016). */
static struct fake *start_with(const Ckpt__V1__Policy *policy)
{
    struct fake *fake = fake_new(policy);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__NewEpoch epoch = CKPT__LOG__V1__NEW_EPOCH__INIT;

    assert_int_equal(fake_register(fake, "job", 1, 2, NULL).status, FSM_OK);
    assert_uint_equal(fake_request_checkpoint(fake, "job", "request"), checkpoint_id_make(1, 1));
    epoch.epoch = 2;
    epoch.cluster_id = text_message("test");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_NEW_EPOCH;
    command.new_epoch = &epoch;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    fake_worker_begin(SCANNER_DEADLINE_MS);
    fake->broker.scanner = scanner_new(&fake->broker);
    fake_serve(fake);
    assert_true(worker.running);
    return fake;
}

static struct fake *start(void)
{
    return start_with(NULL);
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    scanner_free(fake->broker.scanner);
    end_worker_left();
    fake_free(fake);
}

static const struct orphan_scan *ended(const struct fake *fake, bool *ret_running)
{
    return scanner_ended(fake->broker.scanner, 0, ret_running);
}

/* Everything that the scanner knows: ids with blanks between them. */
static const char *known(const struct fake *fake)
{
    const struct orphan_list *list = scanner_known(fake->broker.scanner);
    static char text[512];
    char id[CHECKPOINT_ID_TEXT_BYTES];

    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        strcat(text, i == 0 ? "" : " ");
        strcat(text, checkpoint_id_format(list->items[i].checkpoint_id, id));
    }
    return text;
}

static void page(struct fake *fake, uint32_t node_slot, const Ckpt__V1__ScanPage *fields)
{
    Ckpt__V1__ScanPage copy = *fields;

    scanner_take_page(fake->broker.scanner, node_slot, &copy);
    fake_settle(fake);
}

/* What a node tells; texts may be left out. */
static Ckpt__V1__ScanPage page_of(uint32_t attempt, uint32_t number, const char *output)
{
    Ckpt__V1__ScanPage fields = CKPT__V1__SCAN_PAGE__INIT;

    fields.target_prefix = text_message("/scratch");
    fields.attempt = attempt;
    fields.page = number;
    fields.output = text_message(output);
    return fields;
}

static void pages_are_read_in_turn_and_what_has_a_record_is_none(void **state)
{
    struct fake *fake = start();
    const struct orphan *orphan;
    char expected[256], mark[MARK_BYTES];
    uint64_t count, bytes;
    bool running;

    (void)state;
    snprintf(expected, sizeof(expected), "scan --prefix /scratch --cluster %s --min-age 86400 ",
             mark_format(mark_of("test"), mark));
    assert_string_equal(worker.arguments, expected);
    end_worker(fake,
               "found=10 100 ann t/p/a/checkpoints/1-1\n"
               "found=20 200 ann t/p/a/checkpoints/1-7\n"
               "found=1 1 ann t/p/a/checkpoints/3-1\n" /* is to come */
               "found=1 1 ann t/p/a/other/1-9\n"
               "found=1 1 ann ../p/a/checkpoints/1-9\n" COUNTS "next=t/p/a/checkpoints/1-7\n");
    assert_string_equal(known(fake), ""); /* until all of it was seen */
    fake_advance_ms(fake, SCANNER_REST_MS);
    assert_contains(worker.arguments, "--after t/p/a/checkpoints/1-7 ");
    ended(fake, &running);
    assert_true(running);
    end_worker(fake, "found=5 50 ann t/p/a/checkpoints/1-7\n" /* what a killed removal left */
                     "found=30 300 - t/p/b/checkpoints/1-8\n" COUNTS);
    assert_string_equal(known(fake), "1-7 1-8");
    orphan = &scanner_known(fake->broker.scanner)->items[0];
    assert_uint_equal(orphan->size_bytes, 25);
    assert_uint_equal(orphan->age_ms, 50000);
    assert_string_equal(orphan->owner, "ann");
    assert_string_equal(orphan->allocation_id, "a");
    assert_string_equal(orphan[1].owner, "");
    assert_uint_equal(ended(fake, &running)->looked, 6);
    assert_uint_equal(ended(fake, &running)->foreign, 2);
    assert_false(running);
    scanner_count(fake->broker.scanner, 0, &count, &bytes);
    assert_uint_equal(count, 2);
    assert_uint_equal(bytes, 55);
    fake_advance_ms(fake, 86400000 - 2 * SCANNER_TICK_MS);
    assert_int_equal(started_count, 2); /* once a day */
    fake_advance_ms(fake, 3 * SCANNER_TICK_MS);
    assert_int_equal(started_count, 3);
    finish(fake);
}

/* Of the order's node and attempt alone, in their order, and from the first one anew. */
static void where_a_folder_is_denied_a_nodes_pages_count(void **state)
{
    struct fake *fake = start();
    struct fsm_scan scan;
    Ckpt__V1__ScanPage one, last;
    bool running;

    (void)state;
    fake_node_seen(fake, "node-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    end_worker(fake, "found=10 100 ann t/p/a/checkpoints/1-6\nlooked=1\nforeign=0\ndenied=1\n"
                     "denied_error=open t/p/b: Permission denied\n");
    assert_true(fsm_scan_of(fake->replica.fsm, 0, &scan));
    one = page_of(scan.attempt, 1, "found=10 100 ann t/p/a/checkpoints/1-7\n" COUNTS "next=x\n");
    last = page_of(scan.attempt, 2, "found=10 100 ann t/p/b/checkpoints/1-8\n" COUNTS);
    last.last = true;
    page(fake, scan.node_slot + 1, &last);
    one.attempt++;
    page(fake, scan.node_slot, &one);
    one.attempt--;
    page(fake, scan.node_slot, &one);
    page(fake, scan.node_slot, &one); /* its agent has begun anew */
    page(fake, scan.node_slot, &last);
    assert_string_equal(known(fake), "1-7 1-8");
    assert_string_equal(ended(fake, &running)->node, "node-1");
    assert_uint_equal(ended(fake, &running)->looked, 6);
    assert_string_equal(ended(fake, &running)->error, "");
    assert_false(fsm_scan_of(fake->replica.fsm, 0, &scan)); /* the order is over */
    page(fake, scan.node_slot, &last);                      /* late */
    assert_string_equal(known(fake), "1-7 1-8");
    finish(fake);
}

/* S2-016, S2-017: only where the policy says so, and only what was not used for its age; what has a
 * record, another cluster's mark (which no scan tells of) or an id to come stays. */
static void stale_ones_go_without_an_order_where_the_policy_says_so(void **state)
{
    static const struct {
        uint32_t level;
        Ckpt__V1__OrphanRule rule;
        const char *left;
    } rows[] = {{2, CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_UNSPECIFIED, "1-7 1-8"},
                {2, CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_LIST, "1-7 1-8"},
                {2, CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_REMOVE, "1-8"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
        struct fake *fake;
        uint64_t count, bytes;

        policy.feature_level = rows[i].level;
        policy.orphan_rule = rows[i].rule;
        fake = start_with(&policy);
        assert_uint_equal(fsm_policy(fake->replica.fsm)->orphan_remove_age_ms,
                          UINT64_C(60) * 86400000);
        end_worker(fake, "found=10 5184000 ann t/p/a/checkpoints/1-1\n"
                         "found=20 5184000 ann t/p/a/checkpoints/1-7\n"
                         "found=30 5183999 ann t/p/a/checkpoints/1-8\n"
                         "found=1 5184000 ann t/p/a/checkpoints/3-1\n" COUNTS);
        scanner_count(fake->broker.scanner, 0, &count, &bytes);
        if (strcmp(rows[i].left, "1-8") == 0) {
            assert_uint_equal(count, 1);
            assert_uint_equal(bytes, 30);
            assert_false(fsm_is_orphan(fake->replica.fsm, checkpoint_id_make(1, 7)));
            assert_non_null(fsm_undeleted_find(fake->replica.fsm, checkpoint_id_make(1, 7)));
        } else {
            assert_uint_equal(count, 2);
            assert_null(fsm_undeleted_find(fake->replica.fsm, checkpoint_id_make(1, 7)));
        }
        finish(fake);
    }
}

static void half_of_a_nodes_pages_are_none(void **state)
{
    struct fake *fake = start();
    struct fsm_scan scan;
    Ckpt__V1__ScanPage third;
    bool running;

    (void)state;
    fake_node_seen(fake, "node-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_UNAVAILABLE,
                                                 .error = "open /scratch: Permission denied"});
    assert_true(fsm_scan_of(fake->replica.fsm, 0, &scan));
    third = page_of(scan.attempt, 3, "found=10 100 ann t/p/a/checkpoints/1-7\n" COUNTS);
    third.last = true;
    page(fake, scan.node_slot, &third);
    assert_string_equal(known(fake), "");
    assert_contains(ended(fake, &running)->error, "a page of what the node found was lost");
    assert_uint_equal(ended(fake, &running)->ended_at_ms, 0);
    fake_advance_ms(fake, SCANNER_RETRY_MS + SCANNER_TICK_MS);
    assert_int_equal(started_count, 2);
    finish(fake);
}

static void a_target_that_cannot_be_looked_through_says_why(void **state)
{
    struct fake *fake = start();
    bool running;

    (void)state;
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_UNAVAILABLE,
                                                 .error = "open /scratch: No such file"});
    assert_contains(ended(fake, &running)->error, "no node is ready to look instead");
    assert_contains(ended(fake, &running)->error, "open /scratch: No such file");
    fake_advance_ms(fake, SCANNER_RETRY_MS + SCANNER_TICK_MS);
    end_worker_with(fake, (struct worker_result){
                              .exit_code = -1, .timed_out = true, .error = "no end after 600 s"});
    assert_string_equal(ended(fake, &running)->error, "no end after 600 s");
    fake_node_seen(fake, "node-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    fake_advance_ms(fake, SCANNER_RETRY_MS + SCANNER_TICK_MS);
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_REFUSED});
    fake_advance_ms(fake, SCANNER_SILENCE_MS + SCANNER_TICK_MS);
    assert_contains(ended(fake, &running)->error, "tells nothing");
    fake_advance_ms(fake, SCANNER_RETRY_MS + SCANNER_TICK_MS);
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_REFUSED});
    fake_node_seen(fake, "node-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN);
    fake_advance_ms(fake, SCANNER_TICK_MS);
    assert_contains(ended(fake, &running)->error, "the node that looked was lost");
    assert_int_equal(started_count, 4);
    finish(fake);
}

/* What the state has got to know, or has removed, is shown no more. */
static void what_is_removed_is_shown_no_more(void **state)
{
    struct fake *fake = start();
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__RemoveOrphans remove = CKPT__LOG__V1__REMOVE_ORPHANS__INIT;
    Ckpt__Log__V1__CheckpointsCollected collected = CKPT__LOG__V1__CHECKPOINTS_COLLECTED__INIT;
    Ckpt__V1__Orphan orphan = CKPT__V1__ORPHAN__INIT, *orphans[] = {&orphan};
    uint64_t count, bytes;

    (void)state;
    end_worker(fake, "found=10 100 ann t/p/a/checkpoints/1-7\n"
                     "found=20 100 ann t/p/a/checkpoints/1-8\n" COUNTS);
    orphan.checkpoint_id = checkpoint_id_make(1, 7);
    orphan.allocation_id = orphan.tenant = orphan.project = text_message("a");
    orphan.target_id = text_message("scratch");
    remove.n_orphans = 1;
    remove.orphans = orphans;
    command.request_id = text_message("remove");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REMOVE_ORPHANS;
    command.remove_orphans = &remove;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    scanner_count(fake->broker.scanner, 0, &count, &bytes);
    assert_uint_equal(count, 1); /* the other one is an expired folder by now */
    assert_uint_equal(bytes, 20);
    command.request_id = text_message("");
    collected.n_checkpoint_ids = 1;
    collected.checkpoint_ids = &orphan.checkpoint_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_COLLECTED;
    command.checkpoints_collected = &collected;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    assert_string_equal(known(fake), "1-8");
    finish(fake);
}

/* What had no place counts for the target where it lies, whichever was looked through last. */
static void what_has_no_place_is_counted_by_target(void **state)
{
    struct orphan_list list = {0}, found = {0}, nothing = {0};
    struct orphan orphan = {.target_slot = 1};

    (void)state;
    for (uint64_t id = 1; id <= ORPHANS_MAX + 5; id++) {
        orphan.checkpoint_id = id;
        orphan_list_add(&found, &orphan);
    }
    assert_uint_equal(orphan_list_replace(&list, 1, &found), 5);
    for (size_t i = 0; i < found.count; i++)
        found.items[i].target_slot = 2;
    assert_uint_equal(orphan_list_replace(&list, 2, &found), ORPHANS_MAX + 5);
    assert_uint_equal(orphan_list_replace(&list, 1, &nothing), 0);
    assert_uint_equal(orphan_list_replace(&list, 2, &found), 5);
    orphan_list_clear(&list);
    orphan_list_clear(&found);
}

static void another_leader_begins_anew(void **state)
{
    struct fake *fake = start();
    bool running;

    (void)state;
    end_worker(fake, "found=10 100 ann t/p/a/checkpoints/1-7\n" COUNTS);
    assert_string_equal(known(fake), "1-7");
    scanner_scan_now(fake->broker.scanner);
    fake_settle(fake);
    assert_int_equal(started_count, 2);
    scanner_scan_now(fake->broker.scanner); /* of what may be behind the page by now */
    fake_stop_serving(fake);
    assert_true(worker.cancelled);
    assert_string_equal(known(fake), "");
    end_worker_with(fake, (struct worker_result){.exit_code = -1});
    assert_uint_equal(ended(fake, &running)->ended_at_ms, 0);
    fake_serve(fake);
    fake_advance_ms(fake, SCANNER_TICK_MS);
    assert_int_equal(started_count, 3);
    scanner_scan_now(fake->broker.scanner);
    end_worker(fake, "found=10 100 ann t/p/a/checkpoints/1-7\n" COUNTS);
    fake_advance_ms(fake, SCANNER_TICK_MS);
    assert_int_equal(started_count, 4); /* it was asked for in the middle of one */
    end_worker(fake, COUNTS);
    assert_string_equal(known(fake), "");
    fake_advance_ms(fake, 10 * SCANNER_TICK_MS);
    assert_int_equal(started_count, 4);
    finish(fake);
}

/* Nobody waits for its pages: the node is not to look for nothing on each new stream. */
static void an_order_of_an_earlier_leader_is_ended(void **state)
{
    struct fake *fake = start();
    struct fsm_scan scan;

    (void)state;
    fake_node_seen(fake, "node-1", CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY);
    end_worker(fake, "looked=1\nforeign=0\ndenied=1\ndenied_error=open t: Permission denied\n");
    assert_true(fsm_scan_of(fake->replica.fsm, 0, &scan));
    fake_stop_serving(fake);
    fake_serve(fake);
    fake_advance_ms(fake, SCANNER_TICK_MS);
    assert_false(fsm_scan_of(fake->replica.fsm, 0, &scan));
    end_worker(fake, COUNTS);
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_read_in_turn_and_what_has_a_record_is_none),
        cmocka_unit_test(where_a_folder_is_denied_a_nodes_pages_count),
        cmocka_unit_test(stale_ones_go_without_an_order_where_the_policy_says_so),
        cmocka_unit_test(half_of_a_nodes_pages_are_none),
        cmocka_unit_test(a_target_that_cannot_be_looked_through_says_why),
        cmocka_unit_test(what_is_removed_is_shown_no_more),
        cmocka_unit_test(what_has_no_place_is_counted_by_target),
        cmocka_unit_test(another_leader_begins_anew),
        cmocka_unit_test(an_order_of_an_earlier_leader_is_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
