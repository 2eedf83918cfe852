/* A stand-in for programs that know nothing of checkpoints. See run_stand_in.h. */
#include "src/agent/run/run_stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/run/run_aside.h"
#include "src/agent/run/run_inherited.h"
#include "src/agent/run/run_input.h"
#include "src/agent/run/run_output_line.h"
#include "src/agent/run/run_question.h"
#include "src/agent/run/run_saved_files.h"
#include "src/agent/run/run_saved_links.h"
#include "src/agent/run/run_saved_paths.h"
#include "src/agent/run/run_say.h"
#include "src/agent/run/run_started.h"
#include "src/agent/run/run_wake.h"
#include "src/agent/run/run_wish.h"
#include "src/agent/run/words.h"
#include "src/agent/transparent/front_words.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"

enum {
    LOOK_MS = 100,
    TAKEN_LOOKS = 100, /* for the agent to take what is done, before the program runs again */
    CATCH_MS = 5000,   /* from its start, for a program to install the handler that is to be told */
    FRESH_MS = 10000,  /* a save set aside is as good as one that a signal would bring */
    LATE_MS = 3000,    /* before the deadline an older save is better than none */
    LATE_STOP_MS = 600000, /* a program that has read the file ends within so long */
    EMPTY_ENDS_MAX = 10,
    WHY_BYTES = SAVED_PATTERN_BYTES + 80,
    TICK_MS = 10 /* of the clocks of file systems, and more */
};

static struct {
    struct stand_in as;
    char **command;
    const char *work_dir;
    pid_t program;
    uint64_t started_ms;      /* monotonic */
    bool told;                /* since it was started: its end with 0 is that of the stop */
    bool heard;               /* it was told for the question in hand */
    bool goes_on_from_files;  /* it was stopped before, or they were restored */
    struct question question; /* in hand */
    char answered[HINT_TEXT_BYTES];
    struct timespec began;  /* by the clock of the file system: the first start here */
    struct timespec since;  /* by the clock of the file system: later files are of the save */
    uint64_t sum, quiet_ms; /* of its files, and for how long it has stood */
    struct aside aside;
    uint64_t newest; /* checkpoint of which this process knows: restored, or asked for; 0: none */
    char given[HINT_TEXT_BYTES]; /* to this question the save set aside went; "": to none yet */
    unsigned empty_ends;         /* in a row */
    bool killed;                 /* it was told to end by a signal of its own */
    uint64_t withdrawn_ms;       /* monotonic; of the last question that was; 0: none */
} self;

static volatile sig_atomic_t told_to_end; /* by this signal; 0: it was not */

static void on_end_signal(int number)
{
    told_to_end = number;
    wake_signal();
}

/* Also that its program has ended. */
static void on_other_signal(int number)
{
    (void)number;
    wake_signal();
}

/* Signals go to the whole job: the program decides, and its end is this one's. A copy beyond its
 * user's limit fails by an error, not by SIGXFSZ. The program begins with those that were ignored,
 * and with the default of all others (execve(2)). */
static void hold_signals(void)
{
    static const int held[] = {SIGTERM, SIGINT,  SIGQUIT, SIGHUP,
                               SIGUSR1, SIGUSR2, SIGXFSZ, SIGCHLD};

    for (size_t i = 0; i < ARRAY_COUNT(held); i++) {
        const bool ends = i < 4;
        const struct sigaction action = {.sa_handler = ends ? on_end_signal : on_other_signal,
                                         .sa_flags = SA_RESTART};
        struct sigaction before;
        CHECK(sigaction(held[i], NULL, &before) == 0);
        if (before.sa_handler != SIG_IGN)
            CHECK(sigaction(held[i], &action, NULL) == 0);
    }
}

static const char *file_patterns(void)
{
    return self.as.files == NULL ? STAND_IN_ALL_FILES : self.as.files;
}

