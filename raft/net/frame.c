/* Encoding and decoding of frames. See frame.h. */
#include "raft/net/frame.h"

#include <string.h>

#include "raft/log/wal.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/id.h"

enum { FRAME_MAGIC = 0x46504b43, FRAME_VERSION = 1, ENTRY_HEADER_BYTES = 13 };

/* ---- encoding ---- */

unsigned frame_entries_that_fit(const struct raft_append_entries *append, unsigned first)
{
    size_t bytes = 0;
    unsigned count = 0;

    CHECK(append != NULL);
    CHECK(first <= append->n_entries);
    while (first + count < append->n_entries) {
        bytes += append->entries[first + count].buf.len + ENTRY_HEADER_BYTES;
        if (count > 0 && bytes > FRAME_ENTRIES_TARGET_BYTES)
            break;
        count++;
    }
    return count;
}

static void note_encode(struct buf *buf, const struct frame_note *note)
{
    CHECK(note->length <= CONSENSUS_NOTE_MAX_BYTES);
    buf_put(buf, note->told, 1);
    if (!note->told)
        return;
    buf_put(buf, note->unfit, 1);
    buf_put(buf, note->others_fit, 1);
    buf_put(buf, note->length, 1);
    buf_append(buf, note->bytes, note->length);
}

/* All headers come before the payloads, so that the receiver can check every length before it takes
 * memory for the payloads. */
static void append_encode(struct buf *buf, const struct raft_append_entries *append)
{
    buf_put(buf, append->term, 8);
    buf_put(buf, append->prev_log_index, 8);
    buf_put(buf, append->prev_log_term, 8);
    buf_put(buf, append->leader_commit, 8);
    buf_put(buf, append->n_entries, 4);
    for (unsigned i = 0; i < append->n_entries; i++) {
        buf_put(buf, append->entries[i].term, 8);
        buf_put(buf, append->entries[i].type, 1);
        buf_put(buf, append->entries[i].buf.len, 4);
    }
    for (unsigned i = 0; i < append->n_entries; i++)
        buf_append(buf, append->entries[i].buf.base, append->entries[i].buf.len);
}

static void vote_encode(struct buf *buf, const struct raft_request_vote *vote)
{
    buf_put(buf, vote->term, 8);
    buf_put(buf, vote->candidate_id, 8);
    buf_put(buf, vote->last_log_index, 8);
    buf_put(buf, vote->last_log_term, 8);
    buf_put(buf, vote->disrupt_leader, 1);
    buf_put(buf, vote->pre_vote, 1);
}

/* Names and addresses are shorter than 256 bytes by their limits: their length takes one byte. */
static void text_encode(struct buf *buf, const char *text)
{
    size_t length = strlen(text);

    CHECK(length < 256);
    buf_put(buf, length, 1);
    buf_append(buf, text, length);
}

static void build_encode(struct buf *buf, const struct consensus_build *build)
{
    buf_put(buf, build->level, 4);
    text_encode(buf, build->text);
}

/* Fields are only added at the end, here and in the reply: frame_decode() passes over what it does
 * not know there. */
static void hello_encode(struct buf *buf, const struct frame_hello *hello)
{
    buf_put(buf, hello->from, 8);
    buf_put(buf, hello->to, 8);
    text_encode(buf, hello->cluster_id);
    buf_put(buf, hello->incarnation, 8);
    buf_put(buf, hello->probe, 1);
    text_encode(buf, hello->name);
    text_encode(buf, hello->address);
    buf_put(buf, hello->last_index, 8);
    text_encode(buf, hello->contact);
    buf_put(buf, hello->founding, 8);
    build_encode(buf, &hello->build);
}

static void reply_encode(struct buf *buf, const struct frame_hello_reply *reply)
{
    buf_put(buf, reply->welcome, 1);
    text_encode(buf, reply->cluster_id);
    buf_put(buf, reply->member_id, 8);
    buf_put(buf, reply->joining, 1);
    buf_put(buf, reply->last_index, 8);
    buf_put(buf, reply->index, 8);
    buf_put(buf, reply->incarnation, 8);
    text_encode(buf, reply->contact);
    buf_put(buf, reply->founding, 8);
    buf_put(buf, reply->basis, 8);
    CHECK(reply->founders.count <= CONSENSUS_MEMBERS_MAX);
    buf_put(buf, reply->founders.count, 1);
    for (size_t i = 0; i < reply->founders.count; i++) {
        buf_put(buf, reply->founders.list[i].id, 8);
        buf_put(buf, reply->founders.list[i].number, 8);
    }
    build_encode(buf, &reply->build);
}

