/* The worker's side of signing: by the daemon over a socket, or by hand with the environment's
 * keys. See signer.h. */
#include "src/dest/s3/signer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"

struct signer {
    int fd; /* of the daemon's socket; -1: signs for itself */
    struct signer_store store;
    struct signer_keys keys;
    char store_text[SIGNER_MESSAGE_MAX_BYTES]; /* store points into it */
    char answer_text[SIGNER_MESSAGE_MAX_BYTES];
    char date[SIGV4_DATE_BYTES];
    struct buf message;
};

/* An empty variable is as good as none, as AWS's tools have it. */
static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : otherwise;
}

/* For people and tests: a daemon always hands a socket over, and its own environment's keys
 * never reach a worker. */
static int open_by_hand(struct signer *signer, struct err *err)
{
    const char *style;

    signer->keys.keys.access_key = from_environment("AWS_ACCESS_KEY_ID", NULL);
    signer->keys.keys.secret_key = from_environment("AWS_SECRET_ACCESS_KEY", NULL);
    signer->keys.token = from_environment("AWS_SESSION_TOKEN", "");
    if (signer->keys.keys.access_key == NULL || signer->keys.keys.secret_key == NULL)
        return err_set(err, ERR_INVALID,
                       "no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    signer->store.endpoint =
        from_environment("AWS_ENDPOINT_URL_S3", from_environment("AWS_ENDPOINT_URL", NULL));
    if (signer->store.endpoint == NULL)
        return err_set(err, ERR_INVALID,
                       "no endpoint for S3: set AWS_ENDPOINT_URL_S3 to http[s]://HOST[:PORT]");
    signer->store.region =
        from_environment("AWS_REGION", from_environment("AWS_DEFAULT_REGION", "us-east-1"));
    signer->store.ca_file = from_environment("AWS_CA_BUNDLE", "");
    style = from_environment(SIGNER_STYLE_ENVIRONMENT, "path");
    if (strcmp(style, "path") != 0 && strcmp(style, "host") != 0)
        return err_set(err, ERR_INVALID, SIGNER_STYLE_ENVIRONMENT "=%.32s: must be path or host",
                       style);
    signer->store.by_host = strcmp(style, "host") == 0;
    return signer_check_endpoint(signer->store.endpoint, err);
}

/* One message there, one back. */
static int ask_daemon(struct signer *signer, const void *bytes, size_t length,
                      char answer[SIGNER_MESSAGE_MAX_BYTES], struct err *err)
{
    ssize_t got;

    if (length > SIGNER_MESSAGE_MAX_BYTES)
        return err_set(err, ERR_REFUSED, "a request to sign has %zu bytes, at most %d are taken",
                       length, SIGNER_MESSAGE_MAX_BYTES);
    while ((got = send(signer->fd, bytes, length, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        continue;
    if (got == (ssize_t)length) {
        while ((got = recv(signer->fd, answer, SIGNER_MESSAGE_MAX_BYTES - 1, 0)) < 0 &&
               errno == EINTR)
            continue;
    }
    if (got <= 0)
        return err_set(err, ERR_UNAVAILABLE, "the daemon that signs requests has gone: %s",
                       got == 0 ? "its socket is closed" : strerror(errno));
    answer[got] = '\0';
    return 0;
}

/* The descriptor was inherited; it stays open until the process ends. */
static int open_by_daemon(struct signer *signer, const char *number, struct err *err)
{
    static const char question[] = "store\n";

    if (number[strspn(number, "0123456789")] != '\0' || strlen(number) > 6)
        return err_set(err, ERR_INVALID, SIGNER_ENVIRONMENT "=%.32s is no descriptor's number",
                       number);
    signer->fd = (int)strtol(number, NULL, 10);
    if (ask_daemon(signer, question, sizeof(question) - 1, signer->store_text, err) != 0 ||
        signer_parse_store(signer->store_text, &signer->store, err) != 0)
        return -1;
    return signer_check_endpoint(signer->store.endpoint, err);
}

struct signer *signer_open(struct err *err)
{
    struct signer *signer = check_calloc(1, sizeof(*signer));
    const char *number = getenv(SIGNER_ENVIRONMENT);

    signer->fd = -1;
    buf_init(&signer->message);
    if ((number != NULL ? open_by_daemon(signer, number, err) : open_by_hand(signer, err)) == 0)
        return signer;
    signer_close(signer);
    return NULL;
}

void signer_close(struct signer *signer)
{
    if (signer == NULL)
        return;
    buf_close(&signer->message);
    free(signer);
}

const struct signer_store *signer_store(const struct signer *signer)
{
    return &signer->store;
}

int signer_sign(struct signer *signer, const struct signer_request *request,
                struct signer_answer *ret_answer, struct err *err)
{
    buf_clear(&signer->message);
    if (signer->fd >= 0) {
        signer_format_request(request, &signer->message);
        if (ask_daemon(signer, signer->message.bytes, signer->message.length, signer->answer_text,
                       err) != 0)
            return -1;
        return signer_parse_answer(signer->answer_text, ret_answer, err);
    }
    sigv4_date(time(NULL), signer->date);
    signer_authorize(&signer->store, &signer->keys, request, signer->date, &signer->message);
    buf_append(&signer->message, "", 1);
    *ret_answer = (struct signer_answer){signer->date, (const char *)signer->message.bytes,
                                         signer->keys.token};
    return 0;
}
