/* Saving a program by DMTCP, a library that is put before the program's calls when it starts.
 *
 *   prepare  a coordinator for this start alone, by ckpt-run, which is outside of the job's control
 *            group: one that is frozen or killed with the job would take the image along
 *   become   dmtcp_launch COMMAND, or dmtcp_restart IMAGES
 *   save     dmtcp_command -c, and then only the facts count. The coordinator says RUNNING=yes, its
 *            restart script says how many processes stood still together, and a folder that was
 *            empty has so many images by their final names. They are moved into the checkpoint: the
 *            next ones have the same names. Processes that have ended since the question are none
 *            of them, those that a shell has begun since then are.
 *
 * Shapes   an image ckpt_NAME.dmtcp may have a folder ckpt_NAME_files beside it, with what has no
 *          path any more. dmtcp_restart looks for that where the next images are to be written.
 * Errors   none of its exit codes counts: they are 0 also where nothing was written.
 * Absent   an end of what it has begun: a checkpoint that is not wanted any more is written, and
 *          nobody takes it. The next save is refused until it is done.
 * Source   S1-049, S3-065; DMTCP's manual. No release of Debian has it: where it is found it is
 *          used.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "src/agent/transparent/process_tree.h"
#include "src/agent/transparent/program.h"
#include "src/agent/transparent/tool.h"
#include "src/base/check.h"
#include "src/base/text.h"

#define FOLDER_NAME "ckpt-dmtcp"
#define HOST        "127.0.0.1"
#define IMAGE_BEGIN "ckpt_"
#define IMAGE_END   ".dmtcp"
#define FILES_END   "_files"
#define SCRIPT_NAME "dmtcp_restart_script.sh"
#define SCRIPT_SAYS "# Number of processes in the computation = "

enum {
    LIMIT_MS = 5000, /* of a word with the coordinator */
    LOOK_MS = 100,
    OUTPUT_BYTES = 4096,
    PORT_BYTES = 16,
    IMAGES_MAX = 1024,
    STATM_BYTES = 256,
    COPY_BYTES = 1 << 20,
    SCRIPT_BYTES = 1 << 16,
    FOLDERS_OPEN_MAX = 16,
    ROOM_PERCENT = 110 /* of what the processes have in memory */
};

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void path_in(const char *work_dir, const char *name, char ret_path[PATH_MAX])
{
    snprintf(ret_path, PATH_MAX, "%s/" FOLDER_NAME "/%s", work_dir, name);
}

static int find_program(const char *name, char ret_path[PATH_MAX], struct err *err)
{
    if (program_find(name, ret_path, PATH_MAX) == 0)
        return 0;
    return err_set(err, ERR_NOT_FOUND,
                   "there is no %s on this node: install DMTCP, or use --profile criu", name);
}

static int dmtcp_check(char ret_version[TOOL_VERSION_BYTES], struct err *err)
{
    static const char *const programs[] = {"dmtcp_launch", "dmtcp_command", "dmtcp_restart",
                                           "dmtcp_coordinator"};
    char path[PATH_MAX], output[OUTPUT_BYTES];
    const char *line[] = {path, "--version", NULL};
    int wait_status;

    ret_version[0] = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++)
        if (find_program(programs[i], path, err) != 0)
            return -1;
    if (program_run(line, LIMIT_MS, output, sizeof(output), &wait_status, err) != 0)
        return -1;
    program_version(output, ret_version, TOOL_VERSION_BYTES);
    return 0;
}

/* ---- the coordinator ---- */

/* "": it has left none. */
static void read_port(const char *work_dir, char ret_port[PORT_BYTES])
{
    char path[PATH_MAX];
    ssize_t got;
    int fd;

    path_in(work_dir, "port", path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    got = fd < 0 ? 0 : read(fd, ret_port, PORT_BYTES - 1);
    if (fd >= 0)
        close(fd);
    ret_port[got < 0 ? 0 : got] = '\0';
    ret_port[strspn(ret_port, "0123456789")] = '\0';
}

static int dmtcp_prepare(const struct tool_start *start, struct err *err)
{
    char program[PATH_MAX], port_file[PATH_MAX], images[PATH_MAX], status[PATH_MAX],
        folder[PATH_MAX];
    char output[OUTPUT_BYTES], port[PORT_BYTES] = "", shown[200];
    const char *line[] = {program,
                          "--daemon",
                          "--exit-on-last",
                          "-q",
                          "-p",
                          "0",
                          "--port-file",
                          port_file,
                          "--status-file",
                          status,
                          "--ckptdir",
                          images,
                          "--stale-timeout",
                          "60",
                          NULL};
    int wait_status;

    if (find_program("dmtcp_coordinator", program, err) != 0)
        return -1;
    snprintf(folder, sizeof(folder), "%s/" FOLDER_NAME, start->work_dir);
    path_in(start->work_dir, "port", port_file);
    path_in(start->work_dir, "status", status);
    path_in(start->work_dir, "images", images);
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) ||
        (mkdir(images, 0700) != 0 && errno != EEXIST))
        return err_set(err, ERR_IO, "a folder for DMTCP cannot be made in the work folder: %s",
                       strerror(errno));
    (void)unlink(port_file);
    if (program_run(line, LIMIT_MS, output, sizeof(output), &wait_status, err) != 0)
        return -1;
    for (int i = 0; i < LIMIT_MS / LOOK_MS && port[0] == '\0'; i++) {
        read_port(start->work_dir, port);
        if (port[0] == '\0')
            (void)poll(NULL, 0, LOOK_MS);
    }
    return port[0] != '\0' ? 0
                           : err_set(err, ERR_UNAVAILABLE,
                                     "dmtcp_coordinator has not left its port in %d s: %s",
                                     LIMIT_MS / 1000, text_shown(output, shown, sizeof(shown)));
}

