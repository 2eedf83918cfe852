/* A history as a text file: one fact per line, words between single spaces. See whatif.h; the
 * format is in README.md, "Histories".
 *
 * Errors   each names the file, the line and what is wrong with it; nothing is taken from a file
 *          that is wrong anywhere.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/whatif/whatif.h"

enum { LINE_BYTES = 512, WORDS_MAX = 9, JOBS_MAX = 2000000, EVENTS_MAX = 10000000 };

#define MAGIC "ckpt-history 1"

static const char *const happenings[WHATIF_HAPPENING_COUNT] = {
    [WHATIF_FAILURE] = "failure",       [WHATIF_KILL] = "kill",
    [WHATIF_YIELD] = "yield",           [WHATIF_STORAGE_DOWN] = "storage-down",
    [WHATIF_STORAGE_UP] = "storage-up", [WHATIF_QUEUE_BUSY] = "queue-busy",
    [WHATIF_QUEUE_CALM] = "queue-calm"};

/* Storage is one for all jobs: its events name nobody. */
static bool has_subject(enum whatif_happening what)
{
    return what != WHATIF_STORAGE_DOWN && what != WHATIF_STORAGE_UP;
}

/* ---- writing ---- */

static void write_job(FILE *out, const struct whatif_history_job *job)
{
    fprintf(out, "job %.3f ", job->from_s);
    if (job->to_s >= WHATIF_NEVER_S)
        fputs("-", out);
    else
        fprintf(out, "%.3f", job->to_s);
    fprintf(out, " %" PRIu32 " %.17g %.17g %.17g %" PRIu32 "\n", job->nodes, job->gpus,
            job->size_bytes, job->bytes_per_s, job->queue);
}

void whatif_history_write(FILE *out, const struct whatif_scenario *scenario,
                          const struct whatif_history *history)
{
    fputs(MAGIC "\n"
                "# window SECONDS UNIX_MS; set NUMBER VALUE; job FROM_S TO_S NODES GPUS BYTES "
                "BYTES_PER_S QUEUE; event AT_S WHAT [JOB or QUEUE]\n",
          out);
    fprintf(out, "window %.3f %" PRIu64 "\n", history->seconds, history->from_ms);
#define X(number) fprintf(out, "set " #number " %.17g\n", scenario->number);
    WHATIF_HISTORY_NUMBERS(X)
#undef X
    for (size_t i = 0; i < history->job_count; i++)
        write_job(out, &history->jobs[i]);
    for (size_t i = 0; i < history->event_count; i++) {
        const struct whatif_history_event *event = &history->events[i];

        fprintf(out, "event %.3f %s", event->at_s, happenings[event->what]);
        if (has_subject(event->what))
            fprintf(out, " %" PRIu32, event->job);
        fputc('\n', out);
    }
}

/* ---- reading ---- */

struct reader {
    const char *name;
    size_t line;
    struct whatif_scenario scenario;
    double seconds;
    uint64_t from_ms;
    bool window;
    struct whatif_history_job *jobs;
    struct whatif_history_event *events;
    size_t job_count, job_room, event_count, event_room;
    char text[LINE_BYTES];
    char *words[WORDS_MAX];
    size_t word_count;
};

static int reader_refuse(const struct reader *reader, const char *what, const char *word,
                         struct err *err)
{
    return err_set(err, ERR_INVALID, "%s:%zu: %s: \"%.60s\"", reader->name, reader->line, what,
                   word);
}

static bool parse_number(const char *word, double low, double high, double *ret)
{
    char *end;

    *ret = strtod(word, &end);
    return end != word && *end == '\0' && *ret >= low && *ret <= high;
}

static bool parse_whole(const char *word, uint32_t high, uint32_t *ret)
{
    double value;

    if (!parse_number(word, 0, high, &value) || value != floor(value))
        return false;
    *ret = (uint32_t)value;
    return true;
}

static int read_window(struct reader *reader, struct err *err)
{
    double from_ms;

    if (reader->word_count != 3 || reader->window ||
        !parse_number(reader->words[1], 0, 1e9, &reader->seconds) ||
        !parse_number(reader->words[2], 0, 9e15, &from_ms))
        return reader_refuse(reader, "not \"window SECONDS UNIX_MS\", once", reader->words[0], err);
    reader->from_ms = (uint64_t)from_ms;
    reader->window = true;
    return 0;
}

static int read_set(struct reader *reader, struct err *err)
{
    char assignment[LINE_BYTES];
    struct err why;

    if (reader->word_count != 3)
        return reader_refuse(reader, "not \"set NUMBER VALUE\"", reader->words[0], err);
    snprintf(assignment, sizeof(assignment), "%.200s=%.200s", reader->words[1], reader->words[2]);
    if (whatif_scenario_set(&reader->scenario, assignment, &why) != 0)
        return reader_refuse(reader, why.text, assignment, err);
    return 0;
}

