/* Jobs of real processes: this program, started again in the roles of a launcher, its ranks and
 * others, that count in shared memory while they run. */
#ifndef CKPT_TESTS_UNIT_AGENT_REAL_JOB_H
#define CKPT_TESTS_UNIT_AGENT_REAL_JOB_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/node/still.h"
#include "src/base/check.h"
#include "tests/support/test.h"

extern char **environ;

enum { REAL_PATIENCE_MS = 20000, REAL_LIFE_S = 60, REAL_COUNT_MS = 5 };

struct real_job {
    struct job_identity identity;
    char counter[64]; /* file; also the work folder's name */
    _Atomic uint64_t *count;
};

static inline void real_wait_ms(int ms)
{
    poll(NULL, 0, ms);
}

static inline uint64_t real_now_us(void)
{
    return uv_hrtime() / 1000;
}

static inline _Atomic uint64_t *real_counter(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *memory = mmap(NULL, 4 * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd < 0 || memory == MAP_FAILED)
        _exit(3);
    close(fd);
    return memory;
}

/* ---- roles, in the children ---- */

static void real_on_signal(int number)
{
    (void)number;
}

/* Of 66 that count at a time each takes its share of a busy machine. */
static inline void real_count(int ms)
{
    _Atomic uint64_t *count = real_counter(getenv("TEST_COUNTER"));

    for (int i = 0; i < ms; i += REAL_COUNT_MS) {
        atomic_fetch_add(count, 1);
        real_wait_ms(REAL_COUNT_MS);
    }
}

static inline void *real_thread(void *data)
{
    (void)data;
    real_count(REAL_LIFE_S * 1000);
    return NULL;
}

static inline void real_exec(const char *role)
{
    execl("/proc/self/exe", "role", "--role", role, NULL);
    _exit(4);
}

static inline void real_fork(const char *role, bool own_session)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (own_session)
            setsid();
        real_exec(role);
    }
}

/* As mpirun, whose ranks save something when they are told to end, and take 300 ms for it; the
 * second one's parent is a wrapper script. Slot 1 counts the ranks that have ended in peace, slot 2
 * has what it was, and 1, when the launcher was told to end. */
static volatile sig_atomic_t real_told;

static void real_on_told(int number)
{
    (void)number;
    real_told = 1;
}

static inline void real_patient(const char *role)
{
    _Atomic uint64_t *slots = real_counter(getenv("TEST_COUNTER"));
    bool launcher = strcmp(role, "patient") == 0;

    signal(SIGTERM, real_on_told);
    for (int i = 0; i < 2 && launcher; i++) {
        if (fork() != 0)
            continue;
        setpgid(0, 0);
        setenv("OMPI_COMM_WORLD_RANK", i == 0 ? "0" : "1", 1);
        if (i == 0)
            real_exec("patient-rank");
        execl("/bin/sh", "wrapper", "-c", "\"$0\" --role patient-rank; true",
              getenv("TEST_PROGRAM"), NULL);
        _exit(4);
    }
    atomic_fetch_add(slots, 1);
    while (real_told == 0)
        real_wait_ms(1);
    if (!launcher)
        real_wait_ms(300);
    if (launcher)
        atomic_store(&slots[2], atomic_load(&slots[1]) + 1);
    else
        atomic_fetch_add(&slots[1], 1);
    _exit(0);
}

/* Leaves all that tells of the job, but that its parent lives. */
static inline void real_clear(void)
{
    char counter[128], role[] = "plain", option[] = "--role", program[] = "role";
    char *const words[] = {program, option, role, NULL};
    char *const environment[] = {counter, NULL};

    snprintf(counter, sizeof(counter), "TEST_COUNTER=%s", getenv("TEST_COUNTER"));
    if (fork() != 0)
        return;
    setsid();
    execve("/proc/self/exe", words, environment);
    _exit(4);
}

/* A hundred children a second, each of which lives for 200 ms. */
static inline void real_breed(bool spawn)
{
    char program[] = "role", option[] = "--role", role[] = "brief";
    char *const words[] = {program, option, role, NULL};

    for (int i = 0; i < REAL_LIFE_S * 100; i++) {
        pid_t pid;
        if (spawn) {
            posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ);
        } else if ((pid = fork()) == 0) {
            real_count(200);
            _exit(0);
        }
        real_wait_ms(10);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    }
}

/* The wait of who starts a program, as long as that takes. */
static int real_vforked(void *data)
{
    (void)data;
    real_count(REAL_LIFE_S * 1000);
    _exit(0);
}

