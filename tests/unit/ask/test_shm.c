/* Asking in shared memory: one request word and one done word for each rank (S1-034, S1-036,
 * S1-037). */
#include "src/app/ckptshm.h"

#include "src/base/check.h"
#include "tests/unit/ask/node.h"

static const struct ask_request request = {.checkpoint_id = 42,
                                           .attempt = 1,
                                           .hint = "1-42-1",
                                           .directory = "/w/out/1-42-1",
                                           .deadline_ms = 1000};

/* A job that maps the region; nothing else of a node is real. */
struct asking {
    struct application application;
    struct ask_target target;
    const struct ask_ops *ask;
    struct ask_call *call;
    struct heard heard;
    uv_loop_t loop;
};

static struct ckpt_shm *shm_of(struct asking *asking)
{
    return asking->application.region;
}

/* As ckpt_shm_open() takes it. */
static struct ckpt_shm_slot *slot_take(struct asking *asking, uint32_t rank)
{
    for (uint32_t i = 0; i < CKPT_SHM_SLOTS; i++) {
        struct ckpt_shm_slot *slot = &shm_of(asking)->slot[(rank + i) % CKPT_SHM_SLOTS];
        if (slot->owner != 0 && slot->owner != rank + 1)
            continue;
        slot->owner = rank + 1;
        return slot;
    }
    fail();
    return NULL;
}

static void open_asking(struct asking *asking)
{
    *asking = (struct asking){.ask = ask_find("shm")};
    asking->application.region = check_calloc(1, sizeof(struct ckpt_shm));
    assert_int_equal(uv_loop_init(&asking->loop), 0);
    asking->target = target_of(&asking->application);
    asking->target.loop = &asking->loop;
}

static void close_asking(struct asking *asking)
{
    asking->ask->hang_up(asking->call);
    uv_run(&asking->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&asking->loop), 0);
    free(asking->application.region);
}

static enum ask_ready preflight(struct asking *asking, char detail[200])
{
    return asking->ask->preflight(asking->ask, &asking->target, detail, 200);
}

static void fire(struct asking *asking, const struct ask_request *of)
{
    const struct ask_listener listener = {&heard_events, &asking->heard};
    struct err err = {0};

    asking->ask->hang_up(asking->call);
    asking->call = NULL;
    assert_int_equal(asking->ask->prepare(&asking->target, of, &err), 0);
    assert_int_equal(
        asking->ask->fire(asking->ask, &asking->target, of, &listener, &asking->call, &err), 0);
}

static enum ask_answer poll_of(struct asking *asking, const char *hint, size_t rank,
                               struct sentinel *ret_sentinel)
{
    struct err err = {0};

    return asking->ask->poll(&asking->target, hint, rank, ret_sentinel, &err);
}

/* S1-034: the flag, and beside it all that the rank needs. S1-037: no signal. */
static void a_request_is_a_word_that_rises_and_no_signal(void **state)
{
    struct ckpt_shm_slot *slot;
    struct asking asking;
    uint32_t word;

    (void)state;
    open_asking(&asking);
    slot = slot_take(&asking, 0);
    assert_int_equal(asking.ask->signal, 0);
    assert_int_equal(ckpt_shm_asked(slot), 0);
    fire(&asking, &request);
    word = ckpt_shm_asked(slot);
    assert_true(word != 0);
    assert_string_equal(shm_of(&asking)->hint, "1-42-1");
    assert_string_equal(shm_of(&asking)->directory, "/w/out/1-42-1");
    assert_int_equal(shm_of(&asking)->deadline_ms, 1000);
    assert_int_equal(asking.application.signals, 0);
    assert_int_equal(asking.application.raised, 1);
    fire(&asking, &request);
    assert_true(ckpt_shm_asked(slot) > word);
    assert_int_equal(asking.application.signals, 0);
    close_asking(&asking);
}

/* S1-036: each of the four states of the two words, and which of them is completion. */
static void completion_is_both_words_and_neither_alone(void **state)
{
    struct sentinel sentinel;

    (void)state;
    for (int cleared = 0; cleared < 2; cleared++) {
        for (int done = 0; done < 2; done++) {
            struct ckpt_shm_slot *slot;
            struct asking asking;
            uint32_t word;
            open_asking(&asking);
            slot = slot_take(&asking, 0);
            strcpy(slot->status, "0");
            fire(&asking, &request);
            word = ckpt_shm_asked(slot);
            slot->request = cleared ? word & ~UINT32_C(1) : word;
            slot->done = done ? word : 0;
            assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel),
                             cleared && done ? ASK_FINISHED : ASK_NOTHING_YET);
            close_asking(&asking);
        }
    }
}

