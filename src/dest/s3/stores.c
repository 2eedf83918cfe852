/* See stores.h.
 *
 * Flow     s3_store_find() -> find_store() by the bucket -> look_for_change(): at most once a
 *          second a stat(2) of the file with the keys -> read_again() when it is another one.
 * Shapes   looking is one call on a local file: a folder on a mount that can hang is no place for
 *          keys. Nothing is watched by inotify, which misses files behind replaced links, and that
 *          is how configuration is rolled out to many machines.
 *          A set is made whole before it takes the place of the one before.
 */
#include "src/dest/s3/stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "src/base/check.h"
#include "src/dest/s3/credentials.h"

struct store {
    struct s3_store_item item; /* texts of our own */
    struct credentials credentials;
    struct stat file;   /* as it was when it was read last, well or not */
    time_t looked_at_s; /* monotonic */
    bool failing;       /* the keys of before are in use */
};

static struct store *stores;
static size_t store_count;
static s3_told_fn *told_fn;

/* ---- items ---- */

/* Each text of an item once. */
enum { BUCKET_BYTES = 80 }; /* one that is too long stays too long */

#define ITEM_TEXTS(X)                                                                              \
    X(name) X(endpoint) X(region) X(style) X(ca_file) X(credentials_file) X(profile) X(buckets)

static bool next_bucket(const char **at, char ret_name[BUCKET_BYTES])
{
    size_t length;

    *at += strspn(*at, " ,");
    length = strcspn(*at, " ,");
    if (length == 0)
        return false;
    snprintf(ret_name, BUCKET_BYTES, "%.*s", (int)length, *at);
    *at += length;
    return true;
}

static bool names_bucket(const struct s3_store_item *item, const char *bucket)
{
    const char *at = item->buckets;
    char name[BUCKET_BYTES];

    while (next_bucket(&at, name)) {
        if (strcmp(name, bucket) == 0)
            return true;
    }
    return false;
}

