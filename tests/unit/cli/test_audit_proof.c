/* Signed heads find an edit, a cut at either end, what was added, an earlier copy and another
 * cluster, without a cluster; whatever a member wrote is proved. F-018, N-004, K-008 */
#include "src/cli/audit_proof.h"

#include <unistd.h>

#include "tests/support/audit_record.h"
#include "tests/support/sign_keys.h"

enum { LINKS = 12, NOW_MS = 1000000 };

struct site {
    char folder[64], private_path[96], public_path[96], trail_path[96], head_path[104];
    struct sign_key *key;
    struct buf bytes;
    size_t at[LINKS + 1];
    uint8_t hashes[LINKS + 1][BLAKE2B_BYTES]; /* by the number of links */
};

static struct site site;
static char told[1024];

static void take_finding(void *context, const char *text)
{
    (void)context;
    if (told[0] == '\0')
        snprintf(told, sizeof(told), "%s", text);
}

static void load_key(void)
{
    struct err err;

    sign_key_free(site.key);
    sign_keys_make(site.private_path, site.public_path);
    assert_int_equal(sign_key_load(site.private_path, &site.key, &err), 0);
}

static int setup(void **state)
{
    (void)state;
    site = (struct site){.folder = "/tmp/ckpt-proof-XXXXXX"};
    assert_non_null(mkdtemp(site.folder));
    snprintf(site.private_path, sizeof(site.private_path), "%s/audit.key", site.folder);
    snprintf(site.public_path, sizeof(site.public_path), "%s/audit.pem", site.folder);
    snprintf(site.trail_path, sizeof(site.trail_path), "%s/trail", site.folder);
    snprintf(site.head_path, sizeof(site.head_path), "%s.sig", site.trail_path);
    load_key();
    for (size_t i = 0; i < LINKS; i++) {
        site.at[i] = site.bytes.length;
        memcpy(site.hashes[i + 1], site.hashes[i], BLAKE2B_BYTES);
        test_audit_chained(&site.bytes, 1, i + 1, site.hashes[i + 1]);
    }
    site.at[LINKS] = site.bytes.length;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sign_key_free(site.key);
    buf_close(&site.bytes);
    (void)unlink(site.private_path);
    (void)unlink(site.public_path);
    (void)unlink(site.head_path);
    return rmdir(site.folder);
}

static struct signed_head head_of(uint64_t first, uint64_t last, uint64_t at_ms)
{
    struct signed_head head = {
        .cluster = "hpc", .member = "n1", .epoch = 1, .first = first, .last = last, .at_ms = at_ms};

    blake2b_text(site.hashes[last], head.hash);
    signed_head_sign(&head, site.key);
    return head;
}

static void sign(struct audit_proof *proof, uint64_t first, uint64_t last, uint64_t at_ms)
{
    struct signed_head head = head_of(first, last, at_ms);

    audit_proof_add(proof, &head, "a.sig");
}

/* Links `first` to `last`. Returns the findings; the first of them is told. */
static size_t check(struct audit_proof *proof, size_t first, size_t last, uint64_t since_ms)
{
    struct audit_chain chain = {.found = take_finding};
    struct sign_public *keys;
    struct err err;
    size_t found;

    told[0] = '\0';
    assert_int_equal(sign_public_load(site.public_path, &keys, &err), 0);
    audit_chain_add(&chain, site.bytes.bytes + site.at[first - 1],
                    site.at[last] - site.at[first - 1], "a");
    (void)audit_chain_verify(&chain, NULL);
    (void)audit_proof_check(proof, &chain, keys, since_ms);
    found = chain.found_count;
    audit_chain_close(&chain);
    sign_public_free(keys);
    audit_proof_close(proof);
    return found;
}

static void what_a_member_signed_is_proved(void **state)
{
    struct audit_proof proof = {.count = 0};

    (void)state;
    sign(&proof, 1, 5, NOW_MS);
    sign(&proof, 6, LINKS, NOW_MS + 1); /* the next file of it */
    assert_int_equal(check(&proof, 1, LINKS, NOW_MS + 1), 0);
    sign(&proof, 3, LINKS, NOW_MS); /* the state kept these */
    assert_int_equal(check(&proof, 3, LINKS, 0), 0);
}

static void a_cut_at_either_end_is_found(void **state)
{
    struct audit_proof proof = {.count = 0};

    (void)state;
    sign(&proof, 1, LINKS, NOW_MS);
    assert_int_not_equal(check(&proof, 1, LINKS - 1, 0), 0);
    assert_contains(told, "no link has it: they were changed or cut off");
    sign(&proof, 1, LINKS, NOW_MS);
    assert_int_equal(check(&proof, 2, LINKS, 0), 1);
    assert_contains(told, "and the first one here is 2");
}

