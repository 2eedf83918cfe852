/* Profiles as files: their keys, what is wrong with them, where they are found. S1-030. */
#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "src/ask/ask.h"
#include "src/profile/patterns.h"
#include "src/profile/profile.h"

static char folder[] = "/tmp/ckpt-profiles-XXXXXX";
static struct profile profile;
static struct err err;

static int set_up(void **state)
{
    (void)state;
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("CKPT_PROFILES", folder, 1), 0);
    memset(&profile, 0, sizeof(profile));
    return 0;
}

static int tear_down(void **state)
{
    char line[128];

    (void)state;
    profile_close(&profile);
    snprintf(line, sizeof(line), "rm -r %s", folder);
    return system(line);
}

static const char *put_file(const char *name, const char *text, size_t length)
{
    static char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

static int open_anew(const char *word)
{
    profile_close(&profile);
    return profile_open(&profile, word, &err);
}

static int parse(const char *text)
{
    profile_close(&profile);
    return profile_parse(&profile, "my.yaml", text, strlen(text), &err);
}

static void keys_are_taken_and_have_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse("about: a solver\n"
                           "programs: solver solver_*\n"
                           "request: {way: file, file: STOP, text: now}\n"
                           "files: 'out/* state'\n"
                           "completion: {quiet: 5s}\n"
                           "afterwards: {then: goes-on}\n"),
                     0);
    assert_string_equal(profile.about, "a solver");
    assert_string_equal(profile.file, "STOP");
    assert_string_equal(profile.text, "now");
    assert_string_equal(profile.files, "out/* state");
    assert_uint_equal(profile.quiet_ms, 5000);
    assert_true(profile_goes_on(&profile));
    assert_int_equal(parse("request:\n  way: signal\n"), 0);
    assert_string_equal(profile.way, "signal");
    assert_string_equal(profile.whom, "");
    assert_string_equal(profile.files, "");
    assert_uint_equal(profile.ranks, 0);
    assert_false(profile_has_file(&profile));
    assert_int_equal(parse("request: {file: S}\nfiles: a\n"), 0);
    assert_string_equal(profile.way, "file");
    assert_int_equal(parse("request: {command: save}\n"), 0);
    assert_string_equal(profile.way, "exec");
    assert_int_equal(parse("request: {signal: TERM}\nfiles: a\ntargets: {whom: rank=3}\n"), 0);
    assert_string_equal(profile.way, "file");
    assert_string_equal(profile.whom, "rank=3");
    assert_int_equal(parse("completion: {exit: 85, done_if: done}\n"), 0);
    assert_string_equal(profile.exit, "85");
    assert_true(profile_stands_in(&profile));
    assert_int_equal(parse("request: {way: signal, signal: TSTP}\n"), 0);
    assert_false(profile_stands_in(&profile));
    assert_int_equal(parse("request: {way: signal-usr2}\ntargets: {whom: group, ranks: 4}\n"), 0);
    assert_string_equal(profile.whom, "group");
    assert_uint_equal(profile.ranks, 4);
}

