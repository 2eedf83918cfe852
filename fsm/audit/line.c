/* A record as a line of JSON, and the texts in it.
 *
 * Shapes   of the bytes alone, without a state: files are read with it years later. Each part has
 *          its own limit, so that the line always fits; a part that was cut ends with "...". Bytes
 *          that are not printable ASCII become '?': one form, whoever reads it.
 */
#include "fsm/audit/audit.h"

enum { IDENTITY_MAX = 640, ADDRESS_MAX = 96, METHOD_MAX = 128 }; /* bytes before quoting */
enum { FIXED_MAX = 600 };                                        /* keys, numbers */
_Static_assert(2 * (IDENTITY_MAX + ADDRESS_MAX + METHOD_MAX + FSM_ID_BYTES + AUDIT_SUBJECT_BYTES +
                    3 * AUDIT_VALUE_BYTES) + /* quoting doubles a byte at most */
                       FIXED_MAX <
                   FSM_AUDIT_RECORD_BYTES,
               "a line has room for its parts");

static const char cut_mark[] = AUDIT_CUT_MARK;

struct line {
    char *text; /* FSM_AUDIT_RECORD_BYTES */
    size_t used;
};

static void line_add(struct line *line, const char *more, size_t length)
{
    CHECK(length < FSM_AUDIT_RECORD_BYTES - line->used);
    memcpy(line->text + line->used, more, length);
    line->used += length;
}

/* Behind what is there: a comma, the key, and what its value begins with. */
static void line_key(struct line *line, const char *key, const char *begin)
{
    line_add(line, line->used == 0 ? "{\"" : ",\"", 2);
    line_add(line, key, strlen(key));
    line_add(line, "\":", 2);
    line_add(line, begin, strlen(begin));
}

static void line_number(struct line *line, const char *key, uint64_t value)
{
    char text[AUDIT_DIGITS_BYTES], *digits = audit_digits(value, text);

    line_key(line, key, "");
    line_add(line, digits, strlen(digits));
}

/* Of the text at most so many bytes. An empty one is left out. */
static void line_text(struct line *line, const char *key, const char *value, size_t most)
{
    size_t i;

    CHECK(key != NULL);
    if (value == NULL || value[0] == '\0')
        return;
    line_key(line, key, "\"");
    for (i = 0; i < most && value[i] != '\0'; i++) {
        char byte = value[i];

        if (byte == '"' || byte == '\\')
            line->text[line->used++] = '\\';
        line->text[line->used++] = byte < ' ' || byte > '~' ? '?' : byte;
        CHECK(line->used < FSM_AUDIT_RECORD_BYTES);
    }
    line_add(line, cut_mark, value[i] == '\0' ? 0 : sizeof(cut_mark) - 1);
    line_add(line, "\"", 1);
}

/* "SetPolicy" of the body SetPolicyRequest: a client's method has the name of its request. */
static const char *method_of(const fsm_command *command, char text[METHOD_MAX])
{
    static const char tail[] = "Request";
    const char *name = audit_body_of(command)->descriptor->short_name;
    size_t length = strlen(name);

    if (command->caller != NULL && command->caller->method[0] != '\0')
        return command->caller->method;
    if (length > sizeof(tail) - 1 && strcmp(name + length - (sizeof(tail) - 1), tail) == 0)
        length -= sizeof(tail) - 1;
    CHECK(length < METHOD_MAX);
    memcpy(text, name, length);
    text[length] = '\0';
    return text;
}

static const char *kind_word(Ckpt__Log__V1__AuditKind kind)
{
    switch (kind) {
    case CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_CHANGE:
        return "change";
    case CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_ACTION:
        return "action";
    case CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_DENIED:
        return "denied";
    case CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_CALL:
        return "call";
    case CKPT__LOG__V1__AUDIT_KIND__AUDIT_KIND_UNSPECIFIED:
    default: /* protobuf-c adds a value that only sizes the enum; later builds more kinds */
        return "?";
    }
}

