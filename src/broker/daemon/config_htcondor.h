/* The section `htcondor` of ckptd.yaml. See src/serve/htcondor.h. */
#ifndef CKPT_BROKER_CONFIG_HTCONDOR_H
#define CKPT_BROKER_CONFIG_HTCONDOR_H

#include <stdio.h>

struct config;
struct err;

/* 0; or -1 with the name, the line and what to write instead. */
int config_take_htcondor(struct config *config, struct err *err);
/* A line on each name that is given and has no effect here. */
void config_warn_htcondor(const struct config *config, FILE *to);

#endif
