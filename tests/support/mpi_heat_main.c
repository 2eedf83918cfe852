/* Heat in a rod, over MPI: each rank has a stretch of it and exchanges its ends with its
 * neighbours.
 *
 *     mpirun -n 4 mpi_heat CELLS STEPS [MS_PER_STEP] [SLOW_RANK SLOW_STEP SLOW_MS] [SILENT_RANK
 *                          SILENT_STEP]
 *
 * All ranks save at the step of ckpt_barrier(); a silent rank calls it no more from that step on,
 * unless it was restarted. With HEAT_SIGNAL set ranks do without a library: they catch SIGUSR1,
 * agree on the step by a collective of their own, and write done.RANK themselves. The result is
 * printed by rank 0, and is the same to the bit with any number of ranks, and with any number of
 * restarts.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "tests/support/program.h"

struct rod {
    uint64_t cells, first, count;
    int rank, ranks;
    double *now, *next; /* with one cell of each neighbour at the ends */
};

static void rod_share(struct rod *rod, int rank, uint64_t *ret_first, uint64_t *ret_count)
{
    *ret_first = rod->cells * (uint64_t)rank / (uint64_t)rod->ranks;
    *ret_count = rod->cells * ((uint64_t)rank + 1) / (uint64_t)rod->ranks - *ret_first;
}

