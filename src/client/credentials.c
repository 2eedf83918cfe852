/* The caller's certificate from options and environment. See client.h. */
#include <stdlib.h>

#include "src/client/client.h"

static const char *text_or_environment(const char *text, const char *variable)
{
    if (text == NULL)
        text = getenv(variable);
    return text != NULL && *text != '\0' ? text : NULL;
}

/* All three or none: with half of them the caller believes to be safe and is not. */
int client_tls(const struct tls_files *given, struct tls_context **ret_tls, struct err *err)
{
    const struct tls_files files = {.ca = text_or_environment(given->ca, "CKPT_CA"),
                                    .cert = text_or_environment(given->cert, "CKPT_CERT"),
                                    .key = text_or_environment(given->key, "CKPT_KEY")};

    if (files.ca == NULL && files.cert == NULL && files.key == NULL) {
        *ret_tls = NULL;
        return 0;
    }
    if (files.ca == NULL || files.cert == NULL || files.key == NULL)
        return err_set(err, ERR_EMPTY, "TLS takes a CA, a certificate and a key: the %s is missing",
                       files.ca == NULL     ? "CA"
                       : files.cert == NULL ? "certificate"
                                            : "key");
    return tls_context_new(&files, NULL, ret_tls, err);
}
