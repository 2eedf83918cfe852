/* A site with its CA and certificates in a folder of its own under /tmp, for tests of every layer
 * that uses TLS. */
#ifndef CKPT_TESTS_SUPPORT_TLS_SITE_H
#define CKPT_TESTS_SUPPORT_TLS_SITE_H

#include <ftw.h>
#include <unistd.h>

#include "src/tls/authority.h"
#include "src/tls/context.h"
#include "tests/support/test.h"

struct site {
    char dir[64];
    char path[3][256]; /* of the last site_files() */
};

static inline void site_must(int status, const struct err *err)
{
    if (status != 0)
        fail_msg("%s", err->text);
}

static inline void site_issue(const struct site *site, enum tls_kind kind, const char *name,
                              int64_t valid_s)
{
    const struct tls_order order = {
        .kind = kind, .name = name, .valid_s = valid_s, .replace = true};
    struct err err;

    site_must(tls_authority_issue(site->dir, site->dir, &order, &err), &err);
}

static inline void site_open(struct site *site, const char *cluster)
{
    struct err err;

    snprintf(site->dir, sizeof(site->dir), "/tmp/tls-test-XXXXXX");
    assert_non_null(mkdtemp(site->dir));
    site_must(tls_authority_create(site->dir, cluster, TLS_YEAR_S, &err), &err);
}

static inline int site_remove_one(const char *path, const struct stat *status, int kind,
                                  struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void site_close(const struct site *site)
{
    assert_int_equal(nftw(site->dir, site_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* The three paths of "replica-1" and the like. */
static inline struct tls_files site_files(struct site *site, const char *stem)
{
    snprintf(site->path[0], sizeof(site->path[0]), "%s/ca.crt", site->dir);
    snprintf(site->path[1], sizeof(site->path[1]), "%s/%s.crt", site->dir, stem);
    snprintf(site->path[2], sizeof(site->path[2]), "%s/%s.key", site->dir, stem);
    return (struct tls_files){site->path[0], site->path[1], site->path[2]};
}

/* Issues it first. */
static inline struct tls_context *site_context(struct site *site, enum tls_kind kind,
                                               const char *name)
{
    struct tls_context *context;
    struct tls_files files;
    struct err err;
    char stem[160];

    site_issue(site, kind, name, TLS_YEAR_S);
    snprintf(stem, sizeof(stem), "%s-%s", tls_kind_name(kind), name);
    files = site_files(site, stem);
    site_must(tls_context_new(&files, NULL, &context, &err), &err);
    return context;
}

#endif
