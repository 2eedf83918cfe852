/* LSF's words for a job that is saved from outside. See run_lsf.h. */
#include "src/agent/run/run_lsf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/number.h"
#include "src/base/text.h"

#define METHOD_WORD  "LSB_ECHKPNT_METHOD"
#define FOLDER_WORD  "LSB_ECHKPNT_METHOD_DIR"
#define KEEP_WORD    "LSB_ECHKPNT_KEEP_OUTPUT"
#define SERVER_WORD  "LSF_SERVERDIR"
#define ECHKPNT_WORD "LSF_ECHKPNTDIR"
#define BLANKS       " \t"

/* ---- the line ---- */

bool lsf_method_valid(const char *method)
{
    size_t length = strlen(method);

    if (length == 0 || length >= LSF_METHOD_BYTES)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)method[i]) && method[i] != '_' && method[i] != '-')
            return false;
    return true;
}

static int take_method(const char *name, const char *from, struct lsf_settings *settings,
                       struct err *err)
{
    if (!lsf_method_valid(name))
        return err_set(err, ERR_INVALID,
                       "%s names the method \"%.64s\", it must be 1 to %d of A-Z a-z 0-9 _ -", from,
                       name, LSF_METHOD_BYTES - 1);
    text_copy(settings->method, sizeof(settings->method), name);
    return 0;
}

static int take_minutes(const char *word, const char *digits, uint32_t *ret_minutes,
                        struct err *err)
{
    const struct number_range range = {.min = 1, .max = LSF_PERIOD_MAX_MIN};
    uint64_t minutes;

    if (*ret_minutes != 0)
        return err_set(err, ERR_INVALID, "-k names a period twice, last as \"%.64s\"", word);
    if (number_parse(NUMBER_PLAIN, digits, range, &minutes, NULL) != 0)
        return err_set(err, ERR_INVALID,
                       "-k has the word \"%.64s\"; it is \"DIR [init=MINUTES] [MINUTES] "
                       "[method=NAME]\", and MINUTES are 1 to %d",
                       word, LSF_PERIOD_MAX_MIN);
    *ret_minutes = (uint32_t)minutes;
    return 0;
}

static int take_word(const char *word, struct lsf_settings *settings, struct err *err)
{
    if (strncmp(word, "init=", 5) == 0)
        return take_minutes(word, word + 5, &settings->first_period_min, err);
    if (strncmp(word, "method=", 7) != 0)
        return take_minutes(word, word, &settings->period_min, err);
    if (settings->method[0] != '\0')
        return err_set(err, ERR_INVALID, "-k names a method twice, last as \"%.64s\"", word);
    return take_method(word + 7, "-k", settings, err);
}

