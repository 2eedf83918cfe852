/* Defaults of a channel; the simulator's channels have the same. See client.h. */
#include "src/rpc/client.h"

struct rpc_channel_config rpc_channel_config_filled(const struct rpc_channel_config *config)
{
    struct rpc_channel_config filled = {0};

    if (config != NULL)
        filled = *config;
    if (filled.connect_timeout_ms == 0)
        filled.connect_timeout_ms = 2000;
    if (filled.backoff_min_ms == 0)
        filled.backoff_min_ms = 50;
    if (filled.backoff_max_ms == 0)
        filled.backoff_max_ms = 1000;
    if (filled.keepalive_ms == 0)
        filled.keepalive_ms = 2000;
    if (filled.message_max_bytes == 0)
        filled.message_max_bytes = 4 << 20;
    return filled;
}
