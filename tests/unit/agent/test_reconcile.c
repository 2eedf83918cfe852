/* The table of orders against what is in hand (I22, I25, F-027). */
#include "src/agent/job/reconcile.h"
#include "src/base/id.h"
#include "tests/support/test.h"

static char job[] = "job-1";
static char path[] = "/scratch/t/p/job-1/checkpoints/1-42";
static char prefix[] = "/scratch";
static uint64_t set_epoch = 1;
static uint64_t set_early;

static size_t reconcile_orders(const struct hand *hands, size_t hand_count,
                               Ckpt__V1__Order **orders, size_t order_count, struct step *ret_steps)
{
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;

    set.epoch = set_epoch;
    set.orders = orders;
    set.n_orders = order_count;
    return reconcile(hands, hand_count, &set, set_early, ret_steps);
}

static Ckpt__V1__Order checkpoint_order(uint64_t id, uint32_t attempt)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    order.kind = CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT;
    order.allocation_id = job;
    order.checkpoint_id = id;
    order.attempt = attempt;
    order.path = path;
    order.target_prefix = prefix;
    order.timeout_ms = 1000;
    return order;
}

static Ckpt__V1__Order terminate_order(void)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    order.kind = CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE;
    order.allocation_id = job;
    return order;
}

/* The steps for one hand (NULL: none) and one order (NULL: none) as a text: "START", "CANCEL
 * TERMINATE", "". */
static const char *steps_of(const struct hand *hand, Ckpt__V1__Order *first,
                            Ckpt__V1__Order *second)
{
    static const char *const names[] = {"",      "START", "CANCEL",  "EXTEND",
                                        "HURRY", "AFTER", "BARRIER", "TERMINATE",
                                        "LATER", "END",   "IGNORE"};
    static char text[64];
    Ckpt__V1__Order *orders[2];
    struct step steps[8];
    size_t order_count = 0;
    size_t count;

    if (first != NULL)
        orders[order_count++] = first;
    if (second != NULL)
        orders[order_count++] = second;
    count = reconcile_orders(hand, hand != NULL ? 1 : 0, orders, order_count, steps);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, names[steps[i].kind]);
        assert_string_equal(steps[i].allocation_id, job);
    }
    return text;
}

static void order_that_was_never_seen_starts(void **state)
{
    Ckpt__V1__Order order = checkpoint_order(42, 1);
    struct hand fresh = {.allocation_id = job};

    (void)state;
    assert_string_equal(steps_of(NULL, &order, NULL), "START");
    assert_string_equal(steps_of(&fresh, &order, NULL), "START");
}

static void attempt_that_was_started_never_starts_again(void **state)
{
    struct hand ended = {.allocation_id = job, .checkpoint_id = 42, .attempt = 2};
    Ckpt__V1__Order same = checkpoint_order(42, 2);
    Ckpt__V1__Order earlier_attempt = checkpoint_order(42, 1);
    Ckpt__V1__Order earlier_id = checkpoint_order(41, 9);

    (void)state;
    assert_string_equal(steps_of(&ended, &same, NULL), "");
    assert_string_equal(steps_of(&ended, &earlier_attempt, NULL), "");
    assert_string_equal(steps_of(&ended, &earlier_id, NULL), "");
}

static void later_attempt_and_later_checkpoint_start(void **state)
{
    struct hand ended = {.allocation_id = job, .checkpoint_id = 42, .attempt = 2};
    Ckpt__V1__Order attempt = checkpoint_order(42, 3);
    Ckpt__V1__Order id = checkpoint_order(43, 1);

    (void)state;
    assert_string_equal(steps_of(&ended, &attempt, NULL), "START");
    assert_string_equal(steps_of(&ended, &id, NULL), "START");
}

