/* One question to one address. See probe.h. */
#include "raft/net/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

static uint64_t now_us(const struct probe *probe)
{
    const struct clock_ops *clock = probe->transport->clock;

    return clock->monotonic_us(clock->context);
}

bool probe_active(const struct probe *probe)
{
    CHECK(probe != NULL);
    return probe->stream != NULL;
}

void probe_cancel(struct probe *probe)
{
    if (probe->stream != NULL)
        probe->transport->network->close(probe->stream);
    probe->stream = NULL;
    buf_close(&probe->buf);
}

/* The probe is free before done() runs, which may ask the next question. */
static void probe_end(struct probe *probe, const struct err *failed)
{
    probe_done_fn *done = probe->done;

    CHECK(done != NULL);
    probe_cancel(probe);
    probe->done = NULL;
    done(probe->data, failed);
}

/* Where certificates are used the listener must be the member that is meant before it is told
 * anything. */
static void probe_opened(void *data)
{
    struct probe *probe = data;
    const struct transport *transport = probe->transport;
    struct frame_message message = {.type = FRAME_HELLO};
    struct frame_hello *hello = &message.hello;
    struct buf buf;
    size_t length;
    uint8_t *bytes;
    struct err err;

    if (transport->network->peer_is != NULL &&
        !transport->network->peer_is(probe->stream, probe->member.id)) {
        err_set(&err, ERR_MISMATCH,
                "the certificate that %s shows does not name member %" PRIu64
                ": issue one that does",
                probe->member.address, probe->member.id);
        probe_end(probe, &err);
        return;
    }
    snprintf(hello->cluster_id, sizeof(hello->cluster_id), "%s", transport->cluster_id);
    hello->from = transport->self.id;
    hello->to = probe->member.id;
    hello->incarnation = transport->incarnation;
    hello->probe = true;
    hello->build = transport->build;
    snprintf(hello->name, sizeof(hello->name), "%s", transport->self.name);
    snprintf(hello->address, sizeof(hello->address), "%s", transport->self.address);
    buf_init(&buf);
    frame_encode(&buf, &message);
    bytes = buf_take(&buf, &length);
    transport->network->send(probe->stream, bytes, length);
}

/* The checks go from whether the right one answers to what it says of itself, so that the first
 * error is the one to mend. */
static int reply_judge(const struct probe *probe, const struct frame_hello_reply *reply,
                       struct err *err)
{
    const struct consensus_member *member = &probe->member;

    if (strcmp(reply->cluster_id, probe->transport->cluster_id) != 0)
        return err_set(err, ERR_MISMATCH,
                       "%s answers, but for cluster %s, not %s: check the address and cluster_id",
                       member->address, reply->cluster_id, probe->transport->cluster_id);
    if (reply->member_id != member->id)
        return err_set(err, ERR_MISMATCH,
                       "%s answers as member %" PRIu64 ", not %" PRIu64
                       ": give the id that its configuration says",
                       member->address, reply->member_id, member->id);
    if (!reply->joining)
        return err_set(err, ERR_REFUSED,
                       "member %" PRIu64 " at %s was not started with --join on an empty folder "
                       "(its log ends at %" PRIu64 "): its data may be old; start it so",
                       member->id, member->address, reply->last_index);
    if (member->contact[0] != '\0' && reply->contact[0] != '\0' &&
        strcmp(member->contact, reply->contact) != 0)
        return err_set(err, ERR_MISMATCH,
                       "member %" PRIu64 " says that its clients reach it at %s, not at %s: give "
                       "the address that its configuration says, or correct that",
                       member->id, reply->contact, member->contact);
    return 0;
}

/* What is no whole frame by TRANSPORT_REPLIES_BYTES is no member, whatever it says. The reply also
 * tells of another incarnation, which is remembered before the answer is judged. */
static void probe_received(void *data, const uint8_t *bytes, size_t length)
{
    struct probe *probe = data;
    struct frame_message message;
    struct frame frame;
    struct err err;
    int status;

    CHECK(probe->stream != NULL);
    buf_append(&probe->buf, bytes, length);
    status = frame_parse(probe->buf.bytes, probe->buf.length, &frame, NULL);
    if (status == 0 && probe->buf.length < TRANSPORT_REPLIES_BYTES)
        return;
    if (status <= 0 || frame.type != FRAME_HELLO_REPLY ||
        frame_decode(&frame, &message, NULL) != 0) {
        err_set(&err, ERR_MISMATCH, "what listens at %s is no member of this version",
                probe->member.address);
        probe_end(probe, &err);
        return;
    }
    if (strcmp(message.reply.cluster_id, probe->transport->cluster_id) == 0 &&
        message.reply.member_id == probe->member.id) {
        struct consensus_foreign said = {
            .id = probe->member.id, .incarnation = message.reply.incarnation, .answers = true};
        snprintf(said.address, sizeof(said.address), "%s", probe->member.address);
        transport_incarnation(probe->transport, &said);
    }
    probe_end(probe, reply_judge(probe, &message.reply, &err) == 0 ? NULL : &err);
}

static void probe_closed(void *data, const struct err *failed)
{
    struct probe *probe = data;
    struct err err;

    probe->stream = NULL; /* freed by the table */
    probe->nobody = failed != NULL && failed->code == ERR_NOBODY;
    probe->hung_up = failed == NULL || failed->code == ERR_UNAVAILABLE;
    err_set(&err, ERR_UNAVAILABLE,
            "member %" PRIu64 " does not answer at %s (%.200s): start it there with --join",
            probe->member.id, probe->member.address,
            failed != NULL && failed->text[0] != '\0' ? failed->text : "connection closed");
    probe_end(probe, &err);
}

void probe_start(struct probe *probe, struct transport *transport,
                 const struct consensus_member *member, probe_done_fn *done, void *data)
{
    struct network_events events = {
        .data = probe, .opened = probe_opened, .received = probe_received, .closed = probe_closed};

    CHECK(probe->stream == NULL && done != NULL);
    probe->transport = transport;
    probe->member = *member;
    probe->done = done;
    probe->data = data;
    probe->nobody = probe->hung_up = false;
    probe->begun_us = now_us(probe);
    buf_init(&probe->buf);
    probe->stream =
        transport->network->connect(transport->network->context, probe->member.address, &events);
}

void probe_tick(struct probe *probe)
{
    struct err err;

    if (probe->stream == NULL ||
        now_us(probe) - probe->begun_us < UINT64_C(1000) * PROBE_TIMEOUT_MS)
        return;
    err_set(&err, ERR_UNAVAILABLE,
            "member %" PRIu64 " did not answer at %s within %d ms: start it there with --join",
            probe->member.id, probe->member.address, PROBE_TIMEOUT_MS);
    probe_end(probe, &err);
}
