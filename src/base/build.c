/* The build of what is linked without one, tests for example: a program's own comes before it. See
 * build.h. */
#include "src/base/build.h"

const char build_text[] = CKPT_VERSION;
