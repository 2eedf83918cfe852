/* The owners of a target and of a checkpoint: another cluster's files stay, and what is left of an
 * earlier epoch of the own one writes and removes nothing. By the command line of ckpt-worker. */
#include "src/dest/mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)
#define AT_N1     "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"
#define PROD      "00000000000000a1"
#define OTHER     "00000000000000b2"
#define ANN       20001

static int put_as(struct folders *folders, const char *claim)
{
    return VERB("put", AT_N1, "--source", folders->source, "--cluster", claim);
}

static int probe_as(struct folders *folders, const char *claim)
{
    return VERB("probe", "--prefix", folders->prefix, "--cluster", claim, "--cluster-id", "prod");
}

static int collect_as(struct folders *folders, const char *claim)
{
    return VERB("collect", "--prefix", folders->prefix, "--path", folders->path, "--cluster", claim,
                "--cluster-id", "prod");
}

static void write_note(struct folders *folders, const char *mark, const char *text)
{
    char name[64];

    snprintf(name, sizeof(name), MARK_NAME "%s", mark);
    write_text(folders->prefix, name, text);
}

static uint64_t note_epoch(const struct folders *folders)
{
    char path[256], text[MARK_NOTE_MAX_BYTES] = "";
    struct mark_note note;
    FILE *file;

    snprintf(path, sizeof(path), "%s/" MARK_NAME PROD, folders->prefix);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    mark_note_read(text, fread(text, 1, sizeof(text), file), &note);
    fclose(file);
    return note.epoch;
}

static void expect_refused(const struct folders *folders, int exit_code, const char *one,
                           const char *two)
{
    assert_int_equal(exit_code, WORKER_EXIT_REFUSED);
    assert_value(folders, "cause", "storage_denied");
    assert_contains(folders->errors, one);
    assert_contains(folders->errors, two);
}

/* ---- texts ---- */

static void claims_are_a_mark_with_or_without_an_epoch(void **state)
{
    static const char *const wrong[] = {"",
                                        "a1",
                                        PROD "@",
                                        PROD "@0",
                                        PROD "@01",
                                        PROD "@1 ",
                                        PROD "@-1",
                                        PROD "@1@2",
                                        "@1",
                                        PROD "x",
                                        "0000000000000000@1",
                                        PROD "@99999999999999999999"};
    struct mark_claim claim;
    char text[MARK_CLAIM_BYTES];

    (void)state;
    assert_true(mark_claim_parse(PROD, &claim));
    assert_uint_equal(claim.epoch, 0);
    assert_true(mark_claim_parse(mark_claim_format(0xa1, 17, text), &claim));
    assert_string_equal(claim.mark, PROD);
    assert_uint_equal(claim.epoch, 17);
    assert_string_equal(mark_claim_format(0xa1, 0, text), PROD);
    assert_true(
        mark_claim_parse(mark_claim_format(UINT64_MAX, 9999999999999999999u, text), &claim));
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        if (mark_claim_parse(wrong[i], &claim))
            fail_msg("\"%s\" is a claim", wrong[i]);
}

static void a_note_that_cannot_be_read_is_of_no_epoch(void **state)
{
    static const char *const texts[] = {"",       "\n\n",      "epoch",
                                        "epoch=", "epoch=x\n", "epoch=-1\n",
                                        "=\n=\n", "x=1",       "epoch=1x\nepoch=\n"};
    struct mark_note note;
    struct buf text = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        mark_note_read(texts[i], strlen(texts[i]), &note);
        assert_uint_equal(note.epoch, 0);
    }
    mark_note_read("later=key\nepoch=3\ncluster=pr\x01od\n", 31, &note);
    assert_uint_equal(note.epoch, 3);
    assert_string_equal(note.cluster, "prod");
    mark_note_write(&(struct mark_claim){PROD, 8}, "prod", &text);
    mark_note_read((const char *)text.bytes, text.length, &note);
    buf_close(&text);
    assert_uint_equal(note.epoch, 8);
    assert_string_equal(note.cluster, "prod");
    assert_true(note.host[0] != '\0' && note.time[0] == '2');
}

/* ---- the target ---- */

