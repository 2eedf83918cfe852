/* Frames: what is encoded decodes to the same, and nothing else is taken. */
#include "tests/support/test.h"

#include "raft/log/wal.h"
#include "raft/net/frame.h"
#include "src/base/check.h"

static struct buf encode(const struct frame_message *message)
{
    struct buf buf = {0};

    frame_encode(&buf, message);
    return buf;
}

static struct frame_message decode_ok(const struct buf *buf)
{
    struct frame_message message;
    struct frame frame;
    struct err err;

    assert_int_equal(frame_parse(buf->bytes, buf->length, &frame, &err), 1);
    assert_uint_equal(frame.frame_bytes, buf->length);
    assert_int_equal(frame_decode(&frame, &message, &err), 0);
    return message;
}

static struct frame_message append_message(struct raft_entry *entries, unsigned count)
{
    struct frame_message message = {.type = FRAME_APPEND};

    message.core.append_entries = (struct raft_append_entries){.term = 5,
                                                               .prev_log_index = 10,
                                                               .prev_log_term = 4,
                                                               .leader_commit = 9,
                                                               .entries = entries,
                                                               .n_entries = count};
    return message;
}

static void appends_come_back_entry_by_entry(void **state)
{
    struct raft_entry entries[] = {
        {.term = 4, .type = RAFT_COMMAND, .buf = {(void *)(uintptr_t) "hello", 5}},
        {.term = 5, .type = RAFT_BARRIER, .buf = {(void *)(uintptr_t) "", 0}},
        {.term = 5, .type = RAFT_COMMAND, .buf = {(void *)(uintptr_t) "x", 1}}};
    struct frame_message message = append_message(entries, 3), got;
    struct buf buf = encode(&message);

    (void)state;
    got = decode_ok(&buf);
    assert_uint_equal(got.core.append_entries.n_entries, 3);
    assert_uint_equal(got.core.append_entries.prev_log_index, 10);
    assert_uint_equal(got.core.append_entries.entries[1].type, RAFT_BARRIER);
    assert_memory_equal(got.core.append_entries.entries[0].buf.base, "hello", 5);
    assert_memory_equal(got.core.append_entries.entries[2].buf.base, "x", 1);
    frame_message_close(&got);
    buf_close(&buf);
}

static void a_hello_comes_back(void **state)
{
    struct frame_message message = {.type = FRAME_HELLO}, got;
    struct frame frame;
    struct buf buf;

    (void)state;
    snprintf(message.hello.cluster_id, sizeof(message.hello.cluster_id), "demo");
    message.hello.from = 1;
    message.hello.to = 2;
    message.hello.probe = true;
    snprintf(message.hello.name, sizeof(message.hello.name), "n1");
    snprintf(message.hello.address, sizeof(message.hello.address), "10.0.0.1:9000");
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_string_equal(got.hello.cluster_id, "demo");
    assert_uint_equal(got.hello.to, 2);
    assert_true(got.hello.probe);
    assert_string_equal(got.hello.name, "n1");
    assert_string_equal(got.hello.address, "10.0.0.1:9000");
    assert_string_equal(got.hello.contact, ""); /* as a member says that has none */
    buf_close(&buf);
    snprintf(message.hello.contact, sizeof(message.hello.contact), "10.0.0.1:7443");
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_string_equal(got.hello.contact, "10.0.0.1:7443");
    assert_uint_equal(got.hello.founding, 0);
    buf_close(&buf);
    message.hello.founding = UINT64_MAX;
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_uint_equal(got.hello.founding, UINT64_MAX);
    assert_uint_equal(got.hello.build.level, 1); /* a member that says none */
    buf_close(&buf);
    message.hello.build = (struct consensus_build){.level = 7, .text = "0.7.0 (abc)"};
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_uint_equal(got.hello.build.level, 7);
    assert_string_equal(got.hello.build.text, "0.7.0 (abc)");
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, NULL), 1);
    frame.length -= 4 + 1 + strlen("0.7.0 (abc)"); /* a build from before levels ends there */
    assert_int_equal(frame_decode(&frame, &got, NULL), 0);
    assert_uint_equal(got.hello.build.level, 1);
    assert_string_equal(got.hello.build.text, "");
    assert_uint_equal(got.hello.founding, UINT64_MAX);
    buf_close(&buf);
}

