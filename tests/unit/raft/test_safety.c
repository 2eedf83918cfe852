/* What one member does with a sequence of messages that other leaders might send: fed by hand. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "raft/log/offline.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000, MEMBERS = 5, DISK_SLOWNESS = 20000 };

static struct consensus *member(struct cluster *cluster)
{
    return cluster->nodes[0].consensus;
}

/* Member 1 of five; the others never start. */
/* It does not campaign before so long. */
static struct cluster *patient_new(uint32_t election_ms)
{
    struct cluster *cluster = cluster_new(7, MEMBERS);

    cluster->config.election_timeout_ms = election_ms;
    cluster_start(cluster, 0, true);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(raft_last_index(&member(cluster)->raft), 1);
    return cluster;
}

static struct cluster *alone_new(void)
{
    return patient_new(300);
}

/* Over the wire, as member `from` sends it. */
static void receive(struct cluster *cluster, uint64_t from, const struct frame_message *sent)
{
    struct frame_message received;
    struct frame frame;
    struct buf buf = {0};
    struct err err;

    frame_encode(&buf, sent);
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, &err), 1);
    assert_int_equal(frame_decode(&frame, &received, &err), 0);
    core_on_message(member(cluster), from, &received); /* its bytes are the buffer's */
    buf_close(&buf);
}

/* The members of the bootstrap up to `count`, as entry of this term; the buffer is the caller's. */
static struct raft_entry change_of(struct cluster *cluster, uint64_t term, unsigned count)
{
    struct raft_entry entry = {.term = term, .type = RAFT_CHANGE};
    const struct raft_configuration *all = &member(cluster)->raft.configuration;
    struct raft_configuration some;

    raft_configuration_init(&some);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(
            raft_configuration_add(&some, all->servers[i].id, all->servers[i].address, RAFT_VOTER),
            0);
    assert_int_equal(raft_configuration_encode(&some, &entry.buf), 0);
    raft_configuration_close(&some);
    return entry;
}

/* Members 2 and 3, with which it is elected, give it their votes. */
static void votes(struct cluster *cluster, uint64_t term, bool pre_vote)
{
    struct frame_message sent = {.type = FRAME_VOTE_RESULT};

    sent.core.request_vote_result = (struct raft_request_vote_result){
        term, true, pre_vote ? raft_tribool_true : raft_tribool_false};
    for (uint64_t from = 2; from <= 3; from++)
        receive(cluster, from, &sent);
}

/* Member `from` leads `term` and sends the entries of these terms behind (prev, prev_term). */
static void append_from(struct cluster *cluster, uint64_t from, uint64_t term, uint64_t prev,
                        uint64_t prev_term, const uint64_t *terms, unsigned count)
{
    uint64_t payload = 0;
    struct raft_entry entries[4];
    struct frame_message sent = {.type = FRAME_APPEND};
    struct raft_append_entries *args = &sent.core.append_entries;

    for (unsigned i = 0; i < count; i++)
        entries[i] = (struct raft_entry){
            .term = terms[i], .type = RAFT_COMMAND, .buf = {&payload, sizeof(payload)}};
    *args = (struct raft_append_entries){.term = term,
                                         .prev_log_index = prev,
                                         .prev_log_term = prev_term,
                                         .leader_commit = 1,
                                         .entries = entries,
                                         .n_entries = count};
    receive(cluster, from, &sent);
}

/* The leader of term n is member n. */
static void append(struct cluster *cluster, uint64_t term, uint64_t prev, uint64_t prev_term,
                   const uint64_t *terms, unsigned count)
{
    append_from(cluster, term, term, prev, prev_term, terms, count);
}

/* What the member answers leaders, as it goes out. */
static int (*send_real)(struct raft_io *io, struct raft_io_send *req,
                        const struct raft_message *message, raft_io_send_cb cb);
static struct raft_append_entries_result answer;
static unsigned answers;

