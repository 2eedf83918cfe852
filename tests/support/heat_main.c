/* heat: a real iterative program with state, for tests and the demo: 2-D heat conduction by Jacobi
 * iteration.
 *
 * Flow     restore from $CKPT_RESTORE_DIR when set; iterate; SIGUSR1 sets a flag, and after the
 *          iteration $CKPT_DIR/request tells where to write grid and iteration; then $CKPT_DIR/done
 *          by rename. The result goes to --output by rename.
 * Shapes   an N x N grid of doubles, swept in one fixed order: the result is the same to the bit,
 *          however often it was interrupted.
 * Errors   a checkpoint that cannot be written is told by status=... in the sentinel; the
 *          computation goes on.
 * Absent   threads, MPI: one process computes the whole grid.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, PIECES = 20, SIZE_MAX_CELLS = 20000 };
static const uint64_t state_magic = UINT64_C(0x3130545448414548); /* "HEATTT01" */

static struct options {
    uint32_t size;
    uint64_t iterations;
    uint64_t delay_us;
    const char *output;
    bool ignore;      /* catches the signal, never writes */
    bool no_handler;  /* dies from the signal */
    bool ignore_term; /* SIGTERM changes nothing */
    bool empty;       /* says done, writes nothing */
    uint64_t slow_ms; /* writes in pieces over this time */
    const char *hold; /* waits in the middle of a write as long as this file is there */
    int fail_status;  /* says this status */
} options = {.size = 128, .iterations = 1000};

static volatile sig_atomic_t asked;
static volatile sig_atomic_t told_to_stop;

struct state {
    uint64_t iteration;
    double *grid;
    double *next;
};

struct state_head {
    uint64_t magic;
    uint64_t size;
    uint64_t iteration;
    uint64_t checksum;
};

static void on_ask(int number)
{
    (void)number;
    asked = 1;
}

static void on_term(int number)
{
    (void)number;
    told_to_stop = 1;
}

static void pause_us(uint64_t delay_us)
{
    struct timespec left = {(time_t)(delay_us / 1000000), (long)(delay_us % 1000000) * 1000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR && !asked && !told_to_stop)
        ;
}

static size_t cells(void)
{
    return (size_t)options.size * options.size;
}

static uint64_t checksum(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        sum = (sum ^ at[i]) * UINT64_C(1099511628211);
    return sum;
}

/* ---- the computation ---- */

static void initialise(struct state *state)
{
    for (size_t i = 0; i < cells(); i++)
        state->grid[i] = 0;
    for (uint32_t i = 0; i < options.size; i++) {
        state->grid[i] = 100.0; /* the hot edge */
        state->grid[(size_t)i * options.size] = 50.0 + i % 7;
    }
    memcpy(state->next, state->grid, cells() * sizeof(double));
}

static void iterate(struct state *state)
{
    size_t n = options.size;
    double *swap = state->grid;

    for (size_t row = 1; row + 1 < n; row++) {
        for (size_t column = 1; column + 1 < n; column++) {
            const double *at = state->grid + row * n + column;
            state->next[row * n + column] = 0.25 * (at[-1] + at[1] + *(at - n) + at[n]);
        }
    }
    state->grid = state->next;
    state->next = swap;
    state->iteration++;
}

/* ---- files ---- */

static int write_piece(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length > 0) {
        ssize_t written = write(fd, at, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        at += written;
        length -= (size_t)written;
    }
    return 0;
}

/* Slow writers write and wait in turn, so that somebody who looks sees the file grow. */
static int write_grid(int fd, const struct state *state)
{
    size_t total = cells() * sizeof(double);
    size_t step = options.slow_ms > 0 ? total / PIECES + 1 : total;

    for (size_t at = 0; at < total; at += step) {
        size_t length = total - at < step ? total - at : step;
        if (write_piece(fd, (const char *)state->grid + at, length) != 0)
            return -1;
        for (uint64_t waited = 0; waited < options.slow_ms / PIECES; waited += 5)
            nanosleep(&(struct timespec){0, 5000000}, NULL);
        while (options.hold != NULL && access(options.hold, F_OK) == 0)
            nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return 0;
}

static int save_file(const char *path, const struct state *state, const struct state_head *head)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int failed;

    if (fd < 0)
        return -1;
    failed =
        write_piece(fd, head, sizeof(*head)) != 0 || write_grid(fd, state) != 0 || fsync(fd) != 0;
    return close(fd) != 0 || failed ? -1 : 0;
}

