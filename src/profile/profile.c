/* The keys of a profile, and the rules over several of them. See profile.h. */
#include "src/profile/profile.h"

#include <stdio.h>
#include <string.h>

#include "src/ask/ask.h"
#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/signal_name.h"
#include "src/base/text.h"
#include "src/profile/patterns.h"

/* ---- kinds of values ---- */

/* By settings_path, whose set() asks the row's own kind to check. */
static int set_text(const struct settings_row *row, void *place, bool in_unit, const char *value,
                    struct err *err)
{
    return settings_path.set(row, place, in_unit, value, err);
}

static void show_text(const void *place, char *text, size_t size)
{
    settings_path.show(place, text, size);
}

/* The nearest of these words, for messages. */
static const char *nearest_of(const char *const *words, const char *value)
{
    const char *nearest = words[0];

    for (size_t i = 1; words[i] != NULL; i++)
        if (text_distance(value, words[i]) < text_distance(value, nearest))
            nearest = words[i];
    return nearest;
}

static int check_choice(const char *const *words, const char *must, const char *value,
                        struct err *err)
{
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(value, words[i]) == 0)
            return 0;
    return err_set(err, ERR_INVALID, "is '%.64s', must be %s; the nearest is '%s'", value, must,
                   nearest_of(words, value));
}

static int check_whom(const char *value, struct err *err)
{
    static const char *const words[] = {"each", "group", "started", "shell", NULL};
    static const char rank[] = "rank=";
    const struct number_range range = {.min = 0, .max = UINT32_MAX};
    uint64_t number;

    if (strncmp(value, rank, strlen(rank)) == 0 &&
        number_parse(NUMBER_PLAIN, value + strlen(rank), range, &number, NULL) == 0)
        return 0;
    return check_choice(words, "each, group, started, rank=N or shell", value, err);
}

static int check_then(const char *value, struct err *err)
{
    static const char *const words[] = {"exits", "goes-on", "requeues", NULL};

    return check_choice(words, "exits, goes-on or requeues", value, err);
}

enum { WAYS_MAX = 32 };

static int check_way(const char *value, struct err *err)
{
    const char *names[WAYS_MAX + 1] = {NULL};
    char must[ASK_PROFILES_BYTES] = "one of";
    const struct ask_ops *ask;
    size_t count = 0;

    while (count < WAYS_MAX && (names[count] = ask_profile_at(count, &ask)) != NULL) {
        size_t length = strlen(must);

        snprintf(must + length, sizeof(must) - length, "%s %s", count == 0 ? "" : ",",
                 names[count]);
        count++;
    }
    return check_choice(names, must, value, err);
}

static int check_line(const char *value, struct err *err)
{
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return err_set(err, ERR_INVALID,
                           "has a control character (byte %zu); it must be one line", at - value);
    return 0;
}

static int check_signal(const char *value, struct err *err)
{
    struct err why = {0};

    return signal_name_parse(value, &why) > 0 ? 0
                                              : err_set(err, ERR_INVALID, "is wrong: %s", why.text);
}

static int check_exit(const char *value, struct err *err)
{
    const struct number_range range = {.min = 1, .max = 255};
    uint64_t status;

    if (number_parse(NUMBER_PLAIN, value, range, &status, NULL) == 0 ||
        ((value[0] < '0' || value[0] > '9') && signal_name_parse(value, NULL) > 0))
        return 0;
    return err_set(err, ERR_INVALID,
                   "is '%.32s', must be a status, 1 to 255, or the name of a signal, as USR2",
                   value);
}

static int check_file(const char *value, struct err *err)
{
    if (check_line(value, err) != 0)
        return -1;
    if (value[strlen(value) - 1] == '/')
        return err_set(err, ERR_INVALID, "is '%.128s', it must be the name of a file, as STOPCAR",
                       value);
    return 0;
}

