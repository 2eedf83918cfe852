/* Asks the configured sources of telemetry. See telemetry.h. In the order of the file: samples to
 * nodes, who is seen and who is not, when a source is asked, and what people are told. */
#include "src/broker/health/telemetry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/node_life.h"
#include "src/base/check.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/headroom.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"

#define RUNBOOK "runbook: A telemetry source is blind"

enum { NODE_NAME_BYTES = 130 };

/* What is known of a source beside how its polls go. */
struct view {
    char name[65];
    uint8_t *expected; /* by node slot: it should speak of this node */
    uint32_t slots;
    uint32_t sights[NODE_HEALTH_FRESH + 1];
    char first_unseen[NODE_NAME_BYTES];     /* a node that is blind or stale */
    char stranger[SAMPLES_SUBJECT_MAX + 1]; /* the last name that no node has */
    uint64_t strangers_total;
    bool bad; /* as logged last */
    uint64_t logged_us;
};

struct telemetry {
    struct broker *broker;
    struct replica_observer observer;
    struct sources *sources;
    struct headroom *headroom;
    struct clock_timer *timer;
    struct view views[SOURCES_MAX];
    uint64_t configured_us;
    uint64_t slowdown; /* of followers */
    uint64_t paced_us; /* when this member began to lead or to follow */
};

static uint64_t now_us(const struct telemetry *telemetry)
{
    const struct clock_ops *clock = &telemetry->broker->clock;

    return clock->monotonic_us(clock->context);
}

static struct node_health *health_of(const struct broker *broker)
{
    return nodes_health(broker->nodes);
}

static const struct fsm *state_of(const struct telemetry *telemetry)
{
    return replica_fsm(telemetry->broker->replica);
}

/* Of node_health.h: 0 is the agent. */
static unsigned number_of(size_t source)
{
    return (unsigned)source + 1;
}

/* ---- samples ---- */

/* The node that a name means: by the source's map first, else by its own name. */
static const struct fsm_node *node_named(const struct telemetry *telemetry, size_t source,
                                         const char *name, size_t length)
{
    char text[SAMPLES_SUBJECT_MAX + 1];
    const char *mapped;

    if (length == 0 || length >= sizeof(text))
        return NULL;
    memcpy(text, name, length);
    text[length] = '\0';
    mapped = map_find(sources_map(telemetry->sources, source), text);
    return fsm_node_find(state_of(telemetry), mapped != NULL ? mapped : text);
}

/* A subject may be several names with "|" between them; a host's full name is also known by its
 * first word. */
static const struct fsm_node *node_of(const struct telemetry *telemetry, size_t source,
                                      const char *subject)
{
    const struct fsm_node *node = NULL;

    for (const char *name = subject; node == NULL && *name != '\0';) {
        size_t length = strcspn(name, "|");

        node = node_named(telemetry, source, name, length);
        if (node == NULL)
            node = node_named(telemetry, source, name, strcspn(name, ".|"));
        name += length + (name[length] == '|');
    }
    return node;
}

/* A name that no node has is counted and shown: a map with a mistake looks like a source that is
 * blind. */
static void note_stranger(struct telemetry *telemetry, size_t source, const char *name)
{
    struct view *view = &telemetry->views[source];

    view->strangers_total++;
    snprintf(view->stranger, sizeof(view->stranger), "%s", name);
}

/* Nodes that one document speaks of, with repetitions. */
struct mark {
    uint32_t slot;
    uint64_t made; /* the slot may be another node's before the document's end */
};

static void mark_node(struct sources_taking *taking, const struct fsm_node *node)
{
    struct mark mark = {node->slot, node->made};

    buf_append(&taking->marked, &mark, sizeof(mark));
}

/* Samples of nodes that nobody knows are dropped here. */
static void take_one(struct telemetry *telemetry, size_t source, const struct fsm_node *node,
                     const struct telemetry_sample *sample)
{
    if (node != NULL)
        node_health_sample(health_of(telemetry->broker), node->slot, number_of(source), sample);
}