static void withdrawn_order_cancels_once(void **state)
{
    struct hand busy = {
        .allocation_id = job, .checkpoint_id = 42, .attempt = 1, .busy = true, .timeout_ms = 1000};
    Ckpt__V1__Order same = checkpoint_order(42, 1);

    (void)state;
    assert_string_equal(steps_of(&busy, &same, NULL), "");
    assert_string_equal(steps_of(&busy, NULL, NULL), "CANCEL");
    busy.cancelling = true;
    assert_string_equal(steps_of(&busy, NULL, NULL), "");
}

static void newer_order_waits_until_the_older_attempt_is_cleaned(void **state)
{
    struct hand busy = {
        .allocation_id = job, .checkpoint_id = 42, .attempt = 1, .busy = true, .timeout_ms = 1000};
    Ckpt__V1__Order newer = checkpoint_order(42, 2);

    (void)state;
    assert_string_equal(steps_of(&busy, &newer, NULL), "CANCEL");
    busy.cancelling = true;
    assert_string_equal(steps_of(&busy, &newer, NULL), "");
    busy.busy = busy.cancelling = false;
    assert_string_equal(steps_of(&busy, &newer, NULL), "START");
}

static void extension_is_taken_once(void **state)
{
    struct hand busy = {
        .allocation_id = job, .checkpoint_id = 42, .attempt = 1, .busy = true, .timeout_ms = 1000};
    Ckpt__V1__Order extended = checkpoint_order(42, 1);

    (void)state;
    extended.timeout_ms = busy.timeout_ms + 1;
    assert_string_equal(steps_of(&busy, &extended, NULL), "EXTEND");
    busy.timeout_ms++;
    assert_string_equal(steps_of(&busy, &extended, NULL), "");
    busy = (struct hand){.allocation_id = job, .checkpoint_id = 42, .attempt = 1};
    assert_string_equal(steps_of(&busy, &extended, NULL), "");
}

/* What was put off begins when no deferral is left, once: it is asked again then. */
static void what_is_put_off_no_longer_is_hurried(void **state)
{
    struct hand busy = {
        .allocation_id = job, .checkpoint_id = 42, .attempt = 1, .busy = true, .timeout_ms = 1000};
    Ckpt__V1__Order order = checkpoint_order(42, 1);
    Ckpt__V1__Order next = checkpoint_order(42, 2);

    (void)state;
    order.timeout_ms = busy.timeout_ms;
    order.max_deferral_ms = 5000;
    busy.put_off = true;
    assert_string_equal(steps_of(&busy, &order, NULL), "");
    order.max_deferral_ms = 0;
    assert_string_equal(steps_of(&busy, &order, NULL), "HURRY");
    order.timeout_ms++;
    assert_string_equal(steps_of(&busy, &order, NULL), "HURRY");
    assert_string_equal(steps_of(&busy, &next, NULL), "CANCEL");
    busy.put_off = false;
    order.timeout_ms--;
    assert_string_equal(steps_of(&busy, &order, NULL), "");
}

static void a_barrier_that_moves_is_told(void **state)
{
    struct hand hand = {
        .allocation_id = job, .checkpoint_id = 42, .attempt = 1, .busy = true, .timeout_ms = 1000};
    Ckpt__V1__Order order = checkpoint_order(42, 1);

    (void)state;
    order.barrier = CKPT__V1__BARRIER_PHASE__BARRIER_PHASE_STEPPING;
    assert_string_equal(steps_of(&hand, &order, NULL), "BARRIER");
    hand.barrier = order.barrier;
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    order.agreed_step = 128;
    assert_string_equal(steps_of(&hand, &order, NULL), "BARRIER");
    hand.busy = false;
    assert_string_equal(steps_of(&hand, &order, NULL), "");
}

static void terminate_is_carried_out_once(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400)};
    Ckpt__V1__Order order = terminate_order();

    (void)state;
    order.run = hand.run;
    assert_string_equal(steps_of(NULL, &order, NULL), "TERMINATE");
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    hand.stopping = true;
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    hand.stopping = false;
    hand.terminated = true;
    hand.ended_run = hand.run;
    assert_string_equal(steps_of(&hand, &order, NULL), "");
}

