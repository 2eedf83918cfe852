/* What this node is. See platform.h. */
#include "src/agent/node/platform.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

enum { OS_RELEASE_BYTES = 16384, VALUE_BYTES = 256 };

bool platform_text_valid(const char *text)
{
    size_t length = 0;

    for (const char *at = text; *at != '\0'; at++, length++)
        if (*at < ' ' || *at > '~')
            return false;
    return length <= PLATFORM_TEXT_MAX;
}

/* A value is bare, or in quotes, where a backslash takes the next character as it is. */
static void take_value(const char *from, char ret_value[VALUE_BYTES])
{
    char quote = *from == '"' || *from == '\'' ? *from++ : '\0';
    size_t length = 0;

    while (*from != '\0' && *from != '\n' && length < VALUE_BYTES - 1) {
        if (quote != '\0' ? *from == quote : *from == ' ' || *from == '\t' || *from == '\r')
            break;
        if (quote == '"' && *from == '\\' && from[1] != '\0' && from[1] != '\n')
            from++;
        ret_value[length++] = *from++;
    }
    ret_value[length] = '\0';
}

/* "": there is none. Of several the last one counts, as in a shell. */
static void find_value(const char *text, const char *name, char ret_value[VALUE_BYTES])
{
    size_t length = strlen(name);

    ret_value[0] = '\0';
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == '=')
            take_value(line + length + 1, ret_value);
    }
}

void platform_os_parse(const char *os_release, char ret_os[PLATFORM_TEXT_MAX + 1])
{
    char id[VALUE_BYTES], version[VALUE_BYTES], os[2 * VALUE_BYTES];

    find_value(os_release, "ID", id);
    find_value(os_release, "VERSION_ID", version);
    snprintf(os, sizeof(os), "%s%s%s", id, version[0] != '\0' ? " " : "", version);
    if (id[0] == '\0' || !platform_text_valid(os))
        os[0] = '\0';
    memcpy(ret_os, os, strlen(os) + 1);
}

static bool read_text(const char *path, char text[OS_RELEASE_BYTES])
{
    FILE *file = fopen(path, "re");
    size_t length;

    if (file == NULL)
        return false;
    length = fread(text, 1, OS_RELEASE_BYTES - 1, file);
    text[length] = '\0';
    fclose(file);
    return length > 0;
}

void platform_read(struct platform *ret_platform)
{
    char text[OS_RELEASE_BYTES];
    struct utsname names;

    *ret_platform = (struct platform){"", ""};
    if (uname(&names) == 0 && platform_text_valid(names.machine))
        snprintf(ret_platform->machine, sizeof(ret_platform->machine), "%.64s", names.machine);
    if (read_text("/etc/os-release", text) || read_text("/usr/lib/os-release", text))
        platform_os_parse(text, ret_platform->os);
}

void platform_boot_id(char *ret_text, size_t size)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    snprintf(ret_text, size, "unknown");
    if (file == NULL)
        return;
    if (fgets(ret_text, (int)size, file) != NULL)
        ret_text[strcspn(ret_text, "\n")] = '\0';
    fclose(file);
}
