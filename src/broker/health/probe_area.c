/* Nodes that are near each other. See probe_area.h. */
#include "src/broker/health/probe_area.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/crc32c.h"

enum { DOMAINS = 1, SUBNETS_4 = 2, SUBNETS_6 = 3, SUBNET_4_BYTES = 3, SUBNET_6_BYTES = 8 };

static uint64_t key_of(uint64_t kind, const void *bytes, size_t length)
{
    return kind << 32 | crc32c((uint32_t)kind, bytes, length);
}

uint64_t probe_area_key(const char *domain, const char *host)
{
    uint8_t address[sizeof(struct in6_addr)] = {0};

    if (domain[0] != '\0')
        return key_of(DOMAINS, domain, strlen(domain));
    if (inet_pton(AF_INET, host, address) == 1)
        return key_of(SUBNETS_4, address, SUBNET_4_BYTES);
    (void)inet_pton(AF_INET6, host, address); /* zeros for what is no address */
    return key_of(SUBNETS_6, address, SUBNET_6_BYTES);
}

void probe_areas_begin(struct probe_areas *areas, uint32_t nodes, uint32_t allowed)
{
    size_t capacity = 16;

    while (capacity < 2 * (size_t)nodes)
        capacity *= 2;
    if (capacity != areas->capacity) {
        free(areas->items);
        areas->items = check_calloc(capacity, sizeof(*areas->items));
        areas->capacity = capacity;
    } else {
        memset(areas->items, 0, capacity * sizeof(*areas->items));
    }
    areas->all = (struct probe_area){.allowed = allowed};
    for (size_t i = 0; i < capacity; i++)
        areas->items[i].allowed = allowed;
}

void probe_areas_free(struct probe_areas *areas)
{
    free(areas->items);
    *areas = (struct probe_areas){.capacity = 0};
}

struct probe_area *probe_areas_at(struct probe_areas *areas, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (areas->capacity - 1);

    CHECK(key != 0 && areas->capacity > 0);
    while (areas->items[at].key != 0 && areas->items[at].key != key)
        at = (at + 1) & (areas->capacity - 1);
    areas->items[at].key = key;
    return &areas->items[at];
}

void probe_area_add(struct probe_area *area, const char *host, uint64_t answer_us)
{
    size_t place =
        strcmp(area->newest[0].host, host) == 0   ? 0
        : strcmp(area->newest[1].host, host) == 0 ? 1
        : area->newest[0].host[0] == '\0'         ? 0
        : area->newest[1].host[0] == '\0' || area->newest[1].answer_us < area->newest[0].answer_us
            ? 1
            : 0;
    bool same = strcmp(area->newest[place].host, host) == 0;

    CHECK(host[0] != '\0');
    if (area->newest[place].host[0] != '\0' && area->newest[place].answer_us >= answer_us)
        return;
    if (!same)
        snprintf(area->newest[place].host, PROBE_HOST_BYTES, "%s", host);
    area->newest[place].answer_us = answer_us;
}

bool probe_area_has_other(const struct probe_area *area, const char *host)
{
    for (size_t i = 0; i < 2; i++)
        if (area->newest[i].host[0] != '\0' && strcmp(area->newest[i].host, host) != 0)
            return true;
    return false;
}

bool probe_area_answered(const struct probe_area *area, const char *host, uint64_t after_us)
{
    for (size_t i = 0; i < 2; i++)
        if (area->newest[i].answer_us > after_us && strcmp(area->newest[i].host, host) != 0)
            return true;
    return false;
}
