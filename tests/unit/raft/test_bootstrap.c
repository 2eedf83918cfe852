/* The bytes that a bootstrap and its start leave: the first log folder, as every later version must
 * be able to read it. The same for any seed: the founders agreed before, nothing else in it
 * is drawn, and no clock is in it. A change of it is a new version of the file that changes. */
#include "tests/support/test.h"
#include "tests/unit/raft/cluster.h"

enum { TEXT_BYTES = 8192, LINE_BYTES = 32 };

static const char expected[] =
    "founding 93\n"
    "    0 010000000000000000000000000000000000000000000000ea3b3a9fb5fe5ef7\n"
    "   32 4d00000000000000030100000000000000010000000000000002000000000000\n"
    "   64 000200000000000000030000000000000003000000000000004fca845f\n"
    "identity 44\n"
    "    0 434b505449444e540200000001000000000000000373696d4d00000000000000\n"
    "   32 00000000000000008e47d0a8\n"
    "reserve 1048576\n"
    "synced 4124\n"
    "    0 434b505453594e4301000000000000000000000000000000ef0f6cbc00000000\n"
    " 4096 434b505453594e4301000000000000000000000000000000ef0f6cbc\n"
    "vote 4140\n"
    "    0 434b5054564f5445010000000200000000000000010000000000000000000000\n"
    "   32 00000000000000007b3fa0e20000000000000000000000000000000000000000\n"
    " 4096 434b5054564f5445010000000200000000000000010000000000000000000000\n"
    " 4128 00000000000000007b3fa0e2\n"
    "wal-0000000000000001 2097152\n"
    "    0 434b505457414c31010000000000000001000000000000000000000000000000\n"
    "   32 00000000000000000000000000000000000000000000000000000000387d6671\n"
    "   64 5d83b3b830000000010000000000000001000000000000000300000000000000\n"
    "   96 01030000000000000001000000000000006e31000102000000000000006e3200\n"
    "  128 0103000000000000006e33000100000000000000000000000000000000000000\n";

/* Name, size, and the lines of the content that are not all zeros, in hexadecimal. */
static void dump_file(struct cluster *cluster, const char *name, char *text)
{
    static const uint8_t zeros[LINE_BYTES];
    size_t size, used = strlen(text);
    const uint8_t *bytes = sim_file(cluster->sim, 0, name, &size);

    used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s %zu\n", name, size);
    for (size_t at = 0; at < size; at += LINE_BYTES) {
        size_t length = size - at < LINE_BYTES ? size - at : LINE_BYTES;

        if (memcmp(bytes + at, zeros, length) == 0)
            continue;
        assert_true(used + 3 * LINE_BYTES < TEXT_BYTES);
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%5zu ", at);
        for (size_t i = 0; i < length; i++)
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%02x", bytes[at + i]);
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "\n");
    }
}

static void a_bootstrap_writes_the_same_bytes_as_ever(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct cluster *cluster = cluster_new(seed, 3);
        char text[TEXT_BYTES] = "";
        const char *name;

        cluster_start(cluster, 0, true);
        cluster_kill(cluster, 0);
        for (unsigned i = 0; (name = sim_file_name(cluster->sim, 0, "", i)) != NULL; i++)
            dump_file(cluster, name, text);
        if (strcmp(text, expected) != 0)
            fprintf(stderr, "it writes:\n%s", text);
        assert_string_equal(text, expected);
        cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bootstrap_writes_the_same_bytes_as_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
