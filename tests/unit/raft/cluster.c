/* The simulated cluster and its checks. See cluster.h. */
#include "tests/unit/raft/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/log/founding.h"
#include "src/base/check.h"

enum { SECOND_US = 1000000 };

struct tag {
    struct cluster *cluster;
    uint64_t payload;
};

struct reading {
    struct cluster_node *node;
    uint64_t must_see;
};

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash == 0 ? 1 : hash;
}

/* ---- hooks ---- */

static void equal_or_record(uint64_t *table, uint64_t index, uint64_t hash, const char *what)
{
    CHECK(index < CLUSTER_INDEXES_MAX);
    if (table[index] == 0)
        table[index] = hash;
    if (table[index] != hash) {
        fprintf(stderr, "%s at index %" PRIu64 " differs between members\n", what, index);
        abort();
    }
}

static void hook_apply(void *context, uint64_t index, uint64_t term, const uint8_t *bytes,
                       size_t length, void *tag)
{
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    struct tag *own = tag;
    uint64_t hash = mix(mix(UINT64_C(0xcbf29ce484222325), bytes, length), &term, sizeof(term));

    CHECK(index > node->state.index);
    equal_or_record(cluster->entry_hashes, index, hash, "entry");
    node->state.index = index;
    node->state.hash = mix(node->state.hash, &hash, sizeof(hash));
    node->state.entries++;
    node->applied_here++;
    equal_or_record(cluster->state_hashes, index, node->state.hash, "state");
    sim_trace_add(cluster->sim, hash);
    if (own == NULL)
        return;
    CHECK(memcmp(bytes, &own->payload, length < 8 ? length : 8) == 0);
    if (index > cluster->acknowledged_index)
        cluster->acknowledged_index = index;
    cluster->acknowledged++;
    free(own);
}

static void hook_dropped(void *context, void *tag)
{
    ((struct cluster_node *)context)->cluster->dropped++;
    free(tag);
}

static void hook_role(void *context, enum consensus_role role, uint64_t term, uint64_t leader_id)
{
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;

    (void)leader_id;
    node->role = role;
    if (role != CONSENSUS_LEADER)
        return;
    CHECK(term < CLUSTER_TERMS_MAX);
    if (cluster->leaders[term] == 0)
        cluster->leaders[term] = node->number + 1;
    CHECK(cluster->leaders[term] == node->number + 1); /* I1 */
}

static void *hook_begin(void *context)
{
    struct cluster_node *node = context;

    CHECK(!node->taking);
    node->taking = true;
    node->taken_head = false;
    node->taken = node->state;
    node->taken_left = node->ballast_bytes;
    return context;
}

/* What does not compress, or the largest snapshot would be one piece. */
static uint8_t noise(uint64_t place)
{
    uint64_t z = place * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint8_t)(z >> 56);
}

static int hook_next(void *context, void *snapshot, size_t bytes,
                     const struct consensus_writer *writer, bool *ret_done, struct err *err)
{
    struct cluster_node *node = context;
    uint8_t ballast[1000];

    (void)snapshot;
    CHECK(node->taking);
    if (!node->taken_head &&
        (writer->write(writer->context, &node->taken, sizeof(node->taken), err) != 0 ||
         writer->write(writer->context, &node->taken_left, sizeof(node->taken_left), err) != 0))
        return -1;
    node->taken_head = true;
    for (size_t written = 0; node->taken_left > 0 && written < bytes;) {
        size_t n = node->taken_left < sizeof(ballast) ? node->taken_left : sizeof(ballast);
        for (size_t i = 0; i < n; i++)
            ballast[i] = noise(node->taken_left + i);
        if (writer->write(writer->context, ballast, n, err) != 0)
            return -1;
        node->taken_left -= n;
        written += n;
    }
    *ret_done = node->taken_left == 0;
    return 0;
}

static void hook_end(void *context, void *snapshot)
{
    struct cluster_node *node = context;

    CHECK(node->taking && snapshot == context);
    node->taking = false;
}