/* Each is named with its line, and the nearest word where there is one. */
static void wrong_keys_are_refused_with_line_and_nearest(void **state)
{
    static const struct {
        const char *text, *line, *says;
    } rows[] = {
        {"", "my.yaml", "expected keys"},
        {"about: x\n", "my.yaml", "request.way is missing"},
        {"request: {text: x}\n", "my.yaml", "request.way is missing"},
        {"about: x\nrequests: {way: shm}\n", "line 2", "the nearest known key is 'request'"},
        {"request:\n  wey: shm\n", "line 2", "the nearest known key is 'way'"},
        {"request:\n  way: shmem\n", "line 2", "the nearest is 'shm'"},
        {"request: {way: shm}\ntargets: {whom: groups}\n", "line 2", "the nearest is 'group'"},
        {"request: {way: file, file: S}\nfiles: a\nafterwards: {then: exit}\n", "line 3",
         "the nearest is 'exits'"},
        {"request: {way: file, file: S}\nfiles: /etc/*\n", "line 2", "has \"/etc/*\""},
        {"request: {way: file, file: S}\nfiles: ' '\n", "line 2", "is empty"},
        {"request: {way: file, file: out/}\nfiles: a\n", "line 1", "the name of a file"},
        {"request: {way: signal}\ntargets: {ranks: 257}\n", "line 2", "256"},
        {"request: {way: file, file: S}\nfiles: a\ncompletion: {exit_status: 256}\n", "line 3",
         "255"},
        {"request: {way: file, file: S}\nfiles: a\ncompletion: {quiet: 1ms}\n", "line 3", "100"},
        {"request: {signal: TURM}\nfiles: a\n", "line 1", "request.signal is wrong"},
        {"completion: {exit: 0}\n", "line 1", "must be a status, 1 to 255"},
        {"request: {signal: TERM}\nfiles: a\ntargets: {whom: rank=x}\n", "line 3", "rank=N"},
        {"about: \"two\\nlines\"\nrequest: {way: shm}\n", "line 1", "must be one line"},
        {"programs: bin/vasp\nrequest: {way: shm}\n", "line 1", "has a slash"},
        {"request: {way: shm}\nrequest: {way: shm}\n", "line 2", "given twice"},
        {"request: [shm]\n", "line 1", "expected a mapping"},
        {"request: {way: shm}\n--- {}\n", "my.yaml", "not another document"},
        {"request: {way: &a shm}\nabout: *a\n", "line 2", "aliases are not supported"},
        {"request: {way: shm\n", "my.yaml", "not valid YAML"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(parse(rows[i].text), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_contains(err.text, rows[i].line);
        assert_contains(err.text, rows[i].says);
    }
}

/* A key that has no effect beside the others is an error, at its line. */
static void keys_that_do_not_go_together_are_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"request:\n  way: signal\n  file: STOP\nfiles: a\n", "line 3: request.file"},
        {"request:\n  way: file\n  text: now\n", "line 3: request.text"},
        {"request: {way: shm}\nfiles: a\n", "line 2: files"},
        {"completion: {exit: 85}\noutputs: a\n", "line 2: outputs"},
        {"request: {way: file, file: S}\n", "wants the key files"},
        {"request: {way: file, file: S}\nfiles: a\ncompletion: {quiet: 3s}\n",
         "line 3: completion.quiet_ms"},
        {"request: {way: file, file: S}\nfiles: a\nafterwards: {then: goes-on}\n"
         "completion: {exit_status: 85}\n",
         "line 4: completion.exit_status"},
        {"request: {file: S, signal: TERM}\nfiles: a\n", "line 1: request.signal"},
        {"completion: {exit: 85}\nafterwards: {then: goes-on}\n", "line 1: completion.exit"},
        {"request: {file: S}\nfiles: a\ncompletion: {tracker: t}\n", "line 3: completion.tracker"},
        {"request: {way: shm}\nafterwards: {then: exits}\n", "line 2: afterwards.then"},
        {"request: {way: shm, command: x}\n", "line 1: request.command"},
        {"request: {command: x, echkpnt: d}\n", "line 1: request.echkpnt"},
        {"request: {way: exec}\n", "wants request.command"},
        {"request: {way: signal}\nafterwards: {restart_command: x}\n",
         "line 2: afterwards.restart_command"},
        {"request: {way: shm}\ntargets: {whom: group}\n", "line 2: targets.whom"},
        {"request: {way: file, file: S}\nfiles: a\ntargets: {ranks: 2}\n", "line 3: targets.ranks"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(parse(rows[i].text), -1);
        assert_contains(err.text, rows[i].says);
    }
}

/* Whatever bytes a file has, it is taken or refused. */
static void random_bytes_do_no_harm(void **state)
{
    static const char whole[] = "about: a\nprograms: p q\nrequest: {way: file, file: S, text: t}\n"
                                "files: 'a b'\ncompletion: {exit_status: 3}\n";
    uint64_t seed = test_seed();
    char text[sizeof(whole)];
    size_t taken = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        memcpy(text, whole, sizeof(whole));
        for (uint64_t i = 0; i <= test_random(&seed) % 4; i++)
            text[test_random(&seed) % (sizeof(whole) - 1)] = (char)test_random(&seed);
        profile_close(&profile);
        err.text[0] = '\0';
        if (profile_parse(&profile, "my.yaml", text, sizeof(whole) - 1, &err) == 0)
            taken++;
        else
            assert_contains(err.text, "my.yaml");
    }
    assert_true(taken > 0);
}

