/* One rank with threads that mix a table of numbers, each its share of it in steps.
 *
 *     threads_app CELLS STEPS THREADS [MS_PER_STEP]
 *
 * The first thread polls between two steps, while the others wait for it, and saves the whole. The
 * result is the same with any number of threads and restarts.
 */
#include <pthread.h>
#include <time.h>

#include "tests/support/program.h"

enum { THREADS_MAX = 64 };

static uint64_t cells, steps, first_step, pause_ms, threads;
static uint64_t *now, *next;
static pthread_barrier_t together;
static struct ckpt *ckpt;

static void save(uint64_t step)
{
    struct piece piece = {step, 0, cells, sizeof(*now)};
    uint64_t bytes;

    if (piece_save(ckpt_directory(ckpt), &piece, now, &bytes) != 0)
        ckpt_failed(ckpt, "cannot write the cells");
    else if (ckpt_done(ckpt, step, bytes) != 0)
        fprintf(stderr, "not saved: %s\n", ckpt_error(ckpt));
}

static void *compute(void *data)
{
    uint64_t self = (uint64_t)(uintptr_t)data;
    struct timespec pause = {(time_t)(pause_ms / 1000), (long)(pause_ms % 1000) * 1000000};

    for (uint64_t step = first_step; step <= steps; step++) {
        if (self == 0 && ckpt_poll(ckpt) == CKPT_NOW)
            save(step);
        pthread_barrier_wait(&together);
        for (uint64_t i = cells * self / threads; i < cells * (self + 1) / threads; i++)
            next[i] = (now[i] ^ now[(i + 1) % cells] >> 7) * UINT64_C(6364136223846793005) + step;
        pthread_barrier_wait(&together);
        if (self == 0) {
            uint64_t *swap = now;

            now = next;
            next = swap;
            nanosleep(&pause, NULL);
        }
        pthread_barrier_wait(&together);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t others[THREADS_MAX];

    cells = argument(argc, argv, 1, 1000);
    steps = argument(argc, argv, 2, 1000);
    threads = argument(argc, argv, 3, 4);
    pause_ms = argument(argc, argv, 4, 0);
    if (threads == 0 || threads > THREADS_MAX || cells < threads)
        program_fail("too many threads", "");
    now = calloc(cells, sizeof(*now));
    next = calloc(cells, sizeof(*next));
    if (now == NULL || next == NULL)
        program_fail("no memory", "");
    for (uint64_t i = 0; i < cells; i++)
        now[i] = i;
    ckpt = ckpt_open(NULL);
    struct piece wanted = {0, 0, cells, sizeof(*now)};
    first_step = pieces_load(ckpt, &wanted, now);
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (uint64_t i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, compute, (void *)(uintptr_t)i) != 0)
            program_fail("no thread", "");
    compute(NULL);
    for (uint64_t i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    printf("result %016" PRIx64 "\n", hash_of(now, cells * sizeof(*now)));
    ckpt_close(ckpt);
    free(now);
    free(next);
    return 0;
}
