/* Schedulers of one tenant. See scope.h. */
#include "src/broker/api/scope.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/broker/api/access.h"
#include "src/broker/api/methods.h"
#include "src/tls/identity.h"

enum { SHOWN_BYTES = 160 };

/* False: of all tenants, or no scheduler's. */
static bool tenant_of(const struct rpc_peer *peer, struct tls_identity *ret_identity)
{
    return peer->tls &&
           tls_identity_parse(peer->identity, strlen(peer->identity), ret_identity, NULL) == 0 &&
           ret_identity->tenant[0] != '\0';
}

bool scope_asks(const struct rpc_peer *peer)
{
    struct tls_identity identity;

    return tenant_of(peer, &identity);
}

/* Of the request itself, or of its spec. NULL: it has none. */
static const char *tenant_in(const struct method *method, const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field;

    if (method->scope == SCOPE_SPEC) {
        field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "spec");
        CHECK(field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE);
        message =
            *(const ProtobufCMessage *const *)(const void *)((const char *)message + field->offset);
    }
    return message == NULL ? NULL : access_text_field(message, "tenant");
}

/* The request is about one job, and scope_is_theirs() is asked. */
static bool is_about_job(const struct method *method, const ProtobufCMessage *message)
{
    return method->scope == SCOPE_JOB || (method->scope == SCOPE_ACCOUNT &&
                                          access_text_field(message, "allocation_id")[0] != '\0');
}

bool scope_may_ask(const struct method *method, const struct rpc_peer *peer,
                   const ProtobufCMessage *message, char *text, size_t size)
{
    struct tls_identity identity;
    char shown[SHOWN_BYTES];
    const char *tenant;

    CHECK(method->scope != SCOPE_NOTHING);
    if (!tenant_of(peer, &identity) || method->scope == SCOPE_OPEN || is_about_job(method, message))
        return true;
    tenant = tenant_in(method, message);
    if (tenant != NULL && strcmp(tenant, identity.tenant) == 0)
        return true;
    text_shown(tenant == NULL ? "" : tenant, shown, sizeof(shown));
    snprintf(text, size,
             "PERMISSION_DENIED: tenant is \"%s\", and %s is for tenant %s alone; of other tenants "
             "it takes a scheduler's certificate without one, or an operator's",
             shown, peer->identity, identity.tenant);
    return false;
}

static bool is_of(const struct fsm_allocation *allocation, const char *tenant)
{
    return allocation != NULL && strcmp(allocation->tenant, tenant) == 0;
}

bool scope_sees(const struct rpc_peer *peer, const struct fsm_allocation *allocation)
{
    struct tls_identity identity;

    return !tenant_of(peer, &identity) || is_of(allocation, identity.tenant);
}

/* Each job that the request names, by itself or by a checkpoint, and one at least. */
static bool names_theirs(const struct fsm *fsm, const ProtobufCMessage *message, const char *tenant)
{
    const char *allocation_id = access_text_field(message, "allocation_id");
    uint64_t checkpoint_id = access_number_field(message, "checkpoint_id");
    const struct fsm_checkpoint *checkpoint;

    if (allocation_id[0] != '\0' && !is_of(fsm_allocation_find(fsm, allocation_id), tenant))
        return false;
    if (checkpoint_id == 0)
        return allocation_id[0] != '\0';
    checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);
    return checkpoint != NULL &&
           is_of(fsm_allocation_find_slot(fsm, checkpoint->allocation_slot), tenant);
}

void scope_refusal(const struct rpc_peer *peer, const char *allocation_id, char *text, size_t size)
{
    struct tls_identity identity;
    char shown[SHOWN_BYTES];

    CHECK(tenant_of(peer, &identity));
    text_shown(allocation_id, shown, sizeof(shown));
    if (shown[0] == '\0')
        snprintf(text, size,
                 "NOT_YOURS: name a job of tenant %s, since %s is for its jobs alone; ckptctl jobs "
                 "--tenant %s lists them",
                 identity.tenant, peer->identity, identity.tenant);
    else
        snprintf(text, size,
                 "NOT_YOURS: tenant %s has no such job (%s), and %s is for its jobs alone; ckptctl "
                 "jobs --tenant %s lists them",
                 identity.tenant, shown, peer->identity, identity.tenant);
}

bool scope_is_theirs(const struct method *method, const struct fsm *fsm,
                     const struct rpc_peer *peer, const ProtobufCMessage *message, char *text,
                     size_t size)
{
    struct tls_identity identity;

    if (!is_about_job(method, message) || !tenant_of(peer, &identity) ||
        names_theirs(fsm, message, identity.tenant))
        return true;
    scope_refusal(peer, access_text_field(message, "allocation_id"), text, size);
    return false;
}
