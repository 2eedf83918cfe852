/* ckpt-run --profile: a profile's keys as the options of a line. S1-030. */
#include "tests/support/test.h"

#include <getopt.h>
#include <signal.h>
#include <unistd.h>

#include "src/agent/run/run_options.h"
#include "src/agent/run/run_profile.h"

static struct run_options options;
static struct err err;

/* The line of the options before is a block of the heap where a stand-in stands in it. */
static int take_line(const char *const *words)
{
    static char **made;
    int argc = 0, result;

    while (words[argc] != NULL)
        argc++;
    optind = 0;
    free(made);
    memset(&options, 0, sizeof(options));
    result = run_options_parse(argc, (char **)(uintptr_t)words, &options, &err);
    made = result == 0 && stand_in_wanted(&options.stand_in) ? options.command : NULL;
    return result;
}
#define ALONE(...)                                                                                 \
    take_line((const char *const[]){"ckpt-run", "--standalone", "--every", "1m", "--dir", "/d",    \
                                    __VA_ARGS__, NULL})
#define LINE(...) take_line((const char *const[]){"ckpt-run", "--alloc", "j", __VA_ARGS__, NULL})

static int no_site(void **state)
{
    (void)state;
    return setenv("CKPT_PROFILES", "/nonexistent", 1);
}

static void a_profile_stands_for_options(void **state)
{
    (void)state;
    assert_int_equal(LINE("--profile", "vasp", "vasp_std", "x y"), 0);
    assert_string_equal(options.profile, "file");
    assert_string_equal(options.stand_in.file, "STOPCAR");
    assert_string_equal(options.stand_in.text, "LSTOP = .TRUE.");
    assert_string_equal(options.stand_in.files, "CONTCAR WAVECAR CHGCAR");
    assert_contains(options.stand_in.restart, "exec vasp_std 'x y'");
    assert_null(options.restart_cmd); /* the stand-in's */
    assert_string_equal(stand_in_program(options.command), "vasp_std");
    assert_int_equal(LINE("--profile", "quantum-espresso", "pw.x"), 0);
    assert_int_equal(options.stand_in.status, 255);
    assert_int_equal(LINE("--profile", "gromacs-mpi", "mpirun", "gmx_mpi", "mdrun"), 0);
    assert_string_equal(options.profile, "file");
    assert_int_equal(options.stand_in.tell.signal, SIGTERM);
    assert_int_equal(options.stand_in.tell.whom, TELL_RANK);
    assert_contains(options.stand_in.restart, "exec mpirun gmx_mpi mdrun -cpi");
    assert_string_equal(options.stand_in.files, "*.cpt");
    assert_string_equal(options.stand_in.outputs, "*.log *.edr *.xtc *.trr *.tng *.xvg");
    assert_int_equal(LINE("--profile", "htcondor", "./solver"), 0);
    assert_true(options.stand_in.unasked);
    assert_int_equal(options.stand_in.status, 85);
    assert_int_equal(LINE("--profile", "lightning", "python3", "train.py"), 0);
    assert_true(options.stand_in.requeues);
    assert_int_equal(LINE("--profile", "lsf", "./solver", "a"), 0);
    assert_string_equal(options.profile, "exec");
    assert_string_equal(options.echkpnt, ".lbatch");
    assert_null(options.checkpoint_cmd);
}

static void options_of_the_line_stand_above_it(void **state)
{
    (void)state;
    assert_int_equal(LINE("--profile", "vasp", "--ask-file", "STOP", "--checkpoint-files", "a",
                          "--ask-then", "exits=3", "--restart-cmd", "again {command}", "vasp_std"),
                     0);
    assert_string_equal(options.stand_in.file, "STOP");
    assert_string_equal(options.stand_in.files, "a");
    assert_int_equal(options.stand_in.status, 3);
    assert_string_equal(options.stand_in.restart, "again vasp_std");
    assert_string_equal(options.stand_in.text, "LSTOP = .TRUE.");
    /* where all nodes see one folder nobody wants its trajectory in each checkpoint */
    assert_int_equal(LINE("--profile", "gromacs", "--checkpoint-files", "*.cpt", "gmx"), 0);
    assert_null(options.stand_in.outputs);
    assert_int_equal(LINE("--profile", "gromacs", "--checkpoint-outputs", "md.log", "gmx"), 0);
    assert_string_equal(options.stand_in.outputs, "md.log");
    assert_string_equal(options.stand_in.files, "*.cpt");
}

