/* A record and a link as bytes: a packed AuditRecord and AuditLink, written by hand, since each
 * change by a client brings one. The fields that lead a link have fixed places.
 *
 * Shapes   texts are cut here where they are longer than their limit; what they say is made
 *          readable when they are read (line.c).
 */
#include "fsm/audit/audit.h"
#include "fsm/core/wire.h"
#include "src/base/bytes.h"

enum { IDENTITY_MAX = 640, ADDRESS_MAX = 96, METHOD_MAX = 128 }; /* bytes */
/* Of AuditLink: numbers of 8 bytes behind a tag of one. */
enum { PLACE_FIRST, PLACE_LAST, PLACE_INDEX, PLACE_AT_MS, PLACE_EPOCH, PLACES };
enum {
    NUMBER_BYTES = 9,
    PREVIOUS_AT = PLACES * NUMBER_BYTES,
    FIELD_PREVIOUS = 6,
    FIELD_RECORDS = 7,
    FIELD_MOST_BYTES = 12
};
_Static_assert(PREVIOUS_AT + 2 + BLAKE2B_BYTES == AUDIT_HEAD_BYTES, "the head has its parts");
/* Of AuditRecord. */
enum {
    FIELD_KIND = 1,
    FIELD_IS_NEW,
    FIELD_COUNT,
    FIELD_COMMAND,
    FIELD_IDENTITY,
    FIELD_ADDRESS,
    FIELD_METHOD,
    FIELD_REQUEST_ID,
    FIELD_SUBJECT,
    FIELD_ASKED,
    FIELD_WAS,
    FIELD_IS
};
_Static_assert(FIELD_IS *FIELD_MOST_BYTES + AUDIT_COMMAND_BYTES + IDENTITY_MAX + ADDRESS_MAX +
                       METHOD_MAX + FSM_ID_BYTES + AUDIT_SUBJECT_BYTES + 3 * AUDIT_VALUE_BYTES +
                       FIELD_MOST_BYTES <
                   FSM_AUDIT_RECORD_BYTES,
               "a record has room for its parts");

struct writer {
    uint8_t *bytes; /* FSM_AUDIT_RECORD_BYTES */
    size_t used;
};

static void write_varint(struct writer *writer, uint64_t value)
{
    CHECK(writer->used < FSM_AUDIT_RECORD_BYTES - FIELD_MOST_BYTES);
    for (; value > 0x7f; value >>= 7)
        writer->bytes[writer->used++] = (uint8_t)(value | 0x80);
    writer->bytes[writer->used++] = (uint8_t)value;
}

static void write_number(struct writer *writer, unsigned field, uint64_t value)
{
    CHECK(field > 0 && field < 16);
    if (value == 0)
        return;
    write_varint(writer, field << 3);
    write_varint(writer, value);
}

static void write_bytes(struct writer *writer, unsigned field, const void *bytes, size_t length)
{
    CHECK(field > 0 && field < 16);
    if (length == 0)
        return;
    write_varint(writer, field << 3 | 2);
    write_varint(writer, length);
    CHECK(length < FSM_AUDIT_RECORD_BYTES - writer->used);
    memcpy(writer->bytes + writer->used, bytes, length);
    writer->used += length;
}

static void write_text(struct writer *writer, unsigned field, const char *text, size_t most)
{
    CHECK(most < FSM_AUDIT_RECORD_BYTES);
    if (text != NULL)
        write_bytes(writer, field, text, strnlen(text, most));
}

/* A packed command tells these itself. */
static void write_caller(struct writer *writer, const struct audit_entry *entry)
{
    const Ckpt__Log__V1__Caller *caller = entry->caller;

    CHECK(entry->command != NULL);
    if (caller != NULL) {
        write_text(writer, FIELD_IDENTITY, caller->identity, IDENTITY_MAX);
        write_text(writer, FIELD_ADDRESS, caller->address, ADDRESS_MAX);
    }
    write_text(writer, FIELD_METHOD,
               caller == NULL || caller->method[0] == '\0' ? entry->command : caller->method,
               METHOD_MAX);
    write_text(writer, FIELD_REQUEST_ID, entry->request_id, FSM_ID_BYTES);
}

