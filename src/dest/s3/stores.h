/* The object stores that a daemon signs for: their addresses, keys and buckets. A process has one
 * set, from its configuration.
 *
 * Flow     the section `s3` of the configuration fills items (S3_STORE_FIELDS are its keys), and
 *          s3_stores_check() checks them. s3_stores_open() runs at the start, for --check-config,
 *          and whenever the configuration is read again. s3_store_find() runs for each request. It
 *          reads keys again whose file has changed, at most once a second.
 * Shapes   S3_STORES_MAX stores. A bucket belongs to the store that names it, else to the store
 *          that names "*". Keys stay in the daemon: they enter no log, no answer, no process that
 *          it starts and no replicated state.
 * Errors   a text names the store, the file, the value, and the next step; never a key. When keys
 *          cannot be read again, the former keys stay in use; told() says so once.
 */
#ifndef CKPT_DEST_S3_STORES_H
#define CKPT_DEST_S3_STORES_H

#include "src/dest/s3/signer.h"

enum { S3_STORES_MAX = 16, S3_TEXT_MAX_BYTES = 1023, S3_CREDENTIALS_MAX_BYTES = 65536 };

/* An item of the configuration; its texts are the configuration's. */
struct s3_store_item {
    char *name;
    char *endpoint;         /* http[s]://host[:port] */
    char *region;           /* as it is signed */
    char *style;            /* "path" or "host": where a request has its bucket */
    char *ca_file;          /* PEM; "": the system's */
    char *credentials_file; /* "": AWS_ACCESS_KEY_ID and the like of the environment */
    char *profile;          /* section of that file */
    char *buckets;          /* names with commas between them, or "*" */
    /* The store takes unsigned headers, as Ceph does: headers that would change the request's
     * meaning are sealed. A store that refuses unsigned headers, as Amazon does, takes no sealed
     * ones. */
    bool seal_headers;
};

/* The keys of an item for a table of settings (src/serve/settings.h): X(kind, name, member, least
 * and most length, default). */
#define S3_STORE_FIELDS(X)                                                                         \
    X(&settings_id, "name", name, 1, 64, NULL)                                                     \
    X(&settings_url, "endpoint", endpoint, 1, 512, NULL)                                           \
    X(&settings_id, "region", region, 1, 64, "us-east-1")                                          \
    X(&settings_path, "style", style, 4, 4, "path")                                                \
    X(&settings_path, "ca_file", ca_file, 0, S3_TEXT_MAX_BYTES, "")                                \
    X(&settings_path, "credentials_file", credentials_file, 0, S3_TEXT_MAX_BYTES, "")              \
    X(&settings_id, "profile", profile, 1, 64, "default")                                          \
    X(&settings_path, "buckets", buckets, 1, 4096, "*")                                            \
    X(&settings_yes_no, "seal_headers", seal_headers, 0, 0, "yes")

/* A wrong item, for the line of the configuration. */
struct s3_mistake {
    size_t item;
    const char *key; /* static */
};

/* Checks each item and all together, without a look at any file. -1 with ERR_INVALID: the text of
 * err reads on behind the key's value. */
int s3_stores_check(const struct s3_store_item *items, size_t count, struct s3_mistake *ret_mistake,
                    struct err *err);

/* Keys of a store were read again (failed NULL), or could not be. On the loop's thread, from within
 * s3_store_find() or s3_stores_reload(). */
typedef void s3_told_fn(const char *store, const struct err *failed);

/* Reads the keys, and copies the items in place of the former ones. On failure the former ones
 * stay. */
int s3_stores_open(const struct s3_store_item *items, size_t count, s3_told_fn *told,
                   struct err *err);
void s3_stores_reload(void); /* all keys now, whether their files have changed or not */
void s3_stores_close(void);  /* keys are wiped; also when none were opened */

/* The store and the keys that sign a bucket's requests; bucket "": the store of all buckets. Valid
 * until the loop's next turn. -1 with ERR_NOT_FOUND and the next step: the bucket belongs to no
 * store. */
int s3_store_find(const char *bucket, struct signer_store *ret_store, struct signer_keys *ret_keys,
                  struct err *err);

#endif
