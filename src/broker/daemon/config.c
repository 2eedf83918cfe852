/* Reads the configuration file: walks the YAML, sets keys of the table, checks how values go
 * together. See config.h.
 *
 * Flow     config_parse: defaults -> walk_root (sections and lists, one scalar at a time) -> flags ->
 *          checks across keys. Each error carries the line of the key that it is about.
 * Absent   libcyaml: its log knows the line of a key it rejects, but not the line of a value that is
 *          out of range, and that line is promised. libyaml, which libcyaml itself stands on, gives
 *          it for both. Anchors, aliases, tags and several documents are refused.
 */
#include "src/broker/daemon/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "fsm/cluster/policy_fields.h"
#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/api/target_kinds.h"
#include "src/broker/daemon/config_keys.h"

struct walk {
    yaml_parser_t parser;
    yaml_event_t event; /* the present one; deleted when the next is read */
    bool has_event;
    struct config *config;
    struct err *err;
};

static unsigned walk_line(const struct walk *walk)
{
    return (unsigned)walk->event.start_mark.line + 1;
}

static const char *walk_text(const struct walk *walk)
{
    CHECK(walk->event.type == YAML_SCALAR_EVENT);
    return (const char *)walk->event.data.scalar.value;
}

static int walk_next(struct walk *walk)
{
    if (walk->has_event)
        yaml_event_delete(&walk->event);
    walk->has_event = false;
    if (!yaml_parser_parse(&walk->parser, &walk->event))
        return err_set(walk->err, ERR_INVALID, "%s, line %zu: not valid YAML: %s",
                       walk->config->path, walk->parser.problem_mark.line + 1,
                       walk->parser.problem);
    walk->has_event = true;
    if (walk->event.type == YAML_ALIAS_EVENT)
        return err_set(walk->err, ERR_INVALID,
                       "%s, line %u: aliases are not supported; repeat the value",
                       walk->config->path, walk_line(walk));
    if (walk->event.type == YAML_SCALAR_EVENT &&
        strlen(walk_text(walk)) != walk->event.data.scalar.length)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: a value holds a NUL byte",
                       walk->config->path, walk_line(walk));
    return 0;
}

static int walk_expect(struct walk *walk, yaml_event_type_t type, const char *what)
{
    if (walk_next(walk) != 0)
        return -1;
    if (walk->event.type != type)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: expected %s", walk->config->path,
                       walk_line(walk), what);
    return 0;
}

static int walk_unknown(struct walk *walk, enum config_section section)
{
    const char *name = config_section_name(section);

    return err_set(walk->err, ERR_INVALID,
                   "%s, line %u: unknown key '%.64s'%s%s; the nearest known key is '%s'",
                   walk->config->path, walk_line(walk), walk_text(walk),
                   section == CONFIG_ROOT ? "" : " in ", name,
                   config_key_nearest(section, walk_text(walk)));
}

/* The present event is the name of a scalar key; reads its value. */
static int walk_scalar(struct walk *walk, enum config_section section, size_t item)
{
    size_t key = config_key_find(section, walk_text(walk));
    struct config_source *source;
    char path[128];
    unsigned line = walk_line(walk);
    struct err problem;
    bool in_unit;

    if (key == SIZE_MAX)
        return walk_unknown(walk, section);
    in_unit = strcmp(walk_text(walk), config_key_at(key)->name) == 0;
    config_key_path(key, item, path, sizeof(path));
    source = config_source_of(walk->config, key, item);
    if (source->from == CONFIG_FROM_FILE)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s is given twice, first in line %u",
                       walk->config->path, line, path, source->line);
    if (walk_next(walk) != 0)
        return -1;
    if (walk->event.type != YAML_SCALAR_EVENT)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s must be a single value",
                       walk->config->path, line, path);
    source->from = CONFIG_FROM_FILE;
    source->line = line;
    if (config_key_set(walk->config, key, item, in_unit, walk_text(walk), &problem) != 0)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s %s", walk->config->path, line, path,
                       problem.text);
    return 0;
}

