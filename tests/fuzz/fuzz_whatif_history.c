/* Any bytes as a history: refused with a reason, or taken, and then written and read again the
 * same. Never a crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/whatif/whatif.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static int parse(char *text, size_t length, struct whatif_scenario *scenario,
                 struct whatif_history *history, struct err *err)
{
    FILE *in = fmemopen(text, length, "r");
    int rc;

    CHECK(in != NULL);
    rc = whatif_history_parse(in, "fuzz", scenario, history, err);
    fclose(in);
    return rc;
}

static void write_and_read_again(const struct whatif_scenario *scenario,
                                 const struct whatif_history *history)
{
    struct whatif_scenario other;
    struct whatif_history again;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct err err;

    CHECK(out != NULL);
    whatif_history_write(out, scenario, history);
    fclose(out);
    whatif_scenario_init(&other);
    CHECK(parse(text, length, &other, &again, &err) == 0);
    CHECK(again.job_count == history->job_count);
    CHECK(again.event_count == history->event_count);
    CHECK(other.cycle_s == scenario->cycle_s);
    whatif_history_close(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct whatif_scenario scenario;
    struct whatif_history history;
    char *text = check_alloc(length + 1);
    struct err err = {0};
    int rc;

    memcpy(text, bytes, length);
    text[length] = '\0';
    whatif_scenario_init(&scenario);
    rc = parse(text, length + 1, &scenario, &history, &err);
    CHECK(rc == 0 || rc == 1 || (rc == -1 && err.text[0] != '\0'));
    if (rc == 0) {
        write_and_read_again(&scenario, &history);
        whatif_history_close(&history);
    }
    free(text);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const seeds[] = {
        "ckpt-history 1\nwindow 86400 1700000000000\nset cycle_s 30\njob 0 - 2 16 2e12 3e9 0\n"
        "job 10.5 2000 1 8 1e9 1e9 63\nevent 5 failure 0\nevent 6 storage-down\nevent 7 "
        "storage-up\n"
        "event 8 queue-busy 63\nevent 9 kill 1\n",
        "node,start_day\n1,2\n"};

    if (i >= ARRAY_COUNT(seeds) || strlen(seeds[i]) > size)
        return 0;
    memcpy(bytes, seeds[i], strlen(seeds[i]));
    return strlen(seeds[i]);
}
