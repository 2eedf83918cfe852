/* The stand-in of a program that is asked in its own way: which options go together, which end is a
 * save, how a save is set aside, the names of signals. */
#include "src/agent/run/run_saved_paths.h"
#include "src/agent/run/run_stand_in.h"
#include "src/base/id.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/agent/run/run_aside.h"
#include "src/agent/run/run_attributes.h"
#include "src/agent/run/run_output_line.h"
#include "src/agent/run/run_question.h"
#include "src/base/signal_name.h"
#include "tests/support/test.h"

static char root[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-stand-in-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(chdir(root), 0);
    return 0;
}

static int tear_down(void **state)
{
    char line[128];

    (void)state;
    assert_int_equal(chdir("/"), 0);
    snprintf(line, sizeof(line), "rm -rf %s", root);
    return system(line);
}

static void put_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void holds_text(const char *name, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(name, "r");

    assert_non_null(file);
    assert_true(fread(found, 1, sizeof(found) - 1, file) > 0);
    fclose(file);
    assert_string_equal(found, text);
}

/* ---- which end is a save ---- */

struct end_row {
    struct stand_in as;
    struct stand_in_end end;
    bool goes_on;
};

/* S5-002, S5-003, S5-004, S5-005, S5-006. */
static void an_end_is_a_save_or_that_of_the_job(void **state)
{
    static const struct end_row rows[] = {
        /* told: by status 0, or by the status that was named */
        {{.status = 0}, {W_EXITCODE(0, 0), true, true}, true},
        {{.status = 0}, {W_EXITCODE(0, 0), false, true}, false},
        {{.status = 0}, {W_EXITCODE(85, 0), true, true}, false},
        {{.status = 85}, {W_EXITCODE(85, 0), true, true}, true},
        {{.status = 85}, {W_EXITCODE(0, 0), true, true}, false},
        {{.status = 85}, {W_EXITCODE(85, 0), false, true}, false},
        /* by a signal: the number of the signal is no status */
        {{.end_signal = SIGUSR2}, {W_EXITCODE(0, SIGUSR2), true, true}, true},
        {{.end_signal = SIGUSR2}, {W_EXITCODE(SIGUSR2, 0), true, true}, false},
        {{.end_signal = SIGUSR2}, {W_EXITCODE(0, SIGSEGV), true, true}, false},
        {{.status = 11}, {W_EXITCODE(0, 11), true, true}, false},
        /* unasked: at any time, but never with status 0 */
        {{.unasked = true, .status = 85}, {W_EXITCODE(85, 0), false, true}, true},
        {{.unasked = true, .status = 85}, {W_EXITCODE(85, 0), true, true}, true},
        {{.unasked = true, .status = 85}, {W_EXITCODE(0, 0), false, true}, false},
        {{.unasked = true, .status = 85}, {W_EXITCODE(1, 0), false, true}, false},
        {{.unasked = true, .status = 0}, {W_EXITCODE(0, 0), false, true}, false},
        {{.unasked = true, .status = 0}, {W_EXITCODE(0, 0), true, true}, true},
        {{.unasked = true, .end_signal = SIGUSR2}, {W_EXITCODE(0, SIGUSR2), false, true}, true},
        /* files say whether status 0 is the end of the work */
        {{.complete = "f"}, {W_EXITCODE(0, 0), false, false}, true},
        {{.complete = "f"}, {W_EXITCODE(0, 0), false, true}, false},
        {{.complete = "f"}, {W_EXITCODE(0, 0), true, true}, false},
        {{.more = "f"}, {W_EXITCODE(0, 0), true, false}, true},
        {{.more = "f"}, {W_EXITCODE(1, 0), false, false}, false},
        {{.complete = "f", .unasked = true, .status = 85}, {W_EXITCODE(85, 0), false, true}, true},
        /* it goes on, and ends with 0 in the moment in which it is told */
        {{.goes_on = true}, {W_EXITCODE(0, 0), true, true}, true},
        {{.goes_on = true}, {W_EXITCODE(0, 0), false, true}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (stand_in_goes_on(&rows[i].as, &rows[i].end) != rows[i].goes_on)
            fail_msg("row %zu: the work goes on: %d", i, !rows[i].goes_on);
    }
}

/* A file of a run before would end this one at its first save. */
static void a_file_that_says_complete_is_newer_than_the_start(void **state)
{
    const struct stand_in as = {.complete = "result"},
                          other = {.complete = "result", .more = "more"};
    struct timespec began = {.tv_sec = 1};
    struct stat found;

    (void)state;
    assert_false(stand_in_complete(&as, &began));
    put_file("result", "x");
    assert_true(stand_in_complete(&as, &began));
    assert_true(stand_in_complete(&other, &began));
    assert_int_equal(stat("result", &found), 0);
    began = found.st_ctim;
    assert_false(stand_in_complete(&as, &began));
    began.tv_sec--;
    assert_true(stand_in_complete(&as, &began));
    put_file("more", "x");
    assert_false(stand_in_complete(&other, &began));
    assert_true(stand_in_complete(&(struct stand_in){.file = NULL}, &began));
}

/* ---- options ---- */

struct check_row {
    struct stand_in as;
    const char *profile;
    const char *said; /* NULL: they go together */
};

/* S4-003, S5-013: a save that looks like the end of the work would never let the job end. */
static void options_that_do_not_go_together_are_named(void **state)
{
    static const struct check_row rows[] = {
        {{.unasked = true, .status = 85}, "", NULL},
        {{.unasked = true, .status = 85, .files = "state/*"}, "file", NULL},
        {{.unasked = true, .status = 0}, "", "the job would never end"},
        {{.unasked = true, .status = 0, .tell = {.signal = SIGTERM}}, "", NULL},
        {{.unasked = true, .status = 0, .complete = "result"}, "", NULL},
        {{.unasked = true, .status = 85},
         "signal",
         "--checkpoint-exit is of no use with --profile"},
        {{.unasked = true, .status = 85, .goes_on = true}, "", "--ask-then goes-on says"},
        {{.complete = "result"}, "", NULL},
        {{.complete = "result", .text = "x"}, "", "--ask-text goes with --ask-file"},
        {{.tell = {.signal = SIGTERM}}, "signal", NULL}, /* it says `done` itself */
        {{.tell = {.signal = SIGTERM}, .then_named = true},
         "",
         "--ask-signal needs --checkpoint-files"},
        {{.tell = {.signal = SIGTERM, .whom = TELL_RANK}}, "", "for who does not write `done`"},
        {{.tell = {.signal = SIGTERM}, .files = "a"}, "", NULL},
        {{.tell = {.signal = SIGTERM}, .file = "STOP", .files = "a"}, "", "two ways of telling"},
        {{.tell = {.signal = SIGTERM}, .files = "a", .line = "saved"}, "", "are of no use where"},
        {{.tell = {.signal = SIGTERM}, .files = "a", .line = "", .goes_on = true},
         "",
         "--saved-line is empty"},
        {{.tell = {.signal = SIGTERM}, .files = "a", .tracker = "latest", .goes_on = true},
         "",
         NULL},
        {{.tell = {.whom = TELL_RANK}}, "", "--ask rank=N and --ask shell go with"},
        {{.tell = {.whom = TELL_GROUP}}, "", NULL},
        {{.kill_signal = SIGINT}, "", "--kill-signal, --ask rank=N"},
        {{.unasked = true, .status = 85, .files = "/etc/*"}, "", "its patterns are relative"},
        {{.unasked = true, .status = 85, .files = "a", .outputs = "*.log"}, "", NULL},
        {{.unasked = true, .status = 85, .outputs = "*.log"},
         "",
         "--checkpoint-outputs goes with --checkpoint-files"},
        {{.unasked = true, .status = 85, .files = "a", .outputs = " "},
         "",
         "--checkpoint-outputs is empty"},
        {{.outputs = "*.log"}, "", "--checkpoint-outputs, --files-quiet"},
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        err.text[0] = '\0';
        if ((stand_in_check(&rows[i].as, rows[i].profile, 1, &err) == 0) != (rows[i].said == NULL))
            fail_msg("row %zu: \"%s\"", i, err.text);
        if (rows[i].said != NULL)
            assert_contains(err.text, rows[i].said);
    }
    assert_int_equal(stand_in_check(&rows[0].as, "", 4, &err), -1);
    assert_contains(err.text, "--ranks 4 does not go with");
}

static void a_value_that_is_too_long_is_named(void **state)
{
    char *text = malloc(5000);
    struct stand_in as = {.unasked = true, .status = 85, .files = text};
    struct err err;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', 4999);
    text[4999] = '\0';
    assert_int_equal(stand_in_check(&as, "", 1, &err), -1);
    assert_contains(err.text, "4999 bytes as the value of an option, at most 4096");
    free(text);
}

/* Each option in words, and back, in front of whatever command. */
static void its_words_say_the_options(void **state)
{
    char *const command[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "--",
                             (char *)(uintptr_t) "file=x", NULL};
    const struct stand_in as = {.file = "a=b",
                                .text = "",
                                .tell = {.signal = 40, .whom = TELL_RANK, .rank = 7},
                                .files = "x y",
                                .outputs = "*.log",
                                .complete = "done",
                                .more = "more",
                                .tracker = "latest",
                                .line = "saved --",
                                .goes_on = true,
                                .unasked = true,
                                .requeues = true,
                                .status = 85,
                                .end_signal = 12,
                                .kill_signal = 34,
                                .quiet_ms = 500};
    char **words = stand_in_command(&as, command), **found = NULL;
    struct stand_in read = {0};

    (void)state;
    assert_string_equal(stand_in_program(words), "sh");
    assert_true(stand_in_read(words, &read, &found));
    assert_string_equal(found[0], "sh");
    assert_string_equal(found[2], "file=x");
    assert_null(found[3]);
    assert_string_equal(read.file, "a=b");
    assert_string_equal(read.text, "");
    assert_int_equal(read.tell.signal, 40);
    assert_int_equal(read.tell.whom, TELL_RANK);
    assert_int_equal(read.tell.rank, 7);
    assert_string_equal(read.files, "x y");
    assert_string_equal(read.outputs, "*.log");
    assert_string_equal(read.complete, "done");
    assert_string_equal(read.more, "more");
    assert_string_equal(read.tracker, "latest");
    assert_string_equal(read.line, "saved --");
    assert_true(read.goes_on && read.unasked && read.requeues);
    assert_int_equal(read.status, 85);
    assert_int_equal(read.end_signal, 12);
    assert_int_equal(read.kill_signal, 34);
    assert_int_equal(read.quiet_ms, 500);
    assert_false(stand_in_read((char **)(uintptr_t)command, &read, &found));
    free(words);
}

/* A registration's attributes become the same options. S5-004, S5-005, S5-006, S5-010. */
static void attributes_become_options(void **state)
{
    struct stand_in as;
    struct err err;

    (void)state;
    assert_int_equal(run_attributes_read("checkpoint_exit_code=85", &as, &err), 0);
    assert_true(as.unasked && as.status == 85 && as.end_signal == 0 && as.tell.signal == 0);
    assert_null(as.files);
    assert_int_equal(
        run_attributes_read("WantCheckpointSignal=TRUE\nTransferOutput=a,b", &as, &err), 0);
    assert_true(!as.unasked && as.status == 0);
    assert_int_equal(as.tell.signal, SIGTERM);
    assert_string_equal(as.files, "a b");
    assert_int_equal(run_attributes_read("WantCheckpointSignal=TRUE\nkill_sig=SIGINT", &as, &err),
                     0);
    assert_int_equal(as.tell.signal, SIGINT);
    assert_int_equal(as.kill_signal, SIGINT);
    assert_int_equal(run_attributes_read("WantCheckpointSignal=TRUE\nkill_sig=SIGINT\n"
                                         "CheckpointSig=RTMIN+1\nCheckpointExitBySignal=TRUE\n"
                                         "CheckpointExitSignal=USR2",
                                         &as, &err),
                     0);
    assert_int_equal(as.tell.signal, SIGRTMIN + 1);
    assert_int_equal(as.end_signal, SIGUSR2);
    assert_int_equal(
        run_attributes_read("WantCheckpointSignal=TRUE\nCheckpointSig=NONE", &as, &err), -1);
    assert_contains(err.text, "\"NONE\" is no signal that a program can take");
    assert_int_equal(run_attributes_read("Unknown=1", &as, &err), -1);
    assert_contains(err.text, "does not take: Unknown=1; install the release");
    assert_int_equal(
        run_attributes_read("checkpoint_exit_code=85\nTransferOutput=/etc/*", &as, &err), -1);
}

/* Also in an outage, when no broker tells them; and never beside options of ckpt-run itself. */
static void attributes_that_were_told_once_stay(void **state)
{
    char program[] = "sh", told[] = "checkpoint_exit_code=85";
    char *command[] = {program, NULL};
    struct run_options options = {.command = command};
    Ckpt__V1__AttachReady ready = CKPT__V1__ATTACH_READY__INIT;
    struct err err = {0};

    (void)state;
    assert_ptr_equal(run_attributes_line(&options, &ready, &err), command);
    ready.attributes = told;
    for (int i = 0; i < 2; i++) {
        char *const *line = run_attributes_line(&options, &ready, &err);

        assert_true(line != command);
        assert_string_equal(stand_in_program(line), "sh");
        ready.attributes = (char *)(uintptr_t) "";
    }
    options.stand_in.unasked = true;
    assert_ptr_equal(run_attributes_line(&options, &ready, &err), command);
    assert_string_equal(err.text, "");
}

/* ---- signals ---- */

/* S4-003. */
static void any_signal_has_a_name(void **state)
{
    static const char *const wrong[] = {"",        "KILL",     "SIGSTOP", "9",       "0", "65",
                                        "RTMIN-1", "RTMIN+99", "TERMS",   "RTMAX+1", "32"};
    char text[SIGNAL_NAME_BYTES];
    struct err err;

    (void)state;
    assert_int_equal(signal_name_parse("TSTP", &err), SIGTSTP);
    assert_int_equal(signal_name_parse("SIGTERM", &err), SIGTERM);
    assert_int_equal(signal_name_parse("usr1", &err), SIGUSR1);
    assert_int_equal(signal_name_parse("15", &err), SIGTERM);
    assert_int_equal(signal_name_parse("RTMIN", &err), SIGRTMIN);
    assert_int_equal(signal_name_parse("SIGRTMIN+3", &err), SIGRTMIN + 3);
    assert_int_equal(signal_name_parse("RTMAX-1", &err), SIGRTMAX - 1);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (signal == SIGKILL || signal == SIGSTOP || (signal >= 32 && signal < SIGRTMIN))
            continue;
        assert_int_equal(signal_name_parse(signal_name_format(signal, text), &err), signal);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(signal_name_parse(wrong[i], &err), -1);
    assert_contains(err.text, "\"32\" is no signal that a program can take: name one as TERM");
}

static void whom_it_goes_to_has_a_word(void **state)
{
    static const char *const words[] = {"started", "group", "each", "rank=0", "rank=31", "shell"};
    char text[TELL_WHOM_BYTES];
    struct tell tell = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(tell_whom_parse(words[i], &tell), 0);
        assert_string_equal(tell_whom_name(&tell, text), words[i]);
    }
    assert_int_equal(tell_whom_parse("rank=", &tell), -1);
    assert_int_equal(tell_whom_parse("rank=-1", &tell), -1);
    assert_int_equal(tell_whom_parse("all", &tell), -1);
}