/* Patterns with blanks between. */
static int check_names(const char *value, struct err *err)
{
    if (check_line(value, err) != 0)
        return -1;
    for (const char *at = value; *at != '\0'; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strcspn(at, " ") >= PATTERN_BYTES)
            return err_set(err, ERR_INVALID, "has a name of %zu bytes, at most %d are taken",
                           strcspn(at, " "), PATTERN_BYTES - 1);
    }
    return 0;
}

static int check_programs(const char *value, struct err *err)
{
    if (check_names(value, err) != 0)
        return -1;
    return strchr(value, '/') == NULL
               ? 0
               : err_set(err, ERR_INVALID,
                         "has a slash; it takes names of programs, as 'vasp_std', wherever they "
                         "lie");
}

static int check_versions(const char *value, struct err *err)
{
    if (check_names(value, err) != 0)
        return -1;
    return value[strspn(value, "0123456789.*?[]- ")] == '\0'
               ? 0
               : err_set(err, ERR_INVALID,
                         "is '%.64s', it must be patterns of versions, as '6.* 7.0.?'", value);
}

static const struct settings_kind kind_programs = {set_text, show_text, true, check_programs};
static const struct settings_kind kind_versions = {set_text, show_text, true, check_versions};
static const struct settings_kind kind_line = {set_text, show_text, true, check_line};
static const struct settings_kind kind_file = {set_text, show_text, true, check_file};
static const struct settings_kind kind_files = {set_text, show_text, true, patterns_check};
static const struct settings_kind kind_signal = {set_text, show_text, true, check_signal};
static const struct settings_kind kind_exit = {set_text, show_text, true, check_exit};
static const struct settings_kind kind_way = {set_text, show_text, true, check_way};
static const struct settings_kind kind_whom = {set_text, show_text, true, check_whom};
static const struct settings_kind kind_then = {set_text, show_text, true, check_then};

/* ---- the table ---- */

enum section { ROOT, REQUEST, TARGETS, COMPLETION, AFTERWARDS };

static const struct settings_section sections[] = {[ROOT] = {.name = ""},
                                                   [REQUEST] = {.name = "request"},
                                                   [TARGETS] = {.name = "targets"},
                                                   [COMPLETION] = {.name = "completion"},
                                                   [AFTERWARDS] = {.name = "afterwards"}};

#define ROW(section, name, kind, min, max, initial)                                                \
    {                                                                                              \
        section, &kind, #name, offsetof(struct profile, name), min, max, initial                   \
    }

static const struct settings_row rows[] = {
    ROW(ROOT, about, kind_line, 0, 200, ""),
    ROW(ROOT, programs, kind_programs, 0, 1024, ""),
    ROW(ROOT, subcommands, kind_programs, 0, 1024, ""),
    ROW(ROOT, unless, kind_line, 0, 1024, ""),
    ROW(ROOT, versions, kind_versions, 0, 1024, ""),
    ROW(ROOT, files, kind_files, 0, PROFILE_TEXT_BYTES, ""),
    ROW(ROOT, outputs, kind_files, 0, PROFILE_TEXT_BYTES, ""),
    {REQUEST, &kind_way, "way", offsetof(struct profile, way_given), 0, 64, ""},
    ROW(REQUEST, file, kind_file, 0, 255, ""),
    ROW(REQUEST, signal, kind_signal, 0, 32, ""),
    ROW(REQUEST, text, settings_path, 0, PROFILE_TEXT_BYTES, ""),
    ROW(REQUEST, echkpnt, kind_line, 0, 1024, ""),
    ROW(REQUEST, command, settings_path, 0, PROFILE_TEXT_BYTES, ""),
    ROW(TARGETS, whom, kind_whom, 0, 16, ""),
    ROW(TARGETS, ranks, settings_count32, 0, 256, "0"),
    ROW(COMPLETION, exit_status, settings_count32, 0, 255, "0"),
    ROW(COMPLETION, exit, kind_exit, 0, 32, ""),
    ROW(COMPLETION, done_if, kind_file, 0, 255, ""),
    ROW(COMPLETION, go_on_if, kind_file, 0, 255, ""),
    ROW(COMPLETION, line, kind_line, 0, 255, ""),
    ROW(COMPLETION, tracker, kind_file, 0, 255, ""),
    ROW(COMPLETION, quiet_ms, settings_count, 100, 3600000, "2000"),
    ROW(AFTERWARDS, then, kind_then, 0, 16, "exits"),
    ROW(AFTERWARDS, restart_command, settings_path, 0, PROFILE_TEXT_BYTES, ""),
};

