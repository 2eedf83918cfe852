/* HTCondor's names. See config_htcondor.h. */
#include "src/broker/daemon/config_htcondor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fsm/limits.h"
#include "src/base/check.h"
#include "src/broker/daemon/config.h"
#include "src/broker/daemon/config_keys.h"

enum { SECONDS_MAX = 365 * 24 * 3600 };

/* What a name without a setting of its own says: where ours is. A name without a row is taken. */
static const struct htcondor_refusal refusals[] = {
    {"CKPT_SERVER_HOST", "is not of this file but of each node's: section htcondor of "
                         "ckpt-agentd.yaml, as the node's domain"},
    {"CkptServer", "is not of this file but of each node's: section htcondor of ckpt-agentd.yaml, "
                   "as the node's domain"},
    {"CKPT_SERVER_LOG", "has no counterpart: messages go to stderr, which systemd's journal keeps"},
    {"MAX_CKPT_SERVER_LOG", "has no counterpart: the journal rotates, SystemMaxUse of "
                            "journald.conf"},
    {"DAEMON_LIST", "has no counterpart: systemd supervises the daemons, deploy/systemd"},
    {"STARTD_ATTRS", "is not of this file: an agent tells its node's domain, `domain` or "
                     "CKPT_SERVER_HOST of ckpt-agentd.yaml, and ckptctl nodes -o wide shows it"},
    {"APPEND_REQ_STANDARD", "is said of each job: ckptctl register --domain-rule REQUIRED; "
                            "ckptctl placement exports it"},
    {"APPEND_RANK_STANDARD", "is said of each job: ckptctl register --domain-rule PREFERRED; "
                             "ckptctl placement exports it"},
    {"MAX_STORE_PROCESSES", "is `write_bytes_per_s` of a target: checkpoints wait for bandwidth, "
                            "not for processes"},
};

static int htcondor_complain(const struct config *config, const char *name, struct err *err,
                             const char *text)
{
    return settings_complain(&config->settings, CONFIG_HTCONDOR, name, 0, err, text);
}

static int take_boolean(const struct config *config, const char *name, const char *value,
                        uint32_t *ret_value, struct err *err)
{
    if (strcasecmp(value, "True") != 0 && strcasecmp(value, "False") != 0)
        return htcondor_complain(config, name, err, "must be True or False");
    *ret_value = strcasecmp(value, "True") == 0;
    return 0;
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

/* Settings of the policy that HTCondor has in seconds. */
static int take_seconds(struct config *config, struct err *err)
{
    const struct htcondor_names *given = &config->htcondor;
    const struct {
        const char *name, *value;
        uint64_t min;
        uint64_t *ms;
    } all[] = {
        {"MAX_DISCARDED_RUN_TIME", given->MAX_DISCARDED_RUN_TIME, 0,
         &config->policy.max_discarded_ms},
        {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF", given->CKPT_SERVER_STALE_CKPT_AGE_CUTOFF, 0,
         &config->policy.orphan_age_ms},
        {"CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL", given->CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL, 1,
         &config->policy.orphan_scan_interval_ms},
    };
    uint64_t seconds;

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (all[i].value[0] == '\0')
            continue;
        if (!number_of(all[i].value, all[i].min, SECONDS_MAX, &seconds))
            return htcondor_complain(config, all[i].name, err,
                                     all[i].min == 0 ? "must be seconds, 0 to 31536000 (a year)"
                                                     : "must be seconds, 1 to 31536000 (a year)");
        *all[i].ms = seconds * 1000;
    }
    return 0;
}

/* Of the target that CKPT_SERVER_DIR names. */
static int take_restores(struct config *config, struct err *err)
{
    const char *value = config->htcondor.MAX_RESTORE_PROCESSES;
    uint64_t number;

    if (value[0] == '\0')
        return 0;
    if (config->htcondor.CKPT_SERVER_DIR[0] == '\0')
        return htcondor_complain(config, "MAX_RESTORE_PROCESSES", err,
                                 "is `max_restores` of each of `targets`: so many parts of jobs "
                                 "read from it at a time");
    if (!number_of(value, 1, FSM_RESTORES_MAX, &number))
        return htcondor_complain(config, "MAX_RESTORE_PROCESSES", err,
                                 "must be a number, 1 to 1048576");
    config->targets[0].max_restores = (uint32_t)number;
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

int config_take_htcondor(struct config *config, struct err *err)
{
    const struct htcondor_names *given = &config->htcondor;
    const struct htcondor_refusal *refused;
    uint32_t value = 1;

    if (!htcondor_given(given))
        return 0;
    refused = htcondor_refused(given, refusals, ARRAY_COUNT(refusals));
    if (refused != NULL)
        return htcondor_complain(config, refused->name, err, refused->instead);
    if (given->USE_CKPT_SERVER[0] != '\0' &&
        take_boolean(config, "USE_CKPT_SERVER", given->USE_CKPT_SERVER, &value, err) != 0)
        return -1;
    if (value == 0)
        return htcondor_complain(config, "USE_CKPT_SERVER", err,
                                 "is said of each job: ckptctl register --strategy NONE");
    if (given->STARTER_CHOOSES_CKPT_SERVER[0] != '\0') {
        if (take_boolean(config, "STARTER_CHOOSES_CKPT_SERVER", given->STARTER_CHOOSES_CKPT_SERVER,
                         &value, err) != 0)
            return -1;
        config->policy.node_chooses_target = value;
    }
    if (take_seconds(config, err) != 0)
        return -1;
    if (given->CKPT_SERVER_DEBUG[0] != '\0' && take_debug(config, err) != 0)
        return -1;
    if (given->CKPT_SERVER_DIR[0] != '\0' && take_server_dir(config, err) != 0)
        return -1;
    if (take_restores(config, err) != 0)
        return -1;
    if (config->target_count == 0)
        return htcondor_complain(
            config, "CKPT_SERVER_DIR", err,
            "is not given, and `targets` are not either: checkpoints need a folder");
    return 0;
}
