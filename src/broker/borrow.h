/* protobuf-c's string fields are not const, but packing only reads them: lends a constant text to a message that is packed
 * before the text may change. */
#ifndef CKPT_BROKER_BORROW_H
#define CKPT_BROKER_BORROW_H

static inline char *borrow(const char *text)
{
    union {
        const char *in;
        char *out;
    } text_of = {.in = text};

    return text_of.out;
}

#endif
