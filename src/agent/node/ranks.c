/* Which processes of a job are its ranks. See ranks.h. */
#include "src/agent/node/ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/number.h"

/* How a launcher tells a rank its number. libckptapp reads the same names. */
struct launcher {
    const char *rank;
    const char *count;
    const char *local;
    const char *local_count;
    const char
        *also; /* must be there too: the other names are common ones, or outlive their step */
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

static const char *const launcher_names[] = {"mpirun",  "mpiexec",  "mpiexec.hydra",  "orterun",
                                             "prterun", "prte",     "orted",          "prted",
                                             "srun",    "torchrun", "hydra_pmi_proxy"};

/* A whole number; RANK_NONE: none, or none that a rank can have. */
static int64_t number_of(const struct job_process *process, const char *name)
{
    const struct number_range range = {0, INT32_MAX};
    const char *text = name == NULL ? NULL : job_process_variable(process, name);
    uint64_t number;

    if (text == NULL || number_parse(NUMBER_PLAIN, text, range, &number, NULL) != 0)
        return RANK_NONE;
    return (int64_t)number;
}

static int64_t rank_of(const struct job_process *process, size_t launcher)
{
    const struct number_range steps = {0, SLURM_SPECIAL_STEP - 1};
    const char *also = launchers[launcher].also;
    const char *told = also == NULL ? NULL : job_process_variable(process, also);
    uint64_t step;

    if (also != NULL && (told == NULL || told[0] == '\0'))
        return RANK_NONE;
    if (launcher == LAUNCHER_SLURM && number_parse(NUMBER_PLAIN, told, steps, &step, NULL) != 0)
        return RANK_NONE;
    return number_of(process, launchers[launcher].rank);
}

/* Slurm counts by node, the same counts once: "4(x2),3" is 4, 4, 3. */
static uint32_t count_of_node(const char *text, int64_t node)
{
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long count = strtoul(text, &end, 10);
        unsigned long times = 1;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtoul(end + 2, &end, 10);
            end += *end == ')' ? 1 : 0;
        }
        if (node < (int64_t)times)
            return count <= INT32_MAX ? (uint32_t)count : 0;
        node -= (int64_t)times;
        text = *end == ',' ? end + 1 : "";
    }
    return 0;
}

/* ---- the picture ---- */

struct picture {
    const struct job_processes *table;
    const struct job_process *main_process; /* NULL: it is gone */
    int signal;
    int64_t (*ranks)[LAUNCHER_COUNT]; /* of each process */
    size_t launcher;                  /* the one that counts */
};

static bool is_below(const struct picture *picture, const struct job_process *process,
                     const struct job_process *above)
{
    size_t steps = 0;

    for (int at = process->parent; at != PROCESS_NO_PARENT && ++steps <= picture->table->count;
         at = picture->table->items[at].parent)
        if (&picture->table->items[at] == above)
            return true;
    return false;
}

/* The launcher started the main process as one of several. */
static bool main_process_is_rank(const struct picture *picture, size_t launcher, int64_t number)
{
    for (size_t i = 0; i < picture->table->count; i++)
        if (picture->ranks[i][launcher] != RANK_NONE && picture->ranks[i][launcher] != number &&
            !is_below(picture, &picture->table->items[i], picture->main_process))
            return true;
    return false;
}

static bool same_step(const struct job_process *process, const struct job_process *main_process,
                      size_t launcher)
{
    const char *also = launchers[launcher].also;
    const char *ours = also == NULL ? "" : job_process_variable(process, also);
    const char *theirs = also == NULL ? "" : job_process_variable(main_process, also);

    return ours != NULL && theirs != NULL && strcmp(ours, theirs) == 0;
}