static int save_text(const char *folder, const char *name, const char *text)
{
    char temporary[PATH_BYTES + 128];
    char path[PATH_BYTES + 128];
    FILE *file;
    int failed;

    snprintf(temporary, sizeof(temporary), "%s/%s.new", folder, name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(temporary, "we");
    if (file == NULL)
        return -1;
    failed = fputs(text, file) < 0 || fflush(file) != 0 || fsync(fileno(file)) != 0;
    if (fclose(file) != 0 || failed)
        return -1;
    return rename(temporary, path);
}

static int save_state(const char *directory, const struct state *state, uint64_t *ret_bytes)
{
    const struct state_head head = {state_magic, options.size, state->iteration,
                                    checksum(state->grid, cells() * sizeof(double))};
    char path[PATH_BYTES + 128];
    char text[64];

    snprintf(path, sizeof(path), "%s/grid.bin", directory);
    snprintf(text, sizeof(text), "iteration=%" PRIu64 "\n", state->iteration);
    if (save_file(path, state, &head) != 0 || save_text(directory, "iteration.txt", text) != 0)
        return -1;
    *ret_bytes = sizeof(head) + cells() * sizeof(double) + strlen(text);
    return 0;
}

/* A word as a shell reads it: in single quotes where it has more than letters and digits. */
static void read_word(const char *word, char *ret_text, size_t size)
{
    bool quoted = false;
    size_t length = 0;

    for (; *word != '\0' && length + 1 < size; word++) {
        if (*word == '\'')
            quoted = !quoted;
        else if (*word != '\\' || quoted || word[1] == '\0')
            ret_text[length++] = *word;
        else
            ret_text[length++] = *++word;
    }
    ret_text[length] = '\0';
}

static bool read_request(const char *work_dir, char hint[128], char directory[PATH_BYTES])
{
    char path[PATH_BYTES + 128];
    char line[4 * PATH_BYTES + 32];
    FILE *file;

    hint[0] = '\0';
    directory[0] = '\0';
    snprintf(path, sizeof(path), "%s/request", work_dir);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "hint=", 5) == 0)
            snprintf(hint, 128, "%.127s", line + 5);
        else if (strncmp(line, "directory=", 10) == 0)
            read_word(line + 10, directory, PATH_BYTES);
    }
    fclose(file);
    return hint[0] != '\0' && directory[0] != '\0';
}

/* Else each node has a plate of its own, of whatever step. */
static bool computes_alone(void)
{
    const char *parts = getenv("CKPT_PARTS");

    return parts == NULL || strcmp(parts, "1") == 0;
}

static void checkpoint(const struct state *state)
{
    const char *work_dir = getenv("CKPT_DIR");
    char directory[PATH_BYTES];
    char hint[128];
    char text[512];
    uint64_t bytes = 0;
    int status = options.fail_status;

    asked = 0;
    if (work_dir == NULL || options.ignore || !read_request(work_dir, hint, directory))
        return;
    if (!options.empty && status == 0 && save_state(directory, state, &bytes) != 0)
        status = errno != 0 ? errno : EIO;
    snprintf(text, sizeof(text), "hint=%s\nbytes=%" PRIu64 "\nstatus=%d\n%s", hint, bytes, status,
             computes_alone() ? "" : "step=unordered\n");
    if (save_text(work_dir, "done", text) != 0)
        perror("heat: done");
}

static int restore(struct state *state, const char *folder)
{
    struct state_head head;
    char path[PATH_BYTES + 128];
    FILE *file;
    bool right;

    snprintf(path, sizeof(path), "%s/grid.bin", folder);
    file = fopen(path, "re");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    right = fread(&head, sizeof(head), 1, file) == 1 && head.magic == state_magic &&
            head.size == options.size &&
            fread(state->grid, sizeof(double), cells(), file) == cells() &&
            checksum(state->grid, cells() * sizeof(double)) == head.checksum;
    fclose(file);
    if (!right) {
        fprintf(stderr, "heat: %s is not a checkpoint of this grid\n", path);
        return -1;
    }
    state->iteration = head.iteration;
    memcpy(state->next, state->grid, cells() * sizeof(double));
    return 0;
}