static void rod_step(struct rod *rod)
{
    int left = rod->rank > 0 ? rod->rank - 1 : MPI_PROC_NULL;
    int right = rod->rank + 1 < rod->ranks ? rod->rank + 1 : MPI_PROC_NULL;
    uint64_t n = rod->count;
    double *swap = rod->now;

    MPI_Sendrecv(&rod->now[1], 1, MPI_DOUBLE, left, 0, &rod->now[n + 1], 1, MPI_DOUBLE, right, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&rod->now[n], 1, MPI_DOUBLE, right, 1, &rod->now[0], 1, MPI_DOUBLE, left, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (uint64_t i = 1; i <= n; i++)
        rod->next[i] = rod->now[i] + 0.25 * (rod->now[i - 1] - 2.0 * rod->now[i] + rod->now[i + 1]);
    rod->now = rod->next;
    rod->next = swap;
}

static void rod_start(struct rod *rod)
{
    rod->now = calloc(rod->count + 2, sizeof(double));
    rod->next = calloc(rod->count + 2, sizeof(double));
    if (rod->now == NULL || rod->next == NULL)
        program_fail("no memory", "");
    for (uint64_t i = 0; i < rod->count; i++)
        rod->now[i + 1] = (double)((rod->first + i) * 2654435761u % 1000);
}

static void rod_result(struct rod *rod)
{
    double *whole = rod->rank == 0 ? calloc(rod->cells, sizeof(double)) : NULL;
    int counts[256], firsts[256];

    for (int rank = 0; rank < rod->ranks; rank++) {
        uint64_t first, count;

        rod_share(rod, rank, &first, &count);
        counts[rank] = (int)count;
        firsts[rank] = (int)first;
    }
    MPI_Gatherv(rod->now + 1, (int)rod->count, MPI_DOUBLE, whole, counts, firsts, MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    if (rod->rank == 0)
        printf("result %016" PRIx64 "\n", hash_of(whole, rod->cells * sizeof(double)));
    free(whole);
}

/* Which mpi_node.sh was given: all nodes see it. */
static const char *meeting_folder(void)
{
    return getenv("MPI_NODE_FOLDER");
}

static volatile sig_atomic_t signalled;

static void hear(int number)
{
    (void)number;
    signalled = 1;
}

/* The request of this node, a line of "NAME=value" each. False: there is none (any more). */
static bool request_field(const char *name, char *value, size_t size)
{
    char path[4096], line[4608];
    size_t length = strlen(name);
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "%s/request", getenv("CKPT_DIR"));
    file = fopen(path, "r");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        found = strncmp(line, name, length) == 0 && line[length] == '=';
        line[strcspn(line, "\n")] = '\0';
        if (found)
            snprintf(value, size, "%s", line + length + 1);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static void save_signalled(struct rod *rod, uint64_t step)
{
    struct piece piece = {step, rod->first, rod->count, sizeof(double)};
    char folder[3840], hint[128], path[8192], fresh[8192], name[4000];
    uint64_t bytes;
    FILE *file;

    if (!request_field("directory", folder, sizeof(folder)) ||
        !request_field("hint", hint, sizeof(hint)))
        return;
    snprintf(name, sizeof(name), "%s/rank-%05d", folder, rod->rank);
    mkdir(name, 0755);
    if (piece_save(name, &piece, rod->now + 1, &bytes) != 0)
        return;
    snprintf(path, sizeof(path), "%s/done.%d", getenv("CKPT_DIR"), rod->rank);
    snprintf(fresh, sizeof(fresh), "%s/.done.%d", getenv("CKPT_DIR"), rod->rank);
    file = fopen(fresh, "w");
    if (file == NULL)
        return;
    fprintf(file, "hint=%s\nbytes=%" PRIu64 "\nstatus=0\nstep=%" PRIu64 "\n", hint, bytes, step);
    if (fclose(file) == 0)
        rename(fresh, path);
}

/* All save at the step in which the signals of all have come. */
static void save_together(struct rod *rod, uint64_t step)
{
    char hint[128];
    int asked = signalled && request_field("hint", hint, sizeof(hint)), all = 0;

    MPI_Allreduce(&asked, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        return;
    signalled = 0;
    save_signalled(rod, step);
}

static void save(struct ckpt *ckpt, struct rod *rod, uint64_t step)
{
    struct piece piece = {step, rod->first, rod->count, sizeof(double)};
    uint64_t bytes;

    if (piece_save(ckpt_directory(ckpt), &piece, rod->now + 1, &bytes) != 0)
        ckpt_failed(ckpt, "cannot write the cells");
    else if (ckpt_done(ckpt, step, bytes) != 0)
        fprintf(stderr, "not saved: %s\n", ckpt_error(ckpt));
}

static bool is_silent(const struct ckpt *ckpt, int argc, char **argv, uint64_t rank, uint64_t step)
{
    return argc > 8 && pieces_folder(ckpt) == NULL && argument(argc, argv, 7, 0) == rank &&
           step >= argument(argc, argv, 8, 0);
}

int main(int argc, char **argv)
{
    struct rod rod = {.cells = argument(argc, argv, 1, 1000)};
    uint64_t steps = argument(argc, argv, 2, 1000), pause_ms = argument(argc, argv, 3, 0), step;
    struct ckpt *ckpt;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rod.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rod.ranks);
    if (rod.ranks > 256 || rod.cells < (uint64_t)rod.ranks)
        program_fail("too many ranks", "");
    program_alone(meeting_folder(), (uint64_t)rod.rank);
    rod_share(&rod, rod.rank, &rod.first, &rod.count);
    rod_start(&rod);
    bool plain = getenv("HEAT_SIGNAL") != NULL;
    if (plain)
        signal(SIGUSR1, hear);
    ckpt = ckpt_open(NULL); /* of a plain one it only tells what is restored */
    struct piece wanted = {0, rod.first, rod.count, sizeof(double)};
    step = pieces_load(ckpt, &wanted, rod.now + 1);
    for (; step <= steps; step++) {
        bool mute = is_silent(ckpt, argc, argv, (uint64_t)rod.rank, step);
        if (plain && !mute)
            save_together(&rod, step);
        if (!plain && !mute && ckpt_barrier(ckpt, step) == CKPT_NOW)
            save(ckpt, &rod, step);
        rod_step(&rod);
        wait_ms(pause_ms);
        if (argc > 6 && argument(argc, argv, 4, 0) == (uint64_t)rod.rank &&
            argument(argc, argv, 5, 0) == step) {
            program_mark(meeting_folder(), "slow", "");
            wait_ms(argument(argc, argv, 6, 0));
        }
        if (is_silent(ckpt, argc, argv, (uint64_t)rod.rank, step))
            program_mark(meeting_folder(), "silent", "");
    }
    rod_result(&rod);
    ckpt_close(ckpt);
    MPI_Finalize();
    return 0;
}
