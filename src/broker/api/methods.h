/* The table behind service.h, and what a method's function sees.
 *
 * Flow     a read is confirmed, then waits until its client takes an answer and it is its turn
 *          (rpc_call_want_writable()), then its function makes the answer from the state of that
 *          moment, which is the confirmed one or a later one. A member that has lost its leadership
 *          meanwhile refuses.
 * Shapes   a request's message lives until its function returns; `call` is never NULL there. The
 *          function ends the call exactly once, by answer_*() or rpc_call_finish().
 */
#ifndef CKPT_BROKER_METHODS_H
#define CKPT_BROKER_METHODS_H

#include "src/broker/api/request.h"
#include "src/broker/explain/translate.h"
#include "src/tls/identity.h"

/* Which way a request goes (service.h). */
enum method_kind {
    METHOD_MUTATION,
    METHOD_READ,
    METHOD_LOCAL,
    METHOD_OWN,
    METHOD_STREAM /* registered by who serves it; its row says who may call it */
};

/* Kinds of certificates that may call a method, as bits. */
enum {
    ROLE_REPLICA = 1 << TLS_REPLICA,
    ROLE_AGENT = 1 << TLS_AGENT,
    ROLE_SCHEDULER = 1 << TLS_SCHEDULER,
    ROLE_OPERATOR = 1 << TLS_OPERATOR,
    ROLE_AUDITOR = 1 << TLS_AUDITOR, /* of what changes nothing */
    ROLE_OWNER = ROLE_AGENT, /* an agent for a user of its node; goes with the row's `own` */
    ROLE_CLIENT = ROLE_SCHEDULER | ROLE_OPERATOR,
    ROLE_READER = ROLE_CLIENT | ROLE_AUDITOR,
    ROLE_ANY = ROLE_REPLICA | ROLE_AGENT | ROLE_READER
};

/* The rights of a scheduler of one tenant with a method (scope.h). */
enum method_scope {
    SCOPE_NOTHING, /* it is about others as well */
    SCOPE_OPEN,    /* it tells nothing of a job */
    SCOPE_JOB,     /* of the job, or the checkpoint, that the request names */
    SCOPE_TENANT,  /* the request names the tenant itself */
    SCOPE_ACCOUNT, /* of the job that the request names, else of the tenant */
    SCOPE_SPEC     /* ... in its spec */
};

/* With who called, as far as that is known. */
struct method_pause {
    Ckpt__Log__V1__PauseCluster message;
    char by[FSM_PAUSE_BY_BYTES];
};

/* Commands whose body is not the request itself. */
union method_body {
    struct method_pause pause;
    Ckpt__Log__V1__PutTarget put_target;
    Ckpt__Log__V1__RemoveTarget remove_target;
    Ckpt__Log__V1__DrainTarget drain_target;
    Ckpt__Log__V1__SetPolicy set_policy;
    Ckpt__Log__V1__DrainNode drain_node;
    Ckpt__Log__V1__RemoveNode remove_node;
    Ckpt__Log__V1__NodeOff node_off;
    Ckpt__Log__V1__PinCheckpoint pin_checkpoint;
    Ckpt__Log__V1__PutTenant put_tenant;
    Ckpt__Log__V1__ExpireCheckpoints expire_checkpoints;
    Ckpt__Log__V1__VerifyCheckpoints verify_checkpoints;
    Ckpt__Log__V1__RemoveOrphans remove_orphans;
    Ckpt__Log__V1__AdoptCluster adopt_cluster;
    Ckpt__Log__V1__RevokeCertificate revoke_certificate;
};

/* A row of a table. What the kind needs is set, everything else is zero; service_new() checks
 * it. */
