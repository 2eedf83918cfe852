/* Kinds of storage targets at the edge. See target_kinds.h. */
#include "src/broker/api/target_kinds.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

static const ProtobufCEnumDescriptor *const kinds = &ckpt__v1__target_kind__descriptor;

/* NULL: the API knows the kind, and this version writes none such. */
static const struct destination_ops *target_kind_row(Ckpt__V1__TargetKind kind)
{
    char word[FSM_WORD_BYTES];

    return destination_named(fsm_enum_word(kinds, (int)kind, word));
}

/* Words of the API: those of the enum in common.proto, in lower case. */
static bool find_kind(const char *word, Ckpt__V1__TargetKind *ret_kind)
{
    int kind;

    if (!fsm_enum_parse(kinds, word, &kind) || kind == 0)
        return false;
    *ret_kind = (Ckpt__V1__TargetKind)kind;
    return true;
}

int target_kind_parse(const char *word, Ckpt__V1__TargetKind *ret_kind, struct err *err)
{
    char names[128] = "";

    if (find_kind(word, ret_kind) && destination_named(word) != NULL)
        return 0;
    for (size_t i = 0, used = 0; destinations[i] != NULL && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : " or ",
                                 destinations[i]->kind);
    if (find_kind(word, ret_kind))
        return err_set(err, ERR_INVALID, "is '%s', which this version does not write; use %s", word,
                       names);
    return err_set(err, ERR_INVALID, "is '%s', must be %s", word, names);
}

int target_kind_check(Ckpt__V1__TargetSpec *spec, struct err *err)
{
    const struct destination_ops *row = spec->kind == CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED
                                            ? destination_of(spec->prefix, err)
                                            : target_kind_row(spec->kind);

    if (row == NULL)
        return -1;
    CHECK(find_kind(row->kind, &spec->kind));
    return row->validate(spec->prefix, err);
}

typedef bool row_fn(const struct destination_ops *row);

static uint64_t kinds_that(row_fn *holds)
{
    uint64_t bits = 0;

    for (size_t i = 0; destinations[i] != NULL; i++) {
        Ckpt__V1__TargetKind kind;

        CHECK(find_kind(destinations[i]->kind, &kind));
        if (holds(destinations[i]))
            bits |= UINT64_C(1) << kind;
    }
    return bits;
}

static bool row_stages(const struct destination_ops *row)
{
    return row->stage != NULL;
}

static bool row_compresses(const struct destination_ops *row)
{
    return row->compresses;
}

uint64_t target_kinds_direct(void)
{
    return kinds_that(row_stages);
}

uint64_t target_kinds_compressing(void)
{
    return kinds_that(row_compresses);
}

int target_staging_check(const Ckpt__V1__TargetSpec *spec, struct err *err)
{
    if (spec->staging != CKPT__V1__STAGING__STAGING_DIRECT ||
        (target_kinds_direct() >> spec->kind & 1) != 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "is for kinds of targets to which applications can write by themselves, not for "
                   "%s; use local",
                   target_kind_row(spec->kind)->kind);
}

int target_compression_check(const Ckpt__V1__TargetSpec *spec, struct err *err)
{
    if (spec->compression != CKPT__V1__COMPRESSION__COMPRESSION_LZ4 ||
        (target_kinds_compressing() >> spec->kind & 1) != 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "is for kinds of targets that hold files, not for %s; use none",
                   target_kind_row(spec->kind)->kind);
}

/* The subject of the refusal: the value and the rule that it breaks. It lives until the next one,
 * and the answer is made before: requests come one after the other on the loop's thread. */
static const char *prefix_refused(const char *prefix, const struct err *err)
{
    static char text[257 + ERR_TEXT_BYTES + 16];
    char value[257];

    snprintf(value, sizeof(value), "%s", prefix);
    for (char *at = value; *at != '\0'; at++)
        *at = *at < ' ' || *at > '~' ? '?' : *at;
    snprintf(text, sizeof(text), "prefix '%s' %s", value, err->text);
    return text;
}

enum fsm_status target_kind_settle(Ckpt__V1__TargetSpec *spec, struct fsm_outcome *ret_outcome)
{
    struct err err;

    if (protobuf_c_enum_descriptor_get_value(kinds, (int)spec->kind) == NULL)
        return FSM_OK; /* refused by name like any unknown value */
    if (spec->kind != CKPT__V1__TARGET_KIND__TARGET_KIND_UNSPECIFIED &&
        target_kind_row(spec->kind) == NULL)
        return FSM_UNIMPLEMENTED;
    if (spec->prefix[0] == '\0' || target_kind_check(spec, &err) == 0)
        return FSM_OK;
    ret_outcome->subject = prefix_refused(spec->prefix, &err);
    ret_outcome->current = strlen(spec->prefix);
    ret_outcome->limit = FSM_PREFIX_MAX_BYTES;
    return FSM_PREFIX_INVALID;
}