static void snapshot_encode(struct buf *buf, enum frame_type type,
                            const struct frame_snapshot *snapshot)
{
    buf_put(buf, snapshot->stream, 8);
    buf_put(buf, snapshot->offset, 8);
    if (type == FRAME_SNAPSHOT_BEGIN) {
        buf_put(buf, snapshot->term, 8);
        buf_put(buf, snapshot->index, 8);
    } else if (type == FRAME_SNAPSHOT_ACK) {
        buf_put(buf, snapshot->failed, 1);
    } else {
        buf_append(buf, snapshot->bytes, snapshot->length);
    }
}

static void body_encode(struct buf *buf, const struct frame_message *message)
{
    const struct raft_message *core = &message->core;

    if (frame_has_note(message->type))
        note_encode(buf, &message->note);
    switch (message->type) {
    case FRAME_HELLO:
        hello_encode(buf, &message->hello);
        return;
    case FRAME_HELLO_REPLY:
        reply_encode(buf, &message->reply);
        return;
    case FRAME_APPEND:
        append_encode(buf, &core->append_entries);
        return;
    case FRAME_APPEND_RESULT:
        buf_put(buf, core->append_entries_result.term, 8);
        buf_put(buf, core->append_entries_result.rejected, 8);
        buf_put(buf, core->append_entries_result.last_log_index, 8);
        return;
    case FRAME_VOTE:
        vote_encode(buf, &core->request_vote);
        return;
    case FRAME_VOTE_RESULT:
        buf_put(buf, core->request_vote_result.term, 8);
        buf_put(buf, core->request_vote_result.vote_granted, 1);
        buf_put(buf, core->request_vote_result.pre_vote, 1);
        return;
    case FRAME_SNAPSHOT_BEGIN:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_ACK:
        snapshot_encode(buf, message->type, &message->snapshot);
        return;
    case FRAME_READ_PING:
    case FRAME_READ_PONG:
    case FRAME_CAMPAIGN:
        buf_put(buf, message->read.term, 8);
        buf_put(buf, message->read.round, 8);
        return;
    case FRAME_TYPE_END:
        break;
    }
    CHECK_UNREACHABLE("frame type");
}

void frame_encode(struct buf *buf, const struct frame_message *message)
{
    size_t begin = buf->length, length;
    uint8_t *header;

    CHECK(message != NULL);
    buf_extend(buf, FRAME_HEADER_BYTES);
    body_encode(buf, message);
    length = buf->length - begin - FRAME_HEADER_BYTES;
    CHECK(length <= FRAME_BODY_MAX_BYTES);
    header = buf->bytes + begin;
    bytes_put(header, FRAME_MAGIC, 4);
    header[4] = (uint8_t)message->type;
    header[5] = FRAME_VERSION;
    bytes_put(header + 6, 0, 2);
    bytes_put(header + 8, length, 4);
    bytes_put(header + 12, crc32c(crc32c(0, header, 12), header + FRAME_HEADER_BYTES, length), 4);
}

/* ---- decoding ---- */

int frame_parse(const uint8_t *bytes, size_t length, struct frame *ret_frame, struct err *err)
{
    size_t body;

    CHECK(bytes != NULL);
    if (length < FRAME_HEADER_BYTES)
        return 0;
    if (bytes_get(bytes, 4) != FRAME_MAGIC || bytes[5] != FRAME_VERSION ||
        bytes_get(bytes + 6, 2) != 0)
        return err_set(err, ERR_CORRUPT, "not a frame of version %d", FRAME_VERSION);
    /* The length is not covered by a checksum before the body is there, so it is bounded first: a
     * peer cannot make this member wait for, or hold, more than a frame. */
    body = bytes_get(bytes + 8, 4);
    if (body > FRAME_BODY_MAX_BYTES)
        return err_set(err, ERR_CORRUPT, "frame of %zu bytes, at most %d are allowed", body,
                       FRAME_BODY_MAX_BYTES);
    if (bytes[4] < FRAME_HELLO || bytes[4] >= FRAME_TYPE_END)
        return err_set(err, ERR_CORRUPT, "frame of unknown type %d", bytes[4]);
    if (length - FRAME_HEADER_BYTES < body)
        return 0;
    if (crc32c(crc32c(0, bytes, 12), bytes + FRAME_HEADER_BYTES, body) != bytes_get(bytes + 12, 4))
        return err_set(err, ERR_CORRUPT, "frame checksum is wrong");
    *ret_frame = (struct frame){(enum frame_type)bytes[4], bytes + FRAME_HEADER_BYTES, body,
                                body + FRAME_HEADER_BYTES};
    return 1;
}