static int send_watched(struct raft_io *io, struct raft_io_send *req,
                        const struct raft_message *message, raft_io_send_cb cb)
{
    struct consensus *consensus = io->impl;
    struct raft_message copy = *message;

    if (message->type == RAFT_IO_APPEND_ENTRIES_RESULT && safety_send(&consensus->safety, &copy)) {
        answer = copy.append_entries_result;
        answers++;
    }
    return send_real(io, req, message, cb);
}

static void answers_watch(struct cluster *cluster)
{
    send_real = member(cluster)->io.send;
    member(cluster)->io.send = send_watched;
    answers = 0;
}

/* Nothing is said to be stored that the log does not have, or that the disk has not. */
static void stored_checked(struct cluster *cluster, uint64_t us)
{
    uint64_t end = sim_now_us(cluster->sim) + us;

    while (sim_now_us(cluster->sim) < end && cluster_step(cluster)) {
        assert_true(member(cluster)->raft.last_stored <= raft_last_index(&member(cluster)->raft));
        assert_true(member(cluster)->raft.last_stored <= member(cluster)->wal.last_index);
    }
}

/* S22: an entry is truncated and comes back while its first write is under way. */
static void an_entry_that_comes_back_while_its_first_write_is_under_way_counts_once(void **state)
{
    const uint64_t of_2[] = {2}, of_3[] = {3}, of_2_and_4[] = {2, 4};
    struct cluster *cluster = alone_new();
    const struct raft *raft = &member(cluster)->raft;

    (void)state;
    sim_disk_set_slowness(cluster->sim, 0, DISK_SLOWNESS);
    append(cluster, 2, 1, 1, of_2, 1);
    append(cluster, 3, 1, 1, of_3, 1);
    append(cluster, 4, 2, 2, NULL, 0);
    append(cluster, 4, 1, 1, of_2_and_4, 2);
    assert_uint_equal(raft->current_term, 4);
    assert_uint_equal(raft->last_stored, 1);
    stored_checked(cluster, 60 * SECOND_US);
    sim_disk_set_slowness(cluster->sim, 0, 1);
    append(cluster, 4, 1, 1, of_2_and_4, 2);
    stored_checked(cluster, 10 * SECOND_US);
    assert_uint_equal(raft_last_index((struct raft *)(uintptr_t)raft), 3);
    assert_uint_equal(raft->last_stored, 3);
    assert_uint_equal(safety_term_of(raft, 2), 2);
    assert_uint_equal(safety_term_of(raft, 3), 4);
    cluster_free(cluster);
}

/* S22: what a slow disk delays is taken when the leader sends it again, and its silence is not a
 * leader's. */
static void a_truncation_waits_for_the_writes_that_are_under_way(void **state)
{
    const uint64_t of_2[] = {2, 2}, of_3[] = {3};
    struct cluster *cluster = alone_new();
    const struct raft *raft = &member(cluster)->raft;

    (void)state;
    sim_disk_set_slowness(cluster->sim, 0, DISK_SLOWNESS);
    append(cluster, 2, 1, 1, of_2, 2);
    append(cluster, 3, 2, 2, of_3, 1); /* behind the first: the second goes */
    assert_uint_equal(safety_term_of(raft, 3), 2);
    assert_uint_equal(raft->follower_state.current_leader.id, 3);
    assert_uint_equal(member(cluster)->safety.verified_index, 2);
    sim_disk_set_slowness(cluster->sim, 0, 1);
    while (raft->last_stored < 3)
        assert_true(cluster_step(cluster));
    append(cluster, 3, 2, 2, of_3, 1);
    assert_uint_equal(safety_term_of(raft, 3), 3);
    assert_uint_equal(raft->last_stored, 2);
    stored_checked(cluster, SECOND_US);
    assert_uint_equal(raft->last_stored, 3);
    cluster_free(cluster);
}

/* Member `from` says to the leader of `term` up to where its log is stored. */
static void stored_by(struct cluster *cluster, uint64_t from, uint64_t term, uint64_t index)
{
    struct frame_message sent = {.type = FRAME_APPEND_RESULT};

    sent.core.append_entries_result.term = term;
    sent.core.append_entries_result.last_log_index = index;
    receive(cluster, from, &sent);
}