/* After the mapping's start; until its end. */
static int walk_mapping(struct walk *walk, enum config_section section, size_t item)
{
    unsigned line = walk_line(walk);
    char path[128];

    for (;;) {
        if (walk_next(walk) != 0)
            return -1;
        if (walk->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (walk->event.type != YAML_SCALAR_EVENT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: a key must be a name",
                           walk->config->path, walk_line(walk));
        if (walk_scalar(walk, section, item) != 0)
            return -1;
    }
    for (size_t i = 0; i < config_key_count(); i++) {
        if (config_key_at(i)->section == section && config_key_at(i)->initial == NULL &&
            config_source_of(walk->config, i, item)->from == CONFIG_FROM_DEFAULT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: %s is missing", walk->config->path,
                           line, config_key_path(i, item, path, sizeof(path)));
    }
    return 0;
}

static int set_initial(struct config *config, enum config_section section, size_t item,
                       struct err *err)
{
    for (size_t i = 0; i < config_key_count(); i++) {
        const struct config_key *key = config_key_at(i);
        if (key->section == section && key->initial != NULL &&
            config_key_set(config, i, item, true, key->initial, err) != 0)
            return -1;
    }
    return 0;
}

static size_t *list_count(struct config *config, enum config_section section)
{
    CHECK(config_section_is_list(section));
    if (section == CONFIG_MEMBERS)
        return &config->member_count;
    return section == CONFIG_TARGETS ? &config->target_count : &config->telemetry_count;
}

/* After the list's start; until its end. */
static int walk_list(struct walk *walk, enum config_section section)
{
    struct config *config = walk->config;
    size_t max = section == CONFIG_MEMBERS     ? CONFIG_MEMBERS_MAX
                 : section == CONFIG_TELEMETRY ? SOURCES_MAX
                                               : CONFIG_TARGETS_MAX;
    size_t *count = list_count(config, section);

    for (;;) {
        if (walk_next(walk) != 0)
            return -1;
        if (walk->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (walk->event.type != YAML_MAPPING_START_EVENT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: each of %s must be a mapping",
                           config->path, walk_line(walk), config_section_name(section));
        if (*count == max)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: %s has more than %zu entries",
                           config->path, walk_line(walk), config_section_name(section), max);
        if (section == CONFIG_TARGETS)
            ckpt__v1__target_spec__init(&config->targets[*count]);
        (*count)++;
        if (set_initial(config, section, *count - 1, walk->err) != 0 ||
            walk_mapping(walk, section, *count - 1) != 0)
            return -1;
    }
}

/* The present event is the name of a section. */
static int walk_section(struct walk *walk, enum config_section section, bool *seen)
{
    bool is_list = config_section_is_list(section);

    if (*seen)
        return err_set(walk->err, ERR_INVALID, "%s, line %u: %s is given twice", walk->config->path,
                       walk_line(walk), config_section_name(section));
    *seen = true;
    if (walk_expect(walk, is_list ? YAML_SEQUENCE_START_EVENT : YAML_MAPPING_START_EVENT,
                    is_list ? "a list" : "a mapping") != 0)
        return -1;
    return is_list ? walk_list(walk, section) : walk_mapping(walk, section, 0);
}

static int walk_root(struct walk *walk)
{
    bool seen[CONFIG_SECTION_COUNT] = {false};

    for (;;) {
        size_t section = CONFIG_ROOT + 1;

        if (walk_next(walk) != 0)
            return -1;
        if (walk->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (walk->event.type != YAML_SCALAR_EVENT)
            return err_set(walk->err, ERR_INVALID, "%s, line %u: a key must be a name",
                           walk->config->path, walk_line(walk));
        while (section < CONFIG_SECTION_COUNT &&
               strcmp(walk_text(walk), config_section_name((enum config_section)section)) != 0)
            section++;
        if (section < CONFIG_SECTION_COUNT
                ? walk_section(walk, (enum config_section)section, &seen[section]) != 0
                : walk_scalar(walk, CONFIG_ROOT, 0) != 0)
            return -1;
    }
}

static int walk_document(struct walk *walk)
{
    if (walk_expect(walk, YAML_STREAM_START_EVENT, "YAML") != 0 ||
        walk_expect(walk, YAML_DOCUMENT_START_EVENT, "keys; the file is empty") != 0 ||
        walk_expect(walk, YAML_MAPPING_START_EVENT, "keys such as 'cluster_id: NAME'") != 0 ||
        walk_root(walk) != 0 || walk_expect(walk, YAML_DOCUMENT_END_EVENT, "the end") != 0)
        return -1;
    return walk_expect(walk, YAML_STREAM_END_EVENT, "the end of the file, not another document");
}

/* ---- how values go together ---- */

static int config_complain(const struct config *config, enum config_section section,
                           const char *name, size_t item, struct err *err, const char *text)
{
    size_t key = config_key_find(section, name);
    unsigned line = config_source_of(config, key, item)->line;
    char path[128], value[512];

    config_key_path(key, item, path, sizeof(path));
    if (line == 0)
        return err_set(err, ERR_INVALID, "%s: %s %s", config->path, path, text);
    if (section == CONFIG_TELEMETRY) /* a URL may carry a password */
        return err_set(err, ERR_INVALID, "%s, line %u: %s %s", config->path, line, path, text);
    config_key_show(config, key, item, value, sizeof(value));
    return err_set(err, ERR_INVALID, "%s, line %u: %s '%.300s' %s", config->path, line, path, value,
                   text);
}

static bool same(const char *a, const char *b)
{
    return a[0] != '\0' && strcmp(a, b) == 0;
}

static bool same_host(const char *a, const char *b)
{
    size_t length = (size_t)(strrchr(a, ':') - a);

    return length == (size_t)(strrchr(b, ':') - b) && strncmp(a, b, length) == 0;
}

/* Addresses of one member and of all members differ: each port is bound once. Loopback is another address on each host, and the
 * members' Raft addresses tell whether they share one. */
static bool address_used_before(const struct config *config, size_t member, const char *address,
                                size_t kinds_before)
{
    for (size_t i = 0; i <= member; i++) {
        const struct config_member *other = &config->members[i];
        const char *const known[] = {other->raft, other->api, other->http};
        if (i != member && address_is_loopback(address) &&
            !same_host(other->raft, config->members[member].raft))
            continue;
        for (size_t k = 0; k < (i == member ? kinds_before : ARRAY_COUNT(known)); k++) {
            if (same(address, known[k]))
                return true;
        }
    }
    return false;
}

static int check_member(const struct config *config, size_t i, struct err *err)
{
    static const char *const names[] = {"raft", "api", "http"};
    const struct config_member *member = &config->members[i];
    const char *const addresses[] = {member->raft, member->api, member->http};

    for (size_t j = 0; j < i; j++) {
        if (config->members[j].id == member->id)
            return config_complain(config, CONFIG_MEMBERS, "id", i, err, "is another member's too");
        if (strcmp(config->members[j].name, member->name) == 0)
            return config_complain(config, CONFIG_MEMBERS, "name", i, err,
                                   "is another member's too");
    }
    for (size_t k = 0; k < ARRAY_COUNT(names); k++) {
        if (address_used_before(config, i, addresses[k], k))
            return config_complain(config, CONFIG_MEMBERS, names[k], i, err,
                                   "is used for another listener too");
        if (addresses[k][0] == '\0' || config->insecure || address_is_loopback(addresses[k]))
            continue;
        if (config->tls_ca[0] == '\0')
            return config_complain(
                config, CONFIG_MEMBERS, names[k], i, err,
                "is not a loopback address, and without TLS everyone who "
                "reaches it is trusted; set tls, or 'insecure: yes' (--insecure) "
                "to accept that");
        if (addresses[k] == member->http)
            return config_complain(config, CONFIG_MEMBERS, names[k], i, err,
                                   "is not a loopback address, and this port has no TLS: everyone "
                                   "who reaches it reads the metrics; set 'insecure: yes' to "
                                   "accept that");
    }
    return 0;
}

/* Whoever says how often wants backups: without a folder there would be none, and nobody would notice. */
static int check_backups(const struct config *config, struct err *err)
{
    static const char *const names[] = {"interval", "keep", "keep_bytes"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        size_t key = config_key_find(CONFIG_BACKUPS, names[i]);
        if (config->backups.directory[0] == '\0' &&
            config_source_of(config, key, 0)->from != CONFIG_FROM_DEFAULT)
            return config_complain(config, CONFIG_BACKUPS, "directory", 0, err,
                                   "is missing: no backup would be taken; name a folder that all "
                                   "members reach, or leave the section out");
    }
    return 0;
}

/* All three or none: half of TLS is none, and nobody wants to learn that late. */
static int check_tls(const struct config *config, struct err *err)
{
    static const char *const names[] = {"ca", "cert", "key"};
    const char *const paths[] = {config->tls_ca, config->tls_cert, config->tls_key};
    size_t set = 0;

    for (size_t i = 0; i < ARRAY_COUNT(paths); i++)
        set += paths[i][0] != '\0';
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        if (set > 0 && paths[i][0] == '\0')
            return config_complain(config, CONFIG_TLS, names[i], 0, err,
                                   "is missing; tls takes ca, cert and key");
    }
    return 0;
}

static int check_targets(struct config *config, struct err *err)
{
    size_t defaults = 0;
    struct err problem;

    if (config->target_count == 1)
        config->targets[0].is_default = true;
    for (size_t i = 0; i < config->target_count; i++) {
        const Ckpt__V1__TargetSpec *spec = &config->targets[i];

        if (target_kind_row(spec->kind)->validate(spec->prefix, &problem) != 0)
            return config_complain(config, CONFIG_TARGETS, "prefix", i, err, problem.text);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(config->targets[j].target_id, config->targets[i].target_id) == 0)
                return config_complain(config, CONFIG_TARGETS, "id", i, err,
                                       "is another target's too");
        }
        defaults += config->targets[i].is_default;
        if (config->targets[i].is_default && defaults > 1)
            return config_complain(config, CONFIG_TARGETS, "default", i, err,
                                   "is set for another target already; one is the default");
    }
    if (config->target_count > 0 && defaults == 0)
        return config_complain(
            config, CONFIG_TARGETS, "id", 0, err,
            "and the others lack 'default: yes'; one target must be the default");
    return 0;
}

