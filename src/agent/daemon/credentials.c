/* The agent's certificate. See credentials.h. */
#include "src/agent/daemon/credentials.h"

#include <stdio.h>
#include <string.h>

#include "src/base/address.h"
#include "src/base/text.h"
#include "src/serve/keys.h"

/* "127.0.0.1:7443,localhost:7444": on this host only. */
static bool stays_on_host(const char *brokers)
{
    char all[AGENT_TEXT_MAX_BYTES + 1];
    char *rest = all;

    text_copy(all, sizeof(all), brokers);
    for (char *one; (one = strsep(&rest, ", ")) != NULL;) {
        if (one[0] != '\0' && strncmp(one, "unix:", 5) != 0 && !address_is_loopback(one))
            return false;
    }
    return true;
}

int credentials_open(struct certificates *ret_certificates, const struct agent_config *config,
                     const char *node, struct err *err)
{
    const struct certificates_files files = {config->tls_ca, config->tls_cert, config->tls_key,
                                             "{name}", node};
    struct tls_identity own = {.kind = TLS_AGENT};

    *ret_certificates =
        (struct certificates){.whose = node, .renewal = "issue agent NODE --replace"};
    snprintf(own.name, sizeof(own.name), "%s", node);
    return certificates_load(ret_certificates, &files, &own, err);
}

int credentials_open_stores(const struct agent_config *config, struct err *err)
{
    return s3_stores_open(config->stores, config->store_count, keys_told, err);
}

void credentials_warn(const struct agent_config *config)
{
    if (config->tls_ca[0] == '\0' && !stays_on_host(config->brokers))
        log_warning("insecure",
                    "text=\"TLS IS OFF: whoever answers at %s can end the jobs of this node; "
                    "set tls, or restrict the network\"",
                    config->brokers);
}
