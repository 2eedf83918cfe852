/* Signatures: only the key's bytes, only its owner's file, and keys that were replaced. K-008 */
#include "src/tls/sign.h"

#include <unistd.h>

#include "src/tls/head.h"
#include "tests/support/sign_keys.h"

static char folder[64], private_path[96], public_path[96];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ckpt-sign-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(private_path, sizeof(private_path), "%s/audit.key", folder);
    snprintf(public_path, sizeof(public_path), "%s/audit.pem", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(private_path);
    (void)unlink(public_path);
    return rmdir(folder);
}

static struct sign_key *load(void)
{
    struct sign_key *key;
    struct err err;

    if (sign_key_load(private_path, &key, &err) != 0)
        fail_msg("%s", err.text);
    return key;
}

static struct sign_public *load_public(void)
{
    struct sign_public *keys;
    struct err err;

    if (sign_public_load(public_path, &keys, &err) != 0)
        fail_msg("%s", err.text);
    return keys;
}

static void no_other_byte_and_no_other_signature_holds(void **state)
{
    uint8_t bytes[16] = "sixteen letters.", signature[SIGN_BYTES];
    struct sign_public *keys;
    struct sign_key *key;

    (void)state;
    sign_keys_make(private_path, public_path);
    key = load();
    keys = load_public();
    sign_bytes(key, bytes, sizeof(bytes), signature);
    assert_true(sign_holds(keys, sign_key_id(key), bytes, sizeof(bytes), signature));
    assert_false(sign_holds(keys, sign_key_id(key), bytes, sizeof(bytes) - 1, signature));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 1;
        assert_false(sign_holds(keys, sign_key_id(key), bytes, sizeof(bytes), signature));
        bytes[i] ^= 1;
    }
    for (size_t i = 0; i < SIGN_BYTES; i++) {
        signature[i] ^= 1;
        assert_false(sign_holds(keys, sign_key_id(key), bytes, sizeof(bytes), signature));
        signature[i] ^= 1;
    }
    sign_key_free(key);
    sign_public_free(keys);
}

/* The file of public keys has grown; the old key is gone. */
static void what_a_replaced_key_signed_still_holds(void **state)
{
    uint8_t signature[SIGN_BYTES];
    char old_id[SIGN_ID_BYTES];
    struct sign_public *keys;
    struct sign_key *key;

    (void)state;
    sign_keys_make(private_path, public_path);
    key = load();
    sign_bytes(key, "a", 1, signature);
    snprintf(old_id, sizeof(old_id), "%s", sign_key_id(key));
    sign_key_free(key);
    sign_keys_make(private_path, public_path);
    key = load();
    keys = load_public();
    assert_string_not_equal(sign_key_id(key), old_id);
    assert_true(sign_public_has(keys, sign_key_id(key)));
    assert_true(sign_holds(keys, old_id, "a", 1, signature));
    assert_false(sign_holds(keys, sign_key_id(key), "a", 1, signature));
    sign_key_free(key);
    sign_public_free(keys);
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    struct sign_key *key = NULL;
    struct err err;

    (void)state;
    sign_keys_make(private_path, public_path);
    assert_int_equal(chmod(private_path, 0640), 0);
    assert_int_equal(sign_key_load(private_path, &key, &err), -1);
    assert_int_equal(err.code, ERR_AUTH);
    assert_contains(err.text, "chmod 600");
    assert_null(key);
}

/* Only root can give a file away. */
static void a_key_of_another_user_is_refused(void **state)
{
    struct sign_key *key = NULL;
    struct err err;

    (void)state;
    if (geteuid() != 0)
        skip();
    sign_keys_make(private_path, public_path);
    assert_int_equal(chown(private_path, 12345, 0), 0);
    assert_int_equal(sign_key_load(private_path, &key, &err), -1);
    assert_int_equal(err.code, ERR_AUTH);
    assert_contains(err.text, "belongs to user 12345");
}

static void what_is_no_ed25519_key_is_refused(void **state)
{
    EVP_PKEY *other = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    FILE *file = fopen(private_path, "w");
    struct sign_public *keys;
    struct sign_key *key;
    struct err err;

    (void)state;
    assert_int_equal(chmod(private_path, 0600), 0);
    assert_int_equal(PEM_write_PrivateKey(file, other, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    assert_int_equal(sign_key_load(private_path, &key, &err), -1);
    assert_contains(err.text, "is no Ed25519 key");
    file = fopen(public_path, "w");
    assert_int_equal(PEM_write_PUBKEY(file, other), 1);
    fclose(file);
    EVP_PKEY_free(other);
    assert_int_equal(sign_public_load(public_path, &keys, &err), -1);
    assert_contains(err.text, "item 1 is no public key of Ed25519");
    file = fopen(public_path, "w");
    fputs("a note\n", file);
    fclose(file);
    assert_int_equal(sign_public_load(public_path, &keys, &err), -1);
    assert_contains(err.text, "holds no public key");
}

/* Each field is signed. */
static void a_head_with_another_word_does_not_hold(void **state)
{
    struct signed_head head = {.cluster = "hpc",
                               .member = "n1",
                               .epoch = 1,
                               .first = 1,
                               .last = 9,
                               .at_ms = 1700000000000,
                               .hash = "ab"},
                       other;
    struct sign_public *keys;
    struct sign_key *key;

    (void)state;
    sign_keys_make(private_path, public_path);
    key = load();
    keys = load_public();
    signed_head_sign(&head, key);
    assert_true(signed_head_holds(&head, keys));
#define CHANGED(change)                                                                            \
    other = head;                                                                                  \
    change;                                                                                        \
    assert_false(signed_head_holds(&other, keys))
    CHANGED(other.cluster[0] = 'x');
    CHANGED(other.member[1] = '2');
    CHANGED(other.epoch++);
    CHANGED(other.first++);
    CHANGED(other.last++);
    CHANGED(other.at_ms++);
    CHANGED(other.hash[0] = 'b');
    CHANGED(other.signature[127] = other.signature[127] == '0' ? '1' : '0');
    CHANGED(other.signature[127] = '\0');
    CHANGED(other.signature[0] = 'x');
    CHANGED(other.key_id[0] = 'x');
#undef CHANGED
    sign_key_free(key);
    sign_public_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_other_byte_and_no_other_signature_holds, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_a_replaced_key_signed_still_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_that_others_may_read_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_of_another_user_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_ed25519_key_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_with_another_word_does_not_hold, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