/* S2: its disk hangs, member 2 has stored what it sent at once, and members 3 and 4 lag behind and
 * go on answering. */
static void a_leader_that_cannot_write_goes_though_those_that_lag_answer_it(void **state)
{
    struct cluster *cluster = alone_new();
    const struct raft *raft = &member(cluster)->raft;
    uint64_t end, term;

    (void)state;
    while (raft->state != RAFT_CANDIDATE)
        assert_true(cluster_step(cluster));
    votes(cluster, 1, true);
    assert_false(raft->candidate_state.in_pre_vote);
    sim_disk_set_slowness(cluster->sim, 0, 100 * DISK_SLOWNESS);
    term = raft->current_term;
    votes(cluster, term, false);
    assert_int_equal(raft->state, RAFT_LEADER);
    end = sim_now_us(cluster->sim) + 5 * 1000 * (uint64_t)raft->election_timeout;
    while (raft->state == RAFT_LEADER && sim_now_us(cluster->sim) < end) {
        for (uint64_t from = 2; from <= 4; from++)
            stored_by(cluster, from, term, from == 2 ? 2 : 1);
        cluster_run(cluster, 50 * 1000);
    }
    assert_uint_equal(member(cluster)->wal.last_index, 1);
    assert_int_not_equal(raft->state, RAFT_LEADER);
    cluster_free(cluster);
}

/* S2: and when all voters lag behind its log they get to its first entry, frame after frame, though
 * it holds their answers. */
static void a_leader_that_cannot_write_fills_those_that_lag(void **state)
{
    const uint64_t of_2[] = {2, 2, 2, 2};
    struct cluster *cluster = alone_new();
    const struct raft *raft = &member(cluster)->raft;

    (void)state;
    append(cluster, 2, 1, 1, of_2, 4);
    while (raft->state != RAFT_CANDIDATE)
        assert_true(cluster_step(cluster));
    votes(cluster, raft->current_term, true);
    sim_disk_set_slowness(cluster->sim, 0, 100 * DISK_SLOWNESS);
    votes(cluster, raft->current_term, false);
    assert_int_equal(raft->state, RAFT_LEADER);
    assert_uint_equal(raft_last_index((struct raft *)(uintptr_t)raft), 6);
    raft->leader_state.progress[1].next_index = 2; /* as after its refusal */
    stored_by(cluster, 2, raft->current_term, 3);
    assert_uint_equal(raft->leader_state.progress[1].next_index, 4);
    assert_uint_equal(raft->leader_state.progress[1].match_index, 0);
    stored_by(cluster, 2, raft->current_term, 2); /* late */
    assert_uint_equal(raft->leader_state.progress[1].next_index, 4);
    stored_by(cluster, 2, raft->current_term, 100); /* cannot be */
    assert_uint_equal(raft->leader_state.progress[1].next_index, 7);
    assert_uint_equal(raft->commit_index, 1);
    cluster_free(cluster);
}

/* S7: while a snapshot is installed libraft's log is empty, and its refusals point to 0. */
static void a_refusal_never_points_before_our_snapshot(void **state)
{
    struct cluster *cluster = alone_new();
    struct safety *safety = &member(cluster)->safety;
    raft_index before = safety->raft->log.snapshot.last_index;
    struct raft_message refusal = {.type = RAFT_IO_APPEND_ENTRIES_RESULT};

    (void)state;
    member(cluster)->raft.log.snapshot.last_index = 40;
    refusal.append_entries_result.rejected = 57;
    refusal.append_entries_result.last_log_index = 0;
    assert_true(safety_send(safety, &refusal));
    assert_uint_equal(refusal.append_entries_result.last_log_index, 40);
    refusal.append_entries_result.last_log_index = 50;
    assert_true(safety_send(safety, &refusal));
    assert_uint_equal(refusal.append_entries_result.last_log_index, 50);
    assert_uint_equal(refusal.append_entries_result.rejected, 57);
    member(cluster)->raft.log.snapshot.last_index = before;
    cluster_free(cluster);
}

