/* The command line of a stand-in: which options go together, and its words before the command. See
 * run_stand_in.h. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/run/run_saved_files.h"
#include "src/agent/run/run_stand_in.h"
#include "src/base/check.h"
#include "src/profile/patterns.h"

#define STAND_IN_PROGRAM "/proc/self/exe"
#define STAND_IN_VERB    "stand-in"
#define STAND_IN_END     "--"
#define PROFILE_FILE     "file"

enum { TEXT_MAX = 4096, WORD_BYTES = 8192, WORDS_MAX = 32 };

/* ---- what goes together ---- */

static bool is_told(const struct stand_in *stand_in)
{
    return stand_in->file != NULL || stand_in->tell.signal != 0;
}

/* Something says how a save is seen: else the program says `done` itself. */
static bool has_signs(const struct stand_in *stand_in)
{
    return stand_in->files != NULL || stand_in->outputs != NULL || stand_in->then_named ||
           stand_in->quiet_ms != 0 || stand_in->tracker != NULL || stand_in->line != NULL;
}

bool stand_in_wanted(const struct stand_in *stand_in)
{
    return stand_in->file != NULL || stand_in->unasked || stand_in->complete != NULL ||
           stand_in->more != NULL || (stand_in->tell.signal != 0 && has_signs(stand_in));
}

static int check_unwanted(const struct stand_in *stand_in, struct err *err)
{
    const bool narrow = stand_in->tell.whom == TELL_RANK || stand_in->tell.whom == TELL_SHELL;

    if (narrow && stand_in->tell.signal != 0)
        return err_set(err, ERR_INVALID,
                       "--ask rank=N and --ask shell are for who does not write `done`: name what "
                       "it saves with --checkpoint-files, or leave --ask out");
    if (stand_in->text == NULL && !has_signs(stand_in) && !narrow && stand_in->kill_signal == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "--ask-text, --ask-then, --checkpoint-files, --checkpoint-outputs, "
                   "--files-quiet, --tracker, --saved-line, --kill-signal, --ask rank=N and --ask "
                   "shell go with --ask-file FILE, "
                   "--ask-signal SIGNAL or --checkpoint-exit STATUS: add one, or leave them out");
}

static int check_file(const struct stand_in *stand_in, struct err *err)
{
    if (stand_in->file != NULL && stand_in->tell.signal != 0)
        return err_set(err, ERR_INVALID,
                       "--ask-file and --ask-signal are two ways of telling one program: leave one "
                       "of them out");
    if (stand_in->file == NULL && stand_in->text != NULL)
        return err_set(err, ERR_INVALID,
                       "--ask-text goes with --ask-file FILE: add it, or leave --ask-text out");
    if (stand_in->file != NULL &&
        (stand_in->file[0] == '\0' || stand_in->file[strlen(stand_in->file) - 1] == '/'))
        return err_set(err, ERR_INVALID,
                       "--ask-file is \"%.128s\", it must be the name of a file, as STOPCAR",
                       stand_in->file);
    if (stand_in->files == NULL && !stand_in->unasked && stand_in->complete == NULL &&
        stand_in->more == NULL)
        return err_set(err, ERR_INVALID,
                       "%s needs --checkpoint-files, which names the files that the program saves, "
                       "as 'CHGCAR WAVECAR'",
                       stand_in->file != NULL ? "--ask-file" : "--ask-signal");
    return 0;
}

/* A save that goes on is seen by other signs than one that ends the program. */
static int check_end(const struct stand_in *stand_in, struct err *err)
{
    if (stand_in->goes_on && (stand_in->unasked || !is_told(stand_in)))
        return err_set(err, ERR_INVALID,
                       "--ask-then goes-on says that the program does not end when it has saved: "
                       "leave it out, or --checkpoint-exit, and say how it is asked (--ask-file, "
                       "--ask-signal)");
    if (!stand_in->goes_on && stand_in->quiet_ms != 0)
        return err_set(err, ERR_INVALID,
                       "--files-quiet is of no use where the program ends when it has saved: "
                       "leave it out, or name --ask-then goes-on");
    if (!stand_in->goes_on && (stand_in->tracker != NULL || stand_in->line != NULL))
        return err_set(err, ERR_INVALID,
                       "--tracker and --saved-line are of no use where the program ends when it "
                       "has saved: leave them out, or name --ask-then goes-on");
    if (stand_in->unasked && stand_in->status == 0 && stand_in->end_signal == 0 &&
        !is_told(stand_in) && stand_in->complete == NULL && stand_in->more == NULL)
        return err_set(err, ERR_INVALID,
                       "--checkpoint-exit is 0, and status 0 says that the work is complete: the "
                       "job would never end; name another status, or --ask-signal, so that 0 "
                       "counts as the answer to that, or --done-if FILE");
    if (stand_in->line != NULL && stand_in->line[0] == '\0')
        return err_set(err, ERR_INVALID,
                       "--saved-line is empty; it is a part of the line that the program prints "
                       "when it has saved");
    return 0;
}

