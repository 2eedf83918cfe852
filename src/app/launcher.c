/* Which rank this process is, as its launcher told it by the environment.
 *
 * The names are those by which the agent finds the ranks of a node, in the same order, so that both
 * speak of the same number.
 */
#include <stdlib.h>
#include <string.h>

#include "src/app/handle.h"

struct launcher {
    const char *rank, *ranks, *local_rank, *local_ranks;
    const char *also; /* must be there too: the other names are common ones */
};

static const struct launcher launchers[] = {
    {"CKPT_RANK", "CKPT_RANKS", "CKPT_LOCAL_RANK", "CKPT_LOCAL_RANKS", NULL},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"PMIX_RANK", NULL, NULL, NULL, NULL},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", NULL},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID"},
};

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

static int launcher_read(const struct launcher *launcher, struct ckptapp_rank *ret_rank)
{
    uint64_t rank = 0, ranks = 0, local_rank = UINT64_MAX, local_ranks = 0;

    if (number_of(launcher->rank, INT32_MAX, &rank) != 0 ||
        number_of(launcher->ranks, INT32_MAX, &ranks) != 0 ||
        number_of(launcher->local_rank, INT32_MAX, &local_rank) != 0 ||
        number_of(launcher->local_ranks, INT32_MAX, &local_ranks) != 0)
        return -1;
    *ret_rank = (struct ckptapp_rank){
        .rank = (int64_t)rank,
        .local_rank = local_rank == UINT64_MAX ? -1 : (int64_t)local_rank,
        .ranks = (uint32_t)ranks,
        .local_ranks = (uint32_t)local_ranks,
    };
    return 0;
}

static bool name_is_set(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0';
}

int ckptapp_rank_find(const struct ckpt_options *options, struct ckptapp_rank *ret_rank)
{
    struct ckptapp_rank rank = {-1, -1, 0, 0};

    for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers) && rank.rank < 0; i++)
        if (name_is_set(launchers[i].rank) &&
            (launchers[i].also == NULL || name_is_set(launchers[i].also)) &&
            launcher_read(&launchers[i], &rank) != 0)
            return -1;
    if (rank.rank < 0)
        rank = (struct ckptapp_rank){0, 0, 1, 1};
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