static int hook_load(void *context, const struct consensus_reader *reader, void **ret_state,
                     struct err *err)
{
    struct cluster_state *state = check_alloc(sizeof(*state));
    uint8_t ballast[1000];
    uint64_t left;

    (void)context;
    if (reader->read(reader->context, state, sizeof(*state), err) != 0 ||
        reader->read(reader->context, &left, sizeof(left), err) != 0) {
        free(state);
        return -1;
    }
    while (left > 0) {
        size_t n = left < sizeof(ballast) ? left : sizeof(ballast);
        if (reader->read(reader->context, ballast, n, err) != 0) {
            free(state);
            return -1;
        }
        left -= n;
    }
    *ret_state = state;
    return 0;
}

static void *hook_adopt(void *context, void *take_state)
{
    struct cluster_node *node = context;

    CHECK(!node->taking);
    node->state = *(struct cluster_state *)take_state;
    node->restored++;
    if (node->state.index > 0)
        equal_or_record(node->cluster->state_hashes, node->state.index, node->state.hash,
                        "snapshot");
    return take_state;
}

static void hook_discard(void *context, void *take_state)
{
    (void)context;
    free(take_state);
}

static void hook_fatal(void *context, const struct err *err)
{
    struct cluster_node *node = context;

    node->doomed = true;
    node->fatal = *err;
    node->gone |= err->code == ERR_REMOVED;
}

static uint64_t configuration_hash(const struct consensus_status *status)
{
    uint64_t roles[SIM_NODES_MAX + 1] = {0};

    roles[status->member_id] = status->member_role;
    for (size_t i = 0; i < status->peer_count; i++)
        roles[status->peers[i].id] = status->peers[i].role;
    return mix(UINT64_C(0xcbf29ce484222325), roles, sizeof(roles));
}

/* I9: the same committed configuration at the same index on all members. */
static void hook_members(void *context)
{
    struct cluster_node *node = context;
    struct consensus_status status;

    if (node->consensus == NULL)
        return; /* still opening */
    consensus_get_status(node->consensus, &status);
    if (status.change_index == 0 && status.configuration_index != 0)
        equal_or_record(node->cluster->configurations, status.configuration_index,
                        configuration_hash(&status), "configuration");
}

static size_t hook_note(void *context, uint64_t to, uint8_t bytes[CONSENSUS_NOTE_MAX_BYTES])
{
    const struct cluster_node *node = context;

    CHECK(to != 0 && to != node->number + 1u);
    bytes[0] = (uint8_t)node->number;
    memset(bytes + 1, 0xab, CONSENSUS_NOTE_MAX_BYTES - 1);
    return CONSENSUS_NOTE_MAX_BYTES;
}

static void hook_noted(void *context, uint64_t from, bool leads, const uint8_t *bytes,
                       size_t length)
{
    struct cluster_node *node = context;

    CHECK(length == CONSENSUS_NOTE_MAX_BYTES && bytes[0] + 1u == from && bytes[length - 1] == 0xab);
    node->words_of[from - 1]++;
    node->leader_words += leads;
}

static const struct consensus_hooks node_hooks = {
    .apply = hook_apply,
    .dropped = hook_dropped,
    .role_changed = hook_role,
    .snapshot_begin = hook_begin,
    .snapshot_next = hook_next,
    .snapshot_end = hook_end,
    .snapshot_load = hook_load,
    .snapshot_adopt = hook_adopt,
    .snapshot_discard = hook_discard,
    .fatal = hook_fatal,
    .members_changed = hook_members,
    .note = hook_note,
    .noted = hook_noted,
};

/* ---- life ---- */

struct cluster *cluster_new(uint64_t seed, unsigned count)
{
    return cluster_new_with(seed, count, count);
}

struct cluster *cluster_new_with(uint64_t seed, unsigned count, unsigned founders)
{
    struct cluster *cluster = check_calloc(1, sizeof(*cluster));

