/* See credentials.h.
 *
 * Flow     credentials_read() -> the file's bytes, checked for whose they are and who may read them
 *          -> its lines, those of the profile's section -> both keys must be there.
 * Shapes   the text of the file and what was read of it are wiped before the call returns, also
 *          when it fails. Names of other tools in the same file (region, output, role_arn) are
 *          passed over; a line that is none is an error, since half a file may be being written.
 */
#include "src/dest/s3/credentials.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/s3/stores.h"

void credentials_wipe(struct credentials *credentials)
{
    explicit_bzero(credentials, sizeof(*credentials));
}

/* ---- the file's bytes ---- */

/* Whoever may write the file decides what is signed, and whoever may read it signs. */
static int check_file(const char *path, const struct stat *stat, struct err *err)
{
    if (!S_ISREG(stat->st_mode))
        return err_set(err, ERR_INVALID, "%s is no regular file", path);
    if ((stat->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return err_set(err, ERR_REFUSED, "%s may be read by others (mode %03o): chmod 600 %s", path,
                       (unsigned)stat->st_mode & 0777, path);
    if (stat->st_uid != geteuid())
        return err_set(err, ERR_REFUSED, "%s is user %u's, and this runs as user %u: chown %u %s",
                       path, (unsigned)stat->st_uid, (unsigned)geteuid(), (unsigned)geteuid(),
                       path);
    if (stat->st_size > S3_CREDENTIALS_MAX_BYTES)
        return err_set(err, ERR_INVALID, "%s has %lld bytes, at most %d are read", path,
                       (long long)stat->st_size, S3_CREDENTIALS_MAX_BYTES);
    return 0;
}

static int read_text(const char *path, char text[S3_CREDENTIALS_MAX_BYTES + 1],
                     struct stat *ret_stat, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang the caller */
    size_t used = 0;
    ssize_t got;

    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "open %s: %s", path,
                       strerror(errno));
    if (fstat(fd, ret_stat) != 0 || check_file(path, ret_stat, err) != 0) {
        close(fd);
        return -1;
    }
    while ((got = read(fd, text + used, S3_CREDENTIALS_MAX_BYTES - used)) > 0)
        used += (size_t)got;
    close(fd);
    if (got < 0)
        return err_set(err, ERR_IO, "read %s: %s", path, strerror(errno));
    text[used] = '\0';
    if (strlen(text) != used)
        return err_set(err, ERR_INVALID, "%s holds a byte of 0: it must be text", path);
    return 0;
}

/* ---- its lines ---- */

static char *trim_blanks(char *text)
{
    size_t length;

    while (isblank((unsigned char)*text))
        text++;
    length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Where a name's value goes; NULL: it is of other tools (region, output and the like). */
static char *find_field(struct credentials *credentials, const char *name, size_t *ret_size)
{
    if (strcmp(name, "aws_access_key_id") == 0 || strcmp(name, "access_key") == 0) {
        *ret_size = sizeof(credentials->access_key);
        return credentials->access_key;
    }
    if (strcmp(name, "aws_secret_access_key") == 0 || strcmp(name, "secret_key") == 0) {
        *ret_size = sizeof(credentials->secret_key);
        return credentials->secret_key;
    }
    if (strcmp(name, "aws_session_token") == 0 || strcmp(name, "session_token") == 0) {
        *ret_size = sizeof(credentials->token);
        return credentials->token;
    }
    return NULL;
}

/* A key goes into a header: nothing that could begin another one. */
static bool value_is_plain(const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value <= ' ' || *value > '~')
            return false;
    }
    return true;
}

static int take_line(char *line, const char *path, unsigned number, struct credentials *credentials,
                     struct err *err)
{
    char *equals = strchr(line, '='), *name, *value, *field;
    size_t size = 0;

    if (equals == NULL)
        return err_set(err, ERR_INVALID, "%s, line %u: \"name = value\" is expected", path, number);
    *equals = '\0';
    name = trim_blanks(line);
    value = trim_blanks(equals + 1);
    field = find_field(credentials, name, &size);
    if (field == NULL)
        return 0;
    if (!value_is_plain(value) || strlen(value) >= size)
        return err_set(err, ERR_INVALID,
                       "%s, line %u: %.32s must be at most %zu printable characters of ASCII", path,
                       number, name, size - 1);
    memcpy(field, value, strlen(value) + 1);
    return 0;
}

/* Lines of the profile's section, and those before any. */
static int take_lines(char *text, const char *path, const char *profile,
                      struct credentials *credentials, struct err *err)
{
    bool mine = true;
    unsigned number = 0;

    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        size_t length;

        number++;
        line = trim_blanks(line);
        length = strlen(line);
        if (length == 0 || line[0] == '#' || line[0] == ';')
            continue;
        if (line[0] == '[') {
            if (line[length - 1] != ']')
                return err_set(err, ERR_INVALID, "%s, line %u: a section has no end", path, number);
            line[length - 1] = '\0';
            mine = strcmp(trim_blanks(line + 1), profile) == 0;
        } else if (mine && take_line(line, path, number, credentials, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int check_whole(const struct credentials *credentials, const char *where,
                       const char *profile, struct err *err)
{
    if (credentials->access_key[0] == '\0' || credentials->secret_key[0] == '\0')
        return err_set(err, ERR_INVALID, "%s has no %s for profile %s", where,
                       credentials->access_key[0] == '\0' ? "aws_access_key_id"
                                                          : "aws_secret_access_key",
                       profile);
    return 0;
}

static int read_environment(struct credentials *credentials, struct err *err)
{
    static const struct {
        const char *variable, *name;
    } words[] = {{"AWS_ACCESS_KEY_ID", "access_key"},
                 {"AWS_SECRET_ACCESS_KEY", "secret_key"},
                 {"AWS_SESSION_TOKEN", "session_token"}};

    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        const char *value = getenv(words[i].variable);
        size_t size = 0;
        char *field = find_field(credentials, words[i].name, &size);

        if (value == NULL)
            value = "";
        if (!value_is_plain(value) || strlen(value) >= size)
            return err_set(err, ERR_INVALID, "%s must be at most %zu printable characters of ASCII",
                           words[i].variable, size - 1);
        memcpy(field, value, strlen(value) + 1);
    }
    if (credentials->access_key[0] == '\0' || credentials->secret_key[0] == '\0')
        return err_set(
            err, ERR_NOT_FOUND, "no credentials_file is given, and the environment has no %s",
            credentials->access_key[0] == '\0' ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
    return 0;
}

int credentials_read(const char *path, const char *profile, struct credentials *ret_credentials,
                     struct stat *ret_stat, struct err *err)
{
    static char text[S3_CREDENTIALS_MAX_BYTES + 1]; /* wiped below */
    struct credentials credentials = {.token = ""};
    int result;

    *ret_stat = (struct stat){0};
    if (path[0] == '\0')
        result = read_environment(&credentials, err);
    else if ((result = read_text(path, text, ret_stat, err)) == 0 &&
             (result = take_lines(text, path, profile, &credentials, err)) == 0)
        result = check_whole(&credentials, path, profile, err);
    if (result == 0)
        *ret_credentials = credentials;
    credentials_wipe(&credentials);
    explicit_bzero(text, sizeof(text));
    return result;
}
