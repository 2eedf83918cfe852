/* Configuration of ckptd: one YAML file, identical on all members; --name says which this is.
 *
 * Flow     config_load() reads the file by its table of keys (config_keys.c, src/serve/settings.h);
 *          flags override; then values are checked against each other. config_print() shows every
 *          value with where it came from.
 * Shapes   struct config owns all its strings and lists; it does not move; config_free() accepts
 *          NULL.
 * Units    milliseconds, bytes, parts per million. Durations in the file: "500ms", "30s", "5m",
 *          "6h", "7d" or plain milliseconds.
 * Errors   ERR_INVALID with "FILE, line N: ..." naming the key, the value, the limit, and for an
 *          unknown key the nearest known one.
 * Absent   environment variables (but for the keys of object stores); reloading anything but log
 *          level, telemetry, health, object stores and the audit trail's key (certificates are read
 *          again by credentials.h).
 */
#ifndef CKPT_BROKER_CONFIG_H
#define CKPT_BROKER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ckpt/log/v1/command.pb-c.h"
#include "ckpt/v1/common.pb-c.h"
#include "src/base/err.h"
#include "src/base/log.h"
#include "src/broker/health/node_health.h"
#include "src/dest/s3/stores.h"
#include "src/serve/htcondor.h"
#include "src/serve/settings.h"
#include "src/telemetry/source.h"

enum { CONFIG_MEMBERS_MAX = 9, CONFIG_TARGETS_MAX = 64 };

/* A member as the file lists it. */
struct config_member {
    uint64_t id; /* Raft's */
    char *name;  /* what --name says */
    char *raft;  /* host:port at which the others reach the Raft port */
    char *api;   /* host:port at which clients reach the gRPC port */
    char *http;  /* host:port of the HTTP listener; "": none */
    char *https; /* host:port of its pages for certificates; "": they are for everybody on http */
    /* where both ports are bound, without a port; "": the hosts of raft and api (listen.h) */
    char *listen;
};

/* How probes of storage targets decide: storage_watch.h. */
struct config_storage_watch {
    uint64_t interval_ms;   /* between two probes of one target */
    uint64_t timeout_ms;    /* a probe that takes longer has failed */
    uint64_t failures_down; /* so many failures in a row: unavailable */
    uint64_t successes_up;  /* so many successes in a row: available again */
};

/* Scheduled backups: backup_schedule.h. */
struct config_backups {
    char *directory;      /* "": none are written */
    uint64_t interval_ms; /* between two of them */
    uint64_t keep;        /* the newest */
    /* ... and the newest one of each of so many days, weeks and months */
    uint64_t keep_daily, keep_weekly, keep_monthly;
    uint64_t keep_bytes;         /* no more than this together; 0: no limit */
    uint64_t verify_interval_ms; /* so often the one just written is restored in memory; 0: never */
};

/* Every value that was read, checked and completed with defaults. Strings are never NULL. */
struct config {
    struct settings settings;
    const char *path; /* of the file */
    char *cluster_id;
    char *data_dir; /* {id} and {name} are this member's by now */
    struct config_member members[CONFIG_MEMBERS_MAX];
    size_t member_count;
    const struct config_member *self; /* one of members */
    char *preferred_leader;           /* name of a member; "": none */
    char *tenant_admins;              /* they look at all of a tenant: src/serve/tenant_table.h */
    char *restart_hook;               /* absolute path of a command (hook.h); "": none */
    uint64_t election_ms, heartbeat_ms;
    /* A snapshot is taken after so many entries, or so many bytes of them. */
    uint64_t snapshot_after_entries, snapshot_after_bytes;
    /* complete; seeds a new cluster only, the replicated one rules afterwards */
    Ckpt__V1__Policy policy;
    Ckpt__V1__TargetSpec targets[CONFIG_TARGETS_MAX]; /* seed a new cluster only */
    size_t target_count;
    struct config_storage_watch storage_watch;
    struct config_backups backups;
    struct source_config telemetry[SOURCES_MAX];
    size_t telemetry_count;
    struct s3_store_item stores[S3_STORES_MAX];
    size_t store_count;
    struct node_health_config health;
    struct htcondor_names htcondor;
    char *unix_socket;                 /* "": none */
    uint64_t user_requests_per_minute; /* of each user of the nodes; 0: no limit */
    uint64_t connections_max; /* of the API; lowered when the process may not open so many files */
    bool supervised;          /* somebody starts the process again when it ends */
    bool insecure;            /* addresses that are not loopback are bound without TLS */
    char *tls_ca, *tls_cert, *tls_key; /* PEM files, "{id}" is the member's id; "": no TLS */
    char *audit_key; /* PEM file, {id} and {name} are this member's by now; "": none signs */
    enum log_level log_level;
    enum log_format log_format;
    uint64_t log_max_bytes; /* of the file htcondor.CKPT_SERVER_LOG */
};

/* What the command line sets. NULL: not given. */
struct config_flags {
    const char *name; /* required */
    const char *data_dir;
    bool insecure;
};

/* For a bootstrap: an even number of first members is refused, and names that read as ids (a
 * cluster that has them goes on). */
int config_check_bootstrap(const struct config *config, struct err *err);

/* Whether the target's prefix is that of an earlier one of the file, or one of the two lies in the
 * other: allowed, and seldom meant. */
bool config_overlap(const struct config *config, size_t i, size_t *ret_other);

/* Reads the file, applies the flags and checks the whole. *ret_config is the caller's. `self` is
 * NULL when no --name was given and the host's name is no member: enough for checking and printing,
 * not for running. */
int config_load(const char *path, const struct config_flags *flags, struct config **ret_config,
                struct err *err);
/* The same from memory; path is used in messages only. */
int config_parse(const char *path, const char *text, size_t length,
                 const struct config_flags *flags, struct config **ret_config, struct err *err);
/* NULL allowed. Nothing that points into it may be used afterwards: names of members, addresses,
 * prefixes. */
void config_free(struct config *config);
/* Whether this member shows its pages, but for those about health, to certificates alone. */
static inline bool config_pages_guarded(const struct config *config)
{
    return config->self != NULL && config->self->https != NULL && config->self->https[0] != '\0';
}
/* One line per value: key, value, source (default, file, flag). */
void config_print(const struct config *config, FILE *stream);

/* What a new cluster begins with, and what this member says of itself. Both point into config and
 * ret_targets (one place per target). */
void config_fill_initial(const struct config *config, Ckpt__Log__V1__ClusterInit *ret_initial,
                         Ckpt__V1__TargetSpec **ret_targets, Ckpt__Log__V1__MemberFacts *ret_facts);

#endif