    CHECK(count <= SIM_NODES_MAX);
    cluster->sim = sim_new(seed);
    cluster->count = count;
    cluster->founders = founders;
    cluster->entry_bytes_max = 200;
    cluster->entry_hashes = check_calloc(CLUSTER_INDEXES_MAX, sizeof(uint64_t));
    cluster->state_hashes = check_calloc(CLUSTER_INDEXES_MAX, sizeof(uint64_t));
    cluster->configurations = check_calloc(CLUSTER_INDEXES_MAX, sizeof(uint64_t));
    cluster->leaders = check_calloc(CLUSTER_TERMS_MAX, sizeof(uint64_t));
    for (unsigned i = 0; i < count; i++) {
        struct cluster_node *node = &cluster->nodes[i];
        node->cluster = cluster;
        node->number = i;
        node->joins = i >= founders;
        sim_node_clock(cluster->sim, i, &node->clock);
        sim_node_random(cluster->sim, i, &node->random);
        sim_node_disk(cluster->sim, i, &node->disk);
        sim_node_network(cluster->sim, i, &node->network);
        cluster->members[i].id = i + 1;
        snprintf(cluster->members[i].name, sizeof(cluster->members[i].name), "n%u", i + 1);
        snprintf(cluster->members[i].address, sizeof(cluster->members[i].address), "node%u:1", i);
    }
    cluster->config = (struct consensus_config){.cluster_id = "sim",
                                                .data_dir = "/sim",
                                                .members = cluster->members,
                                                .member_count = count,
                                                .election_timeout_ms = 300,
                                                .heartbeat_ms = 50,
                                                .snapshot_after_entries = 100,
                                                .snapshot_after_bytes = 1 << 20,
                                                .reserve_bytes = 1 << 20,
                                                .segment_bytes = 2 << 20};
    return cluster;
}

/* What a founder writes down when all agree: it goes on from there by itself, also where the others
 * never start. */
static void agreed_write(struct cluster *cluster, const struct consensus_config *config)
{
    struct folder folder = {.disk = config->disk};
    struct founding_record record = {.number = config->member_id, .incarnation = 77};
    struct err err;

    if (config->disk->make_dir(config->disk->context, config->data_dir, &err) != 0)
        return;
    snprintf(folder.path, sizeof(folder.path), "%s", config->data_dir);
    for (unsigned i = 0; i < cluster->founders; i++)
        record.founders.list[record.founders.count++] = (struct frame_founder){i + 1, i + 1};
    record.basis =
        founding_basis(&record, config->cluster_id, config->members, config->member_count);
    (void)founding_write(&folder, &record, &err); /* a disk that is dead says so at the start */
}

int cluster_try_start(struct cluster *cluster, unsigned number, bool bootstrap, struct err *err)
{
    struct cluster_node *node = &cluster->nodes[number];
    struct consensus_config config = cluster->config;
    struct consensus_hooks hooks = node_hooks;

    CHECK(node->consensus == NULL);
    node->started = true;
    hooks.context = node;
    config.member_id = number + 1;
    config.listen_address = cluster->members[number].address;
    config.bootstrap = bootstrap && !node->joins;
    config.join = node->joins && !node->settled;
    /* A bootstrap's list is the configuration; later, and for who joins, it is addresses only. */
    if (bootstrap && !node->joins)
        config.member_count = cluster->founders;
    config.clock = &node->clock;
    config.random = &node->random;
    config.disk = &node->disk;
    config.network = &node->network;
    if (config.bootstrap && cluster->founders > 1 && !cluster->founds)
        agreed_write(cluster, &config);
    memset(&node->state, 0, sizeof(node->state));
    node->doomed = false;
    node->applied_here = node->restored = 0;
    memset(node->words_of, 0, sizeof(node->words_of));
    node->leader_words = 0;
    node->role = CONSENSUS_FOLLOWER;
    if (consensus_open(&config, &hooks, &node->consensus, err) != 0)
        return -1;
    node->settled = true;
    return 0;
}

void cluster_start(struct cluster *cluster, unsigned number, bool bootstrap)
{
    struct err err;

    if (cluster->nodes[number].gone || cluster_try_start(cluster, number, bootstrap, &err) == 0)
        return;
    if (err.code == ERR_REMOVED) {
        cluster->nodes[number].gone = true;
        return;
    }
    if (sim_disk_dead(cluster->sim, number) || err.code == ERR_FULL) {
        sim_crash(cluster->sim, number); /* died while recovering, or waits for room */
        return;
    }
    fprintf(stderr, "member %u cannot start: %s\n", number, err.text);
    abort();
}

