/* A node's own copy: the work folder's files and their MANIFEST, moved aside in one rename. */
#include "src/dest/retain.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

/* Beside the source of folders.h; texts of one test. */
struct kept {
    struct folders *folders;
    char manifest[256], folder[256];
};

/* A put has left its MANIFEST, as before each retain. */
static struct kept kept_begin(struct folders *folders)
{
    struct kept kept = {.folders = folders};

    snprintf(kept.manifest, sizeof(kept.manifest), "%s/left", folders->root);
    snprintf(kept.folder, sizeof(kept.folder), "%s/copies/1-42", folders->root);
    assert_int_equal(verb(folders, "put", "--prefix", folders->prefix, "--path", folders->path,
                          "--part", "n1", "--source", folders->source, "--manifest-to",
                          kept.manifest, NULL),
                     0);
    return kept;
}

static int keep(const struct kept *kept, uint64_t keep_free_bytes, struct err *err)
{
    return retain_copy(&(struct retain_request){.source = kept->folders->source,
                                                .manifest = kept->manifest,
                                                .folder = kept->folder,
                                                .part = "n1",
                                                .keep_free_bytes = keep_free_bytes},
                       err);
}

static bool is_whole(const struct kept *kept)
{
    return verb(kept->folders, "verify", "--path", kept->folder, "--part", "n1", NULL) == 0;
}

static void a_copy_is_a_shard_and_takes_the_files_with_it(void **state)
{
    struct kept kept = kept_begin(*state);

    assert_int_equal(keep(&kept, 0, NULL), 0);
    assert_true(is_whole(&kept));
    assert_false(exists(kept.folders->root, "src"));
    assert_false(exists(kept.folders->root, "left"));
    assert_int_equal(keep(&kept, 0, NULL), 0); /* once more: it is there */
    assert_true(is_whole(&kept));
}

/* A worker that was killed between its two renames. */
static void what_was_moved_before_a_kill_is_found(void **state)
{
    struct kept kept = kept_begin(*state);
    char inside[256];

    snprintf(inside, sizeof(inside), "%s/MANIFEST", kept.folders->source);
    assert_int_equal(rename(kept.manifest, inside), 0);
    assert_int_equal(keep(&kept, 0, NULL), 0);
    assert_true(is_whole(&kept));
}

static void nothing_is_kept_that_leaves_too_little(void **state)
{
    struct kept kept = kept_begin(*state);
    uint64_t free_bytes = 0;
    struct err err;

    assert_int_equal(retain_free_bytes(kept.folders->root, &free_bytes, NULL), 0);
    assert_true(free_bytes > 0);
    assert_int_equal(keep(&kept, UINT64_MAX, &err), -1);
    assert_int_equal(err.code, ERR_FULL);
    assert_contains(err.text, "are to stay free for the next checkpoint: no copy is kept");
    assert_true(exists(kept.folders->root, "src"));
    assert_false(exists(kept.folders->root, "copies"));
}

static void what_is_missing_or_no_name_is_refused(void **state)
{
    struct kept kept = kept_begin(*state);
    struct retain_request request = {.source = kept.folders->source,
                                     .manifest = kept.manifest,
                                     .folder = kept.folder,
                                     .part = "../n1"};
    struct err err;

    assert_int_equal(retain_copy(&request, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_contains(err.text, "--part \"../n1\" is not a name");
    request.part = "n1";
    request.folder = "copies";
    assert_int_equal(retain_copy(&request, &err), -1);
    assert_contains(err.text, "--path \"copies\" is not an absolute path below another");
    request.folder = kept.folder;
    assert_int_equal(unlink(kept.manifest), 0);
    assert_int_equal(retain_copy(&request, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_contains(err.text, "move the manifest");
    assert_int_equal(retain_free_bytes("/no/such/folder", &(uint64_t){0}, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* The user's folder may hold anything under the name. */
static void a_manifest_is_left_in_a_file_of_its_own(void **state)
{
    struct folders *folders = *state;
    char victim[256], path[256];
    struct stat status;
    struct err err;

    snprintf(victim, sizeof(victim), "%s/victim", folders->root);
    snprintf(path, sizeof(path), "%s/left", folders->root);
    write_text(folders->root, "victim", "mine");
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(retain_write(path, "manifest", 8, NULL), 0);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_size, 8);
    assert_int_equal(stat(victim, &status), 0);
    assert_int_equal(status.st_size, 4);
    assert_int_equal(retain_write(path, "new", 3, NULL), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 3);
    assert_int_equal(retain_write(folders->source, "x", 1, &err), -1); /* a folder */
    assert_int_not_equal(err.code, ERR_NONE);
    assert_true(exists(folders->root, "src"));
}

#define RETAIN_TEST(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RETAIN_TEST(a_copy_is_a_shard_and_takes_the_files_with_it),
        RETAIN_TEST(what_was_moved_before_a_kill_is_found),
        RETAIN_TEST(nothing_is_kept_that_leaves_too_little),
        RETAIN_TEST(what_is_missing_or_no_name_is_refused),
        RETAIN_TEST(a_manifest_is_left_in_a_file_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
