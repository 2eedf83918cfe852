/* The ranks of a job, from texts of /proc as launchers leave them. */
#include "src/agent/node/ranks.h"
#include "src/base/check.h"
#include "tests/support/test.h"

enum { UID = 1000, NOT_OURS = 1001, MAIN = 100, START = 5000 };
#define USR1 0x200
#define USR2 0x800

static struct job_processes table;
static struct job_identity job;
static struct ranks_seen seen;

static int begin(void **state)
{
    (void)state;
    job_processes_init(&table);
    job = (struct job_identity){.stragglers = {.allocation_id = "j1",
                                               .work_dir = "/w/j1",
                                               .start_ticks = START,
                                               .uid = UID},
                                .group = MAIN};
    job.stragglers.run = run_make(1, 42);
    return 0;
}

static int end(void **state)
{
    (void)state;
    job_processes_close(&table);
    return 0;
}

#define OURS "CKPT_ALLOCATION_ID=j1 CKPT_DIR=/w/j1 CKPT_RUN=1-42 "

/* As the kernel writes it; the variables stand between blanks. */
struct text {
    pid_t pid, parent, group;
    const char *name;
    unsigned caught;
    const char *variables;
    const char *command;
    uid_t uid;       /* 0: the job's */
    char state;      /* 0: S */
    uint64_t late;   /* ticks after the main process's start, plus one */
    uint64_t memory; /* where its program lies */
    bool forked;     /* and it has executed none since */
};

static char *split(const char *words, size_t *ret_bytes)
{
    char *copy = words == NULL ? NULL : strdup(words);

    *ret_bytes = words == NULL ? 0 : strlen(words) + 1;
    for (char *at = copy; at != NULL && *at != '\0'; at++)
        if (*at == ' ')
            *at = '\0';
    return copy;
}

static void add(struct text text)
{
    struct job_process process = {.known = true};
    struct proc_status status;
    char line[512];
    uid_t uid = text.uid == 0 ? UID : text.uid;

    snprintf(line, sizeof(line),
             "%d (%s) %c %d %d 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %llu 1 2\n", text.pid,
             text.name, text.state == 0 ? 'S' : text.state, text.parent, text.group,
             (unsigned long long)(START + (text.late == 0 ? (uint64_t)text.pid : text.late - 1)));
    assert_int_equal(proc_parse_stat(line, &process.stat), 0);
    snprintf(line, sizeof(line),
             "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nGid:\t1\t1\t1\t1\nGroups:\t1\n"
             "SigIgn:\t0000000000001000\nSigCgt:\t%016x\n",
             uid, uid, uid, uid, text.caught);
    assert_int_equal(proc_parse_status(line, &status), 0);
    process.uid = status.uid;
    process.caught = status.caught;
    process.ignored = status.ignored;
    process.stat.image = text.memory;
    process.stat.executed = !text.forked;
    process.environment = split(text.variables, &process.environment_bytes);
    process.command = split(text.command, &process.command_bytes);
    job_processes_add(&table, &process);
}

#define ADD(...) add((struct text){__VA_ARGS__})

static void main_process(const char *name, const char *variables)
{
    ADD(MAIN, 1, MAIN, name, .variables = variables, .late = 1);
}

/* "0:73 1:74! /71": ranks, those that do not catch USR1 marked, then launchers. */
static const char *found(int signal)
{
    static char text[4096];
    size_t used = 0;

    job_processes_settle(&table, &job);
    ranks_find(&table, &job, signal, &seen);
    text[0] = '\0';
    for (size_t i = 0; i < seen.count; i++) {
        const struct rank_seen *rank = &seen.items[i];
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", i == 0 ? "" : " ");
        if (rank->launcher)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "/%d", rank->pid);
        else
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%u:%d%s", rank->number,
                                     rank->pid, rank->catches_usr1 ? "" : "!");
        if (rank->twin != 0)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "=%d", rank->twin);
    }
    return text;
}

#define OMPI(number, local)                                                                        \
    OURS "OMPI_COMM_WORLD_RANK=" number                                                            \
         " OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=" local                               \
         " OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=" number