/* Another member asks for votes of `term`, and gets none: its log is worse. */
static void term_begin(struct cluster *cluster, uint64_t from, uint64_t term)
{
    struct frame_message sent = {.type = FRAME_VOTE};

    sent.core.request_vote =
        (struct raft_request_vote){.term = term, .candidate_id = from, .disrupt_leader = true};
    receive(cluster, from, &sent);
    assert_uint_equal(member(cluster)->raft.current_term, term);
    assert_uint_equal(member(cluster)->raft.voted_for, 0);
}

/* The member has entries of leader 3, which nobody compared with those of leader 2, and is in term
 * 4 when a message of 2 comes late. */
static void late_append_refused(struct cluster *cluster)
{
    const uint64_t of_3[] = {3, 3, 3, 3}, of_1[] = {1};

    append(cluster, 3, 1, 1, of_3, 4);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(member(cluster)->raft.last_stored, 5);
    term_begin(cluster, 4, 4);
    answers_watch(cluster);
    append(cluster, 2, 0, 0, of_1, 1);
    assert_uint_equal(answers, 1);
    assert_uint_equal(answer.term, 4);
    assert_uint_equal(answer.rejected, 0);
}

/* S20: the reader of a refusal may lead our term by the time it reads, and 0 as the refused index
 * reads like a success. */
static void a_refusal_for_an_old_term_claims_no_entry(void **state)
{
    struct cluster *cluster = alone_new();

    (void)state;
    late_append_refused(cluster);
    assert_uint_equal(answer.last_log_index, 0);
    cluster_free(cluster);
}

/* S20 on the other side: members 2 and 3 refused so what this one had sent in term 2, and it leads
 * term 4 when it reads that. */
static void a_refusal_for_an_old_term_commits_nothing_in_a_newer_one(void **state)
{
    struct cluster *refusing = alone_new(), *cluster;
    struct frame_message sent = {.type = FRAME_APPEND_RESULT};
    const struct raft *raft;

    (void)state;
    late_append_refused(refusing);
    cluster_free(refusing);
    sent.core.append_entries_result = answer;
    cluster = alone_new();
    raft = &member(cluster)->raft;
    term_begin(cluster, 5, 3);
    while (raft->state != RAFT_CANDIDATE)
        assert_true(cluster_step(cluster));
    votes(cluster, 3, true);
    votes(cluster, 4, false);
    assert_int_equal(raft->state, RAFT_LEADER);
    assert_uint_equal(raft->current_term, answer.term);
    for (unsigned i = 0; i < 3; i++)
        assert_true(cluster_propose(cluster));
    cluster_run(cluster, SECOND_US / 20);
    assert_uint_equal(raft->last_stored, 5);
    for (uint64_t from = 2; from <= 3; from++)
        receive(cluster, from, &sent);
    assert_int_equal(raft->state, RAFT_LEADER);
    assert_uint_equal(raft->commit_index, 1);
    assert_uint_equal(cluster->acknowledged, 0);
    cluster_free(cluster);
}

/* Leader 5 sends a snapshot that ends with entry 4, of this term. */
static void install(struct cluster *cluster, uint64_t last_term)
{
    struct raft_message message = {.type = RAFT_IO_INSTALL_SNAPSHOT, .server_id = 5};
    struct raft_install_snapshot *args = &message.install_snapshot;

    message.server_address = "m5";
    *args = (struct raft_install_snapshot){
        .term = 5, .last_index = 4, .last_term = last_term, .conf_index = 1};
    raft_configuration_init(&args->conf);
    assert_int_equal(raft_configuration_add(&args->conf, 1, "m1", RAFT_VOTER), 0);
    args->data.len = 8;
    args->data.base = raft_calloc(1, args->data.len);
    core_enter(member(cluster));
    safety_receive(&member(cluster)->safety, &message);
    core_leave(member(cluster));
}

/* S1: libraft installs none whose last index has a newer entry here, and says that all is here. Nor
 * do we while our log is being written. */