static volatile sig_atomic_t came;

static void on_signal(int number)
{
    came = number;
}

/* One that does not catch it would end by it, and is spared. */
static void only_a_program_that_catches_it_is_told(void **state)
{
    const struct tell tell = {.signal = SIGRTMIN + 5};
    struct sigaction action = {.sa_handler = on_signal};
    pid_t child = fork();
    struct err err;
    int status;

    (void)state;
    if (child == 0) {
        for (;;)
            pause();
    }
    assert_int_equal(tell_by_signal(&tell, child, &err), -1);
    assert_contains(err.text, "does not catch SIGRTMIN+5, which --ask-signal sends to started");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(tell_by_signal(&tell, child, &err), -1);
    assert_int_equal(sigaction(tell.signal, &action, NULL), 0);
    assert_int_equal(tell_by_signal(&tell, getpid(), &err), 0);
    assert_int_equal(came, tell.signal);
}

/* ---- set aside ---- */

static struct saved_files found(const char *patterns)
{
    struct saved_files files;

    saved_files_find(patterns, &(struct timespec){1, 0}, &files);
    return files;
}

/* The last save replaces the one before, whole; it can be given more than once. */
static void a_save_is_set_aside_and_given(void **state)
{
    struct aside aside = {.there = false};
    struct saved_files files;
    struct err err = {0};

    (void)state;
    assert_int_equal(mkdir("work", 0700), 0);
    assert_int_equal(mkdir("s", 0700), 0);
    put_file("s/a", "one");
    put_file("s/b", "b");
    files = found("s");
    assert_int_equal(aside_take("work", &files, 7, &aside, &err), 0);
    assert_true(aside.there && !aside.empty && aside.at_ms > 0);
    assert_int_equal(aside.bytes, 4);
    saved_files_free(&files);
    put_file("s/a", "two!");
    assert_int_equal(unlink("s/b"), 0);
    holds_text("work/ckpt-run.aside/files/s/a", "one");
    files = found("s");
    assert_int_equal(aside_take("work", &files, 7, &aside, &err), 0);
    saved_files_free(&files);
    holds_text("work/ckpt-run.aside/files/s/a", "two!");
    assert_int_equal(access("work/ckpt-run.aside/files/s/b", F_OK), -1);
    for (int i = 0; i < 2; i++) {
        const char *const to = i == 0 ? "first" : "second";
        char name[32];

        assert_int_equal(mkdir(to, 0700), 0);
        assert_int_equal(aside_give("work", &aside, to, &err), 0);
        snprintf(name, sizeof(name), "%s/s/a", to);
        holds_text(name, "two!");
    }
    aside_drop("work", &aside);
    assert_false(aside.there);
    assert_int_equal(rmdir("work"), 0);
}