/* An old member, its agents, or an old copy: each verb that writes or removes. */
static void a_lower_epoch_writes_and_removes_nothing(void **state)
{
    struct folders *folders = *state;
    char all[256];

    snprintf(all, sizeof(all), "%s/t/p/a/checkpoints", folders->prefix);
    assert_int_equal(probe_as(folders, PROD "@6"), WORKER_EXIT_OK);
    assert_uint_equal(note_epoch(folders), 6);
    assert_int_equal(put_as(folders, PROD "@6"), WORKER_EXIT_OK);
    expect_refused(folders, probe_as(folders, PROD "@5"), "epoch 6 of cluster prod",
                   "this is epoch 5");
    assert_contains(folders->errors, MARK_NAME PROD);
    expect_refused(folders, collect_as(folders, PROD "@5"), "epoch 6", "epoch 5");
    expect_refused(folders, put_as(folders, PROD "@5"), "epoch 6", "epoch 5");
    expect_refused(folders, VERB("stage", AT_N1, "--cluster", PROD "@5"), "epoch 6", "epoch 5");
    expect_refused(
        folders,
        VERB("publish", AT_N1, "--name", ".n1.tmp.0123456789abcdef", "--cluster", PROD "@5"),
        "epoch 6", "epoch 5");
    expect_refused(folders, VERB("abandon", AT_N1, "--cluster", PROD "@5"), "epoch 6", "epoch 5");
    expect_refused(
        folders,
        VERB("prepare", "--prefix", folders->prefix, "--path", all, "--cluster", PROD "@5"),
        "epoch 6", "epoch 5");
    assert_uint_equal(note_epoch(folders), 6);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
}

static void a_higher_epoch_takes_the_target(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(probe_as(folders, PROD "@6"), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, PROD "@7"), WORKER_EXIT_OK); /* an agent is ahead of a probe */
    assert_uint_equal(note_epoch(folders), 6);
    assert_int_equal(probe_as(folders, PROD "@7"), WORKER_EXIT_OK);
    assert_uint_equal(note_epoch(folders), 7);
    expect_refused(folders, put_as(folders, PROD "@6"), "epoch 7", "epoch 6");
    assert_int_equal(collect_as(folders, PROD "@8"), WORKER_EXIT_OK);
    assert_value(folders, "removed", "1");
    assert_uint_equal(note_epoch(folders), 8);
    expect_refused(folders, probe_as(folders, PROD "@7"), "epoch 8", "epoch 7");
    assert_uint_equal(count_hidden(folders->prefix), 1); /* the note, and nothing of its making */
}

/* The next step that the refusal names. */
static void without_its_note_a_target_is_anybody_s(void **state)
{
    struct folders *folders = *state;
    char path[256];

    assert_int_equal(probe_as(folders, PROD "@9"), WORKER_EXIT_OK);
    expect_refused(folders, put_as(folders, PROD "@5"), "epoch 9", "epoch 5");
    snprintf(path, sizeof(path), "%s/" MARK_NAME PROD, folders->prefix);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(probe_as(folders, PROD "@5"), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, PROD "@5"), WORKER_EXIT_OK);
}

static void a_note_without_an_epoch_is_of_epoch_0(void **state)
{
    struct folders *folders = *state;

    write_note(folders, PROD, "");
    assert_int_equal(put_as(folders, PROD "@1"), WORKER_EXIT_OK);
    assert_int_equal(probe_as(folders, PROD "@1"), WORKER_EXIT_OK);
    assert_uint_equal(note_epoch(folders), 1);
    assert_int_equal(put_as(folders, PROD), WORKER_EXIT_OK); /* of a version without epochs */
}

static void a_note_that_is_no_file_is_never_followed(void **state)
{
    struct folders *folders = *state;
    char path[256];

    snprintf(path, sizeof(path), "%s/" MARK_NAME PROD, folders->prefix);
    write_text(folders->root, "elsewhere", "epoch=9\n");
    assert_int_equal(symlink("../elsewhere", path), 0);
    assert_int_equal(put_as(folders, PROD "@5"), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(put_as(folders, PROD "@5"), WORKER_EXIT_OK); /* and nothing waits for it */
}

/* ---- the checkpoint ---- */

/* A copy of production under an id of its own knows all of production's checkpoints. */
static void what_another_cluster_wrote_stays(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(probe_as(folders, PROD "@3"), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, PROD "@3"), WORKER_EXIT_OK);
    expect_refused(folders,
                   VERB("collect", "--prefix", folders->prefix, "--path", folders->path,
                        "--cluster", OTHER "@9"),
                   "has the mark " PROD " of another cluster (prod, epoch 3)", "this one's " OTHER);
    expect_refused(folders, put_as(folders, OTHER "@9"), PROD, OTHER);
    expect_refused(folders, put_as(folders, OTHER), PROD, OTHER);
    expect_refused(folders, VERB("stage", AT_N1, "--cluster", OTHER "@9"), PROD, OTHER);
    expect_refused(folders, VERB("abandon", AT_N1, "--cluster", OTHER "@9"), PROD, OTHER);
    expect_refused(
        folders,
        VERB("publish", AT_N1, "--name", ".n1.tmp.0123456789abcdef", "--cluster", OTHER "@9"), PROD,
        OTHER);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_uint_equal(count_hidden(folders->path), 1); /* production's mark, and no other */
    assert_int_equal(put_as(folders, PROD "@3"), WORKER_EXIT_OK);
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_OK); /* by hand, as the refusal says */
    assert_false(exists(folders->path, ""));
}