struct state {
    bool running;
    unsigned peers;
};

static int ask_state(const char *port, struct state *ret_state, struct err *err)
{
    char program[PATH_MAX], output[OUTPUT_BYTES];
    const char *line[] = {program, "-h", HOST, "-p", port, "-s", NULL}, *peers;
    int wait_status;

    if (find_program("dmtcp_command", program, err) != 0 ||
        program_run(line, LIMIT_MS, output, sizeof(output), &wait_status, err) != 0)
        return -1;
    peers = strstr(output, "NUM_PEERS=");
    if (peers == NULL)
        return err_set(err, ERR_UNAVAILABLE, "its coordinator does not answer at port %s", port);
    ret_state->peers = (unsigned)strtoul(peers + strlen("NUM_PEERS="), NULL, 10);
    ret_state->running = strstr(output, "RUNNING=yes") != NULL;
    return 0;
}

static void tell_checkpoint(const char *port)
{
    char program[PATH_MAX], output[OUTPUT_BYTES];
    const char *line[] = {program, "-h", HOST, "-p", port, "-c", NULL};
    int wait_status;

    if (find_program("dmtcp_command", program, NULL) == 0)
        (void)program_run(line, LIMIT_MS, output, sizeof(output), &wait_status, NULL);
}

/* ---- images ---- */

static bool is_image(const char *name)
{
    const size_t length = strlen(name), tail = strlen(IMAGE_END);

    return strncmp(name, IMAGE_BEGIN, strlen(IMAGE_BEGIN)) == 0 && length > tail &&
           strcmp(name + length - tail, IMAGE_END) == 0;
}

typedef int image_fn(int folder, const char *name, void *data, struct err *err);

/* How many there are; each may be NULL. -1: each() has refused one. */
static int each_image(const char *path, image_fn *each, void *data, struct err *err)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int count = 0, result = 0;

    while (result == 0 && folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!is_image(entry->d_name))
            continue;
        count++;
        if (each != NULL)
            result = each(dirfd(folder), entry->d_name, data, err);
    }
    if (folder != NULL)
        closedir(folder);
    return result == 0 ? count : -1;
}

static int remove_one(const char *path, const struct stat *stat_of, int kind, struct FTW *at)
{
    (void)stat_of;
    if (at->level > 0)
        (void)(kind == FTW_DP ? rmdir(path) : unlink(path));
    return 0;
}

/* All of it: half an image of before, folders and links beside images, and DMTCP's script. */
static void clear_folder(const char *path)
{
    (void)nftw(path, remove_one, FOLDERS_OPEN_MAX, FTW_PHYS | FTW_DEPTH);
}

static int copy_bytes(int from, int to)
{
    char *bytes = check_alloc(COPY_BYTES);
    ssize_t got;
    int result = 0;

    while (result == 0 && (got = read(from, bytes, COPY_BYTES)) != 0)
        if (got < 0 || write(to, bytes, (size_t)got) != got)
            result = -1;
    free(bytes);
    return result;
}

static int take_copy(int folder, const char *name, int to, struct err *err)
{
    int from = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int into = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int result;

    result = from < 0 || into < 0 ? -1 : copy_bytes(from, into);
    if (result != 0)
        (void)err_set(err, ERR_FULL, "%s cannot be copied into the checkpoint: %s", name,
                      strerror(errno));
    if (from >= 0)
        close(from);
    if (into >= 0)
        close(into);
    (void)unlinkat(folder, name, 0);
    return result;
}