/* Samples of many nodes: consecutive ones are mostly of one node, or of one metric of one node
 * after the other. */
static void take_of_many(struct telemetry *telemetry, size_t source, const struct samples *samples,
                         size_t end, struct sources_taking *taking)
{
    const struct fsm_node *node = NULL;
    uint32_t subject = SAMPLES_NO_SUBJECT;

    for (size_t i = taking->next; i < end; i++) {
        const struct telemetry_sample *sample = &samples->items[i];

        if (i == taking->next || sample->subject != subject) {
            bool begins = i == 0 || sample->subject != samples->items[i - 1].subject;
            const char *name = sample->subject != SAMPLES_NO_SUBJECT
                                   ? samples_subject(samples, sample->subject)
                                   : "";

            subject = sample->subject;
            node = node_of(telemetry, source, name);
            if (node != NULL && begins)
                mark_node(taking, node);
            else if (begins)
                note_stranger(telemetry, source, name[0] != '\0' ? name : "(no name)");
        }
        take_one(telemetry, source, node, sample);
    }
}

/* A source that is asked per node says of whom it speaks by the endpoint. */
static void take_of_one(struct telemetry *telemetry, size_t source, const char *node_id,
                        const struct samples *samples, size_t end, struct sources_taking *taking)
{
    const struct fsm_node *node = fsm_node_find(state_of(telemetry), node_id);

    for (size_t i = taking->next; node != NULL && i < end; i++)
        take_one(telemetry, source, node, &samples->items[i]);
    if (node != NULL && end == samples->count)
        mark_node(taking, node);
}

/* Nodes are marked as heard when the whole document was taken: what is there at first sight is told
 * from what appears later. */
static void mark_heard(struct telemetry *telemetry, size_t source, size_t most,
                       struct sources_taking *taking)
{
    size_t count = taking->marked.length / sizeof(struct mark);

    for (; taking->marks_done < count && most > 0; most--) {
        const struct fsm_node *node;
        struct mark mark;

        memcpy(&mark, taking->marked.bytes + taking->marks_done++ * sizeof(mark), sizeof(mark));
        node = fsm_node_find_slot(state_of(telemetry), mark.slot);
        if (node != NULL && node->made == mark.made)
            node_health_heard(health_of(telemetry->broker), mark.slot, number_of(source),
                              taking->poll_us);
    }
}

/* At most `most` steps in a turn of the loop: a document may have a hundred thousand samples. True:
 * all of it is taken. */
static bool take_samples(void *context, size_t source, const char *node_id,
                         const struct samples *samples, size_t most, struct sources_taking *taking)
{
    struct telemetry *telemetry = context;
    size_t end = samples->count - taking->next < most ? samples->count : taking->next + most;

    if (node_id == NULL)
        take_of_many(telemetry, source, samples, end, taking);
    else
        take_of_one(telemetry, source, node_id, samples, end, taking);
    most -= end - taking->next;
    taking->next = end;
    if (end == samples->count)
        mark_heard(telemetry, source, most, taking);
    return taking->next == samples->count &&
           taking->marks_done * sizeof(struct mark) == taking->marked.length;
}

/* A storage system speaks of itself, not of nodes. */
static void take_cluster(void *context, size_t source, const struct vast_cluster *cluster)
{
    struct telemetry *telemetry = context;

    headroom_take(telemetry->headroom, telemetry->sources, source, cluster);
}

/* ---- who is seen ---- */

static void set_fresh(struct telemetry *telemetry);