/* All that are built in can be taken, and say what they are for. */
static void built_in_profiles_are_well(void **state)
{
    static struct profile_name names[PROFILES_MAX];
    size_t count = profile_names(names);

    (void)state;
    assert_true(count >= 13);
    for (size_t i = 0; i < count; i++) {
        assert_true(names[i].built_in);
        assert_true(i == 0 || strcmp(names[i - 1].name, names[i].name) < 0);
        assert_null(ask_find(names[i].name)); /* a way of asking would hide it */
        assert_int_equal(open_anew(names[i].name), 0);
        assert_true(strlen(profile.about) > 0);
    }
    assert_int_equal(open_anew("vasp"), 0);
    assert_string_equal(profile.text, "LSTOP = .TRUE.");
    assert_int_equal(open_anew("quantum-espresso"), 0);
    assert_uint_equal(profile.exit_status, 255);
}

static void a_site_adds_profiles_and_replaces_some(void **state)
{
    static struct profile_name names[PROFILES_MAX];
    const char text[] = "about: ours\nprograms: vasp_ours\nrequest: {way: shm}\n";
    size_t count, ours = 0;

    (void)state;
    put_file("ours.yaml", text, strlen(text));
    put_file("vasp.yaml", text, strlen(text));
    put_file("notes.txt", text, strlen(text));
    put_file(".yaml", text, strlen(text));
    count = profile_names(names);
    for (size_t i = 0; i < count; i++)
        ours += !names[i].built_in;
    assert_uint_equal(ours, 2);
    assert_int_equal(open_anew("vasp"), 0);
    assert_string_equal(profile.way, "shm");
    assert_contains(profile.settings.path, folder);
}

static void what_is_no_profile_is_named(void **state)
{
    char big[PROFILE_FILE_BYTES + 2], path[256], longer[200];

    (void)state;
    assert_int_equal(open_anew("quantum_espresso"), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_contains(err.text, "the nearest is quantum-espresso");
    assert_int_equal(open_anew("./none.yaml"), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(open_anew("a b"), -1);
    assert_contains(err.text, "1 to 128 characters");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(open_anew(longer), -1);
    memset(big, '#', sizeof(big));
    assert_int_equal(open_anew(put_file("big.yaml", big, sizeof(big))), -1);
    assert_contains(err.text, "larger than 65536 bytes");
    assert_int_equal(open_anew(folder), -1);
    assert_contains(err.text, "no regular file");
    snprintf(path, sizeof(path), "%s/pipe.yaml", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_anew(path), -1);
    assert_contains(err.text, "no regular file");
    assert_int_equal(open_anew(put_file("nul.yaml", "about: \0", 8)), -1);
}

static void a_command_is_known_by_its_program(void **state)
{
    static const char *const known[][6] = {{"vasp_std"},
                                           {"/opt/vasp/bin/vasp_gam", "x"},
                                           {"mpirun", "-np", "4", "vasp_std"},
                                           {"/usr/bin/srun", "vasp_ncl"}};
    static const char *const unknown[][6] = {
        {"bash", "vasp_std"}, {"python3", "run.py", "pw.x"}, {"vasp_std.sh"}, {"mpirun"}, {NULL}};
    const char broken[] = "request: {way: none}\nprograms: '*'\n";
    struct profile_known found;

    (void)state;
    put_file("aaa.yaml", broken, strlen(broken)); /* passed over */
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        profile_close(&profile);
        assert_true(profile_of_command((char *const *)(uintptr_t)known[i], &profile, &found));
        assert_string_equal(found.name, "vasp");
        assert_contains(found.program, "vasp_");
    }
    profile_close(&profile);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_false(profile_of_command((char *const *)(uintptr_t)unknown[i], &profile, &found));
}

/* A program of that version at that place, below the folder. */
static const char *put_program(const char *place, const char *name)
{
    static char path[256];
    char line[512];

    snprintf(line, sizeof(line), "mkdir -p %s/%s && touch %s/%s/%s && chmod +x %s/%s/%s", folder,
             place, folder, place, name, folder, place, name);
    assert_int_equal(system(line), 0);
    snprintf(path, sizeof(path), "%s/%s/%s", folder, place, name);
    return path;
}

static void the_version_of_a_program_is_that_of_its_place(void **state)
{
    static const struct {
        const char *place, *version;
    } rows[] = {{"vasp/6.4.2/bin", "6.4.2"},         {"gcc-12.2.0/vasp-5.4.4-openmpi/bin", "5.4.4"},
                {"OpenFOAM/OpenFOAM-v2312", "2312"}, {"cp2k_2024.1/exe/local", "2024.1"},
                {"lib/python3.11/bin", ""},          {"x86_64/7/bin", ""}};
    char version[PROFILE_VERSION_BYTES], path[300], before[4096];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(profile_version(put_program(rows[i].place, "prog"), version),
                            rows[i].version);
    snprintf(path, sizeof(path), "%s/current", folder);
    assert_int_equal(symlink("vasp/6.4.2", path), 0);
    snprintf(path, sizeof(path), "%s/current/bin/prog", folder);
    assert_string_equal(profile_version(path, version), "6.4.2"); /* as a module leads to it */
    snprintf(before, sizeof(before), "%s", getenv("PATH"));
    snprintf(path, sizeof(path), "/none:%s/vasp/6.4.2/bin", folder);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_string_equal(profile_version("prog", version), "6.4.2");
    assert_string_equal(profile_version("no-such-program", version), "");
    assert_int_equal(setenv("PATH", before, 1), 0);
}

/* A site's preset for one version comes before one for all, whatever their names. */
static void a_command_is_known_by_its_program_and_version(void **state)
{
    const char five[] =
        "about: old\nprograms: vasp_std\nversions: 5.* 4.6.?\nrequest: {way: file}\n";
    const char wrong[] = "programs: vasp_std\nversions: five\nrequest: {way: file}\n";
    static const struct {
        const char *place, *name, *version;
    } rows[] = {{"vasp/5.4.4/bin", "zz-vasp-5", "5.4.4"},
                {"vasp/4.6.3/bin", "zz-vasp-5", "4.6.3"},
                {"vasp/6.4.2/bin", "vasp", "6.4.2"},
                {"vasp/bin", "vasp", ""}};
    struct profile_known found;

    (void)state;
    put_file("zz-vasp-5.yaml", five, strlen(five));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const command[] = {"mpirun", put_program(rows[i].place, "vasp_std"), NULL};

        profile_close(&profile);
        assert_true(profile_of_command((char *const *)(uintptr_t)command, &profile, &found));
        assert_string_equal(found.name, rows[i].name);
        assert_string_equal(found.version, rows[i].version);
    }
    assert_int_equal(open_anew(put_file("wrong.yaml", wrong, strlen(wrong))), -1);
    assert_contains(err.text, "it must be patterns of versions, as '6.* 7.0.?'");
}

