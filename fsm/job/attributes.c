/* Attributes of a job that checkpoints itself. See attributes.h. */
#include "fsm/attributes.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum { ATTRIBUTE_NUMBER_MAX = 255 };

enum attribute_kind {
    ATTRIBUTE_CODE,
    ATTRIBUTE_CODE_UNASKED, /* today's name says both */
    ATTRIBUTE_BY_SIGNAL,
    ATTRIBUTE_EXIT_SIGNAL,
    ATTRIBUTE_UNASKED,
    ATTRIBUTE_WANT_SIGNAL,
    ATTRIBUTE_CHECKPOINT_SIGNAL,
    ATTRIBUTE_KILL_SIGNAL,
    ATTRIBUTE_FILES,
    ATTRIBUTE_FINAL,
    ATTRIBUTE_NOTHING
};

static const struct {
    const char *name; /* in small letters */
    enum attribute_kind kind;
} names[] = {{"checkpoint_exit_code", ATTRIBUTE_CODE_UNASKED},
             {"checkpointexitcode", ATTRIBUTE_CODE},
             {"successcheckpointexitcode", ATTRIBUTE_CODE},
             {"checkpointexitbysignal", ATTRIBUTE_BY_SIGNAL},
             {"successcheckpointexitbysignal", ATTRIBUTE_BY_SIGNAL},
             {"checkpointexitsignal", ATTRIBUTE_EXIT_SIGNAL},
             {"successcheckpointexitsignal", ATTRIBUTE_EXIT_SIGNAL},
             {"wantftoncheckpoint", ATTRIBUTE_UNASKED},
             {"wantcheckpointsignal", ATTRIBUTE_WANT_SIGNAL},
             {"checkpointsig", ATTRIBUTE_CHECKPOINT_SIGNAL},
             {"kill_sig", ATTRIBUTE_KILL_SIGNAL},
             {"killsig", ATTRIBUTE_KILL_SIGNAL},
             {"transfer_checkpoint_files", ATTRIBUTE_FILES},
             {"transfercheckpoint", ATTRIBUTE_FILES},
             {"transfer_output_files", ATTRIBUTE_FILES},
             {"transferoutput", ATTRIBUTE_FILES},
             {"success_exit_code", ATTRIBUTE_FINAL},
             {"jobsuccessexitcode", ATTRIBUTE_FINAL},
             {"when_to_transfer_output", ATTRIBUTE_NOTHING},
             {"whentotransferoutput", ATTRIBUTE_NOTHING}};

/* A part of the text. */
struct span {
    const char *at;
    size_t length;
};

