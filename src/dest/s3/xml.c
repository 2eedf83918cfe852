/* XML by libexpat. See xml.h. The whole answer is in memory before it is read: a page of a list has
 * a thousand elements at most. */
#include "src/dest/s3/xml.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/check.h"

struct reading {
    XML_Parser parser;
    xml_fn *fn;
    void *data;
    char path[XML_PATH_BYTES];
    size_t lengths[XML_DEPTH_MAX]; /* of path, before each name */
    size_t depth;
    struct buf text;
};

/* The parser then says that it was stopped, which is the error. */
static void stop_reading(struct reading *reading)
{
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

/* What is deeper or longer than any answer of a store ends the reading. */
static void on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = data;
    size_t length = strlen(reading->path);
    int added;

    (void)attributes;
    if (reading->depth == XML_DEPTH_MAX) {
        stop_reading(reading);
        return;
    }
    reading->lengths[reading->depth++] = length;
    added = snprintf(reading->path + length, sizeof(reading->path) - length, "%s%s",
                     length == 0 ? "" : "/", name);
    if (added < 0 || (size_t)added >= sizeof(reading->path) - length)
        stop_reading(reading);
    buf_clear(&reading->text);
}

/* Comes in pieces of any size. */
static void on_text(void *data, const XML_Char *text, int length)
{
    struct reading *reading = data;

    if (reading->text.length + (size_t)length > XML_TEXT_MAX_BYTES)
        stop_reading(reading);
    else
        buf_append(&reading->text, text, (size_t)length);
}

static void on_end(void *data, const XML_Char *name)
{
    struct reading *reading = data;

    (void)name;
    CHECK(reading->depth > 0);
    buf_append(&reading->text, "", 1);
    if (reading->fn(reading->data, reading->path, (const char *)reading->text.bytes) != 0)
        stop_reading(reading);
    buf_clear(&reading->text);
    reading->path[reading->lengths[--reading->depth]] = '\0';
}

/* No answer has one; its entities could name files, or grow without end. */
static void on_document_type(void *data, const XML_Char *name, const XML_Char *system_id,
                             const XML_Char *public_id, int has_internal)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal;
    stop_reading(data);
}

int xml_read(const uint8_t *bytes, size_t length, xml_fn *fn, void *data, struct err *err)
{
    struct reading reading = {.parser = XML_ParserCreate(NULL), .fn = fn, .data = data};
    enum XML_Status status;

    CHECK(reading.parser != NULL);
    /* a store that is still at it says so by blanks, ahead of everything */
    while (length > 0 && bytes[0] != '\0' && strchr(" \t\r\n", bytes[0]) != NULL) {
        bytes++;
        length--;
    }
    if (length > INT32_MAX) {
        XML_ParserFree(reading.parser);
        return err_set(err, ERR_IO, "an answer of %zu bytes is too long", length);
    }
    XML_SetUserData(reading.parser, &reading);
    XML_SetElementHandler(reading.parser, on_start, on_end);
    XML_SetCharacterDataHandler(reading.parser, on_text);
    XML_SetStartDoctypeDeclHandler(reading.parser, on_document_type);
    status = XML_Parse(reading.parser, (const char *)bytes, (int)length, XML_TRUE);
    if (status != XML_STATUS_OK)
        err_set(err, ERR_IO, "the answer is no XML that is expected here: %s",
                XML_ErrorString(XML_GetErrorCode(reading.parser)));
    XML_ParserFree(reading.parser);
    buf_close(&reading.text);
    return status == XML_STATUS_OK ? 0 : -1;
}
