/* The words of a script's line and their values. See script.h. */
#ifndef CKPT_TESTS_FSM_SCRIPT_WORDS_H
#define CKPT_TESTS_FSM_SCRIPT_WORDS_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/fsm.h"
#include "fsm/level.h"
#include "fsm/message_level.h"
#include "src/base/id.h"
#include "tests/unit/fsm/script_bytes.h"

enum { SCRIPT_WORDS_MAX = 40, SCRIPT_LIST_MAX = 64, SCRIPT_ENTRY_MAX = 1 << 16 };

struct script {
    struct fsm *fsm;
    uint64_t index, term, now_ms, event_sequence, request_number;
    struct fsm_outcome outcome;   /* of the last line */
    bool keep_entries, unchecked; /* the latter: fsm_check is left to the caller */
    bool as_proposed;             /* a leader's: nothing above the level is applied */
    size_t entry_length;
    uint8_t entry[SCRIPT_ENTRY_MAX];
    const char *line; /* and what it is taken apart to */
    char text[2048];
    char *words[SCRIPT_WORDS_MAX];
    size_t word_count;
};

static inline void script_die(const struct script *script, const char *what)
{
    fprintf(stderr, "script: %s: %s\n", what, script->line);
    abort();
}

static inline void script_violation(void *context, const char *text)
{
    script_die(context, text);
}

static inline void script_on_outcome(void *context, size_t i, const struct fsm_outcome *outcome)
{
    struct script *script = context;

    (void)i;
    script->outcome = *outcome;
}

/* Applies the command as the next entry. */
/* Nothing above the level, but for the command that raises it. */
static inline bool script_proposes(const struct script *script,
                                   const Ckpt__Log__V1__Command *command)
{
    const char *field;
    uint32_t level = fsm_level(script->fsm), asked = fsm_level_asked(command);

    return fsm_message_level(&command->base, &field) <= (asked > level ? asked : level);
}

static inline enum fsm_status script_apply(struct script *script, Ckpt__Log__V1__Command *command)
{
    Ckpt__Log__V1__Entry entry = CKPT__LOG__V1__ENTRY__INIT;

    if (script->as_proposed && !script_proposes(script, command))
        return script->outcome.status = FSM_FEATURE_LEVEL;
    entry.n_commands = 1;
    entry.commands = &command;
    if (ckpt__log__v1__entry__get_packed_size(&entry) > sizeof(script->entry))
        script_die(script, "the entry is too large");
    script->entry_length = ckpt__log__v1__entry__pack(&entry, script->entry);
    memset(&script->outcome, 0, sizeof(script->outcome));
    fsm_apply_entry(
        script->fsm,
        &(struct fsm_entry){++script->index, script->term, script->entry, script->entry_length},
        script_on_outcome, script);
    if (!script->unchecked)
        fsm_check(script->fsm, script_violation, script);
    return script->outcome.status;
}

static inline void script_split(struct script *script, const char *line)
{
    char *at;

    if (strlen(line) >= sizeof(script->text))
        script_die(script, "the line is too long");
    strcpy(script->text, line);
    script->word_count = 0;
    for (at = strtok(script->text, " \n"); at != NULL; at = strtok(NULL, " \n")) {
        if (script->word_count == SCRIPT_WORDS_MAX)
            script_die(script, "too many words");
        script->words[script->word_count++] = at;
    }
}

static inline const char *script_word(const struct script *script, size_t i)
{
    return i < script->word_count ? script->words[i] : "";
}

/* The value of key=value, or `otherwise`. */
static inline const char *script_value(const struct script *script, const char *key,
                                       const char *otherwise)
{
    size_t length = strlen(key);

    for (size_t i = 1; i < script->word_count; i++)
        if (strncmp(script->words[i], key, length) == 0 && script->words[i][length] == '=')
            return script->words[i] + length + 1;
    return otherwise;
}

static inline bool script_flag(const struct script *script, const char *flag)
{
    for (size_t i = 1; i < script->word_count; i++)
        if (strcmp(script->words[i], flag) == 0)
            return true;
    return false;
}

static inline uint64_t script_number(const struct script *script, const char *key,
                                     uint64_t otherwise)
{
    const char *text = script_value(script, key, NULL);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static inline uint64_t script_checkpoint(const struct script *script, const char *text)
{
    uint64_t id = 0;

    if (text[0] != '\0' && checkpoint_id_parse(text, &id) != 0)
        script_die(script, "not a checkpoint id");
    return id;
}

/* A lower-case name to an enum value: PREFIX + upper case. */
static inline int script_enum(const struct script *script,
                              const ProtobufCEnumDescriptor *descriptor, const char *prefix,
                              const char *key, const char *otherwise)
{
    const char *text = script_value(script, key, otherwise);
    char name[128];
    const ProtobufCEnumValue *value;
    size_t at = (size_t)snprintf(name, sizeof(name), "%s%s", prefix, text);

    for (size_t i = strlen(prefix); i < at; i++)
        if (name[i] >= 'a' && name[i] <= 'z')
            name[i] = (char)(name[i] - 'a' + 'A');
    value = protobuf_c_enum_descriptor_get_value_by_name(descriptor, name);
    if (value == NULL && text[0] >= '0' && text[0] <= '9')
        return atoi(text);
    if (value == NULL)
        script_die(script, name);
    return value->value;
}

static inline int script_purpose(const struct script *script)
{
    return script_enum(script, &ckpt__v1__purpose__descriptor, "PURPOSE_", "purpose",
                       "unspecified");
}

static inline int script_after(const struct script *script)
{
    return script_enum(script, &ckpt__v1__after_checkpoint__descriptor, "AFTER_CHECKPOINT_",
                       "after", "unspecified");
}

static inline int script_reason(const struct script *script)
{
    return script_enum(script, &ckpt__v1__reason__descriptor, "REASON_", "reason", "none");
}

static inline char *script_text(const char *constant)
{
    union {
        const char *constant;
        char *changing;
    } pointer = {constant};

    return pointer.changing;
}

struct script_shares {
    char names[2048];
    Ckpt__V1__NodeShare shares[SCRIPT_LIST_MAX];
    Ckpt__V1__NodeShare *pointers[SCRIPT_LIST_MAX];
    size_t count;
};

/* nodes=a,b,c gpus=8 memory=80000000000 borrowed (all), or lent=b */
static inline void script_nodes(const struct script *script, struct script_shares *ret)
{
    ret->count = 0;
    snprintf(ret->names, sizeof(ret->names), "%s", script_value(script, "nodes", ""));
    for (char *at = ret->names, *next; *at != '\0' && ret->count < SCRIPT_LIST_MAX; at = next) {
        Ckpt__V1__NodeShare *share = &ret->shares[ret->count];

        next = at + strcspn(at, ",");
        if (*next == ',')
            *next++ = '\0';
        ckpt__v1__node_share__init(share);
        share->node_id = at;
        share->gpu_count = (uint32_t)script_number(script, "gpus", 8);
        share->gpu_memory_used_bytes = script_number(script, "memory", 80000000000);
        share->borrowed =
            script_flag(script, "borrowed") || strcmp(at, script_value(script, "lent", "")) == 0;
        share->home_vcluster = script_text(script_value(script, "home", ""));
        ret->pointers[ret->count++] = share;
    }
}

#endif
