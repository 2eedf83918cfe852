/* What a member says with a rule of raft/RULES.md and without it, in a small scene of messages that
 * are fed by hand. The transcripts stand in that document, one under each rule: this test makes
 * them and compares. */
#include "tests/support/test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

#define RULES_FILE "raft/RULES.md"

enum {
    MEMBERS = 5,
    STEP_US = 100000,
    PATIENT_MS = 60000,
    TEXT_BYTES = 4096,
    RULES_BYTES = 1 << 17,
    DISK_SLOWNESS = 20000,
};

struct scene {
    struct cluster *cluster;
    char text[TEXT_BYTES];
    size_t used;
    uint64_t commit;
};

static struct scene *scene;
static int (*send_real)(struct raft_io *io, struct raft_io_send *req,
                        const struct raft_message *message, raft_io_send_cb cb);

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    scene->used +=
        (size_t)vsnprintf(scene->text + scene->used, TEXT_BYTES - scene->used, format, arguments);
    va_end(arguments);
    assert_true(scene->used < TEXT_BYTES);
}

static struct consensus *member(void)
{
    return scene->cluster->nodes[0].consensus;
}

/* ---- what it says ---- */

static void tell_answer(uint64_t to, const struct raft_append_entries_result *result)
{
    if (result->rejected != 0)
        line("-> %u: refused, term %u, my log ends at %u\n", (unsigned)to, (unsigned)result->term,
             (unsigned)result->last_log_index);
    else if (result->last_log_index == 0)
        line("-> %u: refused, term %u\n", (unsigned)to, (unsigned)result->term);
    else
        line("-> %u: stored up to %u, term %u\n", (unsigned)to, (unsigned)result->last_log_index,
             (unsigned)result->term);
}

static int send_told(struct raft_io *io, struct raft_io_send *req,
                     const struct raft_message *message, raft_io_send_cb cb)
{
    struct raft_message copy = *message;

    if (message->type == RAFT_IO_APPEND_ENTRIES_RESULT && safety_send(&member()->safety, &copy))
        tell_answer(copy.server_id, &copy.append_entries_result);
    if (message->type == RAFT_IO_REQUEST_VOTE_RESULT && safety_send(&member()->safety, &copy))
        line("-> %u: %s, term %u\n", (unsigned)copy.server_id,
             copy.request_vote_result.vote_granted ? "yes" : "no",
             (unsigned)copy.request_vote_result.term);
    return send_real(io, req, message, cb);
}

static void tell_commit(void)
{
    uint64_t commit = member()->raft.commit_index;

    if (commit != scene->commit)
        line("   committed up to %u, an entry of term %u\n", (unsigned)commit,
             (unsigned)safety_term_of(&member()->raft, commit));
    scene->commit = commit;
}

static void wait_us(uint64_t us)
{
    cluster_run(scene->cluster, us);
    tell_commit();
}

/* ---- what it hears ---- */

static void hear(uint64_t from, const struct frame_message *sent)
{
    struct frame_message received;
    struct frame frame;
    struct buf buf = {0};
    struct err err;

    frame_encode(&buf, sent);
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, &err), 1);
    assert_int_equal(frame_decode(&frame, &received, &err), 0);
    core_on_message(member(), from, &received); /* its bytes are the buffer's */
    buf_close(&buf);
}

static void receive(uint64_t from, const struct frame_message *sent)
{
    hear(from, sent);
    wait_us(STEP_US);
}

/* The leader of term n is member n. `terms` "222": entries of these terms behind prev. */
static void append(uint64_t term, uint64_t prev, uint64_t prev_term, const char *terms,
                   uint64_t commit)
{
    uint64_t payload = 0;
    struct raft_entry entries[8];
    struct frame_message sent = {.type = FRAME_APPEND};
    unsigned count = (unsigned)strlen(terms);

    line("<- %u: append, term %u, behind %u:%u", (unsigned)term, (unsigned)term, (unsigned)prev,
         (unsigned)prev_term);
    for (unsigned i = 0; i < count; i++) {
        entries[i] = (struct raft_entry){.term = (uint64_t)(terms[i] - '0'),
                                         .type = RAFT_COMMAND,
                                         .buf = {&payload, sizeof(payload)}};
        line("%s%u:%c", i == 0 ? ", entries " : " ", (unsigned)prev + 1 + i, terms[i]);
    }
    line(", committed up to %u\n", (unsigned)commit);
    sent.core.append_entries = (struct raft_append_entries){.term = term,
                                                            .prev_log_index = prev,
                                                            .prev_log_term = prev_term,
                                                            .leader_commit = commit,
                                                            .entries = entries,
                                                            .n_entries = count};
    receive(term, &sent);
}

static void stored(uint64_t from, uint64_t term, uint64_t index)
{
    struct frame_message sent = {.type = FRAME_APPEND_RESULT};

    line("<- %u: stored up to %u, term %u\n", (unsigned)from, (unsigned)index, (unsigned)term);
    sent.core.append_entries_result = (struct raft_append_entries_result){term, 0, index};
    receive(from, &sent);
}

/* A pre-vote asks only; a vote lasts for its term. */
static void ask_vote(bool pre, uint64_t from, uint64_t term, uint64_t last, uint64_t last_term)
{
    struct frame_message sent = {.type = FRAME_VOTE};

    line("<- %u: %s for me in term %u? My log ends at %u:%u\n", (unsigned)from,
         pre ? "would you vote" : "do you vote", (unsigned)term, (unsigned)last,
         (unsigned)last_term);
    sent.core.request_vote = (struct raft_request_vote){term, from, last, last_term, false, pre};
    receive(from, &sent);
}

