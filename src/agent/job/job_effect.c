/* What a step of a job wants done. See job_effect.h. */
#include "src/agent/job/job_effect.h"

#include <stdio.h>

#include "src/base/check.h"

void job_effects_begin(struct job_effects *effects)
{
    effects->commit = effects->reporting = false;
    effects->since_us = 0;
    effects->count = 0;
    CHECK(!effects->reporting);
}

struct job_effect *job_effect_add(struct job_effects *effects, enum job_effect_kind kind)
{
    CHECK(effects->count < JOB_EFFECTS_MAX);
    effects->effects[effects->count] = (struct job_effect){.kind = kind};
    return &effects->effects[effects->count++];
}

Ckpt__V1__AgentReport *job_report_begin(struct job_effects *effects, Ckpt__V1__ReportKind kind,
                                        uint64_t run)
{
    Ckpt__V1__AgentReport *report = &effects->report;

    CHECK(!effects->reporting);
    CHECK(kind != CKPT__V1__REPORT_KIND__REPORT_KIND_UNSPECIFIED);
    effects->commit = effects->reporting = true;
    effects->detail[0] = effects->manifest[0] = effects->label[0] = '\0';
    ckpt__v1__agent_report__init(report);
    report->kind = kind;
    report->run = run;
    report->detail = effects->detail;
    report->manifest_sha256 = effects->manifest;
    report->label = effects->label;
    return report;
}

void job_report_detail(struct job_effects *effects, const char *text)
{
    CHECK(effects->reporting);
    snprintf(effects->detail, sizeof(effects->detail), "%s", text);
}
