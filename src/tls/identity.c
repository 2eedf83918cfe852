/* Parsing and formatting of identities. See identity.h. */
#include "src/tls/identity.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

static const char scheme[] = "ckpt://";
static const char *const kind_names[TLS_KIND_COUNT] = {
    "nobody", "replica", "agent", "scheduler", "operator", "authority", "auditor", "monitor"};

const char *tls_kind_name(enum tls_kind kind)
{
    CHECK((unsigned)kind < TLS_KIND_COUNT);
    return kind_names[kind];
}

enum tls_kind tls_kind_parse(const char *name)
{
    for (size_t kind = TLS_NOBODY + 1; kind < TLS_KIND_COUNT; kind++) {
        if (strcmp(name, kind_names[kind]) == 0)
            return (enum tls_kind)kind;
    }
    return TLS_NOBODY;
}

/* Decimal without sign, blanks and leading zeros: one id has one spelling. 0: not an id. */
static uint64_t member_id_parse(const char *text)
{
    uint64_t id = 0;

    if (text[0] == '0')
        return 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(id, 10, &id) ||
            __builtin_add_overflow(id, (uint64_t)(*text - '0'), &id))
            return 0;
    }
    return id;
}

int tls_identity_make(const char *cluster, enum tls_kind kind, const char *name,
                      struct tls_identity *ret_identity, struct err *err)
{
    struct tls_identity identity = {.kind = kind};

    CHECK(kind != TLS_NOBODY && (unsigned)kind < TLS_KIND_COUNT);
    if (id_check("cluster", cluster, err) != 0 || id_check(kind_names[kind], name, err) != 0)
        return -1;
    if (kind == TLS_REPLICA && (identity.member_id = member_id_parse(name)) == 0)
        return err_set(err, ERR_INVALID,
                       "replica '%.200s' is not a member id: a decimal number from 1", name);
    snprintf(identity.cluster, sizeof(identity.cluster), "%s", cluster);
    snprintf(identity.name, sizeof(identity.name), "%s", name);
    *ret_identity = identity;
    return 0;
}

int tls_identity_narrow(struct tls_identity *identity, const char *tenant, struct err *err)
{
    if (identity->kind != TLS_SCHEDULER)
        return err_set(err, ERR_INVALID, "a tenant is of a scheduler's certificate, not of kind %s",
                       tls_kind_name(identity->kind));
    if (id_check("tenant", tenant, err) != 0)
        return -1;
    snprintf(identity->tenant, sizeof(identity->tenant), "%s", tenant);
    return 0;
}

static int parse_refuse(const char *text, size_t length, struct err *err)
{
    char shown[TLS_IDENTITY_TEXT_BYTES];
    size_t used = length < sizeof(shown) - 1 ? length : sizeof(shown) - 1;

    for (size_t i = 0; i < used; i++)
        shown[i] = text[i] > ' ' && text[i] < 0x7f && text[i] != '"' ? text[i] : '?';
    shown[used] = '\0';
    return err_set(err, ERR_INVALID, "'%s' is not ckpt://CLUSTER/KIND/NAME with a known kind",
                   shown);
}

int tls_identity_parse(const char *text, size_t length, struct tls_identity *ret_identity,
                       struct err *err)
{
    char copy[TLS_IDENTITY_TEXT_BYTES];
    char *parts[3];
    char *rest = copy;
    enum tls_kind kind;

    if (length >= sizeof(copy) || length < sizeof(scheme) - 1 ||
        memchr(text, '\0', length) != NULL || memcmp(text, scheme, sizeof(scheme) - 1) != 0)
        return parse_refuse(text, length, err);
    memcpy(copy, text + sizeof(scheme) - 1, length - (sizeof(scheme) - 1));
    copy[length - (sizeof(scheme) - 1)] = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        parts[i] = strsep(&rest, "/");
        if (parts[i] == NULL)
            return parse_refuse(text, length, err);
    }
    kind = tls_kind_parse(parts[1]);
    /* before they get into a message: these bytes are a stranger's */
    if (kind == TLS_NOBODY || !id_valid(parts[0]) || !id_valid(parts[2]) ||
        (rest != NULL && (kind != TLS_SCHEDULER || !id_valid(rest))))
        return parse_refuse(text, length, err);
    if (tls_identity_make(parts[0], kind, parts[2], ret_identity, err) != 0)
        return -1;
    return rest == NULL ? 0 : tls_identity_narrow(ret_identity, rest, err);
}

char *tls_identity_format(const struct tls_identity *identity, char text[TLS_IDENTITY_TEXT_BYTES])
{
    text[0] = '\0';
    if (identity->kind != TLS_NOBODY)
        snprintf(text, TLS_IDENTITY_TEXT_BYTES, "%s%s/%s/%s%s%s", scheme, identity->cluster,
                 tls_kind_name(identity->kind), identity->name,
                 identity->tenant[0] == '\0' ? "" : "/", identity->tenant);
    return text;
}

bool tls_identity_equal(const struct tls_identity *a, const struct tls_identity *b)
{
    return a->kind == b->kind && strcmp(a->cluster, b->cluster) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->tenant, b->tenant) == 0;
}
