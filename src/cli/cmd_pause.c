/* ckptctl cluster pause, cluster resume: the broker does nothing by itself for a while. */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/text.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/human.h"
#include "src/cli/members.h"
#include "src/cli/pause.h"

enum { BY_BYTES = 129, PLAN_BYTES = 1024 };

/* "ann@login1", as far as this machine knows. */
static const char *who_asks(char by[BY_BYTES])
{
    const struct passwd *user = getpwuid(getuid());
    char host[64] = "";

    if (gethostname(host, sizeof(host)) != 0 || memchr(host, '\0', sizeof(host)) == NULL)
        host[0] = '\0';
    if (user == NULL)
        snprintf(by, BY_BYTES, "uid %lu@%.60s", (unsigned long)getuid(), host);
    else
        snprintf(by, BY_BYTES, "%.60s@%.60s", user->pw_name, host);
    return by;
}

/* With what is under way now, for whoever waits for its end. */
static void read_plan(struct cli *cli, uint64_t duration_ms, char plan[PLAN_BYTES])
{
    struct members members;
    char end[HUMAN_BYTES];

    members_ask(cli, CALL_QUICK, &members);
    snprintf(
        plan, PLAN_BYTES,
        "plan: %s%s\n"
        "  no checkpoint is asked for, also none before a walltime; jobs that stop or fail are "
        "not restarted\n"
        "  nothing is moved or removed; requests for such are refused, but for sensitive "
        "claims and preemptions with force\n"
        "  %" PRIu64 " checkpoints are under way and end as they would have: ckptctl "
        "checkpoints",
        duration_ms == 0 ? "until ckptctl cluster resume" : "for ",
        duration_ms == 0 ? "" : human_duration(duration_ms, end),
        members.best == NULL ? 0 : members.best->active_checkpoint_count);
    members_free(&members);
}

static void told_paused(struct cli *cli, const char *what, const Ckpt__V1__MutationReply *reply)
{
    (void)what;
    cli_out(cli,
            "paused (index %" PRIu64
            "): what is under way ends, ckptctl status counts it; ckptctl cluster resume ends the "
            "pause\n",
            reply->index);
}

enum cli_exit command_cluster_pause(struct cli *cli)
{
    Ckpt__V1__PauseClusterRequest request = CKPT__V1__PAUSE_CLUSTER_REQUEST__INIT;
    char by[BY_BYTES], plan[PLAN_BYTES];

    request.reason = text_message(cli_argument(cli, 0));
    request.duration_ms = cli_number(cli, "for", 0);
    request.by = text_message(who_asks(by));
    read_plan(cli, request.duration_ms, plan);
    cli_note(cli, "%s", plan);
    return call_mutate_told(cli, "pause the cluster", "OperatorService/PauseCluster", &request.base,
                            told_paused);
}

enum cli_exit command_cluster_resume(struct cli *cli)
{
    Ckpt__V1__PauseClusterRequest request = CKPT__V1__PAUSE_CLUSTER_REQUEST__INIT;
    char by[BY_BYTES];

    request.resume = true;
    request.by = text_message(who_asks(by));
    return call_mutate_simple(cli, "resume the cluster", "OperatorService/PauseCluster",
                              &request.base);
}

void pause_note(struct cli *cli)
{
    struct members members;
    char by[BY_BYTES], since[HUMAN_BYTES];

    members_ask(cli, CALL_QUICK, &members);
    if (members.best != NULL && members.best->pause != NULL)
        cli_note(
            cli,
            "remark: the cluster is PAUSED by %s since %s: nothing of this is asked for before "
            "ckptctl cluster resume",
            human_safe(members.best->pause->by, by, sizeof(by)),
            human_clock(members.best->pause->since_ms, since));
    members_free(&members);
}