void frame_entries_free(struct raft_append_entries *append)
{
    CHECK(append != NULL);
    if (append->n_entries > 0)
        raft_free(append->entries[0].batch);
    raft_free(append->entries);
    append->entries = NULL;
    append->n_entries = 0;
}

/* The headers of n entries follow, then their payloads, which go into one batch. */
static int entries_decode(struct bytes_reader *reader, unsigned count,
                          struct raft_append_entries *append)
{
    struct raft_entry *entries = raft_malloc(count * sizeof(*entries));
    uint64_t total = 0;
    uint8_t *batch;

    for (unsigned i = 0; i < count; i++) {
        entries[i].term = reader_get(reader, 8);
        entries[i].type = (unsigned short)reader_get(reader, 1);
        entries[i].buf.len = reader_get(reader, 4);
        total += entries[i].buf.len;
        if (entries[i].term == 0 || entries[i].type < RAFT_COMMAND ||
            entries[i].type > RAFT_CHANGE || entries[i].buf.len > WAL_PAYLOAD_MAX_BYTES)
            reader->failed = true;
    }
    if (reader->failed || total != reader->left) {
        raft_free(entries);
        return -1;
    }
    batch = raft_malloc(total == 0 ? 1 : total);
    memcpy(batch, reader->at, total);
    reader_take(reader, total);
    append->entries = entries;
    append->n_entries = count;
    for (unsigned i = 0, at = 0; i < count; at += (unsigned)entries[i].buf.len, i++) {
        entries[i].buf.base = batch + at;
        entries[i].batch = batch;
    }
    return 0;
}

/* libraft decodes configurations without bounds checks, and takes no id or address twice: only what
 * it would read safely passes. */
static bool configuration_plausible(const struct raft_buffer *buf)
{
    struct bytes_reader reader = {buf->base, buf->len, false};
    uint64_t format = reader_get(&reader, 1), count = reader_get(&reader, 8);
    struct {
        uint64_t id;
        const char *address;
    } servers[CONSENSUS_MEMBERS_MAX];

    if (reader.failed || format != 1 || count == 0 || count > CONSENSUS_MEMBERS_MAX)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *end;
        uint64_t id = reader_get(&reader, 8);
        if (reader.failed || id == 0)
            return false;
        servers[i].id = id;
        servers[i].address = (const char *)reader.at;
        end = memchr(reader.at, 0, reader.left);
        if (end == NULL || end - reader.at >= CONSENSUS_ADDRESS_BYTES)
            return false;
        for (uint64_t before = 0; before < i; before++)
            if (servers[before].id == id ||
                strcmp(servers[before].address, servers[i].address) == 0)
                return false;
        reader_take(&reader, (size_t)(end - reader.at) + 1);
        if (reader_get(&reader, 1) > RAFT_SPARE)
            return false;
    }
    return !reader.failed;
}

/* Every index and term is checked that libraft would take for granted: an index that overflows, a
 * first index without term, or a count that the frame cannot hold. */
static int append_decode(struct bytes_reader *reader, struct raft_message *core)
{
    struct raft_append_entries *append = &core->append_entries;
    uint64_t count;

    core->type = RAFT_IO_APPEND_ENTRIES;
    append->term = reader_get(reader, 8);
    append->prev_log_index = reader_get(reader, 8);
    append->prev_log_term = reader_get(reader, 8);
    append->leader_commit = reader_get(reader, 8);
    append->entries = NULL;
    append->n_entries = 0;
    count = reader_get(reader, 4);
    if (reader->failed || append->term == 0 || append->prev_log_index > INT64_MAX ||
        (append->prev_log_index > 0) != (append->prev_log_term > 0) ||
        count > reader->left / ENTRY_HEADER_BYTES)
        return -1;
    if (count == 0)
        return 0;
    if (entries_decode(reader, (unsigned)count, append) != 0)
        return -1;
    for (unsigned i = 0; i < append->n_entries; i++)
        if (append->entries[i].type == RAFT_CHANGE &&
            !configuration_plausible(&append->entries[i].buf)) {
            frame_entries_free(append);
            return -1;
        }
    return 0;
}

