/* What this node is: its architecture and its operating system. A checkpoint is restored on nodes
 * that say the same of both.
 *
 * Flow     platform_read() once at the start of the agent, which tells both with its hello.
 * Shapes   as uname -m, such as "x86_64"; ID and VERSION_ID of os-release with one blank between,
 *          such as "debian 12", or the ID alone where there are no versions. At most
 *          PLATFORM_TEXT_MAX printable characters.
 * Errors   what cannot be found out, or is no such text, is "": not told, and it fits all.
 * Source   os-release(5); S3-045.
 */
#ifndef CKPT_AGENT_PLATFORM_H
#define CKPT_AGENT_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>

enum { PLATFORM_TEXT_MAX = 64 };

struct platform {
    char machine[PLATFORM_TEXT_MAX + 1];
    char os[PLATFORM_TEXT_MAX + 1];
};

void platform_read(struct platform *ret_platform);
/* Another one after each boot; "unknown" where the kernel does not tell. */
void platform_boot_id(char *ret_text, size_t size);

/* The parts of it. Of a file's text. */
void platform_os_parse(const char *os_release, char ret_os[PLATFORM_TEXT_MAX + 1]);
/* Printable, and short enough. */
bool platform_text_valid(const char *text);

#endif