static void ways_of_asking_stay_as_they_are(void **state)
{
    (void)state;
    assert_int_equal(LINE("--profile", "signal-usr2", "vasp_std"), 0);
    assert_string_equal(options.profile, "signal-usr2");
    assert_null(options.stand_in.file);
    assert_int_equal(LINE("vasp_std"), 0); /* a line that says nothing is changed in nothing */
    assert_string_equal(options.profile, "");
    assert_null(options.stand_in.file);
    assert_int_equal(options.way, RUN_WAY_UNSAID);
    assert_string_equal(options.command[0], "vasp_std");
    assert_true(run_profile_is_known());
    /* but where no registration says another way */
    assert_int_equal(ALONE("vasp_std"), 0);
    assert_string_equal(options.stand_in.file, "STOPCAR");
    assert_false(run_profile_is_known());
    assert_int_equal(ALONE("./unknown"), 0);
    assert_string_equal(options.profile, "");
    assert_int_equal(options.way, RUN_WAY_SAID);
}

/* The program does more things than the one that the profile knows, and its line may say how it
 * begins. S1-030. */
static void a_profile_knows_what_the_program_is_to_do(void **state)
{
    (void)state;
    assert_int_equal(LINE("gmx", "mdrun", "-s", "a.tpr"), 0);
    assert_true(run_profile_is_known());
    assert_false(stand_in_wanted(&options.stand_in)); /* it is named alone */
    assert_int_equal(LINE("mdrun", "-s", "a.tpr"), 0);
    assert_true(run_profile_is_known());
    assert_int_equal(LINE("mpirun", "-np", "4", "gmx_mpi", "mdrun"), 0);
    assert_true(run_profile_is_known());
    assert_int_equal(LINE("gmx", "grompp", "-o", "mdrun"), 0);
    assert_false(run_profile_is_known());
    assert_int_equal(LINE("srun", "gmx", "mdrun"), 0); /* the signal would be the launcher's */
    assert_false(run_profile_is_known());
    assert_int_equal(LINE("gmx", "mdrun", "-nsteps", "100"), 0);
    assert_false(run_profile_is_known());
    assert_int_equal(LINE("--profile", "auto", "gmx", "mdrun", "-nsteps", "100"), -1);
    assert_contains(err.text, "profile gromacs: does not go with -nsteps in the command");
    assert_int_equal(LINE("--profile", "gromacs", "gmx", "mdrun", "-cpi", "state.cpt"), -1);
    assert_contains(err.text, "--profile gromacs: does not go with -cpi in the command");
    assert_int_equal(LINE("--profile", "signal", "gmx", "mdrun", "-cpi", "state.cpt"), 0);
}

static void auto_takes_what_knows_the_program(void **state)
{
    (void)state;
    assert_int_equal(LINE("--profile", "auto", "mpirun", "-np", "2", "cp2k.psmp"), 0);
    assert_string_equal(options.profile, "file");
    assert_string_equal(options.stand_in.file, "EXIT");
    assert_contains(options.stand_in.restart, "exec mpirun -np 2 cp2k.psmp");
    assert_int_equal(LINE("--profile", "auto", "./unknown"), 0);
    assert_string_equal(options.profile, "");
    assert_null(options.stand_in.file);
    assert_int_equal(
        LINE("--profile", "auto", "--ask-file", "S", "--checkpoint-files", "a", "vasp"), 0);
    assert_string_equal(options.stand_in.files, "a");
    assert_null(options.stand_in.text);
}

static void unknown_profiles_are_refused(void **state)
{
    (void)state;
    assert_int_equal(LINE("--profile", "vapor", "x"), -1);
    assert_contains(err.text, "--profile: there is no profile \"vapor\"; the nearest is vasp");
    assert_int_equal(LINE("--profile", "./none.yaml", "x"), -1);
    assert_contains(err.text, "./none.yaml: cannot be opened");
    assert_int_equal(LINE("--profile", "vasp", "--ranks", "4", "x"), -1);
    assert_contains(err.text, "--ranks 4 does not go with --ask-file");
}

/* Of a shell each word is what it was. */
static void a_restart_command_has_the_command(void **state)
{
    static const char *const command[] = {"a b", "", "it's", "$x", NULL};
    const char *text = run_profile_restart("cd x && exec {command}; {comman} {command}",
                                           (char *const *)(uintptr_t)command);

    (void)state;
    assert_string_equal(text, "cd x && exec 'a b' '' 'it'\\''s' '$x'; {comman} 'a b' '' "
                              "'it'\\''s' '$x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_profile_stands_for_options, no_site),
        cmocka_unit_test_setup(options_of_the_line_stand_above_it, no_site),
        cmocka_unit_test_setup(ways_of_asking_stay_as_they_are, no_site),
        cmocka_unit_test_setup(a_profile_knows_what_the_program_is_to_do, no_site),
        cmocka_unit_test_setup(auto_takes_what_knows_the_program, no_site),
        cmocka_unit_test_setup(unknown_profiles_are_refused, no_site),
        cmocka_unit_test(a_restart_command_has_the_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
