/* See folders.h. */
#include "tests/unit/dest/folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/tree.h"
#include "src/dest/verbs.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"

static void make(const char *folder)
{
    CHECK(mkdir(folder, 0755) == 0);
}

void write_file(const char *folder, const char *name, const void *bytes, size_t length)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, length, file) == length);
    CHECK(fclose(file) == 0);
}

void write_text(const char *folder, const char *name, const char *text)
{
    write_file(folder, name, text, strlen(text));
}

int folders_setup(void **state)
{
    struct folders *folders = check_calloc(1, sizeof(*folders));
    static uint8_t bytes[70000];
    char folder[256];

    umask(022);
    snprintf(folders->root, sizeof(folders->root), "%s/ckpt-store-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(folders->root) != NULL);
    snprintf(folders->prefix, sizeof(folders->prefix), "%s/dst", folders->root);
    snprintf(folders->source, sizeof(folders->source), "%s/src", folders->root);
    snprintf(folders->to, sizeof(folders->to), "%s/back", folders->root);
    snprintf(folders->path, sizeof(folders->path), "%s/t/p/a/checkpoints/1-42", folders->prefix);
    make(folders->prefix);
    make(folders->source);
    snprintf(folder, sizeof(folder), "%s/sub", folders->source);
    make(folder);
    snprintf(folder, sizeof(folder), "%s/sub/empty", folders->source);
    make(folder);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 31 + i / 256);
    write_file(folders->source, "a.bin", bytes, sizeof(bytes));
    write_text(folders->source, "sub/b.txt", "hello\n");
    write_text(folders->source, "nothing", "");
    *state = folders;
    return 0;
}

void remove_tree(const char *folder)
{
    char parent[256];
    char *slash;
    int fd;

    snprintf(parent, sizeof(parent), "%s", folder);
    slash = strrchr(parent, '/');
    *slash = '\0';
    fd = open(parent, O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0);
    CHECK(tree_remove(fd, slash + 1, NULL) == 0);
    close(fd);
}

int folders_teardown(void **state)
{
    struct folders *folders = *state;

    remove_tree(folders->root);
    free(folders);
    return 0;
}

struct destination_place folders_place(const struct folders *folders)
{
    return (struct destination_place){
        .prefix = folders->prefix, .path = folders->path, .part = "n1"};
}

bool exists(const char *folder, const char *name)
{
    char path[512];
    struct stat status;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return lstat(path, &status) == 0;
}

const char *in_shard(const struct folders *folders, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/n1/%s", folders->path, name);
    return path;
}

bool same_trees(const char *one, const char *other)
{
    struct manifest a, b;
    struct buf text_a, text_b;
    int fd_one = open(one, O_RDONLY | O_DIRECTORY), fd_other = open(other, O_RDONLY | O_DIRECTORY);
    bool same;
    char command[512];

    CHECK(fd_one >= 0 && fd_other >= 0);
    CHECK(tree_list(fd_one, one, false, &a, NULL) == 0);
    CHECK(tree_list(fd_other, other, false, &b, NULL) == 0);
    close(fd_one);
    close(fd_other);
    buf_init(&text_a);
    buf_init(&text_b);
    manifest_encode(&a, &text_a); /* modes and sizes; the hashes are zeros */
    manifest_encode(&b, &text_b);
    same = text_a.length == text_b.length && memcmp(text_a.bytes, text_b.bytes, text_a.length) == 0;
    buf_close(&text_a);
    buf_close(&text_b);
    manifest_close(&a);
    manifest_close(&b);
    snprintf(command, sizeof(command), "diff -rq --no-dereference %s %s >/dev/null", one, other);
    return same && system(command) == 0;
}

size_t count_hidden(const char *folder)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    size_t count = 0;

    if (directory == NULL)
        return 0;
    while ((entry = readdir(directory)) != NULL)
        count += entry->d_name[0] == '.' && strcmp(entry->d_name, ".") != 0 &&
                 strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

int verb(struct folders *folders, const char *name, ...)
{
    char *argv[32] = {(char *)(uintptr_t) "ckpt-worker", (char *)(uintptr_t)name};
    int argc = 2, status;
    va_list arguments;
    FILE *out, *errors;

    va_start(arguments, name);
    while ((argv[argc] = va_arg(arguments, char *)) != NULL)
        argc++;
    va_end(arguments);
    memset(folders->out, 0, sizeof(folders->out));
    memset(folders->errors, 0, sizeof(folders->errors));
    out = fmemopen(folders->out, sizeof(folders->out) - 1, "w");
    errors = fmemopen(folders->errors, sizeof(folders->errors) - 1, "w");
    CHECK(out != NULL && errors != NULL);
    status = verbs_main(argc, argv, out, errors);
    fclose(out);
    fclose(errors);
    return status;
}

int put_n1(struct folders *folders)
{
    return verb(folders, "put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", "--source", folders->source, NULL);
}

int verify_n1(struct folders *folders)
{
    return verb(folders, "verify", "--prefix", folders->prefix, "--path", folders->path, "--part",
                "n1", NULL);
}

void assert_value(const struct folders *folders, const char *key, const char *expected)
{
    char value[128];

    assert_int_equal(worker_output_get(folders->out, key, value, sizeof(value)), 0);
    assert_string_equal(value, expected);
}

void flip_bit(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}
