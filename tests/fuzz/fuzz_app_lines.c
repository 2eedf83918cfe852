/* Any bytes as what an agent says to libckptapp: the handle stays sound, whatever the application
 * does between two pieces. */
#include <string.h>

#include "src/app/handle.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void must(bool sound)
{
    if (!sound)
        __builtin_trap();
}

/* The first byte of a piece says how long it is and what the application does after it. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct ckpt ckpt;

    memset(&ckpt, 0, sizeof(ckpt));
    ckpt.descriptor = -1;
    ckptapp_copy(ckpt.work, sizeof(ckpt.work), "/work/of/a/job");
    while (length > 0) {
        size_t piece = (size_t)bytes[0] % 64 * 8;
        unsigned act = bytes[0] / 64;

        bytes++, length--;
        piece = piece < length ? piece : length;
        if (ckptapp_bytes_take(&ckpt, (const char *)bytes, piece) != 0) {
            must(ckpt.error[0] != '\0' && strchr(ckpt.error, '\n') == NULL);
            ckpt.line_length = 0; /* as a new stream has it */
        }
        bytes += piece, length -= piece;
        must(ckptapp_sound(&ckpt));
        if (act == 1 && (ckpt.asked == ASKED_HEARD || ckpt.asked == ASKED_DUE) &&
            ckpt.saving == SAVING_NOTHING) {
            ckptapp_take(&ckpt);
            must(strncmp(ckpt.directory, "/work/of/a/job/", 15) == 0);
            must(strstr(ckpt.directory, "/../") == NULL);
        } else if (act == 2 && ckpt.saving != SAVING_NOTHING) {
            ckptapp_saving_end(&ckpt, ckpt.saving == SAVING_NOW);
        } else if (act == 3 && ckpt.asked == ASKED_HEARD) {
            ckpt.asked = ASKED_TOLD;
        }
        must(ckptapp_sound(&ckpt));
    }
    return 0;
}

/* *length bytes so far; a piece of the whole text follows, after which the application acts. */
static void put_piece(uint8_t *bytes, size_t *length, unsigned act, const char *text)
{
    size_t eighths = (strlen(text) + 7) / 8;

    bytes[(*length)++] = (uint8_t)(act * 64 + eighths);
    memset(bytes + *length, ' ', eighths * 8);
    memcpy(bytes + *length, text, strlen(text));
    *length += eighths * 8;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const struct {
        unsigned act;
        const char *text;
    } pieces[][4] = {
        /* lines that fill their pieces */
        {{0, "ready 1 node-a1 0 2\nask 1-42-1 99 60000 out/1-42-1/rank-00000\n"},
         {3, "ask 1-42-1 99 60000 out/1-42-1/rank-000\n"},
         {1, "step 1-42-1 1271\nstep 1-42-1 1287654321\n"},
         {2, "withdrawn 1-42-1\nwithdrawn 1-42-11234\n"}},
        {{1, "ask 1-43-1 5 0 out/1-43-1/a%20b%2Fc\nask 1-4 5 0 a\n"},
         {2, ""},
         {0, "refused not%20yet123456\n"},
         {0, ""}},
        {{3, "ask 1-44-2 1 1 x/../y\n"},
         {1, "ready 2 n 0 1\n\n"},
         {0, "ask 1 2 3 /etc\n"},
         {0, "step 1-44-2 0\n"}},
    };
    size_t length = 0;

    if (i >= sizeof(pieces) / sizeof(*pieces) || size < 1024)
        return 0;
    for (size_t k = 0; k < 4; k++)
        put_piece(bytes, &length, pieces[i][k].act, pieces[i][k].text);
    return length;
}