static int check_lengths(const struct stand_in *stand_in, struct err *err);

int stand_in_check(const struct stand_in *stand_in, const char *profile, uint32_t ranks,
                   struct err *err)
{
    struct err why;

    if (!stand_in_wanted(stand_in))
        return check_unwanted(stand_in, err);
    if (profile[0] != '\0' && strcmp(profile, PROFILE_FILE) != 0)
        return err_set(err, ERR_INVALID,
                       "%s is of no use with --profile %.32s: name --profile " PROFILE_FILE
                       ", or leave one of the two out",
                       stand_in->file != NULL       ? "--ask-file"
                       : stand_in->tell.signal != 0 ? "--ask-signal"
                                                    : "--checkpoint-exit",
                       profile);
    if (check_lengths(stand_in, err) != 0 || check_file(stand_in, err) != 0 ||
        check_end(stand_in, err) != 0)
        return -1;
    if (ranks > 1)
        return err_set(err, ERR_INVALID,
                       "--ranks %" PRIu32 " does not go with %s, which asks one program "
                       "for all of the job: leave it out",
                       ranks,
                       stand_in->file != NULL ? "--ask-file"
                                              : "a program that is asked by "
                                                "its own way");
    if (stand_in->files != NULL && patterns_check(stand_in->files, &why) != 0)
        return err_set(err, ERR_INVALID, "--checkpoint-files %s", why.text);
    if (stand_in->outputs != NULL && stand_in->files == NULL)
        return err_set(err, ERR_INVALID,
                       "--checkpoint-outputs goes with --checkpoint-files, which names the state: "
                       "without that all files of the folder are saved; add it, or leave this out");
    if (stand_in->outputs != NULL && patterns_check(stand_in->outputs, &why) != 0)
        return err_set(err, ERR_INVALID, "--checkpoint-outputs %s", why.text);
    return 0;
}

/* ---- words ---- */

enum word_kind { WORD_TEXT, WORD_FLAG, WORD_INT, WORD_NUMBER };

static const struct word {
    const char *key; /* with its "=" */
    enum word_kind kind;
    size_t at;
} words[] = {
    {"file=", WORD_TEXT, offsetof(struct stand_in, file)},
    {"text=", WORD_TEXT, offsetof(struct stand_in, text)},
    {"signal=", WORD_INT, offsetof(struct stand_in, tell.signal)},
    {"whom=", WORD_INT, offsetof(struct stand_in, tell.whom)},
    {"rank=", WORD_INT, offsetof(struct stand_in, tell.rank)},
    {"files=", WORD_TEXT, offsetof(struct stand_in, files)},
    {"outputs=", WORD_TEXT, offsetof(struct stand_in, outputs)},
    {"restart=", WORD_TEXT, offsetof(struct stand_in, restart)},
    {"complete=", WORD_TEXT, offsetof(struct stand_in, complete)},
    {"more=", WORD_TEXT, offsetof(struct stand_in, more)},
    {"tracker=", WORD_TEXT, offsetof(struct stand_in, tracker)},
    {"line=", WORD_TEXT, offsetof(struct stand_in, line)},
    {"goes-on=", WORD_FLAG, offsetof(struct stand_in, goes_on)},
    {"unasked=", WORD_FLAG, offsetof(struct stand_in, unasked)},
    {"requeues=", WORD_FLAG, offsetof(struct stand_in, requeues)},
    {"status=", WORD_INT, offsetof(struct stand_in, status)},
    {"end-signal=", WORD_INT, offsetof(struct stand_in, end_signal)},
    {"kill-signal=", WORD_INT, offsetof(struct stand_in, kill_signal)},
    {"quiet=", WORD_NUMBER, offsetof(struct stand_in, quiet_ms)},
};
_Static_assert(sizeof(enum tell_whom) == sizeof(int) && sizeof(uint32_t) == sizeof(int),
               "whom and rank are read as numbers");
_Static_assert(ARRAY_COUNT(words) + 3 < WORDS_MAX, "all of them fit");