/* Found by the simulator (seed 307913): a leader that had been stopped heard that the job ran
 * again, and ended it. */
static void orders_from_before_a_run_began_are_not_meant_for_it(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400)};
    Ckpt__V1__Order order = terminate_order();
    Ckpt__V1__Order checkpoint = checkpoint_order(42, 1);

    (void)state;
    order.run = checkpoint.run = run_make(1, 399);
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    assert_string_equal(steps_of(&hand, &checkpoint, NULL), "");
    order.run = checkpoint.run = run_make(1, 400);
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    assert_string_equal(steps_of(&hand, &checkpoint, NULL), "START");
    /* to end is meant for all that began before as well, and for what is not known */
    order.run = run_make(1, 401);
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    hand.run = 0;
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
}

/* The state of a cluster that was restored from a backup knows of no later run. */
static void orders_of_a_later_epoch_are_meant_for_any_run(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400)};
    Ckpt__V1__Order order = terminate_order();

    (void)state;
    order.run = run_make(1, 300);
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    set_epoch = 2;
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    hand.terminated = true;
    hand.ended_run = run_make(1, 400);
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    hand.ended_epoch = 2; /* answered: once is enough, however long the broker takes to hear it */
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    set_epoch = 3;
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    set_epoch = 1;
}

static void each_run_is_terminated_once(void **state)
{
    struct hand hand = {.allocation_id = job,
                        .run = run_make(1, 400),
                        .ended_run = run_make(1, 400),
                        .terminated = true};
    Ckpt__V1__Order order = terminate_order();

    (void)state;
    order.run = run_make(1, 400);
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    order.run = run_make(1, 401);
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
}

/* Of a set that names this run of the job (0: not the job), derived when runs up to that had
 * begun. */
static const char *steps_of_set(const struct hand *hand, uint64_t named, uint64_t runs_until)
{
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT, *parts[] = {&part};
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    struct step steps[4];
    size_t count;

    part.allocation_id = job;
    part.run = named;
    set.epoch = set_epoch;
    set.runs_until = runs_until;
    set.parts = parts;
    set.n_parts = named != 0;
    count = reconcile(hand, 1, &set, 0, steps);
    assert_true(count <= 1);
    return count == 0 ? "" : steps[0].kind == STEP_END ? "END" : "other";
}

/* F-006, F-022: ended, started again or elsewhere while the node was away. */
static void what_a_set_does_not_name_ends(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400), .runs = true};
    uint64_t now = run_make(1, 900);

    (void)state;
    assert_string_equal(steps_of_set(&hand, run_make(1, 400), now), "");
    assert_string_equal(steps_of_set(&hand, 0, now), "END");
    assert_string_equal(steps_of_set(&hand, run_make(1, 500), now), "END");
    assert_string_equal(steps_of_set(&hand, run_make(1, 300), now), "END");
    hand.stopping = true;
    assert_string_equal(steps_of_set(&hand, 0, now), "");
    hand.stopping = hand.runs = false;
    assert_string_equal(steps_of_set(&hand, 0, now), "");
}

/* I39: the restart point that named the run came before the set that does not know it yet. */
static void a_set_from_before_a_run_began_does_not_end_it(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400), .runs = true};

    (void)state;
    assert_string_equal(steps_of_set(&hand, 0, run_make(1, 399)), "");
    assert_string_equal(steps_of_set(&hand, run_make(1, 300), run_make(1, 399)), "");
    assert_string_equal(steps_of_set(&hand, 0, run_make(1, 400)), "END");
    hand.run = run_make(2, 10); /* nor one from before a restore */
    assert_string_equal(steps_of_set(&hand, 0, run_make(1, 900)), "");
}

