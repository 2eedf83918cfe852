/* Any bytes as a map of names: what is taken is found again, and its names can stand in a URL. */
#include <string.h>

#include "src/base/check.h"
#include "src/telemetry/map.h"
#include "src/telemetry/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct map map;
    struct err err;
    char url[512];

    if (map_parse("names", (const char *)bytes, length, &map, &err) != 0)
        return 0;
    for (size_t i = 0; i < map.row_count; i++) {
        const char *node = map_find(&map, map.rows[i].name);

        CHECK(node != NULL && strcmp(node, map.rows[i].node) == 0);
        CHECK(source_url("https://{host}/redfish", map.rows[i].name, url, sizeof(url)) == url);
        CHECK(strpbrk(url + strlen("https://"), "@?#\\ \t") == NULL);
    }
    map_close(&map);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char seed[] = "# nodes\nn1 10.0.0.1:8443 x1000c0s0b0n0\n\tn2  bmc-2 # two\r\n"
                               "n3 [fe80::1]:443\n";

    if (i > 0 || sizeof(seed) - 1 > size)
        return 0;
    memcpy(bytes, seed, sizeof(seed) - 1);
    return sizeof(seed) - 1;
}