/* It stays when the next one cannot be taken. */
static void the_save_before_stays_when_one_fails(void **state)
{
    struct aside aside = {.there = false};
    struct saved_files files;
    struct err err = {0};

    (void)state;
    assert_int_equal(mkdir("work", 0700), 0);
    put_file("a", "one");
    files = found("a");
    assert_int_equal(aside_take("work", &files, 7, &aside, &err), 0);
    assert_int_equal(unlink("a"), 0); /* it goes while it is copied */
    assert_int_equal(aside_take("work", &files, 7, &aside, &err), -1);
    assert_contains(err.text, "copy a to work/ckpt-run.aside.new/files/a");
    saved_files_free(&files);
    assert_true(aside.there);
    holds_text("work/ckpt-run.aside/files/a", "one");
    assert_int_equal(access("work/ckpt-run.aside.new", F_OK), -1);
    assert_int_equal(aside_take("work", NULL, 7, &aside, &err), 0);
    assert_true(aside.there && aside.empty);
}

/* The next start finds it, also one that was killed between two names, and no other job does. */
static void a_save_set_aside_is_found_by_the_next_start_of_the_job_alone(void **state)
{
    struct aside aside = {.there = false}, again = {.there = false};
    struct saved_files files;
    struct err err = {0};

    (void)state;
    assert_int_equal(setenv("CKPT_ALLOCATION_ID", "mine", 1), 0);
    assert_int_equal(mkdir("work", 0700) | mkdir("s", 0700), 0);
    assert_false(aside_find("work", &again));
    put_file("s/a", "one");
    files = found("s");
    assert_int_equal(aside_take("work", &files, 7, &aside, &err), 0);
    saved_files_free(&files);
    put_file("s/a", "torn");
    for (int i = 0; i < 2; i++) {
        again = (struct aside){.there = false};
        assert_true(aside_find("work", &again));
        assert_true(again.there && !again.empty);
        assert_int_equal(again.at_ms, aside.at_ms);
        assert_int_equal(again.bytes, 3);
        assert_int_equal(again.newest, 7);
        assert_int_equal(rename("work/ckpt-run.aside", "work/ckpt-run.aside.new"), 0);
    }
    assert_int_equal(setenv("CKPT_ALLOCATION_ID", "other", 1), 0);
    assert_false(aside_find("work", &again));
    assert_int_equal(setenv("CKPT_ALLOCATION_ID", "mine", 1), 0);
    assert_int_equal(chdir("s"), 0);
    assert_false(aside_find("../work", &again));
    assert_int_equal(chdir(".."), 0);
    assert_true(aside_find("work", &again));
    assert_int_equal(aside_bring_back("work", &(struct saved_names){.files = "s"}, &err), 0);
    holds_text("s/a", "one");
    assert_int_equal(truncate("work/ckpt-run.aside/note", 9), 0);
    assert_false(aside_find("work", &again));
    aside_drop("work", &again);
    assert_int_equal(unsetenv("CKPT_ALLOCATION_ID"), 0);
}

