/* ckpt-worker: blocking work on destinations. src/dest/README.md lists verbs, arguments and exit
 * codes. */
#include "src/base/start.h"
#include "src/dest/tasks.h"

int main(int argc, char **argv)
{
    start_program(NULL);
    return tasks_main(argc, argv);
}