static int vote_decode(struct bytes_reader *reader, struct raft_message *core)
{
    struct raft_request_vote *vote = &core->request_vote;

    core->type = RAFT_IO_REQUEST_VOTE;
    vote->term = reader_get(reader, 8);
    vote->candidate_id = reader_get(reader, 8);
    vote->last_log_index = reader_get(reader, 8);
    vote->last_log_term = reader_get(reader, 8);
    vote->disrupt_leader = reader_get(reader, 1) != 0;
    vote->pre_vote = reader_get(reader, 1) != 0;
    return vote->term == 0 || vote->candidate_id == 0 ? -1 : 0;
}

static int vote_result_decode(struct bytes_reader *reader, struct frame_message *message)
{
    struct raft_message *core = &message->core;
    struct raft_request_vote_result *result = &core->request_vote_result;
    uint64_t pre_vote;

    core->type = RAFT_IO_REQUEST_VOTE_RESULT;
    result->term = reader_get(reader, 8);
    result->vote_granted = reader_get(reader, 1) != 0;
    pre_vote = reader_get(reader, 1);
    result->pre_vote = (raft_tribool)pre_vote;
    return pre_vote > raft_tribool_false ? -1 : 0;
}

static int append_result_decode(struct bytes_reader *reader, struct raft_message *core)
{
    struct raft_append_entries_result *result = &core->append_entries_result;

    core->type = RAFT_IO_APPEND_ENTRIES_RESULT;
    result->term = reader_get(reader, 8);
    result->rejected = reader_get(reader, 8);
    result->last_log_index = reader_get(reader, 8);
    return result->last_log_index > INT64_MAX ? -1 : 0;
}

/* A zero inside would make two texts of one, and what is compared would not be what was sent. */
static void text_decode(struct bytes_reader *reader, char *text, size_t size)
{
    size_t length = reader_get(reader, 1);
    const uint8_t *bytes = reader_take(reader, length);

    text[0] = '\0';
    if (reader->failed || length >= size || memchr(bytes, 0, length) != NULL) {
        reader->failed = true;
        return;
    }
    memcpy(text, bytes, length);
    text[length] = '\0';
}

/* Builds before the first that has a level end here. */
static void build_decode(struct bytes_reader *reader, struct consensus_build *build)
{
    *build = (struct consensus_build){.level = CONSENSUS_LEVEL_FIRST};
    if (reader->failed || reader->left == 0)
        return;
    build->level = (uint32_t)reader_get(reader, 4);
    text_decode(reader, build->text, sizeof(build->text));
    if (build->level < CONSENSUS_LEVEL_FIRST)
        build->level = CONSENSUS_LEVEL_FIRST;
}

static int hello_decode(struct bytes_reader *reader, struct frame_hello *hello)
{
    hello->from = reader_get(reader, 8);
    hello->to = reader_get(reader, 8);
    text_decode(reader, hello->cluster_id, sizeof(hello->cluster_id));
    hello->incarnation = reader_get(reader, 8);
    hello->probe = reader_get(reader, 1) != 0;
    text_decode(reader, hello->name, sizeof(hello->name));
    text_decode(reader, hello->address, sizeof(hello->address));
    hello->last_index = reader_get(reader, 8);
    text_decode(reader, hello->contact, sizeof(hello->contact));
    hello->founding = reader_get(reader, 8);
    build_decode(reader, &hello->build);
    return reader->failed || hello->from == 0 || !id_valid(hello->name) || hello->address[0] == '\0'
               ? -1
               : 0;
}

static int reply_decode(struct bytes_reader *reader, struct frame_hello_reply *reply)
{
    uint64_t welcome = reader_get(reader, 1);

    reply->welcome = (enum frame_welcome)welcome;
    text_decode(reader, reply->cluster_id, sizeof(reply->cluster_id));
    reply->member_id = reader_get(reader, 8);
    reply->joining = reader_get(reader, 1) != 0;
    reply->last_index = reader_get(reader, 8);
    reply->index = reader_get(reader, 8);
    reply->incarnation = reader_get(reader, 8);
    text_decode(reader, reply->contact, sizeof(reply->contact));
    reply->founding = reader_get(reader, 8);
    reply->basis = reader_get(reader, 8);
    reply->founders.count = reader_get(reader, 1);
    if (reader->failed || reply->founders.count > CONSENSUS_MEMBERS_MAX)
        return -1;
    for (size_t i = 0; i < reply->founders.count; i++) {
        reply->founders.list[i].id = reader_get(reader, 8);
        reply->founders.list[i].number = reader_get(reader, 8);
    }
    build_decode(reader, &reply->build);
    return reader->failed || welcome >= FRAME_WELCOME_END ? -1 : 0;
}

