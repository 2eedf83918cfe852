/* What a worker printed. See worker.h. */
#include <string.h>

#include "src/dest/worker.h"

int worker_output_get(const char *output, const char *key, char *ret_value, size_t size)
{
    size_t key_length = strlen(key);

    for (const char *line = output; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > key_length && strncmp(line, key, key_length) == 0 && line[key_length] == '=') {
            size_t value_length = length - key_length - 1;
            if (value_length >= size)
                return -1;
            memcpy(ret_value, line + key_length + 1, value_length);
            ret_value[value_length] = '\0';
            return 0;
        }
        line += length + (line[length] == '\n');
    }
    return -1;
}
