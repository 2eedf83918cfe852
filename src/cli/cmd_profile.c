/* ckptctl profile list, show, check: profiles as files. All of it works on local files; see
 * src/profile/profile.h. */
#include <inttypes.h>
#include <string.h>

#include "src/base/check.h"
#include "src/cli/commands.h"
#include "src/cli/output.h"
#include "src/profile/profile.h"

static enum cli_exit fail_with(struct cli *cli, const struct err *err)
{
    enum cli_exit code = err->code == ERR_NOT_FOUND ? CLI_NOT_FOUND
                         : err->code == ERR_INVALID ? CLI_USAGE
                                                    : CLI_FAILED;

    return cli_fail(cli, code, NULL, "%s", err->text);
}

static json_t *profile_json(const char *name, const struct profile *profile)
{
    json_t *json = json_object();
    const char *told_by = profile->signal;
    const struct {
        const char *key, *value;
    } texts[] = {{"name", name},
                 {"path", profile->settings.path},
                 {"about", profile->about},
                 {"programs", profile->programs},
                 {"files", profile->files},
                 {"way", profile->way},
                 {"file", profile->file},
                 {"signal", told_by},
                 {"text", profile->text},
                 {"command", profile->command},
                 {"echkpnt", profile->echkpnt},
                 {"whom", profile->whom},
                 {"exit", profile->exit},
                 {"done_if", profile->done_if},
                 {"go_on_if", profile->go_on_if},
                 {"line", profile->line},
                 {"tracker", profile->tracker},
                 {"then", profile->then},
                 {"restart_command", profile->restart_command}};

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        json_object_set_new(json, texts[i].key, json_string(texts[i].value));
    json_object_set_new(json, "ranks", json_integer(profile->ranks));
    json_object_set_new(json, "exit_status", json_integer(profile->exit_status));
    json_object_set_new(json, "quiet_ms", json_integer((json_int_t)profile->quiet_ms));
    return json;
}

/* ---- list ---- */

static const struct output_column columns[] = {{"PROFILE", OUTPUT_LEFT},
                                               {"WAY", OUTPUT_LEFT},
                                               {"FROM", OUTPUT_LEFT},
                                               {"PROGRAMS", OUTPUT_ONLY_WIDE},
                                               {"ABOUT", OUTPUT_LEFT}};

static void list_row(struct output_table *table, const struct profile_name *name,
                     const struct profile *profile)
{
    output_row(table);
    output_cell(table, "%s", name->name);
    output_cell(table, "%s", profile->way);
    output_cell(table, "%s", name->built_in ? "built in" : profile->settings.path);
    output_cell(table, "%s", profile->programs);
    output_cell(table, "%s", profile->about);
}

/* One that is wrong is told of on stderr, and the others are listed. */
enum cli_exit command_profile_list(struct cli *cli)
{
    static struct profile_name names[PROFILES_MAX];
    size_t count = profile_names(names);
    json_t *items = json_array();
    struct output_table table;
    enum cli_exit code = CLI_OK;
    struct profile profile;
    struct err err;

    output_table_init(&table, cli, columns, ARRAY_COUNT(columns));
    for (size_t i = 0; i < count; i++) {
        if (profile_open(&profile, names[i].name, &err) == 0) {
            list_row(&table, &names[i], &profile);
            json_array_append_new(items, profile_json(names[i].name, &profile));
        } else {
            fprintf(cli->error, "error: %s\n", err.text);
            code = CLI_PARTIAL;
        }
        profile_close(&profile);
    }
    if (cli_is_json(cli)) {
        output_table_drop(&table);
        output_json_list(cli, "profiles", "profile", items);
        return code;
    }
    json_decref(items);
    output_table_print(&table);
    return code;
}

/* ---- show, check ---- */

static enum cli_exit print_json(struct cli *cli, const char *name)
{
    struct profile profile;
    struct err err;
    enum cli_exit code = CLI_OK;

    if (profile_open(&profile, name, &err) == 0)
        output_json(cli, "profile", profile_json(name, &profile));
    else
        code = fail_with(cli, &err);
    profile_close(&profile);
    return code;
}

enum cli_exit command_profile_show(struct cli *cli)
{
    const char *name = cli_argument(cli, 0);
    struct profile_source source;
    struct err err;

    if (cli_is_json(cli))
        return print_json(cli, name);
    if (profile_source_find(name, &source, &err) != 0)
        return fail_with(cli, &err);
    if (!output_name(cli, name)) {
        cli_out(cli, "# %s\n", source.path);
        fwrite(source.text, 1, source.length, cli->out);
    }
    profile_source_free(&source);
    return CLI_OK;
}

enum cli_exit command_profile_check(struct cli *cli)
{
    const char *name = cli_argument(cli, 0);
    struct profile profile;
    struct err err;
    enum cli_exit code = CLI_OK;

    if (profile_open(&profile, name, &err) != 0)
        code = fail_with(cli, &err);
    else if (cli_is_json(cli))
        output_json(cli, "profile", profile_json(name, &profile));
    else if (!output_name(cli, name))
        cli_out(cli, "%s is well: ckpt-run --profile %s\n", profile.settings.path, name);
    profile_close(&profile);
    return code;
}
