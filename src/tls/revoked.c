/* Certificates that the owner of a context has revoked, by their serial numbers. See context.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/tls/internal.h"

static int by_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

void tls_context_revoke(struct tls_context *context, const char *const *serials, size_t count)
{
    CHECK(count <= TLS_REVOKED_MAX);
    free(context->revoked);
    context->revoked = check_calloc(count + 1, sizeof(*context->revoked));
    context->revoked_count = count;
    for (size_t i = 0; i < count; i++) {
        CHECK(strlen(serials[i]) < TLS_SERIAL_BYTES);
        snprintf(context->revoked[i], TLS_SERIAL_BYTES, "%s", serials[i]);
    }
    qsort(context->revoked, count, sizeof(*context->revoked), by_text);
    context->generation++;
}

bool tls_revoked(const struct tls_context *context, X509 *certificate)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    const uint8_t *bytes = ASN1_STRING_get0_data(serial);
    size_t length = (size_t)ASN1_STRING_length(serial);
    char text[TLS_SERIAL_BYTES];

    if (context->revoked_count == 0 || 2 * length >= sizeof(text))
        return false; /* no list has a longer one */
    for (size_t i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return bsearch(text, context->revoked, context->revoked_count, sizeof(*context->revoked),
                   by_text) != NULL;
}