/* I22: one that was asked before its end is not asked again after its next start. */
static void a_question_of_before_is_dropped_and_its_checkpoint_known(void **state)
{
    struct question question;
    uint64_t newest = checkpoint_id_make(1, 5);

    (void)state;
    assert_int_equal(mkdir("work", 0700), 0);
    question_drop("work");
    put_file("work/request", "hint=1-42-1\ndirectory=/x\n");
    assert_true(question_read("work", &question));
    question_newest(question.hint, &newest);
    assert_int_equal(newest, checkpoint_id_make(1, 42));
    question_newest("1-41-3", &newest);
    question_newest("odd", &newest);
    question_newest("", &newest);
    assert_int_equal(newest, checkpoint_id_make(1, 42));
    question_drop("work");
    assert_false(question_read("work", &question));
}

/* Files of ckpt-run itself, and the job's own output, come back with no checkpoint. */
static void work_folder_and_output_are_left_out(void **state)
{
    struct saved_files files;
    int log, folder;

    (void)state;
    assert_int_equal(mkdir("work", 0700), 0);
    put_file("work/request", "x");
    put_file("log", "x");
    put_file("state", "x");
    log = open("log", O_WRONLY);
    folder = open("work", O_RDONLY);
    saved_path_leave_out(log);
    saved_path_leave_out(folder);
    files = found("*");
    assert_int_equal(files.count, 1);
    assert_string_equal(files.paths[0], "state");
    assert_true(files.newer);
    saved_files_free(&files);
    files = found("state none");
    assert_string_equal(files.unmatched, "none");
    saved_files_free(&files);
    close(log);
    close(folder);
}

