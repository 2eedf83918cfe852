/* What a certificate file holds, for people. See authority.h. */
#include <arpa/inet.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/tls/authority.h"
#include "src/tls/x509.h"

static void describe_host(struct buf *text, const GENERAL_NAME *name)
{
    const char *comma = text->length == 0 ? "" : ", ";
    char address[INET6_ADDRSTRLEN];

    if (name->type == GEN_DNS) {
        buf_printf(text, "%s", comma);
        for (int i = 0; i < ASN1_STRING_length(name->d.dNSName); i++) {
            uint8_t byte = ASN1_STRING_get0_data(name->d.dNSName)[i];

            buf_printf(text, "%c", byte > ' ' && byte < 0x7f ? byte : '?');
        }
    } else if (name->type == GEN_IPADD) {
        int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;

        if ((family == AF_INET || ASN1_STRING_length(name->d.iPAddress) == 16) &&
            inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), address, sizeof(address)) !=
                NULL)
            buf_printf(text, "%s%s", comma, address);
    }
}

static void describe_hosts(X509 *certificate, char text[TLS_HOSTS_TEXT_BYTES])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    struct buf hosts;

    buf_init(&hosts);
    for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++)
        describe_host(&hosts, sk_GENERAL_NAME_value(names, i));
    if (hosts.length >= TLS_HOSTS_TEXT_BYTES)
        snprintf(text, TLS_HOSTS_TEXT_BYTES, "%.*s...", TLS_HOSTS_TEXT_BYTES - 4,
                 (const char *)hosts.bytes);
    else
        snprintf(text, TLS_HOSTS_TEXT_BYTES, "%.*s", (int)hosts.length, (const char *)hosts.bytes);
    buf_close(&hosts);
    GENERAL_NAMES_free(names);
}

static void describe_key(X509 *certificate, char *text, size_t size)
{
    EVP_PKEY *key = X509_get0_pubkey(certificate);
    char group[32] = "";

    if (key == NULL) {
        snprintf(text, size, "unknown");
        return;
    }
    if (EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) != 1)
        group[0] = '\0';
    snprintf(text, size, "%s%s%s, %d bits", EVP_PKEY_get0_type_name(key),
             group[0] == '\0' ? "" : " ", group, EVP_PKEY_get_bits(key));
}

static void describe_bytes(const uint8_t *bytes, size_t count, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < count && used + 4 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%02X", i == 0 ? "" : ":", bytes[i]);
}

int tls_certificate_describe(const char *path, struct tls_description *ret_description,
                             struct err *err)
{
    struct tls_description description = {.identity = ""};
    struct tls_identity identity;
    STACK_OF(X509) * certificates;
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_length = 0;
    const ASN1_INTEGER *serial;
    struct err problem;
    X509 *certificate;

    if (x509_load_certificates(path, &certificates, err) != 0)
        return -1;
    certificate = sk_X509_value(certificates, 0);
    if (x509_identity(certificate, &identity, &problem) == 0)
        tls_identity_format(&identity, description.identity);
    else
        snprintf(description.problem, sizeof(description.problem), "%s", problem.text);
    X509_NAME_oneline(X509_get_subject_name(certificate), description.subject,
                      sizeof(description.subject));
    X509_NAME_oneline(X509_get_issuer_name(certificate), description.issuer,
                      sizeof(description.issuer));
    describe_hosts(certificate, description.hosts);
    describe_key(certificate, description.key, sizeof(description.key));
    if (X509_digest(certificate, EVP_sha256(), digest, &digest_length) == 1)
        describe_bytes(digest, digest_length, description.fingerprint,
                       sizeof(description.fingerprint));
    serial = X509_get0_serialNumber(certificate);
    describe_bytes(ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial),
                   description.serial, sizeof(description.serial));
    description.not_before_s = x509_not_before(certificate);
    description.not_after_s = x509_not_after(certificate);
    description.authority = X509_check_ca(certificate) == 1;
    sk_X509_pop_free(certificates, X509_free);
    ERR_clear_error();
    *ret_description = description;
    return 0;
}
