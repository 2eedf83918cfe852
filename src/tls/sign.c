/* See sign.h. */
#include "src/tls/sign.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/tls/x509.h"

struct sign_key {
    EVP_PKEY *key;
    size_t owners;
    char id[SIGN_ID_BYTES];
};

struct sign_public {
    EVP_PKEY *keys[SIGN_PUBLIC_MAX];
    char ids[SIGN_PUBLIC_MAX][SIGN_ID_BYTES];
    size_t count;
};

/* `openssl pkey -pubin -outform DER | sha256sum` begins with it. */
static void find_id(EVP_PKEY *key, char id[SIGN_ID_BYTES])
{
    uint8_t *der = NULL, digest[EVP_MAX_MD_SIZE];
    int length = i2d_PUBKEY(key, &der);

    CHECK(length > 0);
    CHECK(EVP_Digest(der, (size_t)length, digest, NULL, EVP_sha256(), NULL) == 1);
    for (size_t i = 0; i < (SIGN_ID_BYTES - 1) / 2; i++)
        snprintf(id + 2 * i, 3, "%02x", digest[i]);
    OPENSSL_free(der);
}

/* ---- a member's own ---- */

/* Whoever owns the file may write another key into it. */
static int check_owner(const char *path, struct err *err)
{
    struct stat status;

    if (stat(path, &status) != 0 || status.st_uid == geteuid())
        return 0; /* one that is away is told by whoever reads it */
    return err_set(err, ERR_AUTH, "%s: belongs to user %u, and this process is user %u; chown it",
                   path, (unsigned)status.st_uid, (unsigned)geteuid());
}

int sign_key_load(const char *path, struct sign_key **ret_key, struct err *err)
{
    struct sign_key *key;
    EVP_PKEY *loaded;

    if (check_owner(path, err) != 0 || x509_load_key(path, &loaded, err) != 0)
        return -1;
    if (EVP_PKEY_get_id(loaded) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(loaded);
        return err_set(err, ERR_INVALID,
                       "%s: is no Ed25519 key; openssl genpkey -algorithm ed25519 makes one", path);
    }
    key = check_calloc(1, sizeof(*key));
    key->key = loaded;
    key->owners = 1;
    find_id(loaded, key->id);
    *ret_key = key;
    return 0;
}

struct sign_key *sign_key_share(struct sign_key *key)
{
    if (key != NULL)
        key->owners++;
    return key;
}

void sign_key_free(struct sign_key *key)
{
    if (key == NULL)
        return;
    CHECK(key->owners > 0);
    if (--key->owners > 0)
        return;
    EVP_PKEY_free(key->key);
    free(key);
}

const char *sign_key_id(const struct sign_key *key)
{
    return key->id;
}

void sign_bytes(const struct sign_key *key, const void *bytes, size_t length,
                uint8_t ret_signature[SIGN_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = SIGN_BYTES;

    CHECK(context != NULL);
    CHECK(EVP_DigestSignInit(context, NULL, NULL, NULL, key->key) == 1);
    CHECK(EVP_DigestSign(context, ret_signature, &size, bytes, length) == 1);
    CHECK(size == SIGN_BYTES);
    EVP_MD_CTX_free(context);
}

/* ---- those of others ---- */

/* The next key of a file; NULL: *ret_end tells that there is none, else it is no such key. */
static EVP_PKEY *next_key(BIO *bio, bool *ret_end)
{
    char *name = NULL, *header = NULL;
    unsigned char *der = NULL;
    const unsigned char *at;
    EVP_PKEY *key = NULL;
    long length;

    *ret_end = PEM_read_bio(bio, &name, &header, &der, &length) != 1;
    if (*ret_end)
        return NULL;
    at = der;
    if (strcmp(name, PEM_STRING_PUBLIC) == 0)
        key = d2i_PUBKEY(NULL, &at, length);
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(der);
    if (key == NULL || EVP_PKEY_get_id(key) == EVP_PKEY_ED25519)
        return key;
    EVP_PKEY_free(key);
    return NULL;
}

/* The keys of a file in their order. 0, or -1. */
static int take_keys(struct sign_public *keys, BIO *bio, const char *path, struct err *err)
{
    EVP_PKEY *key;
    bool end;

    while ((key = next_key(bio, &end)) != NULL) {
        if (keys->count == SIGN_PUBLIC_MAX) {
            EVP_PKEY_free(key);
            return err_set(err, ERR_FULL,
                           "%s: more than %d keys: split the file, and verify with each", path,
                           SIGN_PUBLIC_MAX);
        }
        keys->keys[keys->count] = key;
        find_id(key, keys->ids[keys->count++]);
    }
    ERR_clear_error();
    if (!end)
        return err_set(err, ERR_INVALID, "%s: item %zu is no public key of Ed25519", path,
                       keys->count + 1);
    return keys->count > 0 ? 0
                           : err_set(err, ERR_INVALID,
                                     "%s: holds no public key in PEM; openssl pkey -in KEY "
                                     "-pubout writes one",
                                     path);
}

int sign_public_load(const char *path, struct sign_public **ret_public, struct err *err)
{
    struct sign_public *keys;
    uint8_t *bytes;
    size_t length;
    BIO *bio;
    int status;

    if (x509_file_read(path, false, &bytes, &length, err) != 0)
        return -1;
    keys = check_calloc(1, sizeof(*keys));
    bio = BIO_new_mem_buf(bytes, (int)length);
    CHECK(bio != NULL);
    status = take_keys(keys, bio, path, err);
    BIO_free(bio);
    free(bytes);
    if (status == 0)
        *ret_public = keys;
    else
        sign_public_free(keys);
    return status;
}

void sign_public_free(struct sign_public *keys)
{
    for (size_t i = 0; keys != NULL && i < keys->count; i++)
        EVP_PKEY_free(keys->keys[i]);
    free(keys);
}

static EVP_PKEY *find_key(const struct sign_public *keys, const char *id)
{
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->ids[i], id) == 0)
            return keys->keys[i];
    return NULL;
}

bool sign_public_has(const struct sign_public *keys, const char *id)
{
    return find_key(keys, id) != NULL;
}

bool sign_holds(const struct sign_public *keys, const char *id, const void *bytes, size_t length,
                const uint8_t signature[SIGN_BYTES])
{
    EVP_PKEY *key = find_key(keys, id);
    EVP_MD_CTX *context;
    bool holds;

    if (key == NULL)
        return false;
    context = EVP_MD_CTX_new();
    CHECK(context != NULL);
    CHECK(EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1);
    holds = EVP_DigestVerify(context, signature, SIGN_BYTES, bytes, length) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return holds;
}