static void mpirun_has_ranks_in_groups_of_their_own(void **state)
{
    (void)state;
    main_process("mpirun", OURS);
    ADD(105, MAIN, 105, "heat", .caught = USR1, .variables = OMPI("4", "0"));
    ADD(103, MAIN, 103, "heat", .caught = USR1 | USR2, .variables = OMPI("5", "1"));
    ADD(106, 1, 106, "heat", .caught = USR1,
        .variables = "OMPI_COMM_WORLD_RANK=1"); /* of another job */
    assert_string_equal(found(SIGUSR1), "4:105 5:103 /100");
    assert_int_equal(seen.items[0].local, 0);
    assert_int_equal(seen.items[0].local_count, 2);
    assert_int_equal(seen.items[1].local, 1);
    assert_false(seen.items[0].catches_usr2);
    assert_true(seen.items[1].catches_usr2);
    assert_true(seen.items[0].start_ticks == START + 105);
    assert_string_equal(seen.items[0].name, "heat");
    assert_string_equal(seen.items[2].name, "mpirun");
    assert_string_equal(seen.why, "");
}

/* The script above and the loader below have the rank's number; the one above it does not catch the
 * signal, the one below inherited the handler. */
static void neither_wrapper_scripts_nor_data_loaders_are_the_rank(void **state)
{
    (void)state;
    main_process("bash", OURS);
    ADD(101, MAIN, MAIN, "mpirun", .variables = OURS);
    ADD(102, 101, 102, "wrapper.sh", .variables = OMPI("0", "0"));
    ADD(103, 102, 102, "time", .variables = OMPI("0", "0"));
    ADD(104, 103, 102, "train", .caught = USR1, .variables = OMPI("0", "0"));
    ADD(105, 104, 102, "train", .caught = USR1, .variables = OMPI("0", "0"));
    ADD(106, 104, 102, "pt_data", .variables = OMPI("0", "0"));
    ADD(107, 104, 102, "bare", .caught = USR1); /* it emptied its environment */
    ADD(112, 101, 112, "wrapper.sh", .variables = OMPI("1", "1"));
    ADD(113, 112, 112, "solver", .variables = OMPI("1", "1"));
    assert_string_equal(found(SIGUSR1), "0:104 1:112! /100 /101");
    /* a script that handles the signal does it for what is below */
    ADD(122, 101, 122, "trap.sh", .caught = USR2, .variables = OMPI("2", "2"));
    ADD(123, 122, 122, "solver", .caught = USR1 | USR2, .variables = OMPI("2", "2"));
    assert_string_equal(found(SIGUSR2), "0:102! 1:112! 2:122! /100 /101");
    assert_string_equal(found(SIGUSR1), "0:104 1:112! 2:123 /100 /101");
    assert_string_equal(found(0), "0:102! 1:112! 2:122! /100 /101");
}

static void two_that_have_one_number_are_both_named(void **state)
{
    (void)state;
    main_process("bash", OURS);
    ADD(101, MAIN, 101, "one", .caught = USR1, .variables = OMPI("3", "0"), .late = 20);
    ADD(102, MAIN, 102, "two", .caught = USR1, .variables = OMPI("3", "0"), .late = 10);
    assert_string_equal(found(SIGUSR1), "3:102=101 /100");
    ADD(103, MAIN, 103, "wrapper", .caught = 0, .variables = OMPI("4", "0"));
    ADD(104, 103, 103, "monitor", .caught = 0, .variables = OMPI("4", "0"));
    ADD(105, 103, 103, "solver", .caught = USR1, .variables = OMPI("4", "0"));
    assert_string_equal(found(SIGUSR1), "3:102=101 4:105 /100");
}

#define SRUN(step, number, local)                                                                  \
    OURS "SLURM_JOB_ID=7 SLURM_STEP_ID=" step " SLURM_PROCID=" number " SLURM_LOCALID=" local      \
         " SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4(x1),2(x3) SLURM_NTASKS_PER_NODE=8"