/* Files alone lie in it. */
static int take_folder_copy(int folder, const char *name, int to, struct err *err)
{
    int from = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int into = mkdirat(to, name, 0700) != 0
                   ? -1
                   : openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *files = from < 0 ? NULL : fdopendir(from);
    const struct dirent *entry;
    int result = files == NULL || into < 0 ? -1 : 0;

    if (result != 0)
        (void)err_set(err, ERR_IO, "%s cannot be copied into the checkpoint: %s", name,
                      strerror(errno));
    while (result == 0 && (entry = readdir(files)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = take_copy(from, entry->d_name, into, err);
    if (into >= 0)
        close(into);
    if (files != NULL)
        closedir(files);
    return result;
}

/* Beside ckpt_NAME.dmtcp. */
static void name_files(const char *image, char ret_name[PATH_MAX])
{
    snprintf(ret_name, PATH_MAX, "%.*s" FILES_END, (int)(strlen(image) - strlen(IMAGE_END)), image);
}

/* Its folder may be of another file system. */
static int take_image(int folder, const char *name, void *data, struct err *err)
{
    const int to = *(const int *)data;
    char files[PATH_MAX];

    name_files(name, files);
    if (renameat(folder, files, to, files) != 0 && errno != ENOENT) { /* most programs have none */
        if (errno != EXDEV)
            return err_set(err, ERR_IO, "%s cannot be moved into the checkpoint: %s", files,
                           strerror(errno));
        if (take_folder_copy(folder, files, to, err) != 0)
            return -1;
    }
    if (renameat(folder, name, to, name) == 0)
        return 0;
    if (errno == EXDEV)
        return take_copy(folder, name, to, err);
    return err_set(err, ERR_IO, "%s cannot be moved into the checkpoint: %s", name,
                   strerror(errno));
}

/* ---- save ---- */

static uint64_t resident_bytes(pid_t pid)
{
    size_t length = 0;
    int result;
    char *text = proc_read_bytes(pid, "statm", STATM_BYTES, &length, &result);
    const char *second = text == NULL ? NULL : memchr(text, ' ', length);
    uint64_t pages = second == NULL ? 0 : strtoull(second, NULL, 10);

    free(text);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A full disk ends the job: DMTCP's processes die of it. */
static int check_room(const struct tool_save *save, const char *images, struct err *err)
{
    struct statvfs room;
    uint64_t needs = 0, has;
    struct process_tree tree;

    if (process_tree_look(save->front, &tree, err) != 0)
        return -1;
    for (size_t i = 0; i < tree.count; i++)
        needs += resident_bytes(tree.pids[i]) / 100 * ROOM_PERCENT;
    process_tree_free(&tree);
    if (statvfs(images, &room) != 0)
        return err_set(err, ERR_IO, "%s: %s", images, strerror(errno));
    has = (uint64_t)room.f_bavail * room.f_frsize;
    return has >= needs
               ? 0
               : err_set(err, ERR_FULL,
                         "its image needs about %" PRIu64 " bytes, and the work folder has "
                         "%" PRIu64 ": free some, or choose another --work-dir",
                         needs, has);
}

/* So many processes the coordinator has made stand still together, whose images are there; 0: its
 * script is not there yet. */
static unsigned long saved_processes(const char *images)
{
    char path[PATH_MAX], *text = check_calloc(1, SCRIPT_BYTES + 1);
    const char *says = NULL;
    unsigned long count = 0;
    int fd = -1;

    if (snprintf(path, sizeof(path), "%s/" SCRIPT_NAME, images) < (int)sizeof(path))
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, SCRIPT_BYTES) > 0)
        says = strstr(text, SCRIPT_SAYS);
    if (says != NULL && strchr(says, '\n') != NULL)
        count = strtoul(says + strlen(SCRIPT_SAYS), NULL, 10);
    if (fd >= 0)
        close(fd);
    free(text);
    return count;
}

/* One look: how many images there are, when all are; else 0. */
static int is_written(const char *port, const char *images, struct err *err)
{
    struct state state;
    int count;

    if (ask_state(port, &state, err) != 0)
        return -1;
    if (state.peers == 0)
        return err_set(err, ERR_UNAVAILABLE, "it has ended while DMTCP saved it");
    count = each_image(images, NULL, NULL, err);
    return state.running && count > 0 && (unsigned long)count == saved_processes(images) ? count
                                                                                         : 0;
}

/* -1: it is, and whether the program waits for the end of it. */
static int say_late(const char *port, const char *images, unsigned peers, struct err *err)
{
    const int written = each_image(images, NULL, NULL, err);
    const unsigned long saved = saved_processes(images);
    struct state state = {.running = true};

    (void)ask_state(port, &state, err);
    return err_set(err, ERR_TIMEOUT, "DMTCP has written %d of %lu images by the deadline%s",
                   written, saved == 0 ? peers : saved,
                   state.running ? "" : ", and the program still stands still for it");
}

/* How many there are. */
static int await_images(const struct tool_save *save, const char *port, const char *images,
                        unsigned peers, struct err *err)
{
    while (wall_ms() < save->deadline_ms) {
        int written;

        if (save->unwanted())
            return err_set(err, ERR_REFUSED, "the checkpoint is not wanted any more");
        written = is_written(port, images, err);
        if (written != 0)
            return written;
        (void)poll(NULL, 0, LOOK_MS);
    }
    return say_late(port, images, peers, err);
}

static int dmtcp_save(const struct tool_save *save, struct err *err)
{
    char port[PORT_BYTES], images[PATH_MAX];
    struct state state;
    int folder, count, result;

    path_in(save->work_dir, "images", images);
    read_port(save->work_dir, port);
    if (ask_state(port, &state, err) != 0 || check_room(save, images, err) != 0)
        return -1;
    if (!state.running || state.peers == 0 || state.peers > IMAGES_MAX)
        return err_set(err, ERR_BUSY,
                       state.running
                           ? "its coordinator knows %u processes"
                           : "DMTCP still writes a checkpoint of before, of %u processes: "
                             "where that never ends, kill the program, and it begins "
                             "from the last one",
                       state.peers);
    clear_folder(images);
    tell_checkpoint(port);
    count = await_images(save, port, images, state.peers, err);
    if (count < 0)
        return -1;
    folder = open(save->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_set(err, ERR_IO, "%s: %s", save->folder, strerror(errno));
    result = each_image(images, take_image, &folder, err) == count ? 0 : -1;
    close(folder);
    return result;
}

/* ---- start ---- */

struct words {
    char **line;
    size_t count;
    const char *folder, *images; /* from which, and where the next ones are to be written */
};

/* A link is enough for the start, and is removed before the next images are written. */
static int lead_to_files(const struct words *words, const char *image, struct err *err)
{
    char name[PATH_MAX], from[PATH_MAX], to[PATH_MAX];

    name_files(image, name);
    if (snprintf(from, sizeof(from), "%s/%s", words->folder, name) >= (int)sizeof(from) ||
        snprintf(to, sizeof(to), "%s/%s", words->images, name) >= (int)sizeof(to))
        return err_set(err, ERR_INVALID, "the path of %s is too long", name);
    if (access(from, F_OK) != 0 || symlink(from, to) == 0)
        return 0;
    return err_set(err, ERR_IO, "%s cannot be made in the work folder: %s", name, strerror(errno));
}

static int add_image(int folder, const char *name, void *data, struct err *err)
{
    struct words *words = data;
    size_t size = strlen(words->folder) + strlen(name) + 2;
    char *path = check_alloc(size);

    (void)folder;
    if (words->count == IMAGES_MAX)
        return err_set(err, ERR_FULL, "it has more than %d images", IMAGES_MAX);
    snprintf(path, size, "%s/%s", words->folder, name);
    words->line[words->count++] = path;
    return lead_to_files(words, name, err);
}

static void dmtcp_become(const struct tool_start *start)
{
    static char quiet[] = "-q", join[] = "-j", plain[] = "--no-gzip", folder[] = "--ckptdir";
    char program[PATH_MAX], port[PORT_BYTES], images[PATH_MAX];
    struct words words = {.folder = start->restore_dir};
    const bool anew = start->restore_dir[0] == '\0';
    struct err err = {0};
    size_t count = 0;

    while (start->command[count] != NULL)
        count++;
    words.images = images;
    words.line = check_calloc(count + IMAGES_MAX + 8, sizeof(*words.line));
    errno = ENOENT;
    read_port(start->work_dir, port);
    path_in(start->work_dir, "images", images);
    if (find_program(anew ? "dmtcp_launch" : "dmtcp_restart", program, &err) != 0)
        return;
    (void)setenv("DMTCP_COORD_HOST", HOST, 1);
    (void)setenv("DMTCP_COORD_PORT", port, 1);
    (void)setenv("DMTCP_CHECKPOINT_DIR", images, 1);
    words.line[words.count++] = program;
    words.line[words.count++] = quiet;
    words.line[words.count++] = join;
    words.line[words.count++] = folder;
    words.line[words.count++] = images;
    if (anew)
        words.line[words.count++] = plain;
    for (size_t i = 0; anew && i < count; i++)
        words.line[words.count++] = start->command[i];
    if (!anew)
        clear_folder(images);
    if (!anew && each_image(start->restore_dir, add_image, &words, &err) <= 0) {
        errno = ENOENT;
        return;
    }
    execv(program, words.line);
}

static bool dmtcp_left(const char *folder)
{
    struct err err = {0};

    return each_image(folder, NULL, NULL, &err) > 0;
}

const struct tool tool_dmtcp = {.name = "dmtcp",
                                .check = dmtcp_check,
                                .prepare = dmtcp_prepare,
                                .become = dmtcp_become,
                                .save = dmtcp_save,
                                .left = dmtcp_left};
