/* The folder, programs, ports and files of ckptctl dev. See dev.h. */
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/cli/dev/dev.h"

enum { PORTS_OF_A_MEMBER = 3, PORTS = DEV_MEMBERS * PORTS_OF_A_MEMBER, FOLDERS_OPEN = 16 };

const char *const dev_node_names[DEV_NODES] = {"node-a", "node-b"};

uint64_t dev_now_ms(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- programs ---- */

static bool is_in(const char *folder, size_t length, const char *program, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folder, program) < PATH_MAX &&
           access(path, X_OK) == 0;
}

int dev_find(const struct dev *dev, const char *program, char path[PATH_MAX], struct err *err)
{
    static const struct {
        const char *program, *package;
    } packages[] = {{"ckptd", "ckpt-server"},
                    {"ckpt-agentd", "ckpt-agent"},
                    {"ckpt-run", "ckpt-agent"},
                    {"ckpt-worker", "ckpt-common"}};
    const char *at = getenv("PATH"), *package = "ckpt-client";

    if (is_in(dev->programs, strlen(dev->programs), program, path))
        return 0;
    for (; at != NULL && *at != '\0'; at += strspn(at, ":")) {
        const size_t length = strcspn(at, ":");

        if (length > 0 && is_in(at, length, program, path))
            return 0;
        at += length;
    }
    for (size_t i = 0; i < ARRAY_COUNT(packages); i++)
        if (strcmp(packages[i].program, program) == 0)
            package = packages[i].package;
    return err_set(err, ERR_NOT_FOUND, "%s is neither in %.200s nor in PATH; the package %s has it",
                   program, dev->programs, package);
}

/* ---- the folder ---- */

int dev_folder_make(struct dev *dev, const char *wanted, struct err *err)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    char real[PATH_MAX];

    if (wanted != NULL) {
        if (mkdir(wanted, 0700) != 0)
            return err_set(err, ERR_IO, "%.200s: %s; --dir names a folder that is not there yet",
                           wanted, strerror(errno));
        if (realpath(wanted, real) != NULL && strlen(real) < sizeof(dev->folder) &&
            strpbrk(real, "\"'\\{}$ \n") == NULL) {
            memcpy(dev->folder, real, strlen(real) + 1);
            return 0;
        }
        (void)rmdir(wanted);
        return err_set(err, ERR_INVALID,
                       "%.200s: a folder of at most %d bytes without blanks, quotes, braces, $ and "
                       "backslashes is taken",
                       wanted, DEV_FOLDER_BYTES - 1);
    }
    if (base == NULL || base[0] != '/' || strlen(base) > 40 || access(base, W_OK) != 0)
        base = "/tmp";
    snprintf(dev->folder, sizeof(dev->folder), "%s/ckpt-dev-XXXXXX", base);
    return mkdtemp(dev->folder) != NULL
               ? 0
               : err_set(err, ERR_IO, "%.200s: %s; --dir names another folder", dev->folder,
                         strerror(errno));
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

void dev_folder_remove(const struct dev *dev)
{
    CHECK(dev->folder[0] == '/');
    (void)nftw(dev->folder, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS);
}

/* ---- its files ---- */

/* All are chosen before one is given back. */
static int find_ports(uint16_t ret_ports[PORTS], struct err *err)
{
    int sockets[PORTS], result = 0;

    for (size_t i = 0; i < PORTS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof(address);

        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (sockets[i] < 0 || bind(sockets[i], (const struct sockaddr *)&address, length) != 0 ||
            getsockname(sockets[i], (struct sockaddr *)&address, &length) != 0)
            result = err_set(err, ERR_IO, "a port at 127.0.0.1: %s", strerror(errno));
        ret_ports[i] = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < PORTS; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
    return result;
}

static void print_members(struct dev *dev, FILE *file, const uint16_t ports[PORTS])
{
    size_t used = 0;

    fprintf(file, "cluster_id: dev\ndata_dir: %s/{name}\nmembers:\n", dev->folder);
    for (size_t i = 0; i < DEV_MEMBERS; i++) {
        const uint16_t *own = &ports[i * PORTS_OF_A_MEMBER];

        fprintf(file,
                "  - {id: %zu, name: n%zu, raft: \"127.0.0.1:%u\", api: \"127.0.0.1:%u\", http: "
                "\"127.0.0.1:%u\"}\n",
                i + 1, i + 1, own[0], own[1], own[2]);
        used += (size_t)snprintf(dev->endpoints + used, sizeof(dev->endpoints) - used,
                                 "%s127.0.0.1:%u", i == 0 ? "" : ",", own[1]);
        CHECK(used < sizeof(dev->endpoints));
    }
    fprintf(file,
            "timers: {election: 500ms, heartbeat: 50ms}\n"
            "policy: {evaluation_interval: 1s, min_interval: 5s, grace: 2s, "
            "node_degraded_after: 3s, node_down_after: 6s, quiesce: 5ms, near_completion: 1s}\n"
            "targets:\n  - {id: scratch, kind: posix, prefix: %s/scratch, write_bytes_per_s: "
            "100MB/s, default: yes}\n",
            dev->folder);
}

static void print_agents(struct dev *dev, FILE *file, const uint16_t ports[PORTS])
{
    (void)ports;
    fprintf(file,
            "brokers: \"%s\"\nheartbeat: 1s\ncgroup: off\nowners_register: yes\nowners_tenants: "
            "\"dev=*\"\n",
            dev->endpoints);
}

/* deploy/JOBS.md explains its lines. */
static void print_job(struct dev *dev, FILE *file, const uint16_t ports[PORTS])
{
    (void)dev, (void)ports;
    fputs("n=0; [ -z \"$CKPT_RESTORE_DIR\" ] || n=$(cat \"$CKPT_RESTORE_DIR/n\")\n"
          "echo \"counts from $n\"\n"
          "save() { told=$(cat \"$CKPT_DIR/request\") && eval \"$told\" && echo $n > "
          "\"$directory/n\" &&\n"
          "    printf 'hint=%s\\nbytes=%s\\nstatus=0\\n' \"$hint\" $(stat -c %s \"$directory/n\") "
          "> \"$CKPT_DIR/new\" &&\n"
          "    mv \"$CKPT_DIR/new\" \"$CKPT_DIR/done\"; }\n"
          "trap save USR1\n"
          "while :; do sleep 0.1; n=$((n + 1)); done\n",
          file);
}

int dev_files_write(struct dev *dev, struct err *err)
{
    static const struct {
        const char *name;
        void (*print)(struct dev *dev, FILE *file, const uint16_t ports[PORTS]);
    } files[] = {
        {"ckptd.yaml", print_members}, {"agent.yaml", print_agents}, {"count.sh", print_job}};
    uint16_t ports[PORTS];
    char path[PATH_MAX];

    if (find_ports(ports, err) != 0)
        return -1;
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", dev->folder, files[i].name);
        file = fopen(path, "we");
        if (file == NULL)
            return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        files[i].print(dev, file, ports);
        if (fclose(file) != 0)
            return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    }
    snprintf(path, sizeof(path), "%s/scratch", dev->folder);
    return mkdir(path, 0755) == 0 ? 0 : err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}
