/* The matrix of certificates and methods: every method of the API is in it, and nobody may more
 * than is written down. K-001, K-005. */
#include <protobuf-c/protobuf-c.h>

#include "ckpt/v1/agent.pb-c.h"
#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/broker/api/access.h"
#include "src/broker/api/methods.h"
#include "src/broker/api/scope.h"
#include "src/broker/api/service.h"
#include "tests/support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct rpc_peer peer_of(const char *identity)
{
    struct rpc_peer peer = {.tls = true};

    snprintf(peer.identity, sizeof(peer.identity), "%s", identity);
    return peer;
}

static bool may(const char *identity, const char *path, char text[512])
{
    const struct rpc_peer peer = peer_of(identity);

    text[0] = '\0';
    return access_allowed(
        "demo", &peer,
        &(struct access_call){path, service_roles(path), service_beyond_tenant(path)}, text, 512);
}

/* Of BrokerService and OperatorService; for users of the node all but the first (own.h). */
static bool is_agents(const char *method)
{
    static const char *const methods[] = {
        "GetRestartPoint", "RegisterOwnAllocation", "GetAllocation",     "ListCheckpoints",
        "Explain",         "RequestCheckpoint",     "RestartAllocation", "EndAllocation",
        "GetLosses",       "PinCheckpoint",         "RequestMigration",  "ListAllocations"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(method, methods[i]) == 0)
            return true;
    return false;
}

/* A replica asks others how they are, and speaks for itself in a drill. */
static bool is_replicas(const char *method)
{
    return strcmp(method, "Status") == 0 || strcmp(method, "ProbeDrill") == 0 ||
           strcmp(method, "TellDrill") == 0;
}

static const ProtobufCServiceDescriptor *const services[] = {
    &ckpt__v1__agent_service__descriptor, &ckpt__v1__broker_service__descriptor,
    &ckpt__v1__operator_service__descriptor};

static void every_method_of_the_api_is_somebodys(void **state)
{
    char path[256];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        for (unsigned k = 0; k < services[i]->n_methods; k++, count++) {
            snprintf(path, sizeof(path), "/%s/%s", services[i]->name, services[i]->methods[k].name);
            if (service_roles(path) == 0)
                fail_msg("nobody may call %s", path);
            /* whoever decides over the cluster, it is no agent and no replica */
            if (i > 0 && !is_agents(services[i]->methods[k].name))
                assert_int_equal(service_roles(path) & 1u << TLS_AGENT, 0);
            if (i != 2 || !is_replicas(services[i]->methods[k].name))
                assert_int_equal(service_roles(path) & 1u << TLS_REPLICA, 0);
            assert_int_equal(service_roles(path) & (1u << TLS_NOBODY | 1u << TLS_AUTHORITY), 0);
        }
    }
    assert_true(count >= 30);
}

