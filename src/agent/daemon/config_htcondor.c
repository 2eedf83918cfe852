/* HTCondor's names on a node. See config_htcondor.h. */
#include "src/agent/daemon/config_htcondor.h"

#include <string.h>

#include "src/agent/daemon/config.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"

#define OF_SERVER "the control nodes have it, section htcondor of ckptd.yaml"

static const struct htcondor_idle idle[] = {
    {"CKPT_SERVER_DIR", OF_SERVER},
    {"STARTER_CHOOSES_CKPT_SERVER", OF_SERVER},
    {"MAX_DISCARDED_RUN_TIME", OF_SERVER},
    {"CKPT_SERVER_DEBUG", "the agent's own is `log_level`"},
    {"CKPT_SERVER_LOG", "it is the server's, the agent's messages go to the journal"},
    {"MAX_CKPT_SERVER_LOG", "it is the server's, the journal rotates by SystemMaxUse"},
    {"DAEMON_LIST", "systemd supervises the daemons, deploy/systemd"},
    {"CKPT_SERVER_STALE_CKPT_AGE_CUTOFF", OF_SERVER},
    {"CKPT_SERVER_REMOVE_STALE_CKPT_INTERVAL", OF_SERVER},
    {"APPEND_REQ_STANDARD", OF_SERVER},
    {"APPEND_RANK_STANDARD", OF_SERVER},
    {"MAX_STORE_PROCESSES", OF_SERVER},
    {"MAX_RESTORE_PROCESSES", OF_SERVER},
};

static int htcondor_complain(const struct agent_config *config, const char *name, struct err *err,
                             const char *text)
{
    return settings_complain(&config->settings, AGENT_HTCONDOR, name, 0, err, text);
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
                                 "must be the name of a host, " ID_FORM ": the domain of a storage "
                                 "target (ckptctl targets -o wide)");
    return settings_set_flag(&config->settings, "domain", name, domain, err);
}

int agent_config_take_htcondor(struct agent_config *config, struct err *err)
{
    const char *use = config->htcondor.USE_CKPT_SERVER;
    bool used = true;

    if (!htcondor_given(&config->htcondor))
        return 0;
    if (use[0] != '\0' && !htcondor_boolean(use, &used))
        return htcondor_complain(config, "USE_CKPT_SERVER", err, "must be True or False");
    return used ? take_server(config, err) : 0;
}

/* What a machine's ad has of its server is the domain; nobody here reads other attributes. */
static bool names_others(const char *attributes)
{
    char all[AGENT_TEXT_MAX_BYTES + 1];
    char *rest = all;

    text_copy(all, sizeof(all), attributes);
    for (char *one; (one = strsep(&rest, ", ")) != NULL;)
        if (one[0] != '\0' && strcmp(one, "CkptServer") != 0 && strcmp(one, "$(STARTD_ATTRS)") != 0)
            return true;
    return false;
}

void agent_config_warn_htcondor(const struct agent_config *config, FILE *to)
{
    const struct htcondor_names *given = &config->htcondor;
    bool used = true;

    htcondor_warn(given, idle, ARRAY_COUNT(idle), to);
    if (names_others(given->STARTD_ATTRS))
        fprintf(to, "warning: htcondor.STARTD_ATTRS: of its attributes CkptServer alone is told, "
                    "as the node's domain\n");
    (void)htcondor_boolean(given->USE_CKPT_SERVER, &used);
    if (given->USE_CKPT_SERVER[0] != '\0' && !used &&
        (given->CKPT_SERVER_HOST[0] != '\0' || given->CkptServer[0] != '\0'))
        fprintf(to,
                "warning: htcondor.%s has no effect here: USE_CKPT_SERVER is False, the node is of "
                "no domain but `domain`\n",
                given->CKPT_SERVER_HOST[0] != '\0' ? "CKPT_SERVER_HOST" : "CkptServer");
}