/* There are more parts than it holds. */
static void a_set_that_does_not_name_all_ends_nothing(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400), .runs = true};

    (void)state;
    assert_string_equal(steps_of_set(&hand, 0, 0), "");
    hand.run = 0;
    assert_string_equal(steps_of_set(&hand, 0, 0), "");
}

static void what_has_no_run_ends(void **state)
{
    struct hand hand = {.allocation_id = job, .runs = true};

    (void)state;
    assert_string_equal(steps_of_set(&hand, run_make(1, 400), run_make(1, 400)), "END");
}

/* The state of a cluster that was restored from a backup knows of no later run, and goes on with
 * what runs. */
static void a_later_run_of_an_epoch_before_is_the_one_that_is_named(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400), .runs = true};

    (void)state;
    set_epoch = 2;
    assert_string_equal(steps_of_set(&hand, run_make(1, 300), run_make(2, 310)), "");
    assert_string_equal(steps_of_set(&hand, run_make(2, 311), run_make(2, 311)), "END");
    assert_string_equal(steps_of_set(&hand, 0, run_make(2, 310)), "END");
    hand.run = run_make(2, 305);
    assert_string_equal(steps_of_set(&hand, run_make(1, 300), run_make(2, 310)), "END");
    set_epoch = 1;
}

/* Also before the ckpt-run that is there knows for which run it would start one. */
static void an_order_to_terminate_is_of_its_run(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400)};
    Ckpt__V1__Order order = terminate_order();

    (void)state;
    order.run = run_make(1, 400);
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    hand.run = run_make(1, 450);
    assert_string_equal(steps_of(&hand, &order, NULL), "");
}

/* Just after the agent's start a ckpt-run may be about to attach what is to be ended. */
static void an_order_to_terminate_waits_for_who_may_come(void **state)
{
    struct hand hand = {.allocation_id = job};
    Ckpt__V1__Order order = terminate_order();

    (void)state;
    set_early = UINT64_MAX;
    assert_string_equal(steps_of(NULL, &order, NULL), "LATER");
    assert_string_equal(steps_of(&hand, &order, NULL), "LATER");
    hand.runs = true;
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    hand.runs = false;
    hand.ended = true;
    assert_string_equal(steps_of(&hand, &order, NULL), "TERMINATE");
    order.run = run_make(1, 400); /* it began in this agent's life */
    set_early = run_make(1, 399);
    assert_string_equal(steps_of(NULL, &order, NULL), "TERMINATE");
    set_early = run_make(1, 400);
    assert_string_equal(steps_of(NULL, &order, NULL), "LATER");
    set_early = 0;
    assert_string_equal(steps_of(NULL, &order, NULL), "TERMINATE");
}

/* The order brings the reason and the grace. */
static void what_an_order_ends_is_not_ended_once_more(void **state)
{
    struct hand hand = {.allocation_id = job, .run = run_make(1, 400), .runs = true};
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__Order order = terminate_order();
    Ckpt__V1__Order *orders[] = {&order};
    struct step steps[4];

    (void)state;
    order.run = hand.run;
    set.epoch = 1;
    set.runs_until = run_make(1, 500);
    assert_uint_equal(reconcile(&hand, 1, &set, 0, steps), 1);
    assert_int_equal(steps[0].kind, STEP_END);
    set.orders = orders;
    set.n_orders = 1;
    assert_uint_equal(reconcile(&hand, 1, &set, 0, steps), 1);
    assert_int_equal(steps[0].kind, STEP_TERMINATE);
}

static void terminate_in_place_of_a_checkpoint_cancels_first(void **state)
{
    struct hand busy = {
        .allocation_id = job, .checkpoint_id = 42, .attempt = 1, .busy = true, .timeout_ms = 1000};
    Ckpt__V1__Order order = terminate_order();
    Ckpt__V1__Order same = checkpoint_order(42, 1);

    (void)state;
    assert_string_equal(steps_of(&busy, &order, NULL), "CANCEL TERMINATE");
    assert_string_equal(steps_of(&busy, &order, &same), "TERMINATE");
}