static void the_matrix_is_what_the_readme_says(void **state)
{
    static const struct {
        const char *path;
        const char *may; /* r, a, s, t (a scheduler of one tenant), o, u (auditor) */
    } cases[] = {
        {"/grpc.health.v1.Health/Check", "rastou"},
        {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "rastou"},
        {"/ckpt.v1.AgentService/Session", "a"},
        {"/ckpt.v1.BrokerService/GetRestartPoint", "astou"},
        {"/ckpt.v1.BrokerService/RegisterAllocation", "sto"},
        {"/ckpt.v1.BrokerService/RegisterOwnAllocation", "a"},
        {"/ckpt.v1.BrokerService/Watch", "stou"},
        {"/ckpt.v1.OperatorService/Status", "rsou"},
        {"/ckpt.v1.OperatorService/GetPolicy", "stou"},
        {"/ckpt.v1.OperatorService/ListTargets", "stou"},
        {"/ckpt.v1.OperatorService/GetLosses", "astou"},
        {"/ckpt.v1.OperatorService/PinCheckpoint", "ao"},
        {"/ckpt.v1.BrokerService/GetAllocation", "astou"},
        {"/ckpt.v1.BrokerService/ListAllocations", "astou"},
        {"/ckpt.v1.BrokerService/UpdateAllocation", "sto"},
        {"/ckpt.v1.OperatorService/ListTenants", "sou"},
        {"/ckpt.v1.OperatorService/PutTenant", "o"},
        {"/ckpt.v1.OperatorService/GetCalibration", "sou"},
        {"/ckpt.v1.OperatorService/ListNodes", "stou"},
        {"/ckpt.v1.OperatorService/GetNode", "sou"},
        {"/ckpt.v1.OperatorService/MarkNodeOff", "so"},
        {"/ckpt.v1.OperatorService/DrainNode", "o"},
        {"/ckpt.v1.OperatorService/SetPolicy", "o"},
        {"/ckpt.v1.OperatorService/AddMember", "o"},
        {"/ckpt.v1.OperatorService/RestartMember", "o"},
        {"/ckpt.v1.OperatorService/StartCanary", "o"},
        {"/ckpt.v1.OperatorService/RunDrill", "o"},
        {"/ckpt.v1.OperatorService/PlanDrill", "ou"},
        {"/ckpt.v1.OperatorService/ListDrills", "sou"},
        {"/ckpt.v1.OperatorService/ProbeDrill", "r"},
        {"/ckpt.v1.OperatorService/TellDrill", "r"},
        {"/ckpt.v1.OperatorService/Backup", "ou"},
        {"/ckpt.v1.OperatorService/ListAudit", "ou"},
        {"/ckpt.v1.OperatorService/ListRevoked", "ou"},
        {"/ckpt.v1.OperatorService/RevokeCertificate", "o"},
        {"/ckpt.v1.OperatorService/PlanGc", "ou"},
        {"/ckpt.v1.OperatorService/RunGc", "o"},
        {"/ckpt.v1.BrokerService/RequestPreemption", "so"},
        {"/ckpt.v1.BrokerService/GetRequest", "sou"},
        {"/ckpt.v1.OperatorService/StatusOfSomethingElse", ""},
        {"/ckpt.v2.BrokerService/RegisterAllocation", ""},
        {"/", ""},
    };
    static const struct {
        char letter;
        const char *identity;
    } kinds[] = {{'r', "ckpt://demo/replica/1"},       {'a', "ckpt://demo/agent/n1"},
                 {'s', "ckpt://demo/scheduler/slurm"}, {'t', "ckpt://demo/scheduler/slurm/physics"},
                 {'o', "ckpt://demo/operator/ann"},    {'u', "ckpt://demo/auditor/eve"}};
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            bool wanted = strchr(cases[i].may, kinds[k].letter) != NULL;

            if (may(kinds[k].identity, cases[i].path, text) != wanted)
                fail_msg("%s and %s: %s", kinds[k].identity, cases[i].path, text);
            assert_true(wanted || strstr(text, kinds[k].identity) != NULL);
        }
    }
}

/* The rights of each kind over all methods, by rules of their own: K-005. */
static bool wanted(enum tls_kind kind, const ProtobufCMethodDescriptor *method, size_t service)
{
    static const char *const words[] = {"Get",   "List",   "Explain", "Plan",
                                        "Watch", "Status", "Backup",  "DebugCheck"};
    bool reads = false;

    for (size_t i = 0; i < COUNT(words); i++)
        reads = reads || strncmp(method->name, words[i], strlen(words[i])) == 0;
    if (service == 0)
        return kind == TLS_AGENT;
    switch (kind) {
    case TLS_REPLICA:
        return service == 2 && is_replicas(method->name);
    case TLS_AGENT:
        return is_agents(method->name);
    case TLS_OPERATOR:
        return strcmp(method->name, "RegisterOwnAllocation") != 0 &&
               (!is_replicas(method->name) || strcmp(method->name, "Status") == 0);
    case TLS_AUDITOR: /* everything that changes nothing, and nothing that does */
        return reads;
    default:
        return false;
    }
}

