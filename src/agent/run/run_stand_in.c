/* A stand-in for programs that look for a stop file. See run_stand_in.h. */
#include "src/agent/run/run_stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_saved_files.h"
#include "src/agent/run/run_say.h"
#include "src/ask/ask.h"
#include "src/ask/sentinel.h"
#include "src/base/check.h"

#define STAND_IN_VERB "stand-in"
#define PROFILE_FILE  "file"

enum {
    LOOK_MS = 100,
    TAKEN_LOOKS = 100, /* for the agent to take what is done, before the program runs again */
    WORDS = 8,         /* before the command */
    TEXT_MAX = 4096,
    STATUS_NONE = -1 /* it goes on */
};

/* ---- the command line ---- */

int stand_in_check(const struct stand_in *stand_in, const char *profile, uint32_t ranks,
                   struct err *err)
{
    struct err why;

    if (stand_in->file == NULL) {
        if (stand_in->text != NULL || stand_in->files != NULL || stand_in->then_named ||
            stand_in->quiet_ms != 0)
            return err_set(err, ERR_INVALID,
                           "--ask-text, --ask-then, --checkpoint-files and --files-quiet go with "
                           "--ask-file FILE: add it, or leave them out");
        return 0;
    }
    if (profile[0] != '\0' && strcmp(profile, PROFILE_FILE) != 0)
        return err_set(err, ERR_INVALID,
                       "--ask-file is of no use with --profile %.32s: name --profile " PROFILE_FILE
                       ", or leave one of the two out",
                       profile);
    if (stand_in->file[0] == '\0' || stand_in->file[strlen(stand_in->file) - 1] == '/')
        return err_set(err, ERR_INVALID,
                       "--ask-file is \"%.128s\", it must be the name of a file, as STOPCAR",
                       stand_in->file);
    if (stand_in->text != NULL && strlen(stand_in->text) > TEXT_MAX)
        return err_set(err, ERR_INVALID, "--ask-text has %zu bytes, at most %d are taken",
                       strlen(stand_in->text), TEXT_MAX);
    if (stand_in->files == NULL)
        return err_set(err, ERR_INVALID,
                       "--ask-file needs --checkpoint-files, which names the files that the "
                       "program saves, as 'CHGCAR WAVECAR'");
    if (stand_in->quiet_ms != 0 && !stand_in->goes_on)
        return err_set(err, ERR_INVALID,
                       "--files-quiet is of no use where the program ends when it has saved: "
                       "leave it out, or name --ask-then goes-on");
    if (ranks > 1)
        return err_set(err, ERR_INVALID,
                       "--ranks %" PRIu32 " does not go with --ask-file, which asks one program "
                       "for all of the job: leave it out",
                       ranks);
    if (patterns_check(stand_in->files, &why) != 0)
        return err_set(err, ERR_INVALID, "--checkpoint-files %s", why.text);
    return 0;
}

char **stand_in_command(const struct stand_in *stand_in, char *const *command)
{
    uint64_t quiet_ms = stand_in->quiet_ms == 0 ? STAND_IN_QUIET_MS : stand_in->quiet_ms;
    size_t count = 0;
    char **words, quiet[24], status[16];

    while (command[count] != NULL)
        count++;
    words = check_calloc(WORDS + count + 1, sizeof(*words));
    snprintf(quiet, sizeof(quiet), "%" PRIu64, quiet_ms);
    words[0] = check_strdup("/proc/self/exe");
    words[1] = check_strdup(STAND_IN_VERB);
    words[2] = check_strdup(stand_in->file);
    words[3] = check_strdup(stand_in->text == NULL ? "" : stand_in->text);
    words[4] = check_strdup(stand_in->files);
    snprintf(status, sizeof(status), "%d", stand_in->goes_on ? STATUS_NONE : stand_in->status);
    words[5] = check_strdup(status);
    words[6] = check_strdup(quiet);
    words[7] = check_strdup(stand_in->restart == NULL ? "" : stand_in->restart);
    for (size_t i = 0; i < count; i++)
        words[WORDS + i] = command[i];
    return words;
}

static bool is_stand_in(char *const *command)
{
    for (size_t i = 0; i < WORDS; i++)
        if (command[i] == NULL)
            return false;
    return strcmp(command[0], "/proc/self/exe") == 0 && strcmp(command[1], STAND_IN_VERB) == 0 &&
           command[WORDS] != NULL;
}

const char *stand_in_program(char *const *command)
{
    return is_stand_in(command) ? command[WORDS] : command[0];
}

/* ---- the stand-in ---- */

static struct {
    struct stand_in as;
    char **command;
    const char *work_dir;
    pid_t program;
    bool told;               /* since it was started: its end with 0 is that of the stop */
    bool goes_on_from_files; /* it was stopped before, or they were restored */
    char hint[HINT_TEXT_BYTES], answered[HINT_TEXT_BYTES]; /* in hand, "": none; before */
    char directory[PATH_MAX];
    struct timespec told_at; /* by the clock of the file system */
    uint64_t sum, quiet_ms;  /* of its files, and for how long it has stood */
} self;

