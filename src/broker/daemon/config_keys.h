/* The table of configuration keys: name, kind, limits, default, place in struct config.
 *
 * Flow     config.c walks the YAML and hands each scalar to config_key_set(); config_print() and the
 *          nearest-key hint read the same table.
 * Shapes   CONFIG_ITEMS_MAX items per list section; one config_source per key and item.
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
    CONFIG_SECTION_COUNT
};

enum config_kind {
    CONFIG_ID,      /* id_valid() */
    CONFIG_ADDRESS, /* host:port */
    CONFIG_FOLDER,  /* absolute, without ".." */
    CONFIG_PATH,    /* any path or empty */
    CONFIG_COUNT,   /* uint64_t, in the unit at the end of the key's name (src/base/number.h) */
    CONFIG_COUNT32, /* uint32_t, likewise */
    CONFIG_YES_NO,  /* bool */
    CONFIG_SWITCH,  /* protobuf_c_boolean */
    CONFIG_LEVEL,
    CONFIG_TARGET_KIND,
    CONFIG_SOURCE_KIND,
    CONFIG_URL /* http:// or https:// */
};

struct config_key {
    enum config_section section;
    enum config_kind kind;
    const char
        *name;     /* with its unit; the file may leave the unit out and give it with the value */
    size_t offset; /* in struct config, or in the list's item */
    uint64_t min, max;
    const char *initial; /* NULL: required; "": empty or zero */
};

enum config_from { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_FLAG };
enum { CONFIG_ITEMS_MAX = CONFIG_TARGETS_MAX, CONFIG_KEYS_MAX = 128 };

struct config_source {
    enum config_from from;
    unsigned line;
};

size_t config_key_count(void);
const struct config_key *config_key_at(size_t i);
const char *config_section_name(enum config_section section); /* "" for the root */
bool config_section_is_list(enum config_section section);
/* SIZE_MAX: unknown. */
size_t config_key_find(enum config_section section, const char *name);
/* The known key or section name that is closest to `name`. */
const char *config_key_nearest(enum config_section section, const char *name);
struct config_source *config_source_of(const struct config *config, size_t key, size_t item);
/* "policy.grace_ms", "members[0].raft". Returns text. */
char *config_key_path(size_t key, size_t item, char *text, size_t size);

/* in_unit: the key was written with its unit, so that a whole number is in that unit (min_interval_ms: 300, but min_interval: 5m).
 * -1 with one line that names value and limit, without the key's path. */
int config_key_set(struct config *config, size_t key, size_t item, bool in_unit, const char *value,
                   struct err *err);
void config_key_show(const struct config *config, size_t key, size_t item, char *text, size_t size);

#endif