static const struct settings_table table = {.sections = sections,
                                            .section_count = ARRAY_COUNT(sections),
                                            .rows = rows,
                                            .row_count = ARRAY_COUNT(rows)};

/* ---- rules over several keys ---- */

bool profile_has_file(const struct profile *profile)
{
    return profile->file[0] != '\0';
}

/* A signal alone is another one in the place of that of its way. */
bool profile_stands_in(const struct profile *profile)
{
    return profile_has_file(profile) || profile->exit[0] != '\0' || profile->done_if[0] != '\0' ||
           profile->go_on_if[0] != '\0' ||
           (profile->signal[0] != '\0' && profile->files[0] != '\0');
}

bool profile_goes_on(const struct profile *profile)
{
    return strcmp(profile->then, "goes-on") == 0;
}

static bool looks_for_file(const struct profile *profile)
{
    return ask_find(profile->way)->stands_in;
}

static bool runs_command(const struct profile *profile)
{
    return ask_find(profile->way)->served;
}

static bool is_saved_from_outside(const struct profile *profile)
{
    return profile->command[0] != '\0' || profile->echkpnt[0] != '\0';
}

static bool has_no_command(const struct profile *profile)
{
    return runs_command(profile) && profile->command[0] == '\0';
}

static bool names_files(const struct profile *profile)
{
    return profile->files[0] != '\0';
}

static bool sends_signal(const struct profile *profile)
{
    return ask_find(profile->way)->signal != 0;
}

static bool is_alone(const struct profile *profile)
{
    return !profile_stands_in(profile);
}

static bool can_start_again(const struct profile *profile)
{
    return profile_stands_in(profile) || (runs_command(profile) && profile->echkpnt[0] == '\0');
}

static bool ends_for_it(const struct profile *profile)
{
    return profile_stands_in(profile) && !profile_goes_on(profile);
}

static bool goes_on_beside_it(const struct profile *profile)
{
    return profile_stands_in(profile) && profile_goes_on(profile);
}

static bool is_told_once(const struct profile *profile)
{
    return !profile_has_file(profile) && (looks_for_file(profile) || sends_signal(profile));
}

static bool is_signalled(const struct profile *profile)
{
    return sends_signal(profile) || profile->signal[0] != '\0';
}

/* A key that is given, and the reason why it must not be. */
static const struct rule {
    enum section section;
    const char *name;
    bool (*holds)(const struct profile *profile);
    const char *broken;
} rules[] = {
    {REQUEST, "file", looks_for_file,
     "is of no use with this request.way, in which no program looks for a file: leave one out"},
    {REQUEST, "signal", is_told_once,
     "is of no use beside request.file, or with a request.way that sends none: leave one out"},
    {REQUEST, "text", profile_has_file, "is the line in request.file: add that, or leave it out"},
    {ROOT, "files", profile_stands_in,
     "are copied when a program has saved for request.file or request.signal, or ends by "
     "completion.exit: add one, or leave them out"},
    {ROOT, "outputs", names_files,
     "are saved beside the key files, the saved state: add that, or leave them out"},
    {COMPLETION, "exit_status", ends_for_it,
     "is that of a program which ends when it was asked: it goes with request.file or "
     "request.signal, and with afterwards.then exits alone"},
    {COMPLETION, "exit", ends_for_it,
     "is of a program that ends: it does not go with afterwards.then goes-on"},
    {COMPLETION, "quiet_ms", goes_on_beside_it,
     "is for a program that runs on: it goes with afterwards.then goes-on alone"},
    {COMPLETION, "line", goes_on_beside_it,
     "is for a program that runs on: it goes with afterwards.then goes-on alone"},
    {COMPLETION, "tracker", goes_on_beside_it,
     "is for a program that runs on: it goes with afterwards.then goes-on alone"},
    {AFTERWARDS, "then", profile_stands_in,
     "is what a program does that saved for request.file or request.signal: add one, or leave it "
     "out"},
    {REQUEST, "command", runs_command,
     "is of no use with this request.way, in which no command is run: leave one out"},
    {REQUEST, "echkpnt", has_no_command,
     "is of no use beside request.command, or with another request.way: leave one out"},
    {AFTERWARDS, "restart_command", can_start_again,
     "is of no use without request.file, request.signal or request.command: add one, or leave it "
     "out"},
    {TARGETS, "whom", is_signalled,
     "is of no use with this request.way, in which no signal is sent: leave one out"},
    {TARGETS, "ranks", is_alone,
     "do not go with a program that is asked for all of the job: leave one out"},
};

