/* Any bytes as the configuration file: refused with one line of text, or taken with every value
 * inside its limits. U2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/address.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void check_taken(const struct config *config)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    CHECK(stream != NULL);
    CHECK(id_valid(config->cluster_id));
    CHECK(config->member_count >= 1 && config->member_count <= CONFIG_MEMBERS_MAX);
    CHECK(config->target_count <= CONFIG_TARGETS_MAX);
    CHECK(config->heartbeat_ms * 3 <= config->election_ms);
    CHECK(config->policy.max_interval_ms >= config->policy.min_interval_ms);
    for (size_t i = 0; i < config->member_count; i++) {
        CHECK(id_valid(config->members[i].name));
        CHECK(config->insecure || config->tls_ca[0] != '\0' ||
              address_is_loopback(config->members[i].api));
        CHECK(config->insecure || config->members[i].http[0] == '\0' ||
              address_is_loopback(config->members[i].http));
    }
    for (size_t i = 0; i < config->target_count; i++)
        CHECK(config->targets[i].prefix[0] == '/');
    config_print(config, stream);
    fclose(stream);
    CHECK(size > 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct config_flags flags = {.name = NULL};
    struct config *config = NULL;
    struct err err = {ERR_NONE, ""};

    if (config_parse("fuzz", (const char *)bytes, length, &flags, &config, &err) == 0) {
        check_taken(config);
        config_free(config);
    } else {
        CHECK(config == NULL && err.code == ERR_INVALID && err.text[0] != '\0');
    }
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const seeds[] = {
        "cluster_id: demo\nmembers:\n  - {id: 1, name: n1, raft: \"127.0.0.1:1\", api: "
        "\"127.0.0.1:2\"}\n",
        "cluster_id: demo\ndata_dir: /d\nmembers:\n  - id: 1\n    name: n1\n    raft: "
        "\"127.0.0.1:1\"\n    api: \"[::1]:2\"\ntimers: {election_ms: 1000, heartbeat: 100ms}\n"
        "policy: {grace: 5s, max_victims: 4}\ntargets:\n  - {id: a, kind: posix, prefix: /a, "
        "write_bytes_per_s: 1, default: yes}\nstorage_watch: {interval_ms: 200}\ninsecure: yes\n",
        "cluster_id: demo\nmembers:\n  - {id: 1, name: n1, raft: \"10.0.0.1:1\", api: "
        "\"10.0.0.1:2\", http: \"127.0.0.1:3\"}\ntls: {ca: /t/ca.crt, cert: /t/{id}.crt, key: "
        "\"/t/{id}.key\"}\n",
    };

    if (i >= sizeof(seeds) / sizeof(seeds[0]) || strlen(seeds[i]) > size)
        return 0;
    memcpy(bytes, seeds[i], strlen(seeds[i]));
    return strlen(seeds[i]);
}
