/* HTCondor's names. See config_htcondor.h. */
#include "src/broker/daemon/config_htcondor.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/limits.h"
#include "src/base/check.h"
#include "src/base/log_file.h"
#include "src/broker/daemon/config.h"
#include "src/broker/daemon/config_keys.h"

enum { SECONDS_MAX = 365 * 24 * 3600, LOG_MAX_BYTES_USUAL = 10 * 1000 * 1000 };
#define LOG_MAX_BYTES_MAX UINT64_C(1000000000000)

/* What each node says of its server, and what systemd does. A name without a row has a setting. */
static const struct htcondor_idle idle[] = {
    {"CKPT_SERVER_HOST", "each node has it, section htcondor of ckpt-agentd.yaml, as its domain"},
    {"CkptServer", "each node has it, section htcondor of ckpt-agentd.yaml, as its domain"},
    {"STARTD_ATTRS", "an agent tells its node's domain, ckptctl nodes -o wide shows it"},
    {"DAEMON_LIST", "systemd supervises the daemons, deploy/systemd"},
};

static int htcondor_complain(const struct config *config, const char *name, struct err *err,
                             const char *text)
{
    return settings_complain(&config->settings, CONFIG_HTCONDOR, name, 0, err, text);
}

static int take_boolean(const struct config *config, const char *name, const char *value,
                        bool *ret_value, struct err *err)
{
    if (value[0] == '\0' || htcondor_boolean(value, ret_value))
        return 0;
    return htcondor_complain(config, name, err, "must be True or False");
}

static void replace_text(char **text, const char *value)
{
    free(*text);
    *text = check_strdup(value);
}

/* One of `targets` in all but where it is said, so that it has their defaults. */
static int take_server_dir(struct config *config, struct err *err)
{
    Ckpt__V1__TargetSpec *target;
    const char *folder = config->htcondor.CKPT_SERVER_DIR;

    if (config->target_count > 0)
        return htcondor_complain(
            config, "CKPT_SERVER_DIR", err,
            "and `targets` are given: name the folder as `prefix` of one of them");
    if (folder[0] != '/' || strlen(folder) > FSM_PREFIX_MAX_BYTES)
        return htcondor_complain(config, "CKPT_SERVER_DIR", err, "must be an absolute folder");
    target = &config->targets[settings_add_item(&config->settings, CONFIG_TARGETS)];
    replace_text(&target->target_id, "ckpt-server");
    replace_text(&target->prefix, folder);
    target->kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target->write_bytes_per_s = 1000000000;
    target->is_default = true;
    return 0;
}

/* Whole, and nothing behind it; false: it is no such number. */
static bool number_of(const char *value, uint64_t min, uint64_t max, uint64_t *ret_number)
{
    char *end;

    errno = 0;
    *ret_number = strtoull(value, &end, 10);
    return errno == 0 && value[0] >= '0' && value[0] <= '9' && *end == '\0' && *ret_number >= min &&
           *ret_number <= max;
}

/* One of the two would be without effect. */
static int refuse_twice(const struct config *config, const char *name, const char *key,
                        struct err *err)
{
    char text[128];

    if (!settings_given(&config->settings, CONFIG_POLICY, key))
        return 0;
    snprintf(text, sizeof(text), "and policy.%s are given: leave one of them out", key);
    return htcondor_complain(config, name, err, text);
}

/* Settings of the policy that HTCondor has in seconds. */
static int take_seconds(struct config *config, struct err *err)
{
    const struct htcondor_names *given = &config->htcondor;
    const struct {
        const char *name, *value;
        const char *key; /* ours */
        uint64_t min;
        uint64_t *ms;
    } all[] = {
        {"MAX_DISCARDED_RUN_TIME", given->MAX_DISCARDED_RUN_TIME, "max_discarded_ms", 0,
         &config->policy.max_discarded_ms},
        {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF", given->CKPT_SERVER_STALE_CKPT_AGE_CUTOFF,
         "orphan_remove_age_ms", 1, &config->policy.orphan_remove_age_ms},
        {"CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL", given->CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL,
         "orphan_scan_interval_ms", 1, &config->policy.orphan_scan_interval_ms},
    };
    uint64_t seconds;

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (all[i].value[0] == '\0')
            continue;
        if (refuse_twice(config, all[i].name, all[i].key, err) != 0)
            return -1;
        if (!number_of(all[i].value, all[i].min, SECONDS_MAX, &seconds))
            return htcondor_complain(config, all[i].name, err,
                                     all[i].min == 0 ? "must be seconds, 0 to 31536000 (a year)"
                                                     : "must be seconds, 1 to 31536000 (a year)");
        *all[i].ms = seconds * 1000;
    }
    return 0;
}

