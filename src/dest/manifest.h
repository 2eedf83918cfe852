/* The MANIFEST of one shard: every file and folder with size, mode and SHA-256. It hashes itself,
 * and `sha256sum -c MANIFEST` in the shard's folder checks the files.
 *
 * Flow     put fills a manifest while it copies, encodes it and writes it last. verify and restore
 *          parse it, compare it with what lies in the folder, and hash every file.
 * Shapes   text in one canonical form; what is not byte for byte what manifest_encode() would write
 *          is refused:
 *              # ckpt-manifest 1
 *              # directory mode=0755 name=rank0
 *              # file size=5 mode=0644
 *              2cf24dba...9824 *rank0/model.bin
 *              # total files=1 directories=1 bytes=5
 *              # self sha256=<of all bytes before this line>
 *          sha256sum ignores lines that begin with '#', also under --strict. Entries ascend by path
 *          (strcmp), so a folder comes before its contents. A backslash and a newline in a name are
 *          written \\ and \n; a file's line then begins with a backslash, which is sha256sum's own
 *          convention.
 *          At most MANIFEST_ENTRIES_MAX entries, MANIFEST_MAX_BYTES of text, MANIFEST_DEPTH_MAX
 *          levels.
 * Errors   ERR_CORRUPT from parse and compare; ERR_REFUSED for names that the format does not
 *          carry.
 * Absent   owners, times, extended attributes, hard links (each name is its own file), holes
 *          (restored as zeros).
 * Source   HTCondor's checkpoint manifest; the self-hash is in a comment, so that sha256sum -c
 *          really passes.
 */
#ifndef CKPT_DEST_MANIFEST_H
#define CKPT_DEST_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/dest/sha256.h"

#define MANIFEST_NAME "MANIFEST"
enum {
    MANIFEST_ENTRIES_MAX = 1000000,
    MANIFEST_MAX_BYTES = 256 << 20,
    MANIFEST_DEPTH_MAX = 64,
    MANIFEST_PATH_MAX_BYTES = 4096, /* with the terminator */
    MANIFEST_NAME_MAX_BYTES = 255   /* of one component */
};

/* One file or folder. */
struct manifest_entry {
    char *path; /* relative, '/' between components */
    bool is_directory;
    uint32_t mode; /* 0..0777; applied on restore */
    uint64_t size_bytes;
    uint8_t sha256[SHA256_BYTES]; /* of a file */
    uint64_t stamp;               /* see tree_stamp(); 0: it was not listed from a folder */
};

/* A list that grows by manifest_add() and is closed with all its paths by manifest_close(). */
struct manifest {
    /* sorted by path after manifest_finish() and manifest_parse() */
    struct manifest_entry *entries;
    size_t count; /* files and folders */
    size_t capacity;
    size_t file_count;   /* the totals are valid after manifest_finish() and manifest_parse() */
    uint64_t size_bytes; /* of all files */
    int64_t changed_us;  /* by tree_list(): when the latest change was, wall clock */
};

void manifest_init(struct manifest *manifest);
/* Empty again afterwards; may be called twice. */
void manifest_close(struct manifest *manifest);

/* Copies path; the other fields are zero for the caller to fill. The pointer is valid until the
 * next add. */
struct manifest_entry *manifest_add(struct manifest *manifest, const char *path, bool is_directory);
/* Sorts, checks every name, sums up; to be called again when sizes were changed. Pointers into the
 * entries are void afterwards. ERR_REFUSED names the path that cannot be carried. */
int manifest_finish(struct manifest *manifest, struct err *err);
/* Appends the text, its self-hash included. The manifest is finished and has every file's hash. */
void manifest_encode(const struct manifest *manifest, struct buf *text);
/* Checks the self-hash first, then the form: bytes that were damaged are told apart from a writer
 * that had it wrong. ret_manifest is written only on success, and the caller closes it. The input
 * is from a disk and may be anything. */
int manifest_parse(const uint8_t *text, size_t length, struct manifest *ret_manifest,
                   struct err *err);
/* Same paths, kinds and sizes? ERR_CORRUPT names the first file that is missing, extra or of
 * another size. Both are sorted. Modes and hashes are not looked at: a listing has no hashes, and a
 * mode may have been changed by the file system. */
int manifest_compare(const struct manifest *expected, const struct manifest *found,
                     struct err *err);
/* Relative, no empty, "." or ".." component, within the limits, no carriage return, and not a name
 * that sha256sum would take for something else ("-" is its standard input) or that is ours
 * (MANIFEST). NULL when valid, else why not. */
const char *manifest_path_problem(const char *path);

#endif