/* The tasks descend from slurmstepd; the script of sbatch has a number that is nobody's. */
static void sruns_tasks_are_ranks_and_sbatchs_script_is_none(void **state)
{
    (void)state;
    main_process("job.sh", OURS "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0");
    ADD(101, MAIN, MAIN, "srun", .variables = OURS "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0");
    ADD(50, 1, 50, "slurmstepd", .uid = NOT_OURS);
    ADD(151, 50, 151, "solver", .caught = USR1, .variables = SRUN("0", "0", "0"));
    ADD(152, 50, 152, "solver", .caught = USR1, .variables = SRUN("0", "1", "1"));
    assert_string_equal(found(SIGUSR1), "0:151 1:152"); /* srun is above none of them */
    assert_int_equal(seen.items[0].local_count, 2);
    assert_int_equal(seen.items[1].local, 1);
}

static void before_there_is_a_rank_launchers_are_known_by_name(void **state)
{
    (void)state;
    main_process("job.sh", OURS "SLURM_PROCID=0 SLURM_STEP_ID=4294967291");
    ADD(101, MAIN, MAIN, "srun", .variables = OURS);
    ADD(102, MAIN, MAIN, "python3", .command = "python3 -m torch.distributed.run train.py");
    ADD(103, MAIN, MAIN, "python3", .command = "python3 train.py");
    ADD(104, 1, 104, "mpirun", .caught = USR1);
    assert_string_equal(found(SIGUSR1), "/101 /102");
}

static void an_application_without_a_launcher_has_no_ranks(void **state)
{
    (void)state;
    main_process("bash", OURS "RANK=7");
    ADD(101, MAIN, MAIN, "solver", .caught = USR1,
        .variables = OURS "RANK=7 PMI_RANK=x PMIX_RANK=-1");
    ADD(102, MAIN, MAIN, "solver", .caught = USR1,
        .variables = OURS "RANK=8"); /* a common name: no WORLD_SIZE */
    assert_string_equal(found(SIGUSR1), "");
}

#define TORCH(number) OURS "RANK=" number " LOCAL_RANK=" number " WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 "

/* Every process has srun's number 0, the main process's: it is nobody's. */
static void torchruns_ranks_are_its_workers(void **state)
{
    const char *task = "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0";
    char words[512];

    (void)state;
    snprintf(words, sizeof(words), OURS "%s", task);
    main_process("torchrun", words);
    snprintf(words, sizeof(words), TORCH("0") "%s", task);
    ADD(101, MAIN, MAIN, "python", .caught = USR1, .variables = words);
    ADD(111, 101, MAIN, "pt_data_worker", .caught = USR1, .variables = words);
    snprintf(words, sizeof(words), TORCH("1") "%s", task);
    ADD(102, MAIN, MAIN, "python", .caught = USR1, .variables = words);
    assert_string_equal(found(SIGUSR1), "0:101 1:102 /100");
    assert_int_equal(seen.items[0].local_count, 2);
}

/* A torchrun as the one task of a step, or the one process of mpirun, has a number of its own: that
 * of its launcher, which is not the one that gave the most. */
static void of_nested_launchers_the_one_that_started_the_most_counts(void **state)
{
    (void)state;
    main_process("mpirun", OURS);
    ADD(101, MAIN, 101, "torchrun", .variables = OURS "OMPI_COMM_WORLD_RANK=3");
    ADD(102, 101, 101, "python", .caught = USR1, .variables = TORCH("6") "OMPI_COMM_WORLD_RANK=3");
    ADD(103, 101, 101, "python", .caught = USR1, .variables = TORCH("7") "OMPI_COMM_WORLD_RANK=3");
    assert_string_equal(found(SIGUSR1), "6:102 7:103 /100 /101");
}