/* Only a defective leader sends it, and the agent goes on for its other jobs. */
static void of_two_orders_of_a_kind_the_first_is_taken(void **state)
{
    struct hand fresh = {.allocation_id = job}, ended = {.allocation_id = job, .checkpoint_id = 42};
    Ckpt__V1__Order first = checkpoint_order(42, 1), second = checkpoint_order(43, 1);
    Ckpt__V1__Order wrong = checkpoint_order(42, 0);
    Ckpt__V1__Order stop = terminate_order(), again = terminate_order();

    (void)state;
    assert_string_equal(steps_of(&fresh, &first, &second), "START IGNORE");
    assert_string_equal(steps_of(NULL, &first, &first), "START IGNORE");
    assert_string_equal(steps_of(&ended, &second, &first), "START IGNORE");
    assert_string_equal(steps_of(&fresh, &wrong, &second), "IGNORE START");
    assert_string_equal(steps_of(&fresh, &stop, &again), "TERMINATE IGNORE");
    assert_string_equal(steps_of(&fresh, &stop, &first), "TERMINATE START");
}

/* It would go on for a moment, and compute what its checkpoint does not have. */
static void what_stands_still_is_ended_and_not_let_go_before(void **state)
{
    struct hand still = {.allocation_id = job,
                         .checkpoint_id = 42,
                         .attempt = 1,
                         .busy = true,
                         .still = true,
                         .timeout_ms = 1000};
    Ckpt__V1__Order order = terminate_order();
    Ckpt__V1__Order same = checkpoint_order(42, 1);

    (void)state;
    assert_string_equal(steps_of(&still, &same, NULL), "");
    assert_string_equal(steps_of(&still, &order, NULL), "TERMINATE");
    assert_string_equal(steps_of(&still, NULL, NULL), "CANCEL"); /* it failed elsewhere */
    still.stopping = true;
    assert_string_equal(steps_of(&still, NULL, NULL), "");
}

static void order_of_another_allocation_withdraws_nothing_of_this_and_starts_there(void **state)
{
    struct hand busy = {.allocation_id = "job-2",
                        .checkpoint_id = 42,
                        .attempt = 1,
                        .busy = true,
                        .timeout_ms = 1000};
    Ckpt__V1__Order order = checkpoint_order(42, 1);
    Ckpt__V1__Order *orders[] = {&order};
    struct step steps[4];

    (void)state;
    assert_uint_equal(reconcile_orders(&busy, 1, orders, 1, steps), 2);
    assert_int_equal(steps[0].kind, STEP_CANCEL);
    assert_string_equal(steps[0].allocation_id, "job-2");
    assert_int_equal(steps[1].kind, STEP_START);
    assert_string_equal(steps[1].allocation_id, job);
}

static void senseless_orders_are_ignored(void **state)
{
    static char long_path[RECONCILE_PATH_MAX_BYTES + 1];
    static char climbing[] = "/scratch/../etc";
    static char climbing_at_the_end[] = "/scratch/..";
    static char dotted[] = "/scratch/a..b/..c";
    static char relative[] = "scratch";
    static char wrong_id[] = "a/b";
    Ckpt__V1__Order order = checkpoint_order(42, 1);

    (void)state;
    memset(long_path, '/', RECONCILE_PATH_MAX_BYTES);
    order.path = climbing;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order.path = climbing_at_the_end;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order.path = relative;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order.path = long_path;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order.path = dotted;
    assert_string_equal(steps_of(NULL, &order, NULL), "START");
    order.target_prefix = relative;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order = checkpoint_order(0, 1);
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order = checkpoint_order(42, 0);
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order = checkpoint_order(42, 1);
    order.timeout_ms = 0;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order = checkpoint_order(42, 1);
    order.max_deferral_ms = UINT64_MAX; /* sums of it would begin again at 0: the agent ended */
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order.kind = (Ckpt__V1__OrderKind)99;
    assert_string_equal(steps_of(NULL, &order, NULL), "IGNORE");
    order = checkpoint_order(42, 1);
    order.allocation_id = wrong_id;
    Ckpt__V1__Order *orders[] = {&order};
    struct step steps[4];
    assert_uint_equal(reconcile_orders(NULL, 0, orders, 1, steps), 1);
    assert_int_equal(steps[0].kind, STEP_IGNORE);
}