static void every_other_small_message_comes_back(void **state)
{
    struct frame_message message = {.type = FRAME_HELLO_REPLY}, got;
    struct buf buf;

    (void)state;
    message.reply = (struct frame_hello_reply){
        .welcome = FRAME_WELCOME_REMOVED, .cluster_id = "demo", .member_id = 3, .index = 77};
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_int_equal(got.reply.welcome, FRAME_WELCOME_REMOVED);
    assert_string_equal(got.reply.cluster_id, "demo");
    assert_uint_equal(got.reply.index, 77);
    assert_false(got.reply.joining);
    buf_close(&buf);

    message = (struct frame_message){.type = FRAME_HELLO_REPLY};
    message.reply = (struct frame_hello_reply){.welcome = FRAME_WELCOME_FOUNDER,
                                               .incarnation = 9,
                                               .founding = 7,
                                               .basis = 5,
                                               .founders = {{{1, 7}, {4, UINT64_MAX}}, 2}};
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_int_equal(got.reply.welcome, FRAME_WELCOME_FOUNDER);
    assert_uint_equal(got.reply.incarnation, 9);
    assert_uint_equal(got.reply.founding, 7);
    assert_uint_equal(got.reply.basis, 5);
    assert_uint_equal(got.reply.founders.count, 2);
    assert_uint_equal(got.reply.founders.list[1].id, 4);
    assert_uint_equal(got.reply.founders.list[1].number, UINT64_MAX);
    buf_close(&buf);

    message = (struct frame_message){.type = FRAME_VOTE};
    message.core.request_vote = (struct raft_request_vote){7, 3, 100, 6, true, false};
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_uint_equal(got.core.request_vote.last_log_index, 100);
    assert_true(got.core.request_vote.disrupt_leader);
    assert_false(got.core.request_vote.pre_vote);
    buf_close(&buf);

    message = (struct frame_message){.type = FRAME_VOTE_RESULT};
    message.core.request_vote_result =
        (struct raft_request_vote_result){7, true, raft_tribool_false};
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_true(got.core.request_vote_result.vote_granted);
    assert_int_equal(got.core.request_vote_result.pre_vote, raft_tribool_false);
    buf_close(&buf);

    message = (struct frame_message){.type = FRAME_SNAPSHOT_CHUNK};
    message.snapshot.stream = 4;
    message.snapshot.offset = 4096;
    message.snapshot.bytes = (const uint8_t *)"bytes";
    message.snapshot.length = 5;
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_uint_equal(got.snapshot.offset, 4096);
    assert_memory_equal(got.snapshot.bytes, "bytes", 5);
    buf_close(&buf);
}

static void a_note_goes_along_and_what_makes_no_sense_in_it_is_refused(void **state)
{
    struct frame_message message = append_message(NULL, 0), got;
    struct frame frame;
    struct buf buf;

    (void)state;
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_false(got.note.told);
    buf_close(&buf);
    message.note = (struct frame_note){.told = true,
                                       .unfit = CONSENSUS_DISK_FULL,
                                       .others_fit = true,
                                       .length = 3,
                                       .bytes = "abc"};
    buf = encode(&message);
    got = decode_ok(&buf);
    assert_true(got.note.told);
    assert_int_equal(got.note.unfit, CONSENSUS_DISK_FULL);
    assert_true(got.note.others_fit);
    assert_uint_equal(got.note.length, 3);
    assert_memory_equal(got.note.bytes, "abc", 3);
    assert_uint_equal(got.core.append_entries.prev_log_index, 10);
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, NULL), 1);
    for (size_t at = 0; at < 4; at++) { /* told, unfit, others, length */
        uint8_t *byte = buf.bytes + FRAME_HEADER_BYTES + at, was = *byte;
        *byte = CONSENSUS_NOTE_MAX_BYTES + 1;
        assert_int_equal(frame_decode(&frame, &got, NULL), -1);
        *byte = was;
    }
    buf_close(&buf);
}

