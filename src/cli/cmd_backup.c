/* ckptctl backup save, inspect, verify.
 *
 * Flow     save: stream into FILE.part, sync, read it back whole, rename, sync the folder. inspect:
 *          every byte is checked, the header is shown. verify: runs `ckptd --verify-backup FILE`,
 *          which does what a restore would do, in memory: the state machine belongs to ckptd, and a
 *          file is only as good as the program that will restore it says.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/backup/backup.h"
#include "src/base/check.h"
#include "src/cli/backup_fetch.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/output.h"

enum { PATH_BYTES = 500 };

static enum cli_exit fail_file(struct cli *cli, const struct err *err)
{
    return cli_fail(cli, err->code == ERR_NOT_FOUND ? CLI_NOT_FOUND : CLI_FAILED, NULL, "%s",
                    err->text);
}

/* ---- inspect ---- */

static void print_line(struct cli *cli, const char *name, const char *value)
{
    cli_out(cli, "%-13s ", name);
    output_safe(cli->out, value);
    fputc('\n', cli->out);
}

static void print_members(struct cli *cli, const Ckpt__V1__BackupHeader *header)
{
    cli_out(cli, "%-13s ", "members");
    for (size_t i = 0; i < header->n_members; i++) {
        const Ckpt__V1__BackupMember *member = header->members[i];

        cli_out(cli, "%s%" PRIu64 " ", i == 0 ? "" : ", ", member->member_id);
        output_safe(cli->out, member->name);
        fputc(' ', cli->out);
        output_safe(cli->out, member->raft_address);
        if (!member->voter)
            fputs(" (learner)", cli->out);
    }
    fputc('\n', cli->out);
}

static void print_header(struct cli *cli, const Ckpt__V1__BackupHeader *header, const char *sha256)
{
    char text[320], human[HUMAN_BYTES];

    print_line(cli, "cluster", header->cluster_id);
    snprintf(text, sizeof(text), "epoch %" PRIu64 "  index %" PRIu64 "  term %" PRIu64,
             header->epoch, header->index, header->term);
    print_line(cli, "state", text);
    snprintf(text, sizeof(text), "%016" PRIx64, header->state_hash);
    print_line(cli, "state hash", text);
    snprintf(text, sizeof(text), "%s by %.100s, version %.95s",
             human_instant(header->taken_at_ms, human), header->member_name, header->version);
    print_line(cli, "taken", text);
    if (header->linearizable)
        print_line(cli, "complete", "yes: all that was acknowledged before it was asked for");
    else if (header->age_ms == UINT64_MAX)
        print_line(cli, "complete", "not known: the member had not heard of a leader");
    else {
        snprintf(text, sizeof(text),
                 "as known to the member, which had heard of a leader %s before",
                 human_duration(header->age_ms, human));
        print_line(cli, "complete", text);
    }
    print_members(cli, header);
    snprintf(text, sizeof(text), "%" PRIu64 " (%" PRIu64 " running)", header->allocation_count,
             header->running_count);
    print_line(cli, "allocations", text);
    snprintf(text, sizeof(text),
             "%" PRIu64 " (%" PRIu64 " complete, %" PRIu64 " active, %" PRIu64 " of them paused)",
             header->checkpoint_count, header->complete_count, header->active_count,
             header->paused_count);
    print_line(cli, "checkpoints", text);
    snprintf(text, sizeof(text), "%" PRIu64, header->target_count);
    print_line(cli, "targets", text);
    snprintf(text, sizeof(text), "%" PRIu64, header->node_count);
    print_line(cli, "nodes", text);
    snprintf(text, sizeof(text), "%" PRIu64, header->request_id_count);
    print_line(cli, "request ids", text);
    print_line(cli, "sha256", sha256);
}

enum cli_exit command_backup_inspect(struct cli *cli)
{
    Ckpt__V1__BackupHeader *header;
    char sha256[BACKUP_SHA256_HEX_BYTES];
    struct err err;

    if (backup_file_check(cli_argument(cli, 0), &header, sha256, &err) != 0)
        return fail_file(cli, &err);
    if (!output_json_message(cli, "backup", &header->base) &&
        !output_name(cli, cli_argument(cli, 0)))
        print_header(cli, header, sha256);
    ckpt__v1__backup_header__free_unpacked(header, NULL);
    return CLI_OK;
}

/* ---- save ---- */

