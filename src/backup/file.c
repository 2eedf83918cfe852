/* Backup files of the local file system. See backup.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/backup/backup.h"
#include "src/dest/sha256.h"

static int file_read(void *context, void *bytes, size_t length, size_t *ret_length, struct err *err)
{
    struct backup_file *file = context;
    size_t got = fread(bytes, 1, length, file->stream);

    if (got != length && ferror(file->stream))
        return err_set(err, ERR_IO, "read %s: %s", file->path, strerror(errno));
    *ret_length = got;
    return 0;
}

int backup_file_open(struct backup_file *file, const char *path, struct backup_source *ret_source,
                     struct err *err)
{
    if (strlen(path) >= sizeof(file->path))
        return err_set(err, ERR_INVALID, "the path of the backup has %zu characters, at most %zu",
                       strlen(path), sizeof(file->path) - 1);
    memcpy(file->path, path, strlen(path) + 1);
    file->stream = fopen(path, "rbe");
    if (file->stream == NULL)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "open %s: %s", path,
                       strerror(errno));
    *ret_source = (struct backup_source){.context = file, .name = file->path, .read = file_read};
    return 0;
}

void backup_file_close(struct backup_file *file)
{
    if (file->stream != NULL)
        fclose(file->stream);
    file->stream = NULL;
}

/* Passes everything on and hashes it: what sha256sum(1) prints covers the file's own digest too. */
struct hashing {
    struct backup_source inner;
    struct sha256 sha256;
};

static int hashing_read(void *context, void *bytes, size_t length, size_t *ret_length,
                        struct err *err)
{
    struct hashing *hashing = context;
    int status = hashing->inner.read(hashing->inner.context, bytes, length, ret_length, err);

    if (status == 0)
        sha256_update(&hashing->sha256, bytes, *ret_length);
    return status;
}

int backup_file_check(const char *path, Ckpt__V1__BackupHeader **ret_header,
                      char ret_sha256[BACKUP_SHA256_HEX_BYTES], struct err *err)
{
    struct backup_file file;
    struct hashing hashing;
    struct backup_source source;
    struct backup_reader *reader = NULL;
    uint8_t digest[SHA256_BYTES];
    int status;

    if (backup_file_open(&file, path, &hashing.inner, err) != 0)
        return -1;
    source = hashing.inner;
    source.context = &hashing;
    source.read = hashing_read;
    sha256_init(&hashing.sha256);
    sha256_start(&hashing.sha256);
    status = backup_reader_open(&source, &reader, err);
    if (status == 0)
        status = backup_reader_finish(reader, err);
    if (status == 0 && ret_header != NULL)
        *ret_header = backup_reader_take_header(reader);
    sha256_finish(&hashing.sha256, digest);
    if (status == 0 && ret_sha256 != NULL)
        sha256_format(digest, ret_sha256);
    sha256_close(&hashing.sha256);
    backup_reader_free(reader);
    backup_file_close(&file);
    return status;
}