/* ---- questions and signs ---- */

static void a_question_is_read_and_answered(void **state)
{
    const struct sentinel answer = {
        .hint = "1-42-3", .bytes = 5, .status = "0", .saved_at_ms = 77, .label = "100"};
    struct question question;

    (void)state;
    assert_false(question_read(".", &question));
    put_file("request", "hint=1-42-3\ndirectory='/tmp/a b'\ndeadline_ms=123\nranks=\n");
    assert_true(question_read(".", &question));
    assert_string_equal(question.hint, "1-42-3");
    assert_string_equal(question.directory, "/tmp/a b");
    assert_int_equal(question.deadline_ms, 123);
    assert_int_equal(question_answer(".", &answer), 0);
    holds_text("done", "hint=1-42-3\nbytes=5\nstatus=0\nstep=100\nsaved_at=77\n");
    assert_true(question_same_checkpoint("1-42-3", "1-42-4"));
    assert_false(question_same_checkpoint("1-42-3", "1-43-3"));
    assert_false(question_same_checkpoint("1-4-2", "1-42-2"));
    assert_false(question_same_checkpoint("", "1-42-2"));
}

/* A line counts when it has come to its end, in however many pieces; all of it goes on. */
static void a_printed_line_is_a_sign(void **state)
{
    int own = dup(STDOUT_FILENO), to;
    char text[64] = "";
    bool before, half, whole, again;

    (void)state;
    assert_int_equal(fflush(stdout), 0);
    to = open("out", O_RDWR | O_CREAT, 0600);
    assert_int_equal(dup2(to, STDOUT_FILENO), STDOUT_FILENO);
    output_line_open("checkpoint saved");
    if (fork() == 0) {
        output_line_become();
        (void)!write(STDOUT_FILENO, "step 1\ncheckpoint", 17);
        usleep(100000);
        (void)!write(STDOUT_FILENO, " saved\n", 7);
        _exit(0);
    }
    output_line_begun();
    before = output_line_seen();
    output_line_wait(output_line_now_ms() + 50, NULL, 0);
    half = output_line_seen();
    assert_true(wait(NULL) > 0);
    output_line_drain();
    whole = output_line_seen();
    output_line_forget();
    again = output_line_seen();
    assert_int_equal(dup2(own, STDOUT_FILENO), STDOUT_FILENO);
    assert_true(!before && !half && whole && !again);
    assert_int_equal(pread(to, text, sizeof(text) - 1, 0), 24);
    assert_string_equal(text, "step 1\ncheckpoint saved\n");
    close(own);
    close(to);
}

