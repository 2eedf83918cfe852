/* A worker that does not end: set-user-ID root, it cannot be killed by a daemon of another user, as
 * if it hung in the kernel.
 *
 * Flow     becomes root for good -> writes its process id to $HANG_PID_FILE -> waits for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    const char *path = getenv("HANG_PID_FILE");
    char fresh[4096];
    FILE *file;

    if (path == NULL || setresuid(0, 0, 0) != 0)
        return 1;
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    file = fopen(fresh, "w");
    if (file == NULL || fprintf(file, "%d", (int)getpid()) < 0 || fclose(file) != 0 ||
        rename(fresh, path) != 0)
        return 1;
    for (;;)
        pause();
}
