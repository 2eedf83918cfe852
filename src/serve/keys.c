/* Lines about keys. See keys.h. */
#include "src/serve/keys.h"

#include <stddef.h>

#include "src/base/log.h"

void keys_told(const char *store, const struct err *failed)
{
    if (failed == NULL)
        log_info("s3_keys_read", "store=%s", store);
    else
        log_warning("s3_keys_failed", "store=%s text=\"%s; those of before stay in use\"", store,
                    failed->text);
}
