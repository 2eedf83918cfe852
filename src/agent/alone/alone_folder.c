/* The folder of a job without a cluster. See alone_folder.h. */
#include "src/agent/alone/alone_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/alone/alone_place.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/dest/mark.h"
#include "src/dest/posix/shard.h"

enum { LOCK_BYTES = 320, NOTE_BYTES = 160, LINE_MAX_BYTES = 65536, SHOWN_BYTES = 80 };

#define NOTE_DAMAGED "\ndamaged=1"
#define NOTE_LABEL   "\nlabel="

/* ---- the lock ---- */

/* In numbers of here, where the kernel knows them: 0, it does not. */
static pid_t lock_holder(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0 ? lock.l_pid
                                                                                      : 0;
}

/* "pid N on HOST", and a number of another PID namespace as such. The kernel knows the process of
 * this node, the file that of another one. */
static void lock_name(int fd, char ret_name[LOCK_BYTES])
{
    char text[LOCK_BYTES] = "", here[32] = "";
    struct alone_place theirs = {0}, own;
    const pid_t holder = lock_holder(fd);
    ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
    size_t line;

    text[length > 0 ? length : 0] = '\0';
    line = strcspn(text, "\n");
    if (line > 0)
        snprintf(ret_name, LOCK_BYTES, "%.*s", (int)line, text);
    else if (holder > 0)
        snprintf(ret_name, LOCK_BYTES, "pid %d", (int)holder);
    else
        snprintf(ret_name, LOCK_BYTES, "pid not known");
    if (line == 0)
        return;
    alone_place_own(&own);
    memcpy(theirs.host, own.host, sizeof(theirs.host)); /* without more it may be this one */
    alone_place_parse(text + line + (text[line] == '\n'), &theirs);
    if (alone_place_distance(&theirs, &own) != ALONE_UNSEEN)
        return;
    if (holder > 0)
        snprintf(here, sizeof(here), ", pid %d here", (int)holder);
    snprintf(ret_name, LOCK_BYTES, "%.*s, in another PID namespace (a container)%s", (int)line,
             text, here);
}

static int refuse_locked(int fd, const char *folder, struct err *err)
{
    char name[LOCK_BYTES];

    CHECK(fd >= 0);
    lock_name(fd, name);
    return err_set(err, ERR_LOCKED,
                   "another ckpt-run writes its checkpoints to %s: %s; wait until it has ended, or "
                   "name another folder with --dir",
                   folder, name);
}

static void lock_sign(int fd)
{
    char place[ALONE_PLACE_BYTES], text[LOCK_BYTES];
    struct alone_place own;
    int length;

    alone_place_own(&own);
    alone_place_format(&own, place);
    length = snprintf(text, sizeof(text), "pid %d on %s\n%s", (int)getpid(), own.host, place);
    if (ftruncate(fd, 0) == 0) /* a full disk takes no text, and the lock holds */
        (void)!pwrite(fd, text, (size_t)length, 0);
}

int alone_folder_lock(const char *folder, struct err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_MAX + sizeof(ALONE_LOCK)];
    int fd;

    snprintf(path, sizeof(path), "%.*s/" ALONE_LOCK, PATH_MAX - 2, folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO,
                       "%s: %s; --dir must be a folder that you can write to, with room in it",
                       path, strerror(errno));
    if (fcntl(fd, F_SETLK, &lock) == 0) {
        lock_sign(fd);
        return fd;
    }
    if (errno == EACCES || errno == EAGAIN)
        refuse_locked(fd, folder, err);
    else
        err_set(err, ERR_IO, "cannot lock %s: %s; name a folder of another file system with --dir",
                path, strerror(errno));
    close(fd);
    return -1;
}

/* ---- notes ---- */

