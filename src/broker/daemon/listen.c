/* Addresses that this member binds. See listen.h. */
#include "src/broker/daemon/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/address.h"
#include "src/base/check.h"

/* Of a name: which address is bound, the first one. */
struct found {
    char number[INET6_ADDRSTRLEN];
    bool is_v6, is_loopback;
};

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *v6 =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(v6);
    }
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
}

/* -1: there is no such name, or nobody can tell now. */
static int look_up(const char *host, struct found *ret_found)
{
    const struct addrinfo form = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    int result;

    if (getaddrinfo(host, NULL, &form, &found) != 0)
        return -1;
    ret_found->is_v6 = found->ai_family == AF_INET6;
    ret_found->is_loopback = is_loopback(found->ai_addr);
    result = getnameinfo(found->ai_addr, found->ai_addrlen, ret_found->number,
                         sizeof(ret_found->number), NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return result == 0 ? 0 : -1;
}

static const char *port_of(const struct config_member *member, bool is_api)
{
    return is_api ? member->api : member->raft;
}

/* Another member on another host, as far as its address can be looked up here; NULL: none. */
static const struct config_member *find_far(const struct config *config, bool is_api)
{
    for (size_t i = 0; i < config->member_count; i++) {
        const struct config_member *member = &config->members[i];
        char host[NI_MAXHOST];
        struct found found;
        uint64_t port;

        if (member == config->self ||
            address_split(port_of(member, is_api), host, sizeof(host), &port) != 0)
            continue;
        if (look_up(host, &found) != 0 || !found.is_loopback)
            return member;
    }
    return NULL;
}

static int refuse_loopback(const struct config *config, bool is_api, const char *number,
                           const struct config_member *far, struct err *err)
{
    const char *address = port_of(config->self, is_api);

    return err_set(
        err, ERR_INVALID,
        "members: %s of %s is %s, which is %s here: a loopback address, where %s at %s cannot "
        "reach "
        "it; give the name its network address in /etc/hosts (Debian writes the own name at "
        "127.0.1.1), or set `listen` of this member to an address of this host (0.0.0.0: all)",
        is_api ? "api" : "raft", config->self->name, address, number, far->name,
        port_of(far, is_api));
}

/* listen: the own key, "" without it. */
static int find_one(const struct config *config, bool is_api, char ret_text[LISTEN_TEXT_BYTES],
                    struct err *err)
{
    const char *address = port_of(config->self, is_api), *listen = config->self->listen;
    const struct config_member *far;
    char host[NI_MAXHOST];
    struct found found;
    uint64_t port;

    snprintf(ret_text, LISTEN_TEXT_BYTES, "%s", address);
    if (address_split(address, host, sizeof(host), &port) != 0)
        return 0;
    if (listen[0] != '\0')
        snprintf(host, sizeof(host), "%s", listen);
    if (look_up(host, &found) != 0) {
        if (listen[0] != '\0')
            return err_set(err, ERR_INVALID,
                           "members: listen of %s is %.255s, which is no address of this host: "
                           "give a number or a name that can be looked up here (0.0.0.0: all)",
                           config->self->name, listen);
        return 0;
    }
    if (listen[0] == '\0' && found.is_loopback && (far = find_far(config, is_api)) != NULL)
        return refuse_loopback(config, is_api, found.number, far, err);
    snprintf(ret_text, LISTEN_TEXT_BYTES, found.is_v6 ? "[%s]:%u" : "%s:%u", found.number,
             (unsigned)port);
    return 0;
}

int listen_find(const struct config *config, struct listen_addresses *ret_addresses,
                struct err *err)
{
    CHECK(config->self != NULL);
    if (find_one(config, false, ret_addresses->raft, err) != 0)
        return -1;
    return find_one(config, true, ret_addresses->api, err);
}
