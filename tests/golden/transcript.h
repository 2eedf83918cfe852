/* Transcripts: files of commands ("> ...") and what each came to, exactly.
 *
 * Flow     transcripts_main() plays each file of a folder; the transcript must equal the file.
 *          --update rewrites the files; the diff is then reviewed.
 */
#ifndef TESTS_GOLDEN_TRANSCRIPT_H
#define TESTS_GOLDEN_TRANSCRIPT_H

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSCRIPT_BYTES = 1 << 18, LINE_BYTES = 2048, NAMES_MAX = 64 };

struct transcript {
    char text[TRANSCRIPT_BYTES];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct transcript *transcript,
                                                      const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof(transcript->text) - transcript->length;

    va_start(arguments, format);
    transcript->length +=
        (size_t)vsnprintf(transcript->text + transcript->length, room, format, arguments);
    va_end(arguments);
    if (transcript->length >= sizeof(transcript->text))
        abort();
}

/* Plays a whole file, by play_lines(). */
typedef void play_fn(struct transcript *out, const char *source);
/* One command of it, without "> "; its line is the callee's to cut into words. */
typedef void play_line_fn(void *context, char *line);

/* Keeps comments and empty lines, replays "> " lines, drops the old output. */
static void play_lines(struct transcript *out, const char *source, play_line_fn *play_line,
                       void *context)
{
    char line[LINE_BYTES];

    out->length = 0;
    for (const char *at = source; *at != '\0';) {
        size_t length = strcspn(at, "\n");

        if (length >= sizeof(line))
            abort();
        memcpy(line, at, length);
        line[length] = '\0';
        at += length + (at[length] == '\n');
        if (strncmp(line, "> ", 2) == 0 || line[0] == '#' || line[0] == '\0')
            say(out, "%s\n", line);
        if (strncmp(line, "> ", 2) == 0)
            play_line(context, line + 2);
    }
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, TRANSCRIPT_BYTES);

    if (file == NULL || text == NULL || fread(text, 1, TRANSCRIPT_BYTES - 1, file) == 0)
        abort();
    fclose(file);
    return text;
}

static void write_file(const char *path, const struct transcript *transcript)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(transcript->text, 1, transcript->length, file) != transcript->length)
        abort();
    fclose(file);
}

static void print_difference(const char *wanted, const char *got)
{
    size_t at = 0;
    size_t line = 0;

    while (wanted[at] != '\0' && wanted[at] == got[at])
        at++;
    while (at > 0 && wanted[at - 1] != '\n')
        at--;
    for (size_t i = 0; i < at; i++)
        line += wanted[i] == '\n';
    printf("# line %zu\n# wanted: %.*s\n# got:    %.*s\n", line + 1,
           (int)strcspn(wanted + at, "\n"), wanted + at, (int)strcspn(got + at, "\n"), got + at);
}

static bool scenario(const char *folder, const char *name, play_fn *play, bool update)
{
    static struct transcript transcript;
    char path[512];
    char *wanted;
    bool equal;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    wanted = read_file(path);
    play(&transcript, wanted);
    equal = strcmp(wanted, transcript.text) == 0;
    if (update)
        write_file(path, &transcript);
    printf("%s %s\n", equal || update ? "ok" : "not ok", name);
    if (!equal && !update)
        print_difference(wanted, transcript.text);
    free(wanted);
    return equal || update;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int transcripts_main(const char *folder_name, play_fn *play, int argc, char **argv)
{
    bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
    DIR *folder = opendir(folder_name);
    char *names[NAMES_MAX];
    size_t count = 0;
    bool all = true;
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);

        if (length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0 && count < NAMES_MAX)
            names[count++] = strdup(entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    qsort(names, count, sizeof(names[0]), by_name);
    for (size_t i = 0; i < count; i++) {
        all = scenario(folder_name, names[i], play, update) && all;
        free(names[i]);
    }
    return all && count > 0 ? 0 : 1;
}

#endif