void cluster_kill(struct cluster *cluster, unsigned number)
{
    struct cluster_node *node = &cluster->nodes[number];
    struct consensus *consensus = node->consensus;

    if (consensus == NULL)
        return;
    /* First the disk, so that nothing the teardown does reaches it; the first thing it does is to
     * close its connections. */
    node->consensus = NULL;
    node->role = CONSENSUS_FOLLOWER;
    sim_disk_die_after(cluster->sim, number, 1);
    consensus_abandon(consensus);
    sim_crash(cluster->sim, number);
}

void cluster_free(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        cluster_kill(cluster, i);
    sim_free(cluster->sim);
    free(cluster->entry_hashes);
    free(cluster->state_hashes);
    free(cluster->configurations);
    free(cluster->leaders);
    free(cluster);
}

bool cluster_step(struct cluster *cluster)
{
    bool more = sim_step(cluster->sim);

    for (unsigned i = 0; i < cluster->count; i++)
        if (cluster->nodes[i].consensus != NULL &&
            (cluster->nodes[i].doomed || sim_disk_dead(cluster->sim, i)))
            cluster_kill(cluster, i);
    return more;
}

void cluster_run(struct cluster *cluster, uint64_t us)
{
    uint64_t end = sim_now_us(cluster->sim) + us;

    while (sim_now_us(cluster->sim) < end && cluster_step(cluster))
        ;
}

int cluster_leader(struct cluster *cluster)
{
    uint64_t term = 0;
    int leader = -1;

    for (unsigned i = 0; i < cluster->count; i++) {
        struct consensus_status status;
        if (cluster->nodes[i].consensus == NULL || cluster->nodes[i].role != CONSENSUS_LEADER)
            continue;
        consensus_get_status(cluster->nodes[i].consensus, &status);
        if (status.term > term) {
            term = status.term;
            leader = (int)i;
        }
    }
    return leader;
}

void cluster_print(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++) {
        struct consensus_status status;
        if (cluster->nodes[i].consensus == NULL) {
            fprintf(stderr, "member %u is down: %s\n", i + 1, cluster->nodes[i].fatal.text);
            continue;
        }
        consensus_get_status(cluster->nodes[i].consensus, &status);
        fprintf(stderr,
                "member %u role=%d term=%" PRIu64 " leader=%" PRIu64 " last=%" PRIu64
                " commit=%" PRIu64 " applied=%" PRIu64 " snapshot=%" PRIu64 " peers",
                i + 1, (int)status.role, status.term, status.leader_id, status.last_index,
                status.commit_index, status.applied_index, status.snapshot_index);
        for (size_t j = 0; j < status.peer_count; j++)
            fprintf(stderr, " %" PRIu64 ":connected=%d,match=%" PRIu64 ",age_ms=%" PRIu64,
                    status.peers[j].id, status.peers[j].connected, status.peers[j].match_index,
                    status.peers[j].last_contact_age_ms);
        fprintf(stderr, "\n");
    }
}

bool cluster_run_until_leader(struct cluster *cluster, uint64_t us_max)
{
    uint64_t end = sim_now_us(cluster->sim) + us_max;

    while (cluster_leader(cluster) < 0 && sim_now_us(cluster->sim) < end)
        if (!cluster_step(cluster))
            break;
    if (cluster_leader(cluster) < 0)
        cluster_print(cluster);
    return cluster_leader(cluster) >= 0;
}

struct cluster *cluster_up(uint64_t seed, unsigned count, unsigned founders)
{
    struct cluster *cluster = cluster_new_with(seed, count, founders);

    for (unsigned i = 0; i < founders; i++)
        cluster_start(cluster, i, true);
    CHECK(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    return cluster;
}

struct consensus_status status_of(struct cluster *cluster, unsigned node)
{
    struct consensus_status status;

