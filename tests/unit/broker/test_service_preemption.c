/* What schedulers ask about victims: what a preemption came to, and placement advice, from a real
 * replica of one member. */
#include "src/broker/api/answer.h"
#include "tests/unit/broker/service_calls.h"

static void preemptions(uint64_t id, struct answer *answer)
{
    Ckpt__V1__ListPreemptionsRequest ask = CKPT__V1__LIST_PREEMPTIONS_REQUEST__INIT;

    ask.preemption_id = id;
    call(BROKER("ListPreemptions"), &ask.base, answer);
}

/* P-024, P-050: what a preemption came to can be asked for */
static void a_preemptions_progress_is_answered(void **state)
{
    static struct answer answer;
    Ckpt__V1__RequestPreemptionRequest ask = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    Ckpt__V1__RequestPreemptionReply *reply;
    Ckpt__V1__ListPreemptionsReply *list;
    char request_id[] = "claim", job[] = "big";

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("r", "job"), NULL);
    ask.request_id = request_id;
    ask.for_job = job;
    ask.preemption_class = 9;
    ask.nodes_needed = 1;
    call(BROKER("RequestPreemption"), &ask.base, &answer);
    expect(&answer, RPC_OK, "");
    reply = ckpt__v1__request_preemption_reply__unpack(NULL, answer.length, answer.bytes);
    assert_uint_equal(reply->n_victims, 1);
    assert_int_equal(reply->victims[0]->state, CKPT__V1__VICTIM_STATE__VICTIM_STATE_STOPPING);
    preemptions(0, &answer);
    expect(&answer, RPC_OK, "");
    list = ckpt__v1__list_preemptions_reply__unpack(NULL, answer.length, answer.bytes);
    assert_uint_equal(list->n_preemptions, 1);
    assert_true(list->preemptions[0]->preemption_id == reply->preemption_id);
    assert_int_equal(list->preemptions[0]->state,
                     CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING);
    assert_true(list->preemptions[0]->deadline_ms > list->preemptions[0]->asked_at_ms);
    assert_uint_equal(list->preemptions[0]->victims_released, 0);
    assert_uint_equal(list->preemptions[0]->n_released_node_ids, 0);
    assert_string_equal(list->preemptions[0]->for_job, "big");
    ckpt__v1__list_preemptions_reply__free_unpacked(list, NULL);
    ckpt__v1__request_preemption_reply__free_unpacked(reply, NULL);
    preemptions(77, &answer);
    expect(&answer, RPC_NOT_FOUND, "PREEMPTION_NOT_FOUND: preemption 77");
}

/* As many a page as were asked for, each running one once, all of them. */
static void placement_advice_comes_in_pages(void **state)
{
    static struct answer answer;
    Ckpt__V1__GetPlacementHintsRequest ask = CKPT__V1__GET_PLACEMENT_HINTS_REQUEST__INIT;
    Ckpt__V1__GetPlacementHintsReply *reply;
    char token[16] = "", bad[] = "x", seen[64] = "";

    (void)state;
    for (int i = 0; i < 5; i++) {
        char id[16], request_id[16];

        snprintf(id, sizeof(id), "job%d", i);
        snprintf(request_id, sizeof(request_id), "r%d", i);
        ckpt__v1__mutation_reply__free_unpacked(register_allocation(request_id, id), NULL);
    }
    ask.page_size = 2;
    ask.page_token = token;
    do {
        call(BROKER("GetPlacementHints"), &ask.base, &answer);
        expect(&answer, RPC_OK, "");
        reply = ckpt__v1__get_placement_hints_reply__unpack(NULL, answer.length, answer.bytes);
        assert_true(reply->n_hints <= 2);
        for (size_t i = 0; i < reply->n_hints; i++)
            strcat(strcat(seen, reply->hints[i]->allocation_id), " ");
        assert_true(strlen(reply->next_page_token) < sizeof(token));
        strcpy(token, reply->next_page_token);
        ckpt__v1__get_placement_hints_reply__free_unpacked(reply, NULL);
    } while (token[0] != '\0');
    assert_string_equal(seen, "job0 job1 job2 job3 job4 ");
    ask.page_token = bad;
    call(BROKER("GetPlacementHints"), &ask.base, &answer);
    assert_int_equal(answer.status, RPC_INVALID_ARGUMENT);
    ask.page_token = token;
    ask.page_size = 1001;
    call(BROKER("GetPlacementHints"), &ask.base, &answer);
    assert_int_equal(answer.status, RPC_INVALID_ARGUMENT);
}

static void placement_advice_follows_the_estimated_write_time(void **state)
{
    static const uint64_t told_ms[] = {60000, 240000, 3600000};
    static const uint32_t told_ppm[] = {250000, 200000, 100000};
    static struct answer answer;
    Ckpt__V1__GetPlacementHintsRequest ask = CKPT__V1__GET_PLACEMENT_HINTS_REQUEST__INIT;
    Ckpt__V1__GetPlacementHintsReply *reply;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
    struct fsm_allocation allocation = {.id = "j", .node_count = 1, .write_estimate_ms = 60000};

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("r", "job"), NULL);
    call(BROKER("GetPlacementHints"), &ask.base, &answer);
    expect(&answer, RPC_OK, "");
    reply = ckpt__v1__get_placement_hints_reply__unpack(NULL, answer.length, answer.bytes);
    assert_uint_equal(reply->n_hints, 1);
    assert_true(reply->hints[0]->checkpoint_efficiency_ppm > 0);
    assert_true(reply->hints[0]->checkpoint_efficiency_ppm <= 1000000);
    assert_string_equal(reply->hints[0]->why, "");
    assert_false(reply->hints[0]->non_preemptible);
    assert_uint_equal(reply->hints[0]->borrowed_penalty_ppm,
                      1000000 - reply->hints[0]->checkpoint_efficiency_ppm); /* */
    assert_uint_equal(reply->hints[0]->checkpoint_weight_ppm, 50000);        /* HPC */
    ckpt__v1__get_placement_hints_reply__free_unpacked(reply, NULL);
    policy.default_write_bytes_per_s = 1000;
    assert_uint_equal(translate_checkpoint_efficiency(&policy, &allocation), 500000);
    allocation.write_estimate_ms = 0;
    allocation.size_estimate_bytes = 180000; /* three minutes */
    assert_uint_equal(translate_checkpoint_efficiency(&policy, &allocation), 250000);
    policy.checkpoint_timeout_ms = 540000;
    for (size_t i = 0; i < 3; i++) { /* S1-040: its application's word can only lengthen it */
        allocation.told_write_ms = told_ms[i];
        assert_uint_equal(translate_checkpoint_efficiency(&policy, &allocation), told_ppm[i]);
    }
    allocation.write_estimate_ms = 60000;
    assert_uint_equal(translate_checkpoint_efficiency(&policy, &allocation), 500000);
    allocation.strategy = CKPT__V1__STRATEGY__STRATEGY_NONE;
    assert_uint_equal(translate_checkpoint_efficiency(&policy, &allocation), 0);
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, a_preemptions_progress_is_answered),
        WITH(open_one, placement_advice_comes_in_pages),
        WITH(open_one, placement_advice_follows_the_estimated_write_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
