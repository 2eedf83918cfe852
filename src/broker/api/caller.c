/* The caller of a method. See caller.h. */
#include "src/broker/api/caller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/api/own.h"

enum { SHOWN_BYTES = 160 };

/* "OperatorService/SetPolicy" of "/ckpt.v1.OperatorService/SetPolicy". */
static const char *method_of(const char *path)
{
    static const char package[] = "/ckpt.v1.";

    if (path == NULL)
        return "";
    return strncmp(path, package, sizeof(package) - 1) == 0 ? path + sizeof(package) - 1 : path;
}

void caller_of_peer(const struct rpc_peer *peer, const char *path, struct caller *ret_caller)
{
    union {
        const char *constant;
        char *changing;
    } address = {peer->local ? "unix" : peer->address}, method = {method_of(path)};

    ckpt__log__v1__caller__init(&ret_caller->message);
    if (peer->local)
        snprintf(ret_caller->identity, sizeof(ret_caller->identity), "local uid=%u",
                 (unsigned)peer->uid);
    else
        snprintf(ret_caller->identity, sizeof(ret_caller->identity), "%s",
                 peer->identity[0] != '\0' ? peer->identity : "unauthenticated");
    ret_caller->message.identity = ret_caller->identity;
    ret_caller->message.address = address.changing;
    ret_caller->message.method = method.changing;
}

void caller_of_call(const struct rpc_call *call, const char *path, struct caller *ret_caller)
{
    const char *user = rpc_call_metadata(call, OWN_NAME_METADATA);
    const char *uid = rpc_call_metadata(call, OWN_UID_METADATA);
    char shown_user[SHOWN_BYTES], shown_uid[SHOWN_BYTES];
    size_t used;

    caller_of_peer(rpc_call_peer(call), path, ret_caller);
    if (user == NULL)
        return;
    text_shown(user, shown_user, sizeof(shown_user));
    text_shown(uid == NULL ? "?" : uid, shown_uid, sizeof(shown_uid));
    used = strlen(ret_caller->identity);
    snprintf(ret_caller->identity + used, sizeof(ret_caller->identity) - used, " for %s uid=%s",
             shown_user, shown_uid);
}

static int field_text(const ProtobufCMessage *request, const ProtobufCFieldDescriptor *field,
                      char *text, size_t size)
{
    const char *at = (const char *)request + field->offset;
    const char *value;

    if (field->label == PROTOBUF_C_LABEL_REPEATED || strcmp(field->name, "request_id") == 0)
        return 0;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        value = *(const char *const *)(const void *)at;
        return value[0] == '\0' ? 0 : snprintf(text, size, "%s=%s", field->name, value);
    }
    if (field->type == PROTOBUF_C_TYPE_UINT64 && *(const uint64_t *)(const void *)at != 0)
        return snprintf(text, size, "%s=%" PRIu64, field->name,
                        *(const uint64_t *)(const void *)at);
    if (field->type == PROTOBUF_C_TYPE_BOOL && *(const uint32_t *)(const void *)at != 0)
        return snprintf(text, size, "%s=true", field->name);
    return 0;
}

char *caller_asked(const ProtobufCMessage *request, char text[CALLER_ASKED_BYTES])
{
    size_t used = 0;

    CHECK(request != NULL);
    text[0] = '\0';
    for (unsigned i = 0; i < request->descriptor->n_fields; i++) {
        char one[CALLER_ASKED_BYTES];

        if (field_text(request, &request->descriptor->fields[i], one, sizeof(one)) == 0)
            continue;
        used += (size_t)snprintf(text + used, CALLER_ASKED_BYTES - used, "%s%s",
                                 used == 0 ? "" : ", ", one);
        if (used >= CALLER_ASKED_BYTES)
            break;
    }
    return text;
}
