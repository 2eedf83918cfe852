/* The addresses that a member binds, by the names that its host knows: the program's own
 * getaddrinfo() tells them. V-022. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "src/broker/daemon/listen.h"

/* As /etc/hosts of n1 on Debian has them, beside a name server that knows the others. */
static const struct {
    const char *name, *number;
} hosts[] = {{"n1", "127.0.1.1"},  {"n2", "10.0.0.2"},   {"n3", "10.0.0.3"},
             {"own", "127.0.0.1"}, {"one", "127.0.0.2"}, {"good", "10.0.0.1"},
             {"own6", "::1"},      {"good6", "fd00::1"}, {"n1.example", "127.0.1.1"}};

static struct addrinfo info;
static struct sockaddr_storage storage;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    struct sockaddr_in *v4 = (void *)&storage;
    struct sockaddr_in6 *v6 = (void *)&storage;
    const char *number = node;

    (void)service;
    (void)hints;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (strcmp(hosts[i].name, node) == 0)
            number = hosts[i].number;
    memset(&storage, 0, sizeof(storage));
    info = (struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_addr = (void *)&storage};
    if (inet_pton(AF_INET, number, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        info.ai_family = AF_INET;
        info.ai_addrlen = sizeof(*v4);
    } else if (inet_pton(AF_INET6, number, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        info.ai_family = AF_INET6;
        info.ai_addrlen = sizeof(*v6);
    } else {
        return EAI_NONAME;
    }
    *found = &info;
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    (void)found;
}

/* The first member is this one. */
struct site {
    const char *own, *listen, *others[2];
    const char *raft, *api; /* bound */
    const char *said;       /* instead */
};

static void find(const struct site *site)
{
    struct config *config;
    struct listen_addresses found;
    char text[1024], listen[64] = "";
    struct err err = {0};
    int result;

    if (site->listen != NULL)
        snprintf(listen, sizeof(listen), ", listen: \"%s\"", site->listen);
    snprintf(text, sizeof(text),
             "cluster_id: hpc\ninsecure: yes\nmembers:\n"
             "  - {id: 1, name: n1, raft: \"%s:9000\", api: \"%s:7443\"%s}\n"
             "  - {id: 2, name: n2, raft: \"%s:9001\", api: \"%s:7444\"}\n"
             "  - {id: 3, name: n3, raft: \"%s:9002\", api: \"%s:7445\"}\n",
             site->own, site->own, listen, site->others[0], site->others[0], site->others[1],
             site->others[1]);
    if (config_parse("test.yaml", text, strlen(text), &(struct config_flags){.name = "n1"}, &config,
                     &err) != 0)
        fail_msg("%s", err.text);
    result = listen_find(config, &found, &err);
    if (result != (site->said == NULL ? 0 : -1))
        fail_msg("%s: %d, %s", site->own, result, err.text);
    if (site->said != NULL) {
        assert_contains(err.text, site->said);
        assert_int_equal(err.code, ERR_INVALID);
    } else {
        assert_string_equal(found.raft, site->raft);
        assert_string_equal(found.api, site->api);
    }
    config_free(config);
}

static void an_own_name_on_loopback_beside_other_hosts_is_refused(void **unused)
{
    static const struct site sites[] = {
        {.own = "n1",
         .others = {"n2", "n3"},
         .said = "raft of n1 is n1:9000, which is 127.0.1.1 here: a loopback address, where n2 at "
                 "n2:9001 cannot reach it"},
        {.own = "n1", .others = {"n2", "n3"}, .said = "set `listen` of this member"},
        {.own = "n1", .others = {"n2", "n3"}, .said = "/etc/hosts"},
        {.own = "127.0.0.1", .others = {"10.0.0.2", "10.0.0.3"}, .said = "which is 127.0.0.1 here"},
        {.own = "own6", .others = {"n2", "n3"}, .said = "which is ::1 here"},
        /* one of two is elsewhere, and one that cannot be looked up may be */
        {.own = "n1", .others = {"one", "n3"}, .said = "n3 at n3:9002"},
        {.own = "n1", .others = {"one", "unknown"}, .said = "n3 at unknown:9002"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++)
        find(&sites[i]);
}

static void what_is_bound_is_told_by_number(void **unused)
{
    static const struct site sites[] = {
        {.own = "good", .others = {"n2", "n3"}, .raft = "10.0.0.1:9000", .api = "10.0.0.1:7443"},
        {.own = "good6", .others = {"n2", "n3"}, .raft = "[fd00::1]:9000", .api = "[fd00::1]:7443"},
        /* all on one host */
        {.own = "own",
         .others = {"one", "127.0.0.1"},
         .raft = "127.0.0.1:9000",
         .api = "127.0.0.1:7443"},
        /* binding it says why */
        {.own = "unknown", .others = {"n2", "n3"}, .raft = "unknown:9000", .api = "unknown:7443"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++)
        find(&sites[i]);
}

static void a_member_may_listen_elsewhere_than_it_is_reached(void **unused)
{
    static const struct site sites[] = {
        {.own = "n1",
         .listen = "0.0.0.0",
         .others = {"n2", "n3"},
         .raft = "0.0.0.0:9000",
         .api = "0.0.0.0:7443"},
        {.own = "198.51.100.7",
         .listen = "good",
         .others = {"n2", "n3"},
         .raft = "10.0.0.1:9000",
         .api = "10.0.0.1:7443"},
        {.own = "n1",
         .listen = "::",
         .others = {"n2", "n3"},
         .raft = "[::]:9000",
         .api = "[::]:7443"},
        /* as behind a program that forwards from the network */
        {.own = "n1",
         .listen = "127.0.0.1",
         .others = {"n2", "n3"},
         .raft = "127.0.0.1:9000",
         .api = "127.0.0.1:7443"},
        {.own = "n1",
         .listen = "unknown",
         .others = {"n2", "n3"},
         .said = "listen of n1 is unknown"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++)
        find(&sites[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_own_name_on_loopback_beside_other_hosts_is_refused),
        cmocka_unit_test(what_is_bound_is_told_by_number),
        cmocka_unit_test(a_member_may_listen_elsewhere_than_it_is_reached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
