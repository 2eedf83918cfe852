/* Folders with more names than a manifest, or a look at a folder, may have. They are made up as the
 * folder is read: nobody waits for a million files. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/manifest.h"
#include "src/dest/tree.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define STEM "many-"

static size_t made_up; /* so many names a folder holds beside its own; 0: as it is */
static size_t given;   /* of these, of the folder that is being read */

/* In the place of the C library's: the product's objects call these. */
struct dirent *readdir(DIR *directory)
{
    static struct dirent *(*real)(DIR *);
    static struct dirent entry;
    struct dirent *found;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    found = real(directory);
    if (found != NULL || made_up == 0)
        return found;
    if (given == made_up) {
        given = 0;
        return NULL;
    }
    snprintf(entry.d_name, sizeof(entry.d_name), STEM "%07zu", given++);
    return &entry;
}

int fstatat(int folder, const char *name, struct stat *status, int flags)
{
    static int (*real)(int, const char *, struct stat *, int);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fstatat");
    if (strncmp(name, STEM, strlen(STEM)) != 0)
        return real(folder, name, status, flags);
    *status = (struct stat){.st_mode = S_IFREG | 0600, .st_size = 1, .st_nlink = 1};
    return 0;
}

static int empty_setup(void **state)
{
    int result = folders_setup(state);
    struct folders *folders = *state;

    remove_tree(folders->source);
    made_up = given = 0;
    return result != 0 ? result : mkdir(folders->source, 0700);
}

static int empty_teardown(void **state)
{
    made_up = given = 0;
    return folders_teardown(state);
}

static void a_tree_has_a_million_names_and_no_more(void **state)
{
    struct folders *folders = *state;
    int source = open(folders->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct manifest manifest;
    struct err err;

    made_up = MANIFEST_ENTRIES_MAX;
    assert_int_equal(tree_list(source, "src", false, &manifest, &err), 0);
    assert_uint_equal(manifest.count, MANIFEST_ENTRIES_MAX);
    manifest_close(&manifest);
    made_up = MANIFEST_ENTRIES_MAX + 1;
    given = 0;
    close(source);
    source = open(folders->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tree_list(source, "src", false, &manifest, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_string_equal(err.text, "src holds more than 1000000 files, folders and links");
    close(source);
}

/* The job hears of it before anything is written. */
static void a_put_of_more_is_refused(void **state)
{
    struct folders *folders = *state;

    made_up = MANIFEST_ENTRIES_MAX + 1;
    assert_int_equal(put_n1(folders), WORKER_EXIT_REFUSED);
    assert_contains(folders->errors, "holds more than 1000000 files, folders and links");
    made_up = 0;
    assert_uint_equal(count_hidden(folders->path), 0);
}

static void write_directories(struct buf *text, size_t count)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    buf_init(text);
    buf_printf(text, "# ckpt-manifest 2\n");
    for (size_t i = 0; i < count; i++)
        buf_printf(text, "# directory mode=0755 name=%07zu\n", i);
    buf_printf(text, "# total files=0 directories=%zu bytes=0\n", count);
    sha256_of(text->bytes, text->length, digest);
    sha256_format(digest, hex);
    buf_printf(text, "# self sha256=%s\n", hex);
}

/* Whoever wrote it: what is read is as bounded as what is written. */
static void a_manifest_of_more_is_none(void **state)
{
    struct manifest manifest;
    struct buf text;
    struct err err;

    (void)state;
    write_directories(&text, MANIFEST_ENTRIES_MAX);
    assert_int_equal(manifest_parse(text.bytes, text.length, &manifest, &err), 0);
    assert_uint_equal(manifest.count, MANIFEST_ENTRIES_MAX);
    manifest_close(&manifest);
    buf_close(&text);
    write_directories(&text, MANIFEST_ENTRIES_MAX + 1);
    assert_int_equal(manifest_parse(text.bytes, text.length, &manifest, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_contains(err.text, "not well formed at byte");
    buf_close(&text);
}

/* A look for orphans says so, and takes a million in pages. */
static void a_folder_with_more_names_is_not_looked_at(void **state)
{
    struct folders *folders = *state;

    made_up = MANIFEST_ENTRIES_MAX;
    assert_int_equal(
        verb(folders, "scan", "--prefix", folders->prefix, "--cluster", "00000000000000a1", NULL),
        WORKER_EXIT_OK);
    assert_value(folders, "denied", "0");
    assert_value(folders, "next", STEM "0009999/~/~/~/~");
    made_up = MANIFEST_ENTRIES_MAX + 1;
    given = 0;
    assert_int_equal(
        verb(folders, "scan", "--prefix", folders->prefix, "--cluster", "00000000000000a1", NULL),
        WORKER_EXIT_OK);
    assert_value(folders, "denied", "1");
    assert_contains(folders->out, "holds over 1000000 names, and is not looked at");
    assert_null(strstr(folders->out, "next="));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, empty_setup, empty_teardown)
    const struct CMUnitTest tests[] = {
        T(a_tree_has_a_million_names_and_no_more),
        T(a_put_of_more_is_refused),
        T(a_manifest_of_more_is_none),
        T(a_folder_with_more_names_is_not_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