/* It is written already when it becomes the one with which the job ends. */
static void a_checkpoint_becomes_one_to_end_it(void **state)
{
    Ckpt__V1__Order order = checkpoint_order(5, 1);
    struct hand hand = {
        .allocation_id = job, .checkpoint_id = 5, .attempt = 1, .busy = true, .timeout_ms = 1000};

    (void)state;
    hand.after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    order.after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    assert_string_equal(steps_of(&hand, &order, NULL), "");
    order.after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_STOP;
    assert_string_equal(steps_of(&hand, &order, NULL), "AFTER");
    hand.after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_STOP;
    assert_string_equal(steps_of(&hand, &order, NULL), "");
}

/* A set from before it began says nothing of it. */
static void a_run_is_over_when_a_later_one_or_none_is_named(void **state)
{
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT, *parts[] = {&part};

    (void)state;
    assert_false(reconcile_run_over(NULL, job, 7));
    set.runs_until = 6;
    assert_false(reconcile_run_over(&set, job, 7));
    set.runs_until = 7;
    assert_true(reconcile_run_over(&set, job, 7));
    part.allocation_id = job;
    part.run = 7;
    set.parts = parts;
    set.n_parts = 1;
    assert_false(reconcile_run_over(&set, job, 7));
    part.run = 8;
    assert_true(reconcile_run_over(&set, job, 7));
    part.run = 5;
    assert_false(reconcile_run_over(&set, job, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_becomes_one_to_end_it),
        cmocka_unit_test(order_that_was_never_seen_starts),
        cmocka_unit_test(an_order_to_terminate_waits_for_who_may_come),
        cmocka_unit_test(what_an_order_ends_is_not_ended_once_more),
        cmocka_unit_test(attempt_that_was_started_never_starts_again),
        cmocka_unit_test(later_attempt_and_later_checkpoint_start),
        cmocka_unit_test(withdrawn_order_cancels_once),
        cmocka_unit_test(newer_order_waits_until_the_older_attempt_is_cleaned),
        cmocka_unit_test(extension_is_taken_once),
        cmocka_unit_test(what_is_put_off_no_longer_is_hurried),
        cmocka_unit_test(a_barrier_that_moves_is_told),
        cmocka_unit_test(terminate_is_carried_out_once),
        cmocka_unit_test(orders_from_before_a_run_began_are_not_meant_for_it),
        cmocka_unit_test(orders_of_a_later_epoch_are_meant_for_any_run),
        cmocka_unit_test(each_run_is_terminated_once),
        cmocka_unit_test(what_a_set_does_not_name_ends),
        cmocka_unit_test(a_set_from_before_a_run_began_does_not_end_it),
        cmocka_unit_test(a_set_that_does_not_name_all_ends_nothing),
        cmocka_unit_test(what_has_no_run_ends),
        cmocka_unit_test(a_later_run_of_an_epoch_before_is_the_one_that_is_named),
        cmocka_unit_test(an_order_to_terminate_is_of_its_run),
        cmocka_unit_test(terminate_in_place_of_a_checkpoint_cancels_first),
        cmocka_unit_test(of_two_orders_of_a_kind_the_first_is_taken),
        cmocka_unit_test(what_stands_still_is_ended_and_not_let_go_before),
        cmocka_unit_test(order_of_another_allocation_withdraws_nothing_of_this_and_starts_there),
        cmocka_unit_test(senseless_orders_are_ignored),
        cmocka_unit_test(a_run_is_over_when_a_later_one_or_none_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
