/* A call of a user of this node on its way to the cluster's leader.
 *
 * Flow     own_up_start() → which user of the node the caller is, by name and groups: known since
 *          some seconds (own_names.h), or from a worker that may hang in the agent's place →
 *          ops->named() makes the request → the leader, asked again while none answers, for 10 s →
 *          ops->answered(), or the refusal as it came. An answer goes out by own_up_reply() or
 *          own_up_refuse(), at once or after workers whose handle is in up->worker.
 * Shapes   struct own_up is the first member of what a method keeps; the caller's, from
 *          check_calloc(), until ops->free(). At most OWN_UP_MAX of one user at a time.
 * Errors   gRPC statuses with a text, to the caller. A change may take effect although the caller
 *          has left: requests carry a request id.
 */
#ifndef CKPT_AGENT_OWN_UP_H
#define CKPT_AGENT_OWN_UP_H

#include "src/agent/daemon/agent.h"
#include "src/base/buf.h"
#include "src/base/id.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"

enum {
    OWN_UP_MAX = 4,
    OWN_UP_TEXT_BYTES = 1024,
    OWN_UP_GROUPS_BYTES = 8192,
    OWN_UP_UID_BYTES = 16
};

struct own_up;
struct own_up_ops {
    /* up->owner is known. Fills up->request, or refuses with the text. groups: with commas. */
    enum rpc_status (*named)(struct own_up *up, const char *groups, char text[OWN_UP_TEXT_BYTES]);
    /* The leader's reply. */
    void (*answered)(struct own_up *up, const uint8_t *bytes, size_t length);
    void (*free)(struct own_up *up);
    bool says_owner; /* beside the message, as metadata */
};

struct own_up {
    const struct own_up_ops *ops;
    const char *path; /* of the leader's method */
    bool known;       /* the job is known here as this user's */
    bool looks;       /* no file comes of it: an admin of the job's tenant may ask as well */
    struct buf request;
    /* own_up_start() sets: */
    struct list node;
    struct agent *agent;
    struct rpc_call *call;
    uid_t uid;
    char owner[ID_MAX_BYTES + 1];
    uint64_t began_us;
    struct clock_timer *timer;
    struct worker *worker;
    struct rpc_client_call *up;
    bool cancelled; /* the worker still runs; freed when it ends */
};

/* The way to the cluster for all users of the node. */
struct own_asker;
/* tenants: the site's table for jobs that users register (src/serve/tenant_table.h), which lives as
 * long; NULL: nobody may. Freed after the server, which ends its calls. */
int own_asker_new(struct agent *agent, const char *brokers, const char *tenants,
                  struct own_asker **ret_asker, struct err *err);
void own_asker_free(struct own_asker *asker);
/* As session_recheck(). */
void own_asker_recheck(struct own_asker *asker);
const char *own_asker_tenants(const struct own_asker *asker);

/* One call at the leader for a user; no other try is made. The handlers' on_end gives its end to
 * own_asker_answered(). owner "": only the number is known. */
struct own_ask {
    const char *path;
    const struct buf *request;
    const char *owner;
    uid_t uid;
    bool known, looks; /* as in struct own_up */
    uint64_t timeout_ms;
};
struct rpc_client_call *own_asker_call(struct own_asker *asker, const struct own_ask *ask,
                                       const struct rpc_client_handlers *handlers, void *data);
void own_asker_answered(struct own_asker *asker, const struct rpc_end *end);

/* RPC_OK: own_up_start() may take a call of this peer. Else the text says why not. */
enum rpc_status own_up_wrong(const struct agent *agent, const struct rpc_peer *peer,
                             const char **ret_text);
void own_up_start(struct agent *agent, struct rpc_call *call, struct own_up *up);
/* Each ends it. */
void own_up_reply(struct own_up *up, const uint8_t *bytes, size_t length);
void own_up_refuse(struct own_up *up, enum rpc_status status, const char *text);
/* At the end of a worker of up->worker. False: the caller has left, and it is freed. */
bool own_up_worked(struct own_up *up);
/* For the method's on_cancel. */
void own_up_cancel(struct rpc_call *call);

#endif