/* A source with a map should speak of the nodes in it, one without of all nodes. */
static void expect_nodes(struct telemetry *telemetry, size_t source)
{
    const struct fsm *fsm = state_of(telemetry);
    const struct map *map = sources_map(telemetry->sources, source);
    bool of_nodes = sources_config(telemetry->sources, source)->kind != SOURCE_VAST;
    struct view *view = &telemetry->views[source];
    uint32_t slots = fsm_node_slots(fsm);

    if (slots != view->slots) {
        view->expected = check_realloc(view->expected, slots > 0 ? slots : 1, 1);
        view->slots = slots;
    }
    for (uint32_t slot = 0; slot < slots; slot++)
        view->expected[slot] =
            of_nodes && map->row_count == 0 && fsm_node_find_slot(fsm, slot) != NULL;
    for (size_t row = 0; row < map->row_count; row++) {
        const struct fsm_node *node = fsm_node_find(fsm, map->rows[row].node);

        if (node != NULL && node->slot < slots)
            view->expected[node->slot] = true;
    }
}

/* How many of the expected nodes are seen, and the first one that is not, as an example for
 * people. */
static void count_sights(struct telemetry *telemetry, size_t source)
{
    const struct fsm *fsm = state_of(telemetry);
    const struct node_health *health = health_of(telemetry->broker);
    struct view *view = &telemetry->views[source];
    uint64_t age_ms;

    memset(view->sights, 0, sizeof(view->sights));
    view->first_unseen[0] = '\0';
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        const struct fsm_node *node = view->expected[slot] ? fsm_node_find_slot(fsm, slot) : NULL;
        enum node_health_sight sight;

        if (node == NULL || fsm_node_gone(node))
            continue; /* one that is down is known to be */
        sight = node_health_sight(health, slot, number_of(source), &age_ms);
        view->sights[sight]++;
        if (sight != NODE_HEALTH_FRESH && view->first_unseen[0] == '\0')
            snprintf(view->first_unseen, sizeof(view->first_unseen), "%s", node->id);
    }
}

/* Nothing was promised before every endpoint had its turn. */
static bool has_settled(const struct telemetry *telemetry, const struct source_status *status)
{
    return now_us(telemetry) - telemetry->configured_us >
           SOURCE_STALE_INTERVALS * status->interval_us;
}

/* Worth a warning: not asked at all, some endpoint fails, or nodes are not spoken of that should
 * be. */
static bool is_bad(const struct telemetry *telemetry, size_t source,
                   const struct source_status *status)
{
    const struct view *view = &telemetry->views[source];

    return !status->usable || status->failing > 0 || view->sights[NODE_HEALTH_STALE] > 0 ||
           (has_settled(telemetry, status) && view->sights[NODE_HEALTH_BLIND] > 0);
}

/* One line when it turns bad or well, and again now and then while it is bad. */
static void log_change(struct telemetry *telemetry, size_t source,
                       const struct source_status *status)
{
    struct view *view = &telemetry->views[source];
    bool bad = is_bad(telemetry, source, status);
    uint64_t at_us = now_us(telemetry);

    if (bad == view->bad && (!bad || at_us - view->logged_us < TELEMETRY_LOG_MS * UINT64_C(1000)))
        return;
    view->bad = bad;
    view->logged_us = at_us;
    if (bad)
        log_warning("telemetry_source",
                    "source=%s endpoints=%zu failing=%zu stale_nodes=%" PRIu32
                    " blind_nodes=%" PRIu32 " node=%s host=%s problem=\"%s\" text=\"decisions go "
                    "on with what was known, which fades; " RUNBOOK "\"",
                    status->name, status->endpoints, status->failing,
                    view->sights[NODE_HEALTH_STALE], view->sights[NODE_HEALTH_BLIND],
                    view->first_unseen, status->host, status->problem);
    else
        log_info("telemetry_source",
                 "source=%s endpoints=%zu text=\"all that it should speak of is seen\"",
                 status->name, status->endpoints);
}

/* Every TELEMETRY_LOOK_MS, on every member. */
static void look_around(void *data)
{
    struct telemetry *telemetry = data;

    set_fresh(telemetry);
    for (size_t i = 0; i < sources_count(telemetry->sources); i++) {
        struct source_status status;

        sources_status(telemetry->sources, i, &status);
        expect_nodes(telemetry, i);
        count_sights(telemetry, i);
        log_change(telemetry, i, &status);
    }
    headroom_look(telemetry->headroom, telemetry->sources);
    telemetry->broker->clock.timer_start(telemetry->timer, TELEMETRY_LOOK_MS * UINT64_C(1000));
}

