/* Checkpoints by shared memory: a job under `ckpt-run --profile shm` needs no library and gets no
 * signal. This header is the layout of the region, and the calls over it.
 *
 *     struct ckpt_shm *shm;
 *     struct ckpt_shm_slot *slot = ckpt_shm_open(rank, &shm);  // NULL: not under --profile shm
 *     uint32_t word;
 *     for (step = first; step <= last; step++) {
 *         if (slot != NULL && (word = ckpt_shm_asked(slot)) != 0) {
 *             bytes = save(shm->directory, step - 1);         // close and, mapped, msync all files
 *             ckpt_shm_done(shm, slot, word, bytes, label);   // -1: it was withdrawn; compute on
 *         }
 *         compute(step);
 *     }
 *
 * Region      a file of one size below /dev/shm, at the path in CKPT_SHM. ckpt-run makes it anew
 *             for each start, as the job's user (mode 0600), and removes it when the job has ended.
 *             An agent that restarts finds it as it was. One that is another user's, or a link, is
 *             refused.
 *
 * Words       request: bit 0 says that a checkpoint is wanted, the other bits are its number, which
 *             rises. The agent alone sets bit 0, and either side clears it: the rank when it is
 *             done, the agent when it withdraws. done: the request word that was saved for. A
 *             checkpoint is complete when bit 0 is cleared and done is the word that was asked;
 *             one of the two alone says nothing, and an older word in done says nothing.
 *
 * Waiting     ckpt_shm_asked() is one load from memory: call it at any rate. A thread that waits
 *             instead calls ckpt_shm_wait(): the agent wakes it. Both work side by side.
 *
 * Ranks       each takes a slot of its own, by the number that its launcher gave it: the first free
 *             one from that number on, modulo the count of slots. A program without ranks says 0.
 *             The files of all lie in one directory, under names of their own. Each names what it
 *             saved by the same label: the last step of which the work is in it, step - 1 above.
 *
 * Withdrawn   bit 0 is cleared, or the word is another one: what was begun is not wanted any more,
 *             and its directory is removed. ckpt_shm_done() says so.
 *
 * Failures    a rank that cannot save calls ckpt_shm_failed() with one line and computes on.
 *
 * Build       cc prog.c, as C (gnu99 or later, or with _DEFAULT_SOURCE) or C++; it links libc
 *             alone.
 *
 * Layout      version 1, numbers in the machine's byte order, every field at its natural alignment.
 *             A later version has another number; later fields go into what is left.
 */
#ifndef CKPTSHM_H
#define CKPTSHM_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_SHM_MAGIC "ckpt-shm" /* without its NUL */
enum {
    CKPT_SHM_VERSION = 1,
    CKPT_SHM_SLOTS = 256,
    CKPT_SHM_HINT_BYTES = 64,
    CKPT_SHM_DIRECTORY_BYTES = 4096,
    CKPT_SHM_LABEL_BYTES = 72,
    CKPT_SHM_STATUS_BYTES = 208
};

/* One rank. Texts end with a NUL. */
struct ckpt_shm_slot {
    uint32_t owner;       /* the rank's number and 1, by compare and swap; 0: the slot is free */
    uint32_t request;     /* see Words */
    uint32_t done;        /* see Words */
    uint32_t pid;         /* of the rank, for people */
    uint64_t bytes;       /* sum of the files; with done, as all below */
    uint64_t saved_at_ms; /* instant of the state, since the epoch; 0: that of the request */
    char label[CKPT_SHM_LABEL_BYTES];   /* 1 to 64 of A-Z a-z 0-9 . _ : - ; "": none */
    char status[CKPT_SHM_STATUS_BYTES]; /* "0": written; else why not, one line */
    uint8_t left[200];
};

struct ckpt_shm {
    char magic[8];
    uint32_t version;
    uint32_t size;    /* of the region */
    uint32_t slots;   /* CKPT_SHM_SLOTS */
    uint32_t answers; /* ranks add 1 when they have answered */
    /* the agent writes these before it sets bit 0 of a request: */
    uint64_t deadline_ms; /* since the epoch */
    char hint[CKPT_SHM_HINT_BYTES];
    char directory[CKPT_SHM_DIRECTORY_BYTES]; /* of the files; it is there */
    uint8_t left[4000];
    struct ckpt_shm_slot slot[CKPT_SHM_SLOTS];
};