static inline void real_vfork(void)
{
    static char stack[65536] __attribute__((aligned(16)));

    clone(real_vforked, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

/* A child with its handler, and one that has another parent by then. */
static inline void real_copies(void)
{
    signal(SIGUSR1, real_on_signal);
    for (int i = 0; i < 2; i++) {
        if (fork() != 0)
            continue;
        if (i == 0 || fork() == 0)
            real_count(REAL_LIFE_S * 1000);
        _exit(0);
    }
    wait(NULL); /* for the one in between */
}

/* As mpirun: each rank has a group of its own; rank 1 is a wrapper script's child. */
static inline void real_launch(void)
{
    for (int i = 0; i < 2; i++) {
        char number[16];
        if (fork() != 0)
            continue;
        setpgid(0, 0);
        snprintf(number, sizeof(number), "%d", i + 4);
        setenv("OMPI_COMM_WORLD_RANK", number, 1);
        number[0] = (char)('0' + i);
        setenv("OMPI_COMM_WORLD_LOCAL_RANK", number, 1);
        setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
        if (i == 0)
            real_exec("rank");
        snprintf(number, sizeof(number), "%d", (int)getpid());
        execl("/bin/sh", "wrapper", "-c", "\"$0\" --role rank; true", getenv("TEST_PROGRAM"), NULL);
        _exit(4);
    }
    real_count(REAL_LIFE_S * 1000);
}

/* The program's main() begins with it; returns in the test itself. */
static inline void real_main(int argc, char **argv)
{
    const char *role = argc == 3 && strcmp(argv[1], "--role") == 0 ? argv[2] : NULL;
    pthread_t thread;

    if (role == NULL) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        return;
    }
    alarm(REAL_LIFE_S);
    if (strcmp(role, "launcher") == 0) {
        real_launch();
    } else if (strcmp(role, "below-shell") == 0) {
        execl("/bin/sh", "wrapper", "-c", "sleep 60 & \"$0\" --role copies & wait",
              getenv("TEST_PROGRAM"), NULL);
        _exit(4);
    } else if (strcmp(role, "copies") == 0) {
        real_copies();
    } else if (strcmp(role, "rank") == 0) {
        signal(SIGUSR1, real_on_signal);
        if (fork() == 0)
            alarm(REAL_LIFE_S); /* a data loader: it has the rank's number and handler */
    } else if (strcmp(role, "forks") == 0 || strcmp(role, "spawns") == 0) {
        real_breed(role[0] == 's');
    } else if (strcmp(role, "brief") == 0) {
        real_count(200);
        _exit(0);
    } else if (strncmp(role, "patient", strlen("patient")) == 0) {
        real_patient(role);
    } else if (strcmp(role, "clears") == 0) {
        real_clear();
        for (;;)
            real_wait_ms(1000); /* the other one counts */
    } else if (strcmp(role, "vforks") == 0) {
        real_vfork();
    } else if (strcmp(role, "threads") == 0) {
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, real_thread, NULL);
        pthread_exit(NULL); /* the first thread is a zombie from here on */
    } else if (strcmp(role, "ignores") == 0) {
        for (int i = 1; i < NSIG; i++)
            if (i != SIGCHLD)
                signal(i, SIG_IGN);
    } else if (strcmp(role, "many") == 0) {
        for (int i = 0; i < 63; i++)
            real_fork("plain", i % 2 == 0);
        real_fork("ignores", true);
        real_fork("threads", true);
    }
    real_count(REAL_LIFE_S * 1000);
    _exit(0);
}

/* ---- the test's side ---- */

static inline uint64_t real_start_ticks(pid_t pid)
{
    struct proc_stat stat;

    assert_int_equal(proc_read_stat(pid, &stat), 0);
    return stat.start_ticks;
}

/* As real_still() left it last. */
static struct job_identity real_found;
/* What a test that failed has left. */
static struct job_identity real_left[4];

static inline struct job_identity *real_left_of(const struct real_job *job)
{
    for (size_t i = 0; i < ARRAY_COUNT(real_left); i++)
        if (strcmp(real_left[i].stragglers.allocation_id, job->identity.stragglers.allocation_id) ==
            0)
            return &real_left[i];
    fail_msg("more than %zu jobs at a time", ARRAY_COUNT(real_left));
    return NULL;
}

/* A process of the job; it does not go on before `cgroup` has it. 0: of its main
 * process's group. */
