/* Where it was; include src/base/crc32c.h. */
#include "src/base/crc32c.h"