/* A record of a packed command; the others have their texts. */
static void add_command(struct line *line, const Ckpt__Log__V1__AuditRecord *record,
                        const fsm_command *command)
{
    struct audit_subject subject = audit_subject_of(command);
    struct audit_text name, asked, fresh;
    char method[METHOD_MAX];

    CHECK(record->command.len > 0);
    audit_subject_text(&subject, 0, &name);
    audit_asked_text(command, &asked);
    audit_text_start(&fresh);
    if (record->is_new)
        audit_new_text(command, &fresh);
    if (fresh.used > 0 && record->is[0] != '\0')
        audit_text_add(&fresh, ", ");
    audit_text_add(&fresh, record->is);
    line_text(line, "caller", command->caller == NULL ? "broker" : command->caller->identity,
              IDENTITY_MAX);
    line_text(line, "address", command->caller == NULL ? "" : command->caller->address,
              ADDRESS_MAX);
    line_text(line, "method", method_of(command, method), METHOD_MAX);
    line_text(line, "request_id", command->request_id, FSM_ID_BYTES);
    line_text(line, "subject", record->subject[0] != '\0' ? record->subject : name.text,
              AUDIT_SUBJECT_BYTES);
    line_text(line, "asked", asked.text, AUDIT_VALUE_BYTES);
    line_text(line, "was", record->was, AUDIT_VALUE_BYTES);
    line_text(line, "is", fresh.text, AUDIT_VALUE_BYTES);
}

static void add_texts(struct line *line, const Ckpt__Log__V1__AuditRecord *record)
{
    CHECK(record->command.len == 0);
    line_text(line, "caller", record->identity[0] == '\0' ? "broker" : record->identity,
              IDENTITY_MAX);
    line_text(line, "address", record->address, ADDRESS_MAX);
    line_text(line, "method", record->method, METHOD_MAX);
    line_text(line, "request_id", record->request_id, FSM_ID_BYTES);
    line_text(line, "subject", record->subject, AUDIT_SUBJECT_BYTES);
    line_text(line, "asked", record->asked, AUDIT_VALUE_BYTES);
    line_text(line, "was", record->was, AUDIT_VALUE_BYTES);
    line_text(line, "is", record->is, AUDIT_VALUE_BYTES);
}

static size_t line_of(const struct fsm_audit_place *place, uint64_t sequence,
                      const Ckpt__Log__V1__AuditRecord *record, const fsm_command *command,
                      char text[FSM_AUDIT_RECORD_BYTES])
{
    struct line line = {text, 0};

    CHECK(sequence >= place->first);
    line_number(&line, "sequence", sequence);
    line_number(&line, "epoch", place->epoch);
    line_number(&line, "index", place->index);
    line_number(&line, "at_ms", place->at_ms);
    line_text(&line, "kind", kind_word(record->kind), METHOD_MAX);
    if (command != NULL)
        add_command(&line, record, command);
    else
        add_texts(&line, record);
    if (record->count != 0)
        line_number(&line, "count", record->count);
    line_add(&line, "}", 1);
    CHECK(line.used < FSM_AUDIT_RECORD_BYTES);
    text[line.used] = '\0';
    return line.used;
}

/* False: its command is none. */
static bool tell_record(const struct fsm_audit_place *place, uint64_t sequence,
                        const Ckpt__Log__V1__AuditRecord *record, fsm_audit_line_fn *on_line,
                        void *context)
{
    char line[FSM_AUDIT_RECORD_BYTES];
    fsm_command *command = NULL;
    bool is_whole = record->command.len == 0;

    CHECK(on_line != NULL);
    if (!is_whole) {
        command = ckpt__log__v1__command__unpack(NULL, record->command.len, record->command.data);
        is_whole = command != NULL && command->body_case != CKPT__LOG__V1__COMMAND__BODY__NOT_SET;
    }
    if (is_whole)
        on_line(context, line, line_of(place, sequence, record, command, line));
    if (command != NULL)
        ckpt__log__v1__command__free_unpacked(command, NULL);
    return is_whole;
}

bool fsm_audit_lines(const uint8_t *bytes, size_t length, fsm_audit_line_fn *on_line, void *context)
{
    struct fsm_audit_place place;
    Ckpt__Log__V1__AuditLink *link;
    bool is_whole;

    CHECK(bytes != NULL || length == 0);
    if (!fsm_audit_place(bytes, length, &place))
        return false;
    link = ckpt__log__v1__audit_link__unpack(NULL, length, bytes);
    if (link == NULL)
        return false;
    is_whole = link->n_records == place.last - place.first + 1;
    for (size_t i = 0; is_whole && i < link->n_records; i++)
        is_whole = tell_record(&place, place.first + i, link->records[i], on_line, context);
    ckpt__log__v1__audit_link__free_unpacked(link, NULL);
    return is_whole;
}