static volatile sig_atomic_t told_to_end;

static void on_end_signal(int number)
{
    (void)number;
    told_to_end = 1;
}

static void on_other_signal(int number)
{
    (void)number;
}

/* Signals go to the whole job: the program decides, and its end is this one's. The program begins
 * with those that were ignored, and with the default of all others (execve(2)). */
static void hold_signals(void)
{
    static const int held[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};

    for (size_t i = 0; i < ARRAY_COUNT(held); i++) {
        const bool ends = held[i] != SIGUSR1 && held[i] != SIGUSR2;
        const struct sigaction action = {.sa_handler = ends ? on_end_signal : on_other_signal,
                                         .sa_flags = SA_RESTART};
        struct sigaction before;
        CHECK(sigaction(held[i], NULL, &before) == 0);
        if (before.sa_handler != SIG_IGN)
            CHECK(sigaction(held[i], &action, NULL) == 0);
    }
}

static void start_program(void)
{
    (void)unlink(self.as.file); /* of a stop before */
    self.told = false;
    self.program = fork();
    CHECK(self.program >= 0);
    if (self.program > 0) {
        if (told_to_end)
            kill(self.program, SIGTERM); /* it came before there was a program */
        return;
    }
    if (self.goes_on_from_files && self.as.restart[0] != '\0')
        execl("/bin/sh", "sh", "-c", self.as.restart, (char *)NULL);
    else
        execvp(self.command[0], self.command);
    run_say_error("%s: %s", self.command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* ---- a request ---- */

static const char *line_value(const char *text, const char *key, char *ret_value, size_t size)
{
    const char *at = strncmp(text, key, strlen(key)) == 0 ? text : NULL;
    size_t length;

    for (const char *line = text; at == NULL && (line = strchr(line, '\n')) != NULL;) {
        line++;
        if (strncmp(line, key, strlen(key)) == 0)
            at = line;
    }
    if (at == NULL)
        return NULL;
    at += strlen(key);
    length = strcspn(at, "\n");
    if (length >= size)
        return NULL;
    memcpy(ret_value, at, length);
    ret_value[length] = '\0';
    return ret_value;
}

/* False: none is there. */
static bool read_request(char ret_hint[HINT_TEXT_BYTES], char ret_directory[PATH_MAX])
{
    char path[PATH_MAX], text[2 * PATH_MAX];
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "%s/request", self.work_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    if (line_value(text, "hint=", ret_hint, HINT_TEXT_BYTES) == NULL ||
        line_value(text, "directory=", ret_directory, PATH_MAX) == NULL)
        return false;
    request_unquote(ret_directory);
    return true;
}

/* By rename: whoever polls finds all of the text. */
static int write_whole(const char *path, const char *text, size_t length, struct stat *ret_stat)
{
    char new_path[PATH_MAX + 16];
    int fd, failed;

    snprintf(new_path, sizeof(new_path), "%s.ckpt-new", path);
    fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    failed = write(fd, text, length) != (ssize_t)length || fstat(fd, ret_stat) != 0;
    return close(fd) != 0 || failed ? -1 : rename(new_path, path);
}

static void give_answer(uint64_t bytes, const char *status)
{
    struct sentinel sentinel = {.bytes = bytes};
    char path[PATH_MAX], text[SENTINEL_MAX_BYTES];
    struct stat stat;

    memcpy(sentinel.hint, self.hint, sizeof(sentinel.hint));
    snprintf(sentinel.status, sizeof(sentinel.status), "%s", status);
    snprintf(path, sizeof(path), "%s/done", self.work_dir);
    if (write_whole(path, text, sentinel_format(&sentinel, text), &stat) != 0)
        run_say_error("%s cannot be written: %s", path, strerror(errno));
    memcpy(self.answered, self.hint, sizeof(self.answered));
    self.hint[0] = '\0';
}

/* 0: they were copied; else why not. */
static void save_files(const struct saved_files *files)
{
    struct saved_files again;
    struct err err = {0};

    if (saved_files_copy(files, self.directory, &err) != 0) {
        give_answer(0, err.text);
        return;
    }
    saved_files_find(self.as.files, &self.told_at, &again);
    if (again.sum == files->sum)
        give_answer(files->bytes, "0");
    else if (!self.as.goes_on)
        give_answer(0, "its files changed while they were copied, although it has ended");
    saved_files_free(&again); /* else: the next look finds them */
}

static void take_request(void)
{
    const char *parts = getenv("CKPT_PARTS");
    char line[TEXT_MAX + 2];
    struct stat stat;
    int length =
        snprintf(line, sizeof(line), "%s%s", self.as.text, self.as.text[0] == '\0' ? "" : "\n");

    self.quiet_ms = self.sum = 0;
    if (parts != NULL && strcmp(parts, "1") != 0) {
        give_answer(0, "--ask-file tells one program; a job of several nodes needs the library");
        return;
    }
    if (write_whole(self.as.file, line, (size_t)length, &stat) != 0) {
        snprintf(line, sizeof(line), "%.100s cannot be written: %.60s", self.as.file,
                 strerror(errno));
        give_answer(0, line);
        return;
    }
    self.told_at = stat.st_mtim;
    self.told = true;
}

static void look_for_request(void)
{
    char hint[HINT_TEXT_BYTES], directory[PATH_MAX];
    bool there = read_request(hint, directory);

    if (self.hint[0] != '\0' && (!there || strcmp(hint, self.hint) != 0)) {
        self.hint[0] = '\0'; /* withdrawn */
        (void)unlink(self.as.file);
    }
    if (!there || strcmp(hint, self.answered) == 0 || strcmp(hint, self.hint) == 0)
        return;
    memcpy(self.hint, hint, sizeof(self.hint));
    memcpy(self.directory, directory, sizeof(self.directory));
    take_request();
}

/* Of a program that goes on: its files are newer, and nothing changes any more. */
static void look_for_files(void)
{
    struct saved_files files;

    saved_files_find(self.as.files, &self.told_at, &files);
    self.quiet_ms = files.missing[0] == '\0' && files.sum == self.sum ? self.quiet_ms + LOOK_MS : 0;
    self.sum = files.sum;
    if (files.refused[0] != '\0')
        give_answer(0, files.refused);
    else if (files.missing[0] == '\0' && self.quiet_ms >= self.as.quiet_ms) {
        save_files(&files);
        if (self.hint[0] == '\0') { /* an end with 0 is that of its work again */
            (void)unlink(self.as.file);
            self.told = false;
        }
    }
    saved_files_free(&files);
}

/* ---- its end ---- */

__attribute__((noreturn)) static void end_as(int wait_status)
{
    (void)unlink(self.as.file);
    if (!WIFSIGNALED(wait_status))
        _exit(WEXITSTATUS(wait_status));
    signal(WTERMSIG(wait_status), SIG_DFL);
    raise(WTERMSIG(wait_status));
    _exit(128 + WTERMSIG(wait_status));
}

static void answer_ended(void)
{
    struct saved_files files;
    char text[SAVED_PATTERN_BYTES + 80];

    saved_files_find(self.as.files, &self.told_at, &files);
    if (files.refused[0] != '\0') {
        give_answer(0, files.refused);
    } else if (files.missing[0] == '\0') {
        save_files(&files);
    } else {
        snprintf(text, sizeof(text), "it ended, and no file of \"%.100s\" is newer than %.60s",
                 files.missing, self.as.file);
        give_answer(0, text);
    }
    saved_files_free(&files);
}

/* The next start must not write beside what is being taken. */
static void wait_until_taken(void)
{
    char hint[HINT_TEXT_BYTES], directory[PATH_MAX];

    for (int i = 0; i < TAKEN_LOOKS && read_request(hint, directory) &&
                    strcmp(hint, self.answered) == 0 && !told_to_end;
         i++)
        (void)poll(NULL, 0, LOOK_MS);
}

/* The end of a stop. With a status of its own the end with 0 is that of the work. */
static bool program_obeyed(int wait_status)
{
    return self.told && WIFEXITED(wait_status) &&
           WEXITSTATUS(wait_status) == (self.as.goes_on ? 0 : self.as.status);
}

static void program_ended(int wait_status)
{
    bool stopped = program_obeyed(wait_status);

    if (stopped && self.hint[0] != '\0')
        answer_ended();
    if (!stopped || told_to_end)
        end_as(wait_status);
    wait_until_taken();
    if (told_to_end)
        end_as(0);
    self.goes_on_from_files = true;
    start_program();
}

static void look_once(void)
{
    int wait_status;
    pid_t ended;

    while ((ended = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (ended == self.program) {
            program_ended(wait_status);
            return;
        }
    }
    look_for_request();
    if (self.hint[0] != '\0' && self.as.goes_on)
        look_for_files();
}

static void bring_files_back(void)
{
    const char *folder = getenv("CKPT_RESTORE_DIR");
    struct err err = {0};

    if (folder == NULL)
        return;
    self.goes_on_from_files = true;
    if (saved_files_bring_back(folder, &err) == 0)
        return;
    run_say_error("what was restored cannot be brought back: %s", err.text);
    _exit(125);
}

void stand_in_run(int argc, char **argv)
{
    if (argc <= WORDS || !is_stand_in(argv))
        return;
    self.work_dir = getenv("CKPT_DIR");
    if (self.work_dir == NULL)
        return;
    self.as = (struct stand_in){.file = argv[2],
                                .text = argv[3],
                                .files = argv[4],
                                .goes_on = strcmp(argv[5], "-1") == 0,
                                .status = (int)strtol(argv[5], NULL, 10),
                                .quiet_ms = strtoull(argv[6], NULL, 10),
                                .restart = argv[7]};
    self.command = argv + WORDS;
    (void)prctl(PR_SET_NAME, "ckpt-stand-in");
    hold_signals();
    bring_files_back();
    start_program();
    for (;;) {
        look_once();
        (void)poll(NULL, 0, LOOK_MS);
    }
}