/* One ckpt-run for each task: the first one's child leads, and is a rank like the others. */
static void a_leader_that_is_one_of_several_tasks_is_a_rank(void **state)
{
    (void)state;
    main_process("solver", SRUN("0", "4", "0"));
    ADD(101, MAIN, MAIN, "helper", .variables = SRUN("0", "4", "0"));
    assert_string_equal(found(SIGUSR1), ""); /* alone, it is the job */
    ADD(105, 60, 105, "solver", .caught = USR1, .variables = SRUN("0", "5", "1"));
    assert_string_equal(found(SIGUSR1), "4:100! 5:105");
}

/* Within an interactive step each further one has numbers of its own. */
static void the_tasks_of_another_step_may_have_the_leaders_number(void **state)
{
    (void)state;
    main_process("bash", SRUN("0", "0", "0"));
    ADD(101, 60, 101, "solver", .caught = USR1, .variables = SRUN("1", "0", "0"));
    ADD(102, 60, 102, "solver", .caught = USR1, .variables = SRUN("1", "1", "1"));
    assert_string_equal(found(SIGUSR1), "0:101 1:102");
}

/* An operator of Kubernetes numbers the nodes by the names that torchrun has for ranks. */
static void the_ranks_of_another_world_may_have_the_leaders_number(void **state)
{
    (void)state;
    main_process("torchrun", OURS "RANK=0 WORLD_SIZE=2");
    ADD(101, MAIN, MAIN, "python", .caught = USR1, .variables = TORCH("0"));
    ADD(102, MAIN, MAIN, "python", .caught = USR1, .variables = TORCH("1"));
    assert_string_equal(found(SIGUSR1), "0:101 1:102 /100");
}