static int check_lengths(const struct stand_in *stand_in, struct err *err)
{
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        const void *value = (const char *)stand_in + words[i].at;
        const char *text = words[i].kind == WORD_TEXT ? *(const char *const *)value : NULL;

        if (text != NULL && strlen(text) > TEXT_MAX)
            return err_set(err, ERR_INVALID,
                           "%.32s... has %zu bytes as the value of an option, at most %d are taken",
                           text, strlen(text), TEXT_MAX);
    }
    return 0;
}

/* Returns its length. 0: it has the default, and needs no word. */
static int word_format(const struct word *word, const struct stand_in *stand_in,
                       char text[WORD_BYTES])
{
    const void *value = (const char *)stand_in + word->at;
    int length = 0;

    if (word->kind == WORD_TEXT && *(const char *const *)value != NULL)
        length = snprintf(text, WORD_BYTES, "%s%s", word->key, *(const char *const *)value);
    else if (word->kind == WORD_FLAG && *(const bool *)value)
        length = snprintf(text, WORD_BYTES, "%s1", word->key);
    else if (word->kind == WORD_INT && *(const int *)value != 0)
        length = snprintf(text, WORD_BYTES, "%s%d", word->key, *(const int *)value);
    else if (word->kind == WORD_NUMBER && *(const uint64_t *)value != 0)
        length = snprintf(text, WORD_BYTES, "%s%" PRIu64, word->key, *(const uint64_t *)value);
    CHECK(length >= 0 && length < WORD_BYTES);
    return length;
}

static void word_take(const struct word *word, char *text, struct stand_in *stand_in)
{
    void *value = (char *)stand_in + word->at;

    switch (word->kind) {
    case WORD_TEXT:
        *(const char **)value = text;
        return;
    case WORD_FLAG:
        *(bool *)value = true;
        return;
    case WORD_INT:
        *(int *)value = (int)strtol(text, NULL, 10);
        return;
    case WORD_NUMBER:
        *(uint64_t *)value = strtoull(text, NULL, 10);
        return;
    }
    CHECK_UNREACHABLE("word_kind");
}

/* The words before the command, each behind the one before; NULL: only their bytes are counted. */
struct words_made {
    char **line;
    char *text;
    size_t used, bytes;
};

static void word_add(struct words_made *made, const char *text)
{
    size_t bytes = strlen(text) + 1;

    if (made->line != NULL) {
        made->line[made->used] = memcpy(made->text + made->bytes, text, bytes);
        CHECK(made->used + 1 < WORDS_MAX);
    }
    made->used++;
    made->bytes += bytes;
}

static void words_add(struct words_made *made, const struct stand_in *stand_in)
{
    char text[WORD_BYTES];

    word_add(made, STAND_IN_PROGRAM);
    word_add(made, STAND_IN_VERB);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        if (word_format(&words[i], stand_in, text) > 0)
            word_add(made, text);
    word_add(made, STAND_IN_END);
}

char **stand_in_command(const struct stand_in *stand_in, char *const *command)
{
    struct words_made counted = {.line = NULL}, made = {.line = NULL};
    size_t count = 0;

    while (command[count] != NULL)
        count++;
    words_add(&counted, stand_in);
    made.line = check_calloc(1, (counted.used + count + 1) * sizeof(*made.line) + counted.bytes);
    made.text = (char *)(made.line + counted.used + count + 1);
    words_add(&made, stand_in);
    memcpy(made.line + made.used, command, count * sizeof(*made.line));
    return made.line;
}

/* The place of the command behind the words; 0: they are none of a stand-in. */
static size_t command_place(char *const *line)
{
    if (line[0] == NULL || strcmp(line[0], STAND_IN_PROGRAM) != 0 || line[1] == NULL ||
        strcmp(line[1], STAND_IN_VERB) != 0)
        return 0;
    for (size_t i = 2; i < WORDS_MAX && line[i] != NULL; i++)
        if (strcmp(line[i], STAND_IN_END) == 0)
            return line[i + 1] == NULL ? 0 : i + 1;
    return 0;
}

const char *stand_in_program(char *const *command)
{
    return command[command_place(command)];
}

bool stand_in_read(char **line, struct stand_in *ret_stand_in, char ***ret_command)
{
    size_t place = command_place(line);

    if (place == 0)
        return false;
    *ret_stand_in = (struct stand_in){.file = NULL};
    for (size_t i = 2; i + 1 < place; i++)
        for (size_t k = 0; k < ARRAY_COUNT(words); k++)
            if (strncmp(line[i], words[k].key, strlen(words[k].key)) == 0)
                word_take(&words[k], line[i] + strlen(words[k].key), ret_stand_in);
    *ret_command = line + place;
    return true;
}
