/* What the real programs of the tests share: which file of a checkpoint is whose, who holds a
 * rank's number, marks for who watches them, and a hash. */
#ifndef CKPT_TESTS_SUPPORT_PROGRAM_H
#define CKPT_TESTS_SUPPORT_PROGRAM_H

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "src/app/ckptapp.h"

/* A piece of the state: `count` of the cells from `first`, as they were before `step`. */
struct piece {
    uint64_t step, first, count, bytes_per_cell;
};

/* Which run of the job wrote it, behind the cells: for who watches, nobody loads it. */
struct piece_run {
    char run[32];
};

static inline int piece_save(const char *folder, const struct piece *piece, const void *cells,
                             uint64_t *ret_bytes)
{
    char path[4096];
    FILE *file;
    size_t length = (size_t)(piece->count * piece->bytes_per_cell);
    struct piece_run run = {0};
    int failed;

    snprintf(run.run, sizeof(run.run), "%s", getenv("CKPT_RUN") == NULL ? "" : getenv("CKPT_RUN"));
    snprintf(path, sizeof(path), "%s/cells", folder);
    file = fopen(path, "wb");
    if (file == NULL)
        return -1;
    failed = fwrite(piece, sizeof(*piece), 1, file) != 1 ||
             fwrite(cells, 1, length, file) != length || fwrite(&run, sizeof(run), 1, file) != 1;
    failed |= fclose(file) != 0;
    *ret_bytes = sizeof(*piece) + length + sizeof(run);
    return failed ? -1 : 0;
}

static inline void program_fail(const char *what, const char *which)
{
    fprintf(stderr, "error: %s %s\n", what, which);
    exit(3);
}

static inline void wait_ms(uint64_t ms)
{
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

/* For who watches the program: a file in a folder that all nodes see. NULL: nobody does. */
static inline void program_mark(const char *folder, const char *name, const char *text)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder == NULL ? "." : folder, name);
    file = folder == NULL ? NULL : fopen(path, "w");
    if (file == NULL)
        return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

/* Holds the rank's number for as long as this process lives: a copy of it that is left over would
 * write beside it, and is marked as "two". One of a run before has just been ended. */
static inline void program_alone(const char *folder, uint64_t rank)
{
    char path[4096], text[160];
    const char *run = getenv("CKPT_RUN");
    int lock;

    if (folder == NULL)
        return;
    snprintf(path, sizeof(path), "%s/lock.%" PRIu64, folder, rank);
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    for (int i = 0; i < 100 && lock >= 0; i++) {
        if (flock(lock, LOCK_EX | LOCK_NB) == 0)
            return;
        wait_ms(20);
    }
    snprintf(text, sizeof(text), "rank %" PRIu64 ": pid %d of run %s came beside another one", rank,
             (int)getpid(), run == NULL ? "" : run);
    program_mark(folder, "two", text);
    program_fail("another process has this rank's number:", path);
}

/* Takes what of a file belongs to `wanted`. */
static inline uint64_t piece_load(const char *path, struct piece *wanted, char *cells)
{
    struct piece saved;
    FILE *file = fopen(path, "rb");
    uint64_t end, from, until;

    if (file == NULL || fread(&saved, sizeof(saved), 1, file) != 1 ||
        saved.bytes_per_cell != wanted->bytes_per_cell)
        program_fail("cannot read", path);
    if (wanted->step != 0 && wanted->step != saved.step)
        program_fail("steps of two checkpoints are mixed in", path);
    wanted->step = saved.step;
    end = wanted->first + wanted->count;
    from = saved.first > wanted->first ? saved.first : wanted->first;
    until = saved.first + saved.count < end ? saved.first + saved.count : end;
    if (from >= until)
        until = from;
    size_t length = (size_t)((until - from) * saved.bytes_per_cell);
    if (length > 0 &&
        (fseek(file, (long)(sizeof(saved) + (from - saved.first) * saved.bytes_per_cell),
               SEEK_SET) != 0 ||
         fread(cells + (from - wanted->first) * saved.bytes_per_cell, 1, length, file) != length))
        program_fail("too short:", path);
    fclose(file);
    return until - from;
}

/* Where what is restored lies: here, or with `path` at the destination. NULL: from scratch. */
static inline const char *pieces_folder(const struct ckpt *ckpt)
{
    static const char scheme[] = "file://";
    const char *uri = ckpt_restore_uri(ckpt);

    if (uri == NULL)
        return ckpt_restore_directory(ckpt);
    if (strncmp(uri, scheme, strlen(scheme)) != 0)
        program_fail("only file:// can be read here:", uri);
    return uri + strlen(scheme);
}

/* The step to begin with, 1: from scratch. With `restore own` the own file must hold all that is
 * wanted, with `all` and `path` the files of all parts together. */
static inline uint64_t pieces_load(struct ckpt *ckpt, struct piece *wanted, void *cells)
{
    static const char *const shapes[] = {"rank-*/cells", "part-*/rank-*/cells"};
    const char *folder = pieces_folder(ckpt);
    uint64_t found = 0;

    if (folder == NULL)
        return 1;
    for (int i = 0; i < 2; i++) {
        char pattern[4096];
        glob_t names;

        snprintf(pattern, sizeof(pattern), "%s/%s", folder, shapes[i]);
        if (glob(pattern, 0, NULL, &names) != 0)
            continue;
        for (size_t k = 0; k < names.gl_pathc; k++)
            found += piece_load(names.gl_pathv[k], wanted, cells);
        globfree(&names);
    }
    if (found != wanted->count)
        program_fail("not all cells are in", folder);
    return wanted->step;
}

static inline uint64_t hash_of(const void *bytes, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* argv[i] as a number; absent: what is usual. */
static inline uint64_t argument(int argc, char **argv, int i, uint64_t usual)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : usual;
}

#endif