/* What all have from the main process is nobody's number. */
static void drop_inherited(struct picture *picture, size_t launcher)
{
    const struct job_process *main_process = picture->main_process;
    int64_t number = main_process == NULL
                         ? RANK_NONE
                         : picture->ranks[main_process - picture->table->items][launcher];

    if (number == RANK_NONE || main_process_is_rank(picture, launcher, number))
        return;
    for (size_t i = 0; i < picture->table->count; i++)
        if (picture->ranks[i][launcher] == number &&
            same_step(&picture->table->items[i], main_process, launcher))
            picture->ranks[i][launcher] = RANK_NONE;
}

static int compare_ranks(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static size_t different_ranks(const struct picture *picture, size_t launcher, int64_t *numbers)
{
    size_t count = 0, different = 0;

    for (size_t i = 0; i < picture->table->count; i++)
        if (picture->ranks[i][launcher] != RANK_NONE)
            numbers[count++] = picture->ranks[i][launcher];
    qsort(numbers, count, sizeof(*numbers), compare_ranks);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[different++] = numbers[i];
    return different;
}

/* Leaves its numbers in `numbers`, each once, rising; returns how many. */
static size_t choose_launcher(struct picture *picture, int64_t *numbers)
{
    size_t most = 0;

    for (size_t i = 0; i < LAUNCHER_COUNT; i++) {
        size_t count = different_ranks(picture, i, numbers);
        if (count > most) {
            most = count;
            picture->launcher = i;
        }
    }
    return most == 0 ? 0 : different_ranks(picture, picture->launcher, numbers);
}

/* ---- one number ---- */

static bool catches_signal(const struct job_process *process, int signal)
{
    return signal == 0 || (process->caught >> (signal - 1) & 1) != 0;
}

static bool may_be(const struct picture *picture, size_t index, int64_t number, bool catching)
{
    return picture->ranks[index][picture->launcher] == number &&
           (!catching || catches_signal(&picture->table->items[index], picture->signal));
}

static bool is_topmost(const struct picture *picture, size_t index, int64_t number, bool catching)
{
    size_t steps = 0;

    for (int at = picture->table->items[index].parent;
         at != PROCESS_NO_PARENT && ++steps <= picture->table->count;
         at = picture->table->items[at].parent)
        if (may_be(picture, (size_t)at, number, catching))
            return false;
    return true;
}

/* The eldest of the topmost, and a second one if there is any. */
static const struct job_process *find_topmost(const struct picture *picture, int64_t number,
                                              bool catching, pid_t *ret_twin)
{
    const struct job_process *found = NULL, *second = NULL;

    for (size_t i = 0; i < picture->table->count; i++) {
        const struct job_process *process = &picture->table->items[i];
        if (!may_be(picture, i, number, catching) || !is_topmost(picture, i, number, catching))
            continue;
        if (found == NULL || process->stat.start_ticks < found->stat.start_ticks) {
            second = found;
            found = process;
        } else if (second == NULL) {
            second = process;
        }
    }
    *ret_twin = second == NULL ? 0 : second->stat.pid;
    return found;
}

static uint32_t count_told(const struct job_process *process, const char *name)
{
    const int64_t count = number_of(process, name);

    return count > 0 ? (uint32_t)count : 0;
}

/* srun tells its tasks their numbers by PMIx or PMI as well, which count none of a node. */
static bool ranks_are_tasks(const struct picture *picture)
{
    for (size_t i = 0; i < picture->table->count; i++)
        if (picture->ranks[i][picture->launcher] != RANK_NONE &&
            picture->ranks[i][picture->launcher] != picture->ranks[i][LAUNCHER_SLURM])
            return false;
    return true;
}

static uint32_t local_count_of(const struct picture *picture, const struct job_process *process)
{
    const char *tasks = job_process_variable(process, "SLURM_STEP_TASKS_PER_NODE");
    const int64_t node = number_of(process, "SLURM_NODEID");
    const uint32_t count = count_told(process, launchers[picture->launcher].local_count);

    if (count > 0 || !ranks_are_tasks(picture))
        return count;
    if (tasks != NULL && node >= 0)
        return count_of_node(tasks, node);
    return count_told(process, "SLURM_NTASKS_PER_NODE");
}

static void fill_seen(const struct job_process *process, int signal, struct rank_seen *seen)
{
    *seen = (struct rank_seen){
        .local = RANK_NONE,
        .pid = process->stat.pid,
        .start_ticks = process->stat.start_ticks,
        .catches_usr1 = catches_signal(process, SIGUSR1),
        .catches_usr2 = catches_signal(process, SIGUSR2),
        .catches_asked = catches_signal(process, signal),
    };
    memcpy(seen->name, process->stat.name, sizeof(seen->name));
}

static void add_rank(const struct picture *picture, int64_t number, struct ranks_seen *seen)
{
    pid_t twin;
    const struct job_process *process = find_topmost(picture, number, true, &twin);
    struct rank_seen *rank = &seen->items[seen->count++];

    if (process == NULL)
        process = find_topmost(picture, number, false, &twin);
    CHECK(process != NULL);
    fill_seen(process, picture->signal, rank);
    rank->number = (uint32_t)number;
    rank->twin = twin;
    rank->local = (int32_t)number_of(process, launchers[picture->launcher].local);
    rank->local_count = local_count_of(picture, process);
    rank->all_count = count_told(process, launchers[picture->launcher].count);
}

/* ---- launchers ---- */

static bool command_has(const struct job_process *process, const char *word)
{
    return process->command != NULL &&
           memmem(process->command, process->command_bytes, word, strlen(word)) != NULL;
}

static bool is_named_launcher(const struct job_process *process)
{
    for (size_t i = 0; i < ARRAY_COUNT(launcher_names); i++)
        if (strcmp(process->stat.name, launcher_names[i]) == 0)
            return true;
    return command_has(process, "torch.distributed") || command_has(process, "/torchrun");
}

/* OpenMPI's helper of a program that was started without mpirun: below that program, which is the
 * one rank that it serves. It catches every signal, and starts nothing. */
bool ranks_serves_one(const struct job_process *process)
{
    return strcmp(process->stat.name, "orted") == 0 &&
           command_has(process, "--singleton-died-pipe");
}

static void add_launchers(const struct picture *picture, struct ranks_seen *seen)
{
    const size_t rank_count = seen->count;

    for (size_t i = 0; i < picture->table->count; i++) {
        const struct job_process *process = &picture->table->items[i];
        bool launcher = rank_count == 0 && is_named_launcher(process) && !ranks_serves_one(process);
        if (!process->belongs || picture->ranks[i][picture->launcher] != RANK_NONE)
            continue;
        for (size_t k = 0; k < rank_count && !launcher; k++)
            launcher =
                is_below(picture, job_processes_find(picture->table, seen->items[k].pid), process);
        if (launcher && seen->count < rank_count + RANKS_LAUNCHERS_MAX) {
            fill_seen(process, picture->signal, &seen->items[seen->count]);
            seen->items[seen->count++].launcher = true;
        }
    }
}

/* ---- without a number ---- */

static bool process_hears(const struct picture *picture, const struct job_process *process)
{
    return picture->signal != 0 && process->belongs && !ranks_serves_one(process) &&
           catches_signal(process, picture->signal);
}

static bool hears_above(const struct picture *picture, const struct job_process *process)
{
    size_t steps = 0;

    for (int at = process->parent; at != PROCESS_NO_PARENT && ++steps <= picture->table->count;
         at = picture->table->items[at].parent)
        if (process_hears(picture, &picture->table->items[at]))
            return true;
    return false;
}

/* By its memory: neither has executed a program since. */
static bool is_copy_of(const struct job_process *process, const struct job_process *origin)
{
    return process != origin && !process->stat.executed && process->stat.image != 0 &&
           process->stat.image == origin->stat.image &&
           (process->stat.start_ticks > origin->stat.start_ticks ||
            (process->stat.start_ticks == origin->stat.start_ticks &&
             process->stat.pid > origin->stat.pid));
}

/* Its own parent has ended: another one has taken it over. */
static bool is_orphan(const struct picture *picture, const struct job_process *process)
{
    return process->parent == PROCESS_NO_PARENT ||
           picture->table->items[process->parent].stat.image != process->stat.image;
}

/* Forked as the other one was, by a program that may have ended, and taken over by the same: the
 * younger one has nothing of the elder one's state. */
static bool are_siblings(const struct picture *picture, const struct job_process *process,
                         const struct job_process *elder)
{
    return !elder->stat.executed && is_orphan(picture, elder) &&
           elder->stat.parent == process->stat.parent;
}

/* Forked from one that hears, by one in between that has ended. */
static bool is_stray_copy(const struct picture *picture, const struct job_process *process)
{
    if (!is_orphan(picture, process))
        return false;
    for (size_t i = 0; i < picture->table->count; i++) {
        const struct job_process *other = &picture->table->items[i];
        if (process_hears(picture, other) && is_copy_of(process, other) &&
            !are_siblings(picture, process, other))
            return true;
    }
    return false;
}

static void find_hearers(const struct picture *picture, struct ranks_seen *seen)
{
    size_t count = 0;

    for (size_t i = 0; i < picture->table->count; i++) {
        const struct job_process *process = &picture->table->items[i];
        if (!process_hears(picture, process) || hears_above(picture, process) ||
            is_stray_copy(picture, process))
            continue;
        if (count++ < RANKS_NODE_MAX)
            seen->hearers[count - 1] =
                (struct process_id){process->stat.pid, process->stat.start_ticks};
    }
    seen->hearer_count = count < RANKS_NODE_MAX ? count : RANKS_NODE_MAX;
    seen->catches = count > 0 ? PROC_CATCHES : PROC_NONE_CATCHES;
    if (seen->count == 0 && count > RANKS_NODE_MAX && seen->why[0] == '\0')
        snprintf(seen->why, sizeof(seen->why),
                 "%zu processes of the job catch the signal, and none is above another; at most %d "
                 "are asked",
                 count, RANKS_NODE_MAX);
}

/* Whatever it has started is its own affair: it saves for all. */
static void find_started(const struct picture *picture, struct ranks_seen *seen)
{
    const struct job_process *started = picture->main_process;

    seen->hearer_count = 0;
    if (started != NULL && proc_living(&started->stat) && process_hears(picture, started))
        seen->hearers[seen->hearer_count++] =
            (struct process_id){started->stat.pid, started->stat.start_ticks};
    seen->catches = seen->hearer_count > 0 ? PROC_CATCHES : PROC_NONE_CATCHES;
}

/* All of the group that lives, whether the job's or not: the signal reaches them all. */
static void judge_group(const struct picture *picture, pid_t group, struct ranks_seen *seen)
{
    seen->group = (struct proc_catching){.unread = picture->table->unread};
    for (size_t i = 0; i < picture->table->count && picture->signal != 0; i++) {
        const struct job_process *process = &picture->table->items[i];
        const struct proc_status status = {.caught = process->caught, .ignored = process->ignored};
        if (process->stat.group != group || !proc_living(&process->stat))
            continue;
        CHECK(process->known); /* read_more() in job_processes.c */
        if (!proc_catching_add(&seen->group, &process->stat, &status, picture->signal))
            break;
    }
    seen->catches = proc_catching_end(&seen->group);
}

void ranks_find(const struct job_processes *table, const struct job_identity *job, int signal,
                struct ranks_seen *ret_seen)
{
    struct picture picture = {.table = table, .signal = signal};
    int64_t *numbers = check_calloc(table->count + 1, sizeof(*numbers));
    size_t count;

    CHECK(signal >= 0 && signal <= 64);
    picture.ranks = check_calloc(table->count + 1, sizeof(*picture.ranks));
    picture.main_process = job_processes_find(table, job->group);
    if (picture.main_process != NULL && !picture.main_process->belongs)
        picture.main_process = NULL;
    for (size_t i = 0; i < table->count; i++)
        for (size_t k = 0; k < LAUNCHER_COUNT; k++)
            picture.ranks[i][k] =
                table->items[i].belongs ? rank_of(&table->items[i], k) : RANK_NONE;
    for (size_t k = 0; k < LAUNCHER_COUNT; k++)
        drop_inherited(&picture, k);
    count = choose_launcher(&picture, numbers);
    ret_seen->count = 0;
    ret_seen->why[0] = '\0';
    snprintf(ret_seen->main_name, sizeof(ret_seen->main_name), "%s",
             picture.main_process == NULL ? "" : picture.main_process->stat.name);
    if (table->unread)
        snprintf(ret_seen->why, sizeof(ret_seen->why),
                 "not all processes of this node can be read just now");
    if (count > RANKS_NODE_MAX && !job->asks_started)
        snprintf(ret_seen->why, sizeof(ret_seen->why),
                 "the job has %zu ranks on this node, at most %d are taken", count, RANKS_NODE_MAX);
    for (size_t i = 0; i < count && i < RANKS_NODE_MAX && !job->asks_started; i++)
        add_rank(&picture, numbers[i], ret_seen);
    if (!job->asks_started)
        add_launchers(&picture, ret_seen);
    ret_seen->asks_group = job->asks_group;
    ret_seen->hearer_count = 0;
    ret_seen->group = (struct proc_catching){.culprit = 0};
    if (job->asks_started)
        find_started(&picture, ret_seen);
    else if (job->asks_group)
        judge_group(&picture, job->group, ret_seen);
    else
        find_hearers(&picture, ret_seen);
    free(picture.ranks);
    free(numbers);
}

/* ---- off the loop ---- */

struct ranks_look {
    uv_work_t work;
    struct job_identity job;
    int signal;
    struct ranks_seen seen;
    ranks_done_fn *done; /* NULL: not wanted any more */
    void *data;
};

static void look_once(struct ranks_look *look, enum process_look how)
{
    struct job_processes table;

    job_processes_init(&table);
    job_processes_look(&table, &look->job, how);
    ranks_find(&table, &look->job, look->signal, &look->seen);
    job_processes_close(&table);
}

/* A job that can be asked, as far as its ranks go: as many as were counted, once each, or none and
 * somebody who hears the signal; hears: there is one. */
static bool shows_all(const struct ranks_seen *seen, uint32_t declared, bool hears)
{
    uint32_t count = 0, wanted = declared;

    for (size_t i = 0; i < seen->count; i++) {
        const struct rank_seen *rank = &seen->items[i];
        if (rank->launcher)
            continue;
        if (rank->twin != 0)
            return false;
        count++;
        if (declared == 0 && rank->local_count > wanted)
            wanted = rank->local_count;
    }
    if (seen->why[0] != '\0' || (count == 0 && seen->count > 0))
        return false; /* a launcher without a rank, among others */
    return count > 0 ? wanted == 0 || count == wanted : !hears || seen->catches == PROC_CATCHES;
}

static void work_look(uv_work_t *work)
{
    struct ranks_look *look = work->data;

    look_once(look, PROCESS_KNOWN);
    if (!shows_all(&look->seen, look->job.ranks_declared, look->signal != 0))
        look_once(look, PROCESS_ANEW);
}

static void work_done(uv_work_t *work, int status)
{
    struct ranks_look *look = work->data;

    (void)status;
    if (look->done != NULL)
        look->done(look->data, &look->seen);
    free(look);
}

struct ranks_look *ranks_start(uv_loop_t *loop, const struct job_identity *job, int signal,
                               ranks_done_fn *done, void *data)
{
    struct ranks_look *look = check_calloc(1, sizeof(*look));

    look->work.data = look;
    look->job = *job;
    look->signal = signal;
    look->done = done;
    look->data = data;
    CHECK(uv_queue_work(loop, &look->work, work_look, work_done) == 0);
    return look;
}

void ranks_detach(struct ranks_look *look)
{
    if (look != NULL)
        look->done = NULL;
}
