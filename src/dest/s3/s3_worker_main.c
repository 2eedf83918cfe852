/* ckpt-worker-s3: ckpt-worker with the code of object stores. ckpt-worker and the daemons start it
 * for locations of that kind (s3_form.h), with the same arguments.
 */
#include "src/base/start.h"
#include "src/dest/posix/posix.h"
#include "src/dest/s3/s3.h"
#include "src/dest/tasks.h"

const struct destination_ops *const destinations[] = {
    &destination_posix,
    &destination_s3,
    NULL,
};

int main(int argc, char **argv)
{
    start_program(NULL);
    return tasks_main(argc, argv);
}
