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
    ret_outcome->current = strlen(spec->prefix);
    ret_outcome->limit = FSM_PREFIX_MAX_BYTES;
    return FSM_PREFIX_INVALID;
}
