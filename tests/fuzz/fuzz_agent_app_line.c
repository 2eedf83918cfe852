/* Any bytes as lines of a rank or of an agent: what is taken is written as a line that reads the
 * same, and what is refused has a text that can be said in a line. */
#include <stdint.h>
#include <string.h>

#include "src/agent/app/app_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void must(bool sound)
{
    if (!sound)
        __builtin_trap();
}

static void read_again(const struct app_line *line, enum app_line_side from)
{
    struct app_line_input input = {.length = 0};
    struct app_line again;
    char text[APP_LINE_BYTES], twice[APP_LINE_BYTES];
    size_t length = app_line_format(line, text), left = length;
    const uint8_t *bytes = (const uint8_t *)text;

    if (length == 0) { /* only one with more %XX than the first line had */
        must(line->verb == APP_LINE_ASK || line->verb == APP_LINE_REFUSED);
        return;
    }
    must(length <= APP_LINE_BYTES && text[length - 1] == '\n');
    must(app_line_next(&input, from, &bytes, &left, &again, NULL) == 1 && left == 0);
    must(again.verb == line->verb && strcmp(again.id, line->id) == 0);
    must(again.rank == line->rank && again.local_rank == line->local_rank);
    must(again.step == line->step && again.ns_per_step == line->ns_per_step);
    must(strcmp(again.hint, line->hint) == 0 && strcmp(again.folder, line->folder) == 0);
    must(app_line_format(&again, twice) == length && memcmp(text, twice, length) == 0);
}

/* The first byte says who speaks and how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct app_line_input input = {.length = 0};

    if (length == 0)
        return 0;
    enum app_line_side from = bytes[0] & 1 ? APP_LINE_FROM_AGENT : APP_LINE_FROM_RANK;
    size_t piece = (size_t)(bytes[0] >> 1) * 8 + 1;

    for (bytes++, length--; length > 0;) {
        size_t more = piece < length ? piece : length, left = more;

        while (left > 0) {
            struct app_line line;
            struct err err = {.text = ""};
            int found = app_line_next(&input, from, &bytes, &left, &line, &err);

            must(input.length < APP_LINE_BYTES);
            must(found != 0 || left == 0);
            if (found == 1)
                read_again(&line, from);
            if (found >= 0)
                continue;
            struct app_line refused = {.verb = APP_LINE_REFUSED};
            strncpy(refused.text, err.text, sizeof(refused.text) - 1);
            must(refused.text[0] != '\0' && strchr(refused.text, '\n') == NULL);
            read_again(&refused, APP_LINE_FROM_AGENT);
            return 0;
        }
        length -= more;
    }
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const seeds[] = {
        "\x20hello 1 j1 77 3 1 4 2 barrier\nat 1-42-1 128 250000\nmissed 1-42-1 131\n",
        "\x06hello 1 job-2 5 0 - - - plain\ndone 1-42-1\ndefer 1-42-2 5000\nprogress 1-42-3 7\n",
        "\x21ready 1 node-a 0 2\nask 1-42-1 1700000000000 60000 out/1-42-1/rank-00003\n",
        "\x07step 1-42-1 131\nwithdrawn 1-42-1\nrefused no%20such%20job%C3%BC%0A\n",
    };

    if (i >= sizeof(seeds) / sizeof(*seeds) || strlen(seeds[i]) > size)
        return 0;
    memcpy(bytes, seeds[i], strlen(seeds[i]));
    return strlen(seeds[i]);
}