static int read_job(struct reader *reader, struct err *err)
{
    struct whatif_history_job job = {.to_s = WHATIF_NEVER_S};
    char **words = reader->words;

    if (reader->word_count != 8 || !parse_number(words[1], 0, 1e9, &job.from_s) ||
        (strcmp(words[2], "-") != 0 && !parse_number(words[2], job.from_s, 1e9, &job.to_s)) ||
        !parse_whole(words[3], 1000000, &job.nodes) || !parse_number(words[4], 0, 1e8, &job.gpus) ||
        !parse_number(words[5], 0, 1e18, &job.size_bytes) ||
        !parse_number(words[6], 1, 1e18, &job.bytes_per_s) ||
        !parse_whole(words[7], WHATIF_QUEUES_MAX - 1, &job.queue) || job.nodes == 0)
        return reader_refuse(reader, "not \"job FROM_S TO_S NODES GPUS BYTES BYTES_PER_S QUEUE\"",
                             words[reader->word_count - 1], err);
    if (reader->job_count == JOBS_MAX)
        return reader_refuse(reader, "more than 2000000 jobs", words[0], err);
    if (reader->job_count == reader->job_room) {
        reader->job_room = reader->job_room == 0 ? 256 : reader->job_room * 2;
        reader->jobs = check_realloc(reader->jobs, reader->job_room, sizeof(*reader->jobs));
    }
    reader->jobs[reader->job_count++] = job;
    return 0;
}

static int read_event(struct reader *reader, struct err *err)
{
    struct whatif_history_event event = {0};
    char **words = reader->words;
    size_t what = 0;

    if (reader->word_count < 3 || !parse_number(words[1], 0, 1e9, &event.at_s))
        return reader_refuse(reader, "not \"event AT_S WHAT [JOB]\"", words[0], err);
    while (what < WHATIF_HAPPENING_COUNT && strcmp(words[2], happenings[what]) != 0)
        what++;
    if (what == WHATIF_HAPPENING_COUNT)
        return reader_refuse(reader, "not a happening", words[2], err);
    event.what = (enum whatif_happening)what;
    if (reader->word_count != 3 + (size_t)has_subject(event.what) ||
        (has_subject(event.what) && !parse_whole(words[3], UINT32_MAX, &event.job)))
        return reader_refuse(reader, "not one job or queue by number where there is to be one",
                             words[2], err);
    if (event.what > WHATIF_STORAGE_UP ? event.job >= WHATIF_QUEUES_MAX
                                       : has_subject(event.what) && event.job >= reader->job_count)
        return reader_refuse(reader, "no such job or queue", words[3], err);
    if (reader->event_count == EVENTS_MAX)
        return reader_refuse(reader, "more than 10000000 events", words[0], err);
    if (reader->event_count == reader->event_room) {
        reader->event_room = reader->event_room == 0 ? 256 : reader->event_room * 2;
        reader->events = check_realloc(reader->events, reader->event_room, sizeof(*reader->events));
    }
    reader->events[reader->event_count++] = event;
    return 0;
}

static void reader_split(struct reader *reader)
{
    char *rest = reader->text;

    reader->word_count = 0;
    while (reader->word_count < WORDS_MAX) {
        char *word = strsep(&rest, " ");

        if (word == NULL)
            break;
        reader->words[reader->word_count++] = word;
    }
}

static int read_line(struct reader *reader, struct err *err)
{
    static const struct {
        const char *word;
        int (*read)(struct reader *reader, struct err *err);
    } kinds[] = {
        {"window", read_window}, {"set", read_set}, {"job", read_job}, {"event", read_event}};

    if (reader->text[0] == '#' || reader->text[0] == '\0')
        return 0;
    reader_split(reader);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (strcmp(reader->words[0], kinds[i].word) == 0)
            return kinds[i].read(reader, err);
    return reader_refuse(reader, "not window, set, job or event", reader->words[0], err);
}

/* Without its end; false: no more. A line that is too long is one that says nothing known. */
static bool next_line(FILE *in, struct reader *reader)
{
    if (fgets(reader->text, sizeof(reader->text), in) == NULL)
        return false;
    reader->line++;
    reader->text[strcspn(reader->text, "\r\n")] = '\0';
    return true;
}

static int read_all(FILE *in, struct reader *reader, struct err *err)
{
    while (next_line(in, reader))
        if (read_line(reader, err) != 0)
            return -1;
    if (!reader->window || reader->job_count == 0)
        return err_set(err, ERR_INVALID, "%s: holds no %s", reader->name,
                       reader->window ? "job" : "window");
    return 0;
}

int whatif_history_parse(FILE *in, const char *name, struct whatif_scenario *scenario,
                         struct whatif_history *ret_history, struct err *err)
{
    struct reader reader = {.name = name, .scenario = *scenario};

    if (!next_line(in, &reader) || strcmp(reader.text, MAGIC) != 0)
        return 1;
    if (read_all(in, &reader, err) != 0) {
        free(reader.jobs);
        free(reader.events);
        return -1;
    }
    *scenario = reader.scenario;
    *ret_history = (struct whatif_history){.seconds = reader.seconds,
                                           .from_ms = reader.from_ms,
                                           .job_count = reader.job_count,
                                           .jobs = reader.jobs,
                                           .event_count = reader.event_count,
                                           .events = reader.events};
    return 0;
}

int whatif_history_load(const char *path, struct whatif_scenario *scenario,
                        struct whatif_history *ret_history, struct err *err)
{
    FILE *in = fopen(path, "re");
    int rc;

    if (in == NULL)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    rc = whatif_history_parse(in, path, scenario, ret_history, err);
    fclose(in);
    return rc;
}

void whatif_history_close(struct whatif_history *history)
{
    free((void *)(uintptr_t)history->jobs);
    free((void *)(uintptr_t)history->events);
}