static void a_registration_takes_the_way_of_a_profile(void **state)
{
    static const struct {
        const char *word, *way; /* NULL: it is refused */
    } rows[] = {{"", ""},        {"auto", ""},       {"grpc", "grpc"},      {"vasp", "file"},
                {"lsf", "exec"}, {"later", "later"}, {"./none.yaml", NULL}, {"a b", NULL},
                {"wrong", NULL}};
    const char broken[] = "request: {way: none}\n";
    char way[ID_MAX_BYTES + 1];

    (void)state;
    put_file("wrong.yaml", broken, strlen(broken));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(profile_way(rows[i].word, way, &err), rows[i].way == NULL ? -1 : 0);
        if (rows[i].way != NULL)
            assert_string_equal(way, rows[i].way);
    }
}

static void patterns_stay_below_the_folder(void **state)
{
    static const char *const wrong[] = {"", " ", "/etc/*", "a ../b", "a/../../b", ".."};
    char longer[PATTERN_BYTES + 8], pattern[PATTERN_BYTES];
    const char *at;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(patterns_check(wrong[i], &err), -1);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(patterns_check(longer, &err), -1);
    assert_contains(err.text, "at most 255 are taken");
    assert_int_equal(patterns_check(" CHGCAR ..WAVE*\nout/..x ", &err), 0);
    at = patterns_next(" a\tb ", pattern);
    assert_string_equal(pattern, "a");
    at = patterns_next(at, pattern);
    assert_string_equal(pattern, "b");
    (void)patterns_next(at, pattern);
    assert_string_equal(pattern, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_taken_and_have_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_keys_are_refused_with_line_and_nearest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(keys_that_do_not_go_together_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(random_bytes_do_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(built_in_profiles_are_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_site_adds_profiles_and_replaces_some, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_profile_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_command_is_known_by_its_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_version_of_a_program_is_that_of_its_place, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_command_is_known_by_its_program_and_version, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_registration_takes_the_way_of_a_profile, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(patterns_stay_below_the_folder, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