/* Table-driven over all pairs; then 20 pairs by seed, each with the text of its refusal. */
static void every_role_may_what_its_rule_says_of_every_method(void **state)
{
    static const struct {
        enum tls_kind kind;
        const char *identity;
    } roles[] = {{TLS_REPLICA, "ckpt://demo/replica/1"},
                 {TLS_AGENT, "ckpt://demo/agent/n1"},
                 {TLS_OPERATOR, "ckpt://demo/operator/ann"},
                 {TLS_AUDITOR, "ckpt://demo/auditor/eve"}};
    uint64_t seed = test_seed();
    char path[256], text[512];

    (void)state;
    for (size_t role = 0; role < COUNT(roles); role++)
        for (size_t i = 0; i < COUNT(services); i++)
            for (unsigned k = 0; k < services[i]->n_methods; k++) {
                const ProtobufCMethodDescriptor *method = &services[i]->methods[k];

                snprintf(path, sizeof(path), "/%s/%s", services[i]->name, method->name);
                if (may(roles[role].identity, path, text) != wanted(roles[role].kind, method, i))
                    fail_msg("%s and %s: %s", roles[role].identity, path, text);
            }
    for (unsigned pair = 0; pair < 20; pair++) {
        size_t role = (test_random(&seed) % COUNT(roles));
        size_t service = (test_random(&seed) % COUNT(services));
        unsigned k = (unsigned)(test_random(&seed) % services[service]->n_methods);
        const ProtobufCMethodDescriptor *method = &services[service]->methods[k];

        snprintf(path, sizeof(path), "/%s/%s", services[service]->name, method->name);
        if (may(roles[role].identity, path, text))
            continue;
        assert_contains(text, roles[role].identity);
        assert_contains(text, path + 1);
        assert_contains(text, "it takes a certificate of kind ");
    }
}

/* K-005: whoever narrowed a certificate to a tenant meant it. */
static void a_scheduler_of_a_tenant_names_it_in_what_it_asks(void **state)
{
    static char physics[] = "physics", biology[] = "biology";
    const struct method as_spec = {.scope = SCOPE_SPEC}, as_tenant = {.scope = SCOPE_TENANT};
    const struct method as_account = {.scope = SCOPE_ACCOUNT};
    const struct rpc_peer narrow = peer_of("ckpt://demo/scheduler/slurm/physics");
    const struct rpc_peer wide = peer_of("ckpt://demo/scheduler/slurm");
    Ckpt__V1__RegisterAllocationRequest asked = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__ListAllocationsRequest list = CKPT__V1__LIST_ALLOCATIONS_REQUEST__INIT;
    Ckpt__V1__GetLossesRequest losses = CKPT__V1__GET_LOSSES_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    char text[512];

    (void)state;
    assert_true(scope_asks(&narrow));
    assert_false(scope_asks(&wide));
    assert_false(scope_may_ask(&as_spec, &narrow, &asked.base, text, sizeof(text)));
    asked.spec = &spec;
    assert_false(scope_may_ask(&as_spec, &narrow, &asked.base, text, sizeof(text)));
    spec.tenant = biology;
    assert_false(scope_may_ask(&as_spec, &narrow, &asked.base, text, sizeof(text)));
    assert_contains(text, "tenant is \"biology\"");
    assert_contains(text, "for tenant physics alone");
    assert_true(scope_may_ask(&as_spec, &wide, &asked.base, text, sizeof(text)));
    spec.tenant = physics;
    assert_true(scope_may_ask(&as_spec, &narrow, &asked.base, text, sizeof(text)));
    assert_false(scope_may_ask(&as_tenant, &narrow, &list.base, text, sizeof(text)));
    list.tenant = physics;
    assert_true(scope_may_ask(&as_tenant, &narrow, &list.base, text, sizeof(text)));
    assert_false(scope_may_ask(&as_account, &narrow, &losses.base, text, sizeof(text)));
    losses.tenant = biology;
    assert_false(scope_may_ask(&as_account, &narrow, &losses.base, text, sizeof(text)));
    losses.tenant = physics;
    assert_true(scope_may_ask(&as_account, &narrow, &losses.base, text, sizeof(text)));
    assert_false(may("ckpt://demo/scheduler/slurm/physics",
                     "/ckpt.v1.BrokerService/RequestPreemption", text));
    assert_contains(text, "for the jobs of tenant physics alone");
}

