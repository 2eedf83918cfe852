/* Heat in a rod, over MPI: each rank has a stretch of it and exchanges its ends with its
 * neighbours.
 *
 *     mpirun -n 4 mpi_heat CELLS STEPS [MS_PER_STEP] [SLOW_RANK SLOW_STEP SLOW_MS]
 *
 * All ranks save at the step of ckpt_barrier(). The result is printed by rank 0, and is the same to
 * the bit with any number of ranks, and with any number of restarts.
 */
#include <mpi.h>
#include <time.h>

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

static void wait_ms(uint64_t ms)
{
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
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
    rod_share(&rod, rod.rank, &rod.first, &rod.count);
    rod_start(&rod);
    ckpt = ckpt_open(NULL);
    struct piece wanted = {0, rod.first, rod.count, sizeof(double)};
    step = pieces_load(ckpt, &wanted, rod.now + 1);
    for (; step <= steps; step++) {
        if (ckpt_barrier(ckpt, step) == CKPT_NOW)
            save(ckpt, &rod, step);
        rod_step(&rod);
        wait_ms(pause_ms);
        if (argc > 6 && argument(argc, argv, 4, 0) == (uint64_t)rod.rank &&
            argument(argc, argv, 5, 0) == step)
            wait_ms(argument(argc, argv, 6, 0));
    }
    rod_result(&rod);
    ckpt_close(ckpt);
    MPI_Finalize();
    return 0;
}
