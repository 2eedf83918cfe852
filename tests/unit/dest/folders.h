/* A scratch folder with a destination prefix and a source to put, and the verbs of ckpt-worker run
 * in this process. */
#ifndef CKPT_TESTS_UNIT_STORE_FOLDERS_H
#define CKPT_TESTS_UNIT_STORE_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "src/dest/posix/posix.h"

struct folders {
    char root[64];    /* in memory (/dev/shm) where possible: fsync costs nothing there */
    char prefix[128]; /* {root}/dst */
    char source[128]; /* {root}/src */
    char path[256];   /* {prefix}/t/p/a/checkpoints/1-42, not created */
    char to[128];     /* {root}/back, not created */
    char out[4096];   /* of the last verb */
    char errors[1024];
};

/* cmocka setup and teardown; the source holds a.bin (70,000 bytes), sub/b.txt, sub/empty/ and a
 * file of 0 bytes. */
int folders_setup(void **state);
int folders_teardown(void **state);

struct destination_place folders_place(const struct folders *folders); /* node "n1" */
void write_file(const char *folder, const char *name, const void *bytes, size_t length);
void write_text(const char *folder, const char *name, const char *text);
bool exists(const char *folder, const char *name);
/* {path}/n1/{name} */
const char *in_shard(const struct folders *folders, const char *name);
bool same_trees(const char *one, const char *other); /* names, kinds, modes, bytes */
/* Entries of a folder that begin with '.', themselves aside; 0 when there is no folder. */
size_t count_hidden(const char *folder);
void remove_tree(const char *folder);

/* Of the last verb's output. */
void assert_value(const struct folders *folders, const char *key, const char *expected);
/* As storage that rots. */
void flip_bit(const char *path, off_t at);

/* verbs_main("ckpt-worker", ...): arguments end with NULL. */
int verb(struct folders *folders, const char *name, ...);
int put_n1(struct folders *folders);
int verify_n1(struct folders *folders);

#endif
