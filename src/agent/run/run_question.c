/* The question in a work folder and its answer. See run_question.h. */
#include "src/agent/run/run_question.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"

bool question_read(const char *work_dir, struct question *ret_question)
{
    char path[PATH_MAX], line[PATH_MAX + 16];
    FILE *file;

    CHECK(work_dir != NULL);
    *ret_question = (struct question){.hint = ""};
    snprintf(path, sizeof(path), "%s/request", work_dir);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "hint=", 5) == 0)
            text_copy(ret_question->hint, sizeof(ret_question->hint), line + 5);
        else if (strncmp(line, "directory=", 10) == 0)
            text_copy(ret_question->directory, sizeof(ret_question->directory), line + 10);
        else if (strncmp(line, "deadline_ms=", 12) == 0)
            ret_question->deadline_ms = strtoull(line + 12, NULL, 10);
    }
    request_unquote(ret_question->directory);
    if (file != NULL)
        fclose(file);
    return ret_question->hint[0] != '\0' && ret_question->directory[0] == '/';
}

void question_drop(const char *work_dir)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%.4000s/request", work_dir);
    (void)unlink(path);
}

void question_newest(const char *hint, uint64_t *newest)
{
    const char *attempt = strrchr(hint, '-');
    char text[HINT_TEXT_BYTES] = "";
    uint64_t id;

    CHECK(strlen(hint) < sizeof(text));
    if (attempt != NULL)
        memcpy(text, hint, (size_t)(attempt - hint));
    if (checkpoint_id_parse(text, &id) == 0 && id > *newest)
        *newest = id;
}

bool question_same_checkpoint(const char *hint, const char *other)
{
    const char *attempt = strrchr(hint, '-'), *other_attempt = strrchr(other, '-');

    if (attempt == NULL || other_attempt == NULL)
        return false;
    return attempt - hint == other_attempt - other &&
           strncmp(hint, other, (size_t)(attempt - hint)) == 0;
}

int question_write_file(const char *path, const char *text, size_t length, struct stat *ret_stat)
{
    char new_path[PATH_MAX + 16];
    int fd, failed;

    snprintf(new_path, sizeof(new_path), "%s.ckpt-new", path);
    fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    failed = write(fd, text, length) != (ssize_t)length || fstat(fd, ret_stat) != 0;
    return close(fd) != 0 || failed ? -1 : rename(new_path, path);
}

int question_answer(const char *work_dir, const struct sentinel *answer)
{
    char path[PATH_MAX], text[SENTINEL_MAX_BYTES];
    struct stat stat;

    CHECK(answer->hint[0] != '\0');
    snprintf(path, sizeof(path), "%s/done", work_dir);
    return question_write_file(path, text, sentinel_format(answer, text), &stat);
}
