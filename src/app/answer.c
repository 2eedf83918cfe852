/* The done file: written beside its place and renamed. See handle.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/app/handle.h"

enum { ANSWER_BYTES = 512, NAME_BYTES = PATH_BYTES + 64 };

/* work/PREFIX + the number of the rank */
static const char *name_put(const struct ckpt *ckpt, const char *prefix, char bytes[NAME_BYTES])
{
    struct ckptapp_text name = {bytes, NAME_BYTES, 0, false};

    ckptapp_put(&name, ckpt->work);
    ckptapp_put(&name, prefix);
    ckptapp_put_number(&name, (uint64_t)ckpt->rank.rank);
    return bytes;
}

static int answer_open(const struct ckpt *ckpt)
{
    char name[NAME_BYTES];
    int file;

    name_put(ckpt, "/.done.", name);
    do
        file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    while (file < 0 && errno == EINTR);
    return file;
}

/* From the file's beginning, so that an answer lies over the blanks that were reserved for it. */
static int write_whole(int file, const char *bytes, size_t length)
{
    size_t at = 0;

    while (at < length) {
        ssize_t written = pwrite(file, bytes + at, length - at, (off_t)at);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return -1;
        }
        at += (size_t)written;
    }
    return 0;
}

void ckptapp_answer_reserve(const struct ckpt *ckpt)
{
    char blanks[ANSWER_BYTES];
    int file = answer_open(ckpt);

    if (file < 0)
        return; /* the answer will say why */
    memset(blanks, ' ', sizeof(blanks));
    write_whole(file, blanks, sizeof(blanks));
    close(file);
}

static void put_line(struct ckptapp_text *text, const char *key, uint64_t number)
{
    ckptapp_put(text, key);
    ckptapp_put_number(text, number);
    ckptapp_put(text, "\n");
}

int ckptapp_answer_write(struct ckpt *ckpt, const char *status, const char *label, uint64_t bytes)
{
    char content[ANSWER_BYTES], from[NAME_BYTES], to[NAME_BYTES];
    struct ckptapp_text text = {content, sizeof(content), 0, false};
    int file, outcome;

    ckptapp_put(&text, "hint=");
    ckptapp_put(&text, ckpt->saved.hint);
    put_line(&text, "\nbytes=", bytes);
    ckptapp_put(&text, "status=");
    ckptapp_put(&text, status);
    ckptapp_put(&text, "\n");
    if (*label != '\0') {
        ckptapp_put(&text, "step=");
        ckptapp_put(&text, label);
        ckptapp_put(&text, "\n");
    }
    if (ckpt->saved_at_ms != 0)
        put_line(&text, "saved_at=", ckpt->saved_at_ms);
    /* 0 would say that it is not told, and the time since the question would count */
    put_line(&text, "stall_ms=", (ckptapp_now_ns() - ckpt->saving_since_ns) / 1000000 + 1);
    file = answer_open(ckpt);
    if (file < 0)
        return -1;
    outcome = write_whole(file, content, text.length);
    if (outcome == 0)
        outcome = ftruncate(file, (off_t)text.length);
    int failed = errno;
    if (close(file) != 0 && outcome == 0)
        return -1;
    errno = failed;
    return outcome != 0 ? -1
                        : rename(name_put(ckpt, "/.done.", from), name_put(ckpt, "/done.", to));
}
