/* Symbolic links of a checkpoint: those within its own folder come back as they were, all others
 * are refused before a byte is written, and once. V-017. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/manifest_internal.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)
#define AT_N1     "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

static void link_in(const char *folder, const char *name, const char *to)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    (void)unlink(path);
    assert_int_equal(symlink(to, path), 0);
}

static void expect_link(const char *folder, const char *name, const char *to)
{
    char path[512], text[256];
    ssize_t length;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    length = readlink(path, text, sizeof(text) - 1);
    if (length < 0)
        fail_msg("%s is no link", name);
    text[length] = '\0';
    assert_string_equal(text, to);
}

static const struct {
    const char *name, *to;
} kept[] = {
    {"last.ckpt", "a.bin"},
    {"sub/last", "../a.bin"},
    {"sub/here", "b.txt"},
    {"folder", "sub"},
    {"sub/up", ".."},
    {"through", "folder/b.txt"},
    {"dangling", "not/there"},
    {"loop", "pool"},
    {"pool", "loop"},
    {"self", "self"},
    {"chain", "last.ckpt"},
    {"dot", "./sub/./b.txt"},
    {"slashes", "sub//b.txt/"},
    {"with blank", "a b\\c\nd"},
    {"root", "."},
    {"twice", "..."},
    {"back\\slash\nline", "a.bin"},
};

static void make_kept(const struct folders *folders)
{
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++)
        link_in(folders->source, kept[i].name, kept[i].to);
}

static void links_within_the_folder_come_back(void **state)
{
    struct folders *folders = *state;
    char command[1024];

    make_kept(folders);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "files", "3");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++) {
        expect_link(folders->to, kept[i].name, kept[i].to);
        expect_link(in_shard(folders, ""), kept[i].name, kept[i].to);
    }
    assert_true(same_trees(folders->source, folders->to));
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_value(folders, "reused", "1"); /* they count among what is there already */
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "reused", "1");
    snprintf(command, sizeof(command), "cd '%s' && sha256sum -c --strict --quiet MANIFEST",
             in_shard(folders, ""));
    assert_int_equal(system(command), 0);
    assert_int_equal(VERB("collect", "--prefix", folders->prefix, "--path", folders->path),
                     WORKER_EXIT_OK);
    assert_true(exists(folders->source, "a.bin")); /* nothing was followed */
}

static void links_are_part_of_what_was_written(void **state)
{
    struct folders *folders = *state;

    make_kept(folders);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    link_in(in_shard(folders, ""), "last.ckpt", "sub/b.txt");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"last.ckpt\" leads to \"sub/b.txt\"");
    assert_int_equal(unlink(in_shard(folders, "last.ckpt")), 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"last.ckpt\" is missing");
    link_in(in_shard(folders, ""), "last.ckpt", "a.bin");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    link_in(in_shard(folders, ""), "more", "a.bin");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"more\"");
    assert_int_equal(unlink(in_shard(folders, "more")), 0);
    assert_int_equal(unlink(in_shard(folders, "nothing")), 0);
    link_in(in_shard(folders, ""), "nothing", "a.bin"); /* in a file's place */
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    link_in(folders->source, "last.ckpt", "sub/b.txt"); /* the next attempt */
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "reused", "0");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    expect_link(in_shard(folders, ""), "last.ckpt", "sub/b.txt");
}

static void a_target_with_another_link_is_something_else(void **state)
{
    struct folders *folders = *state;

    make_kept(folders);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    link_in(folders->to, "last.ckpt", "sub");
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_REFUSED);
    remove_tree(folders->to);
    assert_int_equal(mkdir(folders->to, 0700), 0);
    link_in(folders->to, "only", "a");
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_REFUSED);
}

static void what_an_application_writes_in_place_has_links_as_well(void **state)
{
    struct folders *folders = *state;
    char name[256], folder[600], command[1400];

    assert_int_equal(VERB("stage", AT_N1), WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "name", name, sizeof(name)), 0);
    snprintf(folder, sizeof(folder), "%s/%s", folders->path, name);
    make_kept(folders);
    snprintf(command, sizeof(command), "cp -a '%s/.' '%s/'", folders->source, folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(VERB("publish", AT_N1, "--name", name), WORKER_EXIT_OK);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    expect_link(in_shard(folders, ""), "sub/last", "../a.bin");
}

/* The stored name of a compressed file may be a link's. */
static void a_link_keeps_its_name_from_a_compressed_file(void **state)
{
    struct folders *folders = *state;
    char *text = check_calloc(1, 300000);

    memset(text, 'x', 299999);
    write_text(folders->source, "table", text);
    write_text(folders->source, "other", text);
    free(text);
    link_in(folders->source, "table.lz4", "table");
    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--compress", "lz4"),
                     WORKER_EXIT_OK);
    assert_true(exists(in_shard(folders, ""), "other.lz4"));
    expect_link(in_shard(folders, ""), "table.lz4", "table");
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
}

/* ---- what can never be taken ---- */

static void expect_unfit(struct folders *folders, const char *said)
{
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_value(folders, "cause", "application_refused");
    assert_contains(folders->errors, said);
    assert_false(exists(folders->path, "n1"));
}

