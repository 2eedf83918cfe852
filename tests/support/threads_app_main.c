/* Ranks with threads that mix a table of numbers: one rank on each node, which has a stretch of the
 * table, each thread a share of that.
 *
 *     threads_app CELLS STEPS THREADS [MS_PER_STEP] [FOLDER] [SLOW_RANK SLOW_STEP SLOW_MS]
 *                 [SILENT_RANK SILENT_STEP]
 *
 * A cell's next number needs the cell after it: each part sends its first one to the part before
 * it, around a ring of sockets; their ports stand in FOLDER, which all nodes see. The first thread
 * calls the library between two steps, while the others wait for it, and saves the stretch: where
 * it is asked when it is alone, at the step of ckpt_barrier() with others. The result is printed by
 * part 0, and is the same with any number of parts, threads and restarts.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/support/program.h"

enum { THREADS_MAX = 64 };

static uint64_t cells, steps, first_step, pause_ms, threads;
static uint64_t part, parts, first, count;   /* this part's stretch of the table */
static uint64_t *now, *next;                 /* the stretch, and one cell of the part after it */
static int to_before = -1, from_behind = -1; /* neighbours in the ring */
static const char *folder;
static uint64_t slow_rank, slow_step, slow_ms, silent_rank, silent_step;
static pthread_barrier_t together;
static struct ckpt *ckpt;

/* ---- the ring ---- */

static void port_path(char *path, size_t size, const char *before, uint64_t number)
{
    snprintf(path, size, "%s/%sport.%s.%" PRIu64, folder, before, getenv("CKPT_RUN"), number);
}

static void port_tell(uint16_t port)
{
    char fresh[4096], path[4096];
    FILE *file;

    port_path(fresh, sizeof(fresh), ".", part);
    port_path(path, sizeof(path), "", part);
    file = fopen(fresh, "w");
    if (file == NULL || fprintf(file, "%u\n", port) < 0 || fclose(file) != 0 ||
        rename(fresh, path) != 0)
        program_fail("cannot write", path);
}

static uint16_t port_of(uint64_t number)
{
    char path[4096];
    unsigned port = 0;
    FILE *file;

    port_path(path, sizeof(path), "", number);
    for (int i = 0; i < 6000 && access(path, R_OK) != 0; i++)
        wait_ms(10);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%u", &port) != 1)
        program_fail("no port in", path);
    fclose(file);
    return (uint16_t)port;
}

static void ring_open(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {60, 0};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)); /* of accept */
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        program_fail("cannot listen", "");
    port_tell(ntohs(address.sin_port));
    address.sin_port = htons(port_of((part + parts - 1) % parts));
    to_before = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(to_before, (struct sockaddr *)&address, sizeof(address)) != 0)
        program_fail("cannot connect to the part before this one", "");
    from_behind = accept(listener, NULL, NULL);
    if (from_behind < 0)
        program_fail("the part behind this one does not come", "");
    patience.tv_sec = 0;
    setsockopt(from_behind, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    close(listener);
}

static void ring_send(const uint64_t *numbers, uint64_t n)
{
    const char *at = (const char *)numbers;
    size_t left = (size_t)n * sizeof(*numbers);

    while (left > 0) {
        ssize_t sent = send(to_before, at, left, MSG_NOSIGNAL);
        if (sent <= 0)
            program_fail("the part before this one is gone", "");
        at += sent;
        left -= (size_t)sent;
    }
}

static void ring_receive(uint64_t *numbers, uint64_t n)
{
    size_t length = (size_t)n * sizeof(*numbers);

    if (length > 0 && recv(from_behind, numbers, length, MSG_WAITALL) != (ssize_t)length)
        program_fail("the part behind this one is gone", "");
}

/* now[count] becomes the first cell of the part behind. */
static void ring_exchange(void)
{
    if (parts == 1) {
        now[count] = now[0];
        return;
    }
    ring_send(now, 1);
    ring_receive(&now[count], 1);
}

/* Each part hands on what it has and what those behind it had. */
static void table_result(void)
{
    uint64_t behind = part == 0 ? cells - count : cells - first - count;
    uint64_t *table = calloc(count + behind, sizeof(*table));

    if (table == NULL)
        program_fail("no memory", "");
    memcpy(table, now, (size_t)count * sizeof(*table));
    if (part + 1 < parts)
        ring_receive(&table[count], behind);
    if (part > 0)
        ring_send(table, count + behind);
    else
        printf("result %016" PRIx64 "\n", hash_of(table, cells * sizeof(*table)));
    free(table);
}

