/* Answers of a VAST management system. See vast.h.
 *
 * Errors   whatever comes from outside is checked by its type and range before it is used; words of
 *          it that are shown have their odd characters replaced.
 */
#include "src/telemetry/vast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/telemetry/json.h"

/* ---- clusters ---- */

static bool is_well(const char *state)
{
    return state[0] == '\0' || strcmp(state, "HEALTHY") == 0 || strcmp(state, "REBALANCE") == 0;
}

/* What strangers call a state, as one word for logs and people. */
static void set_trouble(struct vast_cluster *cluster, const char *member, const char *state)
{
    char word[33];
    size_t length = 0;

    for (; state[length] != '\0' && length + 1 < sizeof(word); length++) {
        char c = state[length];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-';

        word[length] = plain ? c : '?';
    }
    word[length] = '\0';
    cluster->up = false;
    snprintf(cluster->trouble, sizeof(cluster->trouble), "the VMS says that %s is %s", member,
             word);
}

static void take_health(const json_t *object, struct vast_cluster *cluster)
{
    static const char *const raids[] = {"ssd_raid_state", "nvram_raid_state", "memory_raid_state"};
    const char *state = json_text(object, "state");

    cluster->up = true;
    for (size_t i = 0; i < ARRAY_COUNT(raids); i++) {
        const char *raid = json_text(object, raids[i]);

        if (!is_well(raid))
            set_trouble(cluster, raids[i], raid);
    }
    if (strcmp(state, "ONLINE") != 0)
        set_trouble(cluster, "state", state);
}

/* NaN for what is not there; what is there and no rate is counted. */
static double take_rate(const json_t *object, const char *name, double unit, unsigned *refused)
{
    const json_t *value = json_object_get(object, name);
    double rate = json_number(object, name) * unit;

    if (value == NULL || json_is_null(value))
        return NAN;
    if (rate >= 0 && rate < VAST_RATE_END) /* false for NaN */
        return rate;
    (*refused)++;
    return NAN;
}

static int take_cluster(const json_t *object, struct vast_cluster *ret_cluster, struct err *err)
{
    const json_t *most = json_object_get(object, "max_performance");
    struct vast_cluster cluster = {.up = false};

    if (json_text(object, "state")[0] == '\0')
        return err_set(err, ERR_INVALID, "the cluster has no state: the url must be that of a VMS");
    take_health(object, &cluster);
    cluster.write_bytes_per_s = take_rate(object, "wr_bw", 1, &cluster.refused);
    cluster.limit_bytes_per_s = take_rate(most, "write_bw", 1e9, &cluster.refused);
    if (cluster.limit_bytes_per_s == 0) /* not set: nothing can be written by none */
        cluster.limit_bytes_per_s = NAN;
    *ret_cluster = cluster;
    return 0;
}

static const json_t *find_cluster(const json_t *list, const char *name, struct err *err)
{
    size_t count = json_array_size(list);

    if (name[0] == '\0' && count == 1)
        return json_array_get(list, 0);
    if (name[0] == '\0') {
        err_set(err, ERR_INVALID, "the VMS lists %zu clusters: name one with the key cluster",
                count);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(json_text(json_array_get(list, i), "name"), name) == 0)
            return json_array_get(list, i);
    }
    err_set(err, ERR_NOT_FOUND, "none of the VMS's %zu clusters is called %s", count, name);
    return NULL;
}

int vast_parse(const void *bytes, size_t length, const char *name, struct vast_cluster *ret_cluster,
               struct err *err)
{
    json_t *document = json_parse_any(bytes, length, err);
    const json_t *list, *cluster;
    int result = -1;

    if (document == NULL)
        return -1;
    list = json_is_object(document) ? json_object_get(document, "results") : document;
    if (!json_is_array(list))
        err_set(err, ERR_INVALID, "no list of clusters: the url must be that of a VMS");
    else if ((cluster = find_cluster(list, name, err)) != NULL)
        result = take_cluster(cluster, ret_cluster, err);
    json_decref(document);
    return result;
}

/* ---- tokens ---- */

void vast_login(const char *user, struct buf *ret_body)
{
    size_t length = strcspn(user, ":");
    json_t *document = json_object();
    char *text;

    CHECK(user[length] == ':' && document != NULL);
    json_object_set_new(document, "username", json_stringn(user, length));
    json_object_set_new(document, "password", json_string(user + length + 1));
    text = json_dumps(document, JSON_COMPACT);
    CHECK(text != NULL);
    buf_append(ret_body, text, strlen(text) + 1);
    ret_body->length--;
    explicit_bzero(text, strlen(text));
    free(text);
    json_decref(document);
}

/* It becomes part of a header. */
static bool token_valid(const char *token)
{
    size_t length = strlen(token);

    if (length == 0 || length > VAST_TOKEN_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (token[i] <= ' ' || token[i] > '~')
            return false;
    }
    return true;
}

char *vast_token(const void *bytes, size_t length, struct err *err)
{
    json_t *document = json_parse(bytes, length, err);
    char *token = NULL;

    if (document == NULL)
        return NULL;
    if (token_valid(json_text(document, "access")))
        token = check_strdup(json_text(document, "access"));
    else
        err_set(err, ERR_INVALID, "the answer to the login has no token");
    json_decref(document);
    return token;
}

bool vast_token_refused(long status, const void *bytes, size_t length)
{
    static const char words[] = "Token is invalid or expired";

    return status == 401 ||
           (status == 403 && memmem(bytes, length, words, sizeof(words) - 1) != NULL);
}

/* ---- addresses ---- */

char *vast_url(const char *url, const char *path, char *text, size_t size)
{
    const char *host = strstr(url, "://");
    size_t length = strlen(url), root;
    const char *api;
    int written;

    host = host != NULL ? host + 3 : url;
    while (length > 0 && url[length - 1] == '/')
        length--;
    root = (size_t)(host - url) + strcspn(host, "/");
    if (root > length)
        root = length;
    api = length > root ? "" : "/api";
    if (strcmp(path, VAST_TOKEN_PATH) == 0) {
        length = root;
        api = "";
    }
    written = snprintf(text, size, "%.*s%s%s", (int)length, url, api, path);
    return written < 0 || (size_t)written >= size ? NULL : text;
}

/* ---- what is left for checkpoints ---- */

uint64_t vast_headroom(const struct vast_cluster *cluster, const struct vast_share *share)
{
    double cap = share->cap_bytes_per_s > 0 ? (double)share->cap_bytes_per_s : NAN;
    double limit = fmin(cap, cluster->limit_bytes_per_s); /* the one that is a number */
    double most = (double)share->most_bytes_per_s;
    double floor = fmax(most * VAST_FLOOR_PPM / 1e6, 1);
    double own = fmin((double)share->own_bytes_per_s, cluster->write_bytes_per_s);
    double headroom = limit - cluster->write_bytes_per_s + own;

    CHECK(share->most_bytes_per_s > 0);
    if (isnan(limit) || isnan(cluster->write_bytes_per_s))
        return 0;
    CHECK(!isnan(headroom));
    return (uint64_t)fmin(fmax(headroom, floor), most);
}