size_t audit_record(const struct audit_entry *entry, uint8_t record[FSM_AUDIT_RECORD_BYTES])
{
    struct writer writer = {record, 0};

    CHECK(entry->packed == NULL || entry->packed->length <= AUDIT_COMMAND_BYTES);
    write_number(&writer, FIELD_KIND, entry->kind);
    write_number(&writer, FIELD_IS_NEW, entry->is_new);
    write_number(&writer, FIELD_COUNT, entry->count);
    if (entry->packed != NULL)
        write_bytes(&writer, FIELD_COMMAND, entry->packed->bytes, entry->packed->length);
    else
        write_caller(&writer, entry);
    write_text(&writer, FIELD_SUBJECT, entry->subject, AUDIT_SUBJECT_BYTES);
    write_text(&writer, FIELD_ASKED, entry->asked, AUDIT_VALUE_BYTES);
    write_text(&writer, FIELD_WAS, entry->was, AUDIT_VALUE_BYTES);
    write_text(&writer, FIELD_IS, entry->is, AUDIT_VALUE_BYTES);
    return writer.used;
}

/* ---- links ---- */

static void put_place(uint8_t *head, unsigned place, uint64_t value)
{
    CHECK(place < PLACES);
    head[place * NUMBER_BYTES] = (uint8_t)((place + 1) << 3 | WIRE_64);
    bytes_put(head + place * NUMBER_BYTES + 1, value, 8);
}

void audit_link_head(const struct fsm *fsm, uint8_t head[AUDIT_HEAD_BYTES])
{
    const struct audit *audit = fsm->audit;

    CHECK(audit->open_records > 0 && audit->open_records <= audit->sequence);
    put_place(head, PLACE_FIRST, audit->sequence + 1 - audit->open_records);
    put_place(head, PLACE_LAST, audit->sequence);
    put_place(head, PLACE_INDEX, fsm->index);
    put_place(head, PLACE_AT_MS, fsm->now_ms);
    put_place(head, PLACE_EPOCH, fsm->epoch);
    head[PREVIOUS_AT] = FIELD_PREVIOUS << 3 | WIRE_BYTES;
    head[PREVIOUS_AT + 1] = BLAKE2B_BYTES;
    memcpy(head + PREVIOUS_AT + 2, audit->hash, BLAKE2B_BYTES);
}

size_t audit_link_field(size_t record, uint8_t *ret_bytes)
{
    struct writer writer = {ret_bytes, 0};

    CHECK(record < FSM_AUDIT_RECORD_BYTES);
    write_varint(&writer, FIELD_RECORDS << 3 | WIRE_BYTES);
    write_varint(&writer, record);
    return writer.used;
}

static bool get_place(const uint8_t *head, unsigned place, uint64_t *ret_value)
{
    CHECK(place < PLACES);
    *ret_value = bytes_get(head + place * NUMBER_BYTES + 1, 8);
    return head[place * NUMBER_BYTES] == ((place + 1) << 3 | WIRE_64);
}

bool fsm_audit_place(const uint8_t *bytes, size_t length, struct fsm_audit_place *ret_place)
{
    CHECK(bytes != NULL || length == 0);
    if (length <= AUDIT_HEAD_BYTES || !get_place(bytes, PLACE_FIRST, &ret_place->first) ||
        !get_place(bytes, PLACE_LAST, &ret_place->last) ||
        !get_place(bytes, PLACE_INDEX, &ret_place->index) ||
        !get_place(bytes, PLACE_AT_MS, &ret_place->at_ms) ||
        !get_place(bytes, PLACE_EPOCH, &ret_place->epoch) ||
        bytes[PREVIOUS_AT] != (FIELD_PREVIOUS << 3 | WIRE_BYTES) ||
        bytes[PREVIOUS_AT + 1] != BLAKE2B_BYTES)
        return false;
    memcpy(ret_place->previous, bytes + PREVIOUS_AT + 2, BLAKE2B_BYTES);
    return ret_place->first != 0 && ret_place->first <= ret_place->last &&
           ret_place->last - ret_place->first < FSM_AUDIT_LINK_MAX_BYTES;
}