/* An empty piece would make no progress, and be acknowledged for ever. */
static int snapshot_decode(struct bytes_reader *reader, enum frame_type type,
                           struct frame_snapshot *snapshot)
{
    memset(snapshot, 0, sizeof(*snapshot));
    snapshot->stream = reader_get(reader, 8);
    snapshot->offset = reader_get(reader, 8);
    if (type == FRAME_SNAPSHOT_BEGIN) {
        snapshot->term = reader_get(reader, 8);
        snapshot->index = reader_get(reader, 8);
    } else if (type == FRAME_SNAPSHOT_ACK) {
        snapshot->failed = reader_get(reader, 1) != 0;
    } else {
        snapshot->length = reader->left;
        snapshot->bytes = reader_take(reader, reader->left);
        if (snapshot->length == 0 || snapshot->length > FRAME_SNAPSHOT_CHUNK_BYTES)
            return -1;
    }
    return snapshot->offset > INT64_MAX ? -1 : 0;
}

/* An unknown reason of unfitness is refused: it could only be taken for a wrong one. */
static void note_decode(struct bytes_reader *reader, struct frame_note *note)
{
    uint64_t told = reader_get(reader, 1), unfit, others, length;
    const uint8_t *bytes;

    note->told = told == 1;
    reader->failed |= told > 1;
    if (reader->failed || !note->told)
        return;
    unfit = reader_get(reader, 1);
    others = reader_get(reader, 1);
    length = reader_get(reader, 1);
    bytes = reader_take(reader, length);
    if (reader->failed || unfit >= CONSENSUS_UNFIT_END || others > 1 ||
        length > CONSENSUS_NOTE_MAX_BYTES) {
        reader->failed = true;
        return;
    }
    note->unfit = (enum consensus_unfit)unfit;
    note->others_fit = others == 1;
    note->length = length;
    memcpy(note->bytes, bytes, length);
}

static int body_decode(struct bytes_reader *reader, struct frame_message *message)
{
    if (frame_has_note(message->type))
        note_decode(reader, &message->note);
    switch (message->type) {
    case FRAME_HELLO:
        return hello_decode(reader, &message->hello);
    case FRAME_HELLO_REPLY:
        return reply_decode(reader, &message->reply);
    case FRAME_APPEND:
        return append_decode(reader, &message->core);
    case FRAME_APPEND_RESULT:
        return append_result_decode(reader, &message->core);
    case FRAME_VOTE:
        return vote_decode(reader, &message->core);
    case FRAME_VOTE_RESULT:
        return vote_result_decode(reader, message);
    case FRAME_SNAPSHOT_BEGIN:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_ACK:
        return snapshot_decode(reader, message->type, &message->snapshot);
    case FRAME_READ_PING:
    case FRAME_READ_PONG:
    case FRAME_CAMPAIGN:
        message->read.term = reader_get(reader, 8);
        message->read.round = reader_get(reader, 8);
        return 0;
    case FRAME_TYPE_END:
        break;
    }
    return -1;
}

const char *frame_type_name(enum frame_type type)
{
    static const char *const names[] = {
#define X(name, number) [number] = #name,
        FRAME_TYPES(X)
#undef X
    };

    CHECK(type >= FRAME_HELLO && type < FRAME_TYPE_END);
    return names[type];
}

int frame_decode(const struct frame *frame, struct frame_message *ret_message, struct err *err)
{
    struct bytes_reader reader = {frame->body, frame->length, false};
    struct frame_message message = {.type = frame->type};

    CHECK(ret_message != NULL);
    if (body_decode(&reader, &message) != 0)
        return err_set(err, ERR_CORRUPT, "%s frame makes no sense", frame_type_name(frame->type));
    /* A later build may say more in its hello: what is behind the known fields is not ours to
     * judge. */
    if (message.type == FRAME_HELLO || message.type == FRAME_HELLO_REPLY)
        reader.left = 0;
    if (reader.failed || reader.left != 0) {
        frame_message_close(&message);
        return err_set(err, ERR_CORRUPT, "%s frame has the wrong length",
                       frame_type_name(frame->type));
    }
    *ret_message = message;
    return 0;
}

void frame_message_close(struct frame_message *message)
{
    CHECK(message != NULL);
    if (message->type == FRAME_APPEND)
        frame_entries_free(&message->core.append_entries);
}
