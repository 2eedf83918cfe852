/* Where it was; include src/base/bytes.h. */
#include "src/base/bytes.h"
