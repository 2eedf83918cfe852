/* Locations of S3 as texts. See location.h. Nothing here asks the store: daemons read locations
 * too, where they enter the program, and refuse what no store could ever take. */
#include "src/dest/s3/location.h"

#include <stdio.h>
#include <string.h>

#include "src/base/id.h"

#define SCHEME "s3://"

/* The rules that all stores share: names of hosts, as a bucket may be part of one. Ceph takes
 * more where it is told to, and then no other tool does. */
static bool is_bucket(const char *text, size_t length)
{
    if (length < 3 || length >= LOCATION_BUCKET_BYTES || text[0] == '.' || text[0] == '-' ||
        text[length - 1] == '.' || text[length - 1] == '-')
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.') ||
            (c == '.' && text[i + 1] == '.'))
            return false;
    }
    return true;
}

/* An id, as the names of tenants, projects and allocations are: such a name needs no encoding
 * and is neither empty nor made of dots, so that the signer's side may compare keys as texts. */
static bool is_folder(const char *text, size_t length)
{
    char name[ID_MAX_BYTES + 1];

    if (length > ID_MAX_BYTES)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    return id_valid(name);
}

/* The rule that is broken, and by what: a list of all rules leaves that to be found. */
static int refuse_part(struct err *err, const char *what, const char *part, size_t length,
                       const char *rule)
{
    if (length == 0)
        return err_set(err, ERR_INVALID, "has an empty %s, must have %s there", what, rule);
    return err_set(err, ERR_INVALID, "has the %s '%.*s', must have %s there", what,
                   length > 128 ? 128 : (int)length, part, rule);
}

static int parse_folders(const char *folders, struct err *err)
{
    size_t length;

    for (const char *at = folders; *at == '/'; at += length) {
        length = strcspn(++at, "/");
        if (length == 0 && *at == '\0')
            return err_set(err, ERR_INVALID, "has a slash at its end, must be without it");
        if (!is_folder(at, length))
            return refuse_part(err, "folder", at, length,
                               "1 to 128 characters of A-Z a-z 0-9 . _ - and neither . nor ..");
    }
    return 0;
}

int location_parse(const char *text, struct location *ret_location, struct err *err)
{
    struct location location = {"", ""};
    const char *bucket = text + strlen(SCHEME);
    size_t length;

    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
        return err_set(err, ERR_INVALID,
                       "must be s3:// alone, where each tenant has its bucket, or s3://BUCKET or "
                       "s3://BUCKET/FOLDER/...");
    length = strcspn(bucket, "/");
    if (*bucket == '\0') {
        *ret_location = location;
        return 0;
    }
    if (!is_bucket(bucket, length))
        return refuse_part(err, "bucket", bucket, length,
                           "3 to 63 characters of a-z 0-9 . - beginning and ending with a letter "
                           "or digit");
    if (strlen(bucket) - length >= sizeof(location.key))
        return err_set(err, ERR_INVALID, "is longer than a key of an object, %d bytes",
                       OBJECT_KEY_MAX_BYTES);
    if (parse_folders(bucket + length, err) != 0)
        return -1;
    snprintf(location.bucket, sizeof(location.bucket), "%.*s", (int)length, bucket);
    if (bucket[length] == '/')
        snprintf(location.key, sizeof(location.key), "%s", bucket + length + 1);
    *ret_location = location;
    return 0;
}

/* The texts are compared before anything is parsed: what is not below the prefix is refused by
 * name, whatever it is. */
int location_of_path(const char *prefix, const char *path, struct location *ret_location,
                     struct err *err)
{
    size_t length = prefix == NULL ? 0 : strlen(prefix);

    if (prefix != NULL &&
        (strncmp(path, prefix, length) != 0 ||
         (strcmp(prefix, SCHEME) != 0 && path[length] != '/') || path[length] == '\0'))
        return err_set(err, ERR_REFUSED, "%s is not below the prefix %s", path, prefix);
    if (location_parse(path, ret_location, err) != 0)
        return err_wrap(err, "the path \"%s\"", path);
    if (ret_location->key[0] == '\0')
        return err_set(err, ERR_REFUSED, "the path %s names a bucket and no checkpoint", path);
    return 0;
}

int location_of_part(const struct destination_place *place, struct location *ret_location,
                     struct err *err)
{
    size_t length;

    if (!id_valid(place->part) || place->part[0] == '.')
        return err_set(err, ERR_INVALID,
                       "the part's name \"%.140s\" is not an id: use [A-Za-z0-9._-]{1,128}, not "
                       "beginning with a dot",
                       place->part);
    if (location_of_path(place->prefix, place->path, ret_location, err) != 0)
        return -1;
    length = strlen(ret_location->key);
    if (length + strlen(place->part) + 3 > sizeof(ret_location->key))
        return err_set(err, ERR_REFUSED, "the key of %s/%s is over %d bytes", place->path,
                       place->part, OBJECT_KEY_MAX_BYTES);
    snprintf(ret_location->key + length, sizeof(ret_location->key) - length, "/%s/", place->part);
    return 0;
}
