/* shm_app: a program as a customer writes one for `ckpt-run --profile shm`: it includes ckptshm.h
 * and links nothing. It mixes a number over steps.
 *
 * Flow     restore state.RANK from $CKPT_RESTORE_DIR; per step: is a checkpoint wanted? by polling,
 *          or, with --wait, by a thread that waits on the word; save; compute. The result goes to
 *          OUTPUT.RANK by rename, with how many signals came that the program did not ask for.
 * Shapes   --die cleared|done: it ends between the two words, which it then writes by itself, in
 *          this order or that, when the file OUTPUT.RANK.die is there.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/ckptshm.h"

enum { PATH_BYTES = 4400 };

static struct {
    const char *output;
    uint64_t steps, delay_us;
    uint32_t rank;
    bool waits;
    const char *die;
} options = {.steps = 2000, .delay_us = 2000, .die = ""};

static struct ckpt_shm *shm;
static struct ckpt_shm_slot *slot;
static uint32_t woken; /* the word that the thread has seen last */
static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

/* All that might ask it; SIGTERM and SIGCONT end and wake it, as in every way. */
static void count_signals(void)
{
    for (int number = 1; number < 32; number++)
        if (number != SIGTERM && number != SIGCONT && number != SIGCHLD)
            signal(number, on_signal);
}

static void *wait_for_words(void *data)
{
    for (;;) {
        uint32_t word = ckpt_shm_wait(slot, NULL);
        if (word == 0)
            continue;
        __atomic_store_n(&woken, word, __ATOMIC_RELEASE);
        usleep(1000); /* until the other thread has answered */
    }
    return data;
}

static uint64_t mix(uint64_t value, uint64_t step)
{
    uint64_t z = value + step * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 27);
}

static bool save(const char *directory, uint64_t step, uint64_t value, uint64_t *ret_bytes)
{
    char path[PATH_BYTES];
    FILE *file;
    int length;

    snprintf(path, sizeof(path), "%s/state.%" PRIu32, directory, options.rank);
    file = fopen(path, "w");
    if (file == NULL)
        return false;
    length = fprintf(file, "%" PRIu64 " %" PRIu64 "\n", step, value);
    *ret_bytes = (uint64_t)length;
    return fclose(file) == 0 && length > 0;
}

static bool restore(uint64_t *step, uint64_t *value)
{
    const char *folder = getenv("CKPT_RESTORE_DIR");
    char path[PATH_BYTES];
    FILE *file;
    int found;

    if (folder == NULL)
        return true;
    snprintf(path, sizeof(path), "%s/state.%" PRIu32, folder, options.rank);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    found = fscanf(file, "%" SCNu64 " %" SCNu64, step, value);
    fclose(file);
    return found == 2;
}

/* One word alone, and it is gone. */
static void die_between(uint32_t word)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s.%" PRIu32 ".die", options.output, options.rank);
    if (options.die[0] == '\0' || access(path, F_OK) != 0)
        return;
    strcpy(slot->status, "0");
    if (strcmp(options.die, "done") == 0)
        __atomic_store_n(&slot->done, word, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&slot->request, word & ~UINT32_C(1), __ATOMIC_RELEASE);
    raise(SIGKILL);
}

static void answer(uint32_t word, uint64_t step, uint64_t value)
{
    char label[32];
    uint64_t bytes = 0;

    snprintf(label, sizeof(label), "%" PRIu64, step);
    if (getenv("CKPT_RANKS") != NULL)
        snprintf(label, sizeof(label), "unordered"); /* each rank has a sum of its own */
    if (!save(shm->directory, step, value, &bytes)) {
        ckpt_shm_failed(shm, slot, word, "cannot write");
        return;
    }
    die_between(word);
    if (ckpt_shm_done(shm, slot, word, bytes, label) == 0)
        printf("saved step %" PRIu64 "\n", step);
    fflush(stdout);
}

static int finish(uint64_t value)
{
    char path[PATH_BYTES], temporary[PATH_BYTES + 8];
    FILE *file;

    snprintf(path, sizeof(path), "%s.%" PRIu32, options.output, options.rank);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    file = fopen(temporary, "w");
    if (file == NULL)
        return 1;
    fprintf(file, "%" PRIu64 " signals=%d\n", value, (int)signals);
    return fclose(file) == 0 && rename(temporary, path) == 0 ? 0 : 1;
}

static void take_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--output") == 0)
            options.output = argv[i + 1];
        else if (strcmp(argv[i], "--steps") == 0)
            options.steps = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--delay-us") == 0)
            options.delay_us = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--wait") == 0)
            options.waits = strcmp(argv[i + 1], "yes") == 0;
        else if (strcmp(argv[i], "--die") == 0)
            options.die = argv[i + 1];
    }
    if (getenv("CKPT_RANK") != NULL)
        options.rank = (uint32_t)strtoul(getenv("CKPT_RANK"), NULL, 10);
}

int main(int argc, char **argv)
{
    uint64_t step = 0, value = 0;
    uint32_t answered = 0;
    pthread_t thread;

    take_options(argc, argv);
    if (options.output == NULL) {
        fprintf(stderr, "usage: shm_app --output FILE [--steps N] [--delay-us N] [--wait yes]\n");
        return 2;
    }
    count_signals();
    value = options.rank;
    if (!restore(&step, &value)) {
        fprintf(stderr, "shm_app: what was restored cannot be read\n");
        return 3;
    }
    slot = ckpt_shm_open(options.rank, &shm);
    if (slot == NULL && errno != 0) {
        perror("shm_app: CKPT_SHM");
        return 4;
    }
    if (slot != NULL && options.waits && pthread_create(&thread, NULL, wait_for_words, NULL) != 0)
        return 5;
    printf("begins at step %" PRIu64 "\n", step);
    fflush(stdout);
    for (; step < options.steps; step++) {
        uint32_t word = slot == NULL     ? 0
                        : !options.waits ? ckpt_shm_asked(slot)
                                         : __atomic_exchange_n(&woken, 0, __ATOMIC_ACQ_REL);
        if (word != 0 && word != answered) /* the thread may have seen it once more */
            answer(word, step, value);
        answered = word != 0 ? word : answered;
        value = mix(value, step);
        usleep((useconds_t)options.delay_us);
    }
    return finish(value);
}