/* K-001: where files of a job lie, and what is in them, is for the nodes that it has. */
static void an_agent_asks_for_restart_points_of_its_own_node_only(void **state)
{
    static const struct {
        const char *identity; /* NULL: no TLS */
        const char *node_id;
        bool may;
    } cases[] = {
        {"ckpt://demo/agent/n1", "n1", true},   {"ckpt://demo/agent/n1", "n2", false},
        {"ckpt://demo/agent/n1", "", false},    {"ckpt://demo/scheduler/slurm", "n2", true},
        {"ckpt://demo/operator/ann", "", true}, {NULL, "n2", true}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Ckpt__V1__GetRestartPointRequest ask = CKPT__V1__GET_RESTART_POINT_REQUEST__INIT;
        struct rpc_peer peer = {.tls = cases[i].identity != NULL};
        char text[512] = "";

        snprintf(peer.identity, sizeof(peer.identity), "%s",
                 cases[i].identity == NULL ? "" : cases[i].identity);
        ask.node_id = (char *)(uintptr_t)cases[i].node_id;
        assert_int_equal(access_restart_point(&peer, NULL, &ask.base, text, sizeof(text)),
                         cases[i].may);
        if (!cases[i].may)
            assert_contains(text, "asks for its own node only");
    }
}

/* S3-060: a scheduler's word is its own, a BMC's is an operator's to pass on. */
static void a_scheduler_gives_no_other_word_of_a_node_than_its_own(void **state)
{
    static const struct {
        const char *identity;
        Ckpt__V1__NodeWitness witness;
        bool may;
    } cases[] = {
        {"ckpt://demo/scheduler/slurm", CKPT__V1__NODE_WITNESS__NODE_WITNESS_SCHEDULER, true},
        {"ckpt://demo/scheduler/slurm", CKPT__V1__NODE_WITNESS__NODE_WITNESS_OPERATOR, false},
        {"ckpt://demo/scheduler/slurm", CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED, false},
        {"ckpt://demo/scheduler/slurm", CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC, false},
        {"ckpt://demo/operator/ann", CKPT__V1__NODE_WITNESS__NODE_WITNESS_BMC, true},
        {"ckpt://demo/operator/ann", CKPT__V1__NODE_WITNESS__NODE_WITNESS_UNSPECIFIED, true},
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct rpc_peer peer = peer_of(cases[i].identity);
        Ckpt__V1__MarkNodeOffRequest request = CKPT__V1__MARK_NODE_OFF_REQUEST__INIT;

        request.witness = cases[i].witness;
        text[0] = '\0';
        assert_int_equal(access_node_off(&peer, NULL, &request.base, text, sizeof(text)),
                         cases[i].may);
        assert_true(cases[i].may || strstr(text, "witness must be SCHEDULER") != NULL);
    }
}

static void refusals_say_what_is_needed(void **state)
{
    char text[512];

    (void)state;
    assert_false(may("ckpt://demo/agent/n1", "/ckpt.v1.BrokerService/UpdateAllocation", text));
    assert_string_equal(text,
                        "PERMISSION_DENIED: ckpt://demo/agent/n1 may not call "
                        "ckpt.v1.BrokerService/UpdateAllocation; it takes a certificate of kind "
                        "scheduler or operator");
    assert_false(may("ckpt://prod/operator/ann", "/ckpt.v1.OperatorService/Status", text));
    assert_non_null(strstr(text, "of another cluster than demo"));
    assert_false(may("", "/ckpt.v1.OperatorService/Status", text));
    assert_non_null(strstr(text, "names nobody"));
    assert_false(may("ckpt://demo/authority/demo", "/grpc.health.v1.Health/Check", text));
}

