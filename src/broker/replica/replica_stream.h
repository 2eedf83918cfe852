/* The state machine's snapshot callbacks, which know no err, over the readers and writers of
 * consensus, which do. */
#ifndef CKPT_BROKER_REPLICA_STREAM_H
#define CKPT_BROKER_REPLICA_STREAM_H

#include "src/broker/replica/replica.h"

/* One snapshot that is written or read. `err` is where the reader or writer says what went wrong:
 * the state machine only returns that something did. One of writer and reader is NULL. */
struct replica_stream {
    const struct consensus_writer *writer;
    const struct consensus_reader *reader;
    struct err *err;
};

/* For fsm_snapshot_next(). 0 or -1. */
static inline int stream_write(void *context, const void *bytes, size_t length)
{
    struct replica_stream *stream = context;

    return stream->writer->write(stream->writer->context, bytes, length, stream->err);
}

/* For fsm_snapshot_read(): exactly length bytes, or -1. */
static inline int stream_read(void *context, void *bytes, size_t length)
{
    struct replica_stream *stream = context;

    return stream->reader->read(stream->reader->context, bytes, length, stream->err);
}

#endif