static inline pid_t real_start(struct real_job *job, const char *role, const char *number)
{
    int pipes[2];
    char byte = 'g', run[CHECKPOINT_ID_TEXT_BYTES];
    pid_t pid;

    checkpoint_id_format(job->identity.stragglers.run, run);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char program[256] = "";
        setpgid(0, 0);
        if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
            _exit(3);
        setenv("TEST_PROGRAM", program, 1);
        setenv("TEST_COUNTER", job->counter, 1);
        setenv("CKPT_ALLOCATION_ID", job->identity.stragglers.allocation_id, 1);
        setenv("CKPT_DIR", job->identity.stragglers.work_dir, 1);
        setenv("CKPT_RUN", run, 1);
        if (number != NULL)
            setenv("OMPI_COMM_WORLD_RANK", number, 1);
        close(pipes[1]);
        if (read(pipes[0], &byte, 1) < 0)
            _exit(3);
        real_exec(role);
    }
    setpgid(pid, pid);
    close(pipes[0]);
    if (job->identity.group == 0) {
        job->identity.group = pid;
        job->identity.stragglers.start_ticks = real_start_ticks(pid);
        *real_left_of(job) = job->identity;
    }
    if (job->identity.cgroup[0] != '\0') {
        struct cgroups cgroups;
        char folder[CGROUP_PATH_BYTES];
        struct err err = {0};
        memcpy(cgroups.jobs, job->identity.cgroup, sizeof(cgroups.jobs));
        *strrchr(cgroups.jobs, '/') = '\0';
        if (cgroup_place(&cgroups, job->identity.stragglers.allocation_id, run, pid, folder,
                         &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(folder, job->identity.cgroup);
    }
    close(pipes[1]);
    return pid;
}

/* `jobs`: the folder of control groups; NULL: by signals. */
static inline void real_open(struct real_job *job, const char *jobs)
{
    struct stragglers *stragglers = &job->identity.stragglers;
    char run[CHECKPOINT_ID_TEXT_BYTES];
    static int number;
    int fd;

    *job = (struct real_job){.counter = "/tmp/test_job.XXXXXX"};
    fd = mkstemp(job->counter);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    close(fd);
    job->count = real_counter(job->counter);
    snprintf(stragglers->allocation_id, sizeof(stragglers->allocation_id), "t%d-%d", (int)getpid(),
             number++);
    snprintf(stragglers->work_dir, sizeof(stragglers->work_dir), "%s", job->counter);
    stragglers->run = run_make(1, 42);
    stragglers->uid = getuid();
    if (jobs != NULL)
        snprintf(job->identity.cgroup, sizeof(job->identity.cgroup), "%s/%s.%s", jobs,
                 stragglers->allocation_id, checkpoint_id_format(stragglers->run, run));
    for (size_t i = 0; i < ARRAY_COUNT(real_left); i++)
        if (real_left[i].group == 0) {
            real_left[i] = job->identity;
            break;
        }
}

/* How many processes it has, and how many of them ignore SIGTERM. */
static inline size_t real_identity(const struct real_job *job, size_t *ret_ignoring)
{
    struct job_processes table;
    size_t count = 0;

    *ret_ignoring = 0;
    job_processes_init(&table);
    job_processes_look(&table, &job->identity, PROCESS_ANEW);
    for (size_t i = 0; i < table.count; i++) {
        const struct job_process *process = &table.items[i];
        count += process->belongs ? 1 : 0;
        *ret_ignoring += process->belongs && (process->ignored >> (SIGTERM - 1) & 1) != 0 ? 1 : 0;
    }
    job_processes_close(&table);
    return count;
}

struct real_result {
    struct still_result result;
    struct job_identity job; /* with who was found */
};

static void real_done(void *data, const struct still_result *result)
{
    struct real_result *real = data;

    real->result = *result;
    real->job = *result->job;
}

static inline struct still_result real_still(const struct real_job *job, enum still_way way)
{
    struct real_result real = {.result = {.whole = false}};
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_non_null(still_start(&loop, &job->identity, way, real_done, &real));
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_true(real.result.rounds > 0);
    real_found = real.job;
    return real.result;
}

static inline void real_reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

static inline void real_end(struct real_job *job)
{
    struct still_result result = real_still(job, STILL_KILL);

    if (!result.whole)
        fail_msg("process %d (%s) was not ended", (int)result.stuck, result.stuck_name);
    assert_int_equal(result.count, 0);
    *real_left_of(job) = (struct job_identity){.group = 0};
    real_reap();
    if (job->identity.cgroup[0] != '\0')
        assert_int_equal(cgroup_remove(job->identity.cgroup, NULL), 0);
    unlink(job->counter);
    munmap((void *)job->count, 4 * sizeof(uint64_t));
}

/* After each test. */
static inline int real_teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(real_left); i++) {
        struct real_job job = {.identity = real_left[i]};
        if (job.identity.group != 0) {
            real_still(&job, STILL_KILL);
            real_reap();
            if (job.identity.cgroup[0] != '\0')
                cgroup_remove(job.identity.cgroup, NULL);
            unlink(job.identity.stragglers.work_dir);
        }
        real_left[i] = (struct job_identity){.group = 0};
    }
    return 0;
}

static inline uint64_t real_counted(const struct real_job *job)
{
    return atomic_load(job->count);
}

/* A folder for control groups of its own; false: not here, and says why. */
static inline bool real_cgroups(struct cgroups *ret_cgroups, char parent[CGROUP_PATH_BYTES])
{
    static char text[65536];
    struct cgroup_mount mount;
    struct err err = {0}, why;
    FILE *file = fopen("/proc/self/mountinfo", "re");

    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    if (cgroup_parse_mounts(text, &mount) != 0) {
        print_message("# SKIP no cgroup v2 is mounted\n");
        return false;
    }
    snprintf(parent, CGROUP_PATH_BYTES, "%s/ckpt-test-%d", mount.folder, (int)getpid());
    if (cgroup_open(parent, ret_cgroups, &why, &err) != 0) {
        print_message("# SKIP no control groups: %s\n", err.text);
        rmdir(parent);
        return false;
    }
    return true;
}

static inline void real_cgroups_end(const struct cgroups *cgroups, const char *parent)
{
    assert_int_equal(cgroup_remove(cgroups->jobs, NULL), 0);
    assert_int_equal(rmdir(parent), 0);
}

#endif