static void the_local_socket_is_the_operators(void **state)
{
    const struct rpc_peer peer = {.local = true, .uid = 0};
    char text[512];

    (void)state;
    assert_true(access_allowed(
        "demo", &peer,
        &(struct access_call){"/ckpt.v1.OperatorService/SetPolicy", 1 << TLS_OPERATOR, false}, text,
        512));
    assert_false(access_allowed(
        "demo", &peer,
        &(struct access_call){"/ckpt.v1.AgentService/Session", 1 << TLS_AGENT, false}, text, 512));
    assert_non_null(strstr(text, "a local user"));
}

static void an_agent_speaks_for_its_own_node_only(void **state)
{
    struct rpc_peer peer = peer_of("ckpt://demo/agent/n1");

    (void)state;
    assert_true(access_is_agent(&peer, "n1"));
    assert_false(access_is_agent(&peer, "n2"));
    assert_false(access_is_agent(&peer, "n1.rack"));
    peer = peer_of("ckpt://demo/operator/n1");
    assert_false(access_is_agent(&peer, "n1"));
    peer = peer_of("");
    assert_false(access_is_agent(&peer, "n1"));
    peer.tls = false; /* without TLS there is none to compare */
    assert_true(access_is_agent(&peer, "n1"));
}

static Ckpt__V1__NodeShare own_node, other_node;
static Ckpt__V1__NodeShare *own_nodes[] = {&own_node, &other_node};
static Ckpt__V1__AllocationSpec own_spec;
static bool own_waits;

static void own_is(const char *agent, const char *wrong)
{
    const struct rpc_peer peer = peer_of(agent);
    Ckpt__V1__RegisterAllocationRequest request = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    char text[512] = "";

    request.spec = &own_spec;
    request.waits = own_waits;
    assert_int_equal(access_own_allocation(&peer, NULL, &request.base, text, sizeof(text)),
                     wrong == NULL);
    if (wrong != NULL && (strstr(text, wrong) == NULL || strncmp(text, "PERMISSION_DENIED: ", 19)))
        fail_msg("\"%s\" does not say \"%s\"", text, wrong);
}

/* Each field of an allocation is either one that an owner may set, or refused by its name. */
static void an_agent_registers_a_job_of_a_user_on_its_own_node_only(void **state)
{
    static char node[] = "n1", other[] = "n2", owner[] = "ann", vcluster[] = "v";
    Ckpt__V1__RegisterAllocationRequest empty = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    const struct rpc_peer peer = peer_of("ckpt://demo/agent/n1");
    char text[512];

    (void)state;
    assert_false(access_own_allocation(&peer, NULL, &empty.base, text, sizeof(text)));
#define OWN(agent, change, wrong)                                                                  \
    ckpt__v1__allocation_spec__init(&own_spec);                                                    \
    ckpt__v1__node_share__init(&own_node);                                                         \
    ckpt__v1__node_share__init(&other_node);                                                       \
    own_node.node_id = node;                                                                       \
    other_node.node_id = other;                                                                    \
    own_spec.nodes = own_nodes;                                                                    \
    own_spec.n_nodes = 1;                                                                          \
    own_spec.owner = owner;                                                                        \
    change;                                                                                        \
    own_is("ckpt://demo/agent/" agent, wrong)
    OWN("n1", own_node.gpu_count = 8, NULL);
    OWN("n1", (own_spec.walltime_ms = 1, own_spec.grace_ms = 600000), NULL);
    OWN("n1", own_spec.strategy = CKPT__V1__STRATEGY__STRATEGY_AUTO, NULL);
    OWN("n1", own_spec.vcluster = vcluster, NULL);
    OWN("n2", (void)0, "nodes must have");
    OWN("n1", own_spec.n_nodes = 2, "waits must be set");
    OWN("n3", (own_waits = true, own_spec.n_nodes = 2), "nodes must have");
    OWN("n2", own_spec.n_nodes = 2, NULL);
    OWN("n1",
        (own_spec.n_nodes = 2, own_spec.restart = CKPT__V1__RESTART_MODE__RESTART_MODE_MANUAL),
        "started by the broker");
    OWN("n1", (own_spec.n_nodes = 2, other_node.borrowed = true), "node_id and gpu_count");
    own_waits = false;
    OWN("n1", own_spec.n_nodes = 0, "nodes must have");
    OWN("n1", own_node.borrowed = true, "node_id and gpu_count");
    OWN("n1", own_node.home_vcluster = vcluster, "node_id and gpu_count");
    OWN("n1", own_node.gpu_memory_used_bytes = 1, "node_id and gpu_count");
    OWN("n1", own_spec.owner = vcluster + 1, "owner must be given");
    OWN("n1", own_spec.preemption_class = 1, "preemption_class");
    OWN("n1", own_spec.sensitive = true, "sensitive");
    OWN("n1", own_spec.reactive_min_nodes = 1, "reactive_min_nodes");
    OWN("n1", own_spec.reactive_max_nodes = 1, "reactive_max_nodes");
    OWN("n1", own_spec.strategy = CKPT__V1__STRATEGY__STRATEGY_NONE, NULL);
    OWN("n1", own_spec.vcluster_kind = CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE,
        "vcluster_kind");
    OWN("n1", own_spec.requeue_policy = CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ALWAYS, NULL);
    OWN("n1", own_spec.max_requeue = 1, "max_requeue");
    OWN("n1", own_spec.grace_ms = 600001, "grace_ms");
    OWN("n1", own_spec.submitted_at_ms = 1, "submitted_at_ms");
    OWN("n1", own_spec.started_at_ms = 1, "started_at_ms");
    OWN("n1", own_spec.period_ms = 59999, "period_ms");
    OWN("n1", own_spec.period_ms = 60000, NULL);
    OWN("n1", own_spec.first_period_ms = 59999, "first_period_ms");
    OWN("n1", own_spec.first_period_ms = 60000, NULL);
    OWN("n1", own_spec.checkpoint_timeout_ms = 1, "checkpoint_timeout_ms");
    OWN("n1", own_spec.write_bytes_per_s = 1, "write_bytes_per_s");
#undef OWN
    assert_int_equal(ckpt__v1__node_share__descriptor.n_fields, 5);
}