static void a_snapshot_that_is_not_installed_for_another_entry_is_not_claimed(void **state)
{
    const uint64_t of_4[] = {4, 4, 4};
    struct cluster *cluster = alone_new();

    (void)state;
    append(cluster, 4, 1, 1, of_4, 3);
    assert_uint_equal(member(cluster)->raft.last_stored, 1);
    answers_watch(cluster);
    install(cluster, 3);
    assert_uint_equal(answers, 1);
    assert_uint_equal(answer.rejected, 0);
    assert_uint_equal(answer.last_log_index, 0);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(member(cluster)->raft.last_stored, 4);
    answers = 1;
    install(cluster, 4);
    assert_uint_equal(answers, 2);
    assert_uint_equal(answer.rejected, 0);
    assert_uint_equal(answer.last_log_index, 4);
    cluster_free(cluster);
}

/* S1: what is committed here is replaced by nobody's snapshot, whatever a leader that must be wrong
 * says was there. */
static void a_snapshot_never_replaces_what_is_committed(void **state)
{
    const uint64_t of_4[] = {4, 4, 4, 4};
    struct cluster *cluster = alone_new();
    const struct raft *raft = &member(cluster)->raft;
    struct frame_message sent = {.type = FRAME_APPEND};

    (void)state;
    append(cluster, 4, 1, 1, of_4, 4);
    cluster_run(cluster, SECOND_US / 10);
    sent.core.append_entries = (struct raft_append_entries){
        .term = 4, .prev_log_index = 5, .prev_log_term = 4, .leader_commit = 4};
    receive(cluster, 4, &sent);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(raft->last_stored, 5);
    assert_uint_equal(raft->last_applied, 4);
    answers_watch(cluster);
    install(cluster, 3);
    assert_false(safety_installing(raft));
    assert_uint_equal(raft->commit_index, 4);
    assert_uint_equal(raft->last_stored, 5);
    assert_uint_equal(raft->log.snapshot.last_index, 0);
    assert_uint_equal(safety_term_of(raft, 4), 4);
    assert_uint_equal(answers, 1);
    assert_uint_equal(answer.last_log_index, 0);
    cluster_free(cluster);
}

static int write_state(void *context, const struct consensus_writer *writer, struct err *err)
{
    const struct cluster_state state = {.index = 4, .hash = 77, .entries = 3};
    const uint64_t ballast = 0;

    (void)context;
    return writer->write(writer->context, &state, sizeof(state), err) == 0
               ? writer->write(writer->context, &ballast, sizeof(ballast), err)
               : -1;
}

/* The file of a snapshot that ends with entry 4 of term 3, in the folder of member 2. */
static size_t snapshot_bytes(struct cluster *cluster, uint8_t *bytes, size_t size)
{
    const struct offline_origin origin = {.index = 4, .term = 3, .digest = 88, .epoch_min = 3};
    struct consensus_config config = cluster->config;
    struct folder folder = {.disk = &cluster->nodes[1].disk};
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    struct err err;
    size_t length;

    config.member_id = 2;
    config.disk = folder.disk;
    config.random = &cluster->nodes[1].random;
    assert_int_equal(offline_restore(&config, &origin, write_state, NULL, &err), 0);
    snprintf(folder.path, sizeof(folder.path), "%s", config.data_dir);
    snapshot_path(&folder, origin.index, origin.term, path);
    assert_int_equal(folder.disk->open(folder.disk->context, path, DISK_OPEN_READ, &file, &err), 0);
    assert_int_equal(folder.disk->read(file, 0, bytes, size, &length, &err), 0);
    folder.disk->close(file);
    return length;
}

/* S1: nor is it ignored for ever: what is here at its end is of a newer term, and was never
 * committed. */