static char small_letter(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

static bool span_is(struct span span, const char *word)
{
    size_t i = 0;

    CHECK(span.at != NULL);
    while (i < span.length && word[i] != '\0' && small_letter(span.at[i]) == word[i])
        i++;
    return i == span.length && word[i] == '\0';
}

static bool span_begins(struct span span, const char *word)
{
    const size_t length = strlen(word);

    return span.length >= length && span_is((struct span){span.at, length}, word);
}

static struct span span_trim(struct span span)
{
    CHECK(span.at != NULL);
    while (span.length > 0 && (span.at[0] == ' ' || span.at[0] == '\t'))
        span = (struct span){span.at + 1, span.length - 1};
    while (span.length > 0 && (span.at[span.length - 1] == ' ' || span.at[span.length - 1] == '\t'))
        span.length--;
    return span;
}

static struct span span_unquote(struct span span)
{
    if (span.length >= 2 && span.at[0] == '"' && span.at[span.length - 1] == '"')
        return (struct span){span.at + 1, span.length - 2};
    return span;
}

/* ---- values ---- */

static bool take_bool(struct span value, bool *ret_flag)
{
    *ret_flag = span_is(value, "true");
    return *ret_flag || span_is(value, "false");
}

static bool take_number(struct span value, uint32_t *ret_number)
{
    uint32_t number = 0;

    CHECK(ret_number != NULL);
    for (size_t i = 0; i < value.length; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return false;
        number = number * 10 + (uint32_t)(value.at[i] - '0');
        if (number > ATTRIBUTE_NUMBER_MAX)
            return false;
    }
    CHECK(number <= ATTRIBUTE_NUMBER_MAX);
    *ret_number = number;
    return value.length > 0;
}

static bool is_signal_byte(char byte)
{
    const char letter = small_letter(byte);

    return (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9') || byte == '+' ||
           byte == '-';
}

static bool take_signal(struct span value, char ret_signal[FSM_ATTRIBUTE_SIGNAL_BYTES])
{
    if (value.length == 0 || value.length >= FSM_ATTRIBUTE_SIGNAL_BYTES)
        return false;
    for (size_t i = 0; i < value.length; i++)
        if (!is_signal_byte(value.at[i]))
            return false;
    memcpy(ret_signal, value.at, value.length);
    ret_signal[value.length] = '\0';
    CHECK(strlen(ret_signal) == value.length); /* no byte of it is zero */
    return true;
}

/* Names between commas, or blanks, become names between blanks. Lists of several attributes are one
 * list. */
static bool take_files(struct span value, char ret_files[FSM_ATTRIBUTE_FILES_BYTES])
{
    size_t used = strlen(ret_files);

    CHECK(used < FSM_ATTRIBUTE_FILES_BYTES);
    if (value.length == 0 || used + value.length + 2 > FSM_ATTRIBUTE_FILES_BYTES)
        return false;
    if (used > 0)
        ret_files[used++] = ' ';
    for (size_t i = 0; i < value.length; i++)
        ret_files[used++] = value.at[i] == ',' ? ' ' : value.at[i];
    CHECK(used < FSM_ATTRIBUTE_FILES_BYTES);
    ret_files[used] = '\0';
    return true;
}

static bool attribute_take(struct fsm_attributes *attributes, enum attribute_kind kind,
                           struct span value)
{
    switch (kind) {
    case ATTRIBUTE_CODE_UNASKED:
        attributes->unasked = true;
        return take_number(value, &attributes->code);
    case ATTRIBUTE_CODE:
        return take_number(value, &attributes->code);
    case ATTRIBUTE_BY_SIGNAL:
        return take_bool(value, &attributes->by_signal);
    case ATTRIBUTE_EXIT_SIGNAL:
        return take_signal(value, attributes->exit_signal);
    case ATTRIBUTE_UNASKED:
        return take_bool(value, &attributes->unasked);
    case ATTRIBUTE_WANT_SIGNAL:
        return take_bool(value, &attributes->want_signal);
    case ATTRIBUTE_CHECKPOINT_SIGNAL:
        return take_signal(value, attributes->checkpoint_signal);
    case ATTRIBUTE_KILL_SIGNAL:
        return take_signal(value, attributes->kill_signal);
    case ATTRIBUTE_FILES:
        return take_files(value, attributes->files);
    case ATTRIBUTE_FINAL:
        return take_number(value, &attributes->final);
    case ATTRIBUTE_NOTHING:
        return value.length > 0;
    }
    CHECK_UNREACHABLE("attribute_kind");
}

/* ---- lines ---- */

static bool line_take(struct span line, struct fsm_attributes *attributes)
{
    const char *equals = memchr(line.at, '=', line.length);
    struct span name, value;

    CHECK(line.length > 0);
    if (equals == NULL)
        return false;
    CHECK(equals < line.at + line.length);
    name = span_trim((struct span){line.at, (size_t)(equals - line.at)});
    value = span_unquote(
        span_trim((struct span){equals + 1, line.length - (size_t)(equals + 1 - line.at)}));
    if (span_begins(name, "+"))
        name = (struct span){name.at + 1, name.length - 1};
    else if (span_begins(name, "my."))
        name = (struct span){name.at + 3, name.length - 3};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (span_is(name, names[i].name))
            return attribute_take(attributes, names[i].kind, value);
    return false;
}

/* A program whose save ends as its work does is started again for ever. */
static bool never_ends(const struct fsm_attributes *attributes)
{
    CHECK(attributes->code <= ATTRIBUTE_NUMBER_MAX);
    CHECK(attributes->final <= ATTRIBUTE_NUMBER_MAX);
    if (attributes->by_signal || attributes->code != attributes->final)
        return false;
    return !attributes->want_signal || (attributes->unasked && attributes->code != 0);
}

static enum fsm_status judge_whole(const struct fsm_attributes *attributes,
                                   char ret_found[FSM_FOUND_BYTES])
{
    CHECK(ret_found[0] == '\0');
    if (!attributes->unasked && !attributes->want_signal)
        return FSM_ATTRIBUTES_MUTE;
    if (attributes->by_signal && attributes->exit_signal[0] == '\0') {
        snprintf(ret_found, FSM_FOUND_BYTES, "CheckpointExitBySignal=TRUE without its signal");
        return FSM_ATTRIBUTE_WRONG;
    }
    if (!never_ends(attributes))
        return FSM_OK;
    snprintf(ret_found, FSM_FOUND_BYTES, "%u", (unsigned)attributes->code);
    return FSM_CHECKPOINT_EXIT_FINAL;
}

enum fsm_status fsm_attributes_read(const char *text, struct fsm_attributes *ret_attributes,
                                    char ret_found[FSM_FOUND_BYTES])
{
    CHECK(text != NULL);
    CHECK(ret_attributes != NULL && ret_found != NULL);
    memset(ret_attributes, 0, sizeof(*ret_attributes));
    ret_found[0] = '\0';
    if (text[0] == '\0')
        return FSM_OK;
    for (const char *at = text; *at != '\0';) {
        const struct span line = {at, strcspn(at, "\n")};

        if (line.length > 0 && !line_take(line, ret_attributes)) {
            snprintf(ret_found, FSM_FOUND_BYTES, "%.*s",
                     (int)(line.length < FSM_FOUND_BYTES ? line.length : FSM_FOUND_BYTES - 1),
                     line.at);
            return FSM_ATTRIBUTE_WRONG;
        }
        at += line.length + (at[line.length] == '\n');
    }
    return judge_whole(ret_attributes, ret_found);
}
