/* xml_read() on arbitrary bytes: what a store answers, or whatever is between here and it. Paths
 * stay within their bounds, and nothing is read but the document.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/s3/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

struct seen {
    size_t elements, stop_at;
};

static int take_element(void *data, const char *path, const char *text)
{
    struct seen *seen = data;
    size_t names = 1;

    CHECK(path[0] != '\0');
    CHECK(strlen(path) < XML_PATH_BYTES);
    CHECK(strlen(text) <= XML_TEXT_MAX_BYTES);
    CHECK(strstr(text, "root:") == NULL); /* of /etc/passwd */
    for (; *path != '\0'; path++)
        names += *path == '/';
    CHECK(names <= XML_DEPTH_MAX);
    return ++seen->elements == seen->stop_at ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct seen all = {0, 0}, some = {0, 0};
    struct err err = {0};
    int result = xml_read(bytes, length, take_element, &all, &err);

    CHECK(result == 0 || err.text[0] != '\0');
    if (all.elements == 0)
        return 0;
    some.stop_at = 1 + length % all.elements;
    CHECK(xml_read(bytes, length, take_element, &some, NULL) != 0);
    CHECK(some.elements == some.stop_at || some.elements == some.stop_at + 1);
    return 0;
}

size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const texts[] = {
        ("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a"
         "%2Fb</Key><Size>7</Size></Contents></ListBucketResult>"),
        "<Error><Code>SlowDown</Code><Message>a &lt; b</Message></Error>",
        "<!DOCTYPE a [<!ENTITY f SYSTEM \"file:///etc/passwd\">]><a>&f;</a>",
        "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\"><!ENTITY c \"&b;&b;&b;&b;\">]><a>&c;</a>",
        "<a><b><c><d><e><f><g><h/></g></f></e></d></c></b></a>",
        "<a/>",
        "<a><![CDATA[<b>]]></a><!-- x -->",
    };
    size_t length;

    if (i >= sizeof(texts) / sizeof(texts[0]))
        return 0;
    length = strlen(texts[i]);
    CHECK(length <= size);
    memcpy(bytes, texts[i], length);
    return length;
}