static void hydra_mvapich_and_pmix_are_known(void **state)
{
    static const char *const words[][2] = {
        {OURS "PMI_RANK=0 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2",
         OURS "PMI_RANK=1 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"},
        {OURS "MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_LOCAL_RANK=0 MV2_COMM_WORLD_LOCAL_SIZE=2",
         OURS "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_LOCAL_RANK=1"},
        {OURS "PMIX_RANK=0", OURS "PMIX_RANK=1"},
        {OURS "CKPT_RANK=0 CKPT_LOCAL_RANKS=2 PMI_RANK=8", OURS "CKPT_RANK=1 PMI_RANK=9"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        begin(state);
        main_process("mpiexec.hydra", OURS);
        ADD(101, MAIN, 101, "hydra_pmi_proxy", .variables = OURS);
        ADD(102, 101, 102, "solver", .caught = USR1, .variables = words[i][0]);
        ADD(103, 101, 103, "solver", .caught = USR1, .variables = words[i][1]);
        assert_string_equal(found(SIGUSR1), "0:102 1:103 /100 /101");
        assert_int_equal(seen.items[0].local_count, i == 2 ? 0 : 2);
        end(state);
    }
}

/* ---- without a number ---- */

/* The processes that hear the signal: "101 105". */
static const char *heard(int signal)
{
    static char text[4096];
    size_t used = 0;

    assert_string_equal(found(signal), "");
    text[0] = '\0';
    for (size_t i = 0; i < seen.hearer_count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d", i == 0 ? "" : " ",
                                 seen.hearers[i].pid);
    assert_int_equal(seen.catches, seen.hearer_count > 0 ? PROC_CATCHES : PROC_NONE_CATCHES);
    assert_int_equal(seen.group.culprit, 0);
    return text;
}

/* V-005: its workers were forked with its handler, and hold the state of that moment. */
static void forked_helpers_do_not_hear_what_their_parent_hears(void **state)
{
    (void)state;
    main_process("python3", OURS);
    table.items[0].caught = USR1 | USR2;
    for (int i = 1; i <= 4; i++)
        ADD(MAIN + i, MAIN, MAIN, "python3", .caught = USR1, .variables = OURS, .forked = true);
    ADD(111, 101, MAIN, "python3", .caught = USR1, .forked = true);
    ADD(112, MAIN, MAIN, "tail", .caught = 0); /* would die of it */
    assert_string_equal(heard(SIGUSR1), "100");
    assert_true(seen.hearers[0].start_ticks == START);
    assert_string_equal(heard(SIGUSR2), "100");
    table.items[0].caught = 0; /* a supervisor: its children do the work */
    assert_string_equal(heard(SIGUSR1), "101 102 103 104");
    assert_string_equal(heard(SIGUSR2), "");
}

static void wrappers_that_do_not_catch_or_ignore_are_passed_over(void **state)
{
    (void)state;
    main_process("sh", OURS);
    ADD(101, MAIN, MAIN, "time", .caught = 0);
    ADD(102, 101, 102, "solver", .caught = USR1); /* has left the group */
    ADD(103, 102, 103, "monitor", .caught = USR1, .variables = OURS);
    ADD(104, MAIN, MAIN, "sleep", .caught = 0);
    assert_string_equal(heard(SIGUSR1), "102");
    /* a script that handles the signal does it for what is below */
    table.items[0].caught = USR1;
    assert_string_equal(heard(SIGUSR1), "100");
    /* a dead process hears nothing, and hides nobody */
    table.items[0].caught = 0;
    job_processes_find(&table, 102)->stat.state = 'Z';
    assert_string_equal(heard(SIGUSR1), "103");
}

#define MEMORY 77

/* It is the job's by its group or its environment; only its memory tells whose copy it is. */
static void a_copy_whose_parent_has_ended_does_not_hear(void **state)
{
    (void)state;
    main_process("sh", OURS);
    ADD(101, MAIN, MAIN, "solver", .caught = USR1, .memory = MEMORY);
    ADD(105, 1, 105, "solver", .caught = USR1, .variables = OURS, .memory = MEMORY, .forked = true);
    ADD(106, 105, 105, "solver", .caught = USR1, .memory = MEMORY, .forked = true);
    ADD(107, MAIN, MAIN, "solver", .caught = USR1, .memory = MEMORY, .forked = true); /* adopted */
    assert_string_equal(heard(SIGUSR1), "101");
    /* one that has executed a program since, or is of another, speaks for itself */
    ADD(108, 1, 108, "other", .caught = USR1, .variables = OURS, .memory = MEMORY);
    ADD(109, 1, 109, "daemon", .caught = USR1, .variables = OURS, .memory = 1, .forked = true);
    assert_string_equal(heard(SIGUSR1), "101 108 109");
    /* a daemon of which nothing else is left is the program itself */
    job_processes_find(&table, 101)->stat.state = 'Z';
    job_processes_find(&table, 107)->stat.state = 'Z';
    assert_string_equal(heard(SIGUSR1), "105 108 109");
    /* where the kernel does not tell, all that catch it are asked */
    job_processes_find(&table, 101)->stat.state = 'S';
    for (size_t i = 0; i < table.count; i++)
        table.items[i].stat.image = 0;
    assert_string_equal(heard(SIGUSR1), "101 105 108 109");
}

/* Forked by one that does not catch it, they are children of their own. */
static void workers_of_a_living_supervisor_are_no_copies_of_each_other(void **state)
{
    (void)state;
    main_process("sh", OURS);
    ADD(101, MAIN, MAIN, "sup", .memory = MEMORY);
    ADD(102, 101, MAIN, "sup", .caught = USR1, .memory = MEMORY, .forked = true);
    ADD(103, 101, MAIN, "sup", .caught = USR1, .memory = MEMORY, .forked = true);
    assert_string_equal(heard(SIGUSR1), "102 103");
}

/* Each was forked by a child of the supervisor that has ended: none is a copy of another, whether
 * the supervisor lives or not. */
static void workers_that_were_forked_twice_are_no_copies_of_each_other(void **state)
{
    (void)state;
    main_process("sh", OURS);
    ADD(101, MAIN, MAIN, "sup", .memory = MEMORY);
    ADD(103, 1, 102, "sup", .caught = USR1, .variables = OURS, .memory = MEMORY, .forked = true);
    ADD(105, 1, 104, "sup", .caught = USR1, .variables = OURS, .memory = MEMORY, .forked = true);
    ADD(106, 105, 104, "sup", .caught = USR1, .memory = MEMORY, .forked = true); /* a helper */
    assert_string_equal(heard(SIGUSR1), "103 105");
    job_processes_find(&table, 101)->stat.state = 'Z';
    assert_string_equal(heard(SIGUSR1), "103 105");
    /* helpers of a program that catches it are copies, also of each other's age */
    job_processes_find(&table, 101)->stat.state = 'S';
    job_processes_find(&table, 101)->caught = USR1;
    assert_string_equal(heard(SIGUSR1), "101");
}

static void the_whole_group_is_asked_where_its_user_says_so(void **state)
{
    (void)state;
    job.asks_group = true;
    main_process("sh", OURS);
    table.items[0].ignored = USR1;
    ADD(101, MAIN, MAIN, "solver", .caught = USR1);
    ADD(102, 101, MAIN, "solver", .caught = USR1, .forked = true);
    assert_string_equal(found(SIGUSR1), "");
    assert_int_equal(seen.catches, PROC_CATCHES);
    assert_true(seen.asks_group);
    assert_int_equal(seen.hearer_count, 0);
    ADD(103, 101, MAIN, "tail", .caught = 0);
    found(SIGUSR1);
    assert_int_equal(seen.catches, PROC_WOULD_DIE);
    assert_int_equal(seen.group.culprit, 103);
    job.asks_group = false;
    assert_string_equal(heard(SIGUSR1), "101");
    assert_false(seen.asks_group);
}

/* OpenMPI gives a program that was started by itself a helper with the name of a launcher.
 * V-005. */
static void a_program_without_its_launcher_is_one_rank(void **state)
{
    (void)state;
    main_process("lmp", OURS);
    table.items[0].caught = USR1;
    ADD(101, MAIN, 101, "orted", .caught = USR1, .variables = OURS,
        .command = "orted --hnp --set-sid --report-uri 8 --singleton-died-pipe 9 -mca ess hnp");
    assert_string_equal(found(SIGUSR1), "");
    assert_uint_equal(seen.count, 0);
    assert_string_equal(heard(SIGUSR1), "100");
    table.items[0].caught = 0; /* then nobody hears it: the helper would hand it to nobody */
    assert_string_equal(heard(SIGUSR1), "");
    assert_int_equal(seen.catches, PROC_NONE_CATCHES);
    /* the daemon of another node's mpirun has ranks to start */
    free(table.items[1].command);
    table.items[1].command = strdup("orted");
    table.items[1].command_bytes = sizeof("orted");
    found(SIGUSR1);
    assert_uint_equal(seen.count, 1);
    assert_true(seen.items[0].launcher);
}

/* A script saves for the ranks of an mpirun below it, which know nothing of checkpoints. V-005. */
static void who_was_started_alone_is_asked_where_its_user_says_so(void **state)
{
    (void)state;
    job.asks_started = true;
    main_process("bash", OURS);
    ADD(101, MAIN, MAIN, "mpirun", .caught = USR1);
    ADD(102, 101, 102, "solver", .caught = USR1,
        .variables = OURS "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
    ADD(103, 101, 103, "solver", .caught = USR1,
        .variables = OURS "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
    assert_string_equal(found(SIGUSR1), "");
    assert_uint_equal(seen.count, 0);
    assert_int_equal(seen.catches, PROC_NONE_CATCHES); /* it has no handler yet */
    table.items[0].caught = USR1;
    assert_string_equal(heard(SIGUSR1), "100");
    assert_int_equal(seen.catches, PROC_CATCHES);
    job.asks_started = false;
    found(SIGUSR1);
    assert_uint_equal(seen.count, 4); /* with the two that are above the ranks */
}

static void more_that_hear_than_are_asked_are_said(void **state)
{
    (void)state;
    main_process("sh", OURS);
    for (int i = 0; i < RANKS_NODE_MAX + 1; i++)
        ADD(101 + i, MAIN, 101 + i, "solver", .caught = USR1);
    heard(SIGUSR1);
    assert_int_equal(seen.hearer_count, RANKS_NODE_MAX);
    assert_string_equal(seen.why, "257 processes of the job catch the signal, and none is above "
                                  "another; at most 256 are asked");
}

/* ---- who is a process ---- */

static size_t processes(void)
{
    size_t count = 0;

    job_processes_settle(&table, &job);
    for (size_t i = 0; i < table.count; i++)
        count += table.items[i].belongs ? 1 : 0;
    return count;
}

#define PMI_STEP(number, also)                                                                     \
    OURS "SLURM_PROCID=" number " SLURM_STEP_ID=0 SLURM_NODEID=1 SLURM_NTASKS=7 "                  \
         "SLURM_STEP_TASKS_PER_NODE=4,3 " also

static void what_srun_counts_holds_for_ranks_that_pmi_numbers(void **state)
{
    (void)state;
    main_process("sh", OURS);
    ADD(101, 1, 101, "solver", .caught = USR1, .variables = PMI_STEP("4", "PMIX_RANK=4"));
    ADD(102, 1, 102, "solver", .caught = USR1, .variables = PMI_STEP("5", "PMIX_RANK=5"));
    assert_string_equal(found(SIGUSR1), "4:101 5:102"); /* the third has died */
    assert_int_equal(seen.items[0].local_count, 3);
    job_processes_close(&table);
    main_process("sh", OURS);
    ADD(101, 1, 101, "solver", .caught = USR1, .variables = PMI_STEP("4", "PMI_RANK=4 PMI_SIZE=7"));
    ADD(102, 1, 102, "solver", .caught = USR1, .variables = PMI_STEP("5", "PMI_RANK=5 PMI_SIZE=7"));
    assert_string_equal(found(SIGUSR1), "4:101 5:102");
    assert_int_equal(seen.items[0].local_count, 3);
    assert_int_equal(seen.items[0].all_count, 7);
}

/* One task of srun has started all of them by itself. */
static void what_srun_counts_does_not_hold_for_the_ranks_of_another(void **state)
{
    (void)state;
    main_process("sh", OURS);
    ADD(101, 1, 101, "solver", .caught = USR1, .variables = PMI_STEP("4", "RANK=4 WORLD_SIZE=6"));
    ADD(102, 101, 101, "solver", .caught = USR1, .variables = PMI_STEP("4", "RANK=5 WORLD_SIZE=6"));
    assert_string_equal(found(SIGUSR1), "4:101 5:102");
    assert_int_equal(seen.items[0].local_count, 0);
    assert_int_equal(seen.items[0].all_count, 6);
}

static void job_processes_are_found_by_group_environment_and_descent(void **state)
{
    (void)state;
    main_process("bash", NULL);
    ADD(101, 1, MAIN, "left", .variables = NULL);
    ADD(102, 1, 102, "daemon's", .variables = OURS);
    ADD(103, 102, 103, "bare", .variables = NULL);
    ADD(104, 103, 104, "below", .variables = NULL);
    assert_int_equal(processes(), 5);
    ADD(105, 1, 105, "other run",
        .variables = "CKPT_ALLOCATION_ID=j1 CKPT_DIR=/w/j1 CKPT_RUN=1-41");
    ADD(106, 1, 106, "other job", .variables = "CKPT_ALLOCATION_ID=j CKPT_DIR=/w/j1 CKPT_RUN=1-42");
    ADD(107, 1, 107, "elsewhere", .variables = "CKPT_ALLOCATION_ID=j1 CKPT_DIR=/w CKPT_RUN=1-42");
    ADD(108, 1, 108, "no one's", .variables = "XCKPT_ALLOCATION_ID=j1 CKPT_DIR= CKPT_RUN");
    ADD(109, 103, 109, "dead", .state = 'Z');
    assert_int_equal(processes(), 5);
    assert_true(job_processes_find(&table, 104)->belongs);
    assert_null(job_processes_find(&table, 110));
}

/* Another's process is not signalled for a user who names it, and passes for no rank of a user. */
static void a_process_of_another_user_belongs_to_roots_jobs_alone(void **state)
{
    (void)state;
    main_process("bash", NULL);
    ADD(102, 1, 102, "liar", .variables = OURS, .uid = NOT_OURS);
    ADD(103, MAIN, 103, "sudo", .uid = NOT_OURS);
    ADD(104, 103, 104, "back", .variables = NULL);
    assert_int_equal(processes(), 2);
    assert_true(job_processes_find(&table, 104)->belongs);
    job.stragglers.uid = 0; /* mpirun as root, its ranks as somebody */
    assert_int_equal(processes(), 3);
    assert_false(job_processes_find(&table, 102)->belongs);
}

static void a_group_whose_number_came_again_is_not_the_jobs(void **state)
{
    (void)state;
    ADD(MAIN, 1, MAIN, "new", .late = 100);
    ADD(101, MAIN, MAIN, "its", .variables = NULL);
    assert_int_equal(processes(), 0);
    end(state);
    ADD(101, 1, MAIN, "left", .variables = NULL);
    assert_int_equal(processes(), 1);
    table.items[0].stat.session = MAIN; /* a daemon's */
    assert_int_equal(processes(), 0);
    end(state);
    ADD(MAIN, 1, MAIN, "ended", .late = 1, .state = 'Z');
    ADD(101, MAIN, 101, "lives on", .variables = NULL);
    assert_int_equal(processes(), 1);
}

static void more_ranks_than_are_taken_are_said(void **state)
{
    char words[128];

    (void)state;
    main_process("mpirun", OURS);
    for (int i = 0; i < RANKS_NODE_MAX + 1; i++) {
        snprintf(words, sizeof(words), OURS "PMIX_RANK=%d", i);
        ADD(101 + i, MAIN, 101 + i, "solver", .caught = USR1, .variables = words);
    }
    found(SIGUSR1);
    assert_int_equal(seen.count, RANKS_NODE_MAX + 1);
    assert_string_equal(seen.why, "the job has 257 ranks on this node, at most 256 are taken");
    table.unread = true;
    table.count--; /* the last one was added last, and has the highest pid */
    free(table.items[table.count].environment);
    found(SIGUSR1);
    assert_string_equal(seen.why, "not all processes of this node can be read just now");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(mpirun_has_ranks_in_groups_of_their_own),
        CASE(neither_wrapper_scripts_nor_data_loaders_are_the_rank),
        CASE(two_that_have_one_number_are_both_named),
        CASE(sruns_tasks_are_ranks_and_sbatchs_script_is_none),
        CASE(before_there_is_a_rank_launchers_are_known_by_name),
        CASE(an_application_without_a_launcher_has_no_ranks),
        CASE(torchruns_ranks_are_its_workers),
        CASE(of_nested_launchers_the_one_that_started_the_most_counts),
        CASE(a_leader_that_is_one_of_several_tasks_is_a_rank),
        CASE(the_tasks_of_another_step_may_have_the_leaders_number),
        CASE(the_ranks_of_another_world_may_have_the_leaders_number),
        CASE(hydra_mvapich_and_pmix_are_known),
        CASE(what_srun_counts_holds_for_ranks_that_pmi_numbers),
        CASE(what_srun_counts_does_not_hold_for_the_ranks_of_another),
        CASE(forked_helpers_do_not_hear_what_their_parent_hears),
        CASE(wrappers_that_do_not_catch_or_ignore_are_passed_over),
        CASE(a_copy_whose_parent_has_ended_does_not_hear),
        CASE(workers_of_a_living_supervisor_are_no_copies_of_each_other),
        CASE(workers_that_were_forked_twice_are_no_copies_of_each_other),
        CASE(a_program_without_its_launcher_is_one_rank),
        CASE(who_was_started_alone_is_asked_where_its_user_says_so),
        CASE(the_whole_group_is_asked_where_its_user_says_so),
        CASE(more_that_hear_than_are_asked_are_said),
        CASE(job_processes_are_found_by_group_environment_and_descent),
        CASE(a_process_of_another_user_belongs_to_roots_jobs_alone),
        CASE(a_group_whose_number_came_again_is_not_the_jobs),
        CASE(more_ranks_than_are_taken_are_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
