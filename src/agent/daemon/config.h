/* The agent's configuration: a YAML file by a table of keys (src/serve/settings.h), overridden by
 * flags.
 *
 * Flow     agent_config_init(); settings_load() or settings_parse() of its settings; flags;
 *          agent_config_check().
 * Shapes   it owns its texts and does not move; agent_config_close() accepts one that is zeros.
 */
#ifndef CKPT_AGENT_CONFIG_H
#define CKPT_AGENT_CONFIG_H

#include "src/base/log.h"
#include "src/dest/s3/stores.h"
#include "src/serve/htcondor.h"
#include "src/serve/settings.h"

#define AGENT_RANKS_SUFFIX ".ranks" /* of `socket`: where ranks of applications come */

/* A unix socket's path has 107 bytes at most, the ranks' one as well. */
enum {
    AGENT_TEXT_MAX_BYTES = 1023,
    AGENT_SOCKET_MAX_BYTES = 107 - (sizeof(AGENT_RANKS_SUFFIX) - 1),
    AGENT_MEMORY_PATH_MAX_BYTES = 255
};

/* Sections of the file. */
enum agent_section {
    AGENT_ROOT,
    AGENT_TLS,
    AGENT_STORES, /* a list */
    AGENT_COPIES,
    AGENT_MEMORY,
    AGENT_HTCONDOR,
    AGENT_SECTION_COUNT
};

struct agent_config {
    struct settings settings;
    char *brokers, *state_dir, *socket;
    char *http;                        /* "": no HTTP side port */
    bool insecure;                     /* http may be more than a loopback address */
    char *tls_ca, *tls_cert, *tls_key; /* PEM, "{name}" is the node's name; "": no TLS */
    char *sysfs;                       /* where the kernel's is mounted; "": no sensors are read */
    bool owners_register;              /* users register jobs of their own on this node */
    /* "auto", "off", or the absolute path of the control group below which each job's own lies */
    char *cgroup;
    char *machine, *os;   /* what the node is to be called; "": as its system says */
    char *domain;         /* whose target its checkpoints go to; "": none */
    char *node_probe;     /* where members probe the machine; "": port 22 */
    char *owners_tenants; /* src/serve/tenant_table.h */
    uint64_t heartbeat_ms;
    uint64_t worker_idle_ms; /* how long a worker waits for a next task; 0: not at all */
    /* of what jobs wrote, kept on their node; 0: nothing is */
    uint64_t copies_max_bytes;
    uint64_t copies_keep_free_bytes; /* beside it, for the next checkpoint */
    /* where jobs write checkpoints in the node's memory ("": nowhere), and how much in all */
    char *memory_path;
    uint64_t memory_max_bytes, memory_user_max_bytes;
    enum log_level log_level;
    enum log_format log_format;
    struct s3_store_item stores[S3_STORES_MAX];
    size_t store_count;
    struct htcondor_names htcondor;
};

/* The defaults. path is of the file. */
void agent_config_init(struct agent_config *config, const char *path);
/* Takes HTCondor's names, and says what is wrong. */
int agent_config_check(struct agent_config *config, struct err *err);
void agent_config_close(struct agent_config *config);

#endif
