/* Neither cores nor looks into memory. See privacy.h. */
#include "src/serve/privacy.h"

#include <sys/prctl.h>

#include "src/base/check.h"

void privacy_begin(void)
{
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
}
