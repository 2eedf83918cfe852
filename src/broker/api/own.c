/* Calls of users of nodes. See own.h. */
#include "src/broker/api/own.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/broker/api/access.h"
#include "src/broker/api/methods.h"
#include "src/serve/tenant_table.h"

enum { UID_DIGITS_MAX = 10, SHOWN_BYTES = 160 };

/* The agent's word on who asks; texts live as long as the call. */
struct own_word {
    const char *node_id; /* of the agent */
    const char *owner;   /* the user's name there, else the number */
    const char *uid;     /* in decimal */
    bool known;          /* the agent knows the named job as this user's */
    bool looks;          /* no file comes of the answer; an earlier agent does not say so */
};

static bool is_number(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && length <= UID_DIGITS_MAX && strspn(text, "0123456789") == length;
}

/* False: it is not whole. */
static bool word_of(const struct rpc_call *call, struct own_word *ret_word)
{
    const char *known = rpc_call_metadata(call, OWN_KNOWN_METADATA);

    *ret_word = (struct own_word){.node_id = rpc_call_metadata(call, OWN_NODE_METADATA),
                                  .owner = rpc_call_metadata(call, OWN_NAME_METADATA),
                                  .uid = rpc_call_metadata(call, OWN_UID_METADATA),
                                  .known = known != NULL && strcmp(known, "yes") == 0,
                                  .looks = known != NULL && strcmp(known, "looks") == 0};
    return ret_word->node_id != NULL && id_valid(ret_word->node_id) && ret_word->owner != NULL &&
           id_valid(ret_word->owner) && ret_word->uid != NULL && is_number(ret_word->uid);
}

bool own_asks(const struct method *method, const struct rpc_call *call)
{
    if (rpc_call_metadata(call, OWN_NAME_METADATA) != NULL)
        return true;
    return method->own != NULL && access_is_kind(rpc_call_peer(call), TLS_AGENT);
}

/* Of the members' own table alone: an agent speaks for users, and gives nobody a tenant. */
static bool is_admin(const struct own_rule *rule, const struct own_word *word, const char *tenant)
{
    return rule->method->kind == METHOD_READ && word->looks && tenant[0] != '\0' &&
           tenant_table_gives(rule->admins, tenant, word->owner, "");
}

/* A list of jobs is of a tenant, for its admin. */
static bool may_list(const struct own_rule *rule, const struct own_word *word,
                     const ProtobufCMessage *message, char *text, size_t size)
{
    char shown[SHOWN_BYTES];
    const char *tenant = access_text_field(message, "tenant");

    if (message->descriptor != &ckpt__v1__list_allocations_request__descriptor ||
        is_admin(rule, word, tenant))
        return true;
    text_shown(tenant, shown, sizeof(shown));
    if (tenant[0] == '\0')
        snprintf(text, size,
                 "PERMISSION_DENIED: tenant must be given by an admin of a tenant (--tenant); "
                 "ckpt-run status lists the jobs of user %s on a node",
                 word->owner);
    else
        snprintf(text, size,
                 "PERMISSION_DENIED: user %s is no admin of tenant %s; tenant_admins in ckptd.yaml "
                 "names them",
                 word->owner, shown);
    return false;
}

bool own_may_ask(const struct own_rule *rule, const struct rpc_call *call,
                 const ProtobufCMessage *message, char *text, size_t size)
{
    const struct method *method = rule->method;
    struct own_word word;
    const char *beyond;

    if (method->own == NULL) {
        snprintf(text, size, "PERMISSION_DENIED: %s is not for users of nodes", method->path + 1);
        return false;
    }
    if (!word_of(call, &word) || !access_is_agent(rpc_call_peer(call), word.node_id)) {
        snprintf(text, size,
                 "PERMISSION_DENIED: an agent calls %s for a user of its own node only, and says "
                 "whom (%s, %s, %s)",
                 method->path + 1, OWN_NODE_METADATA, OWN_NAME_METADATA, OWN_UID_METADATA);
        return false;
    }
    beyond = access_field_beyond(message, method->own);
    if (beyond == NULL)
        return may_list(rule, &word, message, text, size);
    snprintf(text, size,
             "PERMISSION_DENIED: %s must not be given by the owner of a job; ask an operator",
             beyond);
    return false;
}

static bool runs_on(const struct fsm *fsm, const struct fsm_allocation *allocation,
                    const char *node_id)
{
    for (uint32_t i = 0; i < allocation->node_count; i++)
        if (strcmp(fsm_node_name(fsm, allocation->nodes[i].node_slot), node_id) == 0)
            return true;
    return false;
}

/* As it is registered: a name or a number. A name of digits alone is taken for a number. Root of a
 * node rules what runs there, and nothing else. */
static bool is_owner(const struct fsm *fsm, const struct fsm_allocation *allocation,
                     const struct own_word *word)
{
    const char *owner = allocation->owner;

    if (owner[0] != '\0' && strcmp(owner, is_number(owner) ? word->uid : word->owner) == 0)
        return true;
    return (strcmp(word->uid, "0") == 0 || (owner[0] == '\0' && word->known)) &&
           runs_on(fsm, allocation, word->node_id);
}

/* Whether the word is of its owner, or for this method of an admin of its tenant. */
static bool is_theirs(const struct own_rule *rule, const struct fsm *fsm,
                      const struct fsm_allocation *allocation, const struct own_word *word)
{
    return allocation != NULL &&
           (is_owner(fsm, allocation, word) || is_admin(rule, word, allocation->tenant));
}

/* Each job that the request names, by itself or by a checkpoint, and one at least. */
static bool names_own(const struct own_rule *rule, const struct fsm *fsm,
                      const ProtobufCMessage *message, const struct own_word *word)
{
    const char *allocation_id = access_text_field(message, "allocation_id");
    const uint64_t checkpoint_id = access_number_field(message, "checkpoint_id");
    const struct fsm_allocation *allocation;
    const struct fsm_checkpoint *checkpoint;

    if (allocation_id[0] != '\0') {
        allocation = fsm_allocation_find(fsm, allocation_id);
        if (!is_theirs(rule, fsm, allocation, word))
            return false;
    }
    if (checkpoint_id != 0) {
        checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);
        allocation =
            checkpoint == NULL ? NULL : fsm_allocation_find_slot(fsm, checkpoint->allocation_slot);
        if (!is_theirs(rule, fsm, allocation, word))
            return false;
    }
    return allocation_id[0] != '\0' || checkpoint_id != 0;
}

bool own_is_theirs(const struct own_rule *rule, const struct fsm *fsm, const struct rpc_call *call,
                   const ProtobufCMessage *message, char *text, size_t size)
{
    char shown[SHOWN_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];
    const char *job = access_text_field(message, "allocation_id");
    uint64_t checkpoint_id = access_number_field(message, "checkpoint_id");
    struct own_word word;

    CHECK(word_of(call, &word));
    if (names_own(rule, fsm, message, &word) ||
        message->descriptor == &ckpt__v1__list_allocations_request__descriptor) /* may_list() */
        return true;
    text_shown(job, shown, sizeof(shown));
    if (checkpoint_id != 0)
        snprintf(text, size,
                 "NOT_YOURS: checkpoint %s is not yours (user %s), or not there; ckpt-run "
                 "checkpoints JOB lists those of a job of yours",
                 checkpoint_id_format(checkpoint_id, id), word.owner);
    else
        snprintf(text, size,
                 "NOT_YOURS: job %s is not yours (user %s), or not there; ckpt-run status "
                 "lists yours of a node",
                 job[0] == '\0' ? "without a name" : shown, word.owner);
    return false;
}