static void a_checkpoint_with_two_marks_or_none(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(collect_as(folders, PROD "@3"),
                     WORKER_EXIT_OK); /* of before there were marks */
    assert_value(folders, "removed", "1");
    assert_int_equal(put_as(folders, PROD "@3"), WORKER_EXIT_OK);
    write_text(folders->path, MARK_NAME OTHER, "");
    expect_refused(folders, collect_as(folders, PROD "@3"), PROD, OTHER);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
}

static void two_clusters_share_a_folder(void **state)
{
    struct folders *folders = *state;
    char theirs[256];

    snprintf(theirs, sizeof(theirs), "%s/u/p/b/checkpoints/1-42", folders->prefix);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(probe_as(folders, PROD "@3"), WORKER_EXIT_OK);
        assert_int_equal(probe_as(folders, OTHER "@1"), WORKER_EXIT_OK);
    }
    assert_int_equal(put_as(folders, PROD "@3"), WORKER_EXIT_OK);
    assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", theirs, "--part", "n1",
                          "--source", folders->source, "--cluster", OTHER "@1"),
                     WORKER_EXIT_OK);
    assert_int_equal(collect_as(folders, PROD "@3"), WORKER_EXIT_OK);
    assert_true(exists(theirs, "n1/MANIFEST"));
}

/* ---- users ---- */

/* In a folder of its own, where root begins and the user goes on. */
static int run_as_ann(struct folders *folders, const char *claim)
{
    char out[4096], errors[1024];
    int status, ends[2];
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        int code = VERB("put", AT_N1, "--source", folders->source, "--cluster", claim, "--as",
                        "20001:20001");
        (void)!write(ends[1], folders->errors, sizeof(errors));
        (void)!write(ends[1], folders->out, sizeof(out));
        _exit(code);
    }
    assert_int_equal(read(ends[0], folders->errors, sizeof(errors)), sizeof(errors));
    assert_int_equal(read(ends[0], folders->out, sizeof(out)), sizeof(out));
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void a_user_cannot_keep_a_cluster_from_its_target(void **state)
{
    struct folders *folders = *state;
    char path[256];

    if (geteuid() != 0) {
        print_message("# SKIP several users need root\n");
        skip();
    }
    assert_int_equal(chmod(folders->root, 0755), 0);
    assert_int_equal(chmod(folders->prefix, 01777), 0);
    write_note(folders, PROD, "cluster=prod\nepoch=999\n");
    snprintf(path, sizeof(path), "%s/" MARK_NAME PROD, folders->prefix);
    assert_int_equal(chown(path, ANN, ANN), 0);
    assert_int_equal(probe_as(folders, PROD "@5"), WORKER_EXIT_OK);
    assert_uint_equal(note_epoch(folders), 5);
    assert_int_equal(run_as_ann(folders, PROD "@5"), WORKER_EXIT_OK);
    expect_refused(folders, run_as_ann(folders, PROD "@4"), "epoch 5", "epoch 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_a_mark_with_or_without_an_epoch),
        cmocka_unit_test(a_note_that_cannot_be_read_is_of_no_epoch),
#define ON_DISK(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
        ON_DISK(a_lower_epoch_writes_and_removes_nothing),
        ON_DISK(a_higher_epoch_takes_the_target),
        ON_DISK(without_its_note_a_target_is_anybody_s),
        ON_DISK(a_note_without_an_epoch_is_of_epoch_0),
        ON_DISK(a_note_that_is_no_file_is_never_followed),
        ON_DISK(what_another_cluster_wrote_stays),
        ON_DISK(a_checkpoint_with_two_marks_or_none),
        ON_DISK(two_clusters_share_a_folder),
        ON_DISK(a_user_cannot_keep_a_cluster_from_its_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
