/* The programs of ckptctl dev: started, told of, and started again when they are killed. See dev.h.
 *
 * Flow     members and agents start at once. The stage registers the jobs with ckptctl itself, as a
 *          user would, starts them, and waits until both run. Then it waits for ends of programs.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/cli/dev/dev.h"

enum {
    WORDS_MAX = 24,
    WORD_BYTES = 160,
    READY_MS = 30000,
    LOOK_MS = 50,
    AGAIN_MS = 2000, /* a killed program is away for so long, as under systemd after some time */
    ANSWER_BYTES = 65536,
    LOG_BYTES = 2000,
    PROGRAMS = DEV_MEMBERS + 2 * DEV_NODES
};

struct program {
    char name[32]; /* n1, node-a, count-a */
    char words[WORDS_MAX][WORD_BYTES];
    size_t word_count;
    pid_t pid;
    bool again;        /* started anew when it ends */
    uint64_t again_ms; /* 0: not due */
};

static struct stage {
    struct dev *dev;
    char path[4][PATH_MAX]; /* of enum tool */
    struct program programs[PROGRAMS];
    size_t program_count;
} stage;

enum tool { TOOL_MEMBER, TOOL_AGENT, TOOL_RUN, TOOL_CTL };

/* ---- starting ---- */

__attribute__((noreturn)) static void become(const struct program *program, const char *path,
                                             int out)
{
    char *words[WORDS_MAX + 1] = {NULL};
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (size_t i = 0; i < program->word_count; i++)
        words[i] = (char *)(uintptr_t)program->words[i];
    (void)signal(SIGHUP, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)dup2(none, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    execv(path, words);
    _exit(127);
}

static void add_word(struct program *program, const char *text)
{
    CHECK(program->word_count < WORDS_MAX && strlen(text) < WORD_BYTES);
    snprintf(program->words[program->word_count++], WORD_BYTES, "%s", text);
}

static void add_word_in_folder(struct program *program, const char *name)
{
    char text[WORD_BYTES];

    CHECK(snprintf(text, sizeof(text), "%s/%s", stage.dev->folder, name) < (int)sizeof(text));
    add_word(program, text);
}

static void program_start(struct program *program, const char *path)
{
    char log[PATH_MAX];
    int out;

    snprintf(log, sizeof(log), "%s/%s.log", stage.dev->folder, program->name);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(out >= 0);
    fflush(NULL);
    program->again_ms = 0;
    program->pid = fork();
    CHECK(program->pid >= 0);
    if (program->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        become(program, path, out);
    }
    close(out);
}

static struct program *program_new(const char *name, const char *tool)
{
    struct program *program = &stage.programs[stage.program_count++];

    CHECK(stage.program_count <= PROGRAMS);
    snprintf(program->name, sizeof(program->name), "%s", name);
    add_word(program, tool);
    return program;
}

static void member_start(size_t i)
{
    char name[8];
    struct program *program;

    snprintf(name, sizeof(name), "n%zu", i + 1);
    program = program_new(name, "ckptd");
    add_word(program, "--config");
    add_word_in_folder(program, "ckptd.yaml");
    add_word(program, "--name");
    add_word(program, name);
    program->again = true;
    add_word(program, "--bootstrap");
    program_start(program, stage.path[TOOL_MEMBER]);
    program->word_count--; /* it is for the first start alone */
}

static void add_socket(struct program *program, const char *node)
{
    char name[32];

    snprintf(name, sizeof(name), "%s.sock", node);
    add_word(program, "--socket");
    add_word_in_folder(program, name);
}

static void agent_start(const char *node)
{
    char state[32];
    struct program *program = program_new(node, "ckpt-agentd");

    snprintf(state, sizeof(state), "state-%s", node);
    add_word(program, "--config");
    add_word_in_folder(program, "agent.yaml");
    add_word(program, "--name");
    add_word(program, node);
    add_word(program, "--state-dir");
    add_word_in_folder(program, state);
    add_socket(program, node);
    program->again = true;
    program_start(program, stage.path[TOOL_AGENT]);
}

/* "count-a" of "node-a" */
static const char *job_of(const char *node, char name[32])
{
    snprintf(name, 32, "count-%s", strchr(node, '-') + 1);
    return name;
}

static void job_start(const char *node)
{
    char job[32], folder[48];
    struct program *program = program_new(job_of(node, job), "ckpt-run");

    snprintf(folder, sizeof(folder), "work-%s", job);
    add_word(program, "--alloc");
    add_word(program, job);
    add_word(program, "--work-dir");
    add_word_in_folder(program, folder);
    add_socket(program, node);
    add_word(program, "--");
    add_word(program, "sh");
    add_word_in_folder(program, "count.sh");
    program_start(program, stage.path[TOOL_RUN]);
}

/* ---- asking ---- */

/* ckptctl with these words, and what it prints on stdout; its exit code. */
static int ask_ctl(const char *const *words, char answer[ANSWER_BYTES])
{
    struct program program = {.name = "ckptctl"};
    size_t length = 0;
    int ends[2], status;
    ssize_t count;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    add_word(&program, "ckptctl");
    for (; *words != NULL; words++)
        add_word(&program, *words);
    add_word(&program, "--endpoints");
    add_word(&program, stage.dev->endpoints);
    fflush(NULL);
    program.pid = fork();
    CHECK(program.pid >= 0);
    if (program.pid == 0)
        become(&program, stage.path[TOOL_CTL], ends[1]);
    close(ends[1]);
    while ((count = read(ends[0], answer + length, ANSWER_BYTES - 1 - length)) > 0)
        length += (size_t)count;
    answer[length] = '\0';
    close(ends[0]);
    CHECK(waitpid(program.pid, &status, 0) == program.pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/* The end of a program's log. */
static void print_log(const struct program *program)
{
    char path[PATH_MAX], text[LOG_BYTES + 1];
    size_t length = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.log", stage.dev->folder, program->name);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fseek(file, -LOG_BYTES, SEEK_END) != 0)
        rewind(file);
    length = fread(text, 1, LOG_BYTES, file);
    fclose(file);
    text[length] = '\0';
    fputs(text, stderr);
}

static int fail_with(const char *what, const char *told)
{
    fprintf(stderr, "error: ckptctl dev: %s\n%s", what, told);
    return EXIT_FAILURE;
}

/* A member that ended before all were ready cannot come by itself. */
static const struct program *first_ended(void)
{
    int status;
    pid_t ended = waitpid(-1, &status, WNOHANG);

    for (size_t i = 0; ended > 0 && i < stage.program_count; i++)
        if (stage.programs[i].pid == ended)
            return &stage.programs[i];
    return NULL;
}

static int fail_ended(const struct program *program)
{
    char text[128];

    snprintf(text, sizeof(text), "%.32s %s has ended; its last lines say why:", program->words[0],
             program->name);
    (void)fail_with(text, "");
    print_log(program);
    return EXIT_FAILURE;
}

/* Asked again until there is a leader: its request has one name. */
static int register_job(const char *node, char answer[ANSWER_BYTES])
{
    char job[32], on[48], owner[32], request[64];
    const char *const words[] = {
        "register",  "--alloc", job_of(node, job), "--tenant",     "dev",
        "--project", "dev",     "--owner",         owner,          "--node",
        on,          request,   "--new-node",      "--period=20s", "--timeout=2s",
        NULL};
    const uint64_t until = dev_now_ms() + READY_MS;
    const struct program *ended;

    snprintf(on, sizeof(on), "%s:8:1GiB", node);
    snprintf(owner, sizeof(owner), "%u", (unsigned)getuid());
    snprintf(request, sizeof(request), "--request-id=dev-%s", job);
    while (ask_ctl(words, answer) != 0) {
        if ((ended = first_ended()) != NULL)
            return fail_ended(ended);
        if (dev_now_ms() > until)
            return fail_with("a job is not taken:", answer);
        (void)poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

static size_t lines_of(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static int wait_for_jobs(char answer[ANSWER_BYTES])
{
    static const char *const words[] = {"jobs", "--state=RUNNING", "-oname", "-q", NULL};
    const uint64_t until = dev_now_ms() + READY_MS;
    const struct program *ended;

    while (ask_ctl(words, answer) != 0 || lines_of(answer) < DEV_NODES) {
        if ((ended = first_ended()) != NULL)
            return fail_ended(ended);
        if (dev_now_ms() > until)
            return fail_with("the jobs do not run after 30 s", answer);
        (void)poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

/* ---- telling ---- */

/* The name of the leader; "": nobody leads just now. */
static void find_leader(char answer[ANSWER_BYTES], char name[16])
{
    static const char *const words[] = {"status", "-oname", "-q", NULL};

    name[0] = '\0';
    if (ask_ctl(words, answer) == 0)
        snprintf(name, 16, "%.*s", (int)strcspn(answer, "\n"), answer);
}

static const struct program *program_named(const char *name)
{
    for (size_t i = 0; i < stage.program_count; i++)
        if (strcmp(stage.programs[i].name, name) == 0)
            return &stage.programs[i];
    return &stage.programs[0];
}

static void tell_programs(const char *title, size_t from, size_t count, const char *leader)
{
    printf("  %-8s", title);
    for (size_t i = from; i < from + count; i++)
        printf("%s%s%s pid %d", i == from ? "" : ", ", stage.programs[i].name,
               strcmp(stage.programs[i].name, leader) == 0 ? " (leads)" : "",
               (int)stage.programs[i].pid);
    printf("\n");
}

static void tell_all(char answer[ANSWER_BYTES])
{
    const struct dev *dev = stage.dev;
    const char *path = getenv("PATH");
    char leader[16];

    find_leader(answer, leader);
    printf("A cluster for trying out, in %s, ready after %.1f s:\n", dev->folder,
           (double)(dev_now_ms() - dev->started_ms) / 1e3);
    tell_programs("members", 0, DEV_MEMBERS, leader);
    tell_programs("agents", DEV_MEMBERS, DEV_NODES, leader);
    tell_programs("jobs", DEV_MEMBERS + DEV_NODES, DEV_NODES, leader);
    printf("\nNext, in another terminal:\n");
    if (path == NULL || strstr(path, dev->programs) == NULL)
        printf("  export PATH=\"%s:$PATH\"\n", dev->programs);
    printf("  export CKPT_ENDPOINTS=%s%s\n"
           "  ckptctl status\n"
           "  ckptctl hint count-a --wait\n"
           "  ckptctl checkpoints\n"
           "  ckptctl explain count-a\n"
           "  kill -9 %d; ckptctl jobs   # the leader dies, the next one answers\n\n",
           dev->endpoints, dev->other_tls ? "; unset CKPT_CA CKPT_CERT CKPT_KEY" : "",
           (int)program_named(leader)->pid);
    printf("A job of your own there (instead of sleep 60):\n"
           "  ckpt-run register --alloc mine --tenant dev --project dev --socket %s/%s.sock &&\n"
           "      ckpt-run --alloc mine --socket %s/%s.sock --work-dir %s/work-mine -- sleep 60\n\n"
           "Ctrl-C ends all of it, such jobs as well, and removes the folder.\n",
           dev->folder, dev_node_names[0], dev->folder, dev_node_names[0], dev->folder);
    fflush(stdout);
}

/* ---- going on ---- */

static const char *tool_path(const struct program *program)
{
    return stage.path[strcmp(program->words[0], "ckptd") == 0 ? TOOL_MEMBER : TOOL_AGENT];
}

static void take_end(struct program *program, int status)
{
    const bool signalled = WIFSIGNALED(status);

    printf("%s (pid %d) has ended with %s%d%s\n", program->name, (int)program->pid,
           signalled ? "signal " : "", signalled ? WTERMSIG(status) : WEXITSTATUS(status),
           program->again ? "; it starts again in 2 s" : "");
    fflush(stdout);
    program->pid = 0;
    if (program->again)
        program->again_ms = dev_now_ms() + AGAIN_MS;
}

static void watch_programs(void)
{
    int status;
    pid_t ended;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < stage.program_count; i++)
            if (stage.programs[i].pid == ended)
                take_end(&stage.programs[i], status);
    for (size_t i = 0; i < stage.program_count; i++) {
        struct program *program = &stage.programs[i];

        if (program->again_ms == 0 || dev_now_ms() < program->again_ms)
            continue;
        program_start(program, tool_path(program));
        printf("%s is started again, pid %d\n", program->name, (int)program->pid);
        fflush(stdout);
    }
}

int dev_stage(struct dev *dev)
{
    static const char *const tools[] = {"ckptd", "ckpt-agentd", "ckpt-run", "ckptctl"};
    static char answer[ANSWER_BYTES];
    struct err err = {0};

    stage = (struct stage){.dev = dev};
    for (size_t i = 0; i < ARRAY_COUNT(tools); i++)
        if (dev_find(dev, tools[i], stage.path[i], &err) != 0)
            return fail_with(err.text, "");
    for (size_t i = 0; i < DEV_MEMBERS; i++)
        member_start(i);
    for (size_t i = 0; i < DEV_NODES; i++)
        agent_start(dev_node_names[i]);
    for (size_t i = 0; i < DEV_NODES; i++)
        if (register_job(dev_node_names[i], answer) != 0)
            return EXIT_FAILURE;
    for (size_t i = 0; i < DEV_NODES; i++)
        job_start(dev_node_names[i]);
    if (wait_for_jobs(answer) != 0)
        return EXIT_FAILURE;
    tell_all(answer);
    for (;;) {
        watch_programs();
        (void)poll(NULL, 0, LOOK_MS);
    }
}