/* U-001: members of the next build say more, and must be understood as far as this one goes. */
static void what_a_later_build_adds_to_a_hello_is_passed_over(void **state)
{
    struct frame_message message = {.type = FRAME_HELLO}, got;
    uint8_t longer[256] = {0};
    struct frame frame;
    struct buf buf;

    (void)state;
    message.hello.from = 1;
    snprintf(message.hello.name, sizeof(message.hello.name), "n1");
    snprintf(message.hello.address, sizeof(message.hello.address), "10.0.0.1:9000");
    snprintf(message.hello.contact, sizeof(message.hello.contact), "10.0.0.1:7443");
    buf = encode(&message);
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, NULL), 1);
    assert_true(frame.length + 9 <= sizeof(longer));
    memcpy(longer, frame.body, frame.length);
    frame.body = longer;
    frame.length += 9;
    assert_int_equal(frame_decode(&frame, &got, NULL), 0);
    assert_string_equal(got.hello.contact, "10.0.0.1:7443");
    buf_close(&buf);
}

static void a_cut_frame_waits_and_a_flipped_one_ends_the_connection(void **state)
{
    struct raft_entry entry = {
        .term = 4, .type = RAFT_COMMAND, .buf = {(void *)(uintptr_t) "payload", 7}};
    struct frame_message message = append_message(&entry, 1);
    struct buf buf = encode(&message);
    struct frame frame;
    struct err err;

    (void)state;
    for (size_t cut = 0; cut < buf.length; cut++)
        assert_int_equal(frame_parse(buf.bytes, cut, &frame, &err), 0);
    for (size_t i = 0; i < buf.length; i++) {
        buf.bytes[i] ^= 0x10;
        assert_int_not_equal(frame_parse(buf.bytes, buf.length, &frame, &err), 1);
        buf.bytes[i] ^= 0x10;
    }
    buf_close(&buf);
}

static void an_oversized_frame_is_refused_from_its_header(void **state)
{
    struct frame_message message = {.type = FRAME_READ_PING};
    struct buf buf = encode(&message);
    struct frame frame;
    struct err err;

    (void)state;
    bytes_put(buf.bytes + 8, FRAME_BODY_MAX_BYTES + 1, 4);
    assert_int_equal(frame_parse(buf.bytes, FRAME_HEADER_BYTES, &frame, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    buf_close(&buf);
}

/* The body is what a peer wrote, but it lies about its counts. */
static void lying_counts_and_lengths_are_refused(void **state)
{
    struct raft_entry entry = {
        .term = 4, .type = RAFT_COMMAND, .buf = {(void *)(uintptr_t) "payload", 7}};
    struct frame_message message = append_message(&entry, 1), got;
    struct buf buf = encode(&message);
    struct frame frame;
    struct err err;
    uint8_t *body;

    (void)state;
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, &err), 1);
    body = buf.bytes + FRAME_HEADER_BYTES + 1; /* behind the note, which is not told */
    bytes_put(body + 32, UINT32_MAX, 4);       /* entries */
    assert_int_equal(frame_decode(&frame, &got, &err), -1);
    assert_string_equal(err.text, "APPEND frame makes no sense");
    bytes_put(body + 32, 1, 4);
    bytes_put(body + 45, 8, 4); /* length of the entry */
    assert_int_equal(frame_decode(&frame, &got, &err), -1);
    bytes_put(body + 45, 6, 4);
    assert_int_equal(frame_decode(&frame, &got, &err), -1);
    assert_string_equal(err.text, "APPEND frame makes no sense");
    bytes_put(body + 45, 7, 4);
    body[44] = RAFT_CHANGE; /* "payload" is no configuration */
    assert_int_equal(frame_decode(&frame, &got, &err), -1);
    body[44] = RAFT_COMMAND;
    assert_int_equal(frame_decode(&frame, &got, &err), 0);
    frame_message_close(&got);
    buf_close(&buf);
}

/* Decoded? The entry is put into a frame whose checksums are right. */
static bool entry_passes(unsigned short type, const void *bytes, size_t length)
{
    struct raft_entry entry = {.term = 4, .type = type, .buf = {(void *)(uintptr_t)bytes, length}};
    struct frame_message message = append_message(&entry, 1), got;
    struct buf buf = encode(&message);
    struct frame frame;
    struct err err;
    bool passes;

    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, &err), 1);
    passes = frame_decode(&frame, &got, &err) == 0;
    if (passes)
        frame_message_close(&got);
    buf_close(&buf);
    return passes;
}

