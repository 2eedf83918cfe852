/* Keys that need more than a reload. See config_reload.h. */
#include "src/broker/daemon/config_reload.h"

#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/daemon/config.h"
#include "src/broker/daemon/config_keys.h"

static bool is_taken(unsigned section, const char *key)
{
    return section == CONFIG_TELEMETRY || section == CONFIG_HEALTH || section == CONFIG_STORES ||
           section == CONFIG_AUDIT ||
           (section == CONFIG_ROOT &&
            (strcmp(key, "log_level") == 0 || strcmp(key, "log_format") == 0)) ||
           (section == CONFIG_HTCONDOR && strcmp(key, "CKPT_SERVER_DEBUG") == 0);
}

static void warn_untaken(void *data, unsigned section, const char *key, const char *path)
{
    size_t *count = data;

    if (is_taken(section, key))
        return;
    ++*count;
    log_warning("reload_ignored_key", "key=%s text=\"%s\"", path,
                section == CONFIG_POLICY    ? "it is of a new cluster alone: ckptctl policy set"
                : section == CONFIG_TARGETS ? "it is of a new cluster alone: ckptctl target put"
                : section == CONFIG_HTCONDOR
                    ? "it needs a restart; what is of the policy or a target is of a new cluster "
                      "alone: ckptctl policy set, ckptctl target put"
                    : "it needs a restart");
}

size_t config_warn_untaken(const struct config *started, const struct config *read)
{
    size_t count = 0;

    settings_compare(&started->settings, &read->settings, warn_untaken, &count);
    return count;
}
