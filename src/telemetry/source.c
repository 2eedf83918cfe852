/* Sources and their polls. See source.h.
 *
 * Flow     tick -> start_due -> begin_poll -> endpoint_get -> on_fetched -> parse_body (libuv's
 *          pool) -> on_parsed -> take_parsed, by turns -> document_taken -> next_document or
 *          poll_ended.
 * Shapes   an endpoint is busy from begin_poll() to poll_ended(), with one call or one job at a
 *          time. A job outlives its endpoint when sources are configured anew: its endpoint is then
 *          NULL, and what it read is nobody's.
 */
#include "src/telemetry/source.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/telemetry/fetch.h"
#include "src/telemetry/prometheus.h"
#include "src/telemetry/secret.h"
#include "src/telemetry/smd.h"
#include "src/telemetry/walk.h"

enum {
    URL_BYTES = 2048,
    TICK_MIN_MS = 20,
    TICK_MAX_MS = 500,
    POLL_TIMEOUTS_MAX = 20, /* a poll of many documents may take so many timeouts, or an interval */
    CONNECTIONS_IDLE_MAX = 256
};

struct source;
struct job;

struct endpoint {
    struct source *source;
    const char *node; /* whose; NULL: of many */
    const char *host; /* in the url; NULL: the url is complete */
    uint64_t due_us, began_us;
    unsigned failures; /* in a row */
    bool busy, failing;
    bool told;               /* something, in this poll */
    bool logged_in;          /* in this poll */
    struct err problem;      /* of a document of this poll; ERR_NONE: none */
    struct fetch_call *call; /* or */
    struct job *job;
    struct walk walk;
};

struct source {
    struct sources *sources;
    size_t index;
    struct source_config config;
    struct map map;
    struct secret secret;
    struct endpoint *endpoints;
    size_t endpoint_count, next, busy;
    struct source_status status;
    char problem[ERR_TEXT_BYTES];
    char host[MAP_NAME_MAX + 1];
};

struct sources {
    uv_loop_t *loop;
    struct clock_ops clock;
    struct random_ops random;
    struct sources_hooks hooks;
    struct clock_timer *timer;
    struct clock_timer *take_timer;
    struct list parsed; /* jobs whose samples are being taken */
    struct fetch *fetch;
    struct source items[SOURCES_MAX];
    size_t count;
    uint64_t pace;
};

/* One document between the fetch and the last of its samples, first in libuv's pool. */
struct job {
    uv_work_t work;
    struct list node; /* of sources.parsed */
    struct sources_taking taking;
    struct endpoint *endpoint; /* NULL: not wanted any more */
    enum source_kind kind;
    uint64_t oldest_ms;
    char cluster_name[SAMPLES_SUBJECT_MAX + 1];
    struct vast_cluster cluster;
    struct buf body;
    struct samples samples;
    struct redfish_links links;
    struct err failed;
    bool ok;
};

static const char *const kind_names[] = {"smd", "redfish", "prometheus", "vast"};

const char *source_kind_name(enum source_kind kind)
{
    CHECK((unsigned)kind < ARRAY_COUNT(kind_names));
    return kind_names[kind];
}

int source_kind_parse(const char *text, enum source_kind *ret_kind)
{
    for (size_t i = 0; i < ARRAY_COUNT(kind_names); i++) {
        if (strcmp(kind_names[i], text) == 0) {
            *ret_kind = (enum source_kind)i;
            return 0;
        }
    }
    return -1;
}

static uint64_t now_us(const struct sources *sources)
{
    return sources->clock.monotonic_us(sources->clock.context);
}

static uint32_t any_number(const struct sources *sources)
{
    uint32_t number;

    sources->random.fill(sources->random.context, &number, sizeof(number));
    return number;
}

uint64_t source_delay_ms(uint64_t interval_ms, unsigned failures, uint32_t random)
{
    uint64_t intervals = 1;
    uint64_t jitter_ms = interval_ms / 5;

    for (unsigned i = 1; i < failures && intervals < SOURCE_BACKOFF_MAX; i++)
        intervals *= 2;
    return interval_ms * intervals - jitter_ms / 2 + (jitter_ms > 0 ? random % jitter_ms : 0);
}

