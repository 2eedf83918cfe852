/* The content of a snapshot: an LZ4 frame written and read as a stream. See snapshot.h. */
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>

#include "raft/snap/snapshot_format.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

/* What is compressed or read at once: it bounds the output buffer, whatever length a caller
 * puts. */
enum { PIECE_BYTES = 1 << 16 };

/* ---- writing ---- */

struct snapshot_encoder {
    struct consensus_writer raw;
    LZ4F_cctx *lz4;
    uint8_t *out;
    size_t out_size;
    uint64_t frame_bytes;
    uint32_t crc;
};

/* Takes what LZ4 returned as length, an error or a number of bytes, which may be 0: LZ4 gathers.
 * The checksum is of the compressed bytes, so that a file is verified without unpacking it. */
static int encoder_out(struct snapshot_encoder *encoder, size_t length, struct err *err)
{
    if (LZ4F_isError(length))
        return err_set(err, ERR_IO, "compress snapshot: %s", LZ4F_getErrorName(length));
    encoder->crc = crc32c(encoder->crc, encoder->out, length);
    encoder->frame_bytes += length;
    return length == 0 ? 0 : encoder->raw.write(encoder->raw.context, encoder->out, length, err);
}

static int header_write(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                        struct err *err)
{
    struct buf header;
    int status;

    buf_init(&header);
    snapshot_header_encode(meta, &header);
    status = raw->write(raw->context, header.bytes, header.length, err);
    buf_close(&header);
    return status;
}

int snapshot_encoder_new(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                         struct snapshot_encoder **ret_encoder, struct err *err)
{
    struct snapshot_encoder *encoder;

    CHECK(raw != NULL);
    CHECK(meta != NULL);
    if (header_write(raw, meta, err) != 0)
        return -1;
    encoder = check_calloc(1, sizeof(*encoder));
    encoder->raw = *raw;
    encoder->out_size = LZ4F_compressBound(PIECE_BYTES, NULL) + LZ4F_HEADER_SIZE_MAX;
    encoder->out = check_alloc(encoder->out_size);
    CHECK(!LZ4F_isError(LZ4F_createCompressionContext(&encoder->lz4, LZ4F_VERSION)));
    if (encoder_out(encoder,
                    LZ4F_compressBegin(encoder->lz4, encoder->out, encoder->out_size, NULL),
                    err) != 0) {
        snapshot_encoder_free(encoder);
        return -1;
    }
    *ret_encoder = encoder;
    return 0;
}

void snapshot_encoder_writer(struct snapshot_encoder *encoder, const struct consensus_writer *raw)
{
    CHECK(encoder != NULL);
    CHECK(raw != NULL);
    encoder->raw = *raw;
}

int snapshot_encoder_put(struct snapshot_encoder *encoder, const void *bytes, size_t length,
                         struct err *err)
{
    const uint8_t *at = bytes;

    CHECK(encoder != NULL);
    while (length > 0) {
        size_t n = length < PIECE_BYTES ? length : PIECE_BYTES;
        if (encoder_out(
                encoder,
                LZ4F_compressUpdate(encoder->lz4, encoder->out, encoder->out_size, at, n, NULL),
                err) != 0)
            return -1;
        at += n;
        length -= n;
    }
    return 0;
}

int snapshot_encoder_finish(struct snapshot_encoder *encoder, struct err *err)
{
    uint8_t trailer[SNAPSHOT_TRAILER_BYTES];

    CHECK(encoder != NULL);
    if (encoder_out(encoder, LZ4F_compressEnd(encoder->lz4, encoder->out, encoder->out_size, NULL),
                    err) != 0)
        return -1;
    snapshot_trailer_encode(encoder->frame_bytes, encoder->crc, trailer);
    return encoder->raw.write(encoder->raw.context, trailer, sizeof(trailer), err);
}