/* ---- steps ---- */

static void save(uint64_t step)
{
    struct piece piece = {step, first, count, sizeof(*now)};
    uint64_t bytes;

    if (piece_save(ckpt_directory(ckpt), &piece, now, &bytes) != 0)
        ckpt_failed(ckpt, "cannot write the cells");
    else if (ckpt_done(ckpt, step, bytes) != 0)
        fprintf(stderr, "not saved: %s\n", ckpt_error(ckpt));
}

/* A silent rank calls the library no more from that step on, unless it was restarted. */
static bool is_silent(uint64_t step)
{
    return part == silent_rank && step >= silent_step && silent_step > 0 && first_step == 1;
}

/* The first thread's, alone. */
static void step_begin(uint64_t step)
{
    if (!is_silent(step) && (parts == 1 ? ckpt_poll(ckpt) : ckpt_barrier(ckpt, step)) == CKPT_NOW)
        save(step);
    ring_exchange();
}

static void step_end(uint64_t step)
{
    uint64_t *swap = now;

    now = next;
    next = swap;
    wait_ms(pause_ms);
    if (part == slow_rank && step == slow_step) {
        program_mark(folder, "slow", "");
        wait_ms(slow_ms);
    }
    if (is_silent(step))
        program_mark(folder, "silent", "");
}

static void *compute(void *data)
{
    uint64_t self = (uint64_t)(uintptr_t)data;

    for (uint64_t step = first_step; step <= steps; step++) {
        if (self == 0)
            step_begin(step);
        pthread_barrier_wait(&together);
        for (uint64_t i = count * self / threads; i < count * (self + 1) / threads; i++)
            next[i] = (now[i] ^ now[i + 1] >> 7) * UINT64_C(6364136223846793005) + step;
        pthread_barrier_wait(&together);
        if (self == 0)
            step_end(step);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void compute_all(void)
{
    pthread_t others[THREADS_MAX];

    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (uint64_t i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, compute, (void *)(uintptr_t)i) != 0)
            program_fail("no thread", "");
    compute(NULL);
    for (uint64_t i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
}

/* ---- start ---- */

static uint64_t environment_number(const char *name, uint64_t usual)
{
    const char *text = getenv(name);

    return text == NULL ? usual : strtoull(text, NULL, 10);
}

static void arguments_read(int argc, char **argv)
{
    cells = argument(argc, argv, 1, 1000);
    steps = argument(argc, argv, 2, 1000);
    threads = argument(argc, argv, 3, 4);
    pause_ms = argument(argc, argv, 4, 0);
    folder = argc > 5 ? argv[5] : NULL;
    slow_rank = argument(argc, argv, 6, 0);
    slow_step = argument(argc, argv, 7, 0);
    slow_ms = argument(argc, argv, 8, 0);
    silent_rank = argument(argc, argv, 9, 0);
    silent_step = argument(argc, argv, 10, 0);
    part = environment_number("CKPT_PART", 0);
    parts = environment_number("CKPT_PARTS", 1);
    first = cells * part / parts;
    count = cells * (part + 1) / parts - first;
    if (threads == 0 || threads > THREADS_MAX || count < threads)
        program_fail("too many threads or parts", "");
    if (parts > 1 && folder == NULL)
        program_fail("several parts need a folder that all nodes see", "");
}

/* The launcher of this program is ckpt-run alone, so the number of its rank is that of its part. */
static void library_open(void)
{
    struct ckpt_options options = CKPT_OPTIONS;
    struct piece wanted = {0, first, count, sizeof(*now)};

    options.rank = (int64_t)part;
    options.ranks = (uint32_t)parts;
    options.local_rank = 0;
    options.local_ranks = 1;
    ckpt = ckpt_open(parts > 1 ? &options : NULL);
    first_step = pieces_load(ckpt, &wanted, now);
}

int main(int argc, char **argv)
{
    arguments_read(argc, argv);
    if (folder != NULL)
        mkdir(folder, 0755);
    program_alone(folder, part);
    now = calloc(count + 1, sizeof(*now));
    next = calloc(count + 1, sizeof(*next));
    if (now == NULL || next == NULL)
        program_fail("no memory", "");
    for (uint64_t i = 0; i < count; i++)
        now[i] = first + i;
    library_open();
    if (parts > 1)
        ring_open();
    compute_all();
    table_result();
    ckpt_close(ckpt);
    free(now);
    free(next);
    return 0;
}