/* Also one that is added later. */
static void a_field_that_is_not_an_owners_is_refused_by_its_name(void **state)
{
    static const char own[] = " allocation_id tenant project vcluster owner profile nodes strategy "
                              "restore walltime_ms grace_ms target_id continues requeue_policy "
                              "restart staging attributes on_hang ";
    static char node[] = "n1", owner[] = "ann", text[] = "t";
    const ProtobufCMessageDescriptor *type = &ckpt__v1__allocation_spec__descriptor;

    (void)state;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        char word[80], *at = (char *)&own_spec + field->offset;

        ckpt__v1__allocation_spec__init(&own_spec);
        ckpt__v1__node_share__init(&own_node);
        own_node.node_id = node;
        own_spec.nodes = own_nodes;
        own_spec.n_nodes = 1;
        own_spec.owner = owner;
        if (field->type == PROTOBUF_C_TYPE_STRING)
            *(char **)at = text;
        else if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            *at = 1; /* little-endian */
        snprintf(word, sizeof(word), " %s ", field->name);
        own_is("ckpt://demo/agent/n1", strstr(own, word) != NULL ? NULL : field->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_of_the_api_is_somebodys),
        cmocka_unit_test(the_matrix_is_what_the_readme_says),
        cmocka_unit_test(every_role_may_what_its_rule_says_of_every_method),
        cmocka_unit_test(a_scheduler_of_a_tenant_names_it_in_what_it_asks),
        cmocka_unit_test(an_agent_asks_for_restart_points_of_its_own_node_only),
        cmocka_unit_test(a_scheduler_gives_no_other_word_of_a_node_than_its_own),
        cmocka_unit_test(refusals_say_what_is_needed),
        cmocka_unit_test(the_local_socket_is_the_operators),
        cmocka_unit_test(an_agent_speaks_for_its_own_node_only),
        cmocka_unit_test(an_agent_registers_a_job_of_a_user_on_its_own_node_only),
        cmocka_unit_test(a_field_that_is_not_an_owners_is_refused_by_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
