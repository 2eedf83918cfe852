/* From the agent's word to the woken application: how long a request in shared memory takes to
 * reach a process that waits on it, and one that polls, beside a signal to a handler. Prints
 * figures and judges nothing.
 *
 * Flow     a child takes the instant at which it sees each request, and answers. The parent asks as
 *          the agent does (src/agent/node/region.h) and takes the difference. The word is the
 *          system call that writes it and wakes; the call is the agent's, which opens the region
 *          first. Rounds are some milliseconds apart, so that the waiting child sleeps.
 * Units    nanoseconds of CLOCK_MONOTONIC, printed in microseconds.
 */
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "src/agent/node/region.h"
#include "src/agent/run/run_region.h"
#include "src/app/ckptshm.h"
#include "src/ask/region.h"
#include "src/base/check.h"

enum { ROUNDS = 1000, PAUSE_US = 2000 };

enum way { WORD, WAITS, POLLS, SIGNALLED, WAY_COUNT };

static struct ckpt_shm *shm;
static struct ckpt_shm_slot *slot;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Its instant stands where the saved state's would. */
static void seen(uint32_t word)
{
    slot->saved_at_ms = now_ns();
    (void)ckpt_shm_done(shm, slot, word, 0, NULL);
}

static void on_signal(int number)
{
    (void)number;
    slot->saved_at_ms = now_ns();
    (void)__atomic_add_fetch(&shm->answers, 1, __ATOMIC_RELEASE);
}

__attribute__((noreturn)) static void child(enum way way)
{
    signal(SIGUSR1, on_signal);
    (void)__atomic_add_fetch(&shm->answers, 1, __ATOMIC_RELEASE); /* it is there */
    for (;;) {
        uint32_t word = way == WAITS || way == WORD ? ckpt_shm_wait(slot, NULL)
                        : way == POLLS              ? ckpt_shm_asked(slot)
                                                    : 0;
        if (way == SIGNALLED)
            pause();
        if (word != 0)
            seen(word);
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static void print_figures(const char *name, uint64_t *took)
{
    qsort(took, ROUNDS, sizeof(*took), compare);
    printf("%-28s p50 %6.1f us   p99 %6.1f us   most %8.1f us\n", name,
           (double)took[ROUNDS / 2] / 1000, (double)took[ROUNDS * 99 / 100] / 1000,
           (double)took[ROUNDS - 1] / 1000);
}

static uint64_t ask_once(enum way way, const struct machine_region *region, pid_t pid)
{
    const size_t offset = offsetof(struct ckpt_shm, slot) + offsetof(struct ckpt_shm_slot, request);
    uint32_t answers = __atomic_load_n(&shm->answers, __ATOMIC_ACQUIRE);
    uint64_t from = now_ns();
    struct err err = {0};

    if (way == SIGNALLED)
        CHECK(kill(pid, SIGUSR1) == 0);
    else if (way == WORD)
        CHECK(syscall(SYS_futex, &slot->request, FUTEX_WAKE_OP, 1, NULL, &slot->request,
                      FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 0)) >= 0);
    else
        CHECK(region_change(region, ASK_REGION_RAISE, &offset, 1, &err) == 0);
    while (__atomic_load_n(&shm->answers, __ATOMIC_ACQUIRE) == answers)
        ;
    return slot->saved_at_ms - from;
}

static void measure(enum way way, const char *name, const struct machine_region *region)
{
    uint64_t *took = check_calloc(ROUNDS, sizeof(*took));
    uint32_t answers = shm->answers;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        child(way);
    while (__atomic_load_n(&shm->answers, __ATOMIC_ACQUIRE) == answers)
        ;
    for (size_t i = 0; i < ROUNDS; i++) {
        usleep(PAUSE_US);
        took[i] = ask_once(way, region, pid);
    }
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    print_figures(name, took);
    free(took);
}

int main(void)
{
    static const char *const names[WAY_COUNT] = {"from the word, it waits",
                                                 "from the call, it waits",
                                                 "from the call, it polls", "SIGUSR1 to a handler"};
    char path[ASK_REGION_PATH_BYTES];
    struct machine_region region = {.path = path, .user = {.uid = geteuid(), .gid = getegid()}};
    struct err err = {0};

    ask_region_path(geteuid(), "bench", "/work", path);
    if (run_region_make(path, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    setenv("CKPT_SHM", path, 1);
    slot = ckpt_shm_open(0, &shm);
    CHECK(slot != NULL);
    for (int way = 0; way < WAY_COUNT; way++)
        measure((enum way)way, names[way], &region);
    region_remove(&region);
    return 0;
}
