/* Runs a libFuzzer target without libFuzzer: seeded mutations of the target's own starting inputs,
 * for a bounded time.
 *
 * Flow     main() draws or takes a seed (SEED=n), mutates, calls LLVMFuzzerTestOneInput, keeps
 *          interesting lengths. FUZZ_SECONDS (2) bounds it. The seed is printed first: the same
 *          seed replays the same inputs.
 * Absent   coverage guidance: `make fuzz F=...` runs the same target under libFuzzer.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
/* A target may offer valid inputs to mutate: returns the length of the i-th, 0 when there are no
 * more. */
__attribute__((weak)) size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

enum { INPUT_MAX = 1 << 16, CORPUS_MAX = 256 };

static uint8_t input[INPUT_MAX];
static uint8_t corpus[CORPUS_MAX][4096];
static size_t corpus_lengths[CORPUS_MAX];
static size_t corpus_count;
static uint64_t state;

static uint64_t draw(void)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t mutate(size_t length)
{
    for (uint64_t times = 1 + draw() % 8; times > 0; times--) {
        size_t at = length == 0 ? 0 : draw() % length;
        switch (draw() % 6) {
        case 0:
            if (length > 0)
                input[at] ^= (uint8_t)(1u << draw() % 8);
            break;
        case 1:
            if (length > 0)
                input[at] = (uint8_t)draw();
            break;
        case 2:
            length = length == 0 ? 0 : draw() % length;
            break;
        case 3:
            if (length + 8 < INPUT_MAX) {
                memmove(input + at + 8, input + at, length - at);
                for (int i = 0; i < 8; i++)
                    input[at + (size_t)i] = (uint8_t)draw();
                length += 8;
            }
            break;
        case 4:
            if (length > 0)
                memset(input + at, draw() % 2 ? 0xff : 0, (length - at) < 10 ? length - at : 10);
            break;
        default:
            if (length > 1 && length * 2 < INPUT_MAX) {
                memcpy(input + length, input, length - at);
                length += length - at;
            }
        }
    }
    return length;
}

static size_t start(void)
{
    if (corpus_count > 0 && draw() % 8 != 0) {
        size_t i = draw() % corpus_count;
        memcpy(input, corpus[i], corpus_lengths[i]);
        return corpus_lengths[i];
    }
    size_t length = draw() % 512;
    for (size_t i = 0; i < length; i++)
        input[i] = (uint8_t)draw();
    return length;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    const char *seconds = getenv("FUZZ_SECONDS");
    const char *seed = getenv("SEED");
    double end = now_s() + (seconds != NULL ? atof(seconds) : 2);
    uint64_t runs = 0;

    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    state = seed != NULL ? strtoull(seed, NULL, 10)
                         : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    fprintf(stderr, "SEED=%llu\n", (unsigned long long)state);
    while (fuzz_seed_input != NULL && corpus_count < CORPUS_MAX &&
           (corpus_lengths[corpus_count] =
                fuzz_seed_input(corpus_count, corpus[corpus_count], sizeof(corpus[0]))) > 0)
        LLVMFuzzerTestOneInput(corpus[corpus_count], corpus_lengths[corpus_count]), corpus_count++;
    do {
        for (int i = 0; i < 64; i++, runs++)
            LLVMFuzzerTestOneInput(input, mutate(start()));
    } while (now_s() < end);
    printf("ok %s %llu runs\n", strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0],
           (unsigned long long)runs);
    return 0;
}
