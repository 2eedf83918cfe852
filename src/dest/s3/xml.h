/* The answers of an object store, which are small XML documents, leaf by leaf.
 *
 * Flow     xml_read() calls back at the end of each element with the path of its names, such as
 *          "ListBucketResult/Contents/Key", and its text.
 * Shapes   at most XML_DEPTH_MAX levels and XML_TEXT_MAX_BYTES in one text; names without their
 *          namespace; no document type, and so no entities of its own.
 * Errors   ERR_IO: what was answered is no such document. The callback's -1 ends the reading.
 */
#ifndef CKPT_DEST_S3_XML_H
#define CKPT_DEST_S3_XML_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

enum { XML_DEPTH_MAX = 8, XML_TEXT_MAX_BYTES = 16384, XML_PATH_BYTES = 256 };

/* An element that holds others has the white space between them as its text. */
typedef int xml_fn(void *data, const char *path, const char *text);

/* 0 or -1. The text may be anything: it is from the network. */
int xml_read(const uint8_t *bytes, size_t length, xml_fn *fn, void *data, struct err *err);

#endif