static bool names_target(const struct source_config *source, const char *target)
{
    const char *at = source->targets;
    char name[ID_MAX_BYTES + 2];

    while (source_target_next(&at, name, sizeof(name))) {
        if (strcmp(name, target) == 0)
            return true;
    }
    return false;
}

/* Of kind vast: whose system it is. A target that two systems speak of would be measured by turns. */
static int check_source_targets(const struct config *config, size_t i, struct err *err)
{
    const struct source_config *source = &config->telemetry[i];
    const char *at = source->targets;
    char name[ID_MAX_BYTES + 2]; /* one that is too long stays too long */

    if ((source->kind == SOURCE_VAST) != (source->targets[0] != '\0'))
        return config_complain(config, CONFIG_TELEMETRY, "targets", i, err,
                               "belongs to kind vast: it names the storage targets on that system");
    while (source_target_next(&at, name, sizeof(name))) {
        if (!id_valid(name))
            return config_complain(config, CONFIG_TELEMETRY, "targets", i, err,
                                   "must be names of storage targets, with commas between them");
        for (size_t before = 0; before < i; before++) {
            if (names_target(&config->telemetry[before], name))
                return config_complain(config, CONFIG_TELEMETRY, "targets", i, err,
                                       "has a target that another source names too");
        }
    }
    return 0;
}