/* The server is every target that does not say it for itself. */
static int take_transfers(struct config *config, struct err *err)
{
    const struct {
        const char *name, *value;
        size_t offset;
    } all[] = {
        {"MAX_RESTORE_PROCESSES", config->htcondor.MAX_RESTORE_PROCESSES,
         offsetof(Ckpt__V1__TargetSpec, max_restores)},
        {"MAX_STORE_PROCESSES", config->htcondor.MAX_STORE_PROCESSES,
         offsetof(Ckpt__V1__TargetSpec, max_writes)},
    };
    uint64_t number;

    _Static_assert((int)FSM_RESTORES_MAX == (int)FSM_WRITES_MAX, "one limit is told");
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (all[i].value[0] == '\0')
            continue;
        if (!number_of(all[i].value, 1, FSM_RESTORES_MAX, &number))
            return htcondor_complain(config, all[i].name, err, "must be a number, 1 to 1048576");
        for (size_t k = 0; k < config->target_count; k++) {
            uint32_t *limit = (uint32_t *)((char *)&config->targets[k] + all[i].offset);

            if (*limit == 0)
                *limit = (uint32_t)number;
        }
    }
    return 0;
}

/* HTCondor's own expression of a server's domain, blanks, parentheses and letters' case aside. */
static bool says_last_server(const char *expression)
{
    static const char known[] = "lastckptserver==target.ckptserver||lastckptserver=?=undefined";
    size_t length = 0;

    for (; *expression != '\0'; expression++) {
        if (strchr(" \t\n()", *expression) != NULL)
            continue;
        if (length == sizeof(known) - 1 || tolower((unsigned char)*expression) != known[length])
            return false;
        length++;
    }
    return length == sizeof(known) - 1;
}

/* What is appended to every job is the rule of those that say none. */
static int take_domain_rules(struct config *config, struct err *err)
{
    const struct {
        const char *name, *value;
        Ckpt__V1__DomainRule rule;
    } all[] = {
        {"APPEND_RANK_STANDARD", config->htcondor.APPEND_RANK_STANDARD,
         CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_PREFERRED},
        {"APPEND_REQ_STANDARD", config->htcondor.APPEND_REQ_STANDARD,
         CKPT__V1__DOMAIN_RULE__DOMAIN_RULE_REQUIRED},
    };

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (all[i].value[0] == '\0')
            continue;
        if (refuse_twice(config, all[i].name, "domain_rule", err) != 0)
            return -1;
        if (!says_last_server(all[i].value))
            return htcondor_complain(
                config, all[i].name, err,
                "must be ((LastCkptServer == TARGET.CkptServer) || (LastCkptServer =?= "
                "UNDEFINED)), which becomes policy.domain_rule: other expressions are the "
                "scheduler's, leave them out here");
        config->policy.domain_rule = all[i].rule;
    }
    return 0;
}

static int take_debug(struct config *config, struct err *err)
{
    const char *value = config->htcondor.CKPT_SERVER_DEBUG;

    if (strcmp(value, "D_ALWAYS") == 0)
        return 0;
    if (strcmp(value, "D_FULLDEBUG") != 0)
        return htcondor_complain(config, "CKPT_SERVER_DEBUG", err,
                                 "must be D_ALWAYS or D_FULLDEBUG; ours is `log_level`");
    config->log_level = LOG_LEVEL_DEBUG;
    return 0;
}