static void what_was_added_is_found(void **state)
{
    struct audit_proof proof = {.count = 0};

    (void)state;
    sign(&proof, 1, LINKS - 2, NOW_MS);
    assert_int_equal(check(&proof, 1, LINKS, 0), 1);
    assert_contains(told, "no signed head proves 2 links, the first with record 11");
    assert_int_equal(check(&proof, 1, LINKS, 0), 1); /* none is signed at all */
    assert_contains(told, "proves 12 links, the first with record 1");
}

/* The chain was written anew from the edit on, as one who has no key can do. */
static void a_history_that_was_written_anew_is_found(void **state)
{
    struct audit_proof proof = {.count = 0};
    uint8_t hash[BLAKE2B_BYTES];

    (void)state;
    sign(&proof, 1, LINKS, NOW_MS);
    buf_clear(&site.bytes);
    memset(hash, 0, sizeof(hash));
    for (size_t i = 0; i < LINKS; i++) { /* by a later clock */
        site.at[i] = site.bytes.length;
        test_audit_chained(&site.bytes, 2, i + 1, hash);
    }
    site.at[LINKS] = site.bytes.length;
    assert_int_not_equal(check(&proof, 1, LINKS, 0), 0);
    assert_contains(told, "no link has it: they were changed or cut off");
}

/* Whoever puts last month's files back has good signatures of last month. */
static void an_earlier_copy_is_found_by_its_time(void **state)
{
    struct audit_proof proof = {.count = 0};

    (void)state;
    sign(&proof, 1, 5, NOW_MS);
    assert_int_equal(check(&proof, 1, 5, NOW_MS), 0);
    sign(&proof, 1, 5, NOW_MS);
    assert_int_equal(check(&proof, 1, 5, NOW_MS + 1), 1);
    assert_contains(told, "before --since");
}

static void heads_of_two_clusters_are_not_one_trail(void **state)
{
    struct audit_proof proof = {.count = 0};
    struct signed_head head = head_of(1, LINKS, NOW_MS);

    (void)state;
    audit_proof_add(&proof, &head, "a.sig");
    snprintf(head.cluster, sizeof(head.cluster), "other");
    signed_head_sign(&head, site.key);
    audit_proof_add(&proof, &head, "b.sig");
    assert_int_equal(check(&proof, 1, LINKS, 0), 1);
    assert_contains(told, "a.sig is of cluster hpc, and b.sig of cluster other");
}

static void only_keys_that_are_given_are_believed(void **state)
{
    struct audit_proof proof = {.count = 0};
    struct signed_head head = head_of(1, LINKS, NOW_MS);

    (void)state;
    head.last--;
    audit_proof_add(&proof, &head, "a.sig");
    assert_int_not_equal(check(&proof, 1, LINKS, 0), 0);
    assert_contains(told, "does not hold: the head was changed");
    sign(&proof, 1, LINKS, NOW_MS);
    load_key(); /* the file has both now */
    assert_int_equal(check(&proof, 1, LINKS, 0), 0);
    sign(&proof, 1, LINKS, NOW_MS);
    assert_int_equal(unlink(site.public_path), 0);
    load_key();
    assert_int_not_equal(check(&proof, 1, LINKS, 0), 0);
    assert_contains(told, "which is not among the public keys");
}

static void write_head(const char *text)
{
    FILE *file = fopen(site.head_path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_head_is_read_as_it_was_written(void **state)
{
    struct audit_proof proof = {.count = 0};
    struct signed_head head = head_of(1, LINKS, NOW_MS);
    char json[SIGNED_HEAD_TEXT_BYTES];
    struct err err;

    (void)state;
    assert_int_equal(audit_proof_read(&proof, site.trail_path, &err), 0);
    assert_int_equal(proof.count, 0); /* none lies beside it */
    (void)signed_head_json(&head, json);
    write_head(json);
    assert_int_equal(audit_proof_read(&proof, site.trail_path, &err), 0);
    assert_int_equal(proof.count, 1);
    assert_int_equal(check(&proof, 1, LINKS, 0), 0);
    json[strlen(json) - 3] = '\0';
    write_head(json);
    assert_int_equal(audit_proof_read(&proof, site.trail_path, &err), -1);
    assert_contains(err.text, "is no signed head");
    write_head("{\"cluster\": \"hpc\"}");
    assert_int_equal(audit_proof_read(&proof, site.trail_path, &err), -1);
    audit_proof_close(&proof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_member_signed_is_proved, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cut_at_either_end_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_added_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_history_that_was_written_anew_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(an_earlier_copy_is_found_by_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_of_two_clusters_are_not_one_trail, setup, teardown),
        cmocka_unit_test_setup_teardown(only_keys_that_are_given_are_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_is_read_as_it_was_written, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