/* Relative to the folder of the job, as LSF's. */
static int take_folder(const char *word, struct lsf_settings *settings, struct err *err)
{
    char here[PATH_MAX] = "";
    int length;

    if (strncmp(word, "init=", 5) == 0 || strncmp(word, "method=", 7) == 0)
        return err_set(err, ERR_INVALID,
                       "-k begins with \"%.64s\"; it begins with a folder: \"DIR %.64s\"", word,
                       word);
    if (word[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return err_set(err, ERR_INVALID, "-k names the folder \"%.64s\" below one that is gone: %s",
                       word, strerror(errno));
    length = snprintf(settings->folder, sizeof(settings->folder), "%s%s%s", here,
                      here[0] == '\0' ? "" : "/", word);
    if (length > LSF_PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of -k's folder has %d bytes, at most %d can be",
                       length, LSF_PATH_MAX);
    return 0;
}

static int take_letter(char letter, struct lsf_settings *settings, struct err *err)
{
    switch (letter) {
    case 'c':
        settings->copies = true;
        return 0;
    case 'f':
        settings->forces = true;
        return 0;
    case 'x':
        settings->extended = true;
        return 0;
    case 'k':
    case 's':
        return err_set(err, ERR_INVALID,
                       "--echkpnt-options has -%c: whether a checkpoint ends the job is said when "
                       "it is asked for, as by ckpt-run migrate; leave it out",
                       letter);
    default:
        return err_set(err, ERR_INVALID,
                       "--echkpnt-options has -%c, which is unknown: there are -c, -f and -x",
                       letter);
    }
}

static int take_letters(const char *options, struct lsf_settings *settings, struct err *err)
{
    if (strchr(options, 'k') != NULL && strchr(options, 's') != NULL)
        return err_set(err, ERR_INVALID,
                       "--echkpnt-options has -k and -s, which exclude each "
                       "other: leave both out");
    for (const char *at = options; *at != '\0'; at++) {
        const bool first = at == options || strchr(BLANKS, at[-1]) != NULL;
        if (strchr(BLANKS, *at) != NULL)
            continue;
        if (first != (*at == '-') || (*at == '-' && strchr(BLANKS, at[1]) != NULL))
            return err_set(err, ERR_INVALID,
                           "--echkpnt-options is \"%.64s\", it must be of -c, -f and -x", options);
        if (!first && take_letter(*at, settings, err) != 0)
            return -1;
    }
    return 0;
}

int lsf_settings_parse(const char *text, const char *options, struct lsf_settings *ret_settings,
                       struct err *err)
{
    struct lsf_settings settings = {.period_min = 0};
    char words[PATH_MAX + 256], *rest = NULL, *word;
    int result;

    if (strlen(text) >= sizeof(words))
        return err_set(err, ERR_INVALID, "-k has %zu bytes, at most %zu can be", strlen(text),
                       sizeof(words) - 1);
    text_copy(words, sizeof(words), text);
    word = strtok_r(words, BLANKS, &rest);
    if (word == NULL)
        return err_set(err, ERR_INVALID,
                       "-k is empty; it is \"DIR [init=MINUTES] [MINUTES] [method=NAME]\"");
    result = take_folder(word, &settings, err);
    while (result == 0 && (word = strtok_r(NULL, BLANKS, &rest)) != NULL)
        result = take_word(word, &settings, err);
    if (result == 0 && options != NULL)
        result = take_letters(options, &settings, err);
    if (result == 0)
        *ret_settings = settings;
    return result;
}

/* ---- the site's words ---- */

/* NAME = VALUE, or "VALUE": as long as its line; NULL: the line is another one's. */
static const char *line_value(const char *line, const char *name, size_t *ret_length)
{
    const char *at = line + strspn(line, BLANKS);
    size_t length;

    if (strncmp(at, name, strlen(name)) != 0)
        return NULL;
    at += strlen(name);
    at += strspn(at, BLANKS);
    if (*at != '=')
        return NULL;
    at += 1 + strspn(at + 1, BLANKS);
    length = strcspn(at, "\r\n");
    while (length > 0 && strchr(BLANKS, at[length - 1]) != NULL)
        length--;
    if (length >= 2 && (*at == '"' || *at == '\'') && at[length - 1] == *at) {
        at++;
        length -= 2;
    }
    *ret_length = length;
    return at;
}

/* The last one counts. */
bool lsf_conf_value(const char *text, const char *name, char *ret_value, size_t size)
{
    bool found = false;

    CHECK(size > 0);
    for (const char *line = text; *line != '\0';) {
        size_t length;
        const char *value = line_value(line, name, &length);
        if (value != NULL && length < size) {
            memcpy(ret_value, value, length);
            ret_value[length] = '\0';
            found = true;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return found;
}

/* Of an lsf.conf; "": there is none. The caller frees it. */
static char *read_conf(void)
{
    const char *folder = getenv("LSF_ENVDIR");
    char path[PATH_MAX], *text = check_calloc(1, LSF_CONF_MAX_BYTES + 1);
    FILE *file;

    if (snprintf(path, sizeof(path), "%s/lsf.conf", folder == NULL ? "/etc" : folder) >=
        (int)sizeof(path))
        return text;
    file = fopen(path, "re");
    if (file == NULL)
        return text;
    text[fread(text, 1, LSF_CONF_MAX_BYTES, file)] = '\0';
    fclose(file);
    return text;
}

/* The environment comes first. "": neither says it. */
static void find_value(const char *conf, const char *name, char *ret_value, size_t size)
{
    const char *value = getenv(name);

    ret_value[0] = '\0';
    if (value != NULL && strlen(value) < size)
        text_copy(ret_value, size, value);
    else if (value == NULL && !lsf_conf_value(conf, name, ret_value, size))
        ret_value[0] = '\0';
}

static int find_folder(const char *conf, const char *name, char ret_folder[PATH_MAX],
                       struct err *err)
{
    find_value(conf, name, ret_folder, PATH_MAX);
    if (ret_folder[0] == '\0' || ret_folder[0] == '/')
        return 0;
    return err_set(err, ERR_INVALID, "%s is \"%.128s\", it must be an absolute path", name,
                   ret_folder);
}

int lsf_settings_find(struct lsf_settings *settings, struct err *err)
{
    char *conf = read_conf(), method[256], keep[8];
    int result = 0;

    find_value(conf, METHOD_WORD, method, sizeof(method));
    find_value(conf, KEEP_WORD, keep, sizeof(keep));
    settings->keep_output = strcmp(keep, "y") == 0 || strcmp(keep, "Y") == 0;
    if (settings->method[0] == '\0' && method[0] != '\0')
        result = take_method(method, METHOD_WORD, settings, err);
    if (result == 0)
        result = find_folder(conf, FOLDER_WORD, settings->method_dir, err);
    if (result == 0)
        result = find_folder(conf, SERVER_WORD, settings->server_dir, err);
    if (result == 0)
        result = find_folder(conf, ECHKPNT_WORD, settings->echkpnt_dir, err);
    free(conf);
    return result;
}

/* ---- its programs ---- */

static bool is_custom(const struct lsf_settings *settings)
{
    return settings->method[0] != '\0' && strcmp(settings->method, LSF_METHOD_DEFAULT) != 0;
}

bool lsf_erestart_is_job(const struct lsf_settings *settings)
{
    return !is_custom(settings);
}

const char *lsf_program_name(const struct lsf_settings *settings, enum lsf_program program,
                             char text[LSF_NAME_BYTES])
{
    snprintf(text, LSF_NAME_BYTES, "%s%s%s", program == LSF_ECHKPNT ? "echkpnt" : "erestart",
             settings->method[0] == '\0' ? "" : ".", settings->method);
    return text;
}

/* The folder, and the variable that names it; NULL: none does. */
static const char *find_program_folder(const struct lsf_settings *settings, const char **ret_word)
{
    const bool bare = settings->method[0] == '\0';
    const struct {
        const char *word, *folder;
        bool counts;
    } folders[] = {{FOLDER_WORD, settings->method_dir, is_custom(settings)},
                   {ECHKPNT_WORD, settings->echkpnt_dir, bare},
                   {SERVER_WORD, settings->server_dir, true},
                   {ECHKPNT_WORD, settings->echkpnt_dir, true}};

    *ret_word = is_custom(settings) ? FOLDER_WORD : bare ? ECHKPNT_WORD : SERVER_WORD;
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++) {
        if (!folders[i].counts || folders[i].folder[0] == '\0')
            continue;
        *ret_word = folders[i].word;
        return folders[i].folder;
    }
    return NULL;
}

/* NULL: this user can run it. */
static const char *why_not_run(const char *path)
{
    struct stat stat_of;

    if (stat(path, &stat_of) != 0)
        return strerror(errno);
    if (!S_ISREG(stat_of.st_mode))
        return "it is no file";
    return access(path, X_OK) == 0 ? NULL : strerror(errno);
}

int lsf_program_find(const struct lsf_settings *settings, enum lsf_program program,
                     char ret_path[PATH_MAX], struct err *err)
{
    const char *word, *folder = find_program_folder(settings, &word);
    char name[LSF_NAME_BYTES], path[PATH_MAX];
    const char *why;

    lsf_program_name(settings, program, name);
    if (folder == NULL)
        return err_set(err, ERR_NOT_FOUND,
                       "nothing says where %s is: set %s or " SERVER_WORD ", in the environment or "
                       "in $LSF_ENVDIR/lsf.conf",
                       name, word);
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return err_set(err, ERR_INVALID, "%s names a folder with too long a path for %s", word,
                       name);
    why = why_not_run(path);
    if (why != NULL)
        return err_set(err, ERR_NOT_FOUND,
                       "%s cannot be run from %.256s, which %s names: %s; put it there, executable "
                       "for this user, or name another method or folder",
                       name, folder, word, why);
    text_copy(ret_path, PATH_MAX, path);
    return 0;
}

void lsf_echkpnt_line(const struct lsf_settings *settings, bool stops, const char *name,
                      const char *folder, const char *group, const char *ret_line[LSF_OPTIONS_MAX])
{
    size_t count = 0;

    ret_line[count++] = name;
    if (settings->copies)
        ret_line[count++] = "-c";
    if (settings->forces)
        ret_line[count++] = "-f";
    if (stops)
        ret_line[count++] = "-s";
    if (settings->extended)
        ret_line[count++] = "-x";
    ret_line[count++] = "-d";
    ret_line[count++] = folder;
    ret_line[count++] = group;
    ret_line[count] = NULL;
    CHECK(count < LSF_OPTIONS_MAX);
}

void lsf_erestart_line(const struct lsf_settings *settings, const char *name, const char *folder,
                       const char *ret_line[LSF_OPTIONS_MAX])
{
    size_t count = 0;

    ret_line[count++] = name;
    if (settings->copies)
        ret_line[count++] = "-c";
    if (settings->forces)
        ret_line[count++] = "-f";
    ret_line[count++] = folder;
    ret_line[count] = NULL;
    CHECK(count < LSF_OPTIONS_MAX);
}

void lsf_execute(const char *program, const char *const *line)
{
    char *words[LSF_OPTIONS_MAX];
    size_t count = 0;

    for (; line[count] != NULL && count + 1 < LSF_OPTIONS_MAX; count++)
        words[count] = text_message(line[count]);
    words[count] = NULL;
    (void)execv(program, words);
}

static void set_where_known(const char *name, const char *value)
{
    if (value[0] != '\0')
        setenv(name, value, 1);
}

const char *lsf_job(const char *allocation_id)
{
    const char *job = getenv("LSB_JOBID");

    return job != NULL && job[0] != '\0' ? job : allocation_id;
}

void lsf_environment(const struct lsf_settings *settings, const char *allocation_id,
                     const char *folder, const char *started_in)
{
    char seconds[24];

    setenv("LSB_JOBID", lsf_job(allocation_id), 1);
    setenv("LSB_JOBINDEX", "0", 0);
    setenv("LSB_CHKPNT_DIR", folder, 1);
    set_where_known("LS_SUBCWD", started_in);
    set_where_known(METHOD_WORD, settings->method);
    set_where_known(FOLDER_WORD, settings->method_dir);
    set_where_known(SERVER_WORD, settings->server_dir);
    if (settings->keep_output)
        setenv(KEEP_WORD, "y", 1);
    snprintf(seconds, sizeof(seconds), "%u", settings->period_min * 60);
    set_where_known("LSB_CHKPNT_PERIOD", settings->period_min == 0 ? "" : seconds);
}