/* S2-015. Without a limit of its own the file has HTCondor's. */
static int take_log(struct config *config, struct err *err)
{
    const struct htcondor_names *given = &config->htcondor;
    const char *max = given->MAX_CKPT_SERVER_LOG;

    config->log_max_bytes = LOG_MAX_BYTES_USUAL;
    if (given->CKPT_SERVER_LOG[0] != '\0' && given->CKPT_SERVER_LOG[0] != '/')
        return htcondor_complain(config, "CKPT_SERVER_LOG", err,
                                 "must be the absolute path of a file");
    if (max[0] == '\0')
        return 0;
    if (!number_of(max, 0, LOG_MAX_BYTES_MAX, &config->log_max_bytes) ||
        (config->log_max_bytes != 0 && config->log_max_bytes < LOG_FILE_MIN_BYTES))
        return htcondor_complain(
            config, "MAX_CKPT_SERVER_LOG", err,
            "must be bytes, 65536 to 1000000000000, or 0: it is never rotated");
    return 0;
}

int config_take_htcondor(struct config *config, struct err *err)
{
    const struct htcondor_names *given = &config->htcondor;
    bool used = true, node_chooses = config->policy.node_chooses_target != 0;

    if (!htcondor_given(given))
        return 0;
    if (take_boolean(config, "USE_CKPT_SERVER", given->USE_CKPT_SERVER, &used, err) != 0 ||
        take_boolean(config, "STARTER_CHOOSES_CKPT_SERVER", given->STARTER_CHOOSES_CKPT_SERVER,
                     &node_chooses, err) != 0)
        return -1;
    if (given->STARTER_CHOOSES_CKPT_SERVER[0] != '\0' &&
        refuse_twice(config, "STARTER_CHOOSES_CKPT_SERVER", "node_chooses_target", err) != 0)
        return -1;
    config->policy.node_chooses_target = node_chooses;
    if (take_seconds(config, err) != 0 || take_domain_rules(config, err) != 0)
        return -1;
    if (given->CKPT_SERVER_DEBUG[0] != '\0' && take_debug(config, err) != 0)
        return -1;
    if (take_log(config, err) != 0)
        return -1;
    if (used && given->CKPT_SERVER_DIR[0] != '\0' && take_server_dir(config, err) != 0)
        return -1;
    if (config->target_count == 0 && !used)
        return htcondor_complain(config, "USE_CKPT_SERVER", err,
                                 "and no `targets` are given: checkpoints need a folder; of a "
                                 "single job: ckptctl register --strategy NONE");
    if (config->target_count == 0)
        return htcondor_complain(
            config, "CKPT_SERVER_DIR", err,
            "is not given, and `targets` are not either: checkpoints need a folder");
    return take_transfers(config, err);
}

void config_warn_htcondor(const struct config *config, FILE *to)
{
    const struct htcondor_names *given = &config->htcondor;
    bool used = true;

    htcondor_warn(given, idle, ARRAY_COUNT(idle), to);
    if (given->MAX_CKPT_SERVER_LOG[0] != '\0' && given->CKPT_SERVER_LOG[0] == '\0')
        fprintf(to,
                "warning: htcondor.MAX_CKPT_SERVER_LOG has no effect here: CKPT_SERVER_LOG names "
                "no file, messages go to stderr\n");
    if (given->CKPT_SERVER_STALE_CKPT_AGE_CUTOFF[0] != '\0' &&
        config->policy.orphan_rule != CKPT__V1__ORPHAN_RULE__ORPHAN_RULE_REMOVE)
        fprintf(to,
                "warning: htcondor.CKPT_SERVER_STALE_CKPT_AGE_CUTOFF removes nothing here while "
                "the policy's orphan_rule is list\n");
    (void)htcondor_boolean(given->USE_CKPT_SERVER, &used);
    if (given->USE_CKPT_SERVER[0] != '\0' && !used && given->CKPT_SERVER_DIR[0] != '\0')
        fprintf(to, "warning: htcondor.CKPT_SERVER_DIR has no effect here: USE_CKPT_SERVER is "
                    "False, checkpoints go to `targets`\n");
}