void snapshot_encoder_free(struct snapshot_encoder *encoder)
{
    if (encoder == NULL)
        return;
    LZ4F_freeCompressionContext(encoder->lz4);
    free(encoder->out);
    free(encoder);
}

static int encoder_write(void *context, const void *bytes, size_t length, struct err *err)
{
    return snapshot_encoder_put(context, bytes, length, err);
}

int snapshot_write(const struct consensus_writer *raw, const struct snapshot_meta *meta,
                   int (*content)(void *context, const struct consensus_writer *writer,
                                  struct err *err),
                   void *context, struct err *err)
{
    struct snapshot_encoder *encoder;
    struct consensus_writer writer = {.write = encoder_write};
    int status;

    CHECK(raw != NULL);
    CHECK(meta != NULL);
    if (snapshot_encoder_new(raw, meta, &encoder, err) != 0)
        return -1;
    writer.context = encoder;
    status = content(context, &writer, err);
    if (status == 0)
        status = snapshot_encoder_finish(encoder, err);
    snapshot_encoder_free(encoder);
    return status;
}

/* ---- reading ---- */

struct decoder {
    struct snapshot_source source;
    uint64_t at, end; /* of the frame in the file */
    LZ4F_dctx *lz4;
    uint8_t in[PIECE_BYTES];
    size_t in_at, in_length;
};

static int decoder_fill(struct decoder *decoder, struct err *err)
{
    uint64_t left = decoder->end - decoder->at;
    size_t want = left < PIECE_BYTES ? left : PIECE_BYTES;

    if (want == 0)
        return err_set(err, ERR_CORRUPT, "%s: snapshot content ends early", decoder->source.path);
    if (snapshot_read_at(&decoder->source, decoder->at, (struct snapshot_bytes){decoder->in, want},
                         &decoder->in_length, err) != 0)
        return -1;
    if (decoder->in_length != want)
        return err_set(err, ERR_CORRUPT, "%s: snapshot is cut short", decoder->source.path);
    decoder->at += want;
    decoder->in_at = 0;
    return 0;
}

/* LZ4 may still hold unpacked bytes when its input is used up, so it is asked first, and more is
 * read only when it has neither taken nor given anything. */
static int decoder_read(void *context, void *bytes, size_t length, struct err *err)
{
    struct decoder *decoder = context;
    uint8_t *at = bytes;

    while (length > 0) {
        size_t produced = length, consumed = decoder->in_length - decoder->in_at, result;
        result = LZ4F_decompress(decoder->lz4, at, &produced, decoder->in + decoder->in_at,
                                 &consumed, NULL);
        if (LZ4F_isError(result))
            return err_set(err, ERR_CORRUPT, "%s: decompress: %s", decoder->source.path,
                           LZ4F_getErrorName(result));
        decoder->in_at += consumed;
        at += produced;
        length -= produced;
        if (produced == 0 && consumed == 0 && decoder_fill(decoder, err) != 0)
            return -1;
    }
    return 0;
}

int snapshot_read(const struct folder *folder, const char *path,
                  int (*take)(void *context, const struct consensus_reader *reader,
                              struct err *err),
                  void *context, struct err *err)
{
    struct decoder *decoder = check_calloc(1, sizeof(*decoder));
    struct consensus_reader reader = {decoder, decoder_read};
    struct snapshot_opened opened;
    int status = -1;

    CHECK(folder != NULL);
    CHECK(path != NULL);
    if (snapshot_open(folder, path, &opened, err) == 0) {
        snapshot_meta_close(&opened.meta);
        decoder->source = (struct snapshot_source){folder->disk, opened.file, path};
        decoder->at = opened.begin;
        decoder->end = opened.begin + opened.bytes;
        CHECK(!LZ4F_isError(LZ4F_createDecompressionContext(&decoder->lz4, LZ4F_VERSION)));
        status = take(context, &reader, err);
        LZ4F_freeDecompressionContext(decoder->lz4);
        folder->disk->close(opened.file);
    }
    free(decoder);
    return status;
}