/* ---- life ---- */

/* A new leader heard nodes at a follower's pace so far: that is not stale before its own first
 * polls had time to end. */
static void set_fresh(struct telemetry *telemetry)
{
    struct node_health *health = health_of(telemetry->broker);
    bool leads = replica_serving(telemetry->broker->replica);
    uint64_t since_us = now_us(telemetry) - telemetry->paced_us;

    for (size_t i = 0; i < sources_count(telemetry->sources); i++) {
        struct source_status status;
        uint64_t interval_us;

        sources_status(telemetry->sources, i, &status);
        interval_us = status.interval_us;
        if (leads && since_us < 2 * interval_us)
            interval_us *= telemetry->slowdown;
        node_health_set_source(health, number_of(i), SOURCE_STALE_INTERVALS * interval_us / 1000);
    }
}

/* Followers ask more rarely, so that the sources are not asked by each member as often as by
 * one. */
static void set_pace(struct telemetry *telemetry)
{
    sources_set_pace(telemetry->sources,
                     replica_serving(telemetry->broker->replica) ? 1 : telemetry->slowdown);
    telemetry->paced_us = now_us(telemetry);
    set_fresh(telemetry);
}

/* Leading or not: what was measured of storage begins anew, and the pace is another one. */
static void on_role(void *context)
{
    struct telemetry *telemetry = context;

    headroom_restart(telemetry->headroom);
    set_pace(telemetry);
}

/* A source whose name changed at its place is another source: what was heard of the old one is
 * forgotten. */
void telemetry_configure(struct telemetry *telemetry, const struct config *config)
{
    struct node_health *health;

    if (telemetry == NULL)
        return;
    health = health_of(telemetry->broker);
    node_health_configure(health, &config->health);
    telemetry->slowdown = config->health.follower_slowdown;
    telemetry->configured_us = now_us(telemetry);
    for (size_t i = 0; i < SOURCES_MAX; i++) {
        struct view *view = &telemetry->views[i];
        const char *name = i < config->telemetry_count ? config->telemetry[i].name : "";

        if (strcmp(view->name, name) == 0)
            continue;
        node_health_set_source(health, number_of(i), 0);
        free(view->expected);
        *view = (struct view){.slots = 0};
        snprintf(view->name, sizeof(view->name), "%s", name);
    }
    headroom_restart(telemetry->headroom);
    sources_configure(telemetry->sources, config->telemetry, config->telemetry_count);
    set_pace(telemetry);
    look_around(telemetry);
}

struct telemetry *telemetry_new(struct broker *broker)
{
    struct telemetry *telemetry = check_calloc(1, sizeof(*telemetry));
    struct sources_hooks hooks = {
        .context = telemetry, .samples = take_samples, .cluster = take_cluster};

    telemetry->broker = broker;
    telemetry->headroom = headroom_new(broker);
    telemetry->sources = sources_new(broker->loop, &broker->clock, &broker->random, &hooks);
    telemetry->timer = broker->clock.timer_new(broker->clock.context, look_around, telemetry);
    telemetry->observer =
        (struct replica_observer){.context = telemetry, .serving = on_role, .not_serving = on_role};
    replica_observe(broker->replica, &telemetry->observer);
    telemetry_configure(telemetry, broker->config);
    return telemetry;
}

void telemetry_free(struct telemetry *telemetry)
{
    if (telemetry == NULL)
        return;
    sources_free(telemetry->sources);
    headroom_free(telemetry->headroom);
    telemetry->broker->clock.timer_free(telemetry->timer);
    for (size_t i = 0; i < SOURCES_MAX; i++)
        free(telemetry->views[i].expected);
    free(telemetry);
}

/* ---- for people ---- */

