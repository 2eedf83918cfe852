/* Batches are entries that decode to what went in, and requests with NUL bytes in texts are
 * found. */
#include "tests/support/test.h"

#include "src/broker/api/texts.h"
#include "src/broker/replica/batch.h"

static int told[3];

static void count_outcome(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    assert_null(failed);
    assert_non_null(outcome);
    told[*(int *)data]++;
}

static void count_failure(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    assert_non_null(failed);
    assert_null(outcome);
    told[*(int *)data]++;
}

static void append(struct batch *batch, const char *id, size_t padding, replica_done_fn *done,
                   void *data)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    char *text = malloc(padding + 1);

    memset(text, 'x', padding);
    text[padding] = '\0';
    command.now_ms = 1700000000000;
    command.request_id = (char *)(uintptr_t)id;
    end.allocation_id = text;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &end;
    batch_append(batch, &command, ckpt__log__v1__command__get_packed_size(&command), done, data);
    free(text);
}

static void a_batch_decodes_as_the_entry_that_protobuf_would_write(void **state)
{
    /* Lengths around the borders of the length's own encoding: 1, 2 and 3 bytes. */
    static const size_t paddings[] = {0, 1, 80, 90, 100, 120, 127, 128, 129, 16000, 16383, 16400};
    struct batch *batch = batch_new();
    Ckpt__Log__V1__Entry *entry;
    uint8_t *again;
    size_t size;

    (void)state;
    for (size_t i = 0; i < sizeof(paddings) / sizeof(paddings[0]); i++)
        append(batch, "r", paddings[i], NULL, NULL);
    entry = ckpt__log__v1__entry__unpack(NULL, batch->bytes.length, batch->bytes.bytes);
    assert_non_null(entry);
    assert_uint_equal(entry->n_commands, sizeof(paddings) / sizeof(paddings[0]));
    for (size_t i = 0; i < entry->n_commands; i++)
        assert_uint_equal(strlen(entry->commands[i]->end_allocation->allocation_id), paddings[i]);
    size = ckpt__log__v1__entry__get_packed_size(entry);
    assert_uint_equal(size, batch->bytes.length);
    again = malloc(size);
    ckpt__log__v1__entry__pack(entry, again);
    assert_memory_equal(again, batch->bytes.bytes, size);
    free(again);
    ckpt__log__v1__entry__free_unpacked(entry, NULL);
    batch_free(batch);
}

static void a_batch_is_full_by_commands_or_by_bytes(void **state)
{
    struct batch *batch = batch_new();

    (void)state;
    for (size_t i = 0; i < REPLICA_ENTRY_COMMANDS; i++) {
        assert_true(batch_fits(batch, 40));
        append(batch, "r", 1, NULL, NULL);
    }
    assert_false(batch_fits(batch, 1));
    batch_free(batch);
    batch = batch_new();
    assert_true(batch_fits(batch, FSM_COMMAND_MAX_BYTES));
    append(batch, "r", 400000, NULL, NULL);
    assert_false(batch_fits(batch, FSM_COMMAND_MAX_BYTES));
    assert_true(batch_fits(batch, 1000));
    batch_free(batch);
}

static void a_cleared_batch_is_as_a_new_one(void **state)
{
    struct batch *batch = batch_new();
    const struct batch new = *batch;

    (void)state;
    for (size_t i = 0; i < 100; i++)
        append(batch, "before", 100, count_outcome, NULL);
    batch->first = true;
    batch->proposed_us = 17;
    batch_clear(batch);
    assert_true(list_empty(&batch->node));
    assert_uint_equal(batch->count, new.count);
    assert_uint_equal(batch->bytes.length, new.bytes.length);
    assert_uint_equal(batch->proposed_us, new.proposed_us);
    assert_int_equal(batch->first, new.first);
    assert_true(batch->bytes.capacity > 0 && batch->capacity > 0); /* the memory stays */
    batch_free(batch);
}

static void each_waiter_is_told_once(void **state)
{
    struct batch *batch = batch_new();
    const struct err lost = {ERR_TIMEOUT, "lost"};
    const struct fsm_outcome outcome = {.status = FSM_OK};
    int numbers[] = {0, 1, 2};

    (void)state;
    memset(told, 0, sizeof(told));
    append(batch, "a", 1, count_outcome, &numbers[0]);
    append(batch, "b", 1, NULL, NULL);
    append(batch, "c", 1, count_failure, &numbers[2]);
    batch_outcome(batch, 0, &outcome);
    batch_outcome(batch, 1, &outcome);
    batch_fail(batch, &lost);
    assert_int_equal(told[0], 1);
    assert_int_equal(told[2], 1);
    batch_free(batch);
}

static bool holds_nul(const void *bytes, size_t length)
{
    return texts_hold_nul(&ckpt__v1__register_allocation_request__descriptor, bytes, length);
}

static void a_nul_byte_in_a_text_is_found_at_any_depth(void **state)
{
    /* request_id = 1; spec = 2 {allocation_id = 1, nodes = 10 {node_id = 1}, preemption_class =
     * 6} */
    static const uint8_t clean[] = "\x0a\x01r\x12\x08\x0a\x01"
                                   "a\x52\x03\x0a\x01n";
    static const uint8_t top[] = "\x0a\x03r\0s\x12\x08\x0a\x01"
                                 "a\x52\x03\x0a\x01n";
    static const uint8_t deep[] = "\x0a\x01r\x12\x09\x0a\x01"
                                  "a\x52\x04\x0a\x02n\0";
    static const uint8_t zero_number[] = "\x0a\x01r\x12\x05\x0a\x01"
                                         "a\x30\0";
    static const uint8_t cut[] = "\x0a\x05r\0";

    (void)state;
    assert_false(holds_nul(clean, sizeof(clean) - 1));
    assert_true(holds_nul(top, sizeof(top) - 1));
    assert_true(holds_nul(deep, sizeof(deep) - 1));
    assert_false(holds_nul(zero_number, sizeof(zero_number) - 1));
    assert_false(holds_nul(cut, sizeof(cut) - 1));
    assert_false(holds_nul("", 0));
}

static void random_bytes_never_overrun(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t length = test_random(&seed) % 64;
        uint8_t *bytes = malloc(length + 1);

        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)(test_random(&seed) % (round % 2 == 0 ? 256 : 24));
        holds_nul(bytes, length);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_decodes_as_the_entry_that_protobuf_would_write),
        cmocka_unit_test(a_batch_is_full_by_commands_or_by_bytes),
        cmocka_unit_test(a_cleared_batch_is_as_a_new_one),
        cmocka_unit_test(each_waiter_is_told_once),
        cmocka_unit_test(a_nul_byte_in_a_text_is_found_at_any_depth),
        cmocka_unit_test(random_bytes_never_overrun),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
