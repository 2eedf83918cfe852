/* Changes of ckptd.yaml that a reload does not take. */
#ifndef CKPT_BROKER_CONFIG_RELOAD_H
#define CKPT_BROKER_CONFIG_RELOAD_H

#include <stddef.h>

struct config;

/* A warning for each key that is another one than at the start and that no reload takes, with what
 * takes it. Returns how many. */
size_t config_warn_untaken(const struct config *started, const struct config *read);

#endif