static int check_source(const struct config *config, size_t i, struct err *err)
{
    const struct source_config *source = &config->telemetry[i];
    bool by_host = strstr(source->url, "{host}") != NULL;

    for (size_t before = 0; before < i; before++) {
        if (strcmp(config->telemetry[before].name, source->name) == 0)
            return config_complain(config, CONFIG_TELEMETRY, "name", i, err,
                                   "is the name of another source");
    }
    if (strcmp(source->name, "agent") == 0)
        return config_complain(config, CONFIG_TELEMETRY, "name", i, err,
                               "is what the nodes' own agents are called; choose another");
    if (by_host && source->map[0] == '\0')
        return config_complain(config, CONFIG_TELEMETRY, "url", i, err,
                               "has {host}: map must name the file with lines \"NODE HOST\"");
    if (check_source_targets(config, i, err) != 0)
        return -1;
    if (source->kind == SOURCE_VAST && source->map[0] != '\0')
        return config_complain(config, CONFIG_TELEMETRY, "map", i, err,
                               "is of nodes: a VMS speaks of a storage system");
    if (source->kind == SOURCE_REDFISH && !by_host)
        return config_complain(config, CONFIG_TELEMETRY, "url", i, err,
                               "must have {host}, such as https://{host}: each BMC is asked");
    if (source->credentials[0] != '\0' && strncmp(source->url, "https://", 8) != 0 &&
        !source->insecure)
        return config_complain(config, CONFIG_TELEMETRY, "url", i, err,
                               "would carry the credentials in clear; use https, or insecure: yes");
    if ((source->cert[0] == '\0') != (source->key[0] == '\0'))
        return config_complain(config, CONFIG_TELEMETRY, "cert", i, err,
                               "and key belong together; give both or none");
    return 0;
}

static int check_telemetry(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->telemetry_count; i++) {
        if (check_source(config, i, err) != 0)
            return -1;
    }
    return 0;
}

