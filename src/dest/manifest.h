/* The MANIFEST of one shard: every file and folder with size, mode and SHA-256. It hashes itself,
 * and `ckpt-worker verify FOLDER` checks all of it. So do standard tools: `sha256sum -c MANIFEST`
 * the files up to one chunk, split(1) and sha256sum the larger ones (README.md has the script).
 *
 * Flow     put fills a manifest while it copies, encodes it and writes it last. verify and restore
 *          parse it, compare it with what lies in the folder, and hash every file. A file over
 *          MANIFEST_CHUNK_BYTES is hashed chunk by chunk, so that many threads work on one file, a
 *          range can be checked alone, and two checkpoints are compared by chunk. Where a chunk is
 *          what a destination takes at a time, a very large file has larger ones.
 * Shapes   text in one canonical form; what is not byte for byte what manifest_encode() would write
 *          is refused:
 *              # ckpt-manifest 2
 *              # directory mode=0755 name=rank0
 *              # file size=5 mode=0644
 *              2cf24dba...9824 *rank0/model.bin
 *              # file size=20000000 mode=0644 generation=2
 *              # chunk <of its first 16 MiB>
 *              # chunk <of the rest>
 *              # tree <of what `split -b 16777216 --filter=sha256sum` prints> *rank0/optimizer.bin
 *              # file size=70000 mode=0644 lz4=20411
 *              # whole <of its 70000 bytes> *rank0/small.csv
 *              # file size=17000000 mode=0644 lz4=5000213
 *              # chunk <of its first 16 MiB> lz4=4800101
 *              # chunk <of the rest> lz4=200112
 *              # tree <as above> *rank0/table.csv
 *              # file size=40000000 mode=0644 chunk=33554432
 *              # chunk <of its first 32 MiB>
 *              # chunk <of the rest>
 *              # tree <as above, of chunks of 32 MiB> *rank0/table.npy
 *              # link name=last.bin
 *              # link to=rank0/model.bin
 *              # total files=2 directories=1 bytes=20000005
 *              # self sha256=<of all bytes before this line>
 *          sha256sum ignores lines that begin with '#', also under --strict. Entries ascend by path
 *          (strcmp), so a folder comes before its contents. A backslash and a newline in a name are
 *          written \\ and \n; the line of a file without chunks then begins with a backslash,
 *          which is sha256sum's own convention. generation is absent where it is 0, chunk where it
 *          is 16 MiB; else it is a multiple of that, up to 1 GiB, and the file is larger. A file
 *          with lz4= has chunks of 16 MiB. It lies in the shard as {name}.lz4: an LZ4 frame for
 *          each chunk (frame.h), of the lengths that stand there. All hashes are of what `lz4 -dc`
 *          makes of it.
 *          Links follow all entries, ascend by path, and are of texts that lead nowhere but into
 *          the shard itself: manifest_link_problem(). A manifest with links begins with "#
 *          ckpt-manifest 3" and a word of advice, which programs of before there were any do not
 *          take for one of theirs. A later version is refused by its number, and is no damage.
 *          At most MANIFEST_ENTRIES_MAX entries, MANIFEST_MAX_BYTES of text, MANIFEST_DEPTH_MAX
 *          levels.
 * Errors   ERR_CORRUPT from parse and compare; ERR_REFUSED for names that the format does not
 *          carry, and from parse for a later version.
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
    MANIFEST_CHUNK_BYTES = 16 << 20,
    MANIFEST_CHUNK_MAX_BYTES = 1 << 30, /* of files that were cut into fewer: manifest_cut() */
    MANIFEST_GENERATION_MAX = 255,      /* and of what is never to be taken over */
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
    uint8_t sha256[SHA256_BYTES]; /* of a file without chunks */
    uint64_t chunk_bytes;         /* of all chunks but the last */
    /* The SHA-256 of each chunk of a file over chunk_bytes; NULL and 0 of all others. */
    uint8_t (*chunks)[SHA256_BYTES];
    size_t chunk_count;
    /* By who hashes for what may come to nothing: so many of its chunks, from the first on, have
     * their hash; of a file without chunks 1 or 0. */
    size_t known_hashes;
    /* How often the file, or chunks of it, were taken over from an earlier checkpoint since they
     * were written; 0: it was written for this one. */
    uint32_t generation;
    /* Where in the stored file the LZ4 frame of each chunk ends, or the one of a file without
     * chunks; NULL: it is stored as it is. */
    uint64_t *frame_ends;
    uint64_t stamp; /* see tree_stamp(); 0: it was not listed from a folder */
};

/* A symbolic link, which nobody follows: its text comes back as it was. */
struct manifest_link {
    char *path; /* of its own, as an entry's */
    char *to;
};

/* A list that grows by manifest_add() and is closed with all its paths by manifest_close(). */
struct manifest {
    /* sorted by path after manifest_finish() and manifest_parse() */
    struct manifest_entry *entries;
    size_t count; /* files and folders */
    size_t capacity;
    size_t file_count;    /* the totals are valid after manifest_finish() and manifest_parse() */
    uint64_t size_bytes;  /* of all files */
    uint64_t names_bytes; /* of all paths and texts of links */
    struct manifest_link *links; /* sorted as entries are */
    size_t link_count, link_capacity;
    int64_t changed_us; /* by tree_list(): when the latest change was, wall clock */
};