struct method {
    const char *path;
    unsigned roles; /* ROLE_ */
    enum method_kind kind;
    const ProtobufCMessageDescriptor *type; /* of the request */
    /* READ, LOCAL */
    void (*answer)(struct request *request, struct scratch *scratch);
    /* OWN: begins when a read is confirmed, takes the request; ends the call when it is not NULL by
     * then, and calls request_end(). */
    void (*start)(struct request *request);
    /* MUTATION: the command's body is the request itself, or what fill() makes of it. */
    Ckpt__Log__V1__Command__BodyCase body_case;
    enum fsm_status (*fill)(const ProtobufCMessage *request, Ckpt__Log__V1__Command *command,
                            union method_body *body, struct fsm_outcome *ret_outcome);
    /* MUTATION with fill: writes into the body who called. NULL: the command does not say. */
    void (*sign)(const struct rpc_peer *peer, union method_body *body);
    /* MUTATION, READ: asked of the request's fields; false refuses with PERMISSION_DENIED and the
     * text. NULL: whoever may call it. fsm: NULL where this member does not lead. */
    bool (*allowed)(const struct rpc_peer *peer, const struct fsm *fsm,
                    const ProtobufCMessage *request, char *text, size_t size);
    /* MUTATION: the state would refuse it now, and in a moment may not: it is held (hold.h). NULL:
     * it is not. */
    bool (*waits)(const struct fsm *fsm, const ProtobufCMessage *request);
    enum method_scope scope; /* of a scheduler's certificate for one tenant */
    /* MUTATION, READ: what the owner of a job may say, NULL-terminated (own.h). NULL: it is not for
     * owners. */
    const char *const *own;
    /* NULL: MutationReply. */
    void (*reply)(struct request *request, const struct fsm_outcome *outcome);
};

/* A row: the service, the method, who may call it, the kind, the request's message, and what the
 * kind takes besides. */
#define METHOD_ROW(service, method, may, of_kind, message, ...)                                    \
    {                                                                                              \
        .path = "/ckpt.v1." service "/" method, .roles = (may), .kind = (of_kind),                 \
        .type = &ckpt__v1__##message##__descriptor, __VA_ARGS__                                    \
    }

extern const struct method service_broker_methods[];
extern const size_t service_broker_method_count;
extern const struct method service_operator_methods[];
extern const size_t service_operator_method_count;
extern const struct method service_members_methods[];
extern const size_t service_members_method_count;
extern const struct method service_upgrade_methods[];
extern const size_t service_upgrade_method_count;
extern const struct method service_drills_methods[];
extern const size_t service_drills_method_count;

/* A list of fields for a row's `own`. */
#define OWN_FIELDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* service_preemption.c */
void preemption_reply(struct request *request, const struct fsm_outcome *outcome);
void preemptions_answer(struct request *request, struct scratch *scratch);
void placement_hints_answer(struct request *request, struct scratch *scratch);

/* service_losses.c */
void losses_answer(struct request *request, struct scratch *scratch);
void calibration_answer(struct request *request, struct scratch *scratch);

/* service_tenants.c */
void tenants_answer(struct request *request, struct scratch *scratch);
enum fsm_status tenants_fill_put(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                                 union method_body *body, struct fsm_outcome *ret_outcome);

/* service_audit.c */
void audit_answer(struct request *request, struct scratch *scratch);
/* Returns a warning, or NULL. */
char *audit_status(const struct broker *broker, struct scratch *scratch,
                   Ckpt__V1__StatusReply *reply);
void audit_fill_outcome(const struct fsm *fsm, struct scratch *scratch,
                        Ckpt__V1__RequestOutcome *outcome);

/* service_revoked.c */
void revoked_answer(struct request *request, struct scratch *scratch);
enum fsm_status revoked_fill(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                             union method_body *body, struct fsm_outcome *ret_outcome);

/* service_undeleted.c; undeleted_count: "" counts all */
void undeleted_answer(struct request *request, struct scratch *scratch);
void orphans_answer(struct request *request, struct scratch *scratch);
uint64_t undeleted_count(const struct fsm *fsm, const char *allocation_id);

/* service_upgrade.c: levels, the start of this process, its canary */
void upgrade_fill_status(const struct broker *broker, struct scratch *scratch,
                         Ckpt__V1__StatusReply *reply);

/* service_pause.c */
enum fsm_status pause_fill(const ProtobufCMessage *message, Ckpt__Log__V1__Command *command,
                           union method_body *body, struct fsm_outcome *ret_outcome);
void pause_sign(const struct rpc_peer *peer, union method_body *body);

/* status.c; status_targets returns how many */
size_t status_targets(const struct broker *broker, struct scratch *scratch,
                      Ckpt__V1__TargetStatus ***ret_targets);
void status_answer(struct request *request, struct scratch *scratch);
void status_debug_check(struct request *request, struct scratch *scratch);

#endif
