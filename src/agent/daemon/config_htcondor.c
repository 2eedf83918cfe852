/* HTCondor's names on a node. See config_htcondor.h. */
#include "src/agent/daemon/config_htcondor.h"

#include <string.h>
#include <strings.h>

#include "src/agent/daemon/config.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"

#define OF_SERVER "is not of this file: the control nodes have it, section htcondor of ckptd.yaml"

static const struct htcondor_refusal refusals[] = {
    {"CKPT_SERVER_DIR", OF_SERVER},
    {"STARTER_CHOOSES_CKPT_SERVER", OF_SERVER},
    {"MAX_DISCARDED_RUN_TIME", OF_SERVER},
    {"CKPT_SERVER_DEBUG", "is not of this file: the agent's own is `log_level`"},
    {"CKPT_SERVER_LOG", "has no counterpart: messages go to stderr, which systemd's journal keeps"},
    {"MAX_CKPT_SERVER_LOG", "has no counterpart: the journal rotates, SystemMaxUse of "
                            "journald.conf"},
    {"DAEMON_LIST", "has no counterpart: systemd supervises the daemons, deploy/systemd"},
    {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF", OF_SERVER},
    {"CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL", OF_SERVER},
    {"APPEND_REQ_STANDARD", "is said of each job: ckptctl register --domain-rule REQUIRED"},
    {"APPEND_RANK_STANDARD", "is said of each job: ckptctl register --domain-rule PREFERRED"},
    {"MAX_STORE_PROCESSES", OF_SERVER},
    {"MAX_RESTORE_PROCESSES", OF_SERVER},
};

static int htcondor_complain(const struct agent_config *config, const char *name, struct err *err,
                             const char *text)
{
    return settings_complain(&config->settings, AGENT_HTCONDOR, name, 0, err, text);
}

/* True is how it is here. */
static int take_use(const struct agent_config *config, struct err *err)
{
    const char *value = config->htcondor.USE_CKPT_SERVER;

    if (value[0] == '\0' || strcasecmp(value, "True") == 0)
        return 0;
    return htcondor_complain(config, "USE_CKPT_SERVER", err,
                             strcasecmp(value, "False") == 0
                                 ? "is said of each job: ckptctl register --strategy NONE"
                                 : "must be True or False");
}

/* What the ad has of the server is told with the domain; other attributes are for nobody here. */
static int take_attributes(const struct agent_config *config, struct err *err)
{
    char all[AGENT_TEXT_MAX_BYTES + 1];
    char *rest = all;

    text_copy(all, sizeof(all), config->htcondor.STARTD_ATTRS);
    for (char *one; (one = strsep(&rest, ", ")) != NULL;)
        if (one[0] != '\0' && strcmp(one, "CkptServer") != 0 && strcmp(one, "$(STARTD_ATTRS)") != 0)
            return htcondor_complain(config, "STARTD_ATTRS", err,
                                     "names more than CkptServer, which is told as the node's "
                                     "domain: nobody here reads other attributes");
    return 0;
}

/* Both say the same, or one of them does. */
static int take_server(struct agent_config *config, struct err *err)
{
    const char *host = config->htcondor.CKPT_SERVER_HOST, *attribute = config->htcondor.CkptServer;
    const char *name = host[0] == '\0' ? "CkptServer" : "CKPT_SERVER_HOST";
    const char *domain = host[0] == '\0' ? attribute : host;

    if (domain[0] == '\0')
        return 0;
    if (host[0] != '\0' && attribute[0] != '\0' && strcmp(attribute, host) != 0 &&
        strcmp(attribute, "$(CKPT_SERVER_HOST)") != 0)
        return htcondor_complain(config, "CkptServer", err, "is not CKPT_SERVER_HOST");
    if (settings_given(&config->settings, 0, "domain"))
        return htcondor_complain(config, name, err,
                                 "and `domain` are given: the node's domain is one of them");
    if (!id_valid(domain))
        return htcondor_complain(config, name, err,
                                 "must be the name of a host, 1 to 128 characters of A-Z a-z 0-9 . "
                                 "_ -: the domain of a storage target (ckptctl targets -o wide)");
    return settings_set_flag(&config->settings, "domain", name, domain, err);
}

int agent_config_take_htcondor(struct agent_config *config, struct err *err)
{
    const struct htcondor_refusal *refused;

    if (!htcondor_given(&config->htcondor))
        return 0;
    refused = htcondor_refused(&config->htcondor, refusals, ARRAY_COUNT(refusals));
    if (refused != NULL)
        return htcondor_complain(config, refused->name, err, refused->instead);
    if (take_use(config, err) != 0 || take_attributes(config, err) != 0)
        return -1;
    return take_server(config, err);
}
