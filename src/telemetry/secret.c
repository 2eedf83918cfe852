/* See secret.h. */
#include "src/telemetry/secret.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/check.h"
#include "src/telemetry/file.h"

enum { SECRET_MAX_BYTES = 4096 };

static void wipe_text(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void set_text(char **place, const char *text)
{
    wipe_text(*place);
    *place = check_strdup(text);
}

/* What follows the word; NULL: another one. */
static const char *text_after(const char *line, const char *word)
{
    size_t length = strlen(word);

    return strncasecmp(line, word, length) == 0 && line[length] != '\0' ? line + length : NULL;
}

static int take_line(const char *line, bool of_vms, struct secret *secret)
{
    const char *rest;

    if ((rest = text_after(line, "Bearer ")) != NULL)
        set_text(&secret->bearer, rest);
    else if (of_vms && (rest = text_after(line, "Api-Token ")) != NULL)
        set_text(&secret->api_token, rest);
    else if (of_vms && (rest = text_after(line, "Token ")) != NULL && strchr(rest, ':') != NULL)
        set_text(&secret->login, rest);
    else if (strchr(line, ':') != NULL)
        set_text(&secret->user, line);
    else
        return -1;
    return 0;
}

int secret_read(const char *path, bool of_vms, struct secret *ret_secret, struct err *err)
{
    struct buf text;
    char *line;
    int result;

    *ret_secret = (struct secret){.user = check_strdup(""),
                                  .bearer = check_strdup(""),
                                  .api_token = check_strdup(""),
                                  .login = check_strdup("")};
    if (path[0] == '\0')
        return 0;
    if (file_read(path, SECRET_MAX_BYTES, FILE_SECRET, &text, err) != 0)
        return err_wrap(err, "credentials");
    buf_append(&text, "", 1);
    line = (char *)text.bytes;
    line[strcspn(line, "\r\n")] = '\0';
    result = take_line(line, of_vms, ret_secret);
    if (result != 0)
        err_set(err, ERR_INVALID, "credentials: the first line of %s is neither USER:PASSWORD%s",
                path,
                of_vms ? ", Bearer TOKEN, Api-Token TOKEN nor Token USER:PASSWORD"
                       : " nor Bearer TOKEN");
    explicit_bzero(text.bytes, text.length);
    buf_close(&text);
    return result;
}

void secret_set_bearer(struct secret *secret, char *take_token)
{
    wipe_text(secret->bearer);
    secret->bearer = take_token != NULL ? take_token : check_strdup("");
}

void secret_close(struct secret *secret)
{
    wipe_text(secret->user);
    wipe_text(secret->bearer);
    wipe_text(secret->api_token);
    wipe_text(secret->login);
    *secret = (struct secret){.user = NULL};
}