static char *failing_text(struct scratch *scratch, const struct source_status *status)
{
    return scratch_printf(scratch,
                          "telemetry source %s fails for %zu of %zu endpoints, last %s%s%.200s: "
                          "decisions go on with what was known, which fades; see the " RUNBOOK,
                          status->name, status->failing, status->endpoints, status->host,
                          status->host[0] != '\0' ? ": " : "", status->problem);
}

/* Each says which source, what is wrong, and what to do; at most four for a source. */
void telemetry_warnings(const struct telemetry *telemetry, struct scratch *scratch,
                        void (*take)(void *context, char *text), void *context)
{
    for (size_t i = 0; telemetry != NULL && i < sources_count(telemetry->sources); i++) {
        const struct view *view = &telemetry->views[i];
        struct source_status status;

        sources_status(telemetry->sources, i, &status);
        if (!status.usable) {
            take(context, scratch_printf(scratch,
                                         "telemetry source %s is not asked: %.300s: correct it and "
                                         "reload ckptd",
                                         status.name, status.problem));
            continue;
        }
        if (status.failing > 0)
            take(context, failing_text(scratch, &status));
        if (headroom_problem(telemetry->headroom, i)[0] != '\0')
            take(context, scratch_printf(scratch, "telemetry source %s: %s", status.name,
                                         headroom_problem(telemetry->headroom, i)));
        if (view->sights[NODE_HEALTH_STALE] > 0 ||
            (has_settled(telemetry, &status) && view->sights[NODE_HEALTH_BLIND] > 0))
            take(context,
                 scratch_printf(scratch,
                                "telemetry source %s is silent about %" PRIu32
                                " nodes and never spoke of %" PRIu32
                                ", for example %s%s%.64s%s: see ckptctl nodes and the " RUNBOOK,
                                status.name, view->sights[NODE_HEALTH_STALE],
                                view->sights[NODE_HEALTH_BLIND], view->first_unseen,
                                view->stranger[0] != '\0' ? "; it speaks of '" : "", view->stranger,
                                view->stranger[0] != '\0' ? "', which no node is called" : ""));
    }
}

static void read_source(const struct telemetry *telemetry, size_t i, struct metrics *metrics)
{
    static const char *const sights[] = {"blind", "stale", "fresh"};
    const struct view *view = &telemetry->views[i];
    struct source_status status;
    uint64_t since_us;

    sources_status(telemetry->sources, i, &status);
    since_us = status.last_ok_us != 0 ? status.last_ok_us : telemetry->configured_us;
    metrics_set(metrics, METRIC_TELEMETRY_UP, status.name, NULL,
                status.usable && status.last_ok_us != 0 && status.failing < status.endpoints);
    metrics_set(metrics, METRIC_TELEMETRY_ENDPOINTS, status.name, NULL, (double)status.endpoints);
    metrics_set(metrics, METRIC_TELEMETRY_FAILING, status.name, NULL, (double)status.failing);
    metrics_set(metrics, METRIC_TELEMETRY_AGE, status.name, NULL,
                (double)(now_us(telemetry) - since_us) / 1e6);
    metrics_set(metrics, METRIC_TELEMETRY_POLLS, status.name, NULL, (double)status.polls_total);
    metrics_set(metrics, METRIC_TELEMETRY_FAILURES, status.name, NULL,
                (double)status.failures_total);
    metrics_set(metrics, METRIC_TELEMETRY_REFUSED, status.name, "value",
                (double)status.refused_total);
    metrics_set(metrics, METRIC_TELEMETRY_REFUSED, status.name, "old", (double)status.old_total);
    metrics_set(metrics, METRIC_TELEMETRY_REFUSED, status.name, "room",
                (double)status.dropped_total);
    for (size_t sight = 0; sight < ARRAY_COUNT(sights); sight++)
        metrics_set(metrics, METRIC_TELEMETRY_NODES, status.name, sights[sight],
                    view->sights[sight]);
}

