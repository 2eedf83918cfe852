/* See mark.h. */
#include "src/dest/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/sha256.h"

/* One in 2^64 has no mark of its own: it takes the next number. */
uint64_t mark_of(const char *cluster_id)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t mark = 0;

    sha256_of(cluster_id, strlen(cluster_id), digest);
    for (unsigned i = 0; i < sizeof(mark); i++)
        mark = mark << 8 | digest[i];
    return mark == 0 ? 1 : mark;
}

/* Always as many digits, so that names of a length can be told. */
char *mark_format(uint64_t mark, char text[MARK_BYTES])
{
    snprintf(text, MARK_BYTES, "%016" PRIx64, mark);
    return text;
}

bool mark_valid(const char *text)
{
    return strlen(text) == MARK_BYTES - 1 && strspn(text, "0123456789abcdef") == MARK_BYTES - 1 &&
           strspn(text, "0") != MARK_BYTES - 1;
}

/* ---- claims ---- */

char *mark_claim_format(uint64_t mark, uint64_t epoch, char text[MARK_CLAIM_BYTES])
{
    CHECK(mark != 0);
    if (epoch == 0)
        snprintf(text, MARK_CLAIM_BYTES, "%016" PRIx64, mark);
    else
        snprintf(text, MARK_CLAIM_BYTES, "%016" PRIx64 "@%" PRIu64, mark, epoch);
    return text;
}

/* Plain digits of a number that is not 0. */
static bool read_epoch(const char *text, size_t length, uint64_t *ret_epoch)
{
    char digits[20];

    if (length == 0 || length >= sizeof(digits) || text[0] == '0')
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (strspn(digits, "0123456789") != length)
        return false;
    *ret_epoch = strtoull(digits, NULL, 10);
    return true;
}

bool mark_claim_parse(const char *text, struct mark_claim *ret_claim)
{
    struct mark_claim claim = {.epoch = 0};
    size_t length = strcspn(text, "@");

    if (length != MARK_BYTES - 1)
        return false;
    memcpy(claim.mark, text, length);
    if (!mark_valid(claim.mark))
        return false;
    if (text[length] == '@' &&
        !read_epoch(text + length + 1, strlen(text + length + 1), &claim.epoch))
        return false;
    *ret_claim = claim;
    return true;
}

/* ---- notes ---- */

static void add_line(struct buf *text, const char *key, const char *value)
{
    buf_append(text, key, strlen(key));
    buf_append(text, "=", 1);
    buf_append(text, value, strlen(value));
    buf_append(text, "\n", 1);
}

void mark_note_write(const struct mark_claim *claim, const char *cluster_id, struct buf *text)
{
    char epoch[24], host[MARK_HOST_BYTES] = "", now[MARK_TIME_BYTES] = "";
    time_t seconds = time(NULL);
    struct tm parts;

    CHECK(claim->epoch != 0);
    snprintf(epoch, sizeof(epoch), "%" PRIu64, claim->epoch);
    (void)gethostname(host, sizeof(host) - 1);
    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &parts);
    add_line(text, "cluster", cluster_id == NULL ? "" : cluster_id);
    add_line(text, "epoch", epoch);
    add_line(text, "host", host);
    add_line(text, "time", now);
}

/* A value goes into messages: bytes that are no printable characters do not. */
static void take_value(char *to, size_t size, const char *value, size_t length)
{
    size_t kept = 0;

    for (size_t i = 0; i < length && kept + 1 < size; i++)
        if (value[i] > ' ' && value[i] <= '~')
            to[kept++] = value[i];
    to[kept] = '\0';
}

static void take_line(struct mark_note *note, const char *line, size_t length)
{
    const char *equals = memchr(line, '=', length);
    size_t key = equals == NULL ? 0 : (size_t)(equals - line);

    if (key == 5 && memcmp(line, "epoch", key) == 0)
        (void)read_epoch(equals + 1, length - key - 1, &note->epoch);
    else if (key == 7 && memcmp(line, "cluster", key) == 0)
        take_value(note->cluster, sizeof(note->cluster), equals + 1, length - key - 1);
    else if (key == 4 && memcmp(line, "host", key) == 0)
        take_value(note->host, sizeof(note->host), equals + 1, length - key - 1);
    else if (key == 4 && memcmp(line, "time", key) == 0)
        take_value(note->time, sizeof(note->time), equals + 1, length - key - 1);
}

/* Lines of keys that are not known are of a later version, and are passed over. */
void mark_note_read(const char *text, size_t length, struct mark_note *ret_note)
{
    struct mark_note note = {.epoch = 0};

    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t line = end == NULL ? length : (size_t)(end - text);

        take_line(&note, text, line);
        line += end != NULL;
        text += line;
        length -= line;
    }
    *ret_note = note;
}

/* ---- refusals ---- */

static const char *cluster_name(const struct mark_note *note, const char *mark)
{
    return note != NULL && note->cluster[0] != '\0' ? note->cluster : mark;
}

int mark_check(const struct mark_claim *claim, const struct mark_note *note, const char *where,
               struct err *err)
{
    CHECK(claim->epoch != 0);
    if (note->epoch <= claim->epoch)
        return 0;
    return err_set(
        err, ERR_MISMATCH,
        "epoch %" PRIu64 " of cluster %.64s has this target%s%s%s%s, and this is epoch %" PRIu64
        ": that one was restored or recovered later. If it goes on, stop what is left of epoch "
        "%" PRIu64 "; if it was a trial, stop it and then remove %.200s",
        note->epoch, cluster_name(note, claim->mark), note->time[0] == '\0' ? "" : " since ",
        note->time, note->host[0] == '\0' ? "" : " by ", note->host, claim->epoch, claim->epoch,
        where);
}

int mark_refuse(const char *own, const char *others, const struct mark_note *note, const char *path,
                struct err *err)
{
    char epoch[40] = "";

    if (note != NULL && note->epoch != 0)
        snprintf(epoch, sizeof(epoch), ", epoch %" PRIu64, note->epoch);
    return err_set(err, ERR_MISMATCH,
                   "%.160s has the mark %s of another cluster (%s%s), not this one's %s: nothing "
                   "of it is changed. When nobody needs it, remove it by hand, with ckpt-worker "
                   "collect and no --cluster",
                   path, others,
                   note != NULL && note->cluster[0] != '\0' ? note->cluster : "its id is not told",
                   epoch, own);
}