/* Maps the region and takes the rank's slot. NULL and errno 0: not under --profile shm. NULL and
 * errno: EPROTO another layout, ENOSPC more ranks than slots, or that of open() or mmap(). */
static inline struct ckpt_shm_slot *ckpt_shm_open(uint32_t rank, struct ckpt_shm **ret_shm)
{
    const char *path = getenv("CKPT_SHM");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    void *mapped = MAP_FAILED;
    struct ckpt_shm *shm;

    if (path == NULL)
        errno = 0;
    if (fd >= 0)
        mapped = mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (mapped == MAP_FAILED)
        return NULL;
    shm = (struct ckpt_shm *)mapped;
    errno = EPROTO;
    if (memcmp(shm->magic, CKPT_SHM_MAGIC, 8) == 0 && shm->version == CKPT_SHM_VERSION) {
        for (uint32_t i = 0; i < CKPT_SHM_SLOTS; i++) {
            struct ckpt_shm_slot *slot = &shm->slot[(rank + i) % CKPT_SHM_SLOTS];
            uint32_t owner = 0;
            if (__atomic_compare_exchange_n(&slot->owner, &owner, rank + 1, 0, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE) ||
                owner == rank + 1) {
                slot->pid = (uint32_t)getpid();
                *ret_shm = shm;
                return slot;
            }
        }
        errno = ENOSPC;
    }
    munmap(mapped, sizeof(*shm));
    return NULL;
}

/* The request word while a checkpoint is wanted; else 0. */
static inline uint32_t ckpt_shm_asked(const struct ckpt_shm_slot *slot)
{
    uint32_t word = __atomic_load_n(&slot->request, __ATOMIC_ACQUIRE);

    return (word & 1) != 0 ? word : 0;
}

/* Waits for a request, for a signal of the program's own, or for so long (NULL: for ever). */
static inline uint32_t ckpt_shm_wait(const struct ckpt_shm_slot *slot,
                                     const struct timespec *longest)
{
    uint32_t word = __atomic_load_n(&slot->request, __ATOMIC_ACQUIRE);

    if ((word & 1) == 0)
        (void)syscall(SYS_futex, &slot->request, FUTEX_WAIT, word, longest, NULL, 0);
    return ckpt_shm_asked(slot);
}

/* Says done, and then clears the request, if it still is that one. -1 and ESTALE: it is not. */
static inline int ckpt_shm_answer(struct ckpt_shm *shm, struct ckpt_shm_slot *slot, uint32_t word,
                                  const char *label, const char *status)
{
    uint32_t was = word;

    strncpy(slot->label, label == NULL ? "" : label, sizeof(slot->label) - 1);
    strncpy(slot->status, status, sizeof(slot->status) - 1);
    __atomic_store_n(&slot->done, word, __ATOMIC_RELEASE);
    if (!__atomic_compare_exchange_n(&slot->request, &was, word & ~UINT32_C(1), 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        errno = ESTALE;
        return -1;
    }
    (void)__atomic_add_fetch(&shm->answers, 1, __ATOMIC_RELEASE);
    return 0;
}

/* All files of this rank are written and closed; bytes: their sum. -1: see ckpt_shm_answer(). */
static inline int ckpt_shm_done(struct ckpt_shm *shm, struct ckpt_shm_slot *slot, uint32_t word,
                                uint64_t bytes, const char *label)
{
    slot->bytes = bytes;
    return ckpt_shm_answer(shm, slot, word, label, "0");
}

/* The attempt fails with that line, which the job's output shows. */
static inline int ckpt_shm_failed(struct ckpt_shm *shm, struct ckpt_shm_slot *slot, uint32_t word,
                                  const char *why)
{
    slot->bytes = 0;
    return ckpt_shm_answer(shm, slot, word, NULL, why[0] == '\0' ? "failed" : why);
}

#ifdef __cplusplus
}
#endif
#endif
