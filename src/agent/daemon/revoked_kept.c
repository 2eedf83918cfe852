/* See revoked_kept.h. */
#include "src/agent/daemon/revoked_kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"

#define FILE_NAME "revoked"
#define FILE_NEW  "revoked.new"

struct revoked_kept {
    char *folder;
    struct tls_context *context;
    const struct clock_ops *clock;
    struct clock_timer *timer;
    void (*changed)(void *data);
    void *data;
    uint64_t hash;
};

/* ---- the file ---- */

static bool is_serial(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && length < TLS_SERIAL_BYTES && strspn(text, "0123456789abcdef") == length;
}

/* The lines of a file. False: it is no list. */
static bool read_lines(FILE *file, char serials[][TLS_SERIAL_BYTES], size_t *ret_count,
                       uint64_t *ret_hash)
{
    char line[TLS_SERIAL_BYTES + 1];

    *ret_count = 0;
    if (fscanf(file, "hash %20" SCNu64, ret_hash) != 1 || fgetc(file) != '\n')
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *end = strchr(line, '\n');

        if (end == NULL || *ret_count == TLS_REVOKED_MAX)
            return false;
        *end = '\0';
        if (!is_serial(line))
            return false;
        snprintf(serials[(*ret_count)++], TLS_SERIAL_BYTES, "%s", line);
    }
    return ferror(file) == 0;
}

static void use_list(struct revoked_kept *kept, const char *const *serials, size_t count,
                     uint64_t hash)
{
    tls_context_revoke(kept->context, serials, count);
    kept->hash = hash;
}

static void read_file(struct revoked_kept *kept)
{
    char(*serials)[TLS_SERIAL_BYTES] = check_calloc(TLS_REVOKED_MAX, sizeof(*serials));
    const char *pointers[TLS_REVOKED_MAX];
    struct buf path = {0};
    uint64_t hash = 0;
    size_t count = 0;
    FILE *file;

    buf_printf(&path, "%s/" FILE_NAME, kept->folder);
    buf_append(&path, "", 1);
    file = fopen((const char *)path.bytes, "re");
    if (file == NULL && errno != ENOENT)
        log_warning("revoked_unread", "path=%s text=\"%s\"", path.bytes, strerror(errno));
    if (file != NULL && !read_lines(file, serials, &count, &hash))
        log_warning("revoked_unread", "path=%s text=\"it is no list; the leader sends it again\"",
                    path.bytes);
    else if (file != NULL) {
        for (size_t i = 0; i < count; i++)
            pointers[i] = serials[i];
        use_list(kept, pointers, count, hash);
    }
    if (file != NULL)
        fclose(file);
    buf_close(&path);
    free(serials);
}

/* 0, or -1 with errno. */
static int write_new(int folder, const void *bytes, size_t length)
{
    int fd = openat(folder, FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code;
    bool good;

    if (fd < 0)
        return -1;
    good = write(fd, bytes, length) == (ssize_t)length && fdatasync(fd) == 0;
    code = errno;
    close(fd);
    errno = code;
    return good && renameat(folder, FILE_NEW, folder, FILE_NAME) == 0 ? fsync(folder) : -1;
}

static void write_file(struct revoked_kept *kept, const Ckpt__V1__RevokedSerials *list)
{
    int folder = open(kept->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct buf text = {0};

    buf_printf(&text, "hash %" PRIu64 "\n", list->hash);
    for (size_t i = 0; i < list->n_serials; i++)
        buf_printf(&text, "%s\n", list->serials[i]);
    if (folder < 0 || write_new(folder, text.bytes, text.length) != 0)
        log_warning("revoked_unwritten",
                    "folder=%s text=\"%s: the list counts until this agent ends\"", kept->folder,
                    strerror(errno));
    if (folder >= 0)
        close(folder);
    buf_close(&text);
}

/* ---- lists ---- */

/* Not from inside the connection that brought the list. */
static void on_timer(void *data)
{
    struct revoked_kept *kept = data;

    kept->changed(kept->data);
}

struct revoked_kept *revoked_kept_open(const char *state_dir, struct tls_context *context,
                                       const struct clock_ops *clock, void (*changed)(void *data),
                                       void *data)
{
    struct revoked_kept *kept;

    if (context == NULL)
        return NULL;
    kept = check_calloc(1, sizeof(*kept));
    kept->folder = check_strdup(state_dir);
    kept->context = context;
    kept->clock = clock;
    kept->changed = changed;
    kept->data = data;
    kept->timer = clock->timer_new(clock->context, on_timer, kept);
    read_file(kept);
    return kept;
}

void revoked_kept_free(struct revoked_kept *kept)
{
    if (kept == NULL)
        return;
    kept->clock->timer_free(kept->timer);
    free(kept->folder);
    free(kept);
}

uint64_t revoked_kept_hash(const struct revoked_kept *kept)
{
    return kept == NULL ? 0 : kept->hash;
}

void revoked_kept_take(struct revoked_kept *kept, const Ckpt__V1__RevokedSerials *list)
{
    const char *serials[TLS_REVOKED_MAX];

    if (kept == NULL || list->hash == kept->hash)
        return;
    for (size_t i = 0; i < list->n_serials; i++) {
        if (i == TLS_REVOKED_MAX || !is_serial(list->serials[i])) {
            log_error("revoked_wrong", "count=%zu limit=%d text=\"the list is not taken\"",
                      list->n_serials, TLS_REVOKED_MAX);
            return;
        }
        serials[i] = list->serials[i];
    }
    write_file(kept, list);
    use_list(kept, serials, list->n_serials, list->hash);
    log_info("revoked_taken", "certificates=%zu", list->n_serials);
    kept->clock->timer_start(kept->timer, 0);
}