    consensus_get_status(cluster->nodes[node].consensus, &status);
    return status;
}

/* ---- work ---- */

static bool propose_to(struct cluster *cluster, unsigned number)
{
    struct cluster_node *node = &cluster->nodes[number];
    size_t length = 1 + sim_random(cluster->sim, cluster->entry_bytes_max);
    uint8_t *bytes = check_calloc(1, length < 8 ? 8 : length);
    struct tag *tag = check_alloc(sizeof(*tag));
    struct err err;
    int status;

    *tag = (struct tag){cluster, ++cluster->next_payload};
    memcpy(bytes, &tag->payload, 8);
    status = consensus_propose(node->consensus, bytes, length, tag, &err);
    free(bytes);
    if (status == 0)
        return true;
    free(tag);
    cluster->refused++;
    return false;
}

/* Also to a leader that was deposed and does not know it yet. */
bool cluster_propose(struct cluster *cluster)
{
    bool any = false;

    for (unsigned i = 0; i < cluster->count; i++)
        if (cluster->nodes[i].consensus != NULL && cluster->nodes[i].role == CONSENSUS_LEADER)
            any |= propose_to(cluster, i);
    return any;
}

void cluster_propose_many(struct cluster *cluster, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        while (!cluster_propose(cluster))
            cluster_run(cluster, 10000);
        if (i % 8 == 0)
            cluster_run(cluster, 1000);
    }
}

/* ---- members ---- */

static void change_done(void *data, int status, const struct err *err)
{
    struct cluster *cluster = data;

    if (status == 0) {
        cluster->changes_done++;
        return;
    }
    cluster->change_err = *err;
    if (err->code == ERR_TIMEOUT)
        cluster->changes_unknown++;
    else
        cluster->changes_refused++;
}

static int change_leader(struct cluster *cluster)
{
    cluster->change_base =
        cluster->changes_done + cluster->changes_refused + cluster->changes_unknown;
    cluster->change_done_base = cluster->changes_done;
    return cluster_leader(cluster);
}

bool cluster_ask(struct cluster *cluster, unsigned number)
{
    int leader = change_leader(cluster);

    if (leader >= 0)
        consensus_member_add(cluster->nodes[leader].consensus, &cluster->members[number],
                             change_done, cluster);
    return leader >= 0;
}

bool cluster_add(struct cluster *cluster, unsigned number)
{
    for (unsigned i = 0; i < cluster->count; i++)
        if (cluster->nodes[i].consensus != NULL)
            consensus_member_put(cluster->nodes[i].consensus, &cluster->members[number]);
    return cluster_ask(cluster, number);
}

bool cluster_promote(struct cluster *cluster, unsigned number)
{
    int leader = change_leader(cluster);

    if (leader >= 0)
        consensus_member_promote(cluster->nodes[leader].consensus, number + 1, change_done,
                                 cluster);
    return leader >= 0;
}

bool cluster_remove(struct cluster *cluster, unsigned number)
{
    int leader = change_leader(cluster);

    if (leader >= 0)
        consensus_member_remove(cluster->nodes[leader].consensus, number + 1, change_done, cluster);
    return leader >= 0;
}

static uint64_t changes_total(const struct cluster *cluster)
{
    return cluster->changes_done + cluster->changes_refused + cluster->changes_unknown;
}

bool cluster_change_wait(struct cluster *cluster)
{
    uint64_t end = sim_now_us(cluster->sim) + 30 * UINT64_C(1000000);

    while (changes_total(cluster) == cluster->change_base && sim_now_us(cluster->sim) < end)
        cluster_step(cluster);
    return cluster->changes_done > cluster->change_done_base;
}

static void read_done(void *data, int status, const struct err *err)
{
    struct reading *reading = data;

    (void)err;
    if (status == 0) {
        CHECK(reading->node->state.index >= reading->must_see); /* I7 */
        reading->node->cluster->reads_done++;
    } else {
        reading->node->cluster->reads_failed++;
    }
    free(reading);
}