void manifest_init(struct manifest *manifest);
/* Empty again afterwards; may be called twice. */
void manifest_close(struct manifest *manifest);

/* Copies path; chunks are of MANIFEST_CHUNK_BYTES, and the other fields zero for the caller to
 * fill. The pointer is valid until the next add. */
struct manifest_entry *manifest_add(struct manifest *manifest, const char *path, bool is_directory);
/* Copies both texts. */
void manifest_add_link(struct manifest *manifest, const char *path, const char *to);
void manifest_copy_links(struct manifest *manifest, const struct manifest *from);
/* Why a link at `path` with that text is not kept, or NULL: it is. Relative ones within the shard
 * are, whether something is there or not. */
const char *manifest_link_problem(const char *path, const char *to);
bool manifest_has_link(const struct manifest *manifest, const char *path);
/* Same links with the same texts? ERR_CORRUPT names the first that differs. */
int manifest_links_compare(const struct manifest *expected, const struct manifest *found,
                           struct err *err);
/* By the size of a file and of its chunks: 0 up to one chunk, else at least 2. */
size_t manifest_chunk_count(uint64_t size_bytes, uint64_t chunk_bytes);
/* Chunks of another size, where a destination takes no more of them: MANIFEST_CHUNK_BYTES, or a
 * multiple up to MANIFEST_CHUNK_MAX_BYTES that the file is larger than. Its hashes are void then.
 * Not of a compressed file. */
void manifest_cut(struct manifest_entry *entry, uint64_t chunk_bytes);
/* Where the i-th chunk begins in the file. */
uint64_t manifest_chunk_at(const struct manifest_entry *entry, size_t i);
/* Of the i-th chunk of a file with chunks, or of the whole of one without (i is 0). */
uint64_t manifest_chunk_bytes(const struct manifest_entry *entry, size_t i);
/* The hash of that chunk, or of a whole file without chunks. */
const uint8_t *manifest_chunk_hash(const struct manifest_entry *entry, size_t i);
void manifest_chunk_set(struct manifest_entry *entry, size_t i, const uint8_t digest[SHA256_BYTES]);
/* A place for the end of each frame, for the caller to fill. */
void manifest_make_frames(struct manifest_entry *entry);
/* The same frames as those of a file that has as many chunks. */
void manifest_copy_frames(struct manifest_entry *entry, const struct manifest_entry *from);
/* As if nothing were compressed. */
void manifest_drop_frames(struct manifest *manifest);
/* Where the i-th chunk begins in the stored file, and how long it is there. */
uint64_t manifest_stored_at(const struct manifest_entry *entry, size_t i);
uint64_t manifest_stored_length(const struct manifest_entry *entry, size_t i);
/* Of the stored file: how long it is, and its path in the shard. */
uint64_t manifest_stored_bytes(const struct manifest_entry *entry);
const char *manifest_stored_path(const struct manifest_entry *entry,
                                 char buffer[MANIFEST_PATH_MAX_BYTES]);
/* Whether what a shard's folder holds, as tree_list() says it, is what the manifest lists: as
 * manifest_compare(), of stored files. */
int manifest_compare_stored(const struct manifest *manifest, const struct manifest *found,
                            struct err *err);
/* Why a file cannot be stored compressed, or NULL: its stored name would be too long, or another
 * entry has it. The manifest is sorted. */
const char *manifest_compression_problem(const struct manifest *manifest,
                                         const struct manifest_entry *entry);
/* Whether two files hold the same bytes: sizes, chunks and all hashes are equal. */
bool manifest_same_bytes(const struct manifest_entry *one, const struct manifest_entry *other);
/* Sorts, checks every name, sums up, and makes room for the hashes of chunks where there is none
 * of the right size yet; to be called again when sizes were changed. Pointers into the entries are
 * void afterwards. ERR_REFUSED names the path that cannot be carried, or says that the files have
 * more chunks than a manifest takes. */
int manifest_finish(struct manifest *manifest, struct err *err);
/* Appends the text, its self-hash included. The manifest is finished and has every file's hash. */
void manifest_encode(const struct manifest *manifest, struct buf *text);
/* Checks the self-hash first, then the form: bytes that were damaged are told apart from a writer
 * that had it wrong. ret_manifest is written only on success, and the caller closes it. The input
 * is from a disk and may be anything. */
int manifest_parse(const uint8_t *text, size_t length, struct manifest *ret_manifest,
                   struct err *err);
/* Same paths, kinds, sizes and links? ERR_CORRUPT names the first file that is missing, extra or of
 * another size. Both are sorted. Modes and hashes are not looked at: a listing has no hashes, and a
 * mode may have been changed by the file system. */
int manifest_compare(const struct manifest *expected, const struct manifest *found,
                     struct err *err);
/* By its path, in a sorted list; NULL: it is not in it. */
const struct manifest_entry *manifest_find(const struct manifest *manifest, const char *path);
/* Same paths, kinds, modes, bytes and links; how they came there may differ. Both are sorted. */
bool manifest_same_contents(const struct manifest *one, const struct manifest *other);
/* Relative, no empty, "." or ".." component, within the limits, no carriage return, and not a name
 * that sha256sum would take for something else ("-" is its standard input) or that is ours
 * (MANIFEST). NULL when valid, else why not. */
const char *manifest_path_problem(const char *path);

#endif