static void add_outputs(struct saved_files *files)
{
    if (self.as.outputs != NULL)
        saved_files_add_outputs(self.as.outputs, files);
}

static void find_files(struct saved_files *ret_files)
{
    saved_files_find(file_patterns(), &self.since, ret_files);
    add_outputs(ret_files);
}

/* By the clock of the file system, which may be another machine's. A file that is written after the
 * return is later. */
static void read_clock(struct timespec *ret_now)
{
    static const char name[] = ".ckpt-run.clock";
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat stat;

    CHECK(clock_gettime(CLOCK_REALTIME_COARSE, ret_now) == 0);
    if (fd >= 0 && fstat(fd, &stat) == 0)
        *ret_now = stat.st_mtim;
    if (fd >= 0)
        close(fd);
    (void)unlink(name);
    (void)poll(NULL, 0, TICK_MS);
}

/* Each start finds its input as the first one did. ckpt-run has said beforehand what that needs. */
static void prepare_input(void)
{
    run_say_quiet(self.program == 0);
    run_input_prepare(true);
    run_say_quiet(false);
}

/* One that is told to end by another signal does not get the job's SIGTERM. */
static void spare_program(void)
{
    sigset_t term;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    if (self.as.kill_signal != 0 && self.as.kill_signal != SIGTERM)
        (void)sigprocmask(SIG_BLOCK, &term, NULL);
}

static void pass_end_on(void)
{
    if (told_to_end != SIGTERM || self.as.kill_signal == 0 || self.as.kill_signal == SIGTERM ||
        self.killed)
        return;
    self.killed = true;
    kill(self.program, self.as.kill_signal);
}