static void a_snapshot_replaces_a_newer_tail_that_was_never_committed(void **state)
{
    const uint64_t of_4[] = {4, 4, 4, 4}, of_5[] = {5};
    struct cluster *cluster = alone_new();
    const struct raft *raft = &member(cluster)->raft;
    struct frame_message sent = {.type = FRAME_SNAPSHOT_BEGIN};
    uint8_t bytes[4096];
    size_t length = snapshot_bytes(cluster, bytes, sizeof(bytes));

    (void)state;
    append(cluster, 4, 1, 1, of_4, 4);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(raft->last_stored, 5);
    append(cluster, 5, 7, 5, NULL, 0); /* refused */
    answers_watch(cluster);
    sent.snapshot = (struct frame_snapshot){.stream = 1, .term = 5, .index = 4, .offset = length};
    receive(cluster, 5, &sent);
    sent = (struct frame_message){.type = FRAME_SNAPSHOT_CHUNK};
    sent.snapshot = (struct frame_snapshot){.stream = 1, .bytes = bytes, .length = length};
    receive(cluster, 5, &sent);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(cluster->nodes[0].restored, 1);
    assert_uint_equal(raft->log.snapshot.last_index, 4);
    assert_uint_equal(raft->log.snapshot.last_term, 3);
    assert_uint_equal(member(cluster)->snapshot.term, 3);
    assert_uint_equal(raft_last_index((struct raft *)(uintptr_t)raft), 4);
    assert_uint_equal(raft->last_applied, 4);
    assert_uint_equal(answer.rejected, 0);
    assert_uint_equal(answer.last_log_index, 4);
    append(cluster, 5, 4, 3, of_5, 1);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(answer.last_log_index, 5);
    cluster_kill(cluster, 0);
    cluster_start(cluster, 0, false);
    assert_uint_equal(safety_term_of(&member(cluster)->raft, 4), 3);
    assert_uint_equal(safety_term_of(&member(cluster)->raft, 5), 5);
    cluster_free(cluster);
}

/* S16, I9: the write of a change ends when it is committed already and the next one is in the
 * log. */
static void a_change_that_is_stored_late_does_not_take_the_place_of_the_next(void **state)
{
    struct cluster *cluster = patient_new(60000);
    const struct raft *raft = &member(cluster)->raft;
    struct raft_entry changes[] = {change_of(cluster, 2, 4), change_of(cluster, 2, 3)};
    struct frame_message sent = {.type = FRAME_APPEND};
    struct raft_append_entries *args = &sent.core.append_entries;

    (void)state;
    sim_disk_set_slowness(cluster->sim, 0, DISK_SLOWNESS);
    for (uint64_t i = 0; i < 2; i++) {
        *args = (struct raft_append_entries){.term = 2,
                                             .prev_log_index = 1 + i,
                                             .prev_log_term = 1 + i,
                                             .leader_commit = 2,
                                             .entries = &changes[i],
                                             .n_entries = 1};
        receive(cluster, 2, &sent);
        raft_free(changes[i].buf.base);
    }
    assert_uint_equal(raft->last_stored, 1);
    assert_uint_equal(raft->configuration_uncommitted_index, 3);
    while (raft->last_stored < 2)
        assert_true(cluster_step(cluster));
    assert_uint_equal(raft->last_stored, 2);
    assert_uint_equal(raft->configuration_index, 2);
    assert_uint_equal(raft->configuration_uncommitted_index, 3);
    assert_uint_equal(raft->configuration.n, 3);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_that_comes_back_while_its_first_write_is_under_way_counts_once),
        cmocka_unit_test(a_truncation_waits_for_the_writes_that_are_under_way),
        cmocka_unit_test(a_leader_that_cannot_write_goes_though_those_that_lag_answer_it),
        cmocka_unit_test(a_leader_that_cannot_write_fills_those_that_lag),
        cmocka_unit_test(a_refusal_never_points_before_our_snapshot),
        cmocka_unit_test(a_refusal_for_an_old_term_claims_no_entry),
        cmocka_unit_test(a_snapshot_that_is_not_installed_for_another_entry_is_not_claimed),
        cmocka_unit_test(a_snapshot_never_replaces_what_is_committed),
        cmocka_unit_test(a_snapshot_replaces_a_newer_tail_that_was_never_committed),
        cmocka_unit_test(a_refusal_for_an_old_term_commits_nothing_in_a_newer_one),
        cmocka_unit_test(a_change_that_is_stored_late_does_not_take_the_place_of_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