/* S1-036: of the request before, of one that was withdrawn, and of one that nobody asked. */
static void a_stale_done_is_ignored(void **state)
{
    struct ask_request next = request;
    struct ckpt_shm_slot *slot;
    struct sentinel sentinel;
    struct asking asking;
    uint32_t first, second;

    (void)state;
    next.attempt = 2;
    next.hint = "1-42-2";
    next.directory = "/w/out/1-42-2";
    open_asking(&asking);
    slot = slot_take(&asking, 0);
    slot->done = 1; /* before the first request */
    strcpy(slot->status, "0");
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_NOTHING_YET);
    fire(&asking, &request);
    first = ckpt_shm_asked(slot);
    asking.ask->clear(&asking.target);
    assert_int_equal(ckpt_shm_asked(slot), 0);
    assert_int_equal(ckpt_shm_done(shm_of(&asking), slot, first, 7, "5"), -1);
    assert_int_equal(errno, ESTALE);
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_NOTHING_YET);
    fire(&asking, &next);
    second = ckpt_shm_asked(slot);
    assert_true(second != 0 && second != first);
    assert_int_equal(ckpt_shm_done(shm_of(&asking), slot, first, 7, "5"), -1);
    assert_int_equal(ckpt_shm_asked(slot), second); /* it clears nothing of another's */
    slot->request = second & ~UINT32_C(1);
    assert_int_equal(poll_of(&asking, "1-42-2", 0, &sentinel), ASK_NOTHING_YET);
    slot->request = second;
    assert_int_equal(ckpt_shm_done(shm_of(&asking), slot, second, 9, "6"), 0);
    assert_int_equal(poll_of(&asking, "1-42-2", 0, &sentinel), ASK_FINISHED);
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_NOTHING_YET);
    assert_uint_equal(sentinel.bytes, 9);
    assert_string_equal(sentinel.label, "6");
    close_asking(&asking);
}

/* A file `done` says nothing of a rank that has words. */
static void the_words_alone_count(void **state)
{
    struct sentinel sentinel;
    struct asking asking;

    (void)state;
    open_asking(&asking);
    (void)slot_take(&asking, 0);
    fire(&asking, &request);
    file_put(&asking.application, "done", "hint=1-42-1\nbytes=7\nstatus=0\n");
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_NOTHING_YET);
    close_asking(&asking);
}

static void each_rank_has_words_of_its_own(void **state)
{
    struct ckpt_shm_slot *slots[3];
    struct sentinel sentinel;
    struct asking asking;
    char detail[200];

    (void)state;
    open_asking(&asking);
    asking.application.rank_count = 3;
    /* the same slot by its number; and one with the library's stream, which needs none */
    asking.application.ranks[0] = (struct ask_rank){.number = 3, .pid = 71};
    asking.application.ranks[1] = (struct ask_rank){.number = 3 + CKPT_SHM_SLOTS, .pid = 72};
    asking.application.ranks[2] = (struct ask_rank){.number = 4, .pid = 73};
    slots[0] = slot_take(&asking, 3);
    slots[1] = slot_take(&asking, 3 + CKPT_SHM_SLOTS);
    assert_int_equal(preflight(&asking, detail), ASK_NO_HANDLER);
    assert_contains(detail, "rank 4 has not opened the shared memory of CKPT_SHM");
    slots[2] = slot_take(&asking, 4);
    assert_int_equal(preflight(&asking, detail), ASK_READY);
    fire(&asking, &request);
    assert_int_equal(asking.application.raised, 3);
    assert_int_equal(asking.application.signals + asking.application.rank_signals[0], 0);
    for (int i = 0; i < 3; i++)
        assert_true(ckpt_shm_asked(slots[i]) != 0);
    assert_int_equal(
        ckpt_shm_done(shm_of(&asking), slots[1], ckpt_shm_asked(slots[1]), 11, "step-1"), 0);
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_NOTHING_YET);
    assert_int_equal(poll_of(&asking, "1-42-1", 1, &sentinel), ASK_FINISHED);
    assert_uint_equal(sentinel.bytes, 11);
    assert_string_equal(sentinel.label, "step-1");
    assert_int_equal(poll_of(&asking, "1-42-1", 2, &sentinel), ASK_NOTHING_YET);
    assert_int_equal(
        ckpt_shm_failed(shm_of(&asking), slots[2], ckpt_shm_asked(slots[2]), "disk full"), 0);
    assert_int_equal(poll_of(&asking, "1-42-1", 2, &sentinel), ASK_FINISHED);
    assert_string_equal(sentinel.status, "disk full");
    close_asking(&asking);
}