static void start_program(void)
{
    prepare_input();
    if (self.as.file != NULL)
        (void)unlink(self.as.file); /* of a stop before */
    self.told = self.heard = false;
    read_clock(&self.since);
    output_line_open(self.as.line);
    self.started_ms = output_line_now_ms();
    self.program = fork();
    CHECK(self.program >= 0);
    if (self.program > 0) {
        output_line_begun();
        if (told_to_end) /* it came before there was a program */
            kill(self.program, self.as.kill_signal != 0 ? self.as.kill_signal : SIGTERM);
        return;
    }
    output_line_become();
    spare_program();
    if (self.goes_on_from_files && self.as.restart != NULL)
        execl("/bin/sh", "sh", "-c", self.as.restart, (char *)NULL);
    else
        execvp(self.command[0], self.command);
    run_say_error("%s: %s", self.command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* ---- the answer ---- */

static void give_answer(struct sentinel *answer)
{
    memcpy(answer->hint, self.question.hint, sizeof(answer->hint));
    if (question_answer(self.work_dir, answer) != 0)
        run_say_error("%s/done cannot be written: %s", self.work_dir, strerror(errno));
    memcpy(self.answered, self.question.hint, sizeof(self.answered));
    question_newest(self.question.hint, &self.newest);
    self.question.hint[0] = '\0';
}

static void answer_failed(const char *why)
{
    struct sentinel answer = {.bytes = 0};

    text_copy(answer.status, sizeof(answer.status), why);
    give_answer(&answer);
}

/* No file: an empty checkpoint, which fails as one. */
static void answer_saved(uint64_t bytes, uint64_t saved_at_ms)
{
    struct sentinel answer = {.bytes = bytes, .status = "0", .saved_at_ms = saved_at_ms};

    if (self.as.tracker != NULL && bytes > 0)
        tracker_label(self.as.tracker, answer.label);
    give_answer(&answer);
    wish_end();
}

/* A later save than the one set aside. */
static void save_files(const struct saved_files *files)
{
    struct saved_files again;
    struct err err = {0};

    if (files->refused[0] != '\0') {
        answer_failed(files->refused);
        return;
    }
    if (saved_files_copy(files, self.question.directory, &err) != 0) {
        answer_failed(err.text);
        return;
    }
    saved_files_find(file_patterns(), &self.since, &again);
    if (again.sum == files->sum) {
        answer_saved(files->bytes, 0);
        aside_drop(self.work_dir, &self.aside);
    } else if (!self.as.goes_on) {
        answer_failed("its files changed while they were copied, although it has ended");
    }
    saved_files_free(&again); /* else: the next look finds them */
}

static void hand_aside_over(void)
{
    struct err err = {0};

    memcpy(self.given, self.question.hint, sizeof(self.given));
    if (aside_give(self.work_dir, &self.aside, self.question.directory, &err) == 0)
        answer_saved(self.aside.bytes, self.aside.at_ms);
    else if (err.code == ERR_EMPTY)
        answer_saved(0, 0);
    else
        answer_failed(err.text);
}

/* ---- a request ---- */

static bool is_told_of(void)
{
    return self.as.file != NULL || self.as.tell.signal != 0;
}

/* The save set aside is for this question: nothing has it yet, or an attempt before has failed with
 * it. One that is told saves anew where that save is old. */
static bool aside_is_meant(void)
{
    if (!self.aside.there)
        return false;
    if (self.given[0] != '\0')
        return question_same_checkpoint(self.given, self.question.hint);
    return !is_told_of() || run_wall_ms() - self.aside.at_ms < FRESH_MS;
}

static void tell_by_file(void)
{
    char line[2 * PATH_MAX];
    struct stat stat;
    const char *text = self.as.text == NULL ? "" : self.as.text;
    int length = snprintf(line, sizeof(line), "%s%s", text, text[0] == '\0' ? "" : "\n");

    if (question_write_file(self.as.file, line, (size_t)length, &stat) != 0) {
        snprintf(line, sizeof(line), "%.100s cannot be written: %.60s", self.as.file,
                 strerror(errno));
        answer_failed(line);
        return;
    }
    self.since = stat.st_mtim;
    self.told = self.heard = true;
}

/* A program that has just begun may not have its handler yet. One that is to end, and was told for
 * a question before, is saving: some take a second signal for an order to stop at once. */
static void tell_once(void)
{
    struct err err = {0};

    self.quiet_ms = self.sum = 0;
    if (self.as.file != NULL) {
        tell_by_file();
        return;
    }
    if (self.told && !self.as.goes_on) {
        self.heard = true;
        return;
    }
    read_clock(&self.since);
    output_line_forget();
    if (tell_by_signal(&self.as.tell, self.program, &err) == 0)
        self.told = self.heard = true;
    else if (output_line_now_ms() - self.started_ms >= CATCH_MS)
        answer_failed(err.text);
}

static bool has_one_part(void)
{
    const char *parts = getenv("CKPT_PARTS");

    return parts == NULL || strcmp(parts, "1") == 0;
}

static void take_question(void)
{
    if (!has_one_part())
        answer_failed("one program is asked in its own way for all of the job; a job of several "
                      "nodes needs the library");
    else if (aside_is_meant())
        hand_aside_over();
}

/* The question in hand is asked no more. */
static void drop_withdrawn(bool there, const struct question *question)
{
    if (self.question.hint[0] == '\0' || (there && strcmp(question->hint, self.question.hint) == 0))
        return;
    self.question.hint[0] = '\0';
    self.withdrawn_ms = output_line_now_ms();
    if (self.as.file != NULL)
        (void)unlink(self.as.file);
}

static void look_for_question(void)
{
    struct question question;
    bool there = question_read(self.work_dir, &question);

    drop_withdrawn(there, &question);
    if (there && strcmp(question.hint, self.answered) != 0 &&
        strcmp(question.hint, self.question.hint) != 0) {
        self.question = question;
        self.heard = false;
        take_question();
    }
    if (self.question.hint[0] != '\0' && is_told_of() && !self.heard)
        tell_once();
}

/* It saves by itself, and has not since: an older save says how old it is. */
static void look_at_deadline(void)
{
    if (self.question.hint[0] != '\0' && !is_told_of() && self.aside.there &&
        self.question.deadline_ms != 0 && run_wall_ms() + LATE_MS >= self.question.deadline_ms)
        hand_aside_over();
}

/* ---- while it goes on ---- */

/* The signs that its options name, beside newer files. */
static bool has_signs(void)
{
    return (self.as.tracker == NULL || tracker_newer(self.as.tracker, &self.since)) &&
           (self.as.line == NULL || output_line_seen());
}

static void save_judged(const struct saved_files *files)
{
    char why[WHY_BYTES];

    saved_links_judge(files, &self.since, why, sizeof(why));
    if (why[0] != '\0')
        answer_failed(why);
    else
        save_files(files);
}

/* Of a program that goes on: its files are newer, and nothing changes any more. */
static void look_for_files(void)
{
    const uint64_t quiet_ms = self.as.quiet_ms == 0 ? STAND_IN_QUIET_MS : self.as.quiet_ms;
    const bool signs = has_signs();
    struct saved_files files;

    saved_files_find(file_patterns(), &self.since, &files);
    self.quiet_ms = files.missing[0] == '\0' && files.sum == self.sum ? self.quiet_ms + LOOK_MS : 0;
    self.sum = files.sum;
    if (files.refused[0] != '\0')
        answer_failed(files.refused);
    else if (signs && files.missing[0] == '\0' && self.quiet_ms >= quiet_ms) {
        add_outputs(&files);
        save_judged(&files);
        if (self.question.hint[0] == '\0') { /* an end with 0 is that of its work again */
            if (self.as.file != NULL)
                (void)unlink(self.as.file);
            self.told = false;
        }
    }
    saved_files_free(&files);
}

/* ---- its end ---- */

__attribute__((noreturn)) static void end_as(int wait_status)
{
    if (self.as.file != NULL)
        (void)unlink(self.as.file);
    if (wait_status == 0) /* else a start after this one goes on from it */
        aside_drop(self.work_dir, &self.aside);
    run_input_close();
    front_end_as(wait_status);
}

/* Status 0 would say that its work is complete. */
__attribute__((noreturn)) static void end_unfinished(int wait_status)
{
    end_as(wait_status == 0 ? W_EXITCODE(EXIT_FAILURE, 0) : wait_status);
}

/* Why its files are none of a save; "": they are. Of a program that says by its end that it has
 * saved, one newer file is enough, and none at all is an empty checkpoint. */
static void judge_files(const struct saved_files *files, char *ret_why, size_t size)
{
    const bool told_by_file = self.as.file != NULL && !self.as.unasked;

    saved_links_judge(files, &self.since, ret_why, size);
    if (files->refused[0] != '\0')
        text_copy(ret_why, size, files->refused);
    if (ret_why[0] != '\0')
        return;
    if (told_by_file && files->missing[0] != '\0')
        snprintf(ret_why, size, "it ended, and no file of \"%.100s\" is newer than %.60s",
                 files->missing, self.as.file);
    else if (files->newer && files->unmatched[0] != '\0')
        snprintf(ret_why, size, "it ended, and no file matches \"%.100s\" of --checkpoint-files",
                 files->unmatched);
}

static void say_empty(void)
{
    run_say_error("the program ended as one that has saved, and no file of \"%.100s\" is newer "
                  "than its start, or the question: the checkpoint is empty; name what it saves "
                  "with --checkpoint-files",
                  file_patterns());
}

static void answer_ended(void)
{
    char why[WHY_BYTES];
    struct saved_files files;

    find_files(&files);
    judge_files(&files, why, sizeof(why));
    if (why[0] != '\0') {
        answer_failed(why);
    } else if (!files.newer) {
        say_empty();
        answer_saved(0, 0);
    } else {
        save_files(&files);
    }
    saved_files_free(&files);
}

/* A save that nobody asked for; a question that waits for one gets it. */
static void set_aside(int wait_status)
{
    char why[WHY_BYTES];
    struct saved_files files;
    struct err err = {0};

    find_files(&files);
    judge_files(&files, why, sizeof(why));
    if (told_to_end && !files.newer) { /* an end as it was told to, without a save */
        saved_files_free(&files);
        return;
    }
    self.empty_ends = files.newer ? 0 : self.empty_ends + 1;
    if (self.empty_ends == EMPTY_ENDS_MAX) {
        run_say_error("the program has ended %u times in a row as one that has saved, and has not "
                      "saved: it is not started again",
                      self.empty_ends);
        end_unfinished(wait_status);
    }
    if (!files.newer && self.empty_ends == 1)
        say_empty();
    if (why[0] != '\0')
        run_say_error("what the program has saved by itself is no checkpoint: %s", why);
    else if (aside_take(self.work_dir, files.newer ? &files : NULL, self.newest, &self.aside,
                        &err) != 0)
        run_say_error("what the program has saved by itself cannot be set aside: %s", err.text);
    saved_files_free(&files);
    if (why[0] != '\0' || err.text[0] != '\0')
        return;
    self.given[0] = '\0';
    if (told_to_end)
        return;
    if (self.question.hint[0] != '\0')
        hand_aside_over();
    else if (has_one_part())
        wish_begin();
}

/* The next start must not write beside what is being taken. */
static void wait_until_taken(void)
{
    struct question question;

    for (int i = 0; i < TAKEN_LOOKS && question_read(self.work_dir, &question) &&
                    strcmp(question.hint, self.answered) == 0 && !told_to_end;
         i++)
        (void)poll(NULL, 0, LOOK_MS);
}

/* The file was removed too late for the program: it has saved as it was told, and ends. One that
 * computes on for long has not read it. */
static bool stopped_late(void)
{
    struct saved_files files;
    bool saved;

    saved_files_find(file_patterns(), &self.since, &files);
    saved = files.missing[0] == '\0';
    saved_files_free(&files);
    return saved && output_line_now_ms() - self.withdrawn_ms < LATE_STOP_MS;
}

/* An end with 0, which is that of a stop and that of the work, while nothing is asked any more. */
static bool ends_after_withdrawal(int wait_status)
{
    if (!self.told || wait_status != 0 || self.question.hint[0] != '\0' || self.withdrawn_ms == 0 ||
        self.as.unasked || self.as.status != 0 || self.as.end_signal != 0 ||
        self.as.complete != NULL || self.as.more != NULL || stopped_late())
        return false;
    if (!self.as.goes_on)
        run_say_error("the program ended with 0 after the request to save was withdrawn, which is "
                      "taken for the end of its work; --ask-then exits=STATUS tells a stop from "
                      "that");
    return true;
}

static void program_ended(int wait_status)
{
    struct question question;
    bool there = question_read(self.work_dir, &question), asked;
    struct stand_in_end end = {wait_status, self.told, stand_in_complete(&self.as, &self.began)};

    drop_withdrawn(there, &question);
    asked = self.told && self.question.hint[0] != '\0';
    if (ends_after_withdrawal(wait_status))
        end.told = false;
    output_line_drain();
    if (!stand_in_goes_on(&self.as, &end))
        end_as(wait_status);
    if (asked)
        answer_ended();
    else if (!self.told || self.as.unasked) /* else: the question was withdrawn */
        set_aside(wait_status);
    if (told_to_end)
        end_unfinished(wait_status);
    if (asked || self.as.requeues)
        wait_until_taken();
    if (told_to_end)
        end_unfinished(wait_status);
    if (self.as.requeues)
        end_as(W_EXITCODE(STAND_IN_REQUEUED, 0));
    if (!run_input_again())
        end_unfinished(wait_status);
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
        (void)wish_ended(ended, wait_status, output_line_now_ms());
    }
    pass_end_on();
    if (!told_to_end) /* one that is to end is asked for nothing */
        look_for_question();
    if (self.question.hint[0] != '\0' && self.heard && self.as.goes_on)
        look_for_files();
    look_at_deadline();
    wish_step(output_line_now_ms());
}

/* Nothing is in hand: only a question, a signal or the program's end begins a step. */
static bool is_idle(void)
{
    return self.question.hint[0] == '\0' && !wish_wanted();
}

static void bring_files_back(void)
{
    const char *folder = getenv("CKPT_RESTORE_DIR");
    struct err err = {0};

    if (folder == NULL)
        return;
    self.goes_on_from_files = true;
    if (saved_files_bring_back(folder, &(struct saved_names){file_patterns(), self.as.outputs},
                               &err) == 0)
        return;
    run_say_error("what was restored cannot be brought back: %s", err.text);
    _exit(125);
}

/* Output that goes to a file goes on there: an older version must not take its place. A checkpoint
 * with all earlier ones in it would grow without end, and bring back those that had gone. */
static void leave_out(void)
{
    const char *checkpoints = getenv(STAND_IN_CHECKPOINTS);

    saved_path_leave_out(open(self.work_dir, O_PATH | O_CLOEXEC));
    if (checkpoints != NULL)
        saved_path_leave_out(open(checkpoints, O_PATH | O_CLOEXEC));
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        saved_path_leave_out(stream);
}

/* A save that a start before has set aside, and of which no checkpoint was made: it has the work
 * since the last one, whoever has killed that start. */
static void take_up_aside(void)
{
    const char *restored = getenv(STAND_IN_RESTORED);
    char clock[WORDS_BYTES];
    struct err err = {0};

    CHECK(self.program == 0);
    self.newest = 0;
    if (restored != NULL && strcmp(restored, STAND_IN_NONE) != 0)
        (void)checkpoint_id_parse(restored, &self.newest);
    if (!aside_find(self.work_dir, &self.aside) || restored == NULL ||
        self.newest > self.aside.newest) { /* the former has it, or is later */
        if (self.aside.there && restored == NULL)
            run_say("the files that the program saved by itself at %s are dropped: this start is "
                    "to begin without them",
                    words_clock(self.aside.at_ms, clock));
        aside_drop(self.work_dir, &self.aside);
        return;
    }
    if (aside_bring_back(self.work_dir, &(struct saved_names){file_patterns(), self.as.outputs},
                         &err) != 0) {
        run_say_error("what the program saved by itself at %s cannot be brought back: %s",
                      words_clock(self.aside.at_ms, clock), err.text);
        _exit(125);
    }
    self.goes_on_from_files = true;
    run_say("it goes on from what the program saved by itself at %s, of which no checkpoint was "
            "made; one is asked for now",
            words_clock(self.aside.at_ms, clock));
    if (has_one_part())
        wish_begin();
}

/* Also what was brought back is of before. */
static void look_for_complete(void)
{
    CHECK(self.program == 0);
    read_clock(&self.began);
    if (self.as.complete != NULL && access(self.as.complete, F_OK) == 0)
        run_say("%s of --done-if is there already: the work is complete when the program has "
                "written it anew",
                self.as.complete);
}

void stand_in_run(int argc, char **argv)
{
    if (argc < 2 || !stand_in_read(argv, &self.as, &self.command))
        return;
    self.work_dir = getenv("CKPT_DIR");
    if (self.work_dir == NULL)
        return;
    (void)prctl(PR_SET_NAME, "ckpt-stand-in");
    run_input_open();
    run_inherited_name(self.command);
    wake_open(self.work_dir);
    hold_signals();
    leave_out();
    bring_files_back();
    take_up_aside();
    look_for_complete();
    start_program();
    for (;;) {
        wake_taken(); /* before the look: whatever comes after it wakes */
        look_once();
        output_line_wait(output_line_now_ms() + (is_idle() ? wake_idle_ms() : LOOK_MS), wake_fds(),
                         WAKE_FDS);
    }
}
