/* The fronts that there are. See run_front.h. */
#include "src/agent/run/run_front.h"

#include "src/agent/run/run_erestart.h"
#include "src/agent/run/run_stand_in.h"
#include "src/agent/transparent/front.h"

void run_front(int argc, char **argv)
{
    stand_in_run(argc, argv);
    run_erestart_front(argc, argv);
    front_run(argc, argv);
}

const char *run_front_program(char *const *line)
{
    const char *program = front_program(line);

    return program != line[0] ? program : stand_in_program(line);
}
