/* Signs that a program has saved. See run_output_line.h. */
#include "src/agent/run/run_output_line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"

enum { LINE_MAX_BYTES = 4096, CHUNK_BYTES = 65536 };

static struct {
    const char *text; /* NULL: none is looked for */
    int from, to;     /* -1: none */
    char line[LINE_MAX_BYTES + 1];
    size_t length;
    bool seen;
} output = {.from = -1, .to = -1};

void output_line_open(const char *text)
{
    int ends[2];

    output.text = text;
    if (text == NULL)
        return;
    if (output.from >= 0)
        close(output.from);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    output.from = ends[0];
    output.to = ends[1];
    output.length = 0;
    output.seen = false;
}

void output_line_become(void)
{
    if (output.text != NULL)
        CHECK(dup2(output.to, STDOUT_FILENO) == STDOUT_FILENO);
}

void output_line_begun(void)
{
    if (output.to >= 0)
        close(output.to);
    output.to = -1;
}

uint64_t output_line_now_ms(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void look_at_byte(char byte)
{
    if (byte != '\n') {
        if (output.length < LINE_MAX_BYTES && byte != '\0')
            output.line[output.length++] = byte;
        return;
    }
    output.line[output.length] = '\0';
    output.length = 0;
    output.seen = output.seen || strstr(output.line, output.text) != NULL;
}

static void pass_on(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        look_at_byte(bytes[i]);
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);

        if (written < 0 && errno != EINTR)
            return; /* nobody reads it any more */
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
}

/* False: nothing is there just now. */
static bool pass_some(void)
{
    static char bytes[CHUNK_BYTES];
    ssize_t got = read(output.from, bytes, sizeof(bytes));

    if (got > 0)
        pass_on(bytes, (size_t)got);
    if (got == 0) { /* the program and all that it has started have closed it */
        close(output.from);
        output.from = -1;
    }
    return got > 0;
}

void output_line_drain(void)
{
    while (output.from >= 0 && pass_some())
        ;
}

void output_line_wait(uint64_t end_ms, const int *wakes, size_t count)
{
    struct pollfd readable[1 + OUTPUT_LINE_WAKES_MAX];
    bool woken = false;

    CHECK(count <= OUTPUT_LINE_WAKES_MAX);
    for (uint64_t now_ms = output_line_now_ms(); now_ms < end_ms && !woken;
         now_ms = output_line_now_ms()) {
        readable[0] = (struct pollfd){.fd = output.from, .events = POLLIN};
        for (size_t i = 0; i < count; i++)
            readable[1 + i] = (struct pollfd){.fd = wakes[i], .events = POLLIN};
        if (poll(readable, 1 + count, (int)(end_ms - now_ms)) <= 0)
            continue;
        for (size_t i = 0; i < count; i++)
            woken = woken || readable[1 + i].revents != 0;
        if (readable[0].revents != 0)
            (void)pass_some();
    }
}

bool output_line_seen(void)
{
    return output.seen;
}

void output_line_forget(void)
{
    output.seen = false;
}

/* ---- the tracker ---- */

bool tracker_newer(const char *path, const struct timespec *since)
{
    struct stat stat_of;

    CHECK(path != NULL);
    return stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode) &&
           (stat_of.st_mtim.tv_sec > since->tv_sec ||
            (stat_of.st_mtim.tv_sec == since->tv_sec && stat_of.st_mtim.tv_nsec > since->tv_nsec));
}

void tracker_label(const char *path, char ret_label[LABEL_MAX_BYTES + 1])
{
    char line[LABEL_MAX_BYTES + 2];
    FILE *file = fopen(path, "re");

    ret_label[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (label_valid(line))
            text_copy(ret_label, LABEL_MAX_BYTES + 1, line);
    }
    fclose(file);
}