static void who_cannot_be_asked_is_named_with_the_next_step(void **state)
{
    struct asking asking;
    char detail[200];
    struct err err = {0};

    (void)state;
    open_asking(&asking);
    assert_int_equal(preflight(&asking, detail), ASK_NO_HANDLER);
    assert_contains(detail, "rank 0 has not opened the shared memory of CKPT_SHM: call "
                            "ckpt_shm_open()");
    (void)slot_take(&asking, 5);
    assert_int_equal(preflight(&asking, detail), ASK_NO_HANDLER);
    assert_contains(detail, "rank 5 has opened the shared memory, and nothing numbers ranks here");
    (void)slot_take(&asking, 0);
    assert_int_equal(preflight(&asking, detail), ASK_NO_HANDLER);
    assert_contains(detail, "2 processes have opened the shared memory as ranks of their own");
    assert_contains(detail, "--ranks 2");
    free(asking.application.region);
    asking.application.region = NULL;
    assert_int_equal(preflight(&asking, detail), ASK_NO_HANDLER);
    assert_contains(detail, "there is no shared memory");
    assert_int_equal(asking.ask->prepare(&asking.target, &request, &err), 0);
    assert_int_equal(asking.ask->fire(asking.ask, &asking.target, &request,
                                      &(struct ask_listener){&heard_events, &asking.heard},
                                      &asking.call, &err),
                     -1);
    assert_null(asking.call);
    close_asking(&asking);
}

/* The region tells an agent that restarts, also one that was killed before it raised any word. */
static void an_agent_that_restarts_finds_question_and_answer(void **state)
{
    struct ckpt_shm_slot *slot;
    struct sentinel sentinel;
    struct asking asking;
    struct err err = {0};

    (void)state;
    open_asking(&asking);
    slot = slot_take(&asking, 0);
    assert_null(asking.ask->lost);
    assert_int_equal(asking.ask->prepare(&asking.target, &request, &err), 0);
    assert_false(asking.ask->prepared(&asking.target, "1-42-1"));
    fire(&asking, &request);
    asking.ask->hang_up(asking.call);
    asking.call = NULL;
    assert_true(asking.ask->prepared(&asking.target, "1-42-1"));
    assert_false(asking.ask->prepared(&asking.target, "1-42-2"));
    assert_int_equal(ckpt_shm_done(shm_of(&asking), slot, ckpt_shm_asked(slot), 3, NULL), 0);
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_FINISHED);
    asking.ask->clear(&asking.target);
    assert_false(asking.ask->prepared(&asking.target, "1-42-1"));
    assert_int_equal(poll_of(&asking, "1-42-1", 0, &sentinel), ASK_NOTHING_YET);
    close_asking(&asking);
}

static void an_answer_is_heard_while_the_question_is_open(void **state)
{
    struct ckpt_shm_slot *slot;
    struct asking asking;

    (void)state;
    open_asking(&asking);
    slot = slot_take(&asking, 0);
    fire(&asking, &request);
    for (int i = 0; i < 5; i++)
        uv_run(&asking.loop, UV_RUN_ONCE);
    assert_int_equal(asking.heard.answered, 0);
    assert_int_equal(ckpt_shm_done(shm_of(&asking), slot, ckpt_shm_asked(slot), 3, NULL), 0);
    while (asking.heard.answered == 0)
        uv_run(&asking.loop, UV_RUN_ONCE);
    close_asking(&asking);
}

/* Whoever maps the region can write anything there. */
static void what_is_wrong_in_the_region_is_told(void **state)
{
    struct ckpt_shm_slot *slot;
    struct sentinel sentinel;
    struct asking asking;
    struct err err = {0};

    (void)state;
    open_asking(&asking);
    slot = slot_take(&asking, 0);
    fire(&asking, &request);
    slot->done = slot->request;
    slot->request &= ~UINT32_C(1);
    assert_int_equal(asking.ask->poll(&asking.target, "1-42-1", 0, &sentinel, &err), ASK_WRONG);
    assert_contains(err.text, "without a status");
    memset(slot->status, 'x', sizeof(slot->status));
    memset(slot->label, 'y', sizeof(slot->label));
    assert_int_equal(asking.ask->poll(&asking.target, "1-42-1", 0, &sentinel, &err), ASK_WRONG);
    assert_contains(err.text, "its label in the shared memory is not 1 to 64");
    memset(slot->label, 0, sizeof(slot->label));
    slot->status[3] = '\n';
    assert_int_equal(asking.ask->poll(&asking.target, "1-42-1", 0, &sentinel, &err), ASK_FINISHED);
    assert_int_equal(strlen(sentinel.status), SENTINEL_STATUS_MAX_BYTES);
    assert_int_equal(sentinel.status[3], '?');
    close_asking(&asking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_a_word_that_rises_and_no_signal),
        cmocka_unit_test(completion_is_both_words_and_neither_alone),
        cmocka_unit_test(a_stale_done_is_ignored),
        cmocka_unit_test(the_words_alone_count),
        cmocka_unit_test(each_rank_has_words_of_its_own),
        cmocka_unit_test(who_cannot_be_asked_is_named_with_the_next_step),
        cmocka_unit_test(an_agent_that_restarts_finds_question_and_answer),
        cmocka_unit_test(an_answer_is_heard_while_the_question_is_open),
        cmocka_unit_test(what_is_wrong_in_the_region_is_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