/* Keys without which the others say nothing. */
static int check_wanted(const struct profile *profile, struct err *err)
{
    if (profile_has_file(profile) && profile->files[0] == '\0')
        return settings_complain(&profile->settings, REQUEST, "file", 0, err,
                                 "wants the key files beside it: the files that the program saves, "
                                 "as 'CHGCAR WAVECAR'");
    if (runs_command(profile) && !is_saved_from_outside(profile))
        return settings_complain(
            &profile->settings, REQUEST, "way", 0, err,
            "wants request.command or request.echkpnt beside it, which saves the program");
    return 0;
}

/* NULL: no key says it. */
static const char *find_way(const struct profile *profile)
{
    const struct ask_ops *ask;
    const char *way;

    if (profile->way_given[0] != '\0')
        return profile->way_given;
    for (size_t i = 0; (way = ask_profile_at(i, &ask)) != NULL; i++)
        if ((profile_stands_in(profile) && ask->stands_in) ||
            (is_saved_from_outside(profile) && ask->served))
            return way;
    return NULL;
}

static int check_rules(struct profile *profile, struct err *err)
{
    profile->way = find_way(profile);
    if (profile->way == NULL)
        return settings_complain(
            &profile->settings, REQUEST, "way", 0, err,
            "is missing: it says how the program is asked, where none of request.file, "
            "request.command and completion.exit does, and no request.signal "
            "with files");
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        const struct rule *rule = &rules[i];

        if (settings_given(&profile->settings, rule->section, rule->name) && !rule->holds(profile))
            return settings_complain(&profile->settings, rule->section, rule->name, 0, err,
                                     rule->broken);
    }
    return check_wanted(profile, err);
}

int profile_parse(struct profile *profile, const char *path, const char *text, size_t length,
                  struct err *err)
{
    memset(profile, 0, sizeof(*profile));
    settings_init(&profile->settings, &table, profile, path);
    if (settings_parse(&profile->settings, text, length, err) != 0)
        return -1;
    return check_rules(profile, err);
}

int profile_open(struct profile *profile, const char *word, struct err *err)
{
    struct profile_source source;
    int result;

    memset(profile, 0, sizeof(*profile));
    if (profile_source_find(word, &source, err) != 0)
        return -1;
    result = profile_parse(profile, source.path, source.text, source.length, err);
    profile_source_free(&source);
    return result;
}

int profile_way(const char *word, char ret_way[ID_MAX_BYTES + 1], struct err *err)
{
    struct profile profile = {.about = NULL};
    struct err why;
    int result = 0;

    text_copy(ret_way, ID_MAX_BYTES + 1, strcmp(word, PROFILE_AUTO) == 0 ? "" : word);
    if (ask_find(ret_way) != NULL)
        return 0;
    if (profile_open(&profile, word, &why) == 0)
        text_copy(ret_way, ID_MAX_BYTES + 1, profile.way);
    else if (why.code != ERR_NOT_FOUND || !id_valid(word))
        result = err_set(err, why.code, "%s", why.text);
    profile_close(&profile);
    return result;
}

void profile_close(struct profile *profile)
{
    settings_close(&profile->settings);
    memset(profile, 0, sizeof(*profile));
}