static void elect(void)
{
    struct raft *raft = &member()->raft;

    for (int round = 0; round < 2; round++) {
        struct frame_message sent = {.type = FRAME_VOTE_RESULT};
        while (raft->state != RAFT_CANDIDATE)
            assert_true(cluster_step(scene->cluster));
        sent.core.request_vote_result = (struct raft_request_vote_result){
            raft->current_term, true, round == 0 ? raft_tribool_true : raft_tribool_false};
        for (uint64_t from = 2; from <= 3; from++)
            hear(from, &sent);
        sim_disk_set_slowness(scene->cluster->sim, 0, 100 * DISK_SLOWNESS);
    }
    assert_int_equal(raft->state, RAFT_LEADER);
    line("   elected for term %u by 2 and 3; the disk hangs\n", (unsigned)raft->current_term);
    tell_commit();
}

/* ---- the scenes ---- */

static void an_older_leaders_tail(void)
{
    append(2, 1, 1, "222", 1);
    append(3, 1, 1, "", 1);
}

static void entries_of_an_older_term(void)
{
    append(2, 1, 1, "22", 1);
    elect();
    stored(2, 3, 3);
    stored(3, 3, 3);
    line("   the disk is well again\n");
    sim_disk_set_slowness(scene->cluster->sim, 0, 1);
    wait_us(5 * STEP_US);
    stored(2, 3, 4);
    stored(3, 3, 4);
}

static void an_old_candidate_asks(void)
{
    append(5, 1, 1, "5", 1);
    ask_vote(true, 3, 3, 1, 1);
}

static void a_message_that_was_cut(void)
{
    append(2, 1, 1, "222", 1);
    append(3, 1, 1, "2", 4);
}

static void an_old_leader_begins_at_the_beginning(void)
{
    ask_vote(false, 5, 5, 1, 1);
    append(3, 0, 0, "1", 1);
}

static void an_entry_that_is_cut_while_it_is_written(void)
{
    sim_disk_set_slowness(scene->cluster->sim, 0, DISK_SLOWNESS);
    line("   the disk is slow\n");
    append(2, 1, 1, "2", 1);
    append(3, 1, 1, "3", 1);
    line("   the write ends\n");
    sim_disk_set_slowness(scene->cluster->sim, 0, 1);
    wait_us(20 * STEP_US);
    append(3, 1, 1, "3", 1);
}

static const struct {
    unsigned rule;
    void (*play)(void);
    uint32_t election_ms;
    bool safe_without; /* libraft only answers wrongly: it may be shown */
} scenes[] = {{1, an_older_leaders_tail, PATIENT_MS, true},
              {2, entries_of_an_older_term, 300, true},
              {13, an_old_candidate_asks, PATIENT_MS, true},
              {14, a_message_that_was_cut, PATIENT_MS, true},
              {20, an_old_leader_begins_at_the_beginning, PATIENT_MS, true},
              {22, an_entry_that_is_cut_while_it_is_written, PATIENT_MS, false}};

static void play(size_t i, bool without, struct scene *ret_scene)
{
    scene = ret_scene;
    safety_rules_off = without ? UINT32_C(1) << scenes[i].rule : 0;
    scene->cluster = cluster_new(7, MEMBERS);
    scene->cluster->config.election_timeout_ms = scenes[i].election_ms;
    cluster_start(scene->cluster, 0, true);
    cluster_run(scene->cluster, STEP_US);
    scene->commit = member()->raft.commit_index;
    send_real = member()->io.send;
    member()->io.send = send_told;
    scenes[i].play();
    cluster_free(scene->cluster);
    safety_rules_off = 0;
}

/* ---- the document ---- */

static void expect_in_rules(const char *rules, unsigned rule, const char *what, const char *text)
{
    char head[64];
    const char *at;

    snprintf(head, sizeof(head), "```transcript %s S%u\n", what, rule);
    at = strstr(rules, head);
    if (at == NULL || strncmp(at + strlen(head), text, strlen(text)) != 0 ||
        strncmp(at + strlen(head) + strlen(text), "```", 3) != 0)
        fail_msg("%s wants this under S%u:\n%s%s```", RULES_FILE, rule, head, text);
}

static void the_transcripts_of_the_rules_are_what_happens(void **state)
{
    char *rules = test_malloc(RULES_BYTES);
    FILE *file = fopen(RULES_FILE, "r");
    size_t length;

    (void)state;
    assert_non_null(file);
    length = fread(rules, 1, RULES_BYTES - 1, file);
    assert_true(length < RULES_BYTES - 1);
    rules[length] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct scene with = {0}, without = {0};

        play(i, false, &with);
        if (scenes[i].safe_without)
            play(i, true, &without);
        if (getenv("TRANSCRIPTS") != NULL) {
            printf("```transcript with S%u\n%s```\n", scenes[i].rule, with.text);
            printf("```transcript without S%u\n%s```\n", scenes[i].rule, without.text);
            continue;
        }
        expect_in_rules(rules, scenes[i].rule, "with", with.text);
        if (scenes[i].safe_without)
            expect_in_rules(rules, scenes[i].rule, "without", without.text);
    }
    test_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_transcripts_of_the_rules_are_what_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
