/* The table of ckptd's configuration keys: section, kind, name, place in struct config, limits,
 * default. What a row is: src/serve/settings.h.
 */
#ifndef CKPT_BROKER_CONFIG_KEYS_H
#define CKPT_BROKER_CONFIG_KEYS_H

#include "src/broker/daemon/config.h"

enum config_section {
    CONFIG_ROOT,
    CONFIG_TIMERS,
    CONFIG_RAFT,
    CONFIG_POLICY,
    CONFIG_STORAGE_WATCH,
    CONFIG_TLS,
    CONFIG_BACKUPS,
    CONFIG_HEALTH,
    CONFIG_MEMBERS,   /* a list */
    CONFIG_TARGETS,   /* a list */
    CONFIG_TELEMETRY, /* a list */
    CONFIG_STORES,    /* a list */
    CONFIG_HTCONDOR,
    CONFIG_AUDIT,
    CONFIG_SECTION_COUNT
};

extern const struct settings_table config_table;

#endif