void cluster_read(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++) {
        struct reading *reading;
        if (cluster->nodes[i].consensus == NULL)
            continue;
        reading = check_alloc(sizeof(*reading));
        *reading = (struct reading){&cluster->nodes[i], cluster->acknowledged_index};
        consensus_read(cluster->nodes[i].consensus, read_done, reading);
    }
}

static bool has_all(struct cluster *cluster, unsigned number, uint64_t index)
{
    struct consensus_status status;

    if (number >= cluster->count || cluster->nodes[number].consensus == NULL ||
        cluster->nodes[number].state.index != index)
        return false;
    consensus_get_status(cluster->nodes[number].consensus, &status);
    return status.applied_index == status.last_index && status.change_index == 0;
}

/* Of the leader's configuration. */
static bool all_equal(struct cluster *cluster)
{
    struct consensus_status status;
    int leader = cluster_leader(cluster);
    uint64_t index;

    if (leader < 0)
        return false;
    index = cluster->nodes[leader].state.index;
    if (index < cluster->acknowledged_index || !has_all(cluster, (unsigned)leader, index))
        return false;
    consensus_get_status(cluster->nodes[leader].consensus, &status);
    for (size_t i = 0; i < status.peer_count; i++)
        if (!has_all(cluster, (unsigned)status.peers[i].id - 1, index))
            return false;
    return true;
}

bool cluster_run_until_equal(struct cluster *cluster, uint64_t us_max)
{
    uint64_t end = sim_now_us(cluster->sim) + us_max;

    while (sim_now_us(cluster->sim) < end) {
        if (all_equal(cluster))
            return true;
        cluster_run(cluster, 10000);
    }
    cluster_print(cluster);
    return false;
}

/* ---- faults ---- */

void cluster_isolate(struct cluster *cluster, unsigned number, bool up)
{
    for (unsigned i = 0; i < cluster->count; i++)
        if (i != number) {
            sim_link_set(cluster->sim, number, i, up);
            sim_link_set(cluster->sim, i, number, up);
        }
}

void cluster_fault(struct cluster *cluster)
{
    struct sim *sim = cluster->sim;
    unsigned a = (unsigned)sim_random(sim, cluster->count);
    unsigned b = (unsigned)sim_random(sim, cluster->count);

    switch (sim_random(sim, 13)) {
    case 0:
        cluster_kill(cluster, a);
        break;
    case 1:
    case 2:
        if (cluster->nodes[a].consensus != NULL)
            sim_disk_die_after(sim, a, 1 + sim_random(sim, 60));
        break;
    case 3:
    case 4:
        sim_link_set(sim, a, b, a == b);
        break;
    case 5:
        for (unsigned i = 0; i < cluster->count; i++)
            if (i != a) {
                sim_link_set(sim, a, i, false);
                sim_link_set(sim, i, a, sim_random(sim, 2) == 0);
            }
        break;
    case 6:
        if (a != b)
            sim_reset_connections(sim, a, b);
        break;
    case 7:
    case 8:
        for (unsigned i = 0; i < cluster->count; i++) {
            sim_disk_set_free(sim, i, UINT64_C(1) << 40);
            for (unsigned j = 0; j < cluster->count; j++)
                sim_link_set(sim, i, j, true);
        }
        break;
    case 9:
        sim_disk_set_free(sim, a, sim_random(sim, 4 << 20));
        break;
    default:
        for (unsigned i = 0; i < cluster->count; i++)
            if (cluster->nodes[i].consensus == NULL && cluster->nodes[i].started &&
                sim_random(sim, 2) == 0) {
                if (sim_random(sim, 8) == 0)
                    sim_disk_die_after(sim, i, 1 + sim_random(sim, 20));
                cluster_start(cluster, i, false);
            }
    }
}

void cluster_heal(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++) {
        sim_disk_die_after(cluster->sim, i, 0);
        sim_disk_set_free(cluster->sim, i, UINT64_C(1) << 40);
        for (unsigned j = 0; j < cluster->count; j++)
            sim_link_set(cluster->sim, i, j, true);
    }
    for (unsigned i = 0; i < cluster->count; i++)
        if (cluster->nodes[i].consensus == NULL && cluster->nodes[i].started)
            cluster_start(cluster, i, false);
}
