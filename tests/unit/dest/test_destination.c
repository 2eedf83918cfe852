/* The table of kinds of destinations. */
#include <string.h>

#include "src/base/check.h"
#include "src/dest/destination.h"
#include "tests/support/test.h"

static void each_kind_has_a_word_and_does_all_that_is_asked_of_one(void **state)
{
    size_t count = 0;

    (void)state;
    for (; destinations[count] != NULL; count++) {
        const struct destination_ops *row = destinations[count];

        assert_ptr_equal(destination_named(row->kind), row);
        assert_true(row->parse != NULL && row->validate != NULL && row->probe != NULL);
        assert_true(row->put != NULL && row->verify != NULL && row->restore != NULL);
        assert_true(row->collect != NULL && row->abandon != NULL && row->hold != NULL);
        assert_true((row->claim == NULL) == (row->prepare == NULL));
        assert_true((row->stage == NULL) == (row->publish == NULL));
        assert_true((row->owner == NULL) == (row->tidy == NULL));
    }
    assert_true(count > 0);
    assert_null(destination_named("tape"));
    assert_null(destination_named(""));
}

static void a_location_is_of_one_kind_at_most(void **state)
{
    static const char *const locations[] = {"/scratch", "relative", "s3://bucket/prefix", ""};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(locations); i++) {
        size_t takers = 0;

        for (size_t kind = 0; destinations[kind] != NULL; kind++)
            takers += destinations[kind]->parse(locations[i]);
        assert_true(takers <= 1);
    }
    assert_ptr_equal(destination_of("/scratch", &err), destination_named("posix"));
    assert_ptr_equal(destination_of("/odd://name", &err), destination_named("posix"));
    assert_null(destination_of("tape://reel", &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.text, "tape://reel"));
}

static void a_posix_location_is_an_absolute_folder(void **state)
{
    static const char *const right[] = {"/", "/a", "/scratch/checkpoints", "/a..b/.c", "/a b"};
    static const struct {
        const char *location, *rule;
    } wrong[] = {{"", "absolute folder"},     {"a", "absolute folder"}, {"./a", "absolute folder"},
                 {"/a/", "slash at its end"}, {"/a//b", "empty part"},  {"/a/..", "'..'"},
                 {"/../a", "'..'"},           {"/a/../b", "'..'"},      {"/a\nb", "printable"},
                 {"/a\x80", "printable"}};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(right); i++)
        assert_int_equal(destination_validate(right[i], &err), 0);
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_int_equal(destination_validate(wrong[i].location, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.text, wrong[i].rule));
    }
}

/* S1-043 */
static void an_s3_location_is_a_bucket_and_folders_or_the_tenants_buckets(void **state)
{
    static const char *const right[] = {"s3://", "s3://bucket", "s3://a.b-c1/x/Y_z.1",
                                        "s3://physics/heat/job-1/checkpoints/1-42"};
    static const struct {
        const char *location, *rule;
    } wrong[] = {{"s3:///a", "empty bucket"},
                 {"s3://ab", "bucket 'ab', must have 3 to 63"},
                 {"s3://Bucket", "bucket 'Bucket', must have 3 to 63"},
                 {"s3://bu_cket", "bucket 'bu_cket'"},
                 {"s3://bu..ck", "bucket 'bu..ck'"},
                 {"s3://-bucket", "bucket '-bucket'"},
                 {"s3://bucket/", "slash at its end"},
                 {"s3://bucket/site/", "slash at its end"},
                 {"s3://bucket//a", "empty folder"},
                 {"s3://bucket/.", "folder '.'"},
                 {"s3://bucket/a b", "folder 'a b'"},
                 {"s3://bucket/../other", "folder '..'"}};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(right); i++) {
        assert_int_equal(destination_validate(right[i], &err), 0);
        assert_ptr_equal(destination_of(right[i], &err), destination_named("s3"));
    }
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_int_equal(destination_validate(wrong[i].location, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.text, wrong[i].rule));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_a_word_and_does_all_that_is_asked_of_one),
        cmocka_unit_test(a_location_is_of_one_kind_at_most),
        cmocka_unit_test(a_posix_location_is_an_absolute_folder),
        cmocka_unit_test(an_s3_location_is_a_bucket_and_folders_or_the_tenants_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