char *source_url(const char *url, const char *host, char *text, size_t size)
{
    size_t length = 0;

    while (*url != '\0') {
        bool is_host = strncmp(url, "{host}", 6) == 0;
        const char *part = is_host ? host : url;
        size_t part_length = is_host ? strlen(host) : 1;

        if (length + part_length + 1 > size)
            return NULL;
        memcpy(text + length, part, part_length);
        length += part_length;
        url += is_host ? 6 : 1;
    }
    text[length] = '\0';
    return text;
}

bool source_target_next(const char **at, char *name, size_t size)
{
    static const char between[] = ", ";
    const char *word = *at + strspn(*at, between);
    size_t length = strcspn(word, between);

    CHECK(size > 0);
    *at = word + length;
    snprintf(name, size, "%.*s", (int)length, word);
    return length > 0;
}

/* ---- the end of a poll ---- */

/* The next one is due an interval after this one began, so that slow answers do not stretch it. */
static void poll_ended(struct endpoint *endpoint, const struct err *failed)
{
    struct source *source = endpoint->source;
    struct sources *sources = source->sources;
    uint64_t interval_ms = source->config.interval_ms * sources->pace;

    CHECK(endpoint->busy && source->busy > 0);
    endpoint->busy = false;
    source->busy--;
    source->status.polls_total++;
    endpoint->failing = failed != NULL;
    if (failed != NULL) {
        endpoint->failures += endpoint->failures < 100;
        source->status.failures_total++;
        snprintf(source->problem, sizeof(source->problem), "%s", failed->text);
        snprintf(source->host, sizeof(source->host), "%s",
                 endpoint->host != NULL ? endpoint->host : "");
    } else {
        endpoint->failures = 0;
        source->status.last_ok_us = now_us(sources);
    }
    endpoint->due_us = endpoint->began_us +
                       1000 * source_delay_ms(interval_ms, endpoint->failures, any_number(sources));
    if (source->busy + 1 == source->config.concurrency)
        sources->clock.timer_start(sources->timer, 0); /* others may wait for this place */
}

/* ---- one document ---- */

static void next_document(struct endpoint *endpoint);

static void parse_body(uv_work_t *work)
{
    struct job *job = work->data;
    int result = -1;

    switch (job->kind) {
    case SOURCE_SMD:
        result = smd_parse(job->body.bytes, job->body.length, &job->samples, &job->failed);
        break;
    case SOURCE_REDFISH:
        result = redfish_parse(job->body.bytes, job->body.length, &job->samples, &job->links,
                               &job->failed);
        break;
    case SOURCE_PROMETHEUS:
        result = prometheus_parse(job->body.bytes, job->body.length, job->oldest_ms, &job->samples,
                                  &job->failed);
        break;
    case SOURCE_VAST:
        result = vast_parse(job->body.bytes, job->body.length, job->cluster_name, &job->cluster,
                            &job->failed);
        break;
    }
    job->ok = result == 0;
    buf_close(&job->body); /* giving megabytes back takes its time: here it is nobody's */
}

static void count_samples(struct source *source, const struct samples *samples)
{
    source->status.samples_total += samples->count;
    source->status.refused_total += samples->refused;
    source->status.old_total += samples->old;
    source->status.dropped_total += samples->dropped;
}

static void job_free(struct job *job)
{
    buf_close(&job->body);
    samples_close(&job->samples);
    redfish_links_close(&job->links);
    buf_close(&job->taking.marked);
    free(job);
}

static void document_missed(struct endpoint *endpoint, const struct err *failed)
{
    if (endpoint->source->config.kind != SOURCE_REDFISH) {
        poll_ended(endpoint, failed);
        return;
    }
    endpoint->problem = *failed;
    walk_missed(&endpoint->walk);
    next_document(endpoint);
}

/* ---- its samples ---- */

static void document_taken(struct job *job)
{
    struct endpoint *endpoint = job->endpoint;

    list_remove(&job->node);
    if (endpoint != NULL) {
        endpoint->job = NULL;
        if (job->kind == SOURCE_REDFISH)
            walk_found(&endpoint->walk, &job->links);
        next_document(endpoint);
    }
    job_free(job);
}

/* True: the whole. */
static bool take_some(struct job *job, size_t most)
{
    struct endpoint *endpoint = job->endpoint;
    const struct sources_hooks *hooks;

    if (endpoint == NULL || job->samples.count == 0)
        return true;
    hooks = &endpoint->source->sources->hooks;
    endpoint->told = true;
    return hooks->samples(hooks->context, endpoint->source->index, endpoint->node, &job->samples,
                          most, &job->taking);
}