static void a_tracker_is_a_sign_and_has_the_step(void **state)
{
    char label[LABEL_MAX_BYTES + 1];
    struct stat stat_of;

    (void)state;
    assert_false(tracker_newer("latest", &(struct timespec){1, 0}));
    put_file("latest", "0000100\n");
    assert_int_equal(stat("latest", &stat_of), 0);
    assert_true(tracker_newer("latest", &(struct timespec){1, 0}));
    assert_false(tracker_newer("latest", &stat_of.st_mtim));
    tracker_label("latest", label);
    assert_string_equal(label, "0000100");
    put_file("latest", "no label: ");
    tracker_label("latest", label);
    assert_string_equal(label, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_a_save_or_that_of_the_job),
        cmocka_unit_test_setup_teardown(a_file_that_says_complete_is_newer_than_the_start, set_up,
                                        tear_down),
        cmocka_unit_test(options_that_do_not_go_together_are_named),
        cmocka_unit_test(a_value_that_is_too_long_is_named),
        cmocka_unit_test(its_words_say_the_options),
        cmocka_unit_test(attributes_become_options),
        cmocka_unit_test(attributes_that_were_told_once_stay),
        cmocka_unit_test(any_signal_has_a_name),
        cmocka_unit_test(whom_it_goes_to_has_a_word),
        cmocka_unit_test(only_a_program_that_catches_it_is_told),
        cmocka_unit_test_setup_teardown(a_save_is_set_aside_and_given, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_save_before_stays_when_one_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_question_of_before_is_dropped_and_its_checkpoint_known,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_save_set_aside_is_found_by_the_next_start_of_the_job_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(work_folder_and_output_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_question_is_read_and_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_printed_line_is_a_sign, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tracker_is_a_sign_and_has_the_step, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