static int note_store(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    ssize_t written;
    int failure;

    if (fd < 0)
        return -1;
    written = write(fd, text, length);
    failure = written < 0 ? errno : ENOSPC;
    if (written == (ssize_t)length && fsync(fd) == 0)
        return close(fd);
    if (written == (ssize_t)length)
        failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

int alone_note_write(const char *path, const struct alone_checkpoint *checkpoint, struct err *err)
{
    char hidden[ALONE_PATH_BYTES + 32], name[ALONE_PATH_BYTES + 16], text[NOTE_BYTES];
    int length =
        snprintf(text, sizeof(text), "taken_ms=%" PRIu64 "%s\nlabel=%s\n", checkpoint->taken_ms,
                 checkpoint->damaged ? NOTE_DAMAGED : "", checkpoint->label);

    CHECK(length > 0 && (size_t)length < sizeof(text));
    snprintf(name, sizeof(name), "%s/" ALONE_NOTE, path);
    snprintf(hidden, sizeof(hidden), "%s.new", name);
    if (note_store(hidden, text, (size_t)length) == 0 && rename(hidden, name) == 0)
        return 0;
    err_set(err, ERR_IO, "%s: %s", name, strerror(errno));
    (void)unlink(hidden);
    return -1;
}

static void note_read(int folder, struct alone_checkpoint *checkpoint)
{
    char text[NOTE_BYTES] = "", label[LABEL_MAX_BYTES + 1] = "";
    int fd = openat(folder, ALONE_NOTE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    const char *at;
    uint64_t taken_ms;

    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    if (sscanf(text, "taken_ms=%" SCNu64, &taken_ms) < 1)
        return;
    checkpoint->taken_ms = taken_ms;
    checkpoint->damaged = strstr(text, NOTE_DAMAGED "\n") != NULL;
    at = strstr(text, NOTE_LABEL);
    if (at != NULL && sscanf(at, NOTE_LABEL "%64s", label) == 1 && label_valid(label))
        snprintf(checkpoint->label, sizeof(checkpoint->label), "%s", label);
}

/* ---- checkpoints ---- */

static int compare_ids(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* Its last file is there, or was once. */
static bool was_completed(int all, const char *name)
{
    char path[PATH_MAX];
    char part[PART_NAME_BYTES];

    snprintf(path, sizeof(path), "%s/%s/" MANIFEST_NAME, name, part_name_format(0, part));
    if (faccessat(all, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/" ALONE_NOTE, name);
    return faccessat(all, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The ids of the folders with such a name, rising; the caller frees them. NULL: it cannot be
 * read. */
static uint64_t *read_ids(const char *path, bool failed_too, size_t *ret_count)
{
    DIR *entries = opendir(path);
    size_t count = 0, room = 64;
    uint64_t *ids;
    struct dirent *entry;

    if (entries == NULL)
        return NULL;
    ids = check_calloc(room, sizeof(*ids));
    while ((entry = readdir(entries)) != NULL) {
        uint64_t id;

        if (checkpoint_id_parse(entry->d_name, &id) != 0 || id == 0 ||
            (!failed_too && !was_completed(dirfd(entries), entry->d_name)))
            continue;
        if (count == room)
            ids = check_realloc(ids, room *= 2, sizeof(*ids));
        ids[count++] = id;
    }
    closedir(entries);
    qsort(ids, count, sizeof(*ids), compare_ids);
    *ret_count = count;
    return ids;
}

static int read_shard(int shard, const char *label, struct alone_checkpoint *ret_checkpoint,
                      struct err *err)
{
    struct destination_summary summary;
    struct manifest manifest;
    struct stat status;
    struct buf text;
    int result;

    if (fstatat(shard, MANIFEST_NAME, &status, AT_SYMLINK_NOFOLLOW) == 0)
        ret_checkpoint->taken_ms =
            (uint64_t)status.st_mtim.tv_sec * 1000 + (uint64_t)status.st_mtim.tv_nsec / 1000000;
    manifest_init(&manifest);
    buf_init(&text);
    result = shard_read_manifest(shard, label, &text, &manifest, err);
    if (result == 0) {
        shard_summarize(&manifest, &text, &summary);
        ret_checkpoint->size_bytes = summary.size_bytes;
        snprintf(ret_checkpoint->manifest_sha256, sizeof(ret_checkpoint->manifest_sha256), "%s",
                 summary.manifest_sha256);
    }
    manifest_close(&manifest);
    buf_close(&text);
    return result;
}

static int read_checkpoint(const char *path, struct alone_checkpoint *ret_checkpoint,
                           struct err *err)
{
    char part[PART_NAME_BYTES];
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), shard;
    int result = -1;

    if (folder < 0)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    shard = shard_open(folder, part_name_format(0, part), path, err);
    if (shard >= 0) {
        result = read_shard(shard, path, ret_checkpoint, err);
        close(shard);
        note_read(folder, ret_checkpoint);
    }
    close(folder);
    if (result == 0 && ret_checkpoint->damaged)
        return err_set(err, ERR_CORRUPT,
                       "%s was found so at a start before; rm -r frees its room, and where its "
                       "storage was at fault, rm %s/" ALONE_NOTE " has it looked at again",
                       path, path);
    return result;
}

int alone_folder_read(const char *folder, struct alone_checkpoint *ret_checkpoints,
                      size_t *ret_count, alone_damaged_fn *damaged, void *data, struct err *err)
{
    char all[ALONE_PATH_BYTES], path[ALONE_PATH_BYTES + CHECKPOINT_ID_TEXT_BYTES];
    char name[CHECKPOINT_ID_TEXT_BYTES];
    size_t id_count = 0, count = 0;
    uint64_t *ids;

    snprintf(all, sizeof(all), "%.*s/" ALONE_PLACE, PATH_MAX - 1, folder);
    ids = read_ids(all, false, &id_count);
    if (ids == NULL && errno != ENOENT)
        return err_set(err, ERR_IO, "%s: %s", all, strerror(errno));
    for (size_t i = id_count > ALONE_CHECKPOINTS_MAX ? id_count - ALONE_CHECKPOINTS_MAX : 0;
         i < id_count; i++) {
        struct alone_checkpoint *checkpoint = &ret_checkpoints[count];
        struct err why = {0};

        *checkpoint = (struct alone_checkpoint){.id = ids[i]};
        snprintf(path, sizeof(path), "%s/%s", all, checkpoint_id_format(ids[i], name));
        if (read_checkpoint(path, checkpoint, &why) != 0) {
            checkpoint->damaged = true;
            damaged(data, why.text);
        }
        count++;
    }
    free(ids);
    *ret_count = count;
    return 0;
}

/* True: nothing but that, whose name is ret_mark; "": it is empty. */
static bool has_mark_alone(int checkpoint, char ret_mark[NAME_MAX + 1])
{
    const size_t prefix = sizeof(MARK_NAME) - 1;
    int copy = openat(checkpoint, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    bool alone = entries != NULL;
    struct dirent *entry;

    ret_mark[0] = '\0';
    while (alone && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        alone = ret_mark[0] == '\0' && strncmp(entry->d_name, MARK_NAME, prefix) == 0 &&
                mark_valid(entry->d_name + prefix);
        snprintf(ret_mark, NAME_MAX + 1, "%s", entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
    return alone;
}

void alone_folder_tidy(const char *folder)
{
    char all[ALONE_PATH_BYTES], name[CHECKPOINT_ID_TEXT_BYTES], mark[NAME_MAX + 1];
    size_t count = 0;
    uint64_t *ids;
    int places;

    snprintf(all, sizeof(all), "%.*s/" ALONE_PLACE, PATH_MAX - 1, folder);
    ids = read_ids(all, true, &count);
    places = open(all, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; ids != NULL && places >= 0 && i < count; i++) {
        int checkpoint = openat(places, checkpoint_id_format(ids[i], name),
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (checkpoint < 0)
            continue;
        if (has_mark_alone(checkpoint, mark) &&
            (mark[0] == '\0' || unlinkat(checkpoint, mark, 0) == 0))
            (void)unlinkat(places, name, AT_REMOVEDIR);
        close(checkpoint);
    }
    if (places >= 0)
        close(places);
    free(ids);
}

/* 0: none lies there. */
static uint64_t highest_id(const char *folder)
{
    char all[ALONE_PATH_BYTES];
    size_t count = 0;
    uint64_t id, *ids;

    snprintf(all, sizeof(all), "%.*s/" ALONE_PLACE, PATH_MAX - 1, folder);
    ids = read_ids(all, true, &count);
    id = ids == NULL || count == 0 ? 0 : ids[count - 1];
    free(ids);
    return id;
}

uint64_t alone_folder_epoch(const char *folder)
{
    return run_epoch(highest_id(folder));
}

int alone_folder_next_epoch(const char *folder, uint64_t heard, uint64_t *ret_epoch,
                            struct err *err)
{
    const uint64_t highest = highest_id(folder);
    const uint64_t epoch = run_epoch(highest);
    char name[CHECKPOINT_ID_TEXT_BYTES];

    if (epoch >= CHECKPOINT_EPOCH_MAX)
        return err_set(err, ERR_INVALID,
                       "%s/" ALONE_PLACE "/%s has the highest number that there is (%llu), so that "
                       "no later checkpoint could be told from an earlier one: move it out of that "
                       "folder, and nothing of it is lost",
                       folder, checkpoint_id_format(highest, name),
                       (unsigned long long)CHECKPOINT_EPOCH_MAX);
    if (heard >= CHECKPOINT_EPOCH_MAX)
        return err_set(err, ERR_INVALID,
                       "the journal in the work folder has come to the highest number that there "
                       "is (%llu); another --work-dir begins a new one",
                       (unsigned long long)CHECKPOINT_EPOCH_MAX);
    *ret_epoch = (heard > epoch ? heard : epoch) + 1;
    return 0;
}

static void pass_over(void *data, const char *text)
{
    (void)data, (void)text;
}

bool alone_folder_newest(const char *folder, char ret_part[ALONE_PATH_BYTES],
                         char ret_label[LABEL_MAX_BYTES + 1])
{
    struct alone_checkpoint *found = check_calloc(ALONE_CHECKPOINTS_MAX, sizeof(*found));
    char name[CHECKPOINT_ID_TEXT_BYTES], part[PART_NAME_BYTES];
    size_t count = 0;

    if (alone_folder_read(folder, found, &count, pass_over, NULL, NULL) != 0)
        count = 0;
    while (count > 0 && found[count - 1].damaged)
        count--;
    if (count > 0) {
        snprintf(ret_part, ALONE_PATH_BYTES, "%.*s/" ALONE_PLACE "/%s/%s", PATH_MAX - 1, folder,
                 checkpoint_id_format(found[count - 1].id, name), part_name_format(0, part));
        snprintf(ret_label, LABEL_MAX_BYTES + 1, "%s", found[count - 1].label);
    }
    free(found);
    return count > 0;
}

struct alone_count alone_folder_count(const char *folder)
{
    struct alone_checkpoint *found = check_calloc(ALONE_CHECKPOINTS_MAX, sizeof(*found));
    struct alone_count count = {0};
    size_t all = 0;

    if (alone_folder_read(folder, found, &all, pass_over, NULL, NULL) != 0)
        all = 0;
    for (size_t i = 0; i < all; i++)
        count.damaged += found[i].damaged;
    count.whole = all - count.damaged;
    free(found);
    return count;
}

/* ---- whose they are ---- */

static void add_text(struct buf *text, const char *word)
{
    const size_t bytes = strlen(word) + 1;

    memcpy(buf_extend(text, bytes), word, bytes);
}

/* Each text with its end, as in /proc/PID/cmdline. */
static void line_format(const struct alone_line *line, struct buf *text)
{
    CHECK(line->command[0] != NULL);
    add_text(text, line->folder);
    for (size_t i = 0; line->command[i] != NULL; i++)
        add_text(text, line->command[i]);
    if (text->length > LINE_MAX_BYTES)
        text->length = LINE_MAX_BYTES;
}

/* Its bytes; 0: none, or it cannot be read. */
static size_t line_read(const char *path, char found[LINE_MAX_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length = fd < 0 ? 0 : read(fd, found, LINE_MAX_BYTES);

    if (fd >= 0)
        close(fd);
    return length > 0 ? (size_t)length : 0;
}

/* The command for people: its words behind the folder, as far as they fit. */
static void line_show(const char *line, size_t length, char ret_text[SHOWN_BYTES])
{
    const size_t folder = strnlen(line, length);
    size_t used = 0;

    for (size_t i = folder + 1; i + 1 < length && used + 1 < SHOWN_BYTES; i++)
        ret_text[used++] = line[i] == '\0' ? ' ' : line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
    ret_text[used] = '\0';
}

static int line_refuse(const char *folder, const char *found, size_t length, const struct buf *own,
                       struct err *err)
{
    char theirs[SHOWN_BYTES], ours[SHOWN_BYTES];

    CHECK(length > 0 && own->length > 0);
    line_show(found, length, theirs);
    line_show((const char *)own->bytes, own->length, ours);
    return err_set(err, ERR_MISMATCH,
                   "%.80s has checkpoints by another command: %s, in %.50s, and this one is %s, in "
                   "%.50s; name another folder with --dir, or add --replace where this one is to "
                   "go on from them",
                   folder, theirs, found, ours, (const char *)own->bytes);
}

/* Without it the next line could not be told from another program's. */
static int line_replace(const char *path, const struct buf *text, struct err *err)
{
    char hidden[ALONE_PATH_BYTES + 8];

    CHECK(text->length > 0);
    snprintf(hidden, sizeof(hidden), "%s.new", path);
    if (note_store(hidden, (const char *)text->bytes, text->length) == 0 &&
        rename(hidden, path) == 0)
        return 0;
    err_set(err, ERR_IO,
            "%.300s: %s; nothing is started without this note of the command (%zu bytes): make "
            "room there, or name another folder with --dir",
            path, strerror(errno), text->length);
    (void)unlink(hidden);
    return -1;
}

int alone_folder_claim(const char *folder, const struct alone_line *own, bool meant,
                       struct err *err)
{
    char path[ALONE_PATH_BYTES], *found = check_calloc(1, LINE_MAX_BYTES + 1);
    struct buf text;
    size_t length;
    bool same;
    int result = 0;

    snprintf(path, sizeof(path), "%.*s/" ALONE_LINE, PATH_MAX - 1, folder);
    buf_init(&text);
    line_format(own, &text);
    length = line_read(path, found);
    same = length == text.length && memcmp(found, text.bytes, length) == 0;
    if (!same && !meant && length > 0 && alone_folder_epoch(folder) > 0)
        result = line_refuse(folder, found, length, &text, err);
    else if (!same)
        result = line_replace(path, &text, err);
    buf_close(&text);
    free(found);
    return result;
}
