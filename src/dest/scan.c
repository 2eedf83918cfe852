/* See scan.h. */
#include "src/dest/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/line.h"

enum { SCAN_PAGE_BYTES = 40000 }; /* then a page is full; its last lines fit into a worker's text */

/* Where lines go, and how many bytes of them there are. */
struct printer {
    FILE *out;
    size_t printed;
};

/* A name that would break the lines is told by nobody. */
static bool print_found(void *data, const struct destination_found *found)
{
    struct printer *printer = data;

    if (line_is_word(found->path) && strlen(found->path) < SCAN_PATH_BYTES)
        printer->printed += (size_t)fprintf(
            printer->out, "found=%" PRIu64 " %" PRIu64 " %s %s\n", found->size_bytes, found->age_s,
            line_is_word(found->owner) && found->owner[0] != '\0' ? found->owner : "-",
            found->path);
    return printer->printed < SCAN_PAGE_BYTES;
}

/* The row's counts follow its lines: a worker that was killed has printed none. */
int scan_run(const struct destination_ops *destination, const struct destination_scan *scan,
             FILE *out, struct err *err)
{
    struct printer printer = {out, 0};
    struct destination_scanned scanned = {0};

    if (destination->scan(scan, &(struct destination_sink){print_found, &printer}, &scanned, err) !=
        0)
        return -1;
    fprintf(out, "looked=%" PRIu64 "\nforeign=%" PRIu64 "\ndenied=%" PRIu64 "\n", scanned.looked,
            scanned.foreign, scanned.denied);
    if (scanned.denied > 0)
        line_print(out, "denied_error", scanned.denied_error.text);
    if (scanned.more && line_is_word(scanned.next))
        fprintf(out, "next=%s\n", scanned.next);
    return 0;
}

/* "BYTES AGE_S OWNER PATH" */
static bool read_line(const char *line, size_t length, struct scan_found *ret_found)
{
    char text[SCAN_PATH_BYTES + SCAN_OWNER_BYTES + 64], *at = text, *owner, *path;

    if (length >= sizeof(text))
        return false;
    memcpy(text, line, length);
    text[length] = '\0';
    ret_found->size_bytes = strtoull(at, &at, 10);
    ret_found->age_s = *at == ' ' ? strtoull(at + 1, &at, 10) : 0;
    if (*at != ' ')
        return false;
    owner = at + 1;
    path = strchr(owner, ' ');
    if (path == NULL || path == owner || path - owner >= SCAN_OWNER_BYTES || path[1] == '\0' ||
        strlen(path + 1) >= SCAN_PATH_BYTES)
        return false;
    *path++ = '\0';
    memcpy(ret_found->owner, owner, strlen(owner) + 1);
    memcpy(ret_found->path, path, strlen(path) + 1);
    return true;
}

/* Damaged lines are no error: the next page may hold good ones. */
bool scan_read(const char **at, struct scan_found *ret_found)
{
    static const char key[] = "found=";

    CHECK(at != NULL && *at != NULL);
    while (**at != '\0') {
        const char *line = *at;
        size_t length = strcspn(line, "\n");

        *at += length + (line[length] == '\n');
        if (strncmp(line, key, strlen(key)) == 0 &&
            read_line(line + strlen(key), length - strlen(key), ret_found))
            return true;
    }
    return false;
}