/* Document after document, as much as one turn of the loop may hold. */
static void take_parsed(void *data)
{
    struct sources *sources = data;
    size_t left = SOURCE_TURN_SAMPLES;

    while (!list_empty(&sources->parsed) && left > 0) {
        struct job *job = LIST_ITEM(sources->parsed.next, struct job, node);
        size_t before = job->taking.next + job->taking.marks_done, count;

        if (!take_some(job, left))
            break;
        count = job->taking.next + job->taking.marks_done - before;
        if (count < SOURCE_DOCUMENT_SAMPLES)
            count = SOURCE_DOCUMENT_SAMPLES;
        left -= count < left ? count : left;
        document_taken(job);
    }
    if (!list_empty(&sources->parsed))
        sources->clock.timer_start(sources->take_timer, 0);
}

static void tell_cluster(struct source *source, const struct vast_cluster *cluster)
{
    const struct sources_hooks *hooks = &source->sources->hooks;

    source->status.samples_total++;
    source->status.refused_total += cluster->refused;
    hooks->cluster(hooks->context, source->index, cluster);
}

static void on_parsed(uv_work_t *work, int status)
{
    struct job *job = work->data;
    struct endpoint *endpoint = job->endpoint;

    if (endpoint != NULL && status == 0 && job->ok) {
        struct sources *sources = endpoint->source->sources;

        count_samples(endpoint->source, &job->samples);
        if (job->kind == SOURCE_VAST)
            tell_cluster(endpoint->source, &job->cluster);
        if (list_empty(&sources->parsed))
            sources->clock.timer_start(sources->take_timer, 0);
        list_push_back(&sources->parsed, &job->node);
        return;
    }
    if (endpoint != NULL) {
        endpoint->job = NULL;
        document_missed(endpoint, &job->failed);
    }
    job_free(job);
}

static uint64_t oldest_ms(const struct source *source)
{
    uint64_t wall_ms = source->sources->clock.wall_ms(source->sources->clock.context);
    uint64_t age_ms = source->config.interval_ms * SOURCE_STALE_INTERVALS;

    return wall_ms > age_ms ? wall_ms - age_ms : 0;
}

/* A poll that was refused because of its token begins once more with a login. */
static bool token_must_renew(struct endpoint *endpoint, long status, const struct buf *body)
{
    const struct source *source = endpoint->source;

    return source->config.kind == SOURCE_VAST && source->secret.login[0] != '\0' &&
           !endpoint->logged_in && vast_token_refused(status, body->bytes, body->length);
}

static void log_in(struct endpoint *endpoint);

static void on_fetched(void *data, const struct err *failed, long status, struct buf *body)
{
    struct endpoint *endpoint = data;
    struct job *job;

    endpoint->call = NULL;
    if (failed != NULL && token_must_renew(endpoint, status, body)) {
        log_in(endpoint);
        return;
    }
    if (failed != NULL) {
        if (failed->code == ERR_TIMEOUT || failed->code == ERR_UNAVAILABLE ||
            failed->code == ERR_AUTH)
            poll_ended(endpoint, failed); /* the other documents would fare no better */
        else
            document_missed(endpoint, failed);
        return;
    }
    job = check_calloc(1, sizeof(*job));
    job->work.data = job;
    job->endpoint = endpoint;
    job->kind = endpoint->source->config.kind;
    job->oldest_ms = oldest_ms(endpoint->source);
    job->taking.poll_us = endpoint->began_us;
    samples_init(&job->samples);
    snprintf(job->cluster_name, sizeof(job->cluster_name), "%s", endpoint->source->config.cluster);
    job->body = *body;
    buf_init(body);
    endpoint->job = job;
    CHECK(uv_queue_work(endpoint->source->sources->loop, &job->work, parse_body, on_parsed) == 0);
}

/* ---- a poll ---- */