static void links_that_lead_out_are_refused(void **state)
{
    static const struct {
        const char *name, *to, *said;
    } wrong[] = {
        {"odd", "/etc/passwd", "is absolute"},
        {"odd", "..", "leads out"},
        {"odd", "../src/a.bin", "leads out"},
        {"odd", "./../x", "leads out"},
        {"sub/odd", "../../x", "leads out"},
        {"odd", "sub/../a.bin", "behind a name"},
        {"sub/odd", "empty/../../../etc", "behind a name"},
        {"odd", "sub/..", "behind a name"},
    };
    struct folders *folders = *state;
    char name[256];

    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        link_in(folders->source, wrong[i].name, wrong[i].to);
        expect_unfit(folders, wrong[i].said);
        assert_contains(folders->errors, "is a symbolic link");
        snprintf(name, sizeof(name), "%s/%s", folders->source, wrong[i].name);
        assert_int_equal(unlink(name), 0);
    }
    link_in(folders->source, "MANIFEST", "a.bin");
    expect_unfit(folders, "own manifest");
}

/* A chain that leaves by a link is not longer than its first link that does. */
static void no_chain_of_kept_links_leads_out(void **state)
{
    static const char *const texts[] = {"up/..", "up/../..", "sub/up/../x", "folder/../../x"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_non_null(manifest_link_problem("a/b", texts[i]));
    assert_null(manifest_link_problem("a/b", "../up/up/up"));
    assert_non_null(manifest_link_problem("a", ""));
}

static void sockets_and_the_like_are_refused_once(void **state)
{
    struct folders *folders = *state;
    char name[256];

    snprintf(name, sizeof(name), "%s/sub/odd", folders->source);
    assert_int_equal(mkfifo(name, 0644), 0);
    expect_unfit(folders, "is a FIFO");
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mknod(name, S_IFSOCK | 0644, 0), 0);
    expect_unfit(folders, "is a socket");
    assert_int_equal(unlink(name), 0);
    write_text(folders->source, "carriage\rreturn", "x");
    expect_unfit(folders, "carriage return");
    snprintf(name, sizeof(name), "%s/carriage\rreturn", folders->source);
    assert_int_equal(unlink(name), 0);
    write_text(folders->source, "MANIFEST", "mine");
    expect_unfit(folders, "own manifest");
}

/* ---- the text ---- */

static void a_later_version_is_no_damage(void **state)
{
    static const char *const heads[] = {"# ckpt-manifest 4\n", "# ckpt-manifest 99\nnew line\n"};
    struct manifest manifest;
    char hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct buf text = {0};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        buf_clear(&text);
        buf_append(&text, heads[i], strlen(heads[i]));
        sha256_of(text.bytes, text.length, digest);
        buf_printf(&text, "# self sha256=%s\n", sha256_format(digest, hex));
        assert_int_equal(manifest_parse(text.bytes, text.length, &manifest, &err), -1);
        assert_int_equal(err.code, ERR_REFUSED);
        assert_contains(err.text, "version");
    }
    buf_close(&text);
}

static void expect_not_taken(const char *lines)
{
    struct manifest manifest;
    char hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct buf text = {0};
    struct err err;

    buf_append(&text, lines, strlen(lines));
    sha256_of(text.bytes, text.length, digest);
    buf_printf(&text, "# self sha256=%s\n", sha256_format(digest, hex));
    if (manifest_parse(text.bytes, text.length, &manifest, &err) == 0)
        fail_msg("taken: %s", lines);
    assert_int_equal(err.code, ERR_CORRUPT);
    buf_close(&text);
}

/* Also its advice is part of the form. */
#define HEAD  "# ckpt-manifest 3\n" MANIFEST_ADVICE
#define TOTAL "# total files=0 directories=0 bytes=0\n"
static void only_the_one_form_of_a_link_is_taken(void **state)
{
    (void)state;
    expect_not_taken("# ckpt-manifest 3\n# link name=a\n# link to=b\n" TOTAL);
    expect_not_taken("# ckpt-manifest 2\n# link name=a\n# link to=b\n" TOTAL);
    expect_not_taken(HEAD TOTAL); /* without any it is 2 */
    expect_not_taken(HEAD "# link name=a\n# link to=/b\n" TOTAL);
    expect_not_taken(HEAD "# link name=a\n# link to=../b\n" TOTAL);
    expect_not_taken(HEAD "# link name=a\n# link to=\n" TOTAL);
    expect_not_taken(HEAD "# link name=../a\n# link to=b\n" TOTAL);
    expect_not_taken(HEAD "# link name=d/a\n# link to=b\n" TOTAL);
    expect_not_taken(HEAD "# link name=a\n" TOTAL);
    expect_not_taken(HEAD "# link to=b\n# link name=a\n" TOTAL);
    expect_not_taken(HEAD "# link name=b\n# link to=c\n# link name=a\n# link "
                          "to=c\n" TOTAL);
    expect_not_taken(HEAD "# link name=a\n# link to=c\n# link name=a\n# link "
                          "to=c\n" TOTAL);
    expect_not_taken(HEAD "# directory mode=0755 name=a\n# link name=a\n# link "
                          "to=c\n# total files=0 directories=1 bytes=0\n");
    expect_not_taken(HEAD "# link name=a\n# link to=c\n# directory mode=0755 "
                          "name=b\n# total files=0 directories=1 bytes=0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ON_DISK(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
        ON_DISK(links_within_the_folder_come_back),
        ON_DISK(links_are_part_of_what_was_written),
        ON_DISK(a_target_with_another_link_is_something_else),
        ON_DISK(what_an_application_writes_in_place_has_links_as_well),
        ON_DISK(a_link_keeps_its_name_from_a_compressed_file),
        ON_DISK(links_that_lead_out_are_refused),
        ON_DISK(sockets_and_the_like_are_refused_once),
        cmocka_unit_test(no_chain_of_kept_links_leads_out),
        cmocka_unit_test(a_later_version_is_no_damage),
        cmocka_unit_test(only_the_one_form_of_a_link_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
