/* Which rank this process is, as its launcher told it by the environment.
 *
 * The names are those by which the agent finds the ranks of a node, in the same order, so that both
 * speak of the same number. Where launchers are nested (torchrun under srun or mpirun), the agent
 * counts by the one that told the most different numbers, and a rank, which sees itself alone, by
 * the one that told the most ranks of this node; of several by the first here. Both are the same
 * one as long as all ranks of that launcher on this node are of this job.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/app/handle.h"

struct launcher {
    const char *rank, *ranks, *local_rank, *local_ranks;
    const char *also; /* must be there too: the other names are common ones */
};

enum { LAUNCHER_COUNT = 7, LAUNCHER_SLURM = 6 };
static const struct launcher launchers[LAUNCHER_COUNT] = {
    {"CKPT_RANK", "CKPT_RANKS", "CKPT_LOCAL_RANK", "CKPT_LOCAL_RANKS", NULL},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"PMIX_RANK", NULL, NULL, NULL, NULL},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", NULL},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"},
    [LAUNCHER_SLURM] = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID"},
};

/* Steps from here on run no tasks: the batch script, an interactive shell, what is adopted. */
#define SLURM_SPECIAL_STEP UINT64_C(0xfffffff0)

/* -1: there, and no number up to max. 0: not there, or taken. */
static int number_of(const char *name, uint64_t max, uint64_t *number)
{
    const char *text = name == NULL ? NULL : getenv(name);
    uint64_t value;

    if (text == NULL || *text == '\0')
        return 0;
    if (ckptapp_number(text, &value) != 0 || value > max)
        return -1;
    *number = value;
    return 0;
}

static bool name_is_set(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0';
}

static bool launcher_is_there(size_t launcher)
{
    const char *also = launchers[launcher].also;
    uint64_t step;

    if (!name_is_set(launchers[launcher].rank) || (also != NULL && !name_is_set(also)))
        return false;
    return launcher != LAUNCHER_SLURM ||
           (ckptapp_number(getenv(also), &step) == 0 && step < SLURM_SPECIAL_STEP);
}

/* Slurm counts by node, the same counts once: "4(x2),3" is 4, 4, 3. 0: not told. */
static uint64_t slurm_count(const char *text, uint64_t node)
{
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long count = strtoul(text, &end, 10);
        unsigned long times = 1;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtoul(end + 2, &end, 10);
            end += *end == ')' ? 1 : 0;
        }
        if (node < times)
            return count <= INT32_MAX ? count : 0;
        node -= times;
        text = *end == ',' ? end + 1 : "";
    }
    return 0;
}

static int local_count_of(size_t launcher, uint64_t *count)
{
    const char *tasks = getenv("SLURM_STEP_TASKS_PER_NODE");
    uint64_t node = UINT64_MAX;

    *count = 0;
    if (launcher != LAUNCHER_SLURM)
        return number_of(launchers[launcher].local_ranks, INT32_MAX, count);
    if (tasks == NULL || number_of("SLURM_NODEID", INT32_MAX, &node) != 0 || node == UINT64_MAX)
        return number_of("SLURM_NTASKS_PER_NODE", INT32_MAX, count);
    *count = slurm_count(tasks, node);
    return 0;
}

static int launcher_read(size_t number, struct ckptapp_rank *ret_rank)
{
    const struct launcher *launcher = &launchers[number];
    uint64_t rank = 0, ranks = 0, local_rank = UINT64_MAX, local_ranks = 0;

    if (number_of(launcher->rank, INT32_MAX, &rank) != 0 ||
        number_of(launcher->ranks, INT32_MAX, &ranks) != 0 ||
        number_of(launcher->local_rank, INT32_MAX, &local_rank) != 0 ||
        local_count_of(number, &local_ranks) != 0)
        return -1;
    *ret_rank = (struct ckptapp_rank){
        .rank = (int64_t)rank,
        .local_rank = local_rank == UINT64_MAX ? -1 : (int64_t)local_rank,
        .ranks = (uint32_t)ranks,
        .local_ranks = (uint32_t)local_ranks,
    };
    return 0;
}

/* LAUNCHER_COUNT: there is none. */
static size_t launcher_find(void)
{
    size_t found = LAUNCHER_COUNT;
    uint64_t most = 0, count;

    for (size_t i = 0; i < LAUNCHER_COUNT; i++) {
        if (!launcher_is_there(i))
            continue;
        if (local_count_of(i, &count) != 0 || count == 0)
            count = 1; /* this one */
        if (count > most) {
            most = count;
            found = i;
        }
    }
    return found;
}

int ckptapp_rank_find(const struct ckpt_options *options, struct ckptapp_rank *ret_rank)
{
    struct ckptapp_rank rank = {0, 0, 1, 1};
    size_t launcher = launcher_find();

    if (launcher < LAUNCHER_COUNT && launcher_read(launcher, &rank) != 0)
        return -1;
    if (options != NULL && options->rank >= 0) {
        /* one that is told its number is told the rest too, or does not know it */
        rank = (struct ckptapp_rank){options->rank, -1, 0, 0};
    }
    if (options != NULL && options->local_rank >= 0)
        rank.local_rank = options->local_rank;
    if (options != NULL && options->ranks > 0)
        rank.ranks = options->ranks;
    if (options != NULL && options->local_ranks > 0)
        rank.local_ranks = options->local_ranks;
    if (rank.rank > INT32_MAX || rank.local_rank > INT32_MAX ||
        (rank.ranks > 0 && rank.rank >= (int64_t)rank.ranks) ||
        (rank.local_ranks > 0 && rank.local_rank >= (int64_t)rank.local_ranks))
        return -1;
    *ret_rank = rank;
    return 0;
}