static char *document_url(const struct endpoint *endpoint, const char *path, char *url, size_t size)
{
    const struct source_config *config = &endpoint->source->config;
    size_t length;

    if (config->kind == SOURCE_VAST)
        return vast_url(config->url, path, url, size);
    if (source_url(config->url, endpoint->host != NULL ? endpoint->host : "", url, size) == NULL)
        return NULL;
    length = strlen(url);
    while (path[0] == '/' && length > 0 && url[length - 1] == '/')
        url[--length] = '\0';
    if (length + strlen(path) >= size)
        return NULL;
    memcpy(url + length, path, strlen(path) + 1);
    return url;
}

static int endpoint_ask(struct endpoint *endpoint, const char *path, const char *post,
                        fetch_done_fn *done, struct err *err)
{
    struct source *source = endpoint->source;
    const struct source_config *config = &source->config;
    struct fetch_options options = {.timeout_ms = config->timeout_ms,
                                    .max_bytes = config->max_bytes,
                                    .ca = config->ca,
                                    .cert = config->cert,
                                    .key = config->key,
                                    .insecure = config->insecure,
                                    .user = source->secret.user,
                                    .bearer = post == NULL ? source->secret.bearer : "",
                                    .api_token = source->secret.api_token,
                                    .post = post};
    char url[URL_BYTES];

    if (document_url(endpoint, path, url, sizeof(url)) == NULL)
        return err_set(err, ERR_INVALID, "the url is longer than %d bytes", URL_BYTES);
    endpoint->call = fetch_send(source->sources->fetch, url, &options, done, endpoint, err);
    return endpoint->call != NULL ? 0 : -1;
}

static int endpoint_get(struct endpoint *endpoint, const char *path, struct err *err)
{
    return endpoint_ask(endpoint, path, NULL, on_fetched, err);
}

/* ---- a token for a login ---- */

static void token_came(void *data, const struct err *failed, long status, struct buf *body)
{
    struct endpoint *endpoint = data;
    struct err problem;
    char *token = NULL;

    (void)status;
    endpoint->call = NULL;
    if (failed != NULL)
        problem = *failed;
    else
        token = vast_token(body->bytes, body->length, &problem);
    if (body->length > 0)
        explicit_bzero(body->bytes, body->length);
    if (token != NULL) {
        secret_set_bearer(&endpoint->source->secret, token);
        if (endpoint_get(endpoint, VAST_CLUSTERS_PATH, &problem) == 0)
            return;
    }
    err_wrap(&problem, "login");
    poll_ended(endpoint, &problem);
}

static void log_in(struct endpoint *endpoint)
{
    struct secret *secret = &endpoint->source->secret;
    struct err failed;
    struct buf post;
    int result;

    endpoint->logged_in = true;
    secret_set_bearer(secret, NULL);
    buf_init(&post);
    vast_login(secret->login, &post);
    result = endpoint_ask(endpoint, VAST_TOKEN_PATH, (const char *)post.bytes, token_came, &failed);
    explicit_bzero(post.bytes, post.length);
    buf_close(&post);
    if (result != 0)
        poll_ended(endpoint, &failed);
}

/* A Redfish poll has succeeded when it told anything: one sensor that cannot be read does not make
 * a node blind. */
static void walk_ended(struct endpoint *endpoint)
{
    struct err nothing;

    if (endpoint->told) {
        poll_ended(endpoint, NULL);
        return;
    }
    if (endpoint->problem.code == ERR_NONE)
        err_set(&nothing, ERR_EMPTY, "no document tells anything about health");
    else
        nothing = endpoint->problem;
    endpoint->walk.stale = true;
    poll_ended(endpoint, &nothing);
}

static bool over_time(const struct endpoint *endpoint)
{
    const struct source_config *config = &endpoint->source->config;
    uint64_t limit_ms = POLL_TIMEOUTS_MAX * config->timeout_ms;

    if (limit_ms < config->interval_ms)
        limit_ms = config->interval_ms;
    return now_us(endpoint->source->sources) - endpoint->began_us > limit_ms * 1000;
}

static void next_document(struct endpoint *endpoint)
{
    bool walks = endpoint->source->config.kind == SOURCE_REDFISH;
    const char *path = walks ? walk_next(&endpoint->walk) : NULL;
    struct err failed;

    if (!walks) {
        poll_ended(endpoint, NULL);
    } else if (path == NULL) {
        walk_ended(endpoint);
    } else if (over_time(endpoint)) {
        err_set(&failed, ERR_TIMEOUT, "its documents take too long: %zu of %zu read",
                endpoint->walk.next, endpoint->walk.count);
        poll_ended(endpoint, &failed);
    } else if (endpoint_get(endpoint, path, &failed) != 0) {
        poll_ended(endpoint, &failed);
    }
}

