/* See audit_key.h. */
#include "src/broker/keep/audit_key.h"

#include <stdio.h>

#include "src/base/check.h"
#include "src/base/log.h"

int audit_key_load(const struct config *config, struct sign_key **ret_key, struct err *err)
{
    *ret_key = NULL;
    if (config->audit_key[0] == '\0')
        return 0;
    return sign_key_load(config->audit_key, ret_key, err) == 0 ? 0 : err_wrap(err, "audit: key");
}

bool audit_key_reload(struct broker *broker, const struct config *config)
{
    struct sign_key *key;
    struct err err;

    if (audit_key_load(config, &key, &err) != 0) {
        log_error("audit_key_failed", "text=\"%s\" remark=\"the old key stays in use\"", err.text);
        return false;
    }
    sign_key_free(broker->audit_key);
    broker->audit_key = key;
    audit_key_warn(broker);
    return true;
}

bool audit_key_wanted(const struct broker *broker)
{
    return broker->audit_key == NULL && broker->config->tls_ca != NULL &&
           broker->config->tls_ca[0] != '\0';
}

void audit_key_warn(const struct broker *broker)
{
    if (broker->audit_key != NULL)
        log_info("audit_key", "key=%s text=\"heads of the audit trail are signed\"",
                 sign_key_id(broker->audit_key));
    else if (audit_key_wanted(broker))
        log_warning("audit_unsigned",
                    "text=\"THE AUDIT TRAIL IS NOT SIGNED: whoever can write the files of this "
                    "member can write another history; set audit: {key: PATH}\"");
}

void audit_key_head(const struct broker *broker, struct signed_head *ret_head)
{
    const struct config *config = broker->config;

    *ret_head = (struct signed_head){.at_ms = broker_wall_ms(broker)};
    snprintf(ret_head->cluster, sizeof(ret_head->cluster), "%s", config->cluster_id);
    snprintf(ret_head->member, sizeof(ret_head->member), "%s", config->self->name);
}

bool audit_key_sign(const struct broker *broker, const struct fsm_audit *audit, uint64_t epoch,
                    struct signed_head *ret_head)
{
    if (broker->audit_key == NULL || audit->sequence < audit->oldest)
        return false;
    audit_key_head(broker, ret_head);
    ret_head->epoch = epoch;
    ret_head->first = audit->oldest;
    ret_head->last = audit->sequence;
    blake2b_text(audit->hash, ret_head->hash);
    signed_head_sign(ret_head, broker->audit_key);
    return true;
}
