/* Links of the audit trail as the state makes them, without a state: one call by "bob" that was
 * denied, behind its length; and lines of what a state has. */
#ifndef CKPT_TESTS_AUDIT_RECORD_H
#define CKPT_TESTS_AUDIT_RECORD_H

#include "ckpt/log/v1/snapshot.pb-c.h"
#include "fsm/audit.h"
#include "src/base/bytes.h"
#include "tests/support/test.h"

/* hash: of the one before it, zeros of the first; then its own. */
static inline void test_audit_chained(struct buf *links, uint64_t epoch, uint64_t sequence,
                                      uint8_t hash[BLAKE2B_BYTES])
{
    Ckpt__Log__V1__AuditLink link = CKPT__LOG__V1__AUDIT_LINK__INIT;
    Ckpt__Log__V1__AuditRecord record = CKPT__LOG__V1__AUDIT_RECORD__INIT, *records[] = {&record};
    static char bob[] = "bob", method[] = "OperatorService/SetPolicy";
    uint8_t bytes[FSM_AUDIT_RECORD_BYTES];
    size_t length;

    link.first = sequence;
    link.last = sequence;
    link.epoch = epoch;
    link.index = sequence + 7; /* no number is zero, so that each field has its place */
    link.at_ms = 1000 * sequence;
    link.previous = (ProtobufCBinaryData){BLAKE2B_BYTES, hash};
    link.n_records = 1;
    link.records = records;
    record.kind = CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_DENIED;
    record.identity = bob;
    record.method = method;
    length = ckpt__log__v1__audit_link__pack(&link, bytes);
    buf_put(links, length, FSM_AUDIT_LENGTH_BYTES);
    buf_append(links, bytes, length);
    blake2b(bytes, length, hash);
}

static inline void test_audit_link(struct buf *links, uint64_t epoch, uint64_t sequence)
{
    uint8_t hash[BLAKE2B_BYTES] = {0};

    test_audit_chained(links, epoch, sequence, hash);
}

struct test_audit_wanted {
    uint64_t left; /* lines before it */
    char line[FSM_AUDIT_RECORD_BYTES];
};

static inline void test_audit_take(void *context, const char *line, size_t length)
{
    struct test_audit_wanted *wanted = context;

    assert_int_equal(strlen(line), length);
    if (wanted->left-- == 0)
        memcpy(wanted->line, line, length + 1);
}

/* A record's line; good until the next call. */
static inline const char *test_audit_line(const struct fsm *fsm, uint64_t sequence)
{
    static struct test_audit_wanted wanted;
    struct fsm_audit_link link;

    assert_true(fsm_audit_link(fsm, fsm_audit_link_of(fsm, sequence), &link));
    wanted.left = sequence - link.first;
    assert_true(fsm_audit_lines(link.bytes, link.length, test_audit_take, &wanted));
    return wanted.line;
}

#endif