void telemetry_read_metrics(const struct telemetry *telemetry, struct metrics *metrics)
{
    static const enum metric of_sources[] = {METRIC_TELEMETRY_UP,      METRIC_TELEMETRY_ENDPOINTS,
                                             METRIC_TELEMETRY_FAILING, METRIC_TELEMETRY_AGE,
                                             METRIC_TELEMETRY_POLLS,   METRIC_TELEMETRY_FAILURES,
                                             METRIC_TELEMETRY_NODES,   METRIC_TELEMETRY_REFUSED};
    struct node_health_counts counts;

    if (telemetry == NULL)
        return;
    for (size_t i = 0; i < ARRAY_COUNT(of_sources); i++)
        metrics_clear(metrics, of_sources[i]); /* a reload may have taken sources away */
    for (size_t i = 0; i < sources_count(telemetry->sources); i++)
        read_source(telemetry, i, metrics);
    node_health_count(health_of(telemetry->broker), &counts);
    metrics_set(metrics, METRIC_NODES_UNWELL, NULL, NULL, counts.unwell);
    metrics_set(metrics, METRIC_NODES_ALARMS, NULL, NULL, counts.alarms);
    metrics_set(metrics, METRIC_NODES_DRAINS, "asked", NULL, (double)counts.drains_total);
    metrics_set(metrics, METRIC_NODES_DRAINS, "held", NULL, (double)counts.drains_held_total);
}

/* ---- one node ---- */

static void add_source(const struct node_health *health, uint32_t node_slot, unsigned number,
                       const char *name, struct scratch *scratch, Ckpt__V1__NodeStatus *node)
{
    static const char *const sights[] = {"blind", "stale", "fresh"};
    Ckpt__V1__NodeSource *item = scratch_take(scratch, 1, sizeof(*item));
    uint64_t age_ms;

    ckpt__v1__node_source__init(item);
    item->source = translate_text(name);
    item->sight = translate_text(sights[node_health_sight(health, node_slot, number, &age_ms)]);
    item->age_ms = age_ms;
    node->sources[node->n_sources++] = item;
}

static void add_signals(const struct node_health *health, uint32_t node_slot,
                        struct scratch *scratch, Ckpt__V1__NodeStatus *node)
{
    struct node_health_signal signals[TELEMETRY_SIGNAL_COUNT];
    size_t count = node_health_signals(health, node_slot, signals);

    node->signals = scratch_take(scratch, count, sizeof(node->signals[0]));
    for (size_t i = 0; i < count; i++) {
        Ckpt__V1__NodeSignal *item = scratch_take(scratch, 1, sizeof(*item));

        ckpt__v1__node_signal__init(item);
        item->signal = translate_text(telemetry_signal_name(signals[i].signal));
        item->factor_milli = (uint64_t)(signals[i].factor * 1e3);
        item->alarm = signals[i].alarm;
        item->alarm_age_ms = signals[i].alarm_age_ms;
        node->signals[node->n_signals++] = item;
    }
}

/* Sources that should not speak of the node are left out. */
void telemetry_fill_node(const struct broker *broker, uint32_t node_slot, struct scratch *scratch,
                         Ckpt__V1__NodeStatus *node)
{
    const struct telemetry *telemetry = broker->telemetry;
    const struct node_health *health = health_of(broker);
    size_t sources = telemetry != NULL ? sources_count(telemetry->sources) : 0;

    node->hazard_factor_milli = (uint64_t)(node_health_factor(health, node_slot) * 1e3);
    if (health == NULL)
        return;
    add_signals(health, node_slot, scratch, node);
    node->sources = scratch_take(scratch, sources + 1, sizeof(node->sources[0]));
    add_source(health, node_slot, 0, "agent", scratch, node);
    for (size_t i = 0; i < sources; i++) {
        const struct view *view = &telemetry->views[i];

        if (node_slot < view->slots && view->expected[node_slot])
            add_source(health, node_slot, number_of(i), view->name, scratch, node);
    }
}
