/* Texts of configuration files, as they are taken or refused. */
#ifndef CKPT_TEST_CONFIG_TEXT_H
#define CKPT_TEST_CONFIG_TEXT_H

#include "tests/support/test.h"

#include "src/broker/daemon/config.h"

#define HEAD "cluster_id: demo\n"
#define ONE                                                                                        \
    "members:\n"                                                                                   \
    "  - {id: 1, name: n1, raft: \"127.0.0.1:9000\", api: \"127.0.0.1:7443\", http: "              \
    "\"127.0.0.1:9104\"}\n"
#define THREE                                                                                      \
    ONE "  - {id: 2, name: n2, raft: \"127.0.0.1:9001\", api: \"127.0.0.1:7444\"}\n"               \
        "  - {id: 3, name: n3, raft: \"127.0.0.1:9002\", api: \"127.0.0.1:7445\"}\n"

static const struct config_flags n1 = {.name = "n1"};

static inline struct config *take(const char *text, const struct config_flags *flags)
{
    struct config *config = NULL;
    struct err err = {ERR_NONE, ""};

    if (config_parse("f.yaml", text, strlen(text), flags, &config, &err) != 0)
        fail_msg("refused: %s", err.text);
    assert_non_null(config);
    return config;
}

static inline void refuse(const char *text, const struct config_flags *flags,
                          const char *const *expected)
{
    struct config *config = NULL;
    struct err err = {ERR_NONE, ""};

    if (config_parse("f.yaml", text, strlen(text), flags, &config, &err) == 0)
        fail_msg("taken:\n%s", text);
    assert_int_equal(err.code, ERR_INVALID);
    assert_null(config);
    assert_null(strstr(err.text, "secret")); /* what may be a password is never shown */
    for (; *expected != NULL; expected++) {
        if (strstr(err.text, *expected) == NULL)
            fail_msg("'%s' is not in: %s", *expected, err.text);
    }
}

#endif
