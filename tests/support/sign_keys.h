/* A pair of Ed25519 keys in files, as `openssl genpkey` and `openssl pkey -pubout` write them. */
#ifndef CKPT_TESTS_SUPPORT_SIGN_KEYS_H
#define CKPT_TESTS_SUPPORT_SIGN_KEYS_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "tests/support/test.h"

/* The private key takes the place of what is there, with mode 0600; the public one is added. */
static inline void sign_keys_make(const char *private_path, const char *public_path)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    FILE *file = fopen(private_path, "w");

    assert_non_null(key);
    assert_non_null(file);
    assert_int_equal(chmod(private_path, 0600), 0);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    file = fopen(public_path, "a");
    assert_non_null(file);
    assert_int_equal(PEM_write_PUBKEY(file, key), 1);
    fclose(file);
    EVP_PKEY_free(key);
}

#endif