static int sync_folder_of(const char *path)
{
    char copy[PATH_BYTES];
    int fd, status;

    snprintf(copy, sizeof(copy), "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    status = fsync(fd);
    close(fd);
    return status;
}

/* The part is removed unless everything went well. */
static enum cli_exit save_part(struct cli *cli, const char *path, const char *part)
{
    Ckpt__V1__BackupHeader *header;
    char sha256[BACKUP_SHA256_HEX_BYTES];
    enum cli_exit code;
    struct err err;
    int fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return cli_fail(cli, CLI_FAILED, NULL, "cannot create %s: %s", part, strerror(errno));
    code = backup_fetch(cli, cli_flag(cli, "stale"), fd, part);
    if (code == CLI_OK && fsync(fd) != 0)
        code = cli_fail(cli, CLI_FAILED, NULL, "cannot write %s: %s", part, strerror(errno));
    close(fd);
    if (code != CLI_OK)
        return code;
    if (backup_file_check(part, &header, sha256, &err) != 0)
        return fail_file(cli, &err);
    if (rename(part, path) != 0 || sync_folder_of(path) != 0)
        code = cli_fail(cli, CLI_FAILED, NULL, "cannot keep %s: %s", path, strerror(errno));
    else if (!output_json_message(cli, "backup", &header->base) && !output_name(cli, path)) {
        cli_out(cli, "saved: %s\n", path);
        print_header(cli, header, sha256);
    }
    ckpt__v1__backup_header__free_unpacked(header, NULL);
    return code;
}

enum cli_exit command_backup_save(struct cli *cli)
{
    const char *path = cli_argument(cli, 0);
    char part[PATH_BYTES + 8];
    enum cli_exit code;

    if (strlen(path) >= PATH_BYTES)
        return cli_fail(cli, CLI_USAGE, NULL, "FILE has %zu characters, at most %d", strlen(path),
                        PATH_BYTES - 1);
    if (access(path, F_OK) == 0 && !cli_flag(cli, "force"))
        return cli_fail(cli, CLI_REFUSED, "another FILE, or --force to replace it",
                        "%s exists already", path);
    snprintf(part, sizeof(part), "%s.part", path);
    code = save_part(cli, path, part);
    if (code != CLI_OK)
        unlink(part);
    return code;
}

/* ---- verify ---- */

/* ckptd beside this program, else the one in PATH. */
static void find_daemon(char path[PATH_BYTES + 8])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 1);
    char *slash;

    if (length > 0) {
        path[length] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL) {
            memcpy(slash + 1, "ckptd", sizeof("ckptd"));
            if (access(path, X_OK) == 0)
                return;
        }
    }
    memcpy(path, "ckptd", sizeof("ckptd"));
}

/* What ckptd says, on its one line; its exit code, or -1 when it cannot be started. */
static int run_daemon(const char *daemon, const char *path, char *line, size_t size)
{
    int pipe_fds[2], status;
    FILE *answer;
    pid_t pid;

    CHECK(pipe(pipe_fds) == 0);
    pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        execlp(daemon, daemon, "--verify-backup", path, NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    answer = fdopen(pipe_fds[0], "r");
    CHECK(answer != NULL);
    if (pid < 0 || fgets(line, (int)size, answer) == NULL)
        line[0] = '\0';
    fclose(answer);
    if (pid < 0)
        return -1;
    line[strcspn(line, "\n")] = '\0';
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

enum cli_exit command_backup_verify(struct cli *cli)
{
    const char *path = cli_argument(cli, 0);
    char daemon[PATH_BYTES + 8], line[PATH_BYTES + 300];
    int code;

    find_daemon(daemon);
    fflush(cli->out);
    code = run_daemon(daemon, path, line, sizeof(line));
    if (code < 0)
        return cli_fail(cli, CLI_FAILED, NULL, "cannot start %s: %s", daemon, strerror(errno));
    if (code == 127)
        return cli_fail(cli, CLI_FAILED, "ckptctl backup verify FILE on a member",
                        "verifying needs the program ckptd, which is not installed here");
    if (code != 0)
        return CLI_FAILED; /* ckptd said why, on stderr */
    if (cli_is_json(cli)) {
        output_json(cli, "verified", json_pack("{s:s, s:s}", "file", path, "text", line));
    } else if (!output_name(cli, path)) {
        output_safe(cli->out, line);
        fputc('\n', cli->out);
    }
    return CLI_OK;
}