static int save_result(const struct state *state)
{
    char temporary[PATH_BYTES + 128];
    FILE *file;
    int failed;

    if (options.output == NULL)
        return 0;
    snprintf(temporary, sizeof(temporary), "%s.new", options.output);
    file = fopen(temporary, "we");
    if (file == NULL)
        return -1;
    failed =
        fprintf(file,
                "iterations=%" PRIu64 "\nsize=%" PRIu32 "\nchecksum=%016" PRIx64 "\ncentre=%.17g\n",
                state->iteration, options.size, checksum(state->grid, cells() * sizeof(double)),
                state->grid[cells() / 2 + options.size / 2]) < 0;
    if (fclose(file) != 0 || failed)
        return -1;
    return rename(temporary, options.output);
}

/* ---- start ---- */

static const char usage[] =
    "usage: heat [--size N] [--iterations N] [--delay-us N] [--output FILE]\n"
    "            [--slow-ms N] [--hold FILE] [--ignore] [--no-handler] [--ignore-term] "
    "[--fail-status N] "
    "[--empty]\n";

static bool take_option(int option)
{
    switch (option) {
    case 's':
        options.size = (uint32_t)strtoul(optarg, NULL, 10);
        return options.size >= 3 && options.size <= SIZE_MAX_CELLS;
    case 'i':
        options.iterations = strtoull(optarg, NULL, 10);
        return true;
    case 'd':
        options.delay_us = strtoull(optarg, NULL, 10);
        return true;
    case 'o':
        options.output = optarg;
        return true;
    case 'w':
        options.slow_ms = strtoull(optarg, NULL, 10);
        return true;
    case 'h':
        options.hold = optarg;
        return true;
    case 'f':
        options.fail_status = (int)strtol(optarg, NULL, 10);
        return true;
    case 'g':
        options.ignore = true;
        return true;
    case 'n':
        options.no_handler = true;
        return true;
    case 't':
        options.ignore_term = true;
        return true;
    case 'e':
        options.empty = true;
        return true;
    default:
        return false;
    }
}

static bool parse(int argc, char **argv)
{
    static const struct option table[] = {{"size", required_argument, NULL, 's'},
                                          {"iterations", required_argument, NULL, 'i'},
                                          {"delay-us", required_argument, NULL, 'd'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"slow-ms", required_argument, NULL, 'w'},
                                          {"hold", required_argument, NULL, 'h'},
                                          {"fail-status", required_argument, NULL, 'f'},
                                          {"ignore", no_argument, NULL, 'g'},
                                          {"no-handler", no_argument, NULL, 'n'},
                                          {"ignore-term", no_argument, NULL, 't'},
                                          {"empty", no_argument, NULL, 'e'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (!take_option(option))
            return false;
    }
    return optind == argc;
}

static void handle_signals(void)
{
    struct sigaction action = {.sa_flags = SA_RESTART};

    action.sa_handler = on_ask;
    if (!options.no_handler)
        sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = options.ignore_term ? SIG_IGN : on_term;
    sigaction(SIGTERM, &action, NULL);
}

int main(int argc, char **argv)
{
    struct state state = {0};
    const char *restore_dir = getenv("CKPT_RESTORE_DIR");

    if (!parse(argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    handle_signals();
    state.grid = calloc(cells(), sizeof(double));
    state.next = calloc(cells(), sizeof(double));
    if (state.grid == NULL || state.next == NULL) {
        perror("heat: grid");
        return 1;
    }
    initialise(&state);
    if (restore_dir != NULL && restore(&state, restore_dir) != 0)
        return 1;
    fprintf(stderr, "heat: pid %d starts at iteration %" PRIu64 "\n", (int)getpid(),
            state.iteration);
    while (state.iteration < options.iterations && !told_to_stop) {
        iterate(&state);
        if (options.delay_us > 0)
            pause_us(options.delay_us);
        if (asked)
            checkpoint(&state);
    }
    if (told_to_stop) {
        free(state.grid);
        free(state.next);
        return 128 + SIGTERM;
    }
    if (save_result(&state) != 0) {
        perror("heat: output");
        return 1;
    }
    free(state.grid);
    free(state.next);
    return 0;
}
