/* The files that a program saves its state in, by patterns: which count as newer, and how they come
 * back. */
#include "src/agent/run/run_saved_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/run/run_saved_links.h"
#include "src/agent/run/run_saved_paths.h"
#include "src/agent/run/run_stand_in.h"
#include "tests/support/test.h"

static const struct saved_names all_state = {.files = "*"};
static char root[64];

static void put_file(const char *name, const char *text, time_t seconds)
{
    const struct timespec times[2] = {{seconds, 0}, {seconds, 500}};
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-saved-XXXXXX");
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

static struct saved_files found(const char *patterns, time_t seconds, long nanoseconds)
{
    struct saved_files files;

    saved_files_find(patterns, &(struct timespec){seconds, nanoseconds}, &files);
    return files;
}

/* Newer than the file that told, and not of the same instant; each pattern by itself. */
static void each_pattern_needs_a_newer_file(void **state)
{
    struct saved_files files;

    (void)state;
    put_file("WAVECAR", "123", 1000);
    put_file("CHGCAR", "45", 2000);
    files = found("CHGCAR  WAVECAR", 1500, 0);
    assert_string_equal(files.missing, "WAVECAR");
    saved_files_free(&files);
    files = found("CHGCAR WAVECAR", 1000, 500);
    assert_string_equal(files.missing, "WAVECAR");
    saved_files_free(&files);
    files = found(" CHGCAR WAVECAR ", 1000, 499);
    assert_string_equal(files.missing, "");
    assert_int_equal(files.count, 2);
    assert_int_equal(files.bytes, 5);
    saved_files_free(&files);
    files = found("CHGCAR none*", 1, 0);
    assert_string_equal(files.missing, "none*");
    saved_files_free(&files);
}

/* One newer file of a folder is enough, and all of it is saved. */
static void a_folder_stands_for_all_below_it(void **state)
{
    struct saved_files files;
    uint64_t sum;

    (void)state;
    assert_int_equal(mkdir("out", 0700), 0);
    assert_int_equal(mkdir("out/prefix.save", 0700), 0);
    put_file("out/prefix.save/old", "1", 1000);
    put_file("out/prefix.save/new", "22", 3000);
    files = found("out/*.save", 2000, 0);
    assert_string_equal(files.missing, "");
    assert_string_equal(files.refused, "");
    assert_int_equal(files.count, 2);
    assert_int_equal(files.bytes, 3);
    sum = files.sum;
    saved_files_free(&files);
    put_file("out/prefix.save/old", "1", 1001);
    files = found("out/*.save", 2000, 0);
    assert_true(files.sum != sum);
    saved_files_free(&files);
}

/* A checkpoint without some of them would be complete, and wrong. */
static void what_cannot_be_saved_is_named(void **state)
{
    struct saved_files files;
    char name[32];

    (void)state;
    assert_int_equal(mkdir("S", 0700), 0);
    put_file("S/a", "1", 3000);
    assert_int_equal(symlink("/etc/passwd", "S/link"), 0);
    files = found("S/link", 2000, 0);
    assert_string_equal(files.refused, "");
    assert_string_equal(files.unmatched, "S/link"); /* it is not what it leads to */
    saved_files_free(&files);
    assert_int_equal(unlink("S/link"), 0);
    for (int i = 1; i < SAVED_FILES_MAX; i++) {
        snprintf(name, sizeof(name), "S/%d", i);
        put_file(name, "", 3000);
    }
    files = found("S", 2000, 0);
    assert_string_equal(files.refused, "");
    assert_int_equal(files.count, SAVED_FILES_MAX);
    saved_files_free(&files);
    put_file("S/b", "1", 3000);
    files = found("S", 2000, 0);
    assert_non_null(strstr(files.refused, "more than 4096 files"));
    saved_files_free(&files);
}

static void a_file_of_two_patterns_counts_once(void **state)
{
    struct saved_files files;

    (void)state;
    put_file("a.x", "123", 3000);
    files = found("a* *.x", 2000, 0);
    assert_string_equal(files.missing, "");
    assert_int_equal(files.count, 1);
    assert_int_equal(files.bytes, 3);
    saved_files_free(&files);
}

static void files_go_and_come_back_under_their_names(void **state)
{
    struct saved_files files;
    struct err err = {0};
    char text[8] = "";
    FILE *file;

    (void)state;
    assert_int_equal(mkdir("a", 0700), 0);
    assert_int_equal(mkdir("there", 0700), 0);
    put_file("a/state", "123", 1000);
    put_file("top", "4", 1000);
    files = found("a top", 1, 0);
    assert_int_equal(saved_files_copy(&files, "there", &err), 0);
    put_file("a/state", "later", 2000);
    assert_int_equal(unlink("top"), 0);
    assert_int_equal(saved_files_bring_back("there", &all_state, &err), 0);
    file = fopen("a/state", "r");
    assert_int_equal(fread(text, 1, sizeof(text) - 1, file), 3);
    fclose(file);
    assert_string_equal(text, "123");
    assert_int_equal(access("top", F_OK), 0);
    assert_int_equal(access("top.ckpt-new", F_OK), -1);
    assert_int_equal(saved_files_bring_back("nowhere", &all_state, &err), -1);
    assert_contains(err.text, "nowhere");
    assert_int_equal(chmod("there", 0500), 0);
    saved_files_free(&files);
}

static void assert_text(const char *name, const char *expected)
{
    char text[32] = "";
    FILE *file = fopen(name, "r");

    assert_non_null(file);
    assert_in_range(fread(text, 1, sizeof(text) - 1, file), 0, sizeof(text) - 1);
    fclose(file);
    assert_string_equal(text, expected);
}

/* Files to which a program appends are saved where they are there, whatever their age. S1-030. */
static void outputs_are_saved_beside_the_state(void **state)
{
    struct saved_files files;
    uint64_t sum;

    (void)state;
    put_file("s.cpt", "123", 3000);
    put_file("md.log", "old", 1000);
    assert_int_equal(symlink("/etc/passwd", "link.log"), 0);
    files = found("*.cpt", 2000, 0);
    sum = files.sum;
    saved_files_add_outputs("*.log *.xtc s.*", &files);
    assert_int_equal(files.count, 2);
    assert_int_equal(files.bytes, 6);
    assert_true(files.sum == sum); /* one that is being written is not waited for */
    assert_string_equal(files.unmatched, "");
    assert_string_equal(files.missing, "");
    assert_string_equal(files.refused, "");
    saved_files_free(&files);
}

/* One that has grown since is the program's own; one that is missing, or is another, is not what it
 * goes on from. A file of both lists is state. */
static void an_output_comes_back_where_it_is_not_there(void **state)
{
    static const struct saved_names names = {.files = "*.cpt", .outputs = "* b"};
    struct saved_files files;
    struct err err = {0};

    (void)state;
    assert_int_equal(mkdir("b", 0700), 0);
    assert_int_equal(mkdir("there", 0700), 0);
    put_file("s.cpt", "123", 3000);
    put_file("grown.log", "abc", 1000);
    put_file("shorter.log", "abc", 1000);
    put_file("other.log", "abc", 1000);
    put_file("gone.log", "abc", 1000);
    put_file("b/below.log", "abc", 1000);
    files = found("*.cpt", 2000, 0);
    saved_files_add_outputs("*.log b", &files);
    assert_int_equal(files.count, 6);
    assert_int_equal(saved_files_copy(&files, "there", &err), 0);
    saved_files_free(&files);
    put_file("s.cpt", "1234", 3000);
    put_file("grown.log", "abcd", 4000);
    put_file("shorter.log", "ab", 4000);
    put_file("other.log", "aXcd", 4000);
    put_file("b/below.log", "abcd", 4000);
    assert_int_equal(unlink("gone.log"), 0);
    assert_int_equal(saved_files_bring_back("there", &names, &err), 0);
    assert_text("s.cpt", "123");
    assert_text("grown.log", "abcd");
    assert_text("shorter.log", "abc");
    assert_text("other.log", "abc");
    assert_text("gone.log", "abc");
    assert_text("b/below.log", "abcd");
}

static void expect_link(const char *name, const char *text)
{
    char found[256] = "";

    assert_true(readlink(name, found, sizeof(found) - 1) > 0);
    assert_string_equal(found, text);
}

/* V-017: a virtual environment and links to data come back as they were, and hold up no save. */
static void links_come_back_as_links_and_are_not_followed(void **state)
{
    static const char *const links[][2] = {{"S/python", "/usr/bin/python3"},
                                           {"S/data", "../../elsewhere"},
                                           {"S/last", "a"},
                                           {"S/nowhere", "/no/such\nplace"}};
    struct saved_files files;
    struct err err = {0};
    char why[256];

    (void)state;
    assert_int_equal(mkdir("S", 0700) | mkdir("there", 0700), 0);
    put_file("S/a", "1", 3000);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        assert_int_equal(symlink(links[i][1], links[i][0]), 0);
    files = found("S", 2000, 0);
    assert_string_equal(files.refused, "");
    assert_int_equal(files.count, 1);
    assert_int_equal(files.link_count, 4);
    saved_links_judge(&files, &(struct timespec){4000000000, 0}, why, sizeof(why));
    assert_string_equal(why, "");
    assert_int_equal(saved_files_copy(&files, "there", &err), 0);
    saved_files_free(&files);
    expect_link("there/S/last", "a");
    assert_int_equal(access("there/S/python", F_OK), -1);
    assert_int_equal(unlink("S/python") | unlink("S/last") | unlink("S/data"), 0);
    put_file("S/last", "a file now", 3000);
    assert_int_equal(symlink("/elsewhere", "S/data"), 0);
    assert_int_equal(saved_files_bring_back("there", &(struct saved_names){.files = "S"}, &err), 0);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        expect_link(links[i][0], links[i][1]);
    assert_int_equal(access(SAVED_LINKS_NAME, F_OK), -1);
    put_file("there/" SAVED_LINKS_NAME, "../up", 3000);
    assert_int_equal(saved_files_bring_back("there", &(struct saved_names){.files = "S"}, &err),
                     -1);
    assert_contains(err.text, SAVED_LINKS_NAME " of the checkpoint is none");
}

/* It would come back to older files beside newer ones. */
static void a_save_behind_a_link_is_refused_by_name(void **state)
{
    struct saved_files files;
    char why[201];

    (void)state;
    assert_int_equal(mkdir("S", 0700) | mkdir("S/in", 0700) | mkdir("out", 0700), 0);
    put_file("out/state", "1", 3000);
    put_file("S/in/state", "1", 3000);
    assert_int_equal(chdir("S"), 0);
    assert_int_equal(symlink("../out", "o") | symlink("in", "i"), 0);
    files = found("*", 2000, 0);
    saved_links_judge(&files, &(struct timespec){2000, 0}, why, sizeof(why));
    assert_contains(why, "link o: ");
    assert_contains(why, "/out/state behind it was written");
    assert_contains(why, "--checkpoint-files)");
    saved_links_judge(&files, &(struct timespec){3000, 500}, why, sizeof(why));
    assert_string_equal(why, "");
    saved_files_free(&files);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(symlink("S", "whole"), 0);
    files = found("whole", 2000, 0); /* inside, under its own name */
    assert_int_equal(files.link_count, 1);
    saved_links_judge(&files, &(struct timespec){2000, 0}, why, sizeof(why));
    assert_string_equal(why, "");
    saved_files_free(&files);
}

static void a_copy_that_cannot_be_written_is_an_error(void **state)
{
    struct saved_files files;
    struct err err = {0};

    (void)state;
    put_file("state", "123", 1000);
    files = found("state", 1, 0);
    assert_int_equal(saved_files_copy(&files, "state/no/folder", &err), -1);
    assert_contains(err.text, "copy state to state/no/folder/state");
    saved_files_free(&files);
}

/* Neither found, nor brought back from a checkpoint that has it. */
static void a_folder_that_is_left_out_is_neither_saved_nor_written(void **state)
{
    struct saved_files files;
    struct err err = {0};
    char text[8] = "";
    int own, file;

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("d/standalone", 0700), 0);
    assert_int_equal(mkdir("old", 0700), 0);
    put_file("d/.ckpt-run.lock", "own", 3000);
    put_file("d/standalone/MANIFEST", "1", 3000);
    put_file("top", "4", 3000);
    files = found("*", 1, 0); /* of a release that did not leave it out */
    assert_int_equal(saved_files_copy(&files, "old", &err), 0);
    saved_files_free(&files);
    own = open("d", O_PATH | O_CLOEXEC);
    saved_path_leave_out(own);
    files = found("* d/* */*/MANIFEST", 1, 0);
    for (size_t i = 0; i < files.count; i++)
        assert_int_not_equal(strncmp(files.paths[i], "d/", 2), 0);
    saved_files_free(&files);
    put_file("d/.ckpt-run.lock", "new", 4000);
    assert_int_equal(unlink("d/standalone/MANIFEST"), 0);
    assert_int_equal(saved_files_bring_back("old", &all_state, &err), 0);
    assert_int_equal(access("d/standalone/MANIFEST", F_OK), -1);
    assert_int_equal(access("top", F_OK), 0);
    file = open("d/.ckpt-run.lock", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(file, text, sizeof(text)), 3);
    assert_string_equal(text, "new");
    close(file);
    close(own);
}

/* A command with a stand-in names its program; another one itself. */
static void the_program_of_a_command_is_found(void **state)
{
    char *const plain[] = {(char *)(uintptr_t) "vasp", NULL};
    const struct stand_in stand_in = {.file = "STOPCAR", .files = "CHGCAR"};
    char **words = stand_in_command(&stand_in, plain);

    (void)state;
    assert_string_equal(stand_in_program(words), "vasp");
    assert_string_equal(stand_in_program(plain), "vasp");
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_pattern_needs_a_newer_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_stands_for_all_below_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_saved_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_two_patterns_counts_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_go_and_come_back_under_their_names, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(outputs_are_saved_beside_the_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_output_comes_back_where_it_is_not_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(links_come_back_as_links_and_are_not_followed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_save_behind_a_link_is_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_that_cannot_be_written_is_an_error, set_up,
                                        tear_down),
        cmocka_unit_test(the_program_of_a_command_is_found),
        cmocka_unit_test_setup_teardown(a_folder_that_is_left_out_is_neither_saved_nor_written,
                                        set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
