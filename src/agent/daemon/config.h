/* The agent's configuration: a YAML file of plain keys, overridden by flags.
 *
 * Flow     config_parse() (a text) or config_load() (a file); then flags; then config_check().
 * Shapes   `tls: {ca: FILE, cert: FILE, key: FILE}` is the only key with keys below it.
 * Errors   an unknown key, a repeated one or a value out of range is refused with its line and the nearest known key.
 * Absent   libcyaml: it does not keep the line of a value; libyaml, on which it stands, does.
 */
#ifndef CKPT_AGENT_CONFIG_H
#define CKPT_AGENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/log.h"

enum { CONFIG_TEXT_BYTES = 1024, CONFIG_FILE_MAX_BYTES = 1 << 16, CONFIG_SOCKET_MAX_BYTES = 107 };

struct agent_config {
    char brokers[CONFIG_TEXT_BYTES];
    char state_dir[CONFIG_TEXT_BYTES];
    char socket[CONFIG_TEXT_BYTES];
    char http[CONFIG_TEXT_BYTES]; /* "": no HTTP side port */
    bool insecure;                /* http may be more than a loopback address */
    /* PEM files, "{name}" in the last two is the node's name; "": no TLS */
    char tls_ca[CONFIG_TEXT_BYTES], tls_cert[CONFIG_TEXT_BYTES], tls_key[CONFIG_TEXT_BYTES];
    char sysfs[CONFIG_TEXT_BYTES]; /* where the kernel's is mounted; "": no sensors are read */
    bool owners_register;          /* users register jobs of their own on this node */
    uint64_t heartbeat_ms;
    enum log_level log_level;
};

void config_defaults(struct agent_config *ret_config);
/* name is for messages. */
int config_parse(const char *name, const char *text, size_t length, struct agent_config *config,
                 struct err *err);
int config_load(const char *path, struct agent_config *config, struct err *err);
int config_check(const struct agent_config *config, struct err *err);

#endif
