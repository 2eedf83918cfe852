/* The pool of threads, what it shares, and which chunks a sample takes. */
#include <pthread.h>
#include <unistd.h>

#include "src/dest/manifest.h"
#include "src/dest/pool.h"
#include "src/dest/sample.h"
#include "tests/support/test.h"

enum { ITEMS = 1000 };

/* What items leave; those that fail do so by their number. */
struct tally {
    pthread_mutex_t lock;
    unsigned done[ITEMS];
    size_t begun;
    size_t fails_from;
    struct copier *copiers[POOL_THREADS_MAX];
    unsigned copier_count;
};

static void note_copier(struct tally *tally, struct copier *copier)
{
    for (unsigned i = 0; i < tally->copier_count; i++) {
        if (tally->copiers[i] == copier)
            return;
    }
    assert_true(tally->copier_count < POOL_THREADS_MAX);
    tally->copiers[tally->copier_count++] = copier;
}

static int do_item(void *context, size_t item, struct copier *copier, struct err *err)
{
    struct tally *tally = context;

    pthread_mutex_lock(&tally->lock);
    tally->done[item]++;
    tally->begun++;
    note_copier(tally, copier);
    pthread_mutex_unlock(&tally->lock);
    usleep(50);
    return item < tally->fails_from ? 0 : err_set(err, ERR_IO, "item %zu", item);
}

static void each_item_is_done_once_by_a_bounded_number_of_threads(void **state)
{
    static const unsigned threads[] = {1, 3, POOL_THREADS_MAX};

    (void)state;
    for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++) {
        struct tally tally = {.lock = PTHREAD_MUTEX_INITIALIZER, .fails_from = ITEMS};
        struct pool pool;

        pool_init(&pool, threads[k], 0);
        assert_int_equal(pool_run(&pool, ITEMS, do_item, &tally, NULL), 0);
        assert_int_equal(pool_run(&pool, 0, do_item, &tally, NULL), 0);
        pool_close(&pool);
        for (size_t i = 0; i < ITEMS; i++)
            assert_uint_equal(tally.done[i], 1);
        assert_true(tally.copier_count <= threads[k]);
    }
}

static void the_first_failure_ends_the_work_and_is_told(void **state)
{
    struct tally tally = {.lock = PTHREAD_MUTEX_INITIALIZER, .fails_from = 100};
    struct pool pool;
    struct err err;

    (void)state;
    pool_init(&pool, 4, 0);
    assert_int_equal(pool_run(&pool, ITEMS, do_item, &tally, &err), -1);
    pool_close(&pool);
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.text, "item 100"); /* whichever thread was the first to fail */
    assert_true(tally.begun <= 100 + 4);
}

static int book_item(void *context, size_t item, struct copier *copier, struct err *err)
{
    (void)context;
    (void)item;
    (void)err;
    pace_book(copier->pace, 1000);
    return 0;
}

static void all_threads_together_keep_the_rate(void **state)
{
    struct pool pool;
    uint64_t begin_us;

    (void)state;
    pool_init(&pool, 4, 100000);
    begin_us = pace_clock_us();
    assert_int_equal(pool_run(&pool, 40, book_item, NULL, NULL), 0);
    pool_close(&pool);
    assert_true(pace_clock_us() - begin_us >= 390000); /* 40,000 bytes at 100,000 a second */
}

static void a_sample_is_one_of_sixteen_with_both_ends_and_its_seed_says_which(void **state)
{
    const struct sample sampled = {SAMPLE_SAMPLED, 42, SIZE_MAX},
                        other = {SAMPLE_SAMPLED, 43, SIZE_MAX};
    const struct sample never = {SAMPLE_NEVER, 42, SIZE_MAX},
                        always = {SAMPLE_ALWAYS, 42, SIZE_MAX};
    unsigned taken = 0, differ = 0, files = 0;

    (void)state;
    for (size_t i = 0; i < 16000; i++) {
        bool takes = sample_takes(&sampled, 3, i, 16000);

        taken += takes;
        differ += takes != sample_takes(&other, 3, i, 16000);
        files += sample_takes(&sampled, i, 0, 0);
        assert_true(takes == sample_takes(&sampled, 3, i, 16000));
        assert_false(sample_takes(&never, i, 0, 2));
        assert_true(sample_takes(&always, i, 0, 0));
        assert_true(sample_takes(&sampled, i, 0, 2) && sample_takes(&sampled, i, 1, 2));
    }
    assert_in_range(taken, 850, 1150);
    assert_in_range(files, 850, 1150);
    assert_true(differ > 1000);
}

static bool takes_any(const struct manifest *manifest)
{
    struct sample sample = {.policy = SAMPLE_SAMPLED};
    bool any = false;

    sample_draw(&sample, manifest);
    for (size_t i = 0; i < manifest->count; i++)
        any |= !manifest->entries[i].is_directory && sample_takes(&sample, i, 0, 0);
    return any;
}

/* Most checkpoints of small models have few and small files: one of sixteen of them is often none.
 */
static void a_sample_of_few_small_files_has_one_and_of_a_tiny_shard_all(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct manifest manifest;
    struct sample sample = {.policy = SAMPLE_SAMPLED}, never = {.policy = SAMPLE_NEVER};
    struct err err;

    (void)state;
    manifest_init(&manifest);
    manifest_add(&manifest, "0folder", true);
    for (size_t i = 0; i < 3; i++)
        manifest_add(&manifest, names[i], false)->size_bytes = MANIFEST_CHUNK_BYTES / 2;
    assert_int_equal(manifest_finish(&manifest, &err), 0);
    for (int i = 0; i < 100; i++)
        assert_true(takes_any(&manifest));
    for (size_t i = 1; i < 4; i++)
        manifest.entries[i].size_bytes = 1000;
    assert_int_equal(manifest_finish(&manifest, &err), 0);
    sample_draw(&sample, &manifest);
    for (size_t i = 1; i < 4; i++)
        assert_true(sample_takes(&sample, i, 0, 0));
    sample_draw(&never, &manifest);
    assert_false(sample_takes(&never, 1, 0, 0));
    manifest_close(&manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_is_done_once_by_a_bounded_number_of_threads),
        cmocka_unit_test(the_first_failure_ends_the_work_and_is_told),
        cmocka_unit_test(all_threads_together_keep_the_rate),
        cmocka_unit_test(a_sample_is_one_of_sixteen_with_both_ends_and_its_seed_says_which),
        cmocka_unit_test(a_sample_of_few_small_files_has_one_and_of_a_tiny_shard_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