static int check_together(struct config *config, struct err *err)
{
    size_t cluster_id = config_key_find(CONFIG_ROOT, "cluster_id");
    char limit[96];

    if (config_source_of(config, cluster_id, 0)->from == CONFIG_FROM_DEFAULT)
        return err_set(err, ERR_INVALID, "%s: cluster_id is missing", config->path);
    if (config->member_count == 0)
        return err_set(err, ERR_INVALID, "%s: members is missing; list at least one", config->path);
    if (check_tls(config, err) != 0 || check_backups(config, err) != 0)
        return -1;
    for (size_t i = 0; i < config->member_count; i++) {
        if (check_member(config, i, err) != 0)
            return -1;
    }
    snprintf(limit, sizeof(limit), "must be at most a third of timers.election_ms, %" PRIu64 " ms",
             config->election_ms);
    if (config->heartbeat_ms * 3 > config->election_ms)
        return config_complain(config, CONFIG_TIMERS, "heartbeat", 0, err, limit);
#define X(least, most)                                                                             \
    if (config->policy.most < config->policy.least)                                                \
        return config_complain(config, CONFIG_POLICY, #most, 0, err,                               \
                               "must not be below policy." #least);
    FSM_POLICY_ORDERED(X)
#undef X
    return check_targets(config, err) != 0 ? -1 : check_telemetry(config, err);
}

int config_check_bootstrap(const struct config *config, struct err *err)
{
    for (size_t i = 0; i < config->member_count; i++)
        if (id_is_number(config->members[i].name))
            return err_set(err, ERR_INVALID,
                           "%s: members has the name %s, which reads as a member's id where either "
                           "can be given: give it a letter as well, as in n%s",
                           config->path, config->members[i].name, config->members[i].name);
    if (config->member_count % 2 == 1)
        return 0;
    return err_set(
        err, ERR_INVALID,
        "%s: members has %zu entries; begin a cluster with 1, 3 or 5: an even number only "
        "lowers availability",
        config->path, config->member_count);
}

/* ---- flags ---- */

static int apply_value(struct config *config, const char *name, const char *flag, const char *value,
                       struct err *err)
{
    size_t key = config_key_find(CONFIG_ROOT, name);
    struct err problem;

    if (value == NULL)
        return 0;
    if (config_key_set(config, key, 0, true, value, &problem) != 0)
        return err_set(err, ERR_INVALID, "%s %s", flag, problem.text);
    config_source_of(config, key, 0)->from = CONFIG_FROM_FLAG;
    return 0;
}

static int apply_values(struct config *config, const struct config_flags *flags, struct err *err)
{
    if (apply_value(config, "data_dir", "--data-dir", flags->data_dir, err) != 0)
        return -1;
    return apply_value(config, "insecure", "--insecure", flags->insecure ? "yes" : NULL, err);
}

static int find_self(struct config *config, const struct config_flags *flags, struct err *err)
{
    char host[256] = "";
    const char *name = flags->name;

    if (name == NULL && gethostname(host, sizeof(host) - 1) == 0)
        name = host;
    for (size_t i = 0; name != NULL && i < config->member_count; i++) {
        if (strcmp(config->members[i].name, name) == 0)
            config->self = &config->members[i];
    }
    if (config->self == NULL && flags->name != NULL)
        return err_set(err, ERR_INVALID,
                       "--name %s is not among the %zu members of %s (%s%s): give the name of one",
                       flags->name, config->member_count, config->path, config->members[0].name,
                       config->member_count > 1 ? ", ..." : "");
    return 0;
}

/* ---- life ---- */

int config_parse(const char *path, const char *text, size_t length,
                 const struct config_flags *flags, struct config **ret_config, struct err *err)
{
    struct config *config = check_calloc(1, sizeof(*config));
    struct walk walk = {.config = config, .err = err};
    int status = -1;

    config->path = check_strdup(path);
    config->sources = check_calloc(CONFIG_KEYS_MAX * CONFIG_ITEMS_MAX, sizeof(*config->sources));
    ckpt__v1__policy__init(&config->policy);
    CHECK(yaml_parser_initialize(&walk.parser));
    yaml_parser_set_input_string(&walk.parser, (const unsigned char *)text, length);
    if (set_initial(config, CONFIG_ROOT, 0, err) == 0 &&
        set_initial(config, CONFIG_TIMERS, 0, err) == 0 &&
        set_initial(config, CONFIG_RAFT, 0, err) == 0 &&
        set_initial(config, CONFIG_POLICY, 0, err) == 0 &&
        set_initial(config, CONFIG_STORAGE_WATCH, 0, err) == 0 &&
        set_initial(config, CONFIG_TLS, 0, err) == 0 &&
        set_initial(config, CONFIG_BACKUPS, 0, err) == 0 &&
        set_initial(config, CONFIG_HEALTH, 0, err) == 0 && walk_document(&walk) == 0 &&
        apply_values(config, flags, err) == 0 && check_together(config, err) == 0 &&
        find_self(config, flags, err) == 0)
        status = 0;
    config->policy.zeros = fsm_policy_zeros(&config->policy);
    if (walk.has_event)
        yaml_event_delete(&walk.event);
    yaml_parser_delete(&walk.parser);
    if (status != 0) {
        config_free(config);
        return -1;
    }
    *ret_config = config;
    return 0;
}

int config_load(const char *path, const struct config_flags *flags, struct config **ret_config,
                struct err *err)
{
    FILE *file = fopen(path, "re");
    char *text;
    size_t length;
    int status = -1;

    if (file == NULL)
        return err_set(err, ERR_INVALID, "%s: cannot be opened: %m; give --config FILE", path);
    text = check_alloc(CONFIG_FILE_MAX_BYTES + 1);
    length = fread(text, 1, CONFIG_FILE_MAX_BYTES + 1, file);
    if (ferror(file))
        err_set(err, ERR_INVALID, "%s: cannot be read: %m", path);
    else if (length > CONFIG_FILE_MAX_BYTES)
        err_set(err, ERR_INVALID, "%s: larger than %d bytes", path, CONFIG_FILE_MAX_BYTES);
    else
        status = config_parse(path, text, length, flags, ret_config, err);
    fclose(file);
    free(text);
    return status;
}

static void free_text(char *text)
{
    if (text != protobuf_c_empty_string)
        free(text);
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config->member_count; i++) {
        free(config->members[i].name);
        free(config->members[i].raft);
        free(config->members[i].api);
        free(config->members[i].http);
    }
    for (size_t i = 0; i < config->target_count; i++) {
        free_text(config->targets[i].target_id);
        free_text(config->targets[i].prefix);
        free_text(config->targets[i].domain);
    }
    for (size_t i = 0; i < config->telemetry_count; i++) {
        struct source_config *source = &config->telemetry[i];
        char *const texts[] = {source->name,        source->url,     source->map,
                               source->credentials, source->ca,      source->cert,
                               source->key,         source->targets, source->cluster};

        for (size_t text = 0; text < ARRAY_COUNT(texts); text++)
            free(texts[text]);
    }
    free(config->path);
    free(config->cluster_id);
    free(config->data_dir);
    free(config->unix_socket);
    free(config->preferred_leader);
    free(config->backups.directory);
    free(config->tls_ca);
    free(config->tls_cert);
    free(config->tls_key);
    free(config->sources);
    free(config);
}

