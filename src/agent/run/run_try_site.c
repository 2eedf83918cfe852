/* A cluster of one's own for a trial. See run_try_site.h. */
#include "src/agent/run/run_try_site.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/run/run_region.h"
#include "src/ask/region.h"
#include "src/base/check.h"

enum {
    LOOK_MS = 50,
    READY_MS = 30000,   /* until the job is registered */
    END_MS = 5000,      /* from SIGTERM to SIGKILL */
    REGISTER_MS = 5000, /* one try */
    PORTS = 3,
    FOLDERS_OPEN_MAX = 16
};

static volatile sig_atomic_t told_to_end;

static void on_end(int number)
{
    (void)number;
    told_to_end = 1;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- programs ---- */

const char *try_site_program(const char *name, char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash;

    path[length < 0 ? 0 : length] = '\0';
    slash = strrchr(path, '/');
    if (slash != NULL && (size_t)(slash + 1 - path) + strlen(name) < PATH_MAX) {
        snprintf(slash + 1, (size_t)(path + PATH_MAX - slash - 1), "%s", name);
        if (access(path, X_OK) == 0)
            return path;
    }
    snprintf(path, PATH_MAX, "%s", name);
    return path;
}

__attribute__((noreturn)) static void become_program(char *const *command, const char *log,
                                                     pid_t parent)
{
    int out = log == NULL ? -1 : open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    if (out >= 0) {
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
    }
    execvp(command[0], command);
    fprintf(stderr, "ckpt-run: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

/* In a group of its own: keys of a terminal end this program alone, which ends the others. */
pid_t try_site_run(char *const *command, const char *log)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        become_program(command, log, parent);
    }
    return pid;
}

bool try_site_pause(uint64_t wait_ms)
{
    const uint64_t until = now_ms() + wait_ms;

    while (!told_to_end && now_ms() < until)
        (void)poll(NULL, 0, LOOK_MS);
    return !told_to_end;
}

int try_site_wait(pid_t pid, uint64_t wait_ms)
{
    const uint64_t until = now_ms() + wait_ms;
    int status;

    CHECK(pid > 0);
    do {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
    } while (try_site_pause(LOOK_MS) && now_ms() < until);
    return -1;
}

static void end_program(pid_t *pid)
{
    const uint64_t until = now_ms() + END_MS;
    int status;

    if (*pid <= 0)
        return;
    kill(*pid, SIGTERM);
    while (waitpid(*pid, &status, WNOHANG) == 0) {
        if (now_ms() >= until)
            kill(*pid, SIGKILL);
        (void)poll(NULL, 0, LOOK_MS);
    }
    *pid = 0;
}

/* ---- its files ---- */

/* All are chosen before one is given back. */
static void find_ports(uint16_t ret_ports[PORTS])
{
    int sockets[PORTS];

    for (size_t i = 0; i < PORTS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof(address);

        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(sockets[i] >= 0);
        CHECK(bind(sockets[i], (const struct sockaddr *)&address, length) == 0);
        CHECK(getsockname(sockets[i], (struct sockaddr *)&address, &length) == 0);
        ret_ports[i] = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < PORTS; i++)
        close(sockets[i]);
}

static int write_files(const struct try_site *site, struct err *err)
{
    char path[PATH_MAX];
    uint16_t ports[PORTS];
    FILE *member, *agent;

    find_ports(ports);
    snprintf(path, sizeof(path), "%s/scratch", site->folder);
    if (mkdir(path, 0700) != 0)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    snprintf(path, sizeof(path), "%s/ckptd.yaml", site->folder);
    member = fopen(path, "we");
    snprintf(path, sizeof(path), "%s/agent.yaml", site->folder);
    agent = fopen(path, "we");
    if (member == NULL || agent == NULL)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    fprintf(member,
            "cluster_id: try\ndata_dir: %s/member\nmembers:\n"
            "  - {id: 1, name: n1, raft: \"127.0.0.1:%u\", api: \"127.0.0.1:%u\", http: "
            "\"127.0.0.1:%u\"}\n"
            "policy: {grace: 2s, max_attempts: 1}\n"
            "targets:\n  - {id: scratch, kind: posix, prefix: %s/scratch, write_bytes_per_s: "
            "10GB/s, default: yes}\n",
            site->folder, ports[0], ports[1], ports[2], site->folder);
    fprintf(agent,
            "brokers: \"127.0.0.1:%u\"\nowners_register: yes\nowners_tenants: \"try=*\"\n"
            "cgroup: off\n",
            ports[1]);
    return fclose(member) == 0 && fclose(agent) == 0
               ? 0
               : err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

/* ---- its life ---- */

/* Whole, however long it is. */
const char *try_site_said(const struct try_site *site, const char *name,
                          char ret_said[TRY_SAID_BYTES])
{
    static const char error[] = "ckpt-run: ";
    char path[PATH_MAX], *line = NULL;
    bool is_error = false, errors = false;
    size_t room = 0;
    FILE *log;

    ret_said[0] = '\0';
    snprintf(path, sizeof(path), "%s/%s.log", site->folder, name);
    log = fopen(path, "re");
    while (log != NULL && getline(&line, &room, log) >= 0) {
        is_error = strncmp(line, error, strlen(error)) == 0;
        if (errors && !is_error)
            continue;
        errors = is_error;
        line[strcspn(line, "\n")] = '\0';
        snprintf(ret_said, TRY_SAID_BYTES, "%s", line + (is_error ? strlen(error) : 0));
    }
    free(line);
    if (log != NULL)
        fclose(log);
    return ret_said;
}

/* It says there why it has ended. */
static int fail_with_log(const struct try_site *site, const char *name, struct err *err)
{
    char last[TRY_SAID_BYTES];

    (void)try_site_said(site, name, last);
    return err_set(err, ERR_UNAVAILABLE, "the trial's own %s does not come up: %.300s", name,
                   last[0] == '\0' ? "it said nothing" : last);
}

static pid_t start_daemon(const struct try_site *site, const char *name, char *const *options)
{
    char path[PATH_MAX], log[PATH_MAX];
    char *command[12] = {NULL};
    size_t count = 0;

    command[count++] = (char *)(uintptr_t)try_site_program(name, path);
    for (size_t i = 0; options[i] != NULL; i++) {
        CHECK(count + 1 < ARRAY_COUNT(command));
        command[count++] = options[i];
    }
    snprintf(log, sizeof(log), "%s/%s.log", site->folder, name);
    return try_site_run(command, log);
}

static void start_daemons(struct try_site *site)
{
    char member[PATH_MAX], agent[PATH_MAX], state[PATH_MAX];
    char *const member_options[] = {(char[]){"--config"},    member,
                                    (char[]){"--name"},      (char[]){"n1"},
                                    (char[]){"--bootstrap"}, NULL};
    char *const agent_options[] = {(char[]){"--config"},
                                   agent,
                                   (char[]){"--name"},
                                   (char[]){"here"},
                                   (char[]){"--state-dir"},
                                   state,
                                   (char[]){"--socket"},
                                   site->socket,
                                   NULL};

    snprintf(member, sizeof(member), "%s/ckptd.yaml", site->folder);
    snprintf(agent, sizeof(agent), "%s/agent.yaml", site->folder);
    snprintf(state, sizeof(state), "%s/agent", site->folder);
    site->member = start_daemon(site, "ckptd", member_options);
    site->agent = start_daemon(site, "ckpt-agentd", agent_options);
}

/* A try that took too long here was applied all the same: nobody else registers at this site. */
static bool is_registered(const struct try_site *site)
{
    char said[TRY_SAID_BYTES];

    return strstr(try_site_said(site, "register", said), "ALLOCATION_EXISTS") != NULL;
}

static int register_job(const struct try_site *site)
{
    char path[PATH_MAX], log[PATH_MAX], socket[PATH_MAX];
    char *const command[] = {(char *)(uintptr_t)try_site_program("ckpt-run", path),
                             (char[]){"register"},
                             (char[]){"--alloc"},
                             (char[]){TRY_JOB},
                             (char[]){"--tenant"},
                             (char[]){"try"},
                             (char[]){"--project"},
                             (char[]){"try"},
                             (char[]){"--strategy"},
                             (char[]){"manual"},
                             (char[]){"--socket"},
                             socket,
                             NULL};

    snprintf(socket, sizeof(socket), "%s", site->socket);
    snprintf(log, sizeof(log), "%s/register.log", site->folder);
    return try_site_wait(try_site_run(command, log), REGISTER_MS) == 0 || is_registered(site) ? 0
                                                                                              : -1;
}

static bool has_ended(pid_t *pid)
{
    if (waitpid(*pid, NULL, WNOHANG) != *pid)
        return false;
    *pid = 0;
    return true;
}

static int wait_until_registered(struct try_site *site, struct err *err)
{
    const uint64_t until = now_ms() + READY_MS;

    while (register_job(site) != 0) {
        if (has_ended(&site->member))
            return fail_with_log(site, "ckptd", err);
        if (has_ended(&site->agent))
            return fail_with_log(site, "ckpt-agentd", err);
        if (!try_site_pause(2 * LOOK_MS))
            return err_set(err, ERR_TIMEOUT, "told to end");
        if (now_ms() >= until)
            return fail_with_log(site, "register", err);
    }
    return 0;
}

int try_site_name(struct try_site *site, struct err *err)
{
    *site = (struct try_site){.folder = "/tmp/ckpt-try-XXXXXX"};
    if (mkdtemp(site->folder) == NULL) {
        site->folder[0] = '\0';
        return err_set(err, ERR_IO, "no folder can be made below /tmp: %s", strerror(errno));
    }
    snprintf(site->socket, sizeof(site->socket), "%s/agent.sock", site->folder);
    snprintf(site->work_dir, sizeof(site->work_dir), "%s/work", site->folder);
    return 0;
}

int try_site_open(struct try_site *site, struct err *err)
{
    const struct sigaction action = {.sa_handler = on_end};

    CHECK(sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0);
    if (write_files(site, err) != 0)
        return -1;
    start_daemons(site);
    return wait_until_registered(site, err);
}

/* The agent has ended before all of the job had. */
static void remove_region(const struct try_site *site)
{
    char folder[PATH_MAX], path[ASK_REGION_PATH_BYTES];

    if (realpath(site->work_dir, folder) == NULL)
        return;
    ask_region_path(geteuid(), TRY_JOB, folder, path);
    run_region_drop(path);
}

void try_site_close(struct try_site *site)
{
    end_program(&site->agent);
    end_program(&site->member);
    remove_region(site);
    if (site->folder[0] != '\0')
        (void)nftw(site->folder, remove_one, FOLDERS_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
    site->folder[0] = '\0';
}
