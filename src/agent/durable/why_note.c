/* Why something of a job has failed. See why_note.h. */
#include "src/agent/durable/why_note.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"

static void name_file(const struct why_note *note, char path[PATH_MAX])
{
    CHECK(note->work_dir != NULL && note->name[0] != '\0');
    snprintf(path, PATH_MAX, "%.4000s/%.60s", note->work_dir, note->name);
}

void why_note_leave(const struct why_note *note, const char *text)
{
    char path[PATH_MAX];
    int fd;

    name_file(note, path);
    (void)unlink(path);
    if (text[0] == '\0')
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (write(fd, text, strlen(text)) < 0)
        (void)unlink(path);
    close(fd);
}

char *why_note_take(const struct why_note *note, const char *first, char *ret_why, size_t size)
{
    char path[PATH_MAX], text[WHY_NOTE_BYTES];
    const size_t length = strlen(first);
    ssize_t got;
    int fd;

    CHECK(size > 0);
    ret_why[0] = '\0';
    name_file(note, path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return ret_why;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    (void)unlink(path);
    text[got < 0 ? 0 : got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, first, length) == 0)
        (void)text_shown(text + length, ret_why, size);
    return ret_why;
}