void config_print(const struct config *config, FILE *stream)
{
    static const char *const names[] = {"default", "file", "flag"};

    for (size_t i = 0; i < config_key_count(); i++) {
        enum config_section section = config_key_at(i)->section;
        size_t items = 1;

        if (section == CONFIG_MEMBERS)
            items = config->member_count;
        else if (section == CONFIG_TARGETS)
            items = config->target_count;
        else if (section == CONFIG_TELEMETRY)
            items = config->telemetry_count;
        for (size_t item = 0; item < items; item++) {
            char path[128];
            char value[2048];

            config_key_path(i, item, path, sizeof(path));
            config_key_show(config, i, item, value, sizeof(value));
            fprintf(stream, "%s = %s (%s)\n", path, value,
                    names[config_source_of(config, i, item)->from]);
        }
    }
}

void config_fill_initial(const struct config *config, Ckpt__Log__V1__ClusterInit *ret_initial,
                         Ckpt__V1__TargetSpec **ret_targets, Ckpt__Log__V1__MemberFacts *ret_facts)
{
    ckpt__log__v1__cluster_init__init(ret_initial);
    ret_initial->cluster_id = config->cluster_id;
    ret_initial->epoch = 1;
    ret_initial->policy = (Ckpt__V1__Policy *)(uintptr_t)&config->policy;
    ret_initial->n_targets = config->target_count;
    ret_initial->targets = ret_targets;
    for (size_t i = 0; i < config->target_count; i++)
        ret_targets[i] = (Ckpt__V1__TargetSpec *)(uintptr_t)&config->targets[i];
    ckpt__log__v1__member_facts__init(ret_facts);
    ret_facts->member_id = config->self->id;
    ret_facts->name = config->self->name;
    ret_facts->api_address = config->self->api;
    ret_facts->raft_address = config->self->raft;
    ret_facts->version = (char *)(uintptr_t)CKPT_VERSION;
}