static void begin_poll(struct endpoint *endpoint)
{
    struct source *source = endpoint->source;
    bool vast = source->config.kind == SOURCE_VAST;
    struct err failed;

    endpoint->busy = true;
    endpoint->told = endpoint->logged_in = false;
    endpoint->problem.code = ERR_NONE;
    endpoint->began_us = now_us(source->sources);
    source->busy++;
    if (source->config.kind == SOURCE_REDFISH) {
        walk_begin(&endpoint->walk);
        next_document(endpoint);
    } else if (vast && source->secret.login[0] != '\0' && source->secret.bearer[0] == '\0') {
        log_in(endpoint);
    } else if (endpoint_get(endpoint, vast ? VAST_CLUSTERS_PATH : "", &failed) != 0) {
        poll_ended(endpoint, &failed);
    }
}

static void start_due(struct source *source)
{
    uint64_t at_us = now_us(source->sources);

    for (size_t i = 0; i < source->endpoint_count && source->busy < source->config.concurrency;
         i++) {
        struct endpoint *endpoint = &source->endpoints[source->next];

        source->next = source->next + 1 < source->endpoint_count ? source->next + 1 : 0;
        if (!endpoint->busy && endpoint->due_us <= at_us)
            begin_poll(endpoint);
    }
}

static void sources_start_timer(struct sources *sources)
{
    uint64_t tick_ms = TICK_MAX_MS;

    for (size_t i = 0; i < sources->count; i++) {
        uint64_t tenth_ms = sources->items[i].config.interval_ms / 10;

        if (tenth_ms < tick_ms)
            tick_ms = tenth_ms > TICK_MIN_MS ? tenth_ms : TICK_MIN_MS;
    }
    sources->clock.timer_start(sources->timer, tick_ms * 1000);
}

static void on_timer(void *data)
{
    struct sources *sources = data;

    for (size_t i = 0; i < sources->count; i++)
        start_due(&sources->items[i]);
    sources_start_timer(sources);
}

/* ---- setting up ---- */

static void config_copy(struct source_config *to, const struct source_config *from)
{
    *to = *from;
    to->name = check_strdup(from->name);
    to->url = check_strdup(from->url);
    to->map = check_strdup(from->map);
    to->credentials = check_strdup(from->credentials);
    to->ca = check_strdup(from->ca);
    to->cert = check_strdup(from->cert);
    to->key = check_strdup(from->key);
    to->targets = check_strdup(from->targets);
    to->cluster = check_strdup(from->cluster);
}

static void config_close(struct source_config *config)
{
    free(config->name);
    free(config->url);
    free(config->map);
    free(config->credentials);
    free(config->ca);
    free(config->cert);
    free(config->key);
    free(config->targets);
    free(config->cluster);
}

static void add_endpoint(struct source *source, const char *node, const char *host)
{
    struct endpoint *endpoint = &source->endpoints[source->endpoint_count++];

    *endpoint = (struct endpoint){.source = source, .node = node, .host = host};
}

static int make_endpoints(struct source *source, struct err *err)
{
    bool by_host = strstr(source->config.url, "{host}") != NULL;

    if (source->config.map[0] != '\0' && map_load(source->config.map, &source->map, err) != 0)
        return err_wrap(err, "map");
    if (by_host && source->map.row_count == 0)
        return err_set(err, ERR_EMPTY, "the url has {host}, but no line of the map names one");
    source->endpoints =
        check_calloc(by_host ? source->map.row_count : 1, sizeof(*source->endpoints));
    if (!by_host)
        add_endpoint(source, NULL, NULL);
    for (size_t i = 0; by_host && i < source->map.row_count; i++)
        add_endpoint(source, source->map.rows[i].node, source->map.rows[i].name);
    return 0;
}

/* One endpoint is asked at once; many spread over the first interval. */
static void source_spread_polls(struct source *source, uint64_t within_ms)
{
    uint64_t at_us = now_us(source->sources);

    for (size_t i = 0; i < source->endpoint_count; i++)
        source->endpoints[i].due_us =
            source->endpoint_count == 1
                ? at_us
                : at_us + any_number(source->sources) % (within_ms * 1000 + 1);
}