/* As S3 has it: 3 to 63 of a-z 0-9 . -, or "*" alone. */
static int check_buckets(const struct s3_store_item *items, size_t index, struct err *err)
{
    const char *at = items[index].buckets;
    char name[BUCKET_BYTES];
    size_t count = 0;

    while (next_bucket(&at, name)) {
        size_t length = strlen(name);

        count++;
        if (strcmp(name, "*") != 0 &&
            (length < 3 || length > 63 ||
             name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")] != '\0'))
            return err_set(err, ERR_INVALID,
                           "has the bucket '%.70s': names have 3 to 63 characters of a-z 0-9 . -, "
                           "with commas between them, or * for all",
                           name);
        for (size_t i = 0; i < index; i++) {
            if (names_bucket(&items[i], name))
                return err_set(err, ERR_INVALID, "has %.70s, which store %.64s has already", name,
                               items[i].name);
        }
    }
    if (count == 0)
        return err_set(err, ERR_INVALID, "names no bucket; * is all of them");
    return 0;
}

static int note_mistake(struct s3_mistake *mistake, size_t item, const char *key)
{
    *mistake = (struct s3_mistake){item, key};
    return -1;
}

int s3_stores_check(const struct s3_store_item *items, size_t count, struct s3_mistake *ret_mistake,
                    struct err *err)
{
    CHECK(count <= S3_STORES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct s3_store_item *item = &items[i];

        for (size_t k = 0; k < i; k++) {
            if (strcmp(items[k].name, item->name) == 0) {
                err_set(err, ERR_INVALID, "is another store's too");
                return note_mistake(ret_mistake, i, "name");
            }
        }
        if (signer_check_endpoint(item->endpoint, NULL) != 0) {
            err_set(err, ERR_INVALID,
                    "must be http[s]://HOST[:PORT] with nothing behind it, such as "
                    "https://s3.example.org:9000");
            return note_mistake(ret_mistake, i, "endpoint");
        }
        if (strcmp(item->style, "path") != 0 && strcmp(item->style, "host") != 0) {
            err_set(err, ERR_INVALID,
                    "must be path (https://host/bucket/key) or host (https://bucket.host/key)");
            return note_mistake(ret_mistake, i, "style");
        }
        if (check_buckets(items, i, err) != 0)
            return note_mistake(ret_mistake, i, "buckets");
    }
    return 0;
}

/* ---- the set in use ---- */

static void free_stores(struct store *set, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        credentials_wipe(&set[i].credentials);
#define X(member) free(set[i].item.member);
        ITEM_TEXTS(X)
#undef X
    }
    free(set);
}

static time_t monotonic_s(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec;
}

static int read_keys(struct store *store, struct err *err)
{
    store->looked_at_s = monotonic_s();
    return credentials_read(store->item.credentials_file, store->item.profile, &store->credentials,
                            &store->file, err);
}

/* Workers of any user read it. */
static int check_ca(const struct s3_store_item *item, struct err *err)
{
    struct stat stat_of;

    if (item->ca_file[0] == '\0')
        return 0;
    if (stat(item->ca_file, &stat_of) != 0)
        return err_set(err, ERR_NOT_FOUND, "ca_file %s: %s", item->ca_file, strerror(errno));
    if (!S_ISREG(stat_of.st_mode) || (stat_of.st_mode & S_IROTH) == 0)
        return err_set(err, ERR_REFUSED,
                       "ca_file %s must be a file that all users may read (mode %03o): chmod 644",
                       item->ca_file, (unsigned)stat_of.st_mode & 0777);
    return 0;
}

int s3_stores_open(const struct s3_store_item *items, size_t count, s3_told_fn *told,
                   struct err *err)
{
    struct store *set = count > 0 ? check_calloc(count, sizeof(*set)) : NULL;
    struct err why;

    CHECK(count <= S3_STORES_MAX);
    for (size_t i = 0; i < count; i++) {
#define X(member) set[i].item.member = check_strdup(items[i].member);
        ITEM_TEXTS(X)
#undef X
        set[i].item.seal_headers = items[i].seal_headers;
    }
    for (size_t i = 0; i < count; i++) {
        if (check_ca(&set[i].item, &why) == 0 && read_keys(&set[i], &why) == 0)
            continue;
        err_set(err, why.code, "s3: store %s: %.400s", items[i].name, why.text);
        free_stores(set, count);
        return -1;
    }
    s3_stores_close();
    stores = set;
    store_count = count;
    told_fn = told;
    return 0;
}

void s3_stores_close(void)
{
    free_stores(stores, store_count);
    stores = NULL;
    store_count = 0;
}

/* Those of before stay when it fails. */
static void read_again(struct store *store)
{
    struct err err;
    int result = read_keys(store, &err);

    store->failing = result != 0;
    if (told_fn != NULL)
        told_fn(store->item.name, result == 0 ? NULL : &err);
}

void s3_stores_reload(void)
{
    for (size_t i = 0; i < store_count; i++)
        read_again(&stores[i]);
}

/* A file that is not there is not the one of before either, but is told once. */
static bool has_changed(struct store *store)
{
    struct stat now = {0};

    if (stat(store->item.credentials_file, &now) != 0)
        return !store->failing;
    return now.st_ino != store->file.st_ino || now.st_dev != store->file.st_dev ||
           now.st_size != store->file.st_size || now.st_mode != store->file.st_mode ||
           now.st_uid != store->file.st_uid || now.st_mtim.tv_sec != store->file.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != store->file.st_mtim.tv_nsec;
}

static void look_for_change(struct store *store)
{
    time_t now_s = monotonic_s();

    if (store->item.credentials_file[0] == '\0' || now_s == store->looked_at_s)
        return;
    store->looked_at_s = now_s;
    if (has_changed(store))
        read_again(store);
}

static struct store *find_store(const char *bucket)
{
    struct store *all = NULL;

    for (size_t i = 0; i < store_count; i++) {
        if (bucket[0] != '\0' && names_bucket(&stores[i].item, bucket))
            return &stores[i];
        if (names_bucket(&stores[i].item, "*"))
            all = &stores[i];
    }
    return all;
}

int s3_store_find(const char *bucket, struct signer_store *ret_store, struct signer_keys *ret_keys,
                  struct err *err)
{
    struct store *store = find_store(bucket);

    if (store == NULL)
        return err_set(err, ERR_NOT_FOUND,
                       "no store of the section s3 of this daemon's configuration has the bucket "
                       "\"%.64s\"; add it to the buckets of one, then reload",
                       bucket);
    look_for_change(store);
    *ret_store = (struct signer_store){.endpoint = store->item.endpoint,
                                       .region = store->item.region,
                                       .by_host = strcmp(store->item.style, "host") == 0,
                                       .ca_file = store->item.ca_file,
                                       .sealed = store->item.seal_headers};
    *ret_keys =
        (struct signer_keys){.keys = {store->credentials.access_key, store->credentials.secret_key},
                             .token = store->credentials.token};
    return 0;
}