static void an_entry_that_no_log_can_hold_is_refused(void **state)
{
    char *bytes = check_calloc(1, WAL_PAYLOAD_MAX_BYTES + 1);

    (void)state;
    assert_true(entry_passes(RAFT_COMMAND, bytes, WAL_PAYLOAD_MAX_BYTES));
    assert_false(entry_passes(RAFT_COMMAND, bytes, WAL_PAYLOAD_MAX_BYTES + 1));
    free(bytes);
}

static bool configuration_passes(uint64_t id, const char *address)
{
    struct buf buf = {0};
    bool passes;

    buf_put(&buf, 1, 1); /* libraft's format */
    buf_put(&buf, 3, 8);
    for (uint64_t i = 1; i <= 3; i++) {
        char name[] = {'n', (char)('0' + i), '\0'};
        buf_put(&buf, i < 3 ? i : id, 8);
        if (i < 3)
            buf_append(&buf, name, sizeof(name));
        else
            buf_append(&buf, address, strlen(address) + 1);
        buf_put(&buf, RAFT_VOTER, 1);
    }
    passes = entry_passes(RAFT_CHANGE, buf.bytes, buf.length);
    buf_close(&buf);
    return passes;
}

static bool configuration_of_passes(uint64_t count)
{
    struct buf buf = {0};
    bool passes;

    buf_put(&buf, 1, 1);
    buf_put(&buf, count, 8);
    for (uint64_t i = 1; i <= count; i++) {
        char name[] = {'n', (char)('0' + i), '\0'};
        buf_put(&buf, i, 8);
        buf_append(&buf, name, sizeof(name));
        buf_put(&buf, RAFT_VOTER, 1);
    }
    passes = entry_passes(RAFT_CHANGE, buf.bytes, buf.length);
    buf_close(&buf);
    return passes;
}

/* What is kept for each member has a place for that many. */
static void a_configuration_of_more_members_than_a_cluster_may_have_is_refused(void **state)
{
    (void)state;
    assert_true(configuration_of_passes(CONSENSUS_MEMBERS_MAX));
    assert_false(configuration_of_passes(CONSENSUS_MEMBERS_MAX + 1));
}

/* libraft holds none such, and says so when it is built. */
static void a_configuration_with_a_member_or_an_address_twice_is_refused(void **state)
{
    (void)state;
    assert_true(configuration_passes(3, "n3"));
    assert_false(configuration_passes(1, "n3"));
    assert_false(configuration_passes(2, "n3"));
    assert_false(configuration_passes(3, "n1"));
    assert_false(configuration_passes(3, "n2"));
}

static void entries_are_split_at_the_target_but_one_always_fits(void **state)
{
    struct raft_entry entries[4];
    struct raft_append_entries append = {.entries = entries, .n_entries = 4};

    (void)state;
    for (int i = 0; i < 4; i++)
        entries[i] = (struct raft_entry){.buf = {NULL, FRAME_ENTRIES_TARGET_BYTES / 5 * 2}};
    assert_uint_equal(frame_entries_that_fit(&append, 0), 2);
    assert_uint_equal(frame_entries_that_fit(&append, 3), 1);
    entries[3].buf.len = CONSENSUS_ENTRY_MAX_BYTES;
    assert_uint_equal(frame_entries_that_fit(&append, 3), 1);
    assert_uint_equal(frame_entries_that_fit(&append, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_come_back_entry_by_entry),
        cmocka_unit_test(a_hello_comes_back),
        cmocka_unit_test(every_other_small_message_comes_back),
        cmocka_unit_test(a_note_goes_along_and_what_makes_no_sense_in_it_is_refused),
        cmocka_unit_test(what_a_later_build_adds_to_a_hello_is_passed_over),
        cmocka_unit_test(a_cut_frame_waits_and_a_flipped_one_ends_the_connection),
        cmocka_unit_test(an_oversized_frame_is_refused_from_its_header),
        cmocka_unit_test(lying_counts_and_lengths_are_refused),
        cmocka_unit_test(an_entry_that_no_log_can_hold_is_refused),
        cmocka_unit_test(a_configuration_of_more_members_than_a_cluster_may_have_is_refused),
        cmocka_unit_test(a_configuration_with_a_member_or_an_address_twice_is_refused),
        cmocka_unit_test(entries_are_split_at_the_target_but_one_always_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