static void open_source(struct sources *sources, size_t index, const struct source_config *config)
{
    struct source *source = &sources->items[index];
    struct err failed;

    memset(source, 0, sizeof(*source));
    source->sources = sources;
    source->index = index;
    config_copy(&source->config, config);
    source->status.name = source->config.name;
    source->status.kind = config->kind;
    source->status.usable = secret_read(config->credentials, config->kind == SOURCE_VAST,
                                        &source->secret, &failed) == 0 &&
                            make_endpoints(source, &failed) == 0;
    if (!source->status.usable)
        snprintf(source->problem, sizeof(source->problem), "%s", failed.text);
    source_spread_polls(source, config->interval_ms);
}

/* libuv cannot take back what its pool has begun: a job forgets its endpoint instead. */
static void close_source(struct source *source)
{
    for (size_t i = 0; i < source->endpoint_count; i++) {
        struct endpoint *endpoint = &source->endpoints[i];

        fetch_cancel(endpoint->call);
        if (endpoint->job != NULL)
            endpoint->job->endpoint = NULL;
        walk_close(&endpoint->walk);
    }
    free(source->endpoints);
    map_close(&source->map);
    secret_close(&source->secret);
    config_close(&source->config);
    memset(source, 0, sizeof(*source));
}

void sources_configure(struct sources *sources, const struct source_config *configs, size_t count)
{
    CHECK(count <= SOURCES_MAX);
    for (size_t i = 0; i < sources->count; i++)
        close_source(&sources->items[i]);
    sources->count = count;
    for (size_t i = 0; i < count; i++)
        open_source(sources, i, &configs[i]);
    if (count > 0)
        sources_start_timer(sources);
    else
        sources->clock.timer_stop(sources->timer);
}

void sources_set_pace(struct sources *sources, uint64_t pace)
{
    bool faster = pace < sources->pace;

    CHECK(pace > 0);
    sources->pace = pace;
    for (size_t i = 0; faster && i < sources->count; i++)
        source_spread_polls(&sources->items[i], sources->items[i].config.interval_ms);
}

struct sources *sources_new(uv_loop_t *loop, const struct clock_ops *clock,
                            const struct random_ops *random, const struct sources_hooks *hooks)
{
    struct sources *sources = check_calloc(1, sizeof(*sources));

    sources->loop = loop;
    sources->clock = *clock;
    sources->random = *random;
    sources->hooks = *hooks;
    sources->pace = 1;
    sources->timer = clock->timer_new(clock->context, on_timer, sources);
    sources->take_timer = clock->timer_new(clock->context, take_parsed, sources);
    list_init(&sources->parsed);
    sources->fetch = fetch_new(loop, CONNECTIONS_IDLE_MAX);
    return sources;
}

void sources_free(struct sources *sources)
{
    if (sources == NULL)
        return;
    sources_configure(sources, NULL, 0);
    while (!list_empty(&sources->parsed))
        document_taken(LIST_ITEM(sources->parsed.next, struct job, node)); /* nobody's now */
    fetch_free(sources->fetch);
    sources->clock.timer_free(sources->timer);
    sources->clock.timer_free(sources->take_timer);
    free(sources);
}

/* ---- how it goes ---- */

size_t sources_count(const struct sources *sources)
{
    return sources != NULL ? sources->count : 0;
}

void sources_status(const struct sources *sources, size_t i, struct source_status *ret_status)
{
    const struct source *source = &sources->items[i];

    CHECK(i < sources->count);
    *ret_status = source->status;
    ret_status->endpoints = source->endpoint_count;
    ret_status->failing = 0;
    for (size_t e = 0; e < source->endpoint_count; e++)
        ret_status->failing += source->endpoints[e].failing;
    ret_status->problem = ret_status->failing > 0 || !ret_status->usable ? source->problem : "";
    ret_status->host = source->host;
    ret_status->interval_us = source->config.interval_ms * sources->pace * 1000;
}

const struct source_config *sources_config(const struct sources *sources, size_t i)
{
    CHECK(i < sources->count);
    return &sources->items[i].config;
}

const struct map *sources_map(const struct sources *sources, size_t i)
{
    CHECK(i < sources->count);
    return &sources->items[i].map;
}
